"""Resolving verdict objects: the values of mode naive, as early as known, in order on request."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import (
    Formula,
    Monitor,
    MtlmonError,
    Resolution,
    Summary,
    Verdict,
    first,
    resolve,
    violations,
)
from tests import strategies
from tests.doors import decision_delay
from tests.traces import MODES, EndTime, Event, Mode, Step

Steps = tuple[Step, ...]
Value = tuple[int, int, bool]

ENDS = st.sampled_from([None, "last", "inf"])


def events_of(steps: Steps) -> list[tuple[int, frozenset[str]]]:
    return [(step.time_stamp, step.atoms) for step in steps if isinstance(step, Event)]


def values(verdicts: Iterable[Verdict]) -> list[Value]:
    found = []
    for verdict in verdicts:
        assert verdict.value is not None
        found.append((verdict.time_stamp, verdict.offset, verdict.value))
    return found


def verdict(line: str) -> Verdict:
    """A verdict from its line; unpickled, for only monitors make verdicts."""
    point, _, value = line.partition(" ")
    fields = [int(part) for part in point.split(":")]
    if value in ("true", "false"):
        fields += [value == "true", 0, 0]
    else:
        fields += [2, *(int(part) for part in value.removeprefix("= ").split(":"))]
    make = Monitor("true").step(0)[0].__reduce__()[0]
    assert callable(make)
    made = make(*fields)
    assert isinstance(made, Verdict)
    return made


def naive(formula: Formula, steps: Steps, end_time: EndTime) -> list[Value]:
    return sorted(values(Monitor(formula, "naive")(events_of(steps), end_time)))


@given(strategies.formulas(), strategies.traces(), ENDS, st.sampled_from(MODES))
def test_values_are_those_of_mode_naive(
    formula: Formula, steps: Steps, end_time: EndTime, mode: Mode
) -> None:
    expected = naive(formula, steps, end_time)
    verdicts = list(Monitor(formula, mode)(events_of(steps), end_time))
    resolved = resolve(verdicts)
    assert sorted(values(resolved)) == expected
    assert resolved.open_count == sum(v.ref is not None for v in verdicts) - (
        len(expected) - sum(v.ref is None for v in verdicts)
    )
    assert values(resolve(verdicts, in_order=True)) == expected
    assert values(resolve(Monitor(formula, mode)(events_of(steps), end_time), in_order=True)) == (
        expected
    )
    assert values(violations(verdicts, in_order=True)) == [v for v in expected if not v[2]]
    earliest = next((v for v in expected if not v[2]), None)
    for stream in (verdicts, Monitor(formula, mode)(events_of(steps), end_time)):
        found = first(stream)
        assert (None if found is None else values([found])[0]) == earliest
    summary = Summary(Monitor(formula, mode)(events_of(steps), end_time))
    assert (summary.true, summary.false) == (
        sum(value for *_, value in expected),
        sum(not value for *_, value in expected),
    )
    assert summary.total == len(events_of(steps))
    assert (None if summary.first_violation is None else values([summary.first_violation])) == (
        None if earliest is None else [earliest]
    )


@given(strategies.bounded_formulas(), strategies.traces(), ENDS, st.sampled_from(MODES))
def test_the_delay_of_decisions_is_reach_enough(
    formula: Formula, steps: Steps, end_time: EndTime, mode: Mode
) -> None:
    verdicts = list(Monitor(formula, mode)(events_of(steps), end_time))
    reach = decision_delay(formula)
    expected = naive(formula, steps, end_time)
    assert values(resolve(verdicts, in_order=True, reach=reach)) == expected
    found = first(verdicts, reach=reach)
    assert (None if found is None else values([found])[0]) == next(
        (value for value in expected if not value[2]), None
    )


@given(strategies.formulas(), strategies.traces(), st.sampled_from(MODES))
def test_order_waits_for_nothing_but_what_is_pending(
    formula: Formula, steps: Steps, mode: Mode
) -> None:
    monitor, plain = Monitor(formula, mode), Monitor(formula, "naive")
    ordered = Resolution(in_order=True, monitor=monitor)
    prompt = Resolution()
    known: list[Value] = []
    given_out: list[Value] = []
    for time_stamp, atoms in events_of(steps):
        known += values(plain.step(time_stamp, atoms))
        verdicts = monitor.step(time_stamp, atoms)
        given_out += values(ordered.push(verdicts))
        pending = monitor.pending
        assert given_out == sorted(v for v in known if not pending or v[:2] < pending[0])
        prompt.push(verdicts)
        assert prompt.open_count == len(plain.pending) - len(pending)
    assert sorted(given_out + values(ordered.finish())) == sorted(known)


def test_values_come_as_early_as_they_are_known() -> None:
    seen = []

    def events() -> Iterable[tuple[int, set[str]]]:
        for event in [(0, {"q"}), (1, set()), (1, set()), (2, {"p"}), (3, {"p"})]:
            seen.append(event[0])
            yield event

    stream = resolve(Monitor("q OR EVENTUALLY[0,5] p")(events()), in_order=True)
    assert str(next(stream)) == "0:0 true"
    assert seen == [0]
    assert stream.open_count == 0
    assert str(next(stream)) == "1:0 true"
    assert seen == [0, 1, 1, 2]
    assert [str(v) for v in stream] == ["1:1 true", "2:0 true", "3:0 true"]
    assert next(stream, None) is None


def test_the_first_violation_ends_the_reading() -> None:
    def violating() -> Iterable[tuple[int, set[str]]]:
        yield 0, {"p"}
        yield 1, {"bad"}
        yield 2, {"q"}
        raise AssertionError("read on")

    found = first(Monitor("NOT bad AND (p IMPLIES EVENTUALLY[0,5] q)")(violating()))
    assert str(found) == "1:0 false"


def test_what_a_stream_has_given_out_already_is_not_needed() -> None:
    stream = Monitor("EVENTUALLY[0,5] p")([(0, []), (1, ["p"]), (2, []), (2, []), (3, ["p"])])
    assert str(next(stream)) == "0:0 true"
    assert [str(v) for v in resolve(stream, in_order=True)] == [
        "1:0 true",
        "2:0 true",
        "2:1 true",
        "3:0 true",
    ]


def test_equivalents_of_equivalents() -> None:
    lines = ["1:3 = 1:0", "1:5 = 1:3", "1:6 = 1:5", "1:0 false"]
    resolved = [str(v) for v in resolve(map(verdict, lines))]
    assert resolved == ["1:0 false", "1:3 false", "1:5 false", "1:6 false"]
    assert len(Resolution().push(map(verdict, lines))) == 4


def test_monitors_finish_when_an_end_time_is_given() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    assert [str(v) for v in monitor([(0, []), (0, [])])] == ["0:1 = 0:0"]
    assert [str(v) for v in monitor([(1, [])], "inf")] == ["0:0 false", "1:0 false"]
    with pytest.raises(MtlmonError, match="finished"):
        monitor.step(2)


def test_bad_verdicts() -> None:
    with pytest.raises(MtlmonError, match="1:0 = 1:0: a time-point is equivalent to an earlier"):
        list(resolve([verdict("1:0 = 1:0")]))
    with pytest.raises(MtlmonError, match="earlier one"):
        Resolution().push([verdict("1:0 true"), verdict("1:0 = 2:0")])
    with pytest.raises(MtlmonError, match="earlier one"):
        Summary([verdict("1:0 = 2:0")])
    for thing in ("1:0 true", None, 5):
        for use in (
            lambda verdicts: list(resolve(verdicts)),
            lambda verdicts: Resolution().push(verdicts),
            first,
            Summary,
        ):
            with pytest.raises(TypeError):
                use([thing])  # type: ignore[list-item]
    with pytest.raises(MtlmonError, match="a reach is at least 0"):
        resolve([], in_order=True, reach=-1)
    lines = ["0:1 = 0:0", "5:0 true", "9:0 true", "0:0 true"]
    assert len(list(resolve(map(verdict, lines), in_order=True, reach=9))) == 4
    with pytest.raises(MtlmonError, match="the reach is too small"):
        list(resolve(map(verdict, lines), in_order=True, reach=2))


def test_largest_numbers() -> None:
    largest = f"{2**63 - 1}:{2**64 - 1}"
    lines = [f"{largest} = 0:0", "0:0 true"]
    for reach in (None, 0, 2**63 - 1, 2**70):
        resolved = resolve(map(verdict, lines), in_order=True, reach=reach)
        assert [str(v) for v in resolved] == ["0:0 true", f"{largest} true"]


def test_summaries() -> None:
    assert str(Summary()).splitlines()[0] == "time-points  0"
    summary = Summary(map(verdict, ["5:0 false", "1:1 = 1:0", "1:2 = 1:0", "3:0 true"]))
    assert (summary.true, summary.false, summary.undecided) == (1, 1, 3)
    assert (summary.equivalent, summary.total) == (2, 5)
    summary.update([verdict("1:0 false")])
    assert (summary.true, summary.false, summary.undecided) == (1, 4, 0)
    assert str(summary.first_violation) == "1:0 false"
    assert repr(summary) == "<Summary: 1 true, 4 false, 0 undecided>"
    assert "false        4   80.00 %  first 1:0" in str(summary).splitlines()
    many = Summary(verdict(f"{k}:0 true") for k in range(1000))
    assert "true         1,000  100.00 %" in str(many).splitlines()


def test_a_stream_of_counted_verdicts_that_is_closed_has_ended() -> None:
    verdicts = map(verdict, ["1:0 true", "2:0 true", "3:0 true"])
    watched = Summary().watch(verdicts)
    next(watched)
    watched.close()  # type: ignore[attr-defined]
    assert list(watched) == []
    assert str(next(verdicts)) == "2:0 true"


def test_resolved_verdicts_are_verdicts() -> None:
    (resolved, _) = resolve(map(verdict, ["1:1 = 1:0", "1:0 true"]))
    assert resolved == verdict("1:0 true")
    assert pickle.loads(pickle.dumps(resolved)) == resolved
