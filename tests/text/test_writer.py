"""The native writer against obvious formatting: numbers of all lengths, kinds, filters, batches."""

from __future__ import annotations

import json
import os
import random
import threading
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mtlmon.verdict_arrays import verdict_type
from tests.doors import MAX_LABEL_BYTES, Writer

Kind = Literal["false", "true", "equivalent"]
Filter = Literal["all", "boolean", "false", "none"]
Format = Literal["text", "jsonl"]
Row = tuple[int, int, Kind, int, int]

PASSING: dict[Filter, tuple[Kind, ...]] = {
    "all": ("false", "true", "equivalent"),
    "boolean": ("false", "true"),
    "false": ("false",),
    "none": (),
}
VALUES = {"false": False, "true": True, "equivalent": None}
# what begins a JSON line without other members
BARE = b'{"time":'
LARGEST = (1 << 64) - 1
# where a number gains a digit, or one of the parts it is written in changes
EDGES = sorted(
    {
        value
        for power in range(20)
        for near in range(-2, 3)
        for value in (10**power + near, 5 * 10**power + near)
        if 0 <= value <= LARGEST
    }
    | {LARGEST, LARGEST - 1, (1 << 63) - 1, 1 << 63}
)
NUMBERS = st.integers(0, 1100) | st.sampled_from(EDGES) | st.integers(0, LARGEST)


def expected(
    rows: list[Row], verdicts: Filter, format: Format = "text", first: dict[str, Any] | None = None
) -> bytes:
    """The lines of rows; first: what JSON lines have before the time."""
    lines = []
    for time_stamp, offset, kind, *reference in rows:
        if kind not in PASSING[verdicts]:
            continue
        name = "{}:{}".format(*reference)
        if format == "text":
            lines.append(f"{time_stamp}:{offset} {f'= {name}' if kind == 'equivalent' else kind}\n")
            continue
        line = {
            **(first or {}),
            "time": time_stamp,
            "offset": offset,
            "verdict": VALUES[kind],
            "reference": name if kind == "equivalent" else None,
        }
        lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    return "".join(lines).encode()


def new_writer(format: Format) -> Writer:
    return Writer() if format == "text" else Writer(BARE, format)


def records(rows: list[Row]) -> NDArray[np.void]:
    """Rows as verdict records, with time-stamps up to 2^64-1."""
    layout: Any = {
        "names": ["time_stamp", "offset", "reference_time_stamp", "reference_offset", "kind"],
        "formats": ["u8", "u8", "u8", "u8", "u1"],
        "offsets": [0, 8, 16, 24, 32],
        "itemsize": verdict_type().itemsize,
    }
    array = np.zeros(len(rows), np.dtype(layout))
    for number, (time_stamp, offset, kind, *reference) in enumerate(rows):
        array[number] = (time_stamp, offset, *reference, get_args(Kind).index(kind))
    return array


def written(batches: list[list[Row]], verdicts: Filter = "all", format: Format = "text") -> bytes:
    writer = new_writer(format)
    for batch in batches:
        writer.put(records(batch), verdicts)
    return writer.take()


ROWS = st.lists(
    st.tuples(NUMBERS, NUMBERS, st.sampled_from(get_args(Kind)), NUMBERS, NUMBERS), max_size=12
)


@given(ROWS, ROWS, st.sampled_from(get_args(Filter)), st.sampled_from(get_args(Format)))
@example(
    [(0, 0, "equivalent", 0, 0)],
    [(LARGEST, LARGEST, "equivalent", LARGEST, LARGEST)],
    "all",
    "text",
)
@example(
    [(0, 0, "equivalent", 0, 0)],
    [(LARGEST, LARGEST, "equivalent", LARGEST, LARGEST)],
    "all",
    "jsonl",
)
def test_any_numbers_in_any_order(
    first: list[Row], second: list[Row], verdicts: Filter, format: Format
) -> None:
    lines = expected(first + second, verdicts, format)
    assert written([first, second], verdicts, format) == lines


@pytest.mark.parametrize("format", get_args(Format))
@pytest.mark.parametrize("step", [1, 7, 999, 1000, 10**5, 12_345_678, 10**8, 10**15 + 1])
def test_growing_time_stamps(step: int, format: Format) -> None:
    for start in [0, *EDGES]:
        rows: list[Row] = [
            (time_stamp, k, "equivalent", max(0, time_stamp - 3 * step), k)
            for k, time_stamp in enumerate(range(start, start + 40 * step, step))
            if time_stamp <= LARGEST
        ]
        assert written([rows], format=format) == expected(rows, "all", format)


LABEL_SIZES = [1, 7, 8, 9, 15, 16, 17, 100, MAX_LABEL_BYTES]
KINDS = get_args(Kind)
# of all sizes, the longest lines among them
LABELLED: list[Row] = [(10**k, LARGEST, KINDS[k % 3], LARGEST - k, k) for k in range(19)]


@pytest.mark.parametrize("size", LABEL_SIZES)
@pytest.mark.parametrize("verdicts", get_args(Filter))
def test_every_line_has_the_label(size: int, verdicts: Filter) -> None:
    label = bytes(ord("a") + number % 26 for number in range(size))
    writer = Writer(label)
    # more than there is room for at the first time
    for _ in range(40):
        writer.put(records(LABELLED), verdicts)
    lines = expected(LABELLED, verdicts).splitlines(keepends=True)
    assert writer.take() == 40 * b"".join(label + line for line in lines)
    assert writer.label == label
    assert not writer.is_json


@pytest.mark.parametrize("size", [*range(22, 42), 100, MAX_LABEL_BYTES])
@pytest.mark.parametrize("verdicts", get_args(Filter))
def test_every_json_line_has_the_label(size: int, verdicts: Filter) -> None:
    name = "x" * (size - 20)
    label = b'{"policy":"%b","time":' % name.encode()
    assert len(label) == size
    writer = Writer(label, "jsonl")
    for _ in range(40):
        writer.put(records(LABELLED), verdicts)
    assert writer.take() == 40 * expected(LABELLED, verdicts, "jsonl", {"policy": name})
    assert writer.is_json


@pytest.mark.parametrize("format", get_args(Format))
@pytest.mark.parametrize("size", [8, 32, 33, MAX_LABEL_BYTES])
def test_the_longest_lines_fill_no_more_than_their_room(format: Format, size: int) -> None:
    """As many at once as room is made for, in a writer that has room for no more."""
    longest: list[Row] = [(LARGEST, LARGEST, "equivalent", LARGEST, LARGEST)] * 512
    label = bytes([ord("x")]) * size
    writer = Writer(label, format)
    writer.put(records(longest))
    rest = expected(longest[:1], "all", format).removeprefix(BARE)
    assert writer.take() == 512 * (label + rest)


def test_a_format_has_a_name() -> None:
    with pytest.raises(ValueError, match="'json'"):
        Writer(b"", "json")  # type: ignore[arg-type]


def test_a_label_may_be_too_long() -> None:
    with pytest.raises(ValueError, match="4097 bytes"):
        Writer(bytes(MAX_LABEL_BYTES + 1))


@pytest.mark.parametrize("format", get_args(Format))
def test_every_small_offset(format: Format) -> None:
    rows: list[Row] = [(5, offset, "true", 0, 0) for offset in range(10_001)]
    assert written([rows], format=format) == expected(rows, "all", format)


@pytest.mark.parametrize("format", get_args(Format))
@pytest.mark.parametrize("verdicts", get_args(Filter))
def test_large_batches(verdicts: Filter, format: Format) -> None:
    generator = random.Random(1)
    rows: list[Row] = [
        (
            k // 1000,
            k % 1000,
            generator.choice(get_args(Kind)),
            k // 1000 - (k > 5000),
            generator.randrange(1000),
        )
        for k in range(9000)
    ]
    whole = expected(rows, verdicts, format)
    assert written([rows], verdicts, format) == whole
    parts = [rows[:1], rows[1:512], rows[512:1025], rows[1025:]]
    assert written(parts, verdicts, format) == whole
    assert written([[row] for row in rows], verdicts, format) == whole


def test_flush_writes_all_that_waits(tmp_path: Path) -> None:
    writer = Writer()
    path = tmp_path / "verdicts"
    rows: list[Row] = [(k, k % 7, "equivalent", k, 0) for k in range(3000)]
    with path.open("wb") as file:
        writer.flush(file.fileno())
        for start in range(0, 3000, 1000):
            writer.put(records(rows[start : start + 1000]), "all")
            assert len(writer) == len(expected(rows[start : start + 1000], "all"))
            writer.flush(file.fileno())
            assert len(writer) == 0
            assert path.read_bytes() == expected(rows[: start + 1000], "all")
    assert writer.take() == b""


def test_flush_waits_for_a_reader() -> None:
    """A pipe takes less than is there, so it is written in pieces."""
    writer = Writer()
    rows: list[Row] = [(k, 0, "true", 0, 0) for k in range(100_000)]
    writer.put(records(rows), "all")
    source, target = os.pipe()

    def flush() -> None:
        writer.flush(target)
        os.close(target)

    thread = threading.Thread(target=flush)
    thread.start()
    with open(source, "rb") as file:
        assert file.read() == expected(rows, "all")
    thread.join()
    assert len(writer) == 0


def test_what_could_not_be_written_still_waits(tmp_path: Path) -> None:
    writer = Writer()
    rows: list[Row] = [(k, 0, "false", 0, 0) for k in range(20_000)]
    writer.put(records(rows), "all")
    source, target = os.pipe()
    os.set_blocking(target, False)
    with pytest.raises(BlockingIOError):
        writer.flush(target)
    os.close(target)
    with open(source, "rb") as file:
        written = file.read()
    whole = expected(rows, "all")
    assert 0 < len(written) < len(whole)
    assert len(writer) == len(whole) - len(written)
    # and goes on from there, no byte of it twice
    path = tmp_path / "rest"
    with path.open("wb") as rest:
        writer.flush(rest.fileno())
    assert written + path.read_bytes() == whole
    assert writer.take() == b""
    with pytest.raises(OSError, match="Bad file descriptor"):
        writer.put(records(rows[:1]), "all")
        writer.flush(-1)
    assert writer.take() == expected(rows[:1], "all")
