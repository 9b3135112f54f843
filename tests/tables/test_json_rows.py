"""Tables as JSON lines, against the module json."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tests.doors import json_lines

_CELLS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "integer": (pa.int64(), st.sampled_from([0, 0, 0, -7])),
    "offset": (pa.uint64(), st.sampled_from([0, 2**64 - 1])),
    "truth": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.sampled_from(["a", "a", 'b "c"\n', "é"])),
    "float": (pa.float64(), st.sampled_from([1.5, 1.5, -2.25])),
    "nothing": (pa.null(), st.none()),
}


@st.composite
def _tables(draw: st.DrawFn) -> pa.RecordBatch:
    """A few rows, many of whose columns have the same cell in all of them."""
    kinds = draw(st.lists(st.sampled_from([*_CELLS]), min_size=1, max_size=5))
    size = draw(st.integers(1, 3))
    columns = {}
    for number, kind in enumerate(kinds):
        of_kind, cells = _CELLS[kind]
        cells = draw(st.sampled_from([cells, cells | st.none()]))
        columns[f"{kind} {number}"] = pa.array(
            draw(st.lists(cells, min_size=size, max_size=size)), of_kind
        )
    return pa.RecordBatch.from_pydict(columns)


@given(_tables())
@example(pa.RecordBatch.from_pydict({"a": pa.array(["x", "y", "x"]), "b": pa.array([1, 1, 1])}))
@example(pa.RecordBatch.from_pydict({"a": pa.array([None, None], pa.string()), "b": [1, 2]}))
def test_lines_are_those_of_json(batch: pa.RecordBatch) -> None:
    expected = [
        json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in batch.to_pylist()
    ]
    assert bytes(json_lines(batch)).decode().split("\n") == [*expected, ""]
    # a part of a longer table
    assert bytes(json_lines(batch.slice(1 if len(batch) > 1 else 0))).decode().split("\n") == [
        *(expected[1:] or expected), ""
    ]  # fmt: skip
