"""Rows of tables that come late, compared with the sorted table."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, feather, parquet

import mtlmon
from mtlmon.errors import MemoryLimitError, MtlmonError, TableError
from mtlmon.policy import parse_policies
from mtlmon.tables import EventBatch, TableEvents, open_tables
from tests.cli.process import Live
from tests.doors import LARGEST_BATCH, Duration, MemoryLimit, main
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


VALUES = "unit s\nstream asked = count[0,4s](ask)\nstream gap = ts - ts.last() on ask\n"


@pytest.mark.parametrize("suffix", ["log", "csv", "jsonl", "parquet"])
def test_values_of_streams_are_those_of_the_sorted_log(
    suffix: str, tmp_path: Path, command: Command
) -> None:
    streams, late = tmp_path / "s.mtl", tmp_path / "late"
    streams.write_text(VALUES)

    def written(name: str, rows: list[tuple[int, dict[str, Any]]]) -> Path:
        path = tmp_path / f"{name}.{suffix}"
        if suffix != "log":
            return write([row for _, row in rows], path)
        path.write_text("".join(f"@{stamp} {row['what']}\n" for stamp, row in rows))
        return path

    rows = late_rows(4)
    log = written("rows", rows)
    for wait in (None, 0, WAIT):
        judged, refused = judged_and_refused(rows, wait)
        wanted = command("streams", streams, written("sorted", judged))
        assert wanted[0] == 0, wanted[2]
        given = ["--sort"] if wait is None else ["--wait", f"{wait}s", "--late", late]
        found = command("streams", *given, "--summary", streams, log)
        assert found[:2] == wanted[:2]
        if wait is None:
            assert "too late" not in found[2]
            continue
        row_name = "lines" if suffix == "log" else "rows"
        assert f"{len(refused)} {row_name} came too late to be checked (see {late})" in found[2]
        assert len(late.read_text().splitlines()) == len(refused) + (suffix == "csv")
    done = command("streams", "--wait", 3, "--sort", streams, log)
    assert done[0] == 2
    assert "--wait does not work with --sort: that waits for all rows" in done[2]
    before = log.read_bytes()
    done = command("streams", "--late", log, streams, log)
    assert (done[0], log.read_bytes()) == (2, before)


def test_a_picture_shows_the_rows_in_order(tmp_path: Path, command: Command) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib (mtlmon[plot]) is not installed")
    streams = tmp_path / "s.mtl"
    streams.write_text(VALUES + "policy a: asked < 3\n")
    rows = late_rows(4)
    judged, refused = judged_and_refused(rows, WAIT)
    log = write([row for _, row in rows], tmp_path / "log.csv")
    sorted_log = write([row for _, row in judged], tmp_path / "sorted.csv")
    late, picture, wanted = tmp_path / "late", tmp_path / "one.svg", tmp_path / "other.svg"
    given = ["streams", "--wait", WAIT, "--late", late, "--plot"]
    assert command(*given, picture, streams, log)[0] == 0
    assert command("streams", "--plot", wanted, streams, sorted_log)[0] == 0
    # everything else has numbers of its own
    lines = [re.findall(r' d="([^"]+)"', one.read_text()) for one in (picture, wanted)]
    assert lines[0] == lines[1] != []
    assert len(late.read_text().splitlines()) == 1 + len(refused)
    assert command(*given, late, streams, log)[0] == 2


SILENT = {
    "atoms": "policy late: p IMPLIES EVENTUALLY[0,1s] q\n",
    "streams": "stream asked = count[0,5s](p)\npolicy late: asked = 0\n",
    "variables": ("atom p(k) = p\natom q(k) = q\nfind late: p(x) AND NOT EVENTUALLY[0,1s] q(x)\n"),
    "mixed": (
        "atom p(k) = p\natom q(k) = q\nfind late: p(x) AND NOT EVENTUALLY[0,1s] q(x)\n"
        'policy other: k = "a" OR EVENTUALLY[0,1s] k = "b"\n'
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_time_that_passes_ends_the_waiting(name: str, tmp_path: Path) -> None:
    policies, late = tmp_path / "p.mtl", tmp_path / "late"
    policies.write_text(f"unit s\n{SILENT[name]}")

    def row(stamp: int, *, p: bool) -> str:
        return json.dumps({"ts": stamp, "k": "a", "p": p, "q": not p}) + "\n"

    asked = ["--format", "jsonl", "--time-unit", "s", "--verdicts", "false"]
    asked += ["--idle", "500ms", "--wait", "1h", "--late", str(late)]
    with Live(*asked, str(policies)) as live:
        now = int(time.time())
        live.send(row(now - 2, p=True) + row(now - 9, p=True))
        found = [str(live.read_line(15.0)).split(" ")[0] for _ in range(2)]
        assert found == [f"late\t{now - 9}:0", f"late\t{now - 2}:0"]
        again = int(time.time())
        live.send(row(now - 9, p=False) + row(again + 5, p=False))
        ended = live.end()
        assert ended.status == (0 if name in ("variables", "mixed") else 1), ended.errors
        assert ended.output == ""
        written = [json.loads(line) for line in late.read_text().splitlines()]
        assert [one["ts"] for one in written] == [now - 9]
        assert "1 row came too late" in ended.errors


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


@settings(max_examples=60)
@given(
    # batches, and to what time time passes before them
    st.lists(
        st.tuples(st.none() | st.integers(0, 15), st.lists(st.integers(0, 15), max_size=6)),
        max_size=6,
    ),
    st.integers(0, 6),
    st.booleans(),
)
def test_rows_are_released_as_soon_as_none_can_come_before_them(
    batches: list[tuple[int | None, list[int]]], wait: int, has_streams: bool
) -> None:
    schema = pa.schema({"ts": pa.int64(), "number": pa.int64()})
    rows = [
        (stamp, number)
        for number, stamp in enumerate(chain.from_iterable(stamps for _, stamps in batches))
    ]
    times = accumulate((time or 0 for time, _ in batches), max)
    passed = [time for time, (_, stamps) in zip(times, batches, strict=True) for _ in stamps]
    judged, refused = judged_and_refused(rows, wait, passed)
    found: list[int] = []
    letters: list[int] = []
    frontier = -1

    def take(some: Iterable[EventBatch]) -> None:
        for batch in some:
            found.extend(batch.time_stamps.tolist())
            letters.extend(batch.letters_of(0)[:, 0].tolist())

    def read() -> Iterator[pa.RecordBatch]:
        nonlocal frontier
        first = 0
        for silent, stamps in batches:
            if silent is not None:
                # as while a pipe is silent
                frontier = max(frontier, silent)
                take(tables.rows_until(silent))
                assert not tables.has_late_rows or max(judged)[0] > frontier
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
    take(tables)
    assert found == [stamp for stamp, _ in judged]
    assert tables.refused == len(refused)
    if not has_streams:
        assert [letter & 1 for letter in letters] == [number % 2 for _, number in judged]


def batches_from(rows: Sequence[list[tuple[int, int]]]) -> pa.RecordBatchReader:
    """A reader of batches with the columns ts and number."""
    schema = pa.schema({"ts": pa.int64(), "number": pa.int64()})
    return pa.RecordBatchReader.from_batches(
        schema, (pa.record_batch(list(zip(*one, strict=True)), schema) for one in rows)
    )


def test_rows_that_wait_count_as_memory() -> None:
    read = []

    def rows(count: int) -> Iterator[pa.RecordBatch]:
        for number in range(count):
            read.append(number)
            stamps = np.arange(1000) + 1000 * number
            yield pa.record_batch({"ts": stamps, "number": stamps})

    schema = pa.schema({"ts": pa.int64(), "number": pa.int64()})
    policies = parse_policies("atom ODD = number % 2 = 1\npolicy a: ODD\n")

    def opened(wait: int) -> TableEvents:
        read.clear()
        reader = pa.RecordBatchReader.from_batches(schema, rows(400))
        memory = MemoryLimit(1 << 20)
        return open_tables(reader, ("ODD",), policies=policies, wait=wait, memory=memory)

    # The error comes while rows are read, not when they are released at the end.
    with opened(10**9) as tables, pytest.raises(MemoryLimitError, match="wait for late ones"):
        list(tables)
    assert len(read) < 200
    # Rows that have been released count no more.
    with opened(5000) as tables:
        assert sum(len(batch) for batch in tables) == 400_000


def test_batches_are_as_large_as_streams_allow() -> None:
    stamps = np.arange(3 * LARGEST_BATCH) % 7
    policies = parse_policies("stream one = sum[0,0](number)\natom ODD = one > 1\npolicy a: ODD\n")
    with open_tables(
        pa.table({"ts": stamps, "number": stamps}), ("ODD",), policies=policies, wait=10
    ) as tables:
        sizes = [len(batch) for batch in tables]
    assert sum(sizes) == len(stamps)
    assert max(sizes) <= LARGEST_BATCH


def test_rows_of_one_time_keep_their_order() -> None:
    source = random.Random(5)
    rows = [[(source.randrange(40), source.randrange(1000)) for _ in range(500)] for _ in range(3)]
    judged, _ = judged_and_refused(list(chain.from_iterable(rows)), 40)
    policies = parse_policies("atom ODD = number % 2 = 1\npolicy a: ODD\n")
    found: list[int] = []
    with open_tables(batches_from(rows), ("ODD",), policies=policies, wait=40) as tables:
        for batch in tables:
            found += (batch.letters_of(0)[:, 0] & 1).tolist()
            assert tables.clock == batch.time_stamps[-1]
    assert found == [number % 2 for _, number in judged]


def test_the_rows_that_the_end_releases_are_its_tail() -> None:
    rows = [[(5, 0), (4, 1)], [(9, 2), (8, 3)], [(12, 4)]]
    policies = parse_policies("atom ODD = number % 2 = 1\npolicy a: ODD\n")
    with open_tables(batches_from(rows), ("ODD",), policies=policies, wait=2) as tables:
        found = [(batch.time_stamps.tolist(), batch.is_tail) for batch in tables]
    assert found == [([4, 5], False), ([8, 9], False), ([12], True)]


def test_late_rows_have_each_header_once(tmp_path: Path, command: Command) -> None:
    logs = []
    for number, header in enumerate(["ts,p,q", "ts,p,q", "p,ts"]):
        logs.append(tmp_path / f"log{number}.csv")
        names = header.split(",")
        cells = [
            {"ts": str(20 + number), "p": "true", "q": "x"},
            {"ts": "5", "p": "true", "q": "y"},
        ]
        lines = [header, *(",".join(row[name] for name in names) for row in 2 * cells)]
        logs[-1].write_text("".join(f"{line}\n" for line in lines))
    late = tmp_path / "late"
    assert command("--late", late, "--verdicts", "none", "-e", "p", *logs)[0] == 0
    assert late.read_text() == "ts,p,q\n" + 4 * "5,true,y\n" + "p,ts\n" + 2 * "true,5\n"


def test_what_an_unfinished_row_releases_is_of_the_tail(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    # The last row may become 19, or a row that cannot be read.
    path.write_text("ts,p\n1,true\n4,true\n5,true\n9,true")
    with open_tables(str(path), ("p",), wait=2) as tables:
        found = [(batch.time_stamps.tolist(), batch.is_tail) for batch in tables]
    assert found == [([1], False), ([4, 5], True), ([9], True)]


@pytest.mark.parametrize("is_encoded", [(True, True), (True, False), (False, True)])
def test_keys_of_dictionaries(is_encoded: tuple[bool, bool]) -> None:
    tables = []
    for texts, stamps, encodes in zip(
        (["a", "b"], ["b", "c", "a"]), ([5, 7], [6, 4, 8]), is_encoded, strict=True
    ):
        cells = pa.array(texts)
        cells = cells.dictionary_encode() if encodes else cells
        tables.append(pa.table({"ts": stamps, "key": cells, "p": [True] * len(stamps)}))
    with open_tables(tables, ("p",), key="key", wait=5) as events:
        assert events.keys is not None
        found = []
        for batch in events:
            assert batch.numbers is not None
            found += [events.keys.key(number)[0] for number in batch.numbers.tolist()]
    assert found == ["c", "a", "b", "b", "a"]


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
    check = mtlmon.check("policy a: p\n", str(path), wait="2s", time_unit="ms")
    assert sum(batch.num_rows for batch in check.batches()) == 3
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
