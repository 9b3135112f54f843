"""Keys of every type: numbers in the order of first occurrence, and the texts behind them."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import parquet  # noqa: E402

import mtlmon  # noqa: E402
from mtlmon import MtlmonError  # noqa: E402
from tests.doors import (  # noqa: E402
    NO_NUMBER,
    KeyTable,
    TextCells,
    find_rows,
    number_rows,
)
from tests.tables.begun import events_of  # noqa: E402
from tests.tables.reading import keyed  # noqa: E402


def check(batches: list[list[Any]], texts: list[list[tuple[str, ...]]]) -> KeyTable:
    """Number the rows of batches, whose keys have these texts."""
    table = KeyTable(len(texts[0][0]))
    number_of: dict[tuple[str, ...], int] = {}
    for columns, keys in zip(batches, texts, strict=True):
        known = [number_of.get(key, NO_NUMBER) for key in keys]
        assert find_rows(table, columns).tolist() == known
        expected = [number_of.setdefault(key, len(number_of)) for key in keys]
        assert number_rows(table, columns).tolist() == expected
    assert len(table) == len(number_of)
    assert [table.key(number) for number in range(len(table))] == list(number_of)
    return table


@given(
    st.lists(
        st.lists(st.tuples(st.text(max_size=9), st.text("ab", max_size=3)), max_size=9), min_size=1
    ),
    st.sampled_from(["string", "large_string", "dictionary", "sliced"]),
    st.booleans(),
)
def test_texts(batches: list[list[tuple[str, str]]], kind: str, is_single: bool) -> None:
    keys: list[list[tuple[str, ...]]]
    keys = [[key[: 1 if is_single else 2] for key in batch] for batch in batches]
    if not any(keys):
        return
    keys = [batch for batch in keys if batch]

    def column(values: list[str]) -> Any:
        if kind == "dictionary":
            return pa.array(values).dictionary_encode()
        if kind == "sliced":
            return pa.array(["left", *values, "right"]).slice(1, len(values))
        return pa.array(values, pa.large_string() if kind == "large_string" else pa.string())

    check([[column(list(part)) for part in zip(*batch, strict=True)] for batch in keys], keys)


def test_many_keys_take_little_memory() -> None:
    source = random.Random(1)
    values = [source.randrange(50_000) for _ in range(80_000)]
    keys: list[tuple[str, ...]] = [(f"user-{value}",) for value in values]
    table = check([[pa.array([key[0] for key in keys])]], [keys])
    text = sum(len(table.key(number)[0]) for number in range(len(table)))
    assert (table.memory - text) / len(table) < 30


def test_equal_hashes_are_no_equal_keys() -> None:
    # With factors 1 the hash is the text, of which neither slot nor tag have all of it.
    table = KeyTable(1, bytes(24))
    keys = [f"{number:04}0000" for number in range(5000)]
    numbers = number_rows(table, [pa.array(keys + keys)])
    assert numbers.tolist() == 2 * list(range(5000))


def test_values_that_are_no_texts() -> None:
    check([[pa.array([7, -7, 7])], [pa.array([2**40, 7])]], [[("7",), ("-7",), ("7",)],
          [(str(2**40),), ("7",)]])  # fmt: skip
    check([[pa.array([True, False])]], [[("true",), ("false",)]])
    check([[pa.array([date(2024, 5, 1)])]], [[("2024-05-01",)]])
    check([[pa.array([7, 8]), pa.array(["7", "8"])]], [[("7", "7"), ("8", "8")]])


def test_a_null_is_no_known_key() -> None:
    table = KeyTable(2)
    columns = [pa.array(["a", "b", None, "a"]), pa.array([1, 2, 1, None])]
    number_rows(table, [column.slice(0, 1) for column in columns])
    assert find_rows(table, columns).tolist() == [0, *[NO_NUMBER] * 3]


def test_what_is_no_key() -> None:
    table = KeyTable(1)
    with pytest.raises(ValueError, match="null"):
        number_rows(table, [pa.array(["a", None])])
    with pytest.raises(IndexError):
        table.key(7)
    with pytest.raises(ValueError, match="2 columns instead of 1"):
        number_rows(table, [pa.array(["a"]), pa.array(["b"])])
    with pytest.raises(ValueError, match="items instead of"):
        table.number_rows([TextCells(3, 0, None, pa.array(["a"] * 3).buffers()[1], b"aaa", False)],
                          np.zeros(2, np.uint32))  # fmt: skip


def test_damaged_cells() -> None:
    offsets = np.array([0, 2, 1, 5], np.int32)
    for size in (5, 4):
        with pytest.raises(ValueError, match="damaged"):
            TextCells(3, 0, None, offsets.tobytes(), b"x" * size, False)
    offsets = np.array([0, 1, 2, 5], np.int32)
    with pytest.raises(ValueError, match="damaged"):
        TextCells(3, 0, None, offsets.tobytes(), b"xxxx", False)
    with pytest.raises(ValueError, match="items instead of"):
        TextCells(4, 0, None, offsets.tobytes(), b"xxxxx", False)
    with pytest.raises(ValueError, match="items instead of"):
        TextCells(3, 8, b"\xff", np.zeros(20, np.int32).tobytes(), b"", False)
    with pytest.raises(ValueError, match="without one of its buffers"):
        TextCells(3, 0, None, None, b"", False)


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("first", [0, 1, 7, 8, 9])
def test_cells_need_no_more_than_their_bytes(first: int, is_large: bool) -> None:
    for count in range(1, 20):
        ends = np.arange(first + count + 1, dtype=np.int64 if is_large else np.int32) * 2
        offsets, text = ends.tobytes(), b"".join(b"%02d" % k for k in range(first + count))
        validity = b"\xff" * -(-(first + count) // 8)
        table = KeyTable(1)
        numbers = np.empty(count, np.uint32)
        cells = TextCells(count, first, validity, offsets, text, is_large)
        table.number_rows([cells], numbers)
        keys = [table.key(number)[0] for number in numbers.tolist()]
        assert keys == [f"{k:02}" for k in range(first, first + count)]
        for buffers in (
            (validity[:-1], offsets, text),
            (validity, offsets[:-1], text),
            (validity, offsets, text[:-1]),
        ):
            with pytest.raises(ValueError, match=r"items instead of|damaged"):
                TextCells(count, first, *buffers, is_large)


def test_keys_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table(
        {
            "ts": list(range(6)),
            "site": pa.array(["x", "y", "x", None, "y", "x"]).dictionary_encode(),
            "user": [1, 1, 2, 2, None, 1],
            "p": [True] * 6,
        }
    )
    parquet.write_table(table, path)
    found = keyed(path, "p", key=["site", "user"], on_error="skip")
    assert [(row[0], row[1]) for row in found] == [
        (("x", "1"), 0),
        (("y", "1"), 1),
        (("x", "2"), 2),
        (("x", "1"), 5),
    ]
    found = keyed(path, "p", key="site", on_error="skip")
    assert [row[0][0] for row in found] == ["x", "y", "x", "y", "x"]


def test_rows_without_a_key_of_one_policy(tmp_path: Path) -> None:
    """They are unusable for all policies, which are about the same rows, and counted once."""
    path = tmp_path / "log.csv"
    path.write_text("ts,user,host,v\n1,a,x,1\n2,,x,2\n3,b,,5\n4,a,x,9\n")
    rules = {
        "user": "policy user per user: v < 9",
        "host": "policy host per host: v < 9",
        "all": "policy all per none: v < 2",
    }

    def found(names: list[str], **options: Any) -> list[tuple[str, int]]:
        text = "\n".join(rules[name] for name in names)
        with mtlmon.check(text, path, verdicts="false", **options) as check:
            rows = check.to_arrow().to_pylist()
            assert events_of(check).skipped == (0 if names == ["all"] else len(names))
        return [(row["policy"], row["time"]) for row in rows]

    # without other policies, no key is needed
    assert found(["all"]) == [("all", 2), ("all", 3), ("all", 4)]
    with pytest.raises(MtlmonError, match=r"log.csv:3: the key column 'user' is empty"):
        found(["user", "all"])
    every = list(rules)
    skipped = {
        ("user",): [("user", 4)],
        ("user", "host"): [("user", 4), ("host", 4)],
    }
    for names, expected in skipped.items():
        assert found(list(names), on_error="skip") == expected
    with mtlmon.check("\n".join(rules.values()), path, verdicts="false", on_error="skip") as check:
        rows = [(row["policy"], row["time"]) for row in check.to_arrow().to_pylist()]
        assert events_of(check).skipped == 2
    assert rows == [(name, 4) for name in every]


def test_a_text_has_the_number_of_its_row() -> None:
    table = KeyTable(1)
    texts = ["b", "", "a", "b", "é"]
    assert [table.number_text(text.encode()) for text in texts] == [0, 1, 2, 0, 3]
    assert number_rows(table, [pa.array([*texts, "c"])]).tolist() == [0, 1, 2, 0, 3, 4]
    assert table.key(3) == ("é",)
    with pytest.raises(ValueError, match="several columns"):
        KeyTable(2).number_text(b"a")
