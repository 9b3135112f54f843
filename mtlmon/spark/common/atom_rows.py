"""Makes rows of atoms with arguments of the rows of a data frame, for policies with variables.

Whatever the atoms are, their rows have the same columns: the time-stamp, the number of the atom,
and enough columns of integers, floats and texts for the arguments of each atom. Besides, there are
*marks*: rows without arguments that say that there is a time-point, or how far the log goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError, RowError
from mtlmon.policy.needs import needs_of, remembers_itself
from mtlmon.policy.predicates.compiling import CompiledExpressions
from mtlmon.policy.predicates.environment import TIME_STAMPS
from mtlmon.relational.analysis import valid_analysis
from mtlmon.relational.atoms import (
    cell_word,
    formula_atoms,
    refuse_points,
    require_rows_of_tables,
    used_atoms,
)
from mtlmon.relational.keyed import keys_of_others
from mtlmon.spark.common.events import EventReader, event_source, row_error
from mtlmon.spark.common.policies import Policies
from mtlmon.support.refusals import refused
from mtlmon.syntax.printer import name_of_rows, written_name
from mtlmon.tables.relations import conditions_of, have_values, plain_values, shown_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql.types import StructType

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.relational.analysis import Analysis
    from mtlmon.spark.common.events import Events, EventSource, OnError
    from mtlmon.tables.looking_up import KnownLog

__all__ = [
    "END",
    "MARK",
    "AtomColumns",
    "AtomReader",
    "AtomRows",
    "RelationSource",
    "relation_source",
]

TIME, ATOM = "time", "atom"
MARK = -1
"""The number in the column of atoms that stands for a time-point, with rows or without."""
END = -2
"""The number that stands for the last time-stamp of some rows."""

_LETTER = {"integer": "i", "boolean": "i", "time": "i", "float": "f", "text": "s"}
_ARROW = {"i": pa.int64(), "f": pa.float64(), "s": pa.string()}


class AtomColumns(NamedTuple):
    """The columns of rows of atoms.

    Attributes:
        names: the atoms, in the order of their numbers. Policies in which arguments have other
            types have an atom of their own.
        kinds: for each of them, the kinds of its arguments: "integer", "float", "boolean", "text"
            or "time".
    """

    names: tuple[str, ...]
    kinds: tuple[tuple[str, ...], ...]

    def columns_of(self, atom: int) -> tuple[str, ...]:
        """The columns of the arguments of an atom."""
        return packed_names(self.kinds[atom])

    @property
    def arguments(self) -> tuple[str, ...]:
        """All columns of arguments: enough of each kind for any atom."""
        return packed_union(self.kinds)

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        own = [pa.field(name, _ARROW[name[0]]) for name in self.arguments]
        return pa.schema([pa.field(TIME, pa.int64()), pa.field(ATOM, pa.int32()), *own])

    def batch(
        self,
        time_stamps: NDArray[np.int64],
        atom: int,
        columns: Sequence[pa.Array] = (),
    ) -> pa.RecordBatch:
        """Rows of an atom, or marks."""
        count = len(time_stamps)
        own = dict(zip(self.columns_of(atom), columns, strict=True)) if atom >= 0 else {}
        arrays = [pa.array(time_stamps), pa.array(np.full(count, atom, np.int32))]
        for name in self.arguments:
            kind = _ARROW[name[0]]
            arrays.append(own[name].cast(kind) if name in own else pa.nulls(count, kind))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def packed_names(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that hold values of some kinds: `i0`, `i1`, `f0`, `s0` and so on."""
    counts: dict[str, int] = {}
    names = []
    for kind in kinds:
        letter = _LETTER[kind]
        names.append(f"{letter}{counts.get(letter, 0)}")
        counts[letter] = counts.get(letter, 0) + 1
    return tuple(names)


def packed_union(several: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the columns that hold values of any of several lists of kinds."""
    names = {name for kinds in several for name in packed_names(kinds)}
    return tuple(sorted(names, key=lambda name: (name[0], int(name[1:]))))


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the columns as Spark has them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


class RelationSource(NamedTuple):
    """How rows become rows of atoms; picklable.

    Attributes:
        source: how rows become events, whose atoms are the conditions.
        file: the policies.
        shown: for each atom, the names in `PolicyFile.shown` of its arguments.
        names: the atoms.
        schema: the columns of the data frame that are read for these policies.
        unit: the unit of time-stamps, or None.
    """

    source: EventSource
    file: PolicyFile
    shown: dict[str, list[str]]
    names: tuple[str, ...]
    schema: bytes = b""

    @property
    def columns_read(self) -> tuple[str, ...]:
        """The columns that are needed."""
        return self.source.columns_read

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """The key columns of each policy."""
        return keys_of_others(self.file)

    def reader(self) -> AtomReader:
        """Return what finds the rows that are events."""
        return AtomReader(self)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the data frame that are read for these policies."""
        return pa.ipc.read_schema(pa.py_buffer(self.schema))

    def analysis(self) -> Analysis:
        """What is known of the policies, with the types of columns.

        Raises:
            PolicyError: a policy does not fit the columns.
        """
        return valid_analysis(self.file, self.arrow_schema, self.source.policies.looked_up or {})

    def columns(self) -> AtomColumns:
        """The columns of rows of atoms."""
        kinds: dict[str, tuple[str, ...]] = dict.fromkeys(formula_atoms(self.file), ())
        for name, found in self.analysis().relations.items():
            if name_of_rows(name) in self.shown:
                kinds[name] = tuple(map(cell_word, found))
        return AtomColumns(tuple(kinds), tuple(kinds.values()))


def relation_source(
    file: PolicyFile,
    *,
    time: str | None,
    atoms: Mapping[str, str] | None,
    event: str | None,
    separator: str,
    time_unit: str | None,
    resolution: str | None,
    on_error: OnError,
    function: str,
    log: KnownLog | None = None,
) -> RelationSource:
    """Return how rows become rows of atoms; the arguments are those of `event_source`.

    Args:
        file: the policies, as `keyed_file` returns them.
        function: the function that monitors them, for errors.
        log: the rows, for the relations of rows in which atoms look values up; None if only those
            of tables can be looked up.

    Raises:
        PolicyError: an atom has arguments but no condition, or a condition is on other rows.
        MtlmonError: as `event_source`.
    """
    names = used_atoms(file)
    require_rows_of_tables(file, names)
    refuse_points(file)
    shown = shown_arguments(file, names)
    every_shown = [one for some in shown.values() for one in some]
    needs = needs_of(file, names, every_shown)
    remembering = [one for one in needs.remembering if remembers_itself(file.atoms[one].expression)]
    if remembering or set(needs.log_atoms) - set(names):
        what = (*remembering, *needs.log_atoms)[0]
        raise MtlmonError(refused("Spark, conditions of atoms", function=function, name=what))
    predicates = {name: file.atoms[name] for name in names if name in file.atoms}
    unit = resolution if file.unit is None else file.unit
    policies = Policies((), names, predicates, unit, "local", file, columns=needs.columns)
    if needs.relations:
        from mtlmon.tables.looking_up import known_relations

        environment = file.environment._replace(unit=unit or time_unit, time_unit=time_unit)
        looked_up = known_relations(file, needs.relations, environment, log)
        policies = policies._replace(looked_up=looked_up)
    source = event_source(
        policies,
        time=time,
        keys=tuple(dict.fromkeys(column for key in keys_of_others(file) for column in key)),
        atoms=atoms,
        event=event,
        separator=separator,
        time_unit=time_unit,
        resolution=resolution,
        on_error=on_error,
    )
    return RelationSource(source, file, shown, names)


class AtomRows:
    """Makes rows of atoms of the rows of a data frame; picklable, a function for `mapInArrow`.

    A row of an atom needs a value for each argument: where one is null or NaN, there is none.

    Args:
        source: how rows become rows of atoms.
        has_marks: whether each time-stamp becomes a mark, and not only those of rows of atoms.
        has_end: whether the last time-stamp of the partition is said.
    """

    def __init__(self, source: RelationSource, *, has_marks: bool, has_end: bool = True) -> None:
        self.source = source
        self.has_marks = has_marks
        self.has_end = has_end

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = AtomReader(self.source)
        last: int | None = None
        try:
            for batch in batches:
                time_stamps, rows = reader.read(batch)
                if not len(time_stamps):
                    continue
                highest = int(time_stamps.max())
                last = highest if last is None else max(last, highest)
                yield from rows
                if self.has_marks:
                    yield reader.columns.batch(np.unique(time_stamps), MARK)
        finally:
            reader.report()
        if last is not None and self.has_end:
            yield reader.columns.batch(np.array([last]), END)


class AtomReader:
    """Reads batches of rows of a data frame.

    Args:
        source: how rows become rows of atoms.

    Attributes:
        events: reads the rows as events.
        columns: the columns of rows of atoms.
    """

    def __init__(self, source: RelationSource) -> None:
        self.events = EventReader(source.source)
        self.columns = source.columns()
        self._source = source
        self._names = source.source.selection.names
        expressions: dict[str, Predicate] = {}
        for names in source.shown.values():
            for name in names:
                expressions[name] = source.file.predicate(source.file.shown[name], None)
        schema = source.arrow_schema
        self._compiled = CompiledExpressions(expressions, schema, source.source.environment())
        # the atoms of events that hold where an atom has a row
        places = {name: place for place, name in enumerate(source.names)}
        rows_of = [name_of_rows(name) for name in self.columns.names]
        self._places = [
            [places[one] for one in conditions_of(name) if one in places] for name in rows_of
        ]

    @property
    def skipped(self) -> int:
        """The number of rows that were skipped."""
        return self.events.skipped

    @property
    def errors(self) -> list[str]:
        """The errors of the first of them."""
        return self.events.errors

    def usable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that are events, which has the selected columns, or more."""
        events, _ = self._events(batch)
        return events.rows

    def report(self) -> None:
        """Send the counts to the driver when the task has ended or is stopped."""
        self.events.report()

    def _events(self, batch: pa.RecordBatch) -> tuple[Events, dict[str, pa.Array]]:
        """The events of a batch, and the values of arguments."""
        events = self.events.read(batch)
        while True:
            rows = events.rows
            try:
                columns = {TIME_STAMPS: pa.array(events.time_stamps)}
                columns |= {
                    name: rows.column(name) for name in self._compiled.types if name not in columns
                }
                return events, dict(self._compiled.compute(columns, rows.num_rows))
            except RowError as error:
                events = events.of_rows(np.flatnonzero(self._without(rows, error)))

    def read(self, batch: pa.RecordBatch) -> tuple[NDArray[np.int64], list[pa.RecordBatch]]:
        """Return the time-stamps of the rows that are events, and the rows of atoms.

        The columns of the batch have any names.
        """
        events, shown = self._events(batch.rename_columns(self._names))
        letters, stamps = events.words(), events.time_stamps
        found = []
        for number, places in enumerate(self._places):
            name = self._source.names[places[0]]
            holds = np.ones(len(stamps), np.bool_)
            for place in places:
                holds &= letters[:, place // 64] >> np.uint64(place % 64) & np.uint64(1) != 0
            own = [shown[one] for one in self._source.shown.get(name, ())]
            holds &= have_values(name, own, len(stamps))
            if holds.any():
                mask = pa.array(holds)
                values = [
                    plain_values(column.filter(mask), kind, written_name(name))
                    for column, kind in zip(own, self.columns.kinds[number], strict=True)
                ]
                found.append(self.columns.batch(stamps[holds], number, values))
        return stamps, found

    def _without(self, rows: pa.RecordBatch, error: RowError) -> NDArray[np.bool_]:
        """Which rows are kept if some have no value; raises if none may be skipped."""
        source = self._source.source
        problem = row_error(source, rows, error.rows[0], error.reason)
        if source.on_error != "skip":
            raise problem
        kept = np.ones(rows.num_rows, np.bool_)
        kept[list(error.rows)] = False
        self.events.refused.count += len(error.rows)
        if len(self.events.errors) < _KEPT:
            self.events.errors.append(str(problem))
        return kept


_KEPT = 10
