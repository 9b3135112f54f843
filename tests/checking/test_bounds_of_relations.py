"""What `mtlmon analyze` says of relations is an upper bound of what they keep."""

from __future__ import annotations

from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from mtlmon.errors import MtlmonError
from mtlmon.policy import load_policies, parse_policies
from tests.doors import (
    NO_NAMES,
    Bound,
    ChangeTimes,
    LogRelation,
    Names,
    ReadRows,
    RevisedRelation,
    RevisedRelations,
    Revisions,
    RowRelation,
    StandingQuery,
    bounds_of,
    relations_with_columns,
    unnamed_rows,
)
from tests.doors import NamedRows as Rows
from tests.doors import checking_late_bounds as late_bounds
from tests.doors import relations_revised as revised
from tests.doors import streams_bounds as bounds
from tests.relations import texts
from tests.relations.test_texts import write

if TYPE_CHECKING:
    from random import Random

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
        "relation r = rows valid 20 every 10 group k select median(v) as v, last(v) as w",
        "relation r = rows valid 20 shift end 9 group k select max(v) - min(v) as by valid 30",
        "relation r = rows valid 20 select k as k, start() as since distinct on k",
        'relation l = table "limits.csv" valid [from, to)\n'
        "relation r = rows valid 9 select k as k, v as v join l on k = l_k and v < max",
    ],
)
def test_relations_keep_no_more(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LARGEST_BATCH", 0)
    (bound,), most = found(body, tmp_path)
    assert bound.total is not None
    # for each record of a group that begins, one with another lifetime is counted
    assert bound.total / (24 if "shift" in body else 16) < most["r"] <= bound.total


# Relations whose records can be more than those that they are made of.
CHANGING = [
    "rows valid 20 group k select sum(v) as v",
    "rows valid 9 join few on k = few_k",
    "rows valid 9 join few on v < few_v join few on few_k = few_few_k",
    "rows valid 9 semijoin few on v < few_v",
    "rows valid 9 select v as v minus all few_values",
    "rows valid 9 select v as v minus few_values group select count() as v",
    "rows valid 9 select k as k, v as v unionmax few",
    "rows valid 9 join limits on v < max",
]


@pytest.mark.parametrize("keys", [(), ("v",)])
@pytest.mark.parametrize("steps", CHANGING)
def test_changes_are_no_more(
    steps: str, keys: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows of a time are alike, so that many records begin and end at once."""
    monkeypatch.setattr(bounds, "LARGEST_BATCH", 21)
    (tmp_path / "limits.csv").write_text(LIMITS)
    path = tmp_path / "p.mtl"
    path.write_text(
        "unit s\nassume rate <= 3/s\nrelation few = rows valid 5 select k as k, v as v\n"
        "relation few_values = few select v as v\n"
        'relation limits = table "limits.csv" valid [from, to)\n'
        f"relation r = {steps}\npolicy c{' per v' if keys else ''} on changes of r: true\n"
    )
    file = load_policies([path])
    relations = relations_with_columns(file, SCHEMA)
    ((_, relation),) = relations.of_rows.items()
    assert isinstance(relation, RowRelation)
    changes = relation.changes(keys)
    assert isinstance(changes, ChangeTimes)
    (kept,) = [
        one
        for bound in bounds_of(file, SCHEMA, relations).bounds
        for one in bound.kept
        if one.expression == "changes"
    ]
    random = np.random.default_rng(1)
    most = 0
    for start in range(0, 140, 7):
        stamps = np.sort(np.repeat(np.arange(start, start + 7), 3))
        numbers = np.repeat(random.integers(0, 9, 7), 3)
        cells = {"k": pa.array(numbers > 4).cast(pa.string()), "v": pa.array(numbers)}
        batch = pa.RecordBatch.from_pydict({"ts": stamps, **cells})
        columns = dict(zip(relation.columns, relation.read(batch), strict=True))
        rows = pa.table({"": stamps, " ": stamps + 1, **columns})
        relation.advance(rows, start + 7, start)
        reaching = 0 if relation._reaching is None else relation._reaching.held_bytes
        most = max(most, changes.held_bytes + reaching)
    assert kept.total is not None
    assert most <= kept.total


def names_of(stamps: list[int]) -> Names:
    count = len(stamps)
    zeros = np.zeros(count, np.uint32)
    return Names(np.array(stamps, np.int64), zeros, np.zeros(count, np.uint64))


LATE = [
    "rows where v > 2 valid 20",
    "rows valid 20 group k select sum(v) as v",
    "rows valid until next 30 select k as k, v + 1 as w distinct",
    "rows valid 9 select k as k, v as v union few",
    "rows valid 9 select k as k, v as v minus few",
]


@pytest.mark.parametrize("size", [1, 40])
@pytest.mark.parametrize("steps", LATE)
def test_late_rows_let_relations_keep_no_more(
    steps: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches of any size; a row in five is late, and there are several chunks."""
    monkeypatch.setattr(bounds, "LARGEST_BATCH", 0)
    for module in (late_bounds, revised):
        monkeypatch.setattr(module, "LEAST_SPACING", 128)
    path = tmp_path / "p.mtl"
    path.write_text(
        "unit s\nassume rate <= 3/s\nrelation few = rows valid 5 select k as k, v as v\n"
        f"relation r = {steps}\npolicy p: exists r[k]\n"
    )
    file = load_policies([path])
    lateness = 200
    found = relations_with_columns(file, SCHEMA)
    (kept,) = [
        one
        for bound in bounds_of(file, SCHEMA, found, lateness).bounds
        if bound.kind == "relation"
        for one in bound.kept
        if one.expression == "--lateness"
    ]
    assert kept.total is not None
    (known,) = found.of_rows.values()
    assert isinstance(known, LogRelation)
    environment = file.environment._replace(streams={})
    relation = RevisedRelation(ReadRows(file, "r", known.columns, {}, environment))
    relations = RevisedRelations({"r": relation})
    random = np.random.default_rng(1)
    most = 0
    for start in range(0, 600, size):
        count = 2 * size
        stamps = np.sort(np.repeat(np.arange(start, start + size), 2))
        late = random.random(count) < 0.2
        stamps[late] = np.maximum(0, stamps[late] - random.integers(0, lateness, late.sum()))
        stamps.sort()
        columns = {
            "ts": pa.array(stamps),
            "k": pa.array(["a", "b", "c", None], pa.string()).take(
                pa.array(random.integers(0, 4, count))
            ),
            "v": pa.array(random.integers(0, 9, count)),
        }
        batch = pa.RecordBatch.from_pydict(columns)
        if not start:
            relations.read(batch)
        names = names_of(stamps.tolist())
        rows = Rows(batch, *names, np.zeros((count, 0), np.bool_))
        relations.update(rows, names_of([]), start + size)
        relations.forget(start + size - lateness)
        most = max(most, relations.byte_count)
    assert kept.total / 50 < most <= kept.total


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ("rows valid 9 join few on k = few_k", "any number of records behind join"),
        ("rows valid 9 semijoin few on k = few_k", "any number of records behind semijoin"),
        ("rows valid 9 select k as k, v as v minus all few", "of records behind minus all"),
        ("rows valid until v = 0 per k", "kept until a row ends them have no limit"),
    ],
)
def test_why_late_rows_have_no_limit(steps: str, reason: str) -> None:
    file = parse_policies(
        "unit s\nassume rate <= 3/s\nrelation few = rows valid 5 select k as k, v as v\n"
        f"relation r = {steps}\npolicy p: exists r[k = k]\npolicy c on changes of r: true\n"
    )
    found = bounds_of(file, SCHEMA, relations_with_columns(file, SCHEMA), 20)
    late = [one for bound in found.bounds for one in bound.kept if one.expression == "--lateness"]
    assert late
    assert {one.total for one in late if one.words.endswith(("records", "can concern"))} == {None}
    assert reason in late[0].reason


def test_changes_that_late_rows_can_concern(tmp_path: Path) -> None:
    """Those of a table are known; a row of a relation of rows makes two."""
    (tmp_path / "limits.csv").write_text(LIMITS)
    path = tmp_path / "p.mtl"
    path.write_text(
        'unit s\nassume rate <= 3/s\nrelation t = table "limits.csv" valid [from, to)\n'
        "relation r = rows valid 10\npolicy a on changes of t: count[0,5s]() > 0\n"
        "policy b on changes of r: EVENTUALLY[0,5s] count[0,5s]() > 0\n"
    )
    file = load_policies([path])
    found = bounds_of(file, SCHEMA, relations_with_columns(file, SCHEMA), 50)
    words = [
        one.words
        for bound in found.bounds
        if bound.kind == "policy"
        for one in bound.kept
        if "changes" in one.words
    ]
    # those at 50 and 100, or at 0 and 50; and of the rows of 50 + 5 + 10 seconds
    assert words == [
        "2 changes that late rows can concern",
        f"{2 * 3 * 66} changes that late rows can concern",
    ]


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


FEW = "relation few = rows where v > 3 valid 5 select k as k, v as v\n"
QUERIES = [
    "relation r = rows valid 20 group k select sum(v) as v",
    "relation s = rows valid 9 group k select count() as n\nrelation r = s where n > 2 valid 40",
    "relation r = rows valid until next 30 select k as k, v as v coalesce max 7",
    "relation r = rows valid 20 where v > 3 select k as k, v + 1 as w distinct valid 30 split 4",
    "relation r = rows valid 20 group k select sum(v) as v split 3",
    "relation r = rows valid 90 select k as k, v as v split 1",
    "relation r = rows valid 20 group k select count() as n every 7 group none select count() as n",
    'relation l = table "limits.csv" valid [from, to)\n'
    "relation r = rows valid 9 select k as k, v as v join l on k = l_k and v < max",
    f"{FEW}relation r = rows valid 9 join few on k = few_k",
    f"{FEW}relation r = rows valid 9 join few on v < few_v group k select count() as n valid 4",
    f"{FEW}relation r = rows valid 9 join few on v < few_v select v as v split 2 shift 5",
    f"{FEW}relation r = rows valid 9 select k as k, v as v semijoin few on v < few_v valid 30",
    f"{FEW}relation r = rows valid 9 select k as k, v as v minus all few valid 20 every 9",
    "relation r = rows valid last 5 rows select k as k, v as v",
    f"{FEW}relation r = rows valid last 5 rows join few on v < few_v group k select count() as n",
    "relation r = rows valid 30 select k as k split 2 valid 5 group k select count() as n",
]


@pytest.mark.parametrize("lateness", [None, 40])
@pytest.mark.parametrize("body", QUERIES)
def test_queries_keep_no_more(
    body: str, lateness: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relations of a file without policies are what queries are about."""
    monkeypatch.setattr(bounds, "LARGEST_BATCH", 21)
    (tmp_path / "limits.csv").write_text(LIMITS)
    path = tmp_path / "r.mtl"
    path.write_text(f"unit s\nassume rate <= 3/s\n{body}\n")
    file = load_policies([path], needs_policy=False)
    relations = relations_with_columns(file, SCHEMA)
    own = relations.of_rows["r"]
    assert isinstance(own, RowRelation)
    query = StandingQuery(own.read_rows)
    revisions = None if lateness is None else Revisions(query)
    found = bounds_of(file, SCHEMA, relations, lateness)
    assert [one.name for one in found.bounds] == ["r"]
    assert found.total is not None
    random = np.random.default_rng(1)
    most = 0
    for start in range(0, 300, 7):
        stamps = np.sort(np.repeat(np.arange(start, start + 7), 3))
        cells = {
            "k": pa.array(["a", "b", "c", None], pa.string()).take(
                pa.array(random.integers(0, 4, len(stamps)))
            ),
            "v": pa.array(random.integers(0, 9, len(stamps))),
        }
        batch = pa.RecordBatch.from_pydict({"ts": stamps, **cells}).select(query.columns)
        query.read(batch)
        rows = unnamed_rows(stamps, batch)
        if revisions is None or lateness is None:
            query.settle(rows, start + 7)
        else:
            revisions.update(rows, NO_NAMES, max(0, start + 7 - lateness), start + 7)
        held = query.query.held_bytes + (0 if revisions is None else revisions.byte_count)
        most = max(most, held)
    # any two rows may be a pair, and each may begin in a batch
    assert found.total / (20000 if " join " in body else 1000) < most <= found.total


@settings(max_examples=40 if settings().max_examples <= 200 else settings().max_examples)
@given(texts.files(), texts.records_of_limits(), st.randoms(use_true_random=False), st.data())
def test_random_queries_keep_no_more(
    declared: list[texts.Declared], limits: list[Any], random: Random, data: Any
) -> None:
    """Two rows for each unit of time, of which many are alike."""
    lateness = data.draw(st.sampled_from([None, 0, 7]))
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "LARGEST_BATCH", 6)
        path = write(Path(folder), declared, limits, "assume rate <= 2/s")
        file = load_policies([path], needs_policy=False)
        schema = pa.schema({name: texts.TYPES[kind] for name, kind in texts.LOG.items()})
        try:
            relations = relations_with_columns(file, schema)
        except MtlmonError:
            # two limits with one key
            return
        bound = next(
            one
            for one in bounds_of(file, schema, relations, lateness).bounds
            if one.name == declared[-1].name
        )
        own = relations.of_rows.get(declared[-1].name)
        event("a table" if own is None else "no limit" if bound.total is None else "a limit")
        if own is None or bound.total is None:
            return
        assert isinstance(own, RowRelation)
        query = StandingQuery(own.read_rows)
    revisions = None if lateness is None else Revisions(query, 2)
    kinds = [data.draw(texts.rows_of_log()) for _ in range(2)]
    known = [row[1:] for some in kinds for row in some] or [(1, 1, 0.5, "a", True)]
    most = 0
    for start in range(0, 60, 3):
        stamps = np.repeat(np.arange(start, start + 3), 2)
        cells = [random.choice(known) for _ in stamps]
        columns = [pa.array(stamps)] + [
            pa.array([row[place] for row in cells], field.type)
            for place, field in enumerate(list(schema)[1:])
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema).select(query.columns)
        query.read(batch)
        rows = unnamed_rows(stamps, batch)
        try:
            if revisions is None or lateness is None:
                query.settle(rows, start + 2)
            else:
                revisions.update(rows, NO_NAMES, max(0, start + 2 - lateness), start + 2)
        except MtlmonError:
            # a sum of integers is too large
            return
        held = query.query.held_bytes + (0 if revisions is None else revisions.byte_count)
        most = max(most, held)
    assert most <= bound.total, (most, bound)


def test_few_rows_have_many_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is final is not kept until many rows have come."""
    monkeypatch.setattr(bounds, "LARGEST_BATCH", 1)
    path = tmp_path / "r.mtl"
    path.write_text("unit s\nassume rate <= 4/h\nrelation r = rows valid 9000 split 1\n")
    file = load_policies([path], needs_policy=False)
    relations = relations_with_columns(file, SCHEMA)
    own = relations.of_rows["r"]
    assert isinstance(own, RowRelation)
    query = StandingQuery(own.read_rows)
    revisions = Revisions(query)
    (kept,) = [
        one
        for one in bounds_of(file, SCHEMA, relations, 10).bounds[0].kept
        if one.expression == "--lateness"
    ]
    for start in range(0, 20_000, 1000):
        stamps = np.array([start])
        batch = pa.RecordBatch.from_pydict({"ts": stamps, "k": ["a"], "v": [1]})
        query.read(batch)
        revisions.update(unnamed_rows(stamps, batch), NO_NAMES, max(0, start - 10), start)
        assert kept.total is not None
        assert revisions.byte_count <= kept.total


GROUPED = "assume rate <= 3/s\nrelation r = rows valid 20 group k select max(v) as v"


def test_queries_without_limit(tmp_path: Path) -> None:
    path = tmp_path / "r.mtl"
    for body, hint in (
        ("assume rate <= 3/s\nrelation r = rows valid until v = 0 per k select k as k", "valid 1d"),
        ("relation r = rows valid 5 group k select count() as n valid 3", "assume rate"),
        ("assume rate <= 3/s\nrelation r = rows valid last 5 rows per k", "valid 1d"),
        # records wait for one that equal ones make longer and longer
        (f"{GROUPED} where end() - start() > 3", "nothing limits how long these are valid"),
        (f"{GROUPED} shift -4", "nothing limits how long these are valid"),
    ):
        path.write_text(f"unit s\n{body}\n")
        file = load_policies([path], needs_policy=False)
        found = bounds_of(file, SCHEMA, relations_with_columns(file, SCHEMA))
        assert found.total is None
        assert any(hint in kept.reason for bound in found.bounds for kept in bound.kept)
