"""Look-ups against a search through all records."""

from __future__ import annotations

import pickle
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import MtlmonError
from tests.doors import KnownRelation, LookUp, records_of
from tests.doors import lookup_has_overlaps as has_overlaps
from tests.relations.programs import RECORDS, table_of

_KEYS = {"k": st.sampled_from([0, 1, 2, 7, None]), "t": st.sampled_from(["a", "b", "z", None])}


@given(
    RECORDS,
    st.sampled_from([(), ("k",), ("t",), ("t", "k")]),
    st.lists(st.tuples(st.integers(-5, 20), *_KEYS.values()), max_size=6),
    st.sampled_from([1, 100]),
)
def test_what_is_found(records: Any, keys: tuple[str, ...], wanted: Any, repeated: int) -> None:
    # a record with other columns is another row
    table = table_of(records)
    times = np.array([time for time, *_ in wanted], np.int64)
    columns = {
        name: pa.array([row[1 + place] for row in wanted], table.schema.field(name).type)
        for place, name in enumerate(_KEYS)
    }
    look_up = LookUp(table, keys)
    # many rows of a key are looked up together
    many = np.tile(times, repeated)
    of_keys = [pa.concat_arrays([columns[name]] * repeated) for name in keys]
    all_rows = look_up.find(many, of_keys)
    rows = all_rows[: len(wanted)]
    assert all_rows.tolist() == rows.tolist() * repeated
    for row, (time, *values) in zip(rows.tolist(), wanted, strict=True):
        given_values = dict(zip(_KEYS, values, strict=True))
        valid = [
            place
            for place, (start, end, cells) in enumerate(records)
            if start <= time < end
            and all(
                given_values[name] is not None
                and given_values[name] == dict(zip(("k", "x", "t"), cells, strict=True))[name]
                for name in keys
            )
        ]
        assert row == (valid[0] if len(valid) == 1 else -2 if valid else -1)
    found = look_up.values("t", rows).to_pylist()
    assert found == [records[row][2][2] if row >= 0 else None for row in rows.tolist()]


def test_numbers_of_other_types() -> None:
    table = pa.table({"start": [0], "end": [5], "k": pa.array([3], pa.int32()), "v": ["a"]})
    found = LookUp(table, ["k"]).find(np.array([1, 1]), [pa.array([3.0, 3.5])])
    assert found.tolist() == [0, -1]


def test_errors() -> None:
    table = pa.table({"start": [0], "end": [5], "k": [3]})
    with pytest.raises(MtlmonError, match="there is no column 'm'"):
        LookUp(table, ["m"])
    message = "a key is true or false, and the column of the relation an integer"
    with pytest.raises(MtlmonError, match=message):
        LookUp(table, ["k"]).find(np.array([1]), [pa.array([True])])


def test_nan_is_equal_to_nothing() -> None:
    table = pa.table({"start": [0, 0], "end": [5, 5], "k": [nan, 1.0]})
    found = LookUp(table, ["k"]).find(np.array([1, 1]), [pa.array([nan, 1.0])])
    assert found.tolist() == [-1, 1]


def test_keys_of_many_columns() -> None:
    """There are more combinations of their values than 64 bits can tell apart."""
    count, names = 2000, [f"k{number}" for number in range(7)]
    numbers = np.arange(count)
    keys = {name: numbers * (place + 1) % 1999 for place, name in enumerate(names)}
    look_up = LookUp(pa.table({"start": numbers, "end": numbers + 9, **keys}), names)
    times = numbers + 4
    found = look_up.find(times, [pa.array(keys[name]) for name in names])
    assert found.tolist() == numbers.tolist()
    mixed = [pa.array(np.roll(keys[name], place)) for place, name in enumerate(names)]
    assert set(look_up.find(times, mixed).tolist()) == {-1}


@pytest.mark.parametrize("kind", ["int", "float", "time", "date", "text"])
@pytest.mark.parametrize("overlapping", [0.0, 0.2])
def test_many_keys(kind: str, overlapping: float) -> None:
    """Some keys have records one after the other, and some have several at the same time."""
    random = np.random.default_rng(7)
    keys = np.repeat(np.arange(150), 6)
    starts = np.cumsum(random.integers(1, 9, (150, 6)), axis=1)
    ends = np.minimum(
        np.append(starts[:, 1:], np.full((150, 1), 2**63 - 1), axis=1),
        starts + random.integers(1, 9, (150, 6)),
    )
    ends[random.random((150, 6)) < overlapping] += 6
    shuffled = random.permutation(900)
    starts, ends, keys = starts.ravel()[shuffled], ends.ravel()[shuffled], keys[shuffled]
    missing = random.random(900) < 0.02

    def column(numbers: Any, mask: Any = None) -> pa.Array:
        if kind == "float":
            return pa.array(np.where(numbers % 9 == 4, nan, numbers / 2), mask=mask)
        if kind == "text":
            return pa.array([f"t{number}" for number in numbers], mask=mask)
        if kind == "date":
            return pa.array(numbers.astype(np.int32), mask=mask).view(pa.date32())
        found = pa.array(numbers, mask=mask)
        return found.cast(pa.timestamp("ms")) if kind == "time" else found

    look_up = LookUp(pa.table({"start": starts, "end": ends, "k": column(keys, missing)}), ["k"])
    times, wanted = random.integers(-2, 60, 2000), random.integers(-20, 170, 2000)
    found = look_up.find(times, [column(wanted)])
    for time, key, row in zip(times.tolist(), wanted.tolist(), found.tolist(), strict=True):
        valid = np.flatnonzero((keys == key) & ~missing & (starts <= time) & (time < ends))
        if kind == "float" and key % 9 == 4:
            valid = valid[:0]
        assert row == (valid[0] if len(valid) == 1 else -2 if len(valid) else -1)


def test_overlaps() -> None:
    def overlap(starts: list[int], ends: list[int | None], keys: list[int | None]) -> bool:
        table = pa.table({"start": starts, "end": pa.array(ends, pa.int64()), "k": keys})
        return has_overlaps(records_of(table), ["k"])

    assert not overlap([5, 0, 0], [None, 5, 3], [1, 1, 2])
    assert overlap([4, 0, 0], [None, 5, 3], [1, 1, 2])
    assert overlap([0, 1, 3], [2, None, 4], [1, None, None])
    assert not overlap([5], [5], [1])


def test_a_relation_in_which_values_were_looked_up_is_picklable() -> None:
    """As Spark sends it to its workers."""
    relation = KnownRelation(pa.table({"start": [1, 5], "end": [5, 9], "key": ["a", "b"]}))
    times, keys = np.array([4, 4, 6]), [pa.array(["a", "b", "b"])]
    found = relation.find(["key"], times, keys)
    again = pickle.loads(pickle.dumps(relation))
    assert again.find(["key"], times, keys).tolist() == found.tolist()
    assert found[0] >= 0 > found[1]
