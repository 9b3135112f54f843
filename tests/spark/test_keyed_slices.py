"""Slices of policies with variables and a key: what the reference says of each key's rows alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon.errors import MtlmonError
from mtlmon.policy import parse_policies
from tests.doors import SLICE, SlicedRows
from tests.reference.first_order import Log, answers
from tests.relational.formulas import safe_formulas
from tests.spark.slice_cluster import copies_of, is_owned, source_of, values_in

if TYPE_CHECKING:
    from mtlmon import Formula
    from tests.doors import SliceSource
    from tests.spark.slice_cluster import Row

# r is a column of the rows
DECLARED = """
key k
atom p(x: int) = what = "p"
atom q(x: int, y: int) = what = "q"
"""
SCHEMA = pa.schema(
    [("ts", pa.int64()), ("k", pa.int64()), ("what", pa.string()),
     ("x", pa.int64()), ("y", pa.int64()), ("r", pa.bool_())]
)  # fmt: skip
_TYPES = dict.fromkeys("xyzint", int)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(0, 5),
            "k": st.integers(0, 2),
            "what": st.sampled_from(["p", "q", "-"]),
            "x": st.integers(0, 2),
            "y": st.integers(0, 2),
            "r": st.booleans(),
        }
    ),
    max_size=9,
)


def valuations(source: SliceSource, rows: list[Row]) -> set[tuple[int, int, tuple[Any, ...]]]:
    """What slices report: the key, the time and the values of other variables."""
    found = []
    for number, copies in copies_of(source, rows).items():
        own = copies.append_column(SLICE, pa.array([number] * len(copies), pa.int32()))
        for batch in SlicedRows(source, "inf")(iter(own.sort_by("time").to_batches())):
            found += [row for row in batch.to_pylist() if is_owned(source, row)]
    said = [(row["time"], values_in(source, row)) for row in found]
    unique = {(int(key), time, tuple(values)) for time, (key, *values) in said}
    assert len(unique) == len(said)
    return unique


def database(rows: list[Row]) -> dict[str, set[tuple[int, ...]]]:
    return {
        "p": {(row["x"],) for row in rows if row["what"] == "p"},
        "q": {(row["x"], row["y"]) for row in rows if row["what"] == "q"},
        "r": {() for row in rows if row["r"]},
    }


def agree(formula: Formula, rows: list[Row], slices: int) -> None:
    text = f"{DECLARED}find f: {formula}\n"
    # a comparison by itself is one of columns, not of variables
    assume(parse_policies(text).policies[0].formula == formula)
    try:
        source = source_of(text, SCHEMA, slices)
        (policy,) = source.slicing().policies
    except MtlmonError:
        assume(False)
    expected = set()
    for key in {row["k"] for row in rows}:
        own = [row for row in rows if row["k"] == key]
        stamps = sorted({row["ts"] for row in own})
        points = [(ts, database([row for row in own if row["ts"] == ts])) for ts in stamps]
        log = Log(tuple(points), max(row["ts"] for row in rows), True)
        for ts, answer in zip(
            stamps, answers(formula, log, policy.reported[1:], types=_TYPES), strict=True
        ):
            expected |= {(key, ts, tuple(row)) for row in answer.satisfying}
    assert valuations(source, rows) == expected


@settings(max_examples=40)
@given(safe_formulas(2, aggregates=True), ROWS, st.integers(1, 3))
def test_formulas(formula: Formula, rows: list[Row], slices: int) -> None:
    agree(formula, rows, slices)


@pytest.mark.parametrize(
    "text",
    [
        "p(x) AND PREVIOUS p(x)",
        "p(x) AND PREVIOUS[1,2] NOT q(x, x)",
        "p(x) AND NOT PREVIOUS PREVIOUS r",
        "p(x) AND NEXT[0,2] (r AND NOT p(x))",
        "p(x) AND ((r AND NOT p(y)) SINCE q(x, y))",
        "p(x) AND (p(x) UNTIL[0,2] q(x, y))",
        "r AND NOT ONCE[1,2] p(_)",
        "HISTORICALLY[0,2] r",
        "COUNT(ONCE[0,2] q(x, y)) = 0",
        "p(x) AND n = COUNT(ONCE[0,2] q(x, y) BY x)",
    ],
)
@settings(max_examples=15)
@given(rows=ROWS, slices=st.integers(1, 3))
def test_shapes(text: str, rows: list[Row], slices: int) -> None:
    formula = parse_policies(f"{DECLARED}find f: {text}\n").policies[0].formula
    agree(formula, rows, slices)
