"""Queries while the log is read, against the same relations on what has come so far."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon.policy import parse_policies
from tests.doors import (
    NO_END,
    NOTHING,
    ArrivedRows,
    Corrections,
    Plans,
    ReadRows,
    Records,
    Revision,
    Revisions,
    StandingQuery,
    declared_tables,
    evaluate,
    table_columns,
    table_name,
    unnamed_rows,
    used_relations,
)
from tests.doors import Rows as DeclaredRows
from tests.reference import relations as reference
from tests.reference.revisions import Folded
from tests.relations import texts
from tests.relations.programs import found, shown
from tests.relations.test_texts import table_of_limits, tables_of
from tests.relations.texts import LOG, TYPES, Declared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LogRows = list[tuple[Any, ...]]

SCHEMA = pa.schema({name: TYPES[kind] for name, kind in LOG.items()})
INSERT, RETRACT = 0, 1
EXAMPLES = 60 if settings().max_examples <= 200 else settings().max_examples


def query_of(declared: list[Declared], limits: LogRows) -> StandingQuery:
    """The last relation, to be evaluated while rows come."""
    text = "\n".join(["unit s", *(one.line for one in declared), ""])
    file = parse_policies(text, needs_policy=False)
    name = declared[-1].name
    tables = {}
    whole = table_of_limits(limits)
    for source in declared_tables(file, name):
        rest = whole.drop_columns(["begins", source.end])
        columns = [whole["begins"], whole[source.end], *rest.columns]
        tables[table_name(file, source)] = pa.table(columns, names=["", " ", *rest.column_names])
    return StandingQuery(ReadRows(file, name, list(LOG), tables, NOTHING))


def read(query: StandingQuery, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Let a query get to know rows; return their columns."""
    columns = [
        pa.array([row[place] for row in rows], field.type) for place, field in enumerate(SCHEMA)
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    query.read(batch)
    return batch


def answer(
    declared: list[Declared], rows: LogRows, limits: LogRows, begun: float = inf
) -> list[Any]:
    records = reference.answer(declared[-1].node, tables_of(declared, rows, limits), begun)
    return [(start, end, shown(row)) for start, end, row in records]


@settings(max_examples=EXAMPLES)
@given(
    texts.files(),
    st.lists(texts.rows_of_log(), min_size=1, max_size=3),
    texts.records_of_limits(),
    st.data(),
)
def test_records_are_told_once_they_are_final(
    declared: list[Declared], parts: list[LogRows], limits: LogRows, data: Any
) -> None:
    """The rows so far, and others at any later time, have the records that were told."""
    assume("rows" in uses(declared))
    rows = sorted((row for part in parts for row in part), key=lambda row: row[0])
    query = query_of(declared, limits)
    told: list[Any] = []
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    first = 0
    for last in [*cuts, len(rows)]:
        some, first = rows[first:last], last
        inputs = read(query, some)
        watermark = some[-1][0] if some else query.query.watermark
        records = query.settle(named(some, inputs), watermark)
        told += listed(records)
        whole = answer(declared, [row for row in rows if row[0] <= watermark], limits)
        assert all(one in whole for one in told)
    end = data.draw(st.one_of(st.just(inf), st.integers(watermark, watermark + 9)))
    told += listed(query.finish(None, NO_END if end == inf else int(end)))
    wanted = reference.up_to(answer(declared, rows, limits, end), end)
    assert sorted(told, key=str) == sorted(wanted, key=str)
    assert told == sorted(told, key=lambda one: (inf if one[1] is None else one[1], one[0]))


@settings(max_examples=2 * EXAMPLES)
@given(texts.files(), texts.rows_of_log(), texts.records_of_limits(), st.data())
def test_revisions(declared: list[Declared], rows: LogRows, limits: LogRows, data: Any) -> None:
    """Rows come in any order, some are taken back, before or after they come; at any moment, the
    revisions so far are the records of the rows that count then, as far as they have begun."""
    assume("rows" in uses(declared))
    query = query_of(declared, limits)
    # nothing is too late for the first one
    lateness = data.draw(st.sampled_from([20, 0, 2]))
    arrived = ArrivedRows(lateness=lateness, wait=0, equality=False)
    revisions = Revisions(query, data.draw(st.sampled_from([0, 2, 64])))
    known = Folded()
    events = [(INSERT, number) for number in range(len(rows))]
    if rows and lateness == 20:
        numbers = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True))
        events += [(RETRACT, number) for number in numbers]
    events = data.draw(st.permutations(events))
    counting: dict[int, tuple[Any, ...]] = {}
    gone: set[int] = set()
    latest = 0
    while events:
        size = data.draw(st.integers(1, 4))
        batch, events = events[:size], events[size:]
        inputs = read(query, [rows[number] for _, number in batch])
        corrections = Corrections(
            np.array([kind for kind, _ in batch], np.uint8), [str(number) for _, number in batch]
        )
        refused, found = arrived.push(inputs.column(0).to_numpy(), inputs, corrections)
        for place, (kind, number) in enumerate(batch):
            time = rows[number][0]
            latest = max(latest, time if kind == INSERT else 0)
            assert (place in refused.tolist()) == (latest - time > lateness)
            if kind == RETRACT:
                gone.add(number)
                counting.pop(number, None)
            elif number not in gone and latest - time <= lateness:
                counting[number] = rows[number]
        assert found.now == latest
        revision = revisions.update(found.rows, found.removed, found.bound, found.now)
        assert revision is not None
        known.take(revised(revision))
        if data.draw(st.integers(0, 3)) == 0:
            query, revisions = saved(query, revisions, declared, limits)
        present = sorted(counting.values(), key=lambda row: row[0])
        whole = answer(declared, present, limits, latest)
        assert known.records() == sorted((one for one in whole if one[0] <= latest), key=str)
    at_end = arrived.end(None)
    end = data.draw(st.one_of(st.just(inf), st.integers(latest, latest + 9)))
    until = NO_END if end == inf else int(end)
    last = revisions.update(at_end.rows, at_end.removed, NO_END, until)
    if last is not None:
        known.take(revised(last))
        present = sorted(counting.values(), key=lambda row: row[0])
        wanted = reference.up_to(answer(declared, present, limits, end), end)
        assert known.records() == sorted(wanted, key=str)


def uses(declared: list[Declared]) -> str:
    """The texts of the relations that the last one is made of."""
    file = parse_policies("\n".join(one.line for one in declared), unit="s", needs_policy=False)
    return " ".join(
        "rows" if isinstance(one.source, DeclaredRows) else ""
        for one in used_relations(file, declared[-1].name)
    )


def named(rows: Sequence[tuple[Any, ...]], inputs: pa.RecordBatch) -> Any:
    return unnamed_rows(np.array([row[0] for row in rows], np.int64), inputs)


def listed(records: Records) -> list[Any]:
    """The records in their order."""
    return found(pa.Table.from_batches([table_columns(records)]))


def revised(revision: Revision) -> Iterator[tuple[str, Any, int | None]]:
    """The revisions as the reference takes them."""
    words = ("insert", "update", "delete")
    for record, kind, old in zip(
        ((start, end, row) for start, end, row in listed(revision.records)),
        revision.operations.tolist(),
        revision.old_ends.tolist(),
        strict=True,
    ):
        yield words[kind], record, None if old == NO_END else old


def saved(
    query: StandingQuery, revisions: Revisions, declared: list[Declared], limits: LogRows
) -> tuple[StandingQuery, Revisions]:
    """The same, from snapshots."""
    of_query, of_revisions = query.snapshot(), revisions.snapshot()
    again = query_of(declared, limits)
    again.restore(*of_query)
    found = Revisions(again, revisions._spare)
    found.restore(of_revisions)
    return again, found


OPEN = """\
unit s
relation open   = rows valid until v = 0 per k where v > 0 select k as k
relation pieces = open split 3
relation cut    = open coalesce max 4
relation counts = open group select count() as n split 2
relation more   = open coalesce max 4 valid 3
relation before = open split 3 shift -2 group select count() as n
relation others = open split 2 where start() > 4
"""


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(["pieces", "cut", "counts", "more", "before", "others"]),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1), st.integers(0, 2)), max_size=7),
    st.integers(0, 20),
    st.data(),
)
def test_what_goes_on_is_cut(
    name: str, found_rows: list[tuple[int, int, int]], lateness: int, data: Any
) -> None:
    """Pieces of a record without end come as they begin, or as they end if rows are in order."""
    file = parse_policies(OPEN, needs_policy=False)
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64(), "v": pa.int64()})
    node = Plans(file, {"rows": schema}, NOTHING).of(name)
    query = StandingQuery(ReadRows(file, name, list(schema.names), {}, NOTHING))
    arrived, revisions, known = (
        ArrivedRows(lateness=lateness, wait=0, equality=False),
        Revisions(query, data.draw(st.sampled_from([0, 2, 64]))),
        Folded(),
    )
    admitted: list[tuple[int, int, int]] = []
    latest = 0
    while found_rows:
        size = data.draw(st.integers(1, 3))
        some, found_rows = found_rows[:size], found_rows[size:]
        batch = pa.RecordBatch.from_arrays(
            [pa.array([row[place] for row in some], pa.int64()) for place in range(3)],
            schema=schema,
        )
        query.read(batch)
        for row in some:
            latest = max(latest, row[0])
            if latest - row[0] <= lateness:
                admitted.append(row)
        _, come = arrived.push(np.array([row[0] for row in some], np.int64), batch, None)
        revision = revisions.update(come.rows, come.removed, come.bound, come.now)
        assert revision is not None
        known.take(revised(revision))
        in_order = [(one[0], one[0] + 1, one) for one in sorted(admitted, key=lambda one: one[0])]
        tables = {"rows": reference.relation(schema.names, in_order)}
        whole = reference.answer(node, tables, latest)
        wanted = [(start, end, shown(row)) for start, end, row in whole if start <= latest]
        # pieces that are put together end where nobody has asked for more of them
        until = latest if name in {"before", "others"} else inf
        said = reference.up_to(known.records(), until)
        assert sorted(said, key=str) == sorted(reference.up_to(wanted, until), key=str)
    if not admitted:
        return
    # at the end, pieces are those up to there
    last = latest + data.draw(st.integers(0, 9))
    at_end = arrived.end(last)
    revision = revisions.update(at_end.rows, at_end.removed, NO_END, last)
    assert revision is not None
    known.take(revised(revision))
    whole = reference.up_to(reference.answer(node, tables, last), last)
    wanted = [(start, end, shown(row)) for start, end, row in whole]
    assert known.records() == sorted(wanted, key=str)
    ordered = sorted(admitted, key=lambda one: one[0])
    columns = [pa.array([row[place] for row in ordered], pa.int64()) for place in range(3)]
    rows = pa.table([columns[0], pc.add(columns[0], 1), *columns], ["", " ", *schema.names])
    assert found(evaluate(node, {"rows": rows}, end=last)) == wanted
