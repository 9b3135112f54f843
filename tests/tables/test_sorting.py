"""Sorting by time: stable, and the same whatever the memory."""

from __future__ import annotations

import random
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import parquet  # noqa: E402

from mtlmon import MtlmonError, TableError  # noqa: E402
from mtlmon.tables import open_tables  # noqa: E402
from tests.doors import EventSorter  # noqa: E402
from tests.doors import tables_sorting as sorting  # noqa: E402
from tests.tables.reading import keyed, read  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHAPES: dict[str, Callable[[random.Random, int], int]] = {
    "random": lambda source, k: source.randrange(2000),
    "few time-stamps": lambda source, k: source.randrange(3),
    "one time-stamp": lambda source, k: 7,
    "sorted": lambda source, k: k,
    "reversed": lambda source, k: 10_000 - k,
    "nearly sorted": lambda source, k: max(0, k - source.randrange(20)),
    "sorted parts": lambda source, k: k % 1000,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("memory", [1, 1 << 18, 1 << 30])
def test_events_of_any_order(shape: str, memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "_LEAST_ROWS", 64)
    source = random.Random(shape)
    stamps = np.array([SHAPES[shape](source, k) for k in range(9000)], np.int64)
    with EventSorter(2, memory, 2) as sorter:
        place = 0
        while place < len(stamps):
            part = stamps[place : place + source.choice([0, 1, 100, 900])]
            numbers = np.arange(place, place + len(part), dtype=np.uint32)
            fives = np.full(len(part), 5, np.uint64)
            words = np.stack([numbers.astype(np.uint64) * 3, fives], axis=1)
            sorter.add(part, [None, numbers], words)
            place += len(part)
        records = np.concatenate(list(sorter.sorted()))
    order = np.argsort(stamps, kind="stable")
    assert records["time_stamp"].tolist() == stamps[order].tolist()
    assert records["numbers"][:, 1].tolist() == order.tolist()
    assert not records["numbers"][:, 0].any()
    assert (records["words"][:, 0] == 3 * order.astype(np.uint64)).all()
    assert (records["words"][:, 1] == 5).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("memory", [1, 1 << 18, 1 << 30])
def test_times_that_are_finer_than_time_stamps(
    shape: str, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From some event on, times have rests; equal times keep their order."""
    monkeypatch.setattr(sorting, "_LEAST_ROWS", 64)
    source = random.Random(shape)
    stamps = np.array([SHAPES[shape](source, k) for k in range(9000)], np.int64)
    rests = np.array([source.randrange(3) for _ in stamps], np.int64)
    with EventSorter(1, memory) as sorter:
        place = 0
        while place < len(stamps):
            count = source.choice([0, 1, 100, 900])
            part, fine = stamps[place : place + count], rests[place : place + count]
            words = np.arange(place, place + len(part), dtype=np.uint64)[:, np.newaxis]
            if place < 4000 or source.random() < 0.3:
                fine[:] = 0
                sorter.add(part, [None], words)
            else:
                sorter.add(part, [None], words, fine)
            place += len(part)
        records = np.concatenate(list(sorter.sorted()))
    order = np.lexsort((rests, stamps))
    assert records["time_stamp"].tolist() == stamps[order].tolist()
    assert records["words"][:, 0].tolist() == order.tolist()


def test_nothing_to_sort() -> None:
    with EventSorter(1) as sorter:
        assert sum(map(len, sorter.sorted())) == 0


def test_tables_in_any_order(tmp_path: Path) -> None:
    source = random.Random(3)
    path = tmp_path / "log.parquet"
    stamps = [source.randrange(500) for _ in range(5000)]
    keys = [f"k{source.randrange(9)}" for _ in stamps]
    truth = [source.random() < 0.5 for _ in stamps]
    parquet.write_table(pa.table({"ts": stamps, "key": keys, "p": truth}), path)
    with pytest.raises(
        TableError, match=r"row \d+: column 'ts': time-stamp \d+ comes after \d+, so"
    ):
        read(path, "p")
    order = sorted(range(len(stamps)), key=stamps.__getitem__)
    expected = [((keys[k],), stamps[k], frozenset("p" if truth[k] else "")) for k in order]
    assert keyed(path, "p", key="key", sort=True) == expected
    with open_tables(path, ("p",), key="key", sort=True) as tables:
        for batch in tables:
            assert batch.source is None
            assert batch.first_row is None
        assert tables.clock == max(stamps)


def test_late_rows_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,p\n1,true\n5,\n3,true\n4,true\n5,true\n2,\n6,\n")
    with open_tables(path, ("p",), on_error="skip") as tables:
        assert [stamp for batch in tables for stamp in batch.time_stamps.tolist()] == [1, 5, 5, 6]
        assert tables.skipped == 3
        assert [error.line for error in tables.errors] == [4, 5, 7]


def test_no_room_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "_LEAST_ROWS", 64)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    stamps = np.arange(100, dtype=np.int64)
    with (
        EventSorter(1, 1) as sorter,
        pytest.raises(MtlmonError, match="TMPDIR names another directory"),
    ):
        sorter.add(stamps, [None], np.zeros((100, 1), np.uint64))
