"""Runs over tables, killed at any moment and started again, write what an undisturbed one does."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from pyarrow import csv, feather, parquet

from tests.cli.kills import check_killed_runs, kill_somewhere
from tests.cli.process import mtlmon
from tests.cli.test_kills import make_log

ROWS = 12_000
POLICIES = """\
policy answered: request IMPLIES EVENTUALLY[0,40] answer
policy late: ALWAYS[0,90] (request IMPLIES EVENTUALLY[0,60] (answer OR stop))
policy "the past": answer IMPLIES ONCE[0,500] request
policy amount: LARGE IMPLIES (NOT stop) SINCE[0,50] request
atom LARGE = amount > 900
"""
NAMES = ["request", "answer", "stop"]

# format, options; rows are in the order of time
RUNS: dict[str, tuple[str, list[str]]] = {
    "csv": ("csv", []),
    "jsonl": ("jsonl", ["--resolve"]),
    "parquet": ("parquet", []),
    "arrow": ("arrow", ["--mode", "global"]),
    "two-keys": ("csv", ["--key", "user,host", "--resolve", "--end-time", "inf"]),
    "one-trace": ("jsonl", ["--key", ""]),
    "advance": ("parquet", ["--advance-every", "25", "--resolve", "--end-time", "last"]),
    "first": ("csv", ["--verdicts", "first"]),
    "false": ("jsonl", ["--verdicts", "false", "--mode", "naive"]),
    "none": ("parquet", ["--verdicts", "none"]),
    "limit": ("csv", ["--max-memory", "200M"]),
    "as-csv": ("jsonl", ["--output-format", "csv"]),
    "as-jsonl": ("csv", ["--output-format", "jsonl", "--time-unit", "s"]),
    "explain": ("csv", ["--explain", "--explain-limit", "3"]),
}


# violated near the end of the log
NEVER = (
    "policy never: NOT never\npolicy answered: request IMPLIES EVENTUALLY[0,40] (answer OR true)\n"
)


def make_rows(source: random.Random, count: int) -> list[dict[str, Any]]:
    """Rows of many users, of which some come back after they were idle for long."""
    time = 0
    rows: list[dict[str, Any]] = []
    for number in range(count):
        time += source.random() < 0.4
        user = source.choice([source.randrange(20), source.randrange(2000), number // 40])
        what = [name for name in NAMES if source.random() < 0.3]
        rows.append(
            {
                "ts": time,
                "user": f"user {user}",
                "host": source.choice(["a", "b", ""]),
                "amount": source.randrange(1000),
                "what": "|".join(what),
            }
        )
    return rows


def write(rows: list[dict[str, Any]], path: Path) -> None:
    table = pa.Table.from_pylist(rows)
    match path.suffix:
        case ".csv":
            csv.write_csv(table, path)
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".parquet":
            parquet.write_table(table, path, row_group_size=max(1, len(rows) // 40))
        case ".arrow":
            feather.write_feather(
                table, path, compression="uncompressed", chunksize=max(1, len(rows) // 40)
            )


@pytest.mark.parametrize("name", RUNS)
def test_killed_runs_write_what_an_undisturbed_one_does(name: str, tmp_path: Path) -> None:
    format, options = RUNS[name]
    source = random.Random(name)
    policies, output = tmp_path / "rules.mtl", tmp_path / "output"
    log = tmp_path / f"log.{format}"
    rows = make_rows(source, ROWS)
    if name == "first":
        rows[-100]["what"] += "|never"
    policies.write_text(NEVER if name == "first" else POLICIES)
    write(rows, log)
    if "--key" not in options:
        options = [*options, "--key", "user"]
    elif "" in options:
        options = [one for one in options if one not in ("--key", "")]
    arguments = [*options, "--event", "what", "--format", format, "--summary", "-o", str(output)]
    arguments += [str(policies)]
    can_pipe = format in ("csv", "jsonl") and "--explain" not in options
    expected, _ = check_killed_runs(
        arguments, log, output, source, every=str(ROWS // 20), can_pipe=can_pipe
    )
    assert expected.status == 1


def test_several_policies_on_a_text_log(tmp_path: Path) -> None:
    source = random.Random(11)
    policies, output = tmp_path / "rules.mtl", tmp_path / "output"
    policies.write_text("policy one: p IMPLIES EVENTUALLY[0,20] q\npolicy two: ONCE[0,10] r\n")
    log = tmp_path / "log"
    log.write_bytes(make_log(source, 12_000, 7))
    arguments = ["--on-error", "skip", "--summary", "-o", str(output), str(policies)]
    expected, _ = check_killed_runs(arguments, log, output, source, every="600")
    assert expected.status == 1


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_log_that_grows_while_processes_are_killed(format: str, tmp_path: Path) -> None:
    """Also in the middle of a row: the last checkpoint is before a row that no line feed ends."""
    source = random.Random(format)
    whole, growing = tmp_path / f"whole.{format}", tmp_path / f"growing.{format}"
    output, checkpoint = tmp_path / "output", tmp_path / "state"
    write(make_rows(source, ROWS), whole)
    content = whole.read_bytes()
    options = ["-e", "request IMPLIES EVENTUALLY[0,40] answer", "--resolve", "--on-error", "skip"]
    options += ["--key", "user", "--event", "what", "-o", str(output)]
    mtlmon(*options, str(whole))
    verdicts = output.read_bytes()
    options += ["--resume", "--checkpoint", str(checkpoint), "--checkpoint-every", str(ROWS // 50)]
    size = len(content) // 10
    while size < len(content):
        growing.write_bytes(content[:size])
        kill_somewhere(options, growing, checkpoint, source, can_pipe=False, most=2)
        size += source.randint(len(content) // 10, len(content) // 5)
    growing.write_bytes(content)
    assert mtlmon(*options, str(growing)).status == 1
    assert output.read_bytes() == verdicts


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_killed_runs_over_rows_that_come_late(suffix: str, tmp_path: Path) -> None:
    source = random.Random(suffix)
    rows = make_rows(source, ROWS // 2)
    for row in rows:
        if source.random() < 0.1:
            row["ts"] = max(0, row["ts"] - source.randrange(60))
    folder = tmp_path / "out"
    folder.mkdir()
    log, policies = tmp_path / f"log.{suffix}", tmp_path / "p.mtl"
    output, late = folder / "output", folder / "late"
    write(rows, log)
    policies.write_text(POLICIES)
    arguments = ["--event", "what", "--key", "user", "--wait", "40", "--late", str(late)]
    arguments += ["--format", suffix, "-o", str(output), str(policies)]
    check_killed_runs(arguments, log, output, source, every=str(ROWS // 40), kills=2)
    latest, refused = 0, 0
    for row in rows:
        latest = max(latest, row["ts"])
        refused += latest - row["ts"] > 40
    assert len(late.read_text().splitlines()) == refused + (suffix == "csv")
