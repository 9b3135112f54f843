"""Streaming queries whose processes are killed in the middle of batches."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

import mtlmon
from mtlmon import Monitor, resolve
from tests.reference.late_stream import Row, history_of
from tests.spark import stream_to_files
from tests.spark.stream_to_files import (
    CHANGING,
    CORRECTED,
    DELAY,
    FORMULA,
    LATENESS,
    RELATED,
    STALLING_TIME,
    Places,
)
from tests.spark.streams import put, state_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

SECONDS = 250


class Verdict(NamedTuple):
    policy: str
    key: str
    time: int
    offset: int
    value: bool


def files() -> list[list[dict[str, Any]]]:
    """Rows of keys at many of the same times, out of order, some of them too late in all queries.

    There is trouble in the second and in the fourth file, and a key that only time decides about.
    """
    generator = random.Random(5)
    names = ["request", "response", "error", "login", "request|login", "x"]
    contents = []
    number = 0
    for start in range(0, 40, 10):
        rows = []
        for _ in range(50):
            number += 1
            time_stamp = max(0, start + generator.randrange(-6, 10))
            key = f"k{generator.randrange(6)}"
            rows.append({"key": key, "ts": time_stamp, "what": generator.choice(names)})
            rows[-1]["number"] = -number
        for place in range(8):
            number += 1
            late = {"key": f"k{place % 6}", "ts": max(0, start - 26 + 2 * place)}
            rows.append({**late, "what": "request|error", "number": -number})
        contents.append(rows)
    contents[1].append({"key": "k0", "ts": 15, "what": "stall", "number": 0})
    contents[3].append({"key": "k1", "ts": 35, "what": "die", "number": 0})
    login = {"key": "idle", "ts": STALLING_TIME, "what": "login", "number": 1}
    contents.append([login, {**login, "what": "request", "number": 2}])
    contents.append([{"key": "other", "ts": STALLING_TIME + 40, "what": "x", "number": 1}])
    return contents


def truth(
    contents: Sequence[Sequence[dict[str, Any]]],
) -> tuple[set[Verdict], list[tuple[str, int]]]:
    """The verdicts and late rows when each file is a batch."""
    horizon = 0
    late = []
    of_key: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for rows in contents:
        late += [(row["key"], row["ts"]) for row in rows if row["ts"] < horizon]
        for row in rows:
            if row["ts"] >= horizon:
                of_key[row["key"]].append(row)
        horizon = max(horizon, max(row["ts"] for row in rows) - DELAY)
    verdicts = set()
    for key, rows in of_key.items():
        monitor = Monitor(FORMULA)
        found = []
        for row in sorted(rows, key=lambda row: (row["ts"], row["number"])):
            if row["ts"] < horizon:
                found += monitor.step(row["ts"], row["what"].split("|"))
        found += monitor.advance(horizon)
        verdicts |= {
            Verdict("formula", key, one.time_stamp, one.offset, bool(one.value))
            for one in resolve(found)
        }
        due = [row for row in rows if row["ts"] < horizon]
        due.sort(key=lambda row: (row["ts"], row["number"]))
        verdicts |= windows(key, due) | chosen_rows(key, due) | ticks(key, due, horizon)
    return verdicts | related(of_key, horizon), sorted(late)


def related(of_key: Mapping[str, Sequence[dict[str, Any]]], horizon: int) -> set[Verdict]:
    """The verdicts of the policies with relations of rows."""
    rows = [row for some in of_key.values() for row in some if row["ts"] < horizon]
    rows.sort(key=lambda row: (row["ts"], row["number"]))
    columns = {"key": pa.string(), "ts": pa.int64(), "what": pa.string(), "number": pa.int32()}
    table = pa.Table.from_pylist(rows, pa.schema(columns))
    check = mtlmon.check(RELATED, table, resolve=True, end_time=horizon - 1)
    return {
        Verdict(row["policy"], row["key"], row["time"], row["offset"], row["verdict"])
        for row in check.to_arrow().to_pylist()
        if row["verdict"] is not None
    }


def windows(key: str, rows: Sequence[dict[str, Any]]) -> set[Verdict]:
    """The verdicts of the policy about windows, on the rows of a key in order."""
    verdicts = set()
    for place, row in enumerate(rows):
        count = 0
        for before in rows[: place + 1]:
            names = before["what"].split("|")
            age = row["ts"] - before["ts"]
            count += ("request" in names and age <= 9) + ("error" in names and age <= 30)
        offset = sum(before["ts"] == row["ts"] for before in rows[:place])
        verdicts.add(Verdict("window", key, row["ts"], offset, count < 5))
    return verdicts


def chosen_rows(key: str, rows: Sequence[dict[str, Any]]) -> set[Verdict]:
    """The verdicts of the policy on rows with errors."""
    verdicts = set()
    previous = None
    for place, row in enumerate(rows):
        if "error" in row["what"].split("|"):
            offset = sum(before["ts"] == row["ts"] for before in rows[:place])
            is_close = previous is not None and row["ts"] - previous <= 9
            verdicts.add(Verdict("chosen", key, row["ts"], offset, not is_close))
            previous = row["ts"]
    return verdicts


def ticks(key: str, rows: Sequence[dict[str, Any]], horizon: int) -> set[Verdict]:
    """The verdicts of the policy on ticks, from the first row on."""
    requests = [row["ts"] for row in rows if "request" in row["what"].split("|")]
    return {
        Verdict("ticks", key, tick, 0, any(0 <= tick - time <= 19 for time in requests))
        for tick in range(0, horizon, 10)
        if rows and rows[0]["ts"] <= tick
    }


def resolved(rows: Sequence[dict[str, Any]]) -> list[Verdict]:
    """Verdicts with the values of what they are equivalent to."""
    known = {(row["policy"], row["key"], row["time"], row["offset"]): row for row in rows}
    verdicts = []
    for name, row in known.items():
        decided = row
        while decided["verdict"] is None:
            reference = decided["reference_time"], decided["reference_offset"]
            decided = known[(row["policy"], row["key"], *reference)]
        verdicts.append(Verdict(*name, decided["verdict"]))
    return verdicts


@contextmanager
def query(places: Places) -> Iterator[subprocess.Popen[bytes]]:
    """The query in processes of its own, which are all gone in the end, and at once."""
    log = places.root / "log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, stream_to_files.__file__, places.root),
                *(["changes"] if places.is_corrected else []),
            ],
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_session(process.pid)
        process.wait()


def kill_session(session: int) -> None:
    """Kill Python, Java and the Python processes that that has started."""
    for _ in range(3):
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                try:
                    if os.getsid(int(directory.name)) == session:
                        os.kill(int(directory.name), signal.SIGKILL)
                except ProcessLookupError:
                    pass


def wait_for(marker: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not marker.exists():
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.05)


@pytest.mark.dear("processes with a Java of their own")
def test_killed_in_the_middle_of_batches(spark: SparkSession, tmp_path: Path) -> None:
    """While a batch is read; while timers decide, and verdicts are written; only a worker."""
    places = Places(tmp_path)
    places.source.mkdir()
    contents = files()
    for number, rows in enumerate(contents):
        put(places.source, f"{number:03}", rows)
    log = tmp_path / "log"
    for marker in ("stall", "verdict"):
        with query(places) as process:
            wait_for(places.marker(marker), process, log)
        assert process.returncode == -signal.SIGKILL
    assert places.marker("die").exists()
    with state_store(spark):
        stream_to_files.run(spark, places)
    rows = [row.asDict() for row in spark.read.parquet(str(places.verdicts)).collect()]
    verdicts, late = truth(contents)
    late_rows = sorted((row["key"], row["time"]) for row in rows if row["late"] is not None)
    assert late_rows == late != []
    found = [row for row in rows if row["late"] is None]
    names = [(row["policy"], row["key"], row["time"], row["offset"]) for row in found]
    assert len(names) == len(set(names))
    assert set(resolved(found)) == verdicts
    assert Verdict("formula", "idle", STALLING_TIME, 1, False) in verdicts
    for name in ("window", "ticks", "chosen", "looked", "changed"):
        assert {one.value for one in verdicts if one.policy == name} == {True, False}
    assert any(row["verdict"] is None for row in found)


@pytest.mark.dear("processes with a Java of their own")
def test_killed_where_verdicts_are_corrected(spark: SparkSession, tmp_path: Path) -> None:
    """While changes are written: each is there once, and the latest verdicts are right."""
    places = Places(tmp_path, is_corrected=True)
    places.source.mkdir()
    contents = files()
    assert contents[1].pop()["what"] == "stall"
    for number, rows in enumerate(contents):
        put(places.source, f"{number:03}", rows)
    with query(places) as process:
        wait_for(places.marker("verdict"), process, tmp_path / "log")
    assert process.returncode == -signal.SIGKILL
    assert places.marker("die").exists()
    with state_store(spark):
        stream_to_files.run(spark, places)
    changes = [row.asDict() for row in spark.read.parquet(str(places.verdicts)).collect()]
    batches = [
        [Row(row["key"], row["ts"], row["number"], row["what"]) for row in rows]
        for rows in contents
    ]
    expected = history_of(batches, 0, LATENESS, is_quiet=False)
    # those of atoms have no key
    late = sorted((row["key"], row["time"]) for row in changes if row["late"] and row["key"])
    assert late == expected.refused != []
    latest, operations = collapsed([row for row in changes if row["op"] is not None])
    changing = [row for row in latest if row["policy"] == "changing"]
    assert {one[1:] for one in resolved(changing)} == expected.values(CHANGING)
    found = {
        (row["policy"], row["time"], row["verdict"], row["k"], row["n"], row["m"])
        for row in latest
        if row["policy"] != "changing"
    }
    assert found == valuations(contents)
    assert {"again", "failing"} == {one[0] for one in found}
    assert operations["changing"] >= {"insert", "update"}
    assert operations["again"] | operations["failing"] == {"insert", "delete"}
    for policy in ("changing", "again", "failing"):
        bounds = [row["final"] for row in changes if row["op"] is None and row["policy"] == policy]
        assert sorted(set(bounds)) == sorted(bounds) != []


def collapsed(
    emitted: Sequence[dict[str, Any]],
) -> tuple[list[dict[str, Any]], dict[str, set[str]]]:
    """The verdicts that hold in the end, and what has happened to those of each policy."""
    latest: dict[tuple[Any, ...], dict[str, Any]] = {}
    operations = defaultdict(set)
    names = ("policy", "key", "time", "offset", "k", "n", "m")
    revisions = [(*(row[name] for name in names), row["revision"]) for row in emitted]
    assert len(revisions) == len(set(revisions))
    for row in sorted(emitted, key=lambda row: row["revision"]):
        point = tuple(row[name] for name in names)
        assert (point in latest) == (row["op"] != "insert")
        latest[point] = row
        if row["op"] == "delete":
            del latest[point]
        operations[row["policy"]].add(row["op"])
    return list(latest.values()), operations


def valuations(contents: Sequence[Sequence[dict[str, Any]]]) -> set[tuple[Any, ...]]:
    """What the policies with variables say of the rows that are not too late, each file a batch."""
    horizon = 0
    taken: list[dict[str, Any]] = []
    for rows in contents:
        taken += [row for row in rows if row["ts"] >= horizon - LATENESS]
        horizon = max(horizon, *(row["ts"] for row in rows))
    due = sorted((row for row in taken if row["ts"] < horizon), key=lambda row: row["ts"])
    options: dict[str, Any] = {"event": "what", "time_points": "stamp", "end_time": horizon - 1}
    check = mtlmon.check(CORRECTED, pa.Table.from_pylist(due), **options)
    return {
        (row["policy"], row["time"], row["verdict"], row["k"], row["n"], row["m"])
        for row in check.to_arrow().to_pylist()
        if row["policy"] != "changing"
    }


def test_contents_are_what_they_are_meant_to_be() -> None:
    """Each row has a place of its own in the order of time, so that there is one truth."""
    places = [(row["key"], row["ts"], row["number"]) for rows in files() for row in rows]
    assert len(places) == len(set(places))
    json.dumps(files())
