"""The collector against plain Python on lists."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtlmon
from mtlmon.reporting import Collector, KeyCount, KeyReport, PolicyReport, Violation
from mtlmon.verdict_arrays import verdict_type
from tests.reporting import sample

Point = tuple[int, int, int, bool]
"""Time-stamp, key, offset, value."""

points = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 30), st.integers(0, 2**63 - 1)),
        st.integers(0, 12),
        st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1)),
        st.booleans(),
    ),
    max_size=60,
    unique_by=lambda point: point[:3],
)


def feed(collector: Collector, batch: list[Point], keyed: bool) -> None:
    records = np.zeros(len(batch), verdict_type())
    for index, (time_stamp, _, offset, value) in enumerate(batch):
        records[index] = (time_stamp, offset, 0, 0, value)
    collector.add(records, [key for _, key, _, _ in batch] if keyed else None)


def plain(found: list[Point], keyed: bool, violations: int, keys: int) -> PolicyReport:
    """What a report should say, but for the timeline."""
    false = sorted(
        point[:3] if keyed else (point[0], -1, point[2]) for point in found if not point[3]
    )
    counts = Counter(key for _, key, _ in false)
    times = {key: [time for time, other, _ in false if other == key] for key in counts}
    order = sorted(counts, key=lambda key: (-counts[key], min(times[key]), key))
    return PolicyReport(
        name=None,
        formula="p",
        true=sum(point[3] for point in found),
        false=len(false),
        undecided=0,
        keys=KeyReport(
            len(counts),
            tuple(
                KeyCount(f"k{key}", counts[key], min(times[key]), max(times[key]))
                for key in order[:keys]
            ),
        )
        if keyed
        else None,
        violations=tuple(
            Violation(time, offset, f"k{key}" if keyed else None)
            for time, key, offset in false[:violations]
        ),
    )


def test_violations_are_described() -> None:
    collector = Collector("p", violations=2)
    collector.add_violations([1, 2, 2, 3], [0, 0, 0, 0], keys=[0, 0, 1, 0])
    assert collector.first_violations() == [(1, 0, 0), (2, 0, 0)]
    rows = {"x": ["log:5", "log:7"]}
    collector.describe(2, 0, 0, row="log:7", message="so", values=[("x", "1")], rows_of_values=rows)
    # not listed
    collector.describe(2, 0, 1, row="log:8")
    first, second = collector.report().violations
    assert (first.row, first.message, first.values) == (None, None, ())
    assert (first.rows_of_values, second.rows_of_values) == ({}, rows)
    assert (second.row, second.message, second.values) == ("log:7", "so", (("x", "1"),))


@given(points, st.booleans(), st.integers(1, 5), st.integers(1, 5), st.data())
def test_against_lists(
    found: list[Point], keyed: bool, violations: int, keys: int, data: st.DataObject
) -> None:
    collector = Collector("p", violations=violations, keys=keys)
    rest = list(found)
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        feed(collector, rest[:size], keyed)
        rest = rest[size:]
    report = collector.report("k{}".format)
    expected = plain(found, keyed, violations, keys)
    if report.timeline is not None:
        assert sum(report.timeline.counts) == expected.false
    has_keys = keyed and bool(found)
    for name in ("name", "formula", "true", "false", "undecided", "violations"):
        assert getattr(report, name) == getattr(expected, name)
    assert report.keys == (expected.keys if has_keys else None)


def test_a_run_with_equivalences_agrees_with_the_summary() -> None:
    events = sample.trace(2000)
    for mode in "local", "global", "naive":
        monitor = mtlmon.Monitor(sample.POLICY, mode)
        collector = Collector(sample.POLICY)
        resolution = mtlmon.Resolution()
        times = np.array([time for time, _ in events])
        letters = {name: [name in atoms for _, atoms in events] for name in monitor.atoms}
        for start in range(0, len(events), 300):
            part = slice(start, start + 300)
            batch = monitor.feed(times[part], {name: letters[name][part] for name in letters})
            collector.add(resolution.push_array(batch.records))
        collector.add_pending(monitor.pending)
        again = mtlmon.Monitor(sample.POLICY, mode)
        summary = mtlmon.Summary(again(events))
        report = collector.report()
        assert (report.true, report.false, report.undecided) == (
            summary.true,
            summary.false,
            summary.undecided,
        )
        assert report.time_points == len(events)
        first = summary.first_violation
        assert first is not None
        assert report.violations[0].time_point == f"{first.time_stamp}:{first.offset}"


def test_undecided_time_points() -> None:
    collector = Collector("EVENTUALLY[0,5] p", undecided=2)
    collector.add_undecided([9, 7, 8], [0, 1, 0], keys=[0, 2, 1], weights=[1, 5, 1])
    collector.add_undecided([7], [0], keys=[2])
    report = collector.report(["a", "b", "c"])
    assert report.undecided == 8
    assert [
        (one.time_point, one.key, one.until, one.weight) for one in report.undecided_time_points
    ] == [("7:0", "c", 12, 1), ("7:1", "c", 12, 5)]
    unbounded = Collector("EVENTUALLY p")
    unbounded.add_undecided([1], [0])
    assert unbounded.report().undecided_time_points[0].until is None
    late = Collector("EVENTUALLY[0,5] p")
    late.add_undecided([2**63 - 2], [0])
    assert late.report().undecided_time_points[0].until == 2**63 - 1


def test_violations_alone() -> None:
    collector = Collector("p")
    collector.add_violations([5, 3], np.array([0, 2**64 - 1], np.uint64))
    collector.add_true(7)
    collector.cover(0, 10)
    report = collector.report()
    assert (report.true, report.false) == (7, 2)
    assert [one.time_point for one in report.violations] == [f"3:{2**64 - 1}", "5:0"]
    assert report.timeline is not None
    assert (report.timeline.start, len(report.timeline.counts)) == (0, 11)
    collector.add_violations([], [])
    assert collector.report() == report


def test_keys_by_the_million() -> None:
    """Memory is that of the arrays, and the first keys are found among all."""
    source = np.random.default_rng(3)
    collector = Collector("p", keys=3)
    keys = source.permutation(1_000_000)
    for start in range(0, len(keys), 250_000):
        part = keys[start : start + 250_000]
        collector.add_violations(
            np.arange(start, start + len(part)), np.zeros(len(part), int), part
        )
    collector.add_violations([5, 6, 7], [0, 0, 0], [123_456, 123_456, 7])
    report = collector.report()
    assert report.keys is not None
    assert report.keys.violating == 1_000_000
    assert [(one.key, one.violations) for one in report.keys.top[:2]] == [("123456", 3), ("7", 2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [0, 0]), "2 offsets for 1 time-points"),
        (([1], [0], [0, 1]), "2 keys for 1 time-points"),
        (([-1], [0]), "time_stamps: -1 is not from 0"),
        (([1], [-2]), "offsets: -2 is not from 0"),
        (([1], [0], [-1]), "keys: -1 is not from 0"),
        (([1.5], [0]), "time_stamps are a one-dimensional array of integers, not of type float64"),
        (([[1]], [0]), "with 2 dimensions"),
        ((np.array([2**63], np.uint64), [0]), "9223372036854775808 is not from 0"),
        ((np.array([0, 2**63], np.uint64), [0, 0]), "9223372036854775808 is not from 0"),
    ],
)
def test_arrays_that_are_refused(arguments: tuple[object, ...], message: str) -> None:
    collector = Collector("p")
    with pytest.raises(mtlmon.MtlmonError, match=message):
        collector.add_violations(*arguments)  # type: ignore[arg-type]
    assert collector.report() == Collector("p").report()


def test_equivalences_are_refused() -> None:
    monitor = mtlmon.Monitor("EVENTUALLY[0,5] p")
    verdicts = monitor.feed([1, 1], [[False], [False]])
    with pytest.raises(mtlmon.MtlmonError, match=r"verdict 0 is an equivalence.*Resolution"):
        Collector("EVENTUALLY[0,5] p").add(verdicts)


def test_wrong_formulas_and_units() -> None:
    with pytest.raises(mtlmon.FormulaError):
        Collector("p UNTIL")
    with pytest.raises(mtlmon.UnitError):
        Collector("p", unit="fortnight")


def test_explanations_go_with_their_violation() -> None:
    collector = Collector("p", "one", number=4)
    collector.add_violations([1, 1, 2], [0, 1, 0], [5, 5, 6])
    assert collector.first_violations(2) == [(1, 0, 5), (1, 1, 5)]
    collector.explain(1, 1, 5, mtlmon.explain("p", [(1, set()), (1, set())], (1, 1)))
    collector.explain(2, 0, 6, mtlmon.UndecidedError("nobody knows"))
    one, two, three = collector.report().violations
    assert one.explanation is None
    assert two.explanation is not None
    assert "policy-4-why-1-1-5" in two.explanation.html
    assert three.explanation is not None
    assert (three.explanation.html, three.explanation.remark) == ("", "nobody knows")
