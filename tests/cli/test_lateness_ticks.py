"""Policies and streams on ticks where verdicts are corrected."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live
from tests.cli.test_lateness import Command, collapsed
from tests.cli.test_lateness_kills import check_killed_run

ALIVE = "key user\npolicy alive on every 10: count[0,20](a) > 0\n"
TEXTS = """\
stream asked = count[0,9](a) every 3
policy one on every 3: asked > 1 IMPLIES EVENTUALLY[0,6] (count[0,6](b) > 0)
policy two: asked.hold(or: 0) < 3
"""


def test_ticks_follow_the_rows(tmp_path: Path) -> None:
    """A first row that comes late adds ticks, and rows that are taken back take theirs along."""
    file = tmp_path / "p.mtl"
    file.write_text(ALIVE)
    options = ["--lateness", "60", "--op", "op", "--id", "id", "--format", "csv"]
    with Live(*options, str(file)) as live:
        live.send("ts,user,a,op,id\n")
        for row, lines in (
            ("100,x,true,+,1", []),
            ("111,x,false,+,2", ["alive\tx\t100:0 true", "alive\tx\t110:0 true"]),
            # the first row of y
            ("109,y,true,+,3", ["alive\ty\t110:0 true"]),
            ("87,y,true,+,4", ["alive\ty\t90:0 true", "alive\ty\t100:0 true"]),
            ("131,x,false,+,5", ["alive\tx\t120:0 true", "alive\tx\t130:0 false"]),
            (None, ["alive\ty\t120:0 true", "alive\ty\t130:0 false"]),
            ("115,x,true,+,6", ["alive\tx\t!130:0 true"]),
            ("0,y,,-,4", ["alive\ty\t!x90:0", "alive\ty\t!x100:0"]),
            # the time that has passed stays passed
            ("0,x,,-,5", []),
            ("99,y,true,+,4", ["alive\ty\t!100:0 true"]),
            ("0,y,,-,3", ["alive\ty\t!120:0 false"]),
            ("0,y,,-,4", [f"alive\ty\t!x{time}:0" for time in (100, 110, 120, 130)]),
        ):
            if row is not None:
                live.send(f"{row}\n")
            for line in lines:
                while (found := str(live.read_line())).startswith("!@"):
                    pass
                assert found == line


@pytest.mark.parametrize("end", ["last", "300"])
def test_a_text_log(end: str, tmp_path: Path, command: Command) -> None:
    file, log, ordered = tmp_path / "p.mtl", tmp_path / "log", tmp_path / "ordered"
    file.write_text(TEXTS)
    source = random.Random(end)
    now, lines = 100, []
    for _ in range(60):
        now += source.choice([0, 1, 1, 3])
        stamp = now - (source.randrange(7) if source.random() < 0.4 else 0)
        lines.append((stamp, f"@{stamp}{' a' * (source.random() < 0.5)}{' b' * (now % 4 == 0)}\n"))
    ordered.write_text("".join(line for _, line in sorted(lines, key=lambda one: one[0])))
    wanted = command("--end-time", end, file, ordered)
    with Live("--lateness", "7", "--end-time", end, str(file)) as live:
        for _, line in lines:
            live.send(line)
        done = live.end()
    assert collapsed(done.output) == sorted(wanted.output.splitlines())
    assert done.status == wanted.status
    log.write_text("".join(line for _, line in lines))
    first = command("--lateness", 7, "--verdicts", "first", "--end-time", end, file, log)
    wanted = command("--verdicts", "first", "--end-time", end, file, ordered)
    assert (first.status, first.output) == (wanted.status, wanted.output) != (0, "")


def test_options_beside_ticks(tmp_path: Path, command: Command) -> None:
    file, log, report = tmp_path / "p.mtl", tmp_path / "log.csv", tmp_path / "r.html"
    file.write_text(ALIVE)
    log.write_text("ts,user,a\n100,x,true\n131,x,false\n115,x,false\n129,y,true\n99,y,true\n")
    done = command("--lateness", 60, "--rows", file, log)
    assert done.output.splitlines()[-2:] == ["alive\ty\t130:0 true", "!@71"]
    done = command("--lateness", 60, "--verdicts", "none", "--explain", file, log)
    assert "130:0 violates" in done.errors
    assert command("--lateness", 60, "--report", report, file, log).status == 1
    assert "130:0" in report.read_text()
    done = command("--lateness", 60, "--clock", "key", file, log)
    assert done.status == 2
    assert "--clock key does not work with ticks, as in policy alive" in done.errors


def test_time_passes_while_a_pipe_is_silent(tmp_path: Path) -> None:
    import time

    file = tmp_path / "p.mtl"
    file.write_text("unit s\npolicy alive on every 1s: count[0,1s]() > 0\n")
    now = int(time.time())
    with Live("--lateness", "20s", "--idle", "300ms", "--verdicts", "false", str(file)) as live:
        live.send(f"@{now}\n")
        while (line := str(live.read_line())).startswith("!@"):
            pass
        assert line == f"alive\t{now + 2}:0 false"
        live.send(f"@{now + 2}\n")
        while (line := str(live.read_line())) != f"alive\t!{now + 2}:0 true":
            assert "!" in line or line > f"alive\t{now + 2}"


def test_a_run_that_is_killed_comes_to_the_same_ticks(tmp_path: Path, command: Command) -> None:
    policies = (
        "key user\nstream asked = count[0,30](a) every 5\n"
        "policy one per host on every 5: asked > 3 IMPLIES EVENTUALLY[0,9] count[0,9](b) > 0\n"
        "policy two per none: asked.hold(or: 0) < 9\n"
        "policy three on rows where a: v.last(or: 0) > 5\n"
    )
    check_killed_run(tmp_path, policies, 1, command)
