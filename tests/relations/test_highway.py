"""The example of the paper: a highway with measuring stations."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tests.doors import evaluate
from tests.doors import relations_algebra as a
from tests.relations.programs import predicate

AVERAGE = (a.Aggregation("speed", "avg", predicate("speed")),)


def at(text: str) -> int:
    return int(datetime.fromisoformat(f"1993-03-11T{text}").replace(tzinfo=UTC).timestamp())


VEHICLES = pa.table(
    {
        "from": [at("05:00:08"), at("05:01:32"), at("05:02:16")],
        "to": [at("05:00:08") + 1, at("05:01:32") + 1, at("05:02:16") + 1],
        "lane": [5, 2, 4],
        "speed": [18.28, 21.33, 19.69],
        "length": [5.27, 4.62, 9.97],
    }
)
LISTED = [
    ("05:00:08", "05:01:32", 18.280),
    ("05:01:32", "05:02:16", 19.805),
    ("05:02:16", "05:15:08", 19.766),
    ("05:15:08", "05:16:32", 20.510),
    ("05:16:32", "05:17:16", 19.690),
]


def test_the_listed_averages() -> None:
    node = a.Group(a.ValidFor(a.Source("rows"), 900), (), AVERAGE)
    found = evaluate(node, {"rows": VEHICLES})
    assert [(row["start"], row["end"]) for row in found.to_pylist()] == [
        (at(start), at(end)) for start, end, _ in LISTED
    ]
    assert found["speed"].to_pylist() == pytest.approx([value for *_, value in LISTED], abs=1e-3)


def test_an_average_is_never_the_negative_zero() -> None:
    """The least number below zero, divided by three, is rounded to it; relations have one zero."""
    rows = pa.table({"from": [1, 1, 1], "to": [2, 2, 2], "speed": [-5e-324, 0.0, 0.0]})
    found = evaluate(a.Group(a.Source("rows"), (), AVERAGE), {"rows": rows})
    assert [str(one) for one in found["speed"].to_pylist()] == ["0.0"]


def test_the_windows_of_vehicles() -> None:
    found = evaluate(a.ValidFor(a.Source("rows"), 900), {"rows": VEHICLES})
    assert found["end"].to_pylist() == [at("05:15:08"), at("05:16:32"), at("05:17:16")]


def test_congested_sections_of_a_union() -> None:
    """The query of the example, over two sections; the condition goes below the union."""
    slow = pa.table(
        {
            "from": [at("05:00:00"), at("05:10:00"), at("05:20:00")],
            "to": [at("05:00:01"), at("05:10:01"), at("05:20:01")],
            "lane": [1, 1, 1],
            "speed": [10.0, 18.0, 30.0],
            "length": [4.0, 4.0, 4.0],
        }
    )
    averages = [
        a.Select(
            a.Group(a.ValidFor(a.Source(name), 900), (), AVERAGE),
            (("speed", predicate("speed")), ("section", predicate(str(number)))),
        )
        for number, name in enumerate(("first", "second"), start=1)
    ]
    congested = a.Select(
        a.Where(a.Union(averages[0], averages[1]), predicate("speed < 15")),
        (("section", predicate("section")),),
    )
    found = evaluate(congested, {"first": VEHICLES, "second": slow})
    assert found.to_pylist() == [{"start": at("05:00:00"), "end": at("05:15:00"), "section": 2}]
