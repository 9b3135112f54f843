"""Rows of tables that come late, compared with the sorted table."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, feather, parquet

from mtlmon.cli import main
from mtlmon.errors import MtlmonError, TableError
from mtlmon.policy import parse_policies
from mtlmon.syntax.durations import Duration
from mtlmon.tables import check_tables, open_tables
from tests.reference.late import judged_and_refused

Rows = list[dict[str, Any]]
Command = Callable[..., tuple[int, str, str]]

WAIT = 6
POLICIES = {
    "atoms": "policy a: ask IMPLIES EVENTUALLY[0,5] reply\npolicy b: reply IMPLIES ONCE[0,4] ask\n",
    "predicate": "atom LARGE = amount > 60\npolicy a: LARGE IMPLIES EVENTUALLY[0,5] ask\n",
    "streams": (
        "stream spent = sum[0,5](amount)\natom MUCH = spent > 200\n"
        "policy a: MUCH IMPLIES EVENTUALLY[0,4] reply\n"
        'trigger b: amount > amount.last(or: 0) + 50 message "more: {amount}"\n'
    ),
    "ticks": "policy a on every 3: count[0,4]() > 2\n",
    "variables": (
        'atom asks(host) = what = "ask"\natom replies(host) = what = "reply"\n'
        "policy a: asks(x) IMPLIES EVENTUALLY[0,5] replies(x)\n"
    ),
    "mixed": (
        'atom asks(host) = what = "ask"\natom replies(host) = what = "reply"\n'
        "policy a: asks(x) IMPLIES EVENTUALLY[0,5] replies(x)\n"
        "policy b: reply IMPLIES ONCE[0,4] ask\n"
    ),
}


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        return main([str(one) for one in arguments]), *capfd.readouterr()

    return run


def late_rows(seed: int, count: int = 150) -> list[tuple[int, dict[str, Any]]]:
    """Rows as they come, with their time-stamps: some come late, and some too late."""
    source = random.Random(seed)
    now = 100
    rows = []
    for _ in range(count):
        now += source.choice([0, 0, 0, 1, 2])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        what = source.choice(["ask", "reply", "other"])
        row = {
            "ts": stamp,
            "host": source.choice("abc"),
            "what": what,
            "amount": source.randrange(100),
            "ask": what == "ask",
            "reply": what == "reply",
        }
        rows.append((stamp, row))
    return rows


def write(rows: Sequence[dict[str, Any]], path: Path) -> Path:
    table = pa.Table.from_pylist(list(rows))
    match path.suffix:
        case ".csv":
            csv.write_csv(table, path)
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".parquet":
            parquet.write_table(table, path, row_group_size=11)
        case ".arrow":
            feather.write_feather(table, path, compression="uncompressed", chunksize=7)
    return path


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("name", POLICIES)
def test_output_is_that_of_the_sorted_table(
    name: str, suffix: str, tmp_path: Path, command: Command
) -> None:
    policies = tmp_path / "p.mtl"
    policies.write_text(POLICIES[name])
    keyed = [] if name in ("variables", "mixed") else ["--key", "host"]
    for seed, options in enumerate([[], keyed, ["--end-time", "last", "--output-format", "jsonl"]]):
        rows = late_rows(seed)
        late = tmp_path / "late"
        log = write([row for _, row in rows], tmp_path / f"log.{suffix}")
        for wait in (0, WAIT):
            judged, refused = judged_and_refused(rows, wait)
            sorted_log = write([row for _, row in judged], tmp_path / f"sorted.{suffix}")
            status, output, errors = command(*options, policies, sorted_log)
            assert status in (0, 1), errors
            found = command(*options, "--wait", wait, "--late", late, policies, log)
            assert found[:2] == (status, output), found[2]
            assert f"{len(refused)} rows came too late to be checked (see {late})" in found[2]
            lines = late.read_text().splitlines()
            if suffix == "csv":
                assert lines.pop(0) == log.read_text().splitlines()[0]
                first = log.read_text().splitlines()
                assert all(line in first for line in lines)
            else:
                written = [json.loads(line) for line in lines]
                for row, (_, wanted) in zip(written, refused, strict=True):
                    assert row.items() <= wanted.items()
                    assert suffix != "jsonl" or row == wanted
            assert len(lines) == len(refused)


def test_several_files_are_one_log(tmp_path: Path, command: Command) -> None:
    rows = late_rows(9, 300)
    judged, _ = judged_and_refused(rows, WAIT)
    logs = []
    for number in range(3):
        part = [row for _, row in rows[100 * number : 100 * number + 100]]
        logs.append(write(part, tmp_path / f"log{number}.{['csv', 'jsonl', 'parquet'][number]}"))
    whole = write([row for _, row in judged], tmp_path / "sorted.jsonl")
    given = ["--key", "host", "-e", "ask IMPLIES EVENTUALLY[0,5] reply"]
    wanted = command(*given, whole)
    assert command("--wait", WAIT, *given, *logs)[:2] == wanted[:2]


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_rows_that_cannot_be_read(on_error: str, tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,p\n5,true\n9,true\n4,false\nx,true\n6,true\n")
    status, output, errors = command("--wait", 5, "--on-error", on_error, "-e", "p", log)
    if on_error == "stop":
        assert (status, output) == (2, "4:0 false\n5:0 true\n9:0 true\n")
        assert f"{log}" in errors
    else:
        assert (status, output) == (1, "4:0 false\n5:0 true\n6:0 true\n9:0 true\n")
        assert "skipped 1 row" in errors


def test_lines_of_a_pattern_and_rows(tmp_path: Path, command: Command) -> None:
    log, late = tmp_path / "log", tmp_path / "late"
    log.write_text("5 ask\n\nnothing\n9 reply\n4 other\n3 reply\n6 reply\n")
    given = ["--pattern", r"^(?P<ts>\d+) (?P<what>\w+)$", "--event", "what"]
    done = command(*given, "--wait", 5, "--late", late, "--rows", "-e", "ask OR reply", log)
    wanted = [("4:0 false", 5), ("5:0 true", 1), ("6:0 true", 7), ("9:0 true", 4)]
    assert done[1] == "".join(f"{line}\t{log}:{number}\n" for line, number in wanted)
    assert late.read_text() == "3 reply\n"


def batches_of(path: Path, **options: Any) -> tuple[list[list[int]], int]:
    tables = open_tables(str(path), ("p",), **options)
    return [batch.time_stamps.tolist() for batch in tables], tables.refused


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    st.lists(st.lists(st.integers(0, 15), max_size=6), max_size=6),
    st.integers(0, 6),
    st.booleans(),
)
def test_rows_are_released_as_soon_as_none_can_come_before_them(
    batches: list[list[int]], wait: int, has_streams: bool
) -> None:
    schema = pa.schema({"ts": pa.int64(), "number": pa.int64()})
    rows = [(stamp, number) for number, stamp in enumerate(chain.from_iterable(batches))]
    judged, refused = judged_and_refused(rows, wait)
    found: list[int] = []
    frontier = -1

    def read() -> Iterator[pa.RecordBatch]:
        nonlocal frontier
        first = 0
        for stamps in batches:
            # All that can be released has been, and nothing else.
            assert sorted(found) == [one for one, _ in judged[: len(found)]]
            assert len(found) == sum(
                stamp <= frontier for stamp, number in judged if number < first
            )
            numbers = range(first, first + len(stamps))
            first += len(stamps)
            frontier = max([frontier, *(stamp - wait for stamp in stamps)])
            frontier = max(frontier, 0 if first else -1)
            yield pa.record_batch({"ts": stamps, "number": numbers}, schema)

    text = "stream one = sum[0,0](number)\natom ODD = one % 2 = 1\n" if has_streams else ""
    text = text or "atom ODD = number % 2 = 1\n"
    policies = parse_policies(f"{text}policy a: ODD\n")
    tables = open_tables(
        pa.RecordBatchReader.from_batches(schema, read()), ("ODD",), policies=policies, wait=wait
    )
    letters: list[int] = []
    for batch in tables:
        found += batch.time_stamps.tolist()
        letters += batch.letters_of(0)[:, 0].tolist()
    assert found == [stamp for stamp, _ in judged]
    assert tables.refused == len(refused)
    if not has_streams:
        assert [letter & 1 for letter in letters] == [number % 2 for _, number in judged]


def test_time_to_wait_has_a_unit(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,p\n5000,true\n9000,true\n4000,true\n7000,true\n")
    assert batches_of(path, wait=Duration(2, "s"), time_unit="ms")[1] == 1
    with pytest.raises(MtlmonError, match="wait='2s' needs the unit of the time-stamps: add time_"):
        batches_of(path, wait=Duration(2, "s"))
    assert batches_of(path, wait="2s", time_unit="ms")[1] == 1
    for wrong in ("soon", "5 s", "s", "-1", -1):
        with pytest.raises(MtlmonError, match="is neither a number of time units from 0 on nor"):
            batches_of(path, wait=wrong)
    check = check_tables(str(path), "policy a: p\n", wait="2s", time_unit="ms")
    assert sum(batch.num_rows for batch in check) == 3
    with pytest.raises(MtlmonError, match="is not a whole number of the time-stamps' unit, s"):
        batches_of(path, wait=Duration(2, "ms"), time_unit="s")
    with pytest.raises(MtlmonError, match="rows that are sorted do not wait"):
        batches_of(path, wait=2, sort=True)
    with pytest.raises(TableError, match="out of order"):
        batches_of(path)


def test_late_rows_do_not_wait_for_pandas(tmp_path: Path) -> None:
    rows = [row for _, row in late_rows(3)]
    log = write(rows, tmp_path / "log.csv")
    script = (
        "import sys; from mtlmon.cli import main; main(sys.argv[1:]);"
        "sys.exit(3 if 'pandas' in sys.modules else 0)"
    )
    given = ["--wait", str(WAIT), "--event", "what", "-e", "ask", str(log)]
    done = subprocess.run([sys.executable, "-c", script, *given], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"rows came too late" in done.stderr
