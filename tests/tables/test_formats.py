"""One table in every format, compressed or not: the same events."""

from __future__ import annotations

import gzip
import json
import lzma
import random
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow.compute as pc  # noqa: E402
from pyarrow import csv, ipc, parquet  # noqa: E402

from mtlmon import MtlmonError, TableError  # noqa: E402
from mtlmon.tables import open_tables  # noqa: E402
from tests.doors import read_schema  # noqa: E402
from tests.tables.reading import keyed, read  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ["csv", "tsv", "jsonl", "parquet", "arrow", "feather"]
COMPRESSIONS = ("gz", "zst", "bz2", "xz", "1", "2.gz", "bz2.3")
COMPRESSED = [f"{name}.{ending}" for name in ("csv", "jsonl", "arrow") for ending in COMPRESSIONS]


def table_of(rows: int) -> Any:
    source = random.Random(rows)
    times = sorted(source.randrange(rows) for _ in range(rows))
    return pa.table(
        {
            "other": [source.choice(["a,b", 'say "x"', "line\nfeed", "", "ü"]) for _ in times],
            "p": [source.choice([True, False, None]) for _ in times],
            "ts": times,
            "key": [f"k{source.randrange(50)}" for _ in times],
            "q": [source.random() < 0.3 for _ in times],
        }
    )


def write(table: Any, path: Path) -> None:
    endings = [one for one in path.name.split(".")[1:] if not one.isdigit()]
    compression = {"gz": "gzip", "zst": "zstd", "bz2": "bz2"}.get(endings[-1])
    if endings[0] == "parquet":
        parquet.write_table(table, path, row_group_size=3000)
        return
    if endings[0] == "feather":
        with ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
        return
    is_xz = endings[-1] == "xz"
    with (
        lzma.open(path, "w") if is_xz else pa.output_stream(path, compression=compression) as stream
    ):
        if endings[0] == "arrow":
            with ipc.new_stream(stream, table.schema) as writer:
                writer.write_table(table, max_chunksize=1000)
        elif endings[0] == "jsonl":
            for row in table.to_pylist():
                stream.write((json.dumps(row) + "\n").encode())
        else:
            delimiter = "\t" if endings[0].startswith("tsv") else ","
            csv.write_csv(table, stream, csv.WriteOptions(delimiter=delimiter))


def expected(table: Any) -> list[tuple[int, frozenset[str]]]:
    return [(row["ts"], frozenset(name for name in "pq" if row[name])) for row in table.to_pylist()]


@pytest.mark.parametrize("ending", FORMATS + COMPRESSED)
@pytest.mark.parametrize("rows", [0, 1, 7, 20_000])
def test_one_table_in_every_format(ending: str, rows: int, tmp_path: Path) -> None:
    table = table_of(rows)
    if ending.startswith("tsv"):
        # its quoted cells end on their lines
        other = pc.replace_substring(table.column("other").cast(pa.string()), "\n", " ")
        table = table.set_column(0, "other", other)
    path = tmp_path / f"log.{ending}"
    write(table, path)
    assert read(path) == expected(table)
    keys = [(key,) for key in table.column("key").to_pylist()]
    found = keyed(path, key="key")
    assert [row[0] for row in found] == keys
    assert [row[1:] for row in found] == expected(table)


@pytest.mark.parametrize(
    "ending", ["csv.xz", "jsonl.1", "jsonl.1.gz", "arrow.xz", "tsv-20240501.xz"]
)
def test_columns_of_rotated_and_compressed_files(ending: str, tmp_path: Path) -> None:
    """The compression is told by the content, whatever the name says of it."""
    table = table_of(7).drop(["other"])
    path = tmp_path / f"log.{ending}"
    write(table, path)
    assert set(read_schema(str(path)).names) == {*table.column_names}
    other = tmp_path / "log.csv"
    with gzip.open(other, "w") as stream:
        csv.write_csv(table, stream)
    assert set(read_schema(str(other)).names) == {*table.column_names}
    damaged = path.read_bytes()[:-30]
    path.write_bytes(damaged)
    if "xz" in ending:
        with pytest.raises(TableError, match="the xz data is damaged or incomplete"):
            read(path)


@pytest.mark.parametrize("ending", FORMATS)
def test_only_what_is_there_counts(ending: str, tmp_path: Path) -> None:
    table = table_of(100)
    path = tmp_path / f"log.{ending}"
    write(table, path)
    with open_tables(path, ("p", "q", "r"), on_error="skip") as tables:
        message = "column 'r' for the atom r; if one column names the events, say which with event="
        with pytest.raises(TableError, match=message):
            next(tables)
            # JSON lines have the columns that some row has, which is known at the end
            assert ending == "jsonl"
            next(tables)


def test_many_files_patterns_and_directories(tmp_path: Path) -> None:
    whole = table_of(900)
    parts = [whole.slice(0, 300), whole.slice(300, 300).select([4, 3, 2, 1, 0]), whole.slice(600)]
    directory = tmp_path / "logs" / "2024"
    directory.mkdir(parents=True)
    names = ["1.csv", "2.jsonl.gz", "3.parquet"]
    for part, name in zip(parts, names, strict=True):
        write(part, directory / name)
    (directory / "_SUCCESS").write_text("")
    (directory / ".hidden.csv").write_text("x\n")
    (directory / "README").write_text("none of these")
    assert read([directory / name for name in names]) == expected(whole)
    assert read(tmp_path / "logs") == expected(whole)
    assert read(f"{tmp_path}/**/*.*") == expected(whole)
    assert read(f"{directory}/[12].*") == expected(whole.slice(0, 600))


def test_progress_in_bytes(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    write(table_of(20_000), path)
    with open_tables([path, path], ("p",), on_error="skip") as tables:
        assert tables.size == 2 * path.stat().st_size
        before = 0
        for _ in tables:
            assert before <= tables.bytes_read <= tables.size
            before = tables.bytes_read
        assert tables.bytes_read == tables.size


@pytest.mark.parametrize("ending", ["csv.gz", "jsonl.gz", "arrow.gz", "jsonl.bz2", "csv.zst"])
def test_compressed_files_cut_short(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{ending}"
    write(table_of(20_000), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TableError, match=r"log\..*damaged"):
        read(path)


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_what_is_not_of_its_format(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{ending}"
    path.write_text("ts,p,q\n1,true,false\n")
    with pytest.raises(TableError, match=rf"log\.{ending}: not .*damaged"):
        read(path)


def test_damaged_arrow_files_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "log.arrow"
    write(table_of(300), path)
    whole = bytearray(path.read_bytes())
    source = random.Random(1)
    for _ in range(100):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[source.randrange(len(whole))] = source.randrange(256)
        path.write_bytes(damaged)
        try:
            keyed(path, key="key", on_error="skip")
        except MtlmonError:
            pass


def test_nested_columns_of_json(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [
        {"at": {"time": 1}, "user": {"name": "ann", "tags": ["p", "x"]}, "c.d": "q"},
        {"at": {"time": 2}, "user": None},
        {"at": {"time": 3}, "user": {"name": "bob"}},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read(path, time="at.time", event="user.tags") == [
        (1, frozenset("p")),
        (2, frozenset()),
        (3, frozenset()),
    ]
    assert read(path, time="at.time", event="c.d")[0] == (1, frozenset("q"))
    found = keyed(path, time="at.time", event="user.tags", key="user.name", on_error="skip")
    assert [row[:2] for row in found] == [(("ann",), 1), (("bob",), 3)]
