"""Look-ups against a search through all records."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import MtlmonError
from mtlmon.relations.lookup import LookUp
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
    with pytest.raises(MtlmonError, match="a key is a text, and the column of the relation an int"):
        LookUp(table, ["k"]).find(np.array([1]), [pa.array(["3"])])


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
