"""What `mtlmon analyze` says of relations is an upper bound of what they keep."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from mtlmon.checking.bounds import Bound, bounds_of
from mtlmon.policy import parse_policies
from mtlmon.relations.of_rows import RowRelation
from mtlmon.streams import bounds
from mtlmon.tables.looking_up import relations_with_columns

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string(), "v": pa.int64()})
LIMITS = "k,from,to,max\na,0,100,80\na,100,,100\nb,50,,60\n"


def found(body: str, folder: Path) -> tuple[list[Bound], dict[str, int]]:
    """The bounds, and the most bytes that relations have kept of random rows."""
    (folder / "limits.csv").write_text(LIMITS)
    text = f"unit s\nassume rate <= 3/s\n{body}\npolicy p: exists r[k]\n"
    file = parse_policies(text, str(folder / "p.mtl"))
    relations = relations_with_columns(file, SCHEMA)
    bounds = bounds_of(file, SCHEMA, relations)
    random = np.random.default_rng(1)
    most = dict.fromkeys(relations.of_rows, 0)
    for start in range(0, 300, 7):
        stamps = np.sort(np.repeat(np.arange(start, start + 7), 3))
        cells = {
            "k": pa.array(["a", "b", "c", None], pa.string()).take(
                pa.array(random.integers(0, 4, len(stamps)))
            ),
            "v": pa.array(random.integers(0, 9, len(stamps))),
        }
        for name, relation in relations.of_rows.items():
            assert isinstance(relation, RowRelation)
            batch = pa.RecordBatch.from_pydict({"ts": stamps, **cells})
            columns = dict(zip(relation.columns, relation.read(batch), strict=True))
            rows = pa.table({"": stamps, " ": stamps + 1, **columns})
            relation.advance(rows, start + 7, inf)
            assert relation._query is not None
            most[name] = max(most[name], relation._query.held_bytes)
    return [one for one in bounds.bounds if one.kind == "relation"], most


@pytest.mark.parametrize(
    "body",
    [
        "relation r = rows valid 20 group k select sum(v) as v",
        "relation r = rows valid until next 30 where v > 3 select k as k, v + 1 as w distinct",
        "relation s = rows valid 9 select k as k\nrelation r = rows select k as k valid 40 union s",
        'relation l = table "limits.csv" valid [from, to)\n'
        "relation r = rows valid 9 select k as k, v as v join l on k = l_k and v < max",
    ],
)
def test_relations_keep_no_more(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LARGEST_BATCH", 0)
    (bound,), most = found(body, tmp_path)
    assert bound.total is not None
    assert bound.total / 16 < most["r"] <= bound.total


def test_what_has_no_limit(tmp_path: Path) -> None:
    body = "relation r = rows valid until v = 0 per k select k as k"
    (bound,), most = found(body, tmp_path)
    assert bound.total is None
    assert "are kept until a row ends them" in bound.kept[-1].reason
    assert most["r"]
    # counting what is open is what they are for: it has no limit, and is no error
    for steps in ("group k select count() as n", "distinct", "minus all s", "intersect s"):
        body = "relation s = rows valid 9 select k as k\n"
        body += f"relation r = rows valid until v = 0 per k select k as k {steps}"
        (bound,), most = found(body, tmp_path)
        assert bound.total is None, steps
        assert most["r"]
    body = 'relation r = table "limits.csv" valid [from, to) where max > 70'
    (bound,), _ = found(body, tmp_path)
    assert [(one.expression, one.words) for one in bound.kept] == [("tables", "2 records")]
    assert bound.total
