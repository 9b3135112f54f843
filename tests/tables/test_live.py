"""Pipes that others write to: every row is there as soon as it is written."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import ipc  # noqa: E402

from mtlmon.tables import open_tables  # noqa: E402
from tests.tables.reading import letters_of, read  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_rows_come_one_by_one(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"pipe.{ending}"
    os.mkfifo(path)
    seen = threading.Semaphore(0)

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            if ending == "csv":
                pipe.write(b"ts,p,q\n")
            for number in range(20):
                truth = "true" if number % 3 == 0 else "false"
                if ending == "csv":
                    row = f"{number},{truth},\n".encode()
                else:
                    row = f'{{"ts": {number}, "p": {truth}, "q": null}}\n'.encode()
                pipe.write(row[:5])
                pipe.write(row[5:])
                # the next row is written when this one has been seen, and no sooner
                assert seen.acquire(timeout=120)

    writer = threading.Thread(target=write)
    writer.start()
    with open_tables(path, ("p", "q")) as tables:
        found: list[tuple[int, frozenset[str]]] = []
        for batch in tables:
            found += zip(batch.time_stamps.tolist(), letters_of(batch, ("p", "q")), strict=True)
            seen.release(len(batch))
    writer.join()
    assert found == [(n, frozenset("p") if n % 3 == 0 else frozenset()) for n in range(20)]
    assert tables.size is None


CODE = """
import sys
from mtlmon.tables import open_tables
with open_tables("-", ("p",), format=sys.argv[1]) as tables:
    for batch in tables:
        print(*batch.time_stamps.tolist(), flush=True)
"""


@pytest.mark.parametrize("format", ["csv", "jsonl", "arrow"])
def test_standard_input(format: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CODE, format], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if format == "arrow":
            schema = pa.schema({"ts": pa.int64(), "p": pa.bool_()})
            with ipc.new_stream(process.stdin, schema) as writer:
                for number in range(3):
                    writer.write_batch(pa.record_batch([[number], [True]], schema=schema))
                    process.stdin.flush()
                    assert process.stdout.readline() == b"%d\n" % number
        else:
            if format == "csv":
                process.stdin.write(b"ts,p\n")
            for number in range(3):
                row = b'{"ts": %d}\n' if format == "jsonl" else b"%d,true\n"
                process.stdin.write(row % number)
                process.stdin.flush()
                assert process.stdout.readline() == b"%d\n" % number
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait() == 0


def test_a_file_as_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for format in ("csv", "parquet"):
        if format == "csv":
            path.write_text("ts,p\n1,true\n2,true\n")
        else:
            from pyarrow import parquet

            parquet.write_table(pa.table({"ts": [1, 2], "p": [True, False]}), path)
        with path.open("rb") as file:
            done = subprocess.run(
                [sys.executable, "-c", CODE, format], stdin=file, capture_output=True, check=True
            )
        assert done.stdout == b"1 2\n"


def test_a_pipe_of_many_rows(tmp_path: Path) -> None:
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    rows = b"ts,p,q\n" + b"".join(b"%d,true,false\n" % number for number in range(200_000))

    def write() -> None:
        with path.open("wb") as pipe:
            pipe.write(rows)

    writer = threading.Thread(target=write)
    writer.start()
    with open_tables(path, ("p", "q")) as tables:
        stamps = [stamp for batch in tables for stamp in batch.time_stamps.tolist()]
    writer.join()
    assert stamps == list(range(200_000))


def test_compressed_pipes(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    rows = gzip.compress(b"ts,p\n" + b"".join(b"%d,true\n" % number for number in range(50_000)))

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            pipe.write(rows[:1])
            pipe.write(rows[1:7])
            pipe.write(rows[7:])

    writer = threading.Thread(target=write)
    writer.start()
    assert len(read(path, "p")) == 50_000
    writer.join()
