"""The native writer against obvious formatting: numbers of all lengths, kinds, filters, batches."""

from __future__ import annotations

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

from mtlmon.text.native import MAX_LABEL_BYTES, Writer
from mtlmon.verdict_arrays import verdict_type

Kind = Literal["false", "true", "equivalent"]
Filter = Literal["all", "boolean", "false", "none"]
Row = tuple[int, int, Kind, int, int]

PASSING: dict[Filter, tuple[Kind, ...]] = {
    "all": ("false", "true", "equivalent"),
    "boolean": ("false", "true"),
    "false": ("false",),
    "none": (),
}
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


def expected(rows: list[Row], verdicts: Filter) -> bytes:
    lines = []
    for time_stamp, offset, kind, reference_time_stamp, reference_offset in rows:
        if kind in PASSING[verdicts]:
            end = f"= {reference_time_stamp}:{reference_offset}" if kind == "equivalent" else kind
            lines.append(f"{time_stamp}:{offset} {end}\n")
    return "".join(lines).encode()


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


def written(batches: list[list[Row]], verdicts: Filter = "all") -> bytes:
    writer = Writer()
    for batch in batches:
        writer.put(records(batch), verdicts)
    return writer.take()


ROWS = st.lists(
    st.tuples(NUMBERS, NUMBERS, st.sampled_from(get_args(Kind)), NUMBERS, NUMBERS), max_size=12
)


@given(ROWS, ROWS, st.sampled_from(get_args(Filter)))
@example([(0, 0, "equivalent", 0, 0)], [(LARGEST, LARGEST, "equivalent", LARGEST, LARGEST)], "all")
def test_any_numbers_in_any_order(first: list[Row], second: list[Row], verdicts: Filter) -> None:
    assert written([first, second], verdicts) == expected(first + second, verdicts)


@pytest.mark.parametrize("step", [1, 7, 999, 1000, 10**5, 12_345_678, 10**8, 10**15 + 1])
def test_growing_time_stamps(step: int) -> None:
    for start in [0, *EDGES]:
        rows: list[Row] = [
            (time_stamp, k, "equivalent", max(0, time_stamp - 3 * step), k)
            for k, time_stamp in enumerate(range(start, start + 40 * step, step))
            if time_stamp <= LARGEST
        ]
        assert written([rows]) == expected(rows, "all")


@pytest.mark.parametrize("size", [1, 7, 8, 9, 15, 16, 17, 100, MAX_LABEL_BYTES])
@pytest.mark.parametrize("verdicts", get_args(Filter))
def test_every_line_has_the_label(size: int, verdicts: Filter) -> None:
    label = bytes(ord("a") + number % 26 for number in range(size))
    kinds = get_args(Kind)
    rows: list[Row] = [(10**k, LARGEST, kinds[k % 3], LARGEST - k, k) for k in range(19)]
    writer = Writer(label)
    # more than there is room for at the first time
    for _ in range(40):
        writer.put(records(rows), verdicts)
    lines = expected(rows, verdicts).splitlines(keepends=True)
    assert writer.take() == 40 * b"".join(label + line for line in lines)
    assert writer.label == label


def test_a_label_may_be_too_long() -> None:
    with pytest.raises(ValueError, match="4097 bytes"):
        Writer(bytes(MAX_LABEL_BYTES + 1))


def test_every_small_offset() -> None:
    rows: list[Row] = [(5, offset, "true", 0, 0) for offset in range(10_001)]
    assert written([rows]) == expected(rows, "all")


@pytest.mark.parametrize("verdicts", get_args(Filter))
def test_large_batches(verdicts: Filter) -> None:
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
    whole = expected(rows, verdicts)
    assert written([rows], verdicts) == whole
    assert written([rows[:1], rows[1:512], rows[512:1025], rows[1025:]], verdicts) == whole
    assert written([[row] for row in rows], verdicts) == whole


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
