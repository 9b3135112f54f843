"""Relations of the log's own rows in which expressions look values up.

Such a relation is a `Query` that is advanced batch by batch. Rows are held back until their time
has passed, before streams see them (`tables/row_relations`), so an expression that reads it counts
as depending on other rows. Checkpoints need not contain the rows that wait, because such a resumed
run reads the log from its beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError, PolicyError, RowError
from mtlmon.policy.predicates.expression import TypedColumn, column_of_schema
from mtlmon.policy.predicates.numbers import as_before
from mtlmon.policy.predicates.printer import column_text
from mtlmon.relations.bounds import (
    KeptChanges,
    KeptRecords,
    SaidRecords,
    kept_changes,
    kept_records,
    said_records,
)
from mtlmon.relations.changing import ChangeTimes
from mtlmon.relations.declared import ROWS, Plans
from mtlmon.relations.incremental import Query
from mtlmon.relations.looking_up import FIRST, KnownRelation
from mtlmon.relations.records import (
    NO_END,
    Records,
    canonical_schema,
    records_as_bytes,
    records_of_bytes,
    table_as_bytes,
    table_of_bytes,
    typed,
    whole,
)
from mtlmon.support.snapshot_parts import joined_parts, split_parts
from mtlmon.syntax.report import formula_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.errors import FormulaError
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.environment import Environment

__all__ = ["LogRelation", "ReadRows", "RowRelation", "as_table", "said_as_bytes"]


class ReadRows(NamedTuple):
    """How a relation reads the rows of the log.

    Attributes:
        file: the file that declares it.
        name: its name there.
        columns: the columns of the log that it reads.
        tables: the records of the tables that it reads, by path.
        environment: the time column, the units and the zone.
    """

    file: PolicyFile
    name: str
    columns: Sequence[str]
    tables: Mapping[str, pa.Table]
    environment: Environment


class LogRelation(KnownRelation):
    """A relation that reads the rows of the log.

    Args:
        read: how it does.

    Attributes:
        situation: what happens while the log is read, in words.
        waits: whether its records may come late, when their ends are known.
    """

    situation = "is looked up while the log is read"
    waits = False

    def __init__(self, read: ReadRows) -> None:
        file, name, columns, tables, environment = read
        super().__init__(pa.table({"": pa.array([], pa.int64()), " ": pa.array([], pa.int64())}))
        self.columns = tuple(columns)
        # as rows have them, once these are read
        self.read_columns = tuple(columns)
        types = file.row_types
        self.typed_columns = tuple(
            TypedColumn(name, types[name]) if name in types else name for name in columns
        )
        self.file = file
        self.name = name
        # None once the query has them
        self._tables: Mapping[str, pa.Table] | None = tables
        self._schemas = {path: pa.schema(list(one.schema)[2:]) for path, one in tables.items()}
        self._environment = environment
        self._query: Query | None = None
        self._types: pa.Schema | None = None

    @property
    def read_rows(self) -> ReadRows:
        """How it reads rows, for another relation; it must not have taken in any."""
        assert self._tables is not None
        return ReadRows(self.file, self.name, self.columns, self._tables, self._environment)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that records and rows take."""
        of_query = 0 if self._query is None else self._query.held_bytes
        of_tables: int = sum(one.nbytes for one in (self._tables or {}).values())
        return super().held_bytes + of_query + of_tables

    @property
    def kept(self) -> list[KeptRecords]:
        """What is kept between batches, once columns are known."""
        assert self._query is not None
        return kept_records(self._query.kept, self._sizes)

    @property
    def kept_changes(self) -> list[KeptChanges]:
        """What is kept of its changes, for each choice of keys, once columns are known."""
        assert self._query is not None
        return [kept_changes(*self._query.result, keys, self._sizes) for keys in self._changes]

    @property
    def kept_answer(self) -> KeptChanges:
        """What its records are made of that go on at one time, once columns are known."""
        assert self._query is not None
        return kept_changes(*self._query.result, (), self._sizes)

    @property
    def _sizes(self) -> dict[str, int]:
        """The number of records of each table."""
        tables = {} if self._tables is None else self._tables
        return {path: table.num_rows for path, table in tables.items()}

    @property
    def query(self) -> Query:
        """What evaluates it, once columns are known."""
        assert self._query is not None
        return self._query

    @property
    def is_known(self) -> bool:
        """Whether columns are known."""
        return self._query is not None

    @property
    def extent(self) -> SaidRecords:
        """What it has over some time, once columns are known."""
        assert self._query is not None
        return said_records(self._query.result[0], self._sizes)

    @property
    def schemas(self) -> tuple[pa.Schema, pa.Schema]:
        """The columns of the log that it reads, and its own, once they are known."""
        assert self._query is not None
        assert self._types is not None
        return self._types, self._query.result[1]

    def read(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of rows that it reads, and find its own columns by the first ones.

        Raises:
            PolicyError: it does not fit the columns of the log.
            MtlmonError: a column has another type than before.
        """
        schema = batch.schema
        self.read_columns = tuple(column_of_schema(schema, name) for name in self.typed_columns)
        found = [batch.column(schema.get_field_index(name)) for name in self.read_columns]
        fields = [(name, one.type) for name, one in zip(self.columns, found, strict=True)]
        types = canonical_schema(pa.schema(fields))
        if self._types is None or not self._types.equals(types):
            found = self._with_known_types(found, types)
        return found

    def _with_known_types(self, found: list[pa.Array], types: pa.Schema) -> list[pa.Array]:
        """Give columns the types that they had before, or get to know theirs."""
        known = self._types
        if known is not None:
            found = list(map(as_before, found, known.types))
            types = pa.schema([(one.name, now.type) for one, now in zip(types, found, strict=True)])
        if known is not None and known.equals(types):
            return found
        schemas = {ROWS: types, **self._schemas}
        plans = Plans(self.file, schemas, self._environment)
        try:
            if self._query is None:
                node = plans.of(self.name)
                self._query = Query(node, schemas, self._environment, waits=self.waits)
            else:
                self._query = self._query.widened(schemas)
        except PolicyError:
            raise
        except MtlmonError as error:
            raise self._refused(str(error), _declaration(known, types)) from None
        schema = plans.schema(self.name)
        empty = [pa.array([], pa.int64())] * 2 + [pa.array([], one) for one in schema.types]
        self.know(pa.Table.from_arrays(empty, names=["", " ", *schema.names]))
        self._types = types
        return found

    def _advanced(self, query: Query, rows: pa.Table | None, watermark: int) -> Records:
        """Let the query take in rows; return what is valid from the last watermark on.

        Raises:
            MtlmonError: integers overflow in an expression of the relation.
        """
        return self.taken_in(rows, lambda tables: query.advance(tables, watermark))

    def taken_in(
        self, rows: pa.Table | None, take: Callable[[Mapping[str, pa.Table]], Records]
    ) -> Records:
        """Let the query take in rows, and the records of tables with the first ones.

        Args:
            rows: the rows; None for none.
            take: is given all tables.

        Raises:
            MtlmonError: integers overflow in an expression of the relation.
        """
        tables: dict[str, pa.Table] = {}
        if self._tables is not None:
            tables |= self._tables
        if rows is not None:
            tables[ROWS] = rows
        try:
            found = take(tables)
        except RowError as error:
            raise MtlmonError(f"relation {self.name}: {error.reason}") from None
        except PolicyError:
            raise
        except MtlmonError as error:
            raise MtlmonError(f"relation {self.name}: {error}") from None
        self._tables = None
        return found

    def _know_tables(self) -> Query:
        """Let the query have the records of tables, so that its state is all that matters."""
        assert self._query is not None
        if self._tables is not None:
            self._advanced(self._query, None, FIRST)
        return self._query

    def _refused(self, message: str, hint: str | None = None) -> FormulaError:
        place = self.file.intervals[self.name].place
        return formula_error(
            self.file.text,
            place,
            f"relation {self.name} {self.situation}: {message}",
            source=self.file.source,
            hint=hint,
            kind=PolicyError,
        )


class RowRelation(LogRelation):
    """A relation that reads the rows of the log, as far as the log's time has passed.

    Args:
        read: how it does.
    """

    def __init__(self, read: ReadRows) -> None:
        super().__init__(read)
        # what is valid at the times at which something is looked up
        self._records: list[Records] = []
        # what reaches the last watermark
        self._reaching: Records | None = None

    @property
    def held_bytes(self) -> int:
        """The number of bytes that records and rows take."""
        held = super().held_bytes
        return held + (0 if self._reaching is None else as_table(self._reaching).nbytes)

    def changes(self, keys: Sequence[str]) -> ChangeTimes:
        """Return the times at which it changes, as far as the log's time has passed.

        Those that have passed before the first call are not among them.
        """
        return self._changes.setdefault(tuple(keys), ChangeTimes(keys))

    @property
    def watched(self) -> list[tuple[str, ...]]:
        """The keys for which changes are told, in the order in which `notify` takes them."""
        return list(self._changes)

    def advance(self, rows: pa.Table | None, watermark: int, since: float) -> None:
        """Take in rows, and look up at the times up to a watermark from now on.

        Args:
            rows: more rows; those that are not below the watermark wait for the next one.
            watermark: all rows below it are known, and none of its time or later need be.
            since: nothing is looked up below this time any more, apart from the watermark before.

        Raises:
            MtlmonError: integers overflow in an expression of the relation.
        """
        query = self._query
        if query is None:
            return
        start = query.watermark
        found = self._advanced(query, rows, watermark)
        for changes in self._changes.values():
            changes.forget(since)
            changes.add(found, start, watermark, self._reaching)
        if self._changes:
            self._reaching = found.taken(np.flatnonzero(found.ends == watermark))
        before = (one.taken(np.flatnonzero(one.ends > since)) for one in self._records)
        self._say([*(one for one in before if len(one)), found])

    def said(self) -> bytes:
        """Return what is known since the last watermark, for `notify`: records, and changes."""
        changes = [one.between(FIRST, NO_END) for one in self._changes.values()]
        return said_as_bytes(self._table, changes)

    def notify(self, content: bytes) -> None:
        """Say what another one has said with the same columns, and nothing else.

        Args:
            content: what `said_as_bytes` has returned for the same keys of changes.
        """
        table, *parts = split_parts(content)
        self.replace(table_of_bytes(table))
        for changes, part in zip(self._changes.values(), parts, strict=True):
            times, *values = map(whole, table_of_bytes(part).columns)
            changes.replace(times.to_numpy(), values)

    def snapshot(self) -> bytes:
        """Return what it remembers as bytes for `restore`; its columns must be known."""
        parts = [self._know_tables().snapshot()]
        if self._reaching is not None:
            parts.append(records_as_bytes(self._reaching))
        return joined_parts(parts)

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot of a relation with the same columns, without saying what it said.

        Raises:
            SnapshotError: the snapshot is of another relation, or damaged.
        """
        query = self._query
        assert query is not None
        state, *reaching = split_parts(snapshot)
        query.restore(state)
        # the state has their records
        self._tables = None
        self._reaching = None
        for one in reaching:
            self._reaching = records_of_bytes(one, query.result[1])

    def state(self) -> bytes:
        """Return what it remembers and what it says, for `know_types` and then `restore_state`."""
        if self._query is None or self._types is None:
            return b""
        return joined_parts(
            [
                self._types.serialize().to_pybytes(),
                self.snapshot(),
                joined_parts(records_as_bytes(one) for one in self._records),
                self.said(),
            ]
        )

    def know_types(self, state: bytes) -> None:
        """Get to know the columns of the log by a state of a relation that has had rows."""
        if state:
            types = pa.ipc.read_schema(pa.py_buffer(split_parts(state)[0]))
            self._with_known_types([pa.array([], one) for one in types.types], types)

    def restore_state(self, state: bytes) -> None:
        """Go on from a state; what asks for changes must be there.

        Raises:
            SnapshotError: it is of another relation, or damaged.
        """
        if not state:
            return
        _, remembered, records, said = split_parts(state)
        self.restore(remembered)
        assert self._query is not None
        schema = self._query.result[1]
        self._records = [records_of_bytes(one, schema) for one in split_parts(records)]
        self.notify(said)

    def _with_known_types(self, found: list[pa.Array], types: pa.Schema) -> list[pa.Array]:
        before = self._types
        columns = super()._with_known_types(found, types)
        if self._records and self._query is not None and self._types is not before:
            # what is known is still looked up
            _, schema = self._query.result
            self._say([typed(one, schema) for one in self._records])
        return columns

    def _say(self, records: list[Records]) -> None:
        """Look values up in these records."""
        self._records = records
        self.replace(pa.concat_tables(map(as_table, records)))


def _declaration(known: pa.Schema | None, types: pa.Schema) -> str | None:
    """What to declare if a column of the log has floats now, and had integers before."""
    for before, now in zip(known or (), types, strict=False):
        if pa.types.is_integer(before.type) and pa.types.is_floating(now.type):
            return f"declare the column in the policy file: column {column_text(now.name)}: float"
    return None


def said_as_bytes(
    records: pa.Table, changes: Sequence[tuple[NDArray[np.int64], Sequence[pa.Array]]]
) -> bytes:
    """Return what a relation says as bytes for `RowRelation.notify`.

    Args:
        records: the records, as the table that look-ups take.
        changes: for the keys of `RowRelation.watched`, what `ChangeTimes.between` returns.
    """
    parts = [table_as_bytes(records, is_sent=True)]
    for times, values in changes:
        names = list(map(str, range(1 + len(values))))
        table = pa.table([pa.array(times), *values], names)
        parts.append(table_as_bytes(table, is_sent=True))
    return joined_parts(parts)


def as_table(records: Records) -> pa.Table:
    """Return records as the table that look-ups take."""
    names = ["", " ", *records.schema.names]
    return pa.Table.from_arrays([records.starts, records.ends, *records.columns], names=names)
