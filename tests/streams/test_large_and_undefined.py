"""Windows with values that no sum of floats holds, and with NaN, which is no value in them."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from mtlmon.streams import compile as compiled
from tests.streams.programs import SCHEMA, Texts, evaluated

NAN = math.nan


def values(expression: str, cells: list[float | None]) -> list[Any]:
    """What an expression over `x` is at rows one unit of time apart, in blocks of each size."""
    found = []
    for size in (1, 2, len(cells)):
        rows = pa.table({"ts": range(len(cells)), "x": pa.array(cells, pa.float64())})
        streams = compiled(f"stream s = {expression}", rows.schema)
        found.append(
            [
                value
                for place in range(0, len(cells), size)
                for value in streams.evaluate(rows.slice(place, size)).column("s").to_pylist()
            ]
        )
    assert repr(found[0]) == repr(found[1]) == repr(found[2])
    return found[0]


@pytest.mark.parametrize(
    ("expression", "cells", "wanted"),
    [
        ("avg[0,9](x)", [1.7e308, 1.7e308], [1.7e308, 1.7e308]),
        ("avg[0,9](x)", [-1.7e308, -1.7e308, 1.7e308], [-1.7e308, -1.7e308, -1.7e308 / 3]),
        ("avg[0,9](x)", [math.inf, 1.0], [math.inf, math.inf]),
        ("avg[0,1](x)", [1.5e308, 1.5e308, 1.0], [1.5e308, 1.5e308, 7.5e307]),
        ("sum[0,9](x)", [1.7e308, 1.7e308], [1.7e308, math.inf]),
        ("stddev[0,9](x)", [1e300, 3e300], [None, math.sqrt(2) * 1e300]),
        ("var[0,9](x)", [1e300, 3e300], [None, math.inf]),
        # as in pandas
        ("avg[0,9](x)", [1.0, NAN, 3.0], [1.0, 1.0, 2.0]),
        ("sum[0,9](x)", [NAN, NAN, 3.0], [None, None, 3.0]),
        ("sum[0,9](x, or: 0.0)", [NAN, 1.0, NAN], [0.0, 1.0, 1.0]),
        ("min[0,9](x)", [NAN, 2.0, NAN], [None, 2.0, 2.0]),
        ("max[0,*)(x)", [1.0, NAN], [1.0, 1.0]),
        ("median[0,9](x)", [4.0, NAN, 2.0], [4.0, 4.0, 3.0]),
        ("first[0,9](x)", [NAN, 2.0], [None, 2.0]),
        ("last[0,9](x)", [2.0, NAN], [2.0, 2.0]),
        ("distinct[0,9](x)", [NAN, 2.0, NAN], [0, 1, 1]),
        ("distinct[0,9](x, or: 7)", [NAN, 2.0, NAN], [7, 1, 1]),
        ("var[0,9](x)", [NAN, 1.0, 3.0], [None, None, 2.0]),
        ("integral[0,9](x)", [2.0, NAN, 1.0], [0.0, 2.0, 4.0]),
        ("increase[0,9](x)", [2.0, NAN, 3.5], [None, None, 1.5]),
        ("mad[0,9](x)", [1.0, NAN, 4.0, math.inf], [0.0, 0.0, 1.5, 3.0]),
        ("mad[0,9](x)", [math.inf, -math.inf, 1.0], [NAN, NAN, math.inf]),
        ("mad[0,9](x)", [-1.5e308, 1.5e308, 0.0], [0.0, 1.5e308, 1.5e308]),
        ("increase[0,9](x)", [-1e308, 1e308, 0.0, -1e308], [None, math.inf, math.inf, 1e308]),
        ("rate[0,8](x)", [1.0, math.inf, 3.0], [None, math.inf, math.inf]),
        ("increase[0,9](x)", [math.inf, math.inf, 1.0], [None, NAN, NAN]),
        ("changes[0,9](x)", [0.0, -0.0, NAN, 1.0], [0, 0, 0, 1]),
        ("resets[0,2](x)", [3.0, 2.0, 5.0, 4.0], [0, 1, 1, 1]),
        # a row is a row, and an offset is no window
        ("count[0,9]()", [NAN, 1.0], [1, 2]),
        # in a stream that reads itself
        ("sum[0,9](x + 0 * s.last(or: 0), or: 0)", [1.0, NAN, 2.0], [1.0, 1.0, 3.0]),
        ("max[0,9](x + min(0, s.last(or: 0)), or: 0)", [1.0, NAN, 2.0], [1.0, 1.0, 2.0]),
    ],
)
def test_values(expression: str, cells: list[float | None], wanted: list[Any]) -> None:
    found = values(expression, cells)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one == other or same(one, other), found


def same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-15) or (math.isnan(one) and math.isnan(other))


def test_ticks() -> None:
    texts = Texts({}, [("avg[0,9](f)", 2), ("max[0,9](f)", 2)])
    ticks: list[Any] = []
    rows = [
        (place, 0, dict.fromkeys(SCHEMA.names) | {"f": f})
        for place, f in enumerate([NAN, 1.7e308, 1.7e308])
    ]
    evaluated(texts.program(), rows, periods=texts.periods, ticks=ticks, until=5)
    found = [(time, value) for time, _, _, name, value in ticks if name.startswith("avg")]
    assert found == [(0, None), (2, 1.7e308), (4, 1.7e308)]
    assert [value for *_, name, value in ticks if name.startswith("max")] == [
        None,
        1.7e308,
        1.7e308,
    ]
