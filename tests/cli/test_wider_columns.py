"""A number with a point in a later block: verdicts and values are those of one block.

A column of a text format has integers until such a number comes, and floats from then on.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Ended
from tests.cli.test_same_output import (
    DECLARED,
    HEADER,
    Case,
    Row,
    Ways,
    case_of,
    late,
    pipe,
    rows_of,
    small_steps,
)

Command = Callable[..., Ended]

# What remembers numbers: each kind of windows, offsets, recursion, instances, ticks, later values.
STREAMS = [
    "sum[0,9](x)",
    "sum[0,*)(x)",
    "avg[1,6](x)",
    "avg[0,*)(x)",
    "var[0,20](x)",
    "stddev[0,*)(x)",
    "min[0,7](x)",
    "max[0,7](x)",
    "min[0,*)(x)",
    "max[0,*)(x)",
    "first[0,9](x)",
    "last[1,*)(x)",
    "median[0,9](x)",
    "quantile[2,9](x, 0.7)",
    "distinct[0,9](x)",
    "distinct[0,*)(x)",
    "integral[0,9](x)",
    "integral[0,*)(x)",
    "count[0,9](x > 2)",
    "x.last()",
    "x.last(3, or: 1)",
    "x.at(-4s)",
    "x.hold()",
    "total.last(or: 0) + x",
    "if x > 2 then total.last(or: 5) - 1 else x",
]
TICKS = [
    "sum[0,9](x)",
    "x.hold()",
    "max[0,8](x)",
    "avg[0,*)(x)",
    "min[2,6](x)",
    "y.last() + x.hold()",
]


def with_fractions(source: random.Random, rows: list[Row]) -> list[Row]:
    """The rows, with a number with a point from some row on."""
    first = source.randrange(1, len(rows) + 1)
    found = []
    for place, row in enumerate(rows):
        time, key, p, q, x = row.text.strip().split(",")
        if place == first or (place > first and source.random() < 0.4):
            x = f"{x}.{source.choice([0, 5, 25])}"
        found.append(row._replace(text=f"{time},{key},{p},{q},{x}\n"))
    return found


def text_of(rows: list[Row]) -> str:
    return HEADER + "".join(row.text for row in rows)


def many_rows(source: random.Random) -> list[Row]:
    rows: list[Row] = []
    while len(rows) < 12:
        start = rows[-1].time if rows else 0
        for row in rows_of(source):
            time, rest = row.text.split(",", 1)
            rows.append(row._replace(time=row.time + start, text=f"{int(time) + start},{rest}"))
    return with_fractions(source, rows)


GROUPS = "relation got = rows valid 9s group k select max(x) as x, sum(x) as s, avg(x) as a\n"
LOOK_UPS = ["got[k].x > 2", "got[k].s > 5 AND ONCE[0,9] got[k].a > 1", "got[k].s > x.last(or: 0)"]


@pytest.mark.parametrize("seed", range(6))
def test_verdicts(
    seed: int, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random.Random(f"wider columns {seed}")
    for number in range(4):
        case = case_of(1_000 * seed + number)
        policies = f"{GROUPS}{case.policies}policy g: {source.choice(LOOK_UPS)}\n"
        case = case._replace(policies=policies, rows=with_fractions(source, case.rows))
        folder = tmp_path / str(number)
        folder.mkdir()
        Ways(case, False, folder, command, monkeypatch).check()


def policies_of(source: random.Random) -> str:
    total = source.choice(STREAMS[-2:])
    lines = [f"stream total = {total}"]
    lines += [f"stream s{k} = {source.choice(STREAMS[:-2])}" for k in range(3)]
    lines += [f"stream y = {source.choice(TICKS[:-1])} every 3s"]
    lines += [f"stream z = {source.choice(TICKS)} every 3s"]
    lines += ["stream each = sum[0,9](x) per q", "stream most = max(each over each)"]
    return "unit s\nkey k\n" + "\n".join(lines) + "\n"


def line_of(row: Row) -> str:
    """The row as a line of JSON."""
    time, key, p, q, x = row.text.strip().split(",")
    return f'{{"ts": {time}, "k": "{key}", "p": {p}, "q": {q}, "x": {x}}}\n'


def values_of(done: Ended) -> list[dict[str, Any]]:
    assert done.status == 0, done.errors
    return [json.loads(line) for line in done.output.splitlines()]


@pytest.mark.parametrize("seed", range(6))
def test_values_of_streams(
    seed: int, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random.Random(f"wider values {seed}")
    for number in range(5):
        policies, log = tmp_path / "p.mtl", tmp_path / f"{number}.csv"
        policies.write_text(policies_of(source))
        rows = many_rows(source)
        log.write_text(text_of(rows))
        given = ["streams", "--format", "csv", policies]
        wanted = values_of(command(*given, log))
        lines = tmp_path / f"{number}.jsonl"
        lines.write_text("".join(line_of(row) for row in rows))
        of_lines = ["streams", policies]
        # their texts of numbers are not those of CSV
        lines_wanted = values_of(command(*of_lines, lines))
        what = f"{policies.read_text()}{log.read_text()}"
        for size in (1, 7, source.randrange(8, 90)):
            with small_steps(monkeypatch, size):
                assert values_of(command(*given, log)) == wanted, what
                assert values_of(command(*of_lines, lines)) == lines_wanted, what
        path = tmp_path / "pipe"
        with pipe(path, [HEADER, *(row.text for row in rows)]):
            assert values_of(command(*given, path)) == wanted, what


LATE = [
    "sum[0,9](x) > 6",
    "total < 20",
    "max[0,7](x) > before",
    "ONCE[0,4] (x > before)",
    "sums > before AND EVENTUALLY[0,5] (x > 2)",
    "x.next() > x",
    "on every 3s: sum[0,9](x) < 12",
    "on every 2s: x.hold() > 1",
]


@pytest.mark.parametrize("seed", range(6))
def test_late_rows(
    seed: int, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random.Random(f"wider late {seed}")
    for number in range(4):
        policies, log = tmp_path / "p.mtl", tmp_path / f"{number}.csv"
        declared = DECLARED.replace("relation", "#relation")
        text = f"{declared}{GROUPS}stream total = total.last(or: 0) + x\n"
        for place, one in enumerate(source.sample([*LATE, *LOOK_UPS], 3)):
            clock, _, condition = one.rpartition(": ") if one.startswith("on ") else ("", "", one)
            text += f"policy p{place}{' ' * bool(clock)}{clock}: {condition}\n"
        policies.write_text(text)
        rows = late(source, many_rows(source), 8)
        log.write_text(text_of(rows))
        what = f"{text}{log.read_text()}"
        options = ["--lateness", "9s", "--end-time", "last", "--resolve"]
        strong = [*options, "--consistency", "strong", policies]
        wanted = command(*strong, log)
        assert wanted.status in (0, 1), wanted.errors
        verdicts = sorted(wanted.output.splitlines())
        for size in (1, 30):
            with small_steps(monkeypatch, size):
                found = command(*strong, log)
                assert sorted(found.output.splitlines()) == verdicts, f"{found.errors}{what}"
                found = command(*options, "-o", tmp_path / "middle", policies, log)
                assert found.status in (0, 1), f"{found.errors}{what}"
                latest = command("latest", tmp_path / "middle")
                assert sorted(latest.output.splitlines()) == verdicts, what
        # from a checkpoint within the integers or behind them
        output = tmp_path / f"{number}.out"
        kept = ["--checkpoint", tmp_path / f"{number}.state", "--resume", "-o", output]
        for count in [*sorted(source.sample(range(1, len(rows)), 3)), len(rows)]:
            log.write_text(text_of(rows[:count]))
            end = [] if count < len(rows) else ["--end-time", "last"]
            done = command(*kept, *options[:2], "--resolve", *end, policies, log)
            assert done.status in (0, 1), f"{done.errors}{what}"
        latest = command("latest", output)
        assert sorted(latest.output.splitlines()) == verdicts, what


@pytest.mark.parametrize("seed", range(4))
def test_resumed_runs(seed: int, tmp_path: Path, command: Command) -> None:
    source = random.Random(f"wider resumed {seed}")
    for number in range(4):
        case: Case = case_of(source.randrange(1_000_000))
        rows = with_fractions(source, case.rows)
        policies, log = tmp_path / "p.mtl", tmp_path / f"{number}.csv"
        (tmp_path / "t.csv").write_text("k,from,to\na,1,4\nb,3,70\na,6,8\nc,62,65\n")
        policies.write_text(case.policies)
        log.write_text(text_of(rows))
        wanted = command(policies, log)
        output = tmp_path / f"{number}.out"
        kept = ["--checkpoint", tmp_path / f"{number}.state", "--resume", "-o", output]
        for count in sorted({*source.sample(range(1, len(rows) + 1), 2), len(rows)}):
            log.write_text(text_of(rows[:count]))
            done = command(*kept, policies, log)
            assert done.status in (0, 1), f"{done.errors}{case.policies}{text_of(rows)}"
        assert output.read_text() == wanted.output, f"{case.policies}{text_of(rows)}"


def test_times_get_a_point(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text("unit ms\nkey k\npolicy p: ts - ts.last() < 7\n")
    log.write_text("ts,k\n1,a\n2,b\n3,a\n9.5,a\n24,b\n36,a\n")
    wanted = command("--time-unit", "s", policies, log)
    assert wanted.output.splitlines()[-2:] == ["p\tb\t24000:0 false", "p\ta\t36000:0 false"]
    with small_steps(monkeypatch, 1):
        assert command("--time-unit", "s", policies, log).output == wanted.output


def test_arguments_of_atoms_need_no_declaration(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are floats from the first row on, with a declaration or without."""
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    log.write_text("ts,k,x\n1,a,5\n2,b,7\n3,a,2.5\n")
    rule = "find p: pay(k, x) AND x > 2\n"
    expected = [f"p\t{k}:0 match (k={one})" for k, one in enumerate(("a, x=5", "b, x=7"), 1)]
    with small_steps(monkeypatch, 1):
        for text in ("atom pay(k, x)", "column x: float\natom pay(k, x)", "atom pay(k, x: float)"):
            policies.write_text(f"unit s\n{text} = x > 0\n{rule}")
            done = command(policies, log)
            assert done.output.splitlines() == [*expected, "p\t3:0 match (k=a, x=2.5)"]
