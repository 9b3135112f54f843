"""Policies whose rows wait for later values, through checks, the command and Python."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtlmon import check as check_log
from mtlmon import parse, streams
from mtlmon.errors import MtlmonError
from mtlmon.policy import parse_policies
from tests.cli.kills import run_killed
from tests.cli.process import mtlmon
from tests.doors import StreamAtoms, Waiting, bounds_of
from tests.reference.evaluator import evaluate
from tests.streams.programs import LaterTexts, Row, later_programs, rows
from tests.streams.test_clocks import FORMULAS, Verdicts, small, table_of, verdicts_of
from tests.traces import EndTime, Event, Prefix


class File(NamedTuple):
    """Two policies over a0 and a1; the first one's atoms look at later values."""

    texts: LaterTexts
    formulas: tuple[str, str]

    @property
    def text(self) -> str:
        lines = ["key k"]
        for name, one in self.texts.texts.items():
            text, on = one if isinstance(one, tuple) else (one, None)
            lines.append(f"stream {name} = {text}{'' if on is None else f' on {on}'}")
        a0, a1 = self.texts.wanted
        lines += [f"atom a0 = {a0}", f"atom a1 = {a1}", "atom b0 = i > 0", "atom b1 = f < 1.0"]
        later, row = self.formulas
        row = row.replace("a0", "b0").replace("a1", "b1")
        return "\n".join([*lines, f"policy later: {later}", f"policy row: {row}"])


@st.composite
def files(draw: st.DrawFn) -> File:
    texts = draw(later_programs(kinds=("boolean",), count=2, booleans=[]))
    assume(len(texts.wanted) == 2)
    formulas = st.sampled_from([one for one in FORMULAS if "a0" in one and "a1" in one])
    return File(texts, (draw(formulas), draw(formulas)))


def expected(file: File, log: Sequence[Row], end_time: EndTime) -> Verdicts:
    """What the references say about the policy whose rows wait."""
    reference = file.texts.later()
    for row in log:
        assume(reference.row(*row))
    points = defaultdict(list)
    for one in reference.removed(is_end=end_time == "inf"):
        points[one.trace].append(one)
    wanted: Verdicts = {}
    for trace, some in points.items():
        events = []
        for one in some:
            values = list(one.values.values())
            held = {f"a{place}" for place, value in enumerate(values) if value is True}
            events.append(Event(one.time_stamp, frozenset(held)))
        prefix = Prefix(tuple(events), some[-1].time_stamp, end_time == "inf")
        truths = evaluate(parse(file.formulas[0]), prefix)
        seen: dict[int, int] = defaultdict(int)
        for one, truth in zip(some, truths, strict=True):
            if truth is not None:
                wanted["later", f"k{trace}", one.time_stamp, seen[one.time_stamp]] = truth
            seen[one.time_stamp] += 1
    return wanted


END_TIMES = st.sampled_from([None, "last", "inf", 40])


@given(files(), rows(20).map(small), END_TIMES, st.sampled_from([1, 2, 5, 100]))
def test_checks_are_those_of_the_reference(
    file: File, log: list[Row], end_time: EndTime, size: int
) -> None:
    wanted = expected(file, log, end_time)
    table = table_of(log)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(size))
    check = check_log(file.text, reader, resolve=True, end_time=end_time)
    try:
        found = verdicts_of(check.to_arrow())
    except MtlmonError as error:
        assume("at the row of time-stamp" not in str(error))
        raise
    assert {name: one for name, one in found.items() if name[0] == "later"} == wanted, file.text
    others = file.text.replace("policy later", "policy row2").replace(
        f": {file.formulas[0]}", ": b0"
    )
    row = verdicts_of(check_log(others, table, resolve=True, end_time=end_time).to_arrow())
    for name, verdict in row.items():
        if name[0] == "row":
            assert found[name] == verdict


LOG = """\
ts,k,x
1,a,1
2,b,5
3,a,7
4,b,6
5,a,8
6,b,50
"""
POLICIES = """\
unit s
key k
trigger jump: x.next() - x > 3 message "{k} from {x} to {x.next()}"
policy calm: EVENTUALLY[0,2s] x.next(2, or: 0) < 10
policy low: x < 50
"""


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "p.mtl").write_text(POLICIES)
    (tmp_path / "log.csv").write_text(LOG)
    return str(tmp_path / "p.mtl"), str(tmp_path / "log.csv")


def test_rows_come_when_they_are_known(paths: tuple[str, str]) -> None:
    done = mtlmon(*paths)
    assert done.output.splitlines() == [
        *("low\ta\t1:0 true", "low\tb\t2:0 true", "jump\ta\t1:0 false", "low\ta\t3:0 true"),
        *("jump\tb\t2:0 true", "low\tb\t4:0 true", "calm\ta\t1:0 true", "jump\ta\t3:0 true"),
        *("low\ta\t5:0 true", "jump\tb\t4:0 false", "low\tb\t6:0 false"),
    ]
    assert "4 rows still wait for later values at the end of the log" in done.errors
    done = mtlmon("--end-time", "inf", "--verdicts", "false", *paths)
    assert done.output.splitlines() == [
        *("jump\ta\t1:0 false", "jump\tb\t4:0 false", "low\tb\t6:0 false")
    ]
    assert "wait" not in done.errors


def test_messages_and_explanations_show_later_values(paths: tuple[str, str]) -> None:
    done = mtlmon("--output-format", "jsonl", "--verdicts", "false", *paths)
    messages = [json.loads(line)["message"] for line in done.output.splitlines()]
    assert messages == ["a from 1 to 7", "b from 6 to 50", None]
    done = mtlmon("--explain", "--verdicts", "false", "--end-time", "inf", *paths)
    assert "b from 6 to 50\nx.next() was 50\n4:0 violates" in done.errors
    report = Path(paths[1]).with_name("report.html")
    done = mtlmon("--report", str(report), "--end-time", "inf", *paths)
    assert "<dt>x.next()</dt><dd>50</dd>" in report.read_text()


def test_what_the_command_refuses(paths: tuple[str, str]) -> None:
    done = mtlmon("--advance-every", "3", *paths)
    assert done.status == 2
    assert "with next(...)" in done.errors
    assert "Traceback" not in done.errors


def test_the_first_violation_is_the_earliest_one(paths: tuple[str, str]) -> None:
    """It is known later than others, and a row that still waits at the end may come before them."""
    policies, log = map(Path, paths)
    done = mtlmon("--verdicts", "first", "--rows", *paths)
    assert done.output == f"jump\ta\t1:0 false\t{log}:2\n"
    policies.write_text("unit s\npolicy low: x < 50\npolicy up: x.next(2) > 4\n")
    log.write_text("ts,x\n1,1\n2,60\n3,2\n4,70\n")
    done = mtlmon("--verdicts", "first", "--summary", *paths)
    assert done.output == "up\t1:0 false\n"
    assert re.search(r"^rows +3$", done.errors, re.MULTILINE)
    log.write_text("ts,x\n1,9\n2,60\n")
    done = mtlmon("--verdicts", "first", *paths)
    assert (done.output, done.status) == ("", 1)
    assert "2:0 is false, but a time-point of time-stamp 1 is undecided at the end" in done.errors
    done = mtlmon("--verdicts", "first", "--end-time", "inf", *paths)
    assert done.output == "up\t1:0 false\n"


def test_overflow_is_of_the_row_that_waited(tmp_path: Path) -> None:
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text("policy p: x + x.next(or: 9) > 0\npolicy q: x > 0\n")
    log.write_text(f"ts,x\n1,1\n2,{2**62}\n3,{2**62}\n4,5\n5,{2**63 - 1}\n")
    done = mtlmon(str(policies), str(log))
    assert done.status == 2
    assert "at the row of time-stamp 2: x + x.next(or: 9) overflows 64 bits" in done.errors
    assert done.output.splitlines() == ["q\t1:0 true", "p\t1:0 true", "q\t2:0 true"]
    done = mtlmon("--on-error", "skip", "--end-time", "inf", str(policies), str(log))
    found = [line for line in done.output.splitlines() if line[0] == "p"]
    assert found == ["p\t1:0 true", "p\t3:0 true"]
    assert "left out 3 time-points at which integers overflow" in done.errors


def test_text_logs(tmp_path: Path) -> None:
    policies, log = tmp_path / "p.mtl", tmp_path / "log"
    policies.write_text("unit s\npolicy p: ts.next() - ts < 4 OR NOT count[0,9s](a).next() > 1\n")
    log.write_text("@1 a\n@2\n@9 a\n@9\n@15\n")
    done = mtlmon(str(policies), str(log))
    assert done.output.splitlines() == [
        *("p\t1:0 true", "p\t2:0 false", "p\t9:0 true", "p\t9:1 true"),
    ]
    assert "1 line still waits for later values" in done.errors


def test_killed_runs_write_what_an_undisturbed_one_does(tmp_path: Path) -> None:
    source = random.Random(7)
    policies, output, checkpoint = (tmp_path / one for one in ("p.mtl", "output", "state"))
    policies.write_text(
        "unit s\nkey k\nstream later = x.next(2) on x < 8\n"
        "policy p: later > 2\n"
        'policy q: EVENTUALLY[0,5s] y.next() = "a"\n'
        "policy row: count[0,5s](x > 3) < 5\n"
        "policy tick on every 10s: count[0,10s]() > 0\n"
    )
    log = tmp_path / "log.jsonl"
    time, lines = 0, []
    for _ in range(3_000):
        time += source.choice([0, 0, 0, 1, 2])
        x = source.choice([None, *range(10)])
        lines.append(
            json.dumps({"ts": time, "k": source.randrange(9), "x": x, "y": source.choice("ab")})
        )
    log.write_text("\n".join(lines) + "\n")
    arguments = ["--format", "jsonl", "--end-time", "inf", "-o", str(output), str(policies)]
    undisturbed = mtlmon(*arguments, str(log))
    assert undisturbed.status == 1, undisturbed.errors
    verdicts = output.read_bytes()
    output.unlink()
    resumed = ["--resume", "--checkpoint", str(checkpoint), "--checkpoint-every", "150"]
    run_killed([*resumed, *arguments], log, checkpoint, 3, source)
    assert output.read_bytes() == verdicts


STREAMS = """\
key k
stream d = x.next(or: -1) - x
stream n = count[0,3]()
stream v = count[0,10]() per x
stream e = sum[0,10](x) every 4
"""


def test_values_of_streams(tmp_path: Path) -> None:
    file, log = tmp_path / "s.mtl", tmp_path / "log.csv"
    file.write_text(STREAMS)
    log.write_text(LOG)
    done = mtlmon("streams", "--output-format", "csv", str(file), str(log))
    rows_removed = [
        "1,a,6,1,1,",
        "2,b,1,1,1,",
        "3,a,1,2,1,",
        "4,a,,,,8",
        "4,b,,,,11",
        "4,b,44,2,1,",
    ]
    assert [line.replace('"', "") for line in done.output.splitlines()[1:]] == rows_removed
    assert "2 rows still wait" in done.errors
    done = mtlmon("streams", "--end-time", "8", "--output-format", "csv", str(file), str(log))
    ticks = ["8,a,,,,16", "8,b,,,,61"]
    assert [line.replace('"', "") for line in done.output.splitlines()[1:]] == rows_removed + ticks
    done = mtlmon("streams", "--end-time", "inf", "--output-format", "csv", str(file), str(log))
    last = ["5,a,-9,2,1,", "6,b,-51,2,1,"]
    assert [line.replace('"', "") for line in done.output.splitlines()[1:]] == rows_removed + last


def test_streams_from_python() -> None:
    rows_of = pa.record_batch({"ts": [1, 2, 3], "k": ["a", "b", "a"], "x": [1, 5, 7]})
    found = streams.compile("key k\nstream d = x.next(or: 0) - x", rows_of.schema)
    assert found.evaluate(rows_of).to_pylist() == [{"time": 1, "k": "a", "d": 6}]
    assert found.finish().to_pylist() == [
        {"time": 2, "k": "b", "d": -5},
        {"time": 3, "k": "a", "d": -7},
    ]


def test_memory_of_rows_that_wait_has_a_bound_where_values_are_never_null(tmp_path: Path) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    text = "unit s\nkey k\nassume keys <= 3\npolicy p: {} > 2\n"
    log.write_text(LOG)
    file.write_text(text.format("coalesce(x, 0).next(2)"))
    done = mtlmon("analyze", str(file), str(log))
    assert done.status == 0, done.output
    assert "coalesce(x, 0).next(2)  rows that wait, 2 values of each column" in done.output
    file.write_text(text.format("x.next()"))
    done = mtlmon("analyze", str(file), str(log))
    assert done.status == 1
    assert "a row waits until x is not null: write coalesce(x, ...).next()" in done.output


@pytest.mark.parametrize(
    "condition",
    [
        '(coalesce(x, 0).next(3) > 2) OR coalesce(s, "").next() = s',
        "x.at(+149) > 2 OR s.at(+9) = s",
        'a[z] > 2 OR b["x"] = s',
        "c[z] > 2 OR d[z] > 2",
    ],
)
def test_what_rows_that_wait_take_is_within_its_bound(condition: str) -> None:
    text = f"unit s\nassume rate per key <= 2/m\nkey k\npolicy p: {condition}"
    if "a[z]" in condition:
        # each row has another instance, which ends soon
        text += "\nstream a = x.at(+149) per z until silence() > 40"
        text += "\nstream b = s.at(+9) per z until silence() > 40"
    if "c[z]" in condition:
        text += "\nstream c = coalesce(x, 1).next(2) per z until silence() > 74"
        text += "\nstream d = x.next() per z until age() > 149"
    count, keys = 20_000, 50
    table = pa.table(
        {
            "ts": range(count),
            "k": [f"k{number % keys}" for number in range(count)],
            "x": [number % 7 for number in range(count)],
            "s": [f"s{number % 11}" for number in range(count)],
            "z": [f"z{number}" for number in range(count)],
        }
    )
    file = parse_policies(f"assume keys <= {keys}\n{text}")
    kept = [one for bound in bounds_of(file, table.schema).bounds for one in bound.kept]
    totals = [one.total for one in kept if one.expression != "monitor"]
    limit = sum(total for total in totals if total is not None)
    assert None not in totals
    program = StreamAtoms(
        file, [{Waiting(("w",)): file.policies[0].formula.atoms}], (), file.environment
    )
    batch = table.combine_chunks().to_batches()[0]
    numbers = np.arange(count, dtype=np.uint32) % keys
    for first in range(0, count, 5_000):
        part = batch.slice(first, 5_000)
        times = np.arange(first, first + len(part), dtype=np.int64)
        own = np.ascontiguousarray(numbers[first : first + len(part)])
        program.evaluate(program.prepared(part, {}), times, [own])
        assert program.held_bytes <= limit
    assert program.waiting_rows == 3 * keys


@pytest.mark.parametrize(
    ("stream", "rows_within", "reason"),
    [
        # the rows of `length + 1` seconds, and the one behind them
        ("coalesce(x, 1).next(3) per z until silence() > 10", 31, ""),
        ("x.next(3) per z until age() > 10s", 11, ""),
        ("coalesce(x, 1).next(3) per z until silence() > 10s or age() >= 20s", 20, ""),
        ("x.next(3) per z until silence() > 10s or age() >= 20s", 20, ""),
        ("x.next() per z", 0, "no time ends it: until silence() > 1h does"),
        ("coalesce(x, 1).next() per z until x > 9", 0, "no time ends it"),
        ("x.next() per z until silence() > 10s", 0, "a row waits until x is not null"),
    ],
)
def test_rows_that_wait_in_instances_have_a_bound_where_time_ends_these(
    tmp_path: Path, stream: str, rows_within: int, reason: str
) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    log.write_text("ts,x,z\n1,2,3\n")
    file.write_text(
        "unit s\nassume rate <= 1/s\nassume instances <= 9\n"
        f"stream a = {stream}\npolicy p: a[z] > 2\n"
    )
    done = mtlmon("analyze", str(file), str(log))
    assert done.status == bool(reason), done.output
    assert (reason or f"{rows_within + 1} rows that wait") in done.output
    assert "limits the keys" not in done.output


def test_keys_that_streams_do_not_remember_are_forgotten(tmp_path: Path) -> None:
    file, log = tmp_path / "s.mtl", tmp_path / "log.csv"
    file.write_text("key k\nstream n = count[0,5]()\n")
    count = 300_000
    log.write_text("ts,k\n" + "".join(f"{time},{time // 2}\n" for time in range(count)))
    done = mtlmon("streams", "--summary", "--output-format", "csv", str(file), str(log))
    values = [line.rsplit(",", 1)[1] for line in done.output.splitlines()[1:]]
    assert values == ["1", "2"] * (count // 2)
    assert "idle ones were forgotten" in done.errors
