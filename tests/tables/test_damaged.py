"""Parquet and Arrow: damaged files, files cut while they are read, odd columns and values."""

from __future__ import annotations

import gzip
import random
import struct
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import ipc, parquet  # noqa: E402

import mtlmon  # noqa: E402
from mtlmon import MtlmonError, TableError  # noqa: E402
from mtlmon.tables import open_tables  # noqa: E402
from tests.doors import (  # noqa: E402
    read_schema,
    texts_of_views,
)
from tests.tables.reading import keyed, read  # noqa: E402
from tests.tables.test_formats import write  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

P, NONE = frozenset("p"), frozenset[str]()
ROWS = pa.table({"ts": range(300), "p": [k % 3 == 0 for k in range(300)]})
EXPECTED = [(k, P if k % 3 == 0 else NONE) for k in range(300)]
needs_views = pytest.mark.skipif(not hasattr(pa, "string_view"), reason="pyarrow without views")

# Reads each file: prints how many rows there are, or the error. A crash ends the output.
CHILD = """
import sys
from mtlmon import MtlmonError
from mtlmon.tables import open_tables
for line in sys.stdin:
    path, place, byte = line.split()
    content = bytearray(open(path, "rb").read())
    content[int(place)] = int(byte)
    with open(path + ".damaged", "wb") as file:
        file.write(content)
    try:
        with open_tables(path + ".damaged", ("p",), format=path.rpartition(".")[2]) as tables:
            rows = sum(len(batch) for batch in tables)
        print(rows, flush=True)
    except MtlmonError as error:
        print("error", *str(error).split(), flush=True)
"""


def damaged(path: Path, changes: list[tuple[int, int]]) -> list[str]:
    """What comes of reading a file with a byte changed, for each change."""
    asked = "".join(f"{path} {place} {byte}\n" for place, byte in changes)
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=asked, capture_output=True, text=True, check=False
    )
    found = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, ""), changes[len(found)]
    assert len(found) == len(changes)
    return found


def test_the_columns_of_a_damaged_file_are_not_known(tmp_path: Path) -> None:
    """Relations need the columns before they read rows."""
    rows = "".join(f"{row},{row * 7919 % 10_007}\n" for row in range(5_000))
    packed = gzip.compress(f"ts,p\n{rows}".encode())
    empty = "cannot be read as {}: it is empty, so its columns are not known"
    for name, content, reason in (
        ("cut.csv.gz", packed[: len(packed) // 2], "the gzip data is damaged or incomplete: "),
        ("empty.csv", b"", empty.format("csv")),
        ("empty.jsonl.gz", gzip.compress(b""), empty.format("jsonl")),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(MtlmonError) as caught:
            read_schema(str(path))
        assert str(caught.value).startswith(f"{path}: {reason}")


def test_counts_of_rows_in_footers(tmp_path: Path) -> None:
    """A footer says several times how many rows there are; the library that reads it believes that
    of each row group, and rows went missing without a word.
    """
    path = tmp_path / "log.parquet"
    parquet.write_table(ROWS, path, row_group_size=50)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    # 50, as the footer writes integers
    places = [place for place in range(footer, len(content)) if content[place] == 100]
    changes = [(place, byte) for place in places for byte in (0, 2, 98, 102)]
    found = damaged(path, changes)
    assert {line.partition(" ")[0] for line in found} <= {"300", "error"}
    assert sum(line.startswith("error") for line in found) > 20
    # and any other byte of the footer
    source = random.Random(7)
    changes = [(source.randrange(footer, len(content)), source.randrange(256)) for _ in range(300)]
    assert {line.partition(" ")[0] for line in damaged(path, changes)} <= {"300", "error"}


def test_fewer_rows_than_the_footer_says(tmp_path: Path) -> None:
    """A footer that agrees with itself on a row more than there is."""
    path = tmp_path / "log.parquet"
    parquet.write_table(ROWS, path, row_group_size=50)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    # integers are twice the number, seven bits to a byte: 300 becomes 301, and 50 becomes 51
    total = content.index(b"\x16\xd8\x04", footer) + 1
    found = 0
    for place in (place for place in range(footer, len(content)) if content[place] == 100):
        changed = bytearray(content)
        changed[total] += 2
        changed[place] += 2
        path.write_bytes(changed)
        with pytest.raises(TableError, match=r"log.parquet: .*damaged") as caught:
            read(path, "p")
        found += "300 rows in the row groups 0 to 5, and not 301" in str(caught.value)
    assert found > 0


def test_pages_with_checksums(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    try:
        parquet.write_table(ROWS, path, write_page_checksum=True, compression="none")
    except TypeError:
        pytest.skip("pyarrow without checksums")
    place = path.read_bytes().index(struct.pack("<qq", 100, 101))
    for k in range(16):
        content = bytearray(path.read_bytes())
        content[place + k] ^= 4
        (tmp_path / "damaged.parquet").write_bytes(content)
        with pytest.raises(TableError, match=r"damaged.parquet: not parquet, or damaged: .*CRC"):
            read(tmp_path / "damaged.parquet", "p")


CUT = """
import os, sys
from mtlmon import MtlmonError
from mtlmon.tables import open_tables
path, size = sys.argv[1], int(sys.argv[2])
with open_tables(path, ("p",)) as tables:
    first = next(tables)
    os.truncate(path, size)
    try:
        for batch in tables:
            pass
    except MtlmonError as error:
        print(error)
    else:
        print("all is well")
"""


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow", "feather"])
def test_files_cut_while_they_are_read(ending: str, tmp_path: Path) -> None:
    """In a process of its own, which reading a mapped file would end."""
    count = 2_000_000
    rows = pa.table({"ts": range(count), "p": [True] * count})
    path = tmp_path / f"log.{ending}"
    if ending == "jsonl":
        row = '{"ts": 1, "p": true, "note": "' + "x" * 60 + '"}\n'
        path.write_text(row * (count // 8))
    else:
        write(rows, path)
    size = path.stat().st_size
    for keep in (size // 2, 100):
        if keep == 100:
            write(rows, path) if ending != "jsonl" else path.write_text(row * (count // 8))
        done = subprocess.run(
            [sys.executable, "-c", CUT, path, str(keep)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "was cut" in done.stdout or "damaged" in done.stdout


def test_arrow_files_cut_between_batches(tmp_path: Path) -> None:
    """An Arrow file is a stream that ends where its batches do, so that only the footer tells that
    there were more of them.
    """
    path = tmp_path / "log.arrow"
    with ipc.new_file(path, ROWS.schema) as writer:
        writer.write_table(ROWS, max_chunksize=50)
    content = path.read_bytes()
    assert read(path, "p") == EXPECTED
    marks = [k for k in range(8, len(content), 8) if content[k : k + 4] == b"\xff" * 4]
    assert len(marks) >= 8
    for mark in marks[1:]:
        # as if the end of the stream came here, with and without what is behind
        for rest in (b"", content[-10:], content[mark + 8 :]):
            path.write_bytes(content[:mark] + b"\xff\xff\xff\xff\0\0\0\0" + rest)
            if mark == marks[-1] and rest == content[mark + 8 :]:
                assert read(path, "p") == EXPECTED
                continue
            with pytest.raises(TableError, match=r"log.arrow: not arrow, or damaged: no footer"):
                read(path, "p")
    stream = tmp_path / "log.arrows"
    with ipc.new_stream(stream, ROWS.schema) as writer:
        writer.write_table(ROWS, max_chunksize=50)
    stream.write_bytes(stream.read_bytes() + b"x")
    with pytest.raises(TableError, match="damaged: there are more bytes after the end"):
        read(stream, "p")


def view_of(size: int, rest: bytes) -> bytes:
    return struct.pack("<i", size) + rest.ljust(12, b"\0")[:12]


def views(pieces: list[bytes | None], *items: bytes | None) -> Any:
    """A column of views as they are given; None is null, and its view anything."""
    bits = sum((item is not None) << k for k, item in enumerate(items))
    content = b"".join(item or b"\xff" * 16 for item in items)
    validity = pa.py_buffer(bits.to_bytes(len(items) // 8 + 1, "little"))
    buffers = [None if piece is None else pa.py_buffer(piece) for piece in pieces]
    return [len(items), 0, validity, pa.py_buffer(content), buffers]


LONG = b"a text of more than twelve bytes"
DAMAGED_VIEWS = {
    "a negative size": view_of(-1, b""),
    "the least size": view_of(-(2**31), b""),
    "no such buffer": view_of(32, LONG[:4] + struct.pack("<ii", 2, 0)),
    "a negative buffer": view_of(32, LONG[:4] + struct.pack("<ii", -1, 0)),
    "a buffer that is not there": view_of(32, LONG[:4] + struct.pack("<ii", 1, 0)),
    "beyond the end": view_of(32, LONG[:4] + struct.pack("<ii", 0, 1)),
    "far beyond the end": view_of(2**31 - 1, LONG[:4] + struct.pack("<ii", 0, 2**31 - 1)),
    "before the beginning": view_of(13, LONG[:4] + struct.pack("<ii", 0, -1)),
}


@pytest.mark.parametrize("name", DAMAGED_VIEWS)
def test_damaged_views(name: str) -> None:
    good = view_of(32, LONG[:4] + struct.pack("<ii", 0, 0))
    arguments = views([LONG, None], view_of(2, b"ab"), good, None, DAMAGED_VIEWS[name])
    with pytest.raises(ValueError, match="the views of an Arrow array are damaged"):
        texts_of_views(*arguments)


def test_views_are_read_natively() -> None:
    good = view_of(20, LONG[12:16] + struct.pack("<ii", 0, 12))
    arguments = views([LONG], view_of(12, b"twelve bytes"), None, good, view_of(0, b""))
    offsets, text = texts_of_views(*arguments)
    assert struct.unpack("<5q", offsets) == (0, 12, 12, 32, 32)
    assert text == b"twelve bytes" + LONG[12:]
    arguments[0], arguments[1] = 2, 2
    assert texts_of_views(*arguments)[1] == LONG[12:]
    with pytest.raises(ValueError, match="80"):
        texts_of_views(5, 0, *arguments[2:])
    many = view_of(2**31 - 1, b"")
    assert texts_of_views(0, 0, None, None, [])[1] == b""
    with pytest.raises(ValueError, match="damaged"):
        texts_of_views(1, 0, None, pa.py_buffer(many), [])


@needs_views
def test_nulls_among_views(tmp_path: Path) -> None:
    """Full validation passes over the views of nulls, and a cast follows them out of memory."""
    arguments = views([LONG], view_of(1, b"p"), None, None, view_of(1, b"q"))
    kind = pa.string_view()
    texts = pa.Array.from_buffers(kind, 4, [arguments[2], arguments[3], *arguments[4]])
    texts.validate(full=True)
    lists = pa.Array.from_buffers(
        pa.list_(kind), 2, [None, pa.py_buffer(struct.pack("<3i", 0, 2, 4))], children=[texts]
    )
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 3, 0], pa.int8()), texts)
    for column, expected in (
        (texts, [P, NONE, NONE, frozenset("q")]),
        (texts[1:], [NONE, NONE, frozenset("q")]),
        (coded, [P, NONE, frozenset("q"), P]),
        (lists, [P, frozenset("q")]),
        (lists[1:], [frozenset("q")]),
    ):
        table = pa.table({"ts": range(len(column)), "what": column})
        write(table, tmp_path / "log.arrow")
        assert read(tmp_path / "log.arrow", event="what") == list(enumerate(expected))
    write(pa.table({"ts": range(4), "what": texts}), tmp_path / "log.arrow")
    found = keyed(tmp_path / "log.arrow", "x", key="what", event="what", on_error="skip")
    assert [row[:2] for row in found] == [(("p",), 0), (("q",), 3)]


UNREAD = {
    "struct": (pa.struct([("a", pa.int64())]), [{"a": 1}]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)]]),
    "list of lists": (pa.list_(pa.list_(pa.string())), [[["a"]]]),
    "list of a fixed size": (pa.list_(pa.string(), 1), [["a"]]),
    "months": (pa.month_day_nano_interval(), [(1, 2, 3)]),
}


@pytest.mark.parametrize("name", UNREAD)
def test_types_that_are_not_read(name: str, tmp_path: Path) -> None:
    kind, values = UNREAD[name]
    table = pa.table({"ts": [1], "c": pa.array(values, kind), "p": [True]})
    write(table, tmp_path / "log.arrow")
    for source in (table, tmp_path / "log.arrow"):
        assert read(source, "p") == [(1, P)]
        for use in ({"key": "c"}, {"event": "c"}, {"time": "c"}):
            with pytest.raises(TableError, match=r"column 'c': of type .* columns are read that"):
                read(source, "p", **use)
        with pytest.raises(TableError, match="column 'c': of type"):
            read(source, "c")
    runs = pa.RunEndEncodedArray.from_arrays([1], ["a"])
    with pytest.raises(TableError, match="column 'c': of type run_end_encoded"):
        read(pa.table({"ts": [1], "c": runs}), "p", event="c")


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_times_that_python_does_not_have(ending: str, tmp_path: Path) -> None:
    """Before the year 1 and after 9999: the message has to show them."""
    for unit in ("s", "ms", "us", "ns"):
        if ending == "parquet" and unit == "s":
            continue
        for zone in (None, "UTC", "Europe/Paris"):
            kind = pa.timestamp(unit, zone)
            odd = pa.array([-(2**63), -(2**62), None, 2**63 - 1], pa.int64()).view(kind)
            table = pa.table({"ts": odd, "p": [True] * 4})
            path = tmp_path / f"log.{ending}"
            write(table, path)
            with open_tables(path, ("p",), resolution="ns", on_error="skip") as tables:
                assert sum(len(batch) for batch in tables) == (unit == "ns")
                said = [str(error).partition(": ")[2] for error in tables.errors]
            assert "is before 1970" in said[0]
            assert "is before 1970" in said[1]
            assert "the time column 'ts' is empty" in said[2]
            assert unit == "ns" or "is above 2^63-1 in units of ns" in said[3]
            # as a key, each is a text of its own
            table = pa.table({"ts": range(4), "k": odd, "p": [True] * 4})
            write(table, path)
            with open_tables(path, ("p",), key="k", on_error="skip") as tables:
                assert sum(len(batch) for batch in tables) == 3


def test_damaged_decimals(tmp_path: Path) -> None:
    """Numbers of more digits than their type has."""
    large = (10**38 + 5).to_bytes(16, "little") + (7).to_bytes(16, "little")
    odd = pa.Array.from_buffers(pa.decimal128(5, 2), 2, [None, pa.py_buffer(large)])
    write(pa.table({"ts": odd, "p": [True] * 2}), tmp_path / "log.arrow")
    with pytest.raises(TableError, match=r"log.arrow: not arrow, or damaged: .*Decimal"):
        read(tmp_path / "log.arrow", "p")
    with pytest.raises(TableError, match="<Table>: not a table of Arrow, or damaged"):
        read(pa.table({"ts": odd, "p": [True] * 2}), "p")
    exact = pa.array([Decimal("1.50"), Decimal("1E+30")], pa.decimal256(50, 2))
    with open_tables(pa.table({"ts": exact}), (), on_error="skip") as tables:
        assert list(tables) == []
        said = [str(error) for error in tables.errors]
    assert "1.5 is not a whole number" in said[0]
    assert f"{10**30} is above 2^63-1" in said[1]


def test_texts_that_are_not_utf_8(tmp_path: Path) -> None:
    """Libraries write them without a check, and verdicts have the keys as text."""
    texts = pa.array([b"\xff", b"a"], pa.binary()).view(pa.string())
    table = pa.table({"ts": [1, 2], "k": texts, "p": [True, False]})
    parquet.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(TableError, match=r"log.parquet: not parquet, or damaged: .*Invalid UTF8"):
        mtlmon.check("p", tmp_path / "log.parquet", key="k").to_arrow()


def test_damaged_arrow_files(tmp_path: Path) -> None:
    """Whatever bytes change, rows are read as they were or there is an error."""
    path = tmp_path / "log.arrow"
    with ipc.new_file(path, ROWS.schema) as writer:
        writer.write_table(ROWS, max_chunksize=50)
    source = random.Random(3)
    size = path.stat().st_size
    changes = [(source.randrange(size), source.randrange(256)) for _ in range(400)]
    assert {line.partition(" ")[0] for line in damaged(path, changes)} <= {"300", "error"}


def test_the_message_of_an_error_shows_any_value() -> None:
    from tests.doors import shown_value

    odd = pa.array([2**62], pa.int64())
    assert shown_value(odd.view(pa.timestamp("s", "No/Such")), 0).startswith(str(2**62))
    assert shown_value(odd.view(pa.duration("s")), 0)
    assert shown_value(pa.array([-(2**31)], pa.int32()).view(pa.date32()), 0).startswith("-214")
    assert shown_value(pa.array(["x" * 100]), 0) == "'" + "x" * 59 + "..."
    assert shown_value(pa.array([None], pa.int64()), 0) == "None"
    with pytest.raises(MtlmonError, match="there are no times in values of type duration"):
        read(pa.table({"ts": odd.view(pa.duration("s"))}), "")
