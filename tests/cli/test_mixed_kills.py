"""Runs of policies with variables and without, killed at any moment, write all lines once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.kills import check_killed_runs
from tests.cli.test_relation_kills import ON_TABLES, POLICIES, make_log, make_rows
from tests.cli.test_table_kills import write

if TYPE_CHECKING:
    from pathlib import Path

POINTS = 2_400
WITHOUT = """\
policy quiet: NOT alarm
policy calm: alarm IMPLIES EVENTUALLY[0,9] reset
policy never: NOT (reset AND never)
"""

# options, one line in how many cannot be read
RUNS = {
    "all": (["--verdicts", "all", "--end-time", "inf"], 0),
    "skip": (["--on-error", "skip", "--explain", "--explain-limit", "7"], 7),
    "as-csv": (["--output-format", "csv", "--resolve"], 0),
    "slices": (["--slices", "3", "--verdicts", "false"], 0),
    "streams": (["--verdicts", "all", "--end-time", "last"], 0),
    "streams late": (["--wait", "3", "--resolve", "--on-error", "skip"], 7),
}
# what time they take depends on the ticks
STREAMS = """\
stream alarms = count[0,30](alarm)
atom noisy = alarms > 3
policy tame: noisy IMPLIES EVENTUALLY[0,9] reset
policy alive on every 5: count[0,20](alarm) > 0
"""


def marked(source: random.Random, log: bytes) -> bytes:
    """The lines with atoms without arguments."""
    lines = []
    for line in log.split(b"\n"):
        marks = [b" alarm", b" reset()", b""]
        is_row = line.startswith(b"@") and line.endswith(b")")
        lines.append(line + (source.choice(marks) if is_row else b""))
    return b"\n".join(lines)


@pytest.mark.parametrize("name", RUNS)
def test_killed_runs_over_text(name: str, tmp_path: Path) -> None:
    options, bad = RUNS[name]
    source = random.Random(name)
    rules, log, output = (tmp_path / name for name in ("rules.mtl", "log", "output"))
    has_streams = name.startswith("streams")
    rules.write_text(POLICIES + WITHOUT + (STREAMS if has_streams else ""))
    log.write_bytes(marked(source, make_log(source, POINTS // 2 if has_streams else POINTS, bad)))
    arguments = [*options, "--summary", "-o", str(output), str(rules)]
    every, can_pipe = str(POINTS // 40), "--explain" not in options
    expected, lines = check_killed_runs(
        arguments, log, output, source, every=every, can_pipe=can_pipe
    )
    assert expected.status == 1
    assert b"quiet" in lines
    assert b"approved" in lines
    assert "no event has the atom never" in expected.errors


ROWS = 3_000
WITH_KEYS = (
    ON_TABLES
    + """\
stream paying = count[0,20](what = "paid")
policy few per user: paying < 4
policy answered per user: what = "publish" IMPLIES EVENTUALLY[0,90] what = "approve"
trigger much per user: amount > 98 message "{amount} of {user}"
"""
)

# format of the log, options
TABLE_RUNS: dict[str, tuple[str, list[str]]] = {
    "csv": ("csv", ["--output-format", "csv", "--resolve"]),
    "jsonl": ("jsonl", ["--output-format", "jsonl", "--end-time", "last"]),
    "stamps": ("csv", ["--time-points", "stamp", "--verdicts", "all"]),
    "parquet": ("parquet", ["--verdicts", "false", "--explain", "--explain-limit", "5"]),
}


@pytest.mark.parametrize("name", TABLE_RUNS)
def test_killed_runs_over_tables(name: str, tmp_path: Path) -> None:
    kind, options = TABLE_RUNS[name]
    source = random.Random(name)
    rules, log, output = (tmp_path / name for name in ("rules.mtl", f"log.{kind}", "output"))
    rules.write_text(WITH_KEYS)
    rows = make_rows(source, ROWS)
    for row in rows:
        if row["user"] is None:
            # a key needs a value
            row["user"], row["file"] = "nobody", None
    write(rows, log)
    arguments = [*options, "--summary", "-o", str(output), str(rules)]
    expected, _ = check_killed_runs(
        arguments, log, output, source, every=str(ROWS // 20), can_pipe=False
    )
    assert expected.status == 1
    assert "left out" in expected.errors
