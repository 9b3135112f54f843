"""What a log breaks of the assumptions of its policy file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.process import mtlmon
from tests.doors import Assumption, AssumptionWatch

UNITS = {"ns": 1, "us": 1000, "ms": 1_000_000}


class Batch:
    """Rows of a log."""

    instances: Sequence[Mapping[str, int]] = ()

    def __init__(self, rows: list[tuple[int, int]]) -> None:
        self.time_stamps = np.array([time for time, _ in rows], np.int64)
        self._numbers = np.array([trace for _, trace in rows], np.uint32)

    def numbers_of(self, partition: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]] | None:
        return self._numbers if partition else None


class Keys:
    """Three keys."""

    def __len__(self) -> int:
        return 3

    def key(self, number: int) -> tuple[str, ...]:
        return ("abc"[number],)


class Log:
    """A log as one trace, and with three keys."""

    def __init__(self) -> None:
        self.key_tables = [None, Keys()]


def brute_force(
    rows: list[tuple[int, int]], unit: str, other: str, *, by_trace: bool
) -> dict[int, int]:
    """The most rows of a trace in a unit of time, by the number of the unit."""
    found: dict[tuple[int, int], int] = {}
    for time, trace in rows:
        place = time * UNITS[unit] // UNITS[other], trace if by_trace else 0
        found[place] = found.get(place, 0) + 1
    most: dict[int, int] = {}
    for (number, _), count in found.items():
        most[number] = max(count, most.get(number, 0))
    return most


@given(
    st.lists(st.tuples(st.sampled_from([0, 0, 1, 400, 1000]), st.integers(0, 2)), max_size=30),
    st.lists(st.integers(0, 30), max_size=3),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([("ns", "us"), ("us", "us"), ("ns", "ns")]),
)
def test_a_rate_is_broken_where_a_unit_has_too_many_rows(
    steps: list[tuple[int, int]], cuts: list[int], limit: int, by_key: bool, units: tuple[str, str]
) -> None:
    unit, other = units
    time, rows = 0, []
    for step, trace in steps:
        time += step
        rows.append((time, trace))
    subject = "rate per key" if by_key else "rate"
    assumptions = [Assumption(subject, limit, other), Assumption("keys", 2, None)]
    watch, at_once = (AssumptionWatch(assumptions, unit, [(), ("k",)]) for _ in range(2))
    log = Log()
    for start, end in zip(
        [0, *sorted(cuts)], [*sorted(cuts), max([len(rows), *cuts])], strict=True
    ):
        list(watch.note(Batch(rows[start:end]), log))  # type: ignore[arg-type]
        state = watch.snapshot()
        watch = AssumptionWatch(assumptions, unit, [(), ("k",)])
        watch.restore(state)
    list(at_once.note(Batch(rows), log))  # type: ignore[arg-type]
    # neither batches nor interruptions make a difference
    assert watch.broken == at_once.broken
    assert sum("assume keys <= 2" in one for one in watch.broken) == any(
        trace > 1 for _, trace in rows
    )
    watch.broken = [one for one in watch.broken if "assume keys" not in one]
    most = brute_force(rows, unit, other, by_trace=by_key)
    broken = [number for number, count in most.items() if count > limit]
    assert bool(watch.broken) == bool(broken)
    if broken:
        (message,) = watch.broken
        first = min(broken) * UNITS[other] // UNITS[unit]
        length = UNITS[other] // UNITS[unit]
        when = f"at time-stamp {first}" if length == 1 else f"from {first} to {first + length - 1}"
        assert message.endswith(when)
        assert f"more than {limit} row{'' if limit == 1 else 's'}" in message
        assert (" of k " in message) == by_key


def test_longer_time_stamps_have_the_rows_of_all_their_units() -> None:
    watch = AssumptionWatch([Assumption("rate", 2, "us")], "ms", [()])
    log = Log()
    log.key_tables.pop()
    assert not list(watch.note(Batch([(5, 0)] * 2000), log))  # type: ignore[arg-type]
    (message,) = watch.note(Batch([(5, 0)]), log)  # type: ignore[arg-type]
    assert message == ("the log breaks 'assume rate <= 2/us': more than 2,000 rows at time-stamp 5")


def test_without_a_unit_rates_are_not_watched() -> None:
    watch = AssumptionWatch([Assumption("rate", 0, "s")], None, [()])
    log = Log()
    log.key_tables.pop()
    assert not list(watch.note(Batch([(1, 0)]), log))  # type: ignore[arg-type]


FILE = """\
unit s
key ip
assume rate <= 3/s
assume rate per key <= 2/s
assume keys <= 2
stream n = count[0,5s]()
policy p: n < 100
"""
ROWS = "ts,ip\n1,a\n1,a\n2,b\n2,a\n2,b\n2,b\n2,b\n3,c\n3,d\n"
WARNINGS = (
    "mtlmon: the log breaks 'assume rate <= 3/s': more than 3 rows at time-stamp 2\n"
    "mtlmon: the log breaks 'assume rate per key <= 2/s': more than 2 rows of ip b at "
    "time-stamp 2\n"
    "mtlmon: the log breaks 'assume keys <= 2': more than 2 keys of ip\n"
)


def test_the_command_warns_once_and_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text(FILE)
    log.write_text(ROWS)
    ended = mtlmon("--summary", "--verdicts", "false", str(rules), str(log))
    assert (ended.status, ended.output) == (0, "")
    assert ended.errors.startswith(WARNINGS)
    lines = [line.split() for line in ended.errors.splitlines()]
    assert ["broken", "3", "assumptions", "of", "the", "policy", "file"] in lines
    ended = mtlmon("streams", str(rules), str(log))
    assert (ended.status, ended.errors) == (0, WARNINGS)
    log.write_text("ts,ip\n1,a\n2,b\n")
    assert mtlmon("streams", str(rules), str(log)).errors == ""


def test_text_logs_are_watched(tmp_path: Path) -> None:
    rules = tmp_path / "rules.mtl"
    rules.write_text("unit s\nassume rate <= 1/m\npolicy p: true\n")
    ended = mtlmon("--verdicts", "none", str(rules), log="@59 a\n@60 a\n@119 a\n")
    assert (ended.status, ended.errors) == (
        0,
        "mtlmon: the log breaks 'assume rate <= 1/m': more than 1 row from 60 to 119\n",
    )


def test_instances_are_those_that_are_alive_at_once(tmp_path: Path) -> None:
    text = """\
unit s
key ip
assume instances <= {limit}
stream n = n.last(or: 0) + 1 per user until silence() > 5s
stream seen = count[0,1s]() per page
policy p: count(true over n) < 100
policy q: sum(seen over seen) < 100
"""
    rows = "ts,ip,user,page\n1,a,x,1\n2,b,y,1\n3,a,z,2\n9,a,x,3\n9,b,x,4\n"
    (tmp_path / "log.csv").write_text(rows)
    # at 3, three users of two addresses; pages are forgotten sooner
    for limit, warning in [(3, ""), (2, "more than 2 instances of stream n\n")]:
        (tmp_path / "p.mtl").write_text(text.format(limit=limit))
        shown = warning and f"mtlmon: the log breaks 'assume instances <= {limit}': {warning}"
        for arguments in (["--verdicts", "false"], ["streams"]):
            found = mtlmon(*arguments, str(tmp_path / "p.mtl"), str(tmp_path / "log.csv"))
            assert found.errors == shown
            assert found.status == 0
    late = mtlmon("--lateness", "2s", str(tmp_path / "p.mtl"), str(tmp_path / "log.csv"))
    note = (
        "'assume instances <= 2' is not watched: how many instances are alive at once is not known"
    )
    assert late.errors == f"mtlmon: {note} where late rows change when they begin and end\n"
