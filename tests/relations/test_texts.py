"""Whole files of relations against the bags that they mean at every instant."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise, product
from math import inf, isnan
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mtlmon
from mtlmon.errors import MtlmonError, TableError
from mtlmon.policy import load_policies, parse_policies
from mtlmon.tables import open_tables
from tests.doors import NOTHING, Plans, Query, Source, main, nodes
from tests.reference import relations as reference
from tests.relations import texts
from tests.relations.programs import found, shown, table_of
from tests.relations.texts import LIMITS, LOG, ROWS, TABLE, TYPES, Declared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Rows = list[tuple[Any, ...]]

SCHEMA = pa.schema({name: TYPES[kind] for name, kind in LOG.items()})

# few of them, unless somebody hunts
EXAMPLES = 60 if settings().max_examples <= 200 else settings().max_examples


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory, where relations that Python builds find their tables."""
    path = tmp_path_factory.mktemp("relations")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        yield path


def log_of(rows: Rows) -> pa.Table:
    """The log, as a table."""
    columns = [
        pa.array(list(one), field.type)
        for one, field in zip(_columns(rows, len(SCHEMA)), SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _columns(rows: Rows, width: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width


def write(folder: Path, declared: list[Declared], limits: Rows, more: str = "") -> Path:
    """Write the policy file and the table that it names."""
    pq.write_table(table_of_limits(limits), folder / TABLE)
    path = folder / "rules.mtl"
    path.write_text("\n".join(["unit s", *(one.line for one in declared), more, ""]))
    return path


def table_of_limits(limits: Rows) -> pa.Table:
    columns = _columns(limits, 1 + len(LIMITS))
    types = [pa.int64(), *(TYPES[kind] for kind in LIMITS.values())]
    arrays = [pa.array(list(one), kind) for one, kind in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=["begins", *LIMITS])


def records_by(limits: Rows, end: str) -> list[tuple[int, float, tuple[Any, ...]]]:
    """The records of limits that end as one of their columns says."""
    place = 1 + list(LIMITS).index(end)
    return [
        (row[0], inf if row[place] is None else row[place], (*row[1:place], *row[place + 1 :]))
        for row in limits
    ]


def tables_of(declared: list[Declared], rows: Rows, limits: Rows) -> dict[str, reference.Relation]:
    tables = {ROWS: reference.relation(list(LOG), [(row[0], row[0] + 1, row) for row in rows])}
    for name, end in ends_of(declared).items():
        names = [column for column in LIMITS if column != end]
        tables[name] = reference.relation(names, records_by(limits, end))
    return tables


def ends_of(declared: list[Declared]) -> dict[str, str]:
    """The columns of the ends of tables, by the names of these in plans."""
    return {
        texts.source_name(end, declared): end
        for one in declared
        for end in texts.ENDS
        if one.text.startswith(f'table "{TABLE}" valid [begins, {end})')
    }


def has_overlaps(declared: list[Declared], limits: Rows) -> bool:
    """Whether two limits are valid at the same time that have the same declared key."""
    for one in declared:
        for end, key in product(texts.ENDS, ("k, t", "k")):
            start = f'table "{TABLE}" valid [begins, {end}) key {key}'
            rest = one.text.removeprefix(start)
            if rest == one.text or rest.startswith(", t"):
                continue
            places = [list(LIMITS).index(name) - 1 for name in key.split(", ")]
            for (first, last, row), (begin, until, other) in combinations(
                records_by(limits, end), 2
            ):
                if first < until and begin < last and all(row[at] == other[at] for at in places):
                    return True
    return False


def uses(declared: list[Declared], name: str) -> list[Declared]:
    """The relations that one is made of, with itself."""
    by_name = {one.name: one for one in declared}
    file = parse_policies("\n".join(one.line for one in declared), unit="s", needs_policy=False)
    wanted = [name]
    for one in wanted:
        wanted += [other for other, _ in file.intervals[one].others if other not in wanted]
    return [by_name[one] for one in wanted]


def expected(declared: list[Declared], rows: Rows, limits: Rows) -> list[Any]:
    """The records of the last relation."""
    answer = reference.answer(declared[-1].node, tables_of(declared, rows, limits))
    return [(start, end, shown(row)) for start, end, row in answer]


@settings(max_examples=EXAMPLES)
@given(texts.files(), texts.rows_of_log(), texts.records_of_limits(), st.integers(0, 7))
def test_whole_tables(
    folder: Path, declared: list[Declared], rows: Rows, limits: Rows, way: int
) -> None:
    """Through a file, through Python's builder, and now and then through the command."""
    path = write(folder, declared, limits)
    one = declared[-1]
    log = log_of(rows)
    if has_overlaps(uses(declared, one.name), limits):
        with pytest.raises(TableError, match="the key says that there is at most one"):
            mtlmon.query(path, one.name, log)
        with pytest.raises(TableError, match="the key says that there is at most one"):
            mtlmon.query(one.built, log, resolution="s")
        return
    wanted = expected(declared, rows, limits)
    table = mtlmon.query(path, one.name, log)
    assert table.column_names == ["start", "end", *(column.name for column in one.columns)]
    assert found(table) == wanted
    assert found(mtlmon.query(one.built, log, resolution="s")) == wanted
    if way == 0:
        pq.write_table(log, folder / "log.parquet")
        target = str(folder / "found.parquet")
        output = ("--output-format", "parquet", "-o", target)
        assert main(["query", *output, str(path), one.name, str(folder / "log.parquet")]) == 0
        assert found(pq.read_table(target)) == wanted


@settings(max_examples=EXAMPLES)
@given(
    texts.files(),
    st.permutations(range(7)),
    texts.rows_of_log(),
    texts.records_of_limits(),
    st.sampled_from(["given", "a path", "beside a log"]),
)
def test_rows_of_other_tables(
    folder: Path, declared: list[Declared], order: list[int], rows: Rows, limits: Rows, way: str
) -> None:
    """The rows of a table have the same relations as those of the log, in whatever order."""
    name = declared[-1].name
    assume(not has_overlaps(uses(declared, name), limits))
    assume(any(one.text.startswith("rows") for one in declared))
    source = 'rows of "other.parquet" time ts' if way == "a path" else "rows of other time ts"
    lines = [one.line.replace("= rows", f"= {source}") for one in declared]
    changed = [
        replace(one, text=line.partition(" = ")[2])
        for one, line in zip(declared, lines, strict=True)
    ]
    path = write(folder, changed, limits)
    table = log_of([rows[place] for place in order if place < len(rows)])
    wanted = expected(declared, rows, limits)
    if way == "a path":
        pq.write_table(table, folder / "other.parquet")
        assert found(mtlmon.query(path, name)) == wanted
        return
    log = log_of([]) if way == "beside a log" else None
    tables = {"other": table} | ({} if log is None else {"rows": log})
    assert found(mtlmon.query(path, name, tables)) == wanted


@settings(max_examples=EXAMPLES)
@given(
    texts.files(),
    texts.rows_of_log(),
    texts.records_of_limits(),
    st.lists(st.integers(0, 14), max_size=3).map(sorted),
)
def test_batches(declared: list[Declared], rows: Rows, limits: Rows, marks: list[int]) -> None:
    """Rows come up to some watermarks, and limits with the first of them."""
    one = declared[-1]
    query = _query(declared, one)
    tables = _tables(declared, rows, limits)
    answers = []
    for start, end in pairwise([-1, *marks, 2**40]):
        times = tables[ROWS].column(0).to_numpy()
        batch = dict(tables) if start < 0 else {}
        batch[ROWS] = tables[ROWS].filter((times >= start) & (times < end))
        answers.append(query.push({name: batch[name] for name in batch if name in _read(one)}, end))
    answers.append(query.finish())
    assert found(pa.concat_tables(answers)) == expected(declared, rows, limits)


def _query(declared: list[Declared], one: Declared, *, waits: bool = True) -> Query:
    lines = "\n".join(other.line for other in declared)
    file = parse_policies(lines, unit="s", needs_policy=False)
    tables = _tables(declared, [], [])
    schemas = {name: pa.schema(list(table.schema)[2:]) for name, table in tables.items()}
    plan = Plans(file, schemas, NOTHING).of(one.name)
    assert plan == one.node
    try:
        return Query(plan, {name: schemas[name] for name in _read(one)}, waits=waits)
    except MtlmonError as error:
        assert not waits and "evaluate the whole table" in str(error)
    assume(False)
    raise AssertionError


def _read(one: Declared) -> set[str]:
    """The tables that a relation reads."""
    return {node.name for node in nodes(one.node) if isinstance(node, Source)}


def _tables(declared: list[Declared], rows: Rows, limits: Rows) -> dict[str, pa.Table]:
    log = log_of(rows)
    ends = pa.array([row[0] + 1 for row in rows], pa.int64())
    tables = {
        ROWS: pa.Table.from_arrays([log["ts"], ends, *log.columns], names=["from", "to", *LOG])
    }
    for name, end in ends_of(declared).items():
        schema = pa.schema({one: TYPES[kind] for one, kind in LIMITS.items() if one != end})
        tables[name] = table_of(records_by(limits, end), schema)
    return tables


@settings(max_examples=EXAMPLES)
@given(
    texts.files(),
    texts.rows_of_log(),
    texts.records_of_limits(),
    st.lists(st.integers(0, 7), max_size=2),
    st.data(),
)
def test_look_ups(
    folder: Path,
    declared: list[Declared],
    rows: Rows,
    limits: Rows,
    cuts: list[int],
    data: st.DataObject,
) -> None:
    """Values and whether there are records at each row's time, and when relations change."""
    one = declared[-1]
    if any(name == ROWS for name in _read(one)):
        _query(declared, one, waits=False)
    pairs = [
        (column, name)
        for column in one.columns
        for name, kind in LOG.items()
        if kind == column.type
    ]
    keys = data.draw(st.lists(st.sampled_from(pairs), max_size=2, unique_by=lambda pair: pair[0]))
    wanted = data.draw(st.sampled_from(one.columns))
    by = ", ".join(f"{column.name} = {name}" for column, name in keys)
    more = (
        f"stream there = exists {one.name}[{by}]\nstream value = {one.name}[{by}].{wanted.name}\n"
        f"policy changes on changes of {one.name}: exists {one.name}[]"
    )
    assume(not has_overlaps(uses(declared, one.name), limits))
    path = write(folder, declared, limits, more)
    bag = reference.evaluate(one.node, tables_of(declared, rows, limits))
    places = [(bag.names.index(column.name), list(LOG).index(name)) for column, name in keys]
    valid = [
        [
            row
            for row in bag.snapshot(own[0]).elements()
            if all(is_equal(row[place], own[other]) for place, other in places)
        ]
        for own in rows
    ]
    log = log_of(rows)
    cut = [0, *sorted(min(place, len(rows)) for place in cuts), len(rows)]
    batches = [
        batch
        for start, end in pairwise(cut)
        for batch in log.slice(start, end - start).to_batches()
    ]
    is_there = _stream(path, "there", batches)
    assert is_there == [bool(found) for found in valid]
    if any(len(found) > 1 for found in valid):
        with pytest.raises(MtlmonError, match="several records of"):
            _stream(path, "value", batches)
    else:
        place = bag.names.index(wanted.name)
        values = [found[0][place] if found else None for found in valid]
        assert shown(_stream(path, "value", batches)) == shown(values)
    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches)
    ticks = [
        (row["time"], row["verdict"])
        for batch in mtlmon.check(load_policies([path]), reader).batches()
        for row in batch.to_pylist()
    ]
    times = [
        time for time in reference.change_times(bag) if rows and rows[0][0] <= time < rows[-1][0]
    ]
    assert ticks == [(time, bool(bag.snapshot(time))) for time in times]


def is_equal(one: Any, other: Any) -> bool:
    """Whether two cells are equal, where null and NaN equal nothing."""
    return one is not None and not (isinstance(one, float) and isnan(one)) and one == other


def _stream(path: Path, name: str, batches: list[pa.RecordBatch]) -> list[Any]:
    """The values of a stream at rows."""
    file = load_policies([path])
    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches)
    options: dict[str, Any] = {"atoms_of_partitions": [{0: ()}], "streams": [name]}
    values: list[Any] = []
    with open_tables(reader, (), policies=file, **options) as tables:
        for batch in tables:
            assert batch.values is not None
            values += batch.values.columns[name].to_pylist()
    return values
