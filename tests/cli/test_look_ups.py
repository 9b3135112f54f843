"""Look-ups in relations by the command: pipes, checkpoints, late rows, and what is refused."""

from __future__ import annotations

import random
import time
from itertools import chain
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live, mtlmon

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.test_mixed_policies import Command

FLOW = """unit s
key station
relation limits = table "limits.csv" valid [from, to) key station
relation recent = rows valid 20 group station select avg(speed) as v, count() as n
relation slow = recent join limits on station = limits_station
                where v < least select station as station
policy flow: NOT exists slow[station]
policy busy "too many": recent[station].n < 5
policy limit: speed >= limits[station].least
policy calm per none on every 10s: NOT exists slow
"""
LIMITS = "station,from,to,least\na,0,100,40\na,100,,60\nb,50,,30\n"


def log_of(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    times = sorted(chance.randrange(200) for _ in range(count))
    return [f"{ts},{chance.choice('abc')},{chance.randrange(20, 90)}\n" for ts in times]


HEADER = "ts,station,speed\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "limits.csv").write_text(LIMITS)
    (tmp_path / "flow.mtl").write_text(FLOW)
    return tmp_path


def test_a_pipe_and_rows_that_come_late(folder: Path) -> None:
    rows = log_of(1, 120)
    path = folder / "log.csv"
    path.write_text(HEADER + "".join(rows))
    policies = str(folder / "flow.mtl")
    wanted = mtlmon(policies, str(path))
    assert wanted.status == 1
    assert {"flow", "busy", "limit", "calm"} <= {
        line.split("\t")[0] for line in wanted.output.splitlines() if line.endswith("false")
    }
    piped = mtlmon("--format", "csv", policies, log=HEADER + "".join(rows))
    assert piped.output == wanted.output
    # rows of one time-stamp keep the order in which they come
    blocks = [rows[start : start + 4] for start in range(0, len(rows), 4)]
    moved = [row for pair in zip(blocks[1::2], blocks[::2], strict=True) for row in chain(*pair)]
    options = ["--format", "csv", "--wait", "100s"]
    found = mtlmon(*options, policies, log=HEADER + "".join(moved))
    by_time = sorted(moved, key=lambda row: int(row.split(",")[0]))
    again = mtlmon("--format", "csv", policies, log=HEADER + "".join(by_time))
    assert found.output == again.output


def test_checkpoints(folder: Path) -> None:
    rows = log_of(3, 150)
    path, output = folder / "log.csv", folder / "output"
    policies = str(folder / "flow.mtl")
    options = ["--checkpoint", str(folder / "state"), "--resume", "-o", str(output)]
    options += ["--checkpoint-every", "10", policies, str(path)]
    path.write_text(HEADER + "".join(rows))
    wanted = mtlmon(policies, str(path)).output
    # in the middle of rows of one time-stamp
    for count in (40, 41, 90, 150):
        path.write_text(HEADER + "".join(rows[:count]))
        ended = mtlmon(*options)
        assert ended.status == 1, ended.errors
    assert output.read_text() == wanted


def test_rows_that_wait_while_a_pipe_is_silent(folder: Path) -> None:
    asked = ["--format", "csv", "--time-unit", "s", "--idle", "1s"]
    with Live(*asked, str(folder / "flow.mtl")) as live:
        now = int(time.time())
        live.send(HEADER + f"{now},a,80\n{now},a,10\n")
        # both rows count for both, as soon as time has passed
        names = ("flow", "busy", "limit")
        truth = (("false", "true", "true"), ("false", "true", "false"))
        for place, values in enumerate(truth):
            for name, value in zip(names, values, strict=True):
                assert live.read_line() == f"{name}\ta\t{now}:{place} {value}"
        live.send(f"{now},a,90\n")
        ended = live.end()
        assert ended.status == 2
        assert "comes too late: nothing came for some time" in ended.errors


def test_what_a_pipe_cannot_have(folder: Path) -> None:
    (folder / "p.mtl").write_text("relation one = rows distinct\npolicy p: exists one[station]\n")
    ended = mtlmon("--format", "csv", str(folder / "p.mtl"), log=HEADER)
    assert ended.status == 2
    assert "p.mtl:1:10: relation one joins or compares rows with all their columns" in ended.errors
    text = mtlmon(str(folder / "p.mtl"), log="@1 a\n")
    assert "uses columns of a table, but the log is read as text" in text.errors


QUIET = """unit s
const SMALL = "small"
relation limits = table "most.csv" valid [from, to) key what
relation quiet = limits where number is null select what as what
let both = down AND "a b"
stream fails = count[0,9s](down)
policy most: NOT fails > limits[if both then "both" else SMALL].number
policy calm "nothing happens while all is quiet": down IMPLIES NOT exists quiet
policy ends: both IMPLIES EVENTUALLY[0,20s] exists quiet
trigger loud: down and fails >= limits[SMALL].number message "{limits[SMALL].number} at {ts}"
"""
AT_TICKS = """policy often on every 15s: exists quiet OR fails.hold(or: 0) < 2
policy change on changes of limits: count[0,20s](down) < limits[SMALL].number
policy silent on changes of quiet: NOT exists quiet OR NEXT[0,20s] true
"""
MOST = "what,from,to,number\nsmall,0,60,2\nsmall,60,,1\nboth,30,90,3\nboth,90,115,\n"


def text_and_table(folder: Path, seed: int, count: int) -> tuple[list[str], list[str]]:
    """The lines of a text log, and of a table with the same events."""
    (folder / "most.csv").write_text(MOST)
    chance = random.Random(seed)
    lines, rows = [], []
    for ts in sorted(chance.randrange(120) for _ in range(count)):
        names = [name for name in ("down", "a b") if chance.random() < 0.5]
        shown = " ".join(f'"{name}"' if " " in name else name for name in names)
        lines.append(f"@{ts} {shown}")
        rows.append(f"{ts},{str('down' in names).lower()},{str('a b' in names).lower()}")
    return lines, ["ts,down,a b", *rows]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--summary", "--resolve", "--end-time", "last"],
        ["--explain", "--verdicts", "false", "--output-format", "jsonl"],
        ["--lateness", "10s"],
    ],
)
def test_text_logs_say_what_tables_do(folder: Path, command: Command, options: list[str]) -> None:
    late = "--lateness" in options
    (folder / "quiet.mtl").write_text(QUIET if late else QUIET + AT_TICKS)
    lines, rows = text_and_table(folder, 5, 80)
    if late:
        for place in range(0, 80, 5):
            lines[place : place + 5] = lines[place : place + 5][::-1]
            rows[place + 1 : place + 6] = rows[place + 1 : place + 6][::-1]
    (folder / "log").write_text("".join(f"{line}\n" for line in lines))
    (folder / "log.csv").write_text("".join(f"{row}\n" for row in rows))
    found, wanted = (
        command(*options, folder / "quiet.mtl", folder / name) for name in ("log", "log.csv")
    )
    assert wanted.status == 1, wanted.errors
    assert (found.status, found.output) == (wanted.status, wanted.output)
    assert late == ("!@" in found.output)
    if not options:
        false = {line.split("\t")[0] for line in found.output.splitlines() if "false" in line}
        assert false == {"most", "calm", "ends", "loud", "often", "change", "silent"}


def test_a_text_log_goes_on_from_a_checkpoint(folder: Path, command: Command) -> None:
    (folder / "quiet.mtl").write_text(QUIET + AT_TICKS)
    lines, _ = text_and_table(folder, 8, 100)
    path, output = folder / "log", folder / "output"
    asked = ["--checkpoint", folder / "state", "--resume", "-o", output]
    asked += ["--checkpoint-every", "10", folder / "quiet.mtl", path]
    path.write_text("".join(f"{line}\n" for line in lines))
    wanted = command(folder / "quiet.mtl", path).output
    for count in (31, 32, 77, 100):
        path.write_text("".join(f"{line}\n" for line in lines[:count]))
        ended = command(*asked)
        assert ended.status in (0, 1), ended.errors
    assert output.read_text() == wanted


def test_rows_of_text_logs_are_no_relation(folder: Path, command: Command) -> None:
    (folder / "p.mtl").write_text("relation r = rows valid 5\npolicy p: NOT exists r\n")
    (folder / "log").write_text("@1 a\n")
    ended = command(folder / "p.mtl", folder / "log")
    assert ended.status == 2
    assert "p.mtl:1:10: relation r reads the rows of the log, but the log is read" in ended.errors


def test_values_of_streams(folder: Path) -> None:
    declared = FLOW.partition("policy")[0]
    (folder / "s.mtl").write_text(f"{declared}stream w = recent[station].v\n")
    log = HEADER + "5,a,10\n5,a,20\n"
    ended = mtlmon("streams", "--format", "csv", str(folder / "s.mtl"), "-", log=log)
    assert ended.output == '{"time":5,"station":"a","w":15.0}\n' * 2
