"""Policies on rows where a condition holds and on ticks, through checks and the command."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtlmon import check as check_log
from mtlmon import parse
from mtlmon.errors import MtlmonError
from tests.cli.kills import run_killed
from tests.cli.process import mtlmon
from tests.doors import streams_atoms as stream_atoms
from tests.reference.evaluator import evaluate
from tests.streams.programs import PERIODS, SCHEMA, Row, StreamText, Texts, Writer, rows
from tests.tables.begun import check_of, events_of
from tests.traces import EndTime, Event, Prefix

FORMULAS = [
    "a0",
    "NOT a0",
    "ONCE[0,4] a0",
    "PREVIOUS[0,9] a1",
    "NEXT[0,6] a0",
    "EVENTUALLY[1,5] a1",
    "a0 SINCE[0,9] a1",
    "a0 UNTIL[0,5] a1",
    "HISTORICALLY[2,8] (a0 IMPLIES EVENTUALLY[0,3] a1)",
]


class Clocked(NamedTuple):
    """A policy: its formula over a0 and a1, and its time-points."""

    formula: str
    period: int
    where: str | None
    atoms: tuple[str, str]


class File(NamedTuple):
    """A policy file and what it means."""

    streams: dict[str, StreamText]
    policies: list[Clocked]

    @property
    def text(self) -> str:
        lines = ["key k"]
        for name, one in self.streams.items():
            assert not isinstance(one, str)
            assert len(one) == 3
            clause = f" every {one[2]}" if one[2] else ""
            lines.append(f"stream {name} = {one[0]}{clause}")
        for number, policy in enumerate(self.policies):
            names = [f"h{number}_{place}" for place in (0, 1)]
            lines += [
                f"atom {name} = {text}" for name, text in zip(names, policy.atoms, strict=True)
            ]
            clause = ""
            if policy.period:
                clause = f" on every {policy.period}"
            elif policy.where is not None:
                clause = f" on rows where {policy.where}"
            formula = policy.formula.replace("a0", names[0]).replace("a1", names[1])
            lines.append(f"policy p{number}{clause}: {formula}")
        return "\n".join(lines)


@st.composite
def files(draw: st.DrawFn) -> File:
    streams: dict[str, StreamText] = {}
    known: dict[str, str] = {}
    periods: dict[str, int] = {}
    writer = Writer(draw, known, periods)
    # in conditions, a Boolean column is an atom
    writer.booleans = []
    for number in range(draw(st.integers(1, 2))):
        kind = draw(st.sampled_from(["integer", "float"]))
        writer.period = draw(st.sampled_from([0, *PERIODS, *PERIODS]))
        streams[f"x{number}"] = writer.expression(kind, 2), None, writer.period
        known[f"x{number}"], periods[f"x{number}"] = kind, writer.period
    policies = []
    for _ in range(2):
        writer.period = draw(st.sampled_from([0, *PERIODS]))
        one, other = writer.expression("boolean", 2), writer.expression("boolean", 2)
        where = None
        if writer.period == 0:
            where = draw(st.sampled_from([None, "i > 0", "i is not null", "count[0,3]() > 1"]))
        formula = draw(st.sampled_from(FORMULAS))
        policies.append(Clocked(formula, writer.period, where, (one, other)))
    return File(streams, policies)


def small(log: Iterable[Row]) -> list[Row]:
    """Rows whose integers are small, so that sums of them do not overflow."""
    return [
        (time, trace, {**cells, "i": None if cells["i"] is None else cells["i"] % 7 - 2})
        for time, trace, cells in log
    ]


Verdicts = dict[tuple[str, str, int, int], bool]
"""By policy, key, time and offset."""


def expected(file: File, log: Sequence[Row], end_time: EndTime) -> Verdicts:
    """What the reference says about each policy, time-point after time-point."""
    last = log[-1][0] if log else 0
    limit = last if end_time is None else last + 1
    if isinstance(end_time, int):
        limit = max(limit if end_time >= last else last, end_time + 1)
        clock = max(last, end_time + 1)
    else:
        clock = last if end_time is None else last + 1
    wanted: Verdicts = {}
    for number, policy in enumerate(file.policies):
        texts = Texts(
            file.streams,
            [(text, policy.period) if policy.period else text for text in policy.atoms]
            + ([] if policy.where is None else [policy.where]),
        )
        program = texts.reference()
        names = list(texts.wanted)
        atoms = [names.index(name) for name in _names(policy)]
        points: dict[int, list[tuple[int, int, dict[str, Any]]]] = defaultdict(list)
        seen: dict[tuple[int, int], int] = defaultdict(int)
        found = [(row, program.row(*row)) for row in log]
        if program.clock is not None:
            program.tick(limit)
        if policy.period:
            for time, trace, _, values in program.ticks:
                if time % policy.period == 0:
                    points[trace].append((time, 0, values))
        for (time, trace, _), row in found if not policy.period else ():
            assume(row is not None)
            assert row is not None
            offset = seen[time, trace]
            seen[time, trace] += 1
            if policy.where is None or row[policy.where] is True:
                points[trace].append((time, offset, row))
        for trace, some in points.items():
            events = [
                Event(
                    time,
                    frozenset(
                        f"a{place}" for place in (0, 1) if values[names[atoms[place]]] is True
                    ),
                )
                for time, _, values in some
            ]
            prefix = Prefix(tuple(events), clock, end_time == "inf")
            truths = evaluate(parse(policy.formula), prefix)
            for (time, offset, _), truth in zip(some, truths, strict=True):
                if truth is not None:
                    wanted[f"p{number}", f"k{trace}", time, offset] = truth
    return wanted


def _names(policy: Clocked) -> list[str]:
    if policy.period:
        return [f"{text} every {policy.period}" for text in policy.atoms]
    return list(policy.atoms)


def table_of(log: Sequence[Row]) -> pa.Table:
    cells = [{"ts": time, "k": f"k{trace}", **row} for time, trace, row in log]
    fields = [("ts", pa.int64()), ("k", pa.string()), *((one.name, one.type) for one in SCHEMA)]
    return pa.Table.from_pylist(cells, pa.schema(fields))


def verdicts_of(table: pa.Table) -> Verdicts:
    found: Verdicts = {}
    for row in table.to_pylist():
        name = row["policy"], row["k"], row["time"], row["offset"]
        assert name not in found
        found[name] = row["verdict"]
    return found


def checked(file: File, log: Sequence[Row], end_time: EndTime, size: int) -> Verdicts:
    table = table_of(log)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(size))
    check = check_log(file.text, reader, resolve=True, end_time=end_time)
    return verdicts_of(check.to_arrow())


END_TIMES = st.sampled_from([None, None, "last", "inf", 3, 40])


@given(
    files(),
    rows(20).map(small),
    END_TIMES,
    st.sampled_from([1, 2, 5, 100]),
    st.sampled_from([1, 3, 1 << 17]),
)
def test_checks_are_those_of_the_reference(
    file: File, log: list[Row], end_time: EndTime, size: int, most_ticks: int
) -> None:
    wanted = expected(file, log, end_time)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_atoms, "MOST_TICKS", most_ticks)
        try:
            found = checked(file, log, end_time, size)
        except MtlmonError as error:
            # policies leave out the ticks of each other
            assume("at the tick" not in str(error))
            raise
    assert found == wanted, file.text


def long_gap(monkeypatch: pytest.MonkeyPatch, rows: dict[str, list[int]], text: str) -> list[bool]:
    """The verdicts of one policy, where few ticks may be computed at once."""
    monkeypatch.setattr(stream_atoms, "MOST_TICKS", 1000)
    check = check_log(text, pa.table(rows), end_time="last")
    found = [row["verdict"] for row in check.to_arrow().to_pylist()]
    assert check_of(check).memory.peak < 40 << 20
    return found


def test_a_long_gap_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "policy alive on every 10: count[0,20]() > 0"
    found = long_gap(monkeypatch, {"ts": [5, 200_005]}, text)
    assert found == [tick * 10 - 5 <= 20 for tick in range(1, 20_001)]


SUMS = """\
key k
stream s = sum[0,9](x) every 10
policy small on every 10: s < 5
policy seen on every 20: count[0,40](s >= 0) > 0
policy all: x >= 0
"""
LARGE = pa.table(
    {
        "ts": [1, 2, 3, 5, 15, 35, 45],
        "k": ["a", "a", "b", "a", "b", "a", "b"],
        "x": [1, 2**62, 4, 2**62, 0, 1, 2],
    }
)


def test_an_overflow_at_a_tick_ends_the_check() -> None:
    check = check_log(SUMS, LARGE)
    found = []
    message = r"at the tick 10 of k a: .* overflows 64 bits; on_error='skip' leaves such ticks out"
    with pytest.raises(MtlmonError, match=message):
        for batch in check.batches():
            found += batch.to_pylist()
    assert [row["time"] for row in found] == [1, 2, 3, 5]


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("most_ticks", [1, 1 << 17])
def test_ticks_that_overflow_are_left_out(
    size: int, most_ticks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_atoms, "MOST_TICKS", most_ticks)
    reader = pa.RecordBatchReader.from_batches(LARGE.schema, LARGE.to_batches(size))
    check = check_log(SUMS, reader, on_error="skip")
    found = verdicts_of(check.to_arrow())
    assert {name: verdict for name, verdict in found.items() if name[0] != "all"} == {
        ("small", "b", 10, 0): True,
        ("small", "a", 20, 0): False,
        ("small", "b", 20, 0): True,
        ("seen", "a", 20, 0): False,
        ("seen", "b", 20, 0): True,
        ("small", "a", 30, 0): False,
        ("small", "b", 30, 0): False,
        ("small", "a", 40, 0): True,
        ("small", "b", 40, 0): False,
        ("seen", "a", 40, 0): True,
        ("seen", "b", 40, 0): True,
    }
    assert events_of(check).points_left_out == 1
    assert "at the tick 10 of k a: sum[0,9](x) overflows 64 bits" in str(events_of(check).errors[0])


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("verdicts", ["all", "false"])
def test_no_verdict_is_repeated_at_ticks_that_are_left_out(size: int, verdicts: Any) -> None:
    """The sum is too large at the ticks 20 and 30, behind one where nothing is wrong."""
    rows = pa.table({"ts": [1, 12, 13, 41, 75], "x": [1, 2**62, 2**62, 8, 0]})
    reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(size))
    text = "stream s = sum[0,19](x, or: 0) every 10\npolicy small on every 10: s < 5"
    check = check_log(text, reader, on_error="skip", verdicts=verdicts)
    found = [(row["time"], row["verdict"]) for row in check.to_arrow().to_pylist()]
    wanted = [(10, True), (40, True), (50, False), (60, False), (70, True)]
    assert found == [one for one in wanted if verdicts == "all" or not one[1]]
    (counts,) = check.counts.values()
    assert (counts.true, counts.false) == (3, 2)
    assert events_of(check).points_left_out == 2


def test_many_ticks_that_overflow_take_no_longer_than_they_are_many(tmp_path: Path) -> None:
    """A sum over everything that overflows does so at all later ticks."""
    rows = pa.table({"ts": [1, 2, 4_000], "x": [2**62, 2**62, 1]})
    text = "policy small on every 2: sum[0,*)(x) < 5\npolicy row: x > 0"
    check = check_log(text, rows, on_error="skip")
    assert len(check.to_arrow()) == 3
    assert events_of(check).points_left_out == 1_999
    assert len(events_of(check).errors) == 10


def test_rows_that_overflow_bring_ticks_back() -> None:
    """Without the row that one partition refuses, nothing overflows at a tick of another."""
    rows = pa.table({"ts": [1, 2, 3, 15], "k": ["a"] * 4, "x": [1, 2**62, 2**62, 0]})
    text = "policy tick per none on every 10: sum[0,9](x) < 2\npolicy row per k: sum[0,9](x) >= 0\n"
    check = check_log(text, rows, on_error="skip")
    found = [(row["policy"], row["time"]) for row in check.to_arrow().to_pylist()]
    assert found == [("row", 1), ("row", 2), ("tick", 10), ("row", 15)]
    assert (events_of(check).skipped, events_of(check).points_left_out) == (1, 0)


TEXT = """\
unit s
policy alive on every 10s: count[0,10s](failed) > 0
policy pause on rows where failed: NOT PREVIOUS[0,1s] true
trigger silent on every 20s: ts - ts.last() > 15
policy row: count[0,30s](ok) < 9
"""


def text_log(source: random.Random, count: int) -> list[tuple[int, list[str]]]:
    time, events = 1_700_000_001, []
    for _ in range(count):
        time += source.choice([0, 0, 0, 1, 2, 5, 60])
        events.append((time, [name for name in ("failed", "ok") if source.random() < 0.5]))
    return events


def text_verdicts(events: Sequence[tuple[int, list[str]]]) -> dict[str, dict[str, bool]]:
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    times = [time for time, _ in events]
    before: int | None = None
    for row, (time, atoms) in enumerate(events):
        name = f"{time}:{row - times.index(time)}"
        within = [other for other, one in events[: row + 1] if "ok" in one and time - other <= 30]
        found["row"][name] = len(within) < 9
        if "failed" in atoms:
            found["pause"][name] = before is None or time - before > 1
            before = time
    for tick in range(times[0] // 10 * 10, times[-1], 10):
        if tick < times[0]:
            continue
        seen = [(time, atoms) for time, atoms in events if time <= tick]
        failed = [time for time, atoms in seen if "failed" in atoms and tick - time <= 10]
        found["alive"][f"{tick}:0"] = bool(failed)
        if tick % 20 == 0:
            found["silent"][f"{tick}:0"] = tick - seen[-1][0] <= 15
    return found


def test_text_logs(tmp_path: Path) -> None:
    policies, log = tmp_path / "p.mtl", tmp_path / "log"
    policies.write_text(TEXT)
    events = text_log(random.Random(1), 300)
    log.write_text("".join(f"@{time} {' '.join(atoms)}\n" for time, atoms in events))
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    for line in mtlmon(str(policies), str(log)).output.splitlines():
        name, _, rest = line.partition("\t")
        point, _, verdict = rest.partition(" ")
        found[name][point] = verdict == "true"
    assert found == text_verdicts(events)
    done = mtlmon("--explain", "--verdicts", "false", str(policies), str(log))
    false = [point for own in found.values() for point, verdict in own.items() if not verdict]
    said = [line.split(" ")[0] for line in done.errors.splitlines() if " violates " in line]
    assert set(said) <= set(false)
    assert len(said) == 10


OVERFLOWING = """\
unit s
policy tick on every 10s: 9223372036854775806 + count[0,9s](a) > 0
policy row: 9223372036854775806 + count[0,1s](b) > 0
"""


def test_text_logs_skip_what_overflows(tmp_path: Path) -> None:
    policies, log = tmp_path / "p.mtl", tmp_path / "log"
    policies.write_text(OVERFLOWING)
    log.write_text("@1 b\n@2\n@2 b\n@3 b\n@4 a\n@5 a\n@25\n")
    done = mtlmon(str(policies), str(log))
    assert done.status == 2
    assert "log: at time-stamp 2: " in done.errors
    assert "+ count[0,1](b) overflows 64 bits with" in done.errors
    assert "; --on-error skip leaves such events out" in done.errors
    assert done.output.splitlines() == ["row\t1:0 true", "row\t2:0 true"]
    done = mtlmon("--on-error", "skip", "--summary", str(policies), str(log))
    assert done.output.splitlines() == [
        *("row\t1:0 true", "row\t2:0 true", "row\t3:0 true", "row\t4:0 true", "row\t5:0 true"),
        *("tick\t20:0 true", "row\t25:0 true"),
    ]
    assert "skipped 1 line that" in done.errors
    assert "left out 1 time-point at which integers overflow" in done.errors
    log.write_text("@4 a\n@5 a\n@25\n")
    done = mtlmon(str(policies), str(log))
    assert "log: at the tick 10: " in done.errors
    assert "; --on-error skip leaves such ticks out" in done.errors


@pytest.mark.parametrize("wanted", ["all", "false"])
def test_killed_runs_write_what_an_undisturbed_one_does(tmp_path: Path, wanted: str) -> None:
    source = random.Random(5)
    policies, output, checkpoint = (tmp_path / one for one in ("p.mtl", "output", "state"))
    policies.write_text(
        "unit s\nkey k\nstream n = count[0,10s]() every 5s\n"
        "policy busy on every 10s: ONCE[0,20s] n > 0\n"
        "policy pause on rows where x > 4: NOT PREVIOUS[0,1s] x > 6\n"
        "policy row: n.hold(or: 0) < 12\n"
    )
    log = tmp_path / "log.jsonl"
    time, lines = 0, []
    for _ in range(3_000):
        time += source.choice([0, 0, 0, 1, 2])
        row = {"ts": time, "k": source.randrange(40), "x": source.randrange(9)}
        lines.append(json.dumps(row))
    log.write_text("\n".join(lines) + "\n")
    arguments = ["--format", "jsonl", "--verdicts", wanted, "-o", str(output), str(policies)]
    expected_run = mtlmon(*arguments, str(log))
    assert expected_run.status == 1, expected_run.errors
    verdicts = output.read_bytes()
    assert b"pause" in verdicts
    assert b"busy" in verdicts
    output.unlink()
    resumed = ["--resume", "--checkpoint", str(checkpoint), "--checkpoint-every", "150"]
    run_killed([*resumed, *arguments], log, checkpoint, 3, source)
    assert output.read_bytes() == verdicts


@pytest.mark.parametrize("rows", [3, 6, 8])
def test_a_resumed_run_computes_all_ticks_behind_one_that_is_left_out(
    rows: int, tmp_path: Path
) -> None:
    """The sum of key a is too large at ticks 20 and 30, which the other keys have."""
    policies, log, output, state = (tmp_path / one for one in ("p.mtl", "log.csv", "out", "state"))
    policies.write_text(
        "key k\nstream s = sum[0,19](x) every 10\n"
        "policy small on every 10: coalesce(s < 5, true)\n"
        "policy steady on every 10: NOT PREVIOUS s > 1\n"
    )
    lines = [
        "ts,k,x", "1,a,1", "2,b,7", "12,a,4611686018427387904", "13,a,4611686018427387904",
        "14,c,1", "21,b,2", "38,c,9", "55,b,1", "71,a,3", "99,c,0",
    ]  # fmt: skip
    arguments = ["--on-error", "skip", "--verdicts", "false", "--summary", "-o", str(output)]
    arguments.append(str(policies))
    log.write_text("\n".join(lines) + "\n")
    done = mtlmon(*arguments, str(log))
    assert done.status == 1, done.errors
    wanted = output.read_text()
    assert "small\ta\t" not in wanted.split("\t40:")[0]
    output.unlink()
    log.write_text("\n".join(lines[:rows]) + "\n")
    checkpoint = ["--checkpoint", str(state), "--checkpoint-every", "1"]
    assert mtlmon(*checkpoint, *arguments, str(log)).status in {0, 1}
    log.write_text("\n".join(lines) + "\n")
    again = mtlmon("--resume", *checkpoint, *arguments, str(log))
    assert again.status == 1, again.errors
    assert output.read_text() == wanted
    assert [line for line in again.errors.splitlines() if "true" in line] == [
        line for line in done.errors.splitlines() if "true" in line
    ]
