"""The relations of a policy file in which its expressions look values up, for a run on tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from mtlmon.engine.native import MemoryLimit
from mtlmon.errors import PolicyError, RowError
from mtlmon.policy.clock_errors import key_errors
from mtlmon.policy.definitions import Clock
from mtlmon.policy.needs import changes_in, needs_of, queried_in
from mtlmon.policy.predicates.hints import some
from mtlmon.policy.predicates.time_points import Changes
from mtlmon.policy.validity.declared import reads_rows
from mtlmon.relations.declared import Plans, columns_to_read, declared_tables, table_name
from mtlmon.relations.evaluation import evaluate_all
from mtlmon.relations.looking_up import KnownRelation
from mtlmon.relations.of_rows import LogRelation, ReadRows, RowRelation
from mtlmon.relations.revised import RevisedRelation
from mtlmon.syntax.report import formula_error
from mtlmon.tables.formats.files import TableFile, file_size
from mtlmon.tables.formats.schemas import read_line_schema, read_schema
from mtlmon.tables.given import GivenRows
from mtlmon.tables.querying import (
    bytes_of,
    declared_records,
    of_relation,
    path_of,
    require_room,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mtlmon.errors import MtlmonError
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.validity.declared import TableOf
    from mtlmon.tables.formats.dialect import Dialect
    from mtlmon.tables.formats.files import TableObject

__all__ = [
    "GivenRelations",
    "KnownLog",
    "LookedUpRelations",
    "columns_of_log",
    "given_relations",
    "known_relations",
    "looked_up_relations",
    "relations_with_columns",
    "watch",
]


class LookedUpRelations(NamedTuple):
    """Relations in which expressions look values up.

    Attributes:
        of_tables: those of tables alone, by name.
        of_rows: those that read the rows of the log.
    """

    of_tables: dict[str, KnownRelation]
    of_rows: Mapping[str, LogRelation]

    @property
    def by_name(self) -> dict[str, KnownRelation]:
        """All of them by name."""
        return {**self.of_tables, **self.of_rows}

    @property
    def columns(self) -> list[str]:
        """The columns of the log that they read, as what they read them."""
        return [name for one in self.of_rows.values() for name in one.typed_columns]


class GivenRelations(NamedTuple):
    """What is read and evaluated before logs are read, which may be elsewhere; picklable.

    Attributes:
        of_tables: the relations of tables alone, by name.
        records: the tables of those that read the rows of a log, by their paths and the columns of
            their times.
    """

    of_tables: dict[str, KnownRelation]
    records: dict[tuple[str, str | None, str | None], pa.Table]


def given_relations(
    file: PolicyFile,
    wanted: Mapping[str, Sequence[str]],
    environment: Environment,
    options: Mapping[str, Any],
    changing: Collection[str] = (),
) -> GivenRelations:
    """Read all tables, and evaluate what does not depend on a log; see `looked_up_relations`."""
    found = GivenRelations({}, {})
    of_tables = []
    for name in {**wanted, **dict.fromkeys(changing)}:
        owner, own_name = file.owner_of(name)
        if not reads_rows(owner.intervals, own_name):
            of_tables.append(name)
            continue
        records = declared_records(owner, own_name, dict(options))
        for source in declared_tables(owner, own_name):
            found.records[_known_as(owner, source)] = records[table_name(owner, source)]
    own_wanted = {name: wanted.get(name, ()) for name in of_tables}
    known = looked_up_relations(file, own_wanted, environment, options, lambda: None)
    found.of_tables.update(known.of_tables)
    return found


def looked_up_relations(
    file: PolicyFile,
    wanted: Mapping[str, Sequence[str]],
    environment: Environment,
    options: Mapping[str, Any],
    of_log: Callable[[], Sequence[str] | None],
    changing: Collection[str] = (),
    *,
    can_revise: bool = False,
    given: GivenRelations | None = None,
    memory: MemoryLimit | None = None,
) -> LookedUpRelations:
    """Read the tables of relations, and evaluate those that do not read the rows of the log.

    Args:
        file: the policy file, which may join several.
        wanted: the names of the relations, with their columns that look-ups name.
        environment: the time column, the units and the zone.
        options: how times are written, as for `open_tables`.
        of_log: returns the columns of the log; None if they are not known before it is read.
        changing: the names of relations whose changes are wanted; all of their columns matter.
        can_revise: whether the rows of the log come in any order.
        given: what was read before; None to read it here.
        memory: the memory limit of the run, which counts the records of tables.

    Raises:
        MtlmonError: a table cannot be read, or a relation is not valid.
        MemoryLimitError: the records do not fit the memory limit.
    """
    of_rows: dict[str, LogRelation] = {}
    found = LookedUpRelations({}, of_rows)
    limit = MemoryLimit() if memory is None else memory

    def held_bytes() -> int:
        return sum(one.held_bytes + one.index_bytes for one in found.of_tables.values())

    def note_index() -> None:
        limit.note("relations", held_bytes())

    kind = RevisedRelation if can_revise else RowRelation
    by_file: dict[int, tuple[PolicyFile, dict[str, str]]] = {}
    for name in [*wanted, *sorted(set(changing) - set(wanted))]:
        owner, own_name = file.owner_of(name)
        if given is not None and name in given.of_tables:
            found.of_tables[name] = given.of_tables[name]
            continue
        by_file.setdefault(id(owner), (owner, {}))[1][name] = own_name
    tables_of_rows = 0
    for owner, own_names in by_file.values():
        tables: dict[str, pa.Table] = {}
        beside = held_bytes() + tables_of_rows
        for own_name in own_names.values():
            sources = declared_tables(owner, own_name)
            if given is not None:
                tables |= {
                    table_name(owner, one): given.records[_known_as(owner, one)] for one in sources
                }
            else:
                tables |= declared_records(
                    owner, own_name, dict(options), limit, tables, beside=beside
                )
        schemas = {path: pa.schema(list(table.schema)[2:]) for path, table in tables.items()}
        own = environment._replace(zone=owner.zone or environment.zone)
        plans = Plans(owner, schemas, own)
        nodes = {
            name: plans.of(own_name)
            for name, own_name in own_names.items()
            if not reads_rows(owner.intervals, own_name)
        }
        try:
            evaluated = evaluate_all(nodes, tables, own)
        except RowError as error:
            raise of_relation(error) from None
        require_room(limit, beside + bytes_of([*tables.values(), *evaluated.values()]))
        for name, table in evaluated.items():
            found.of_tables[name] = KnownRelation(table, note_index)
        for name, own_name in own_names.items():
            if name in nodes:
                continue
            used_columns = wanted.get(name, ())
            changes = name in changing
            columns = columns_to_read(owner, own_name, used_columns, of_log, needs_all=changes)
            if columns is None:
                raise _not_certain(owner, own_name)
            names = [table_name(owner, one) for one in declared_tables(owner, own_name)]
            used = {one: tables[one] for one in names}
            of_rows[name] = kind(ReadRows(owner, own_name, columns, used, own))
            tables_of_rows += bytes_of(used.values())
    # those of rows count the tables that they have
    note_index()
    return found


def _known_as(file: PolicyFile, source: TableOf) -> tuple[str, str | None, str | None]:
    """What tells a table apart from those of other files, and from the same with other times."""
    return path_of(file, source), source.start, source.end


def watch(
    file: PolicyFile,
    looked_up: LookedUpRelations,
    changes: Iterable[tuple[Changes, tuple[str, ...]]],
) -> None:
    """Let relations tell when they change, for each value of some key columns.

    Args:
        file: the policy file.
        looked_up: the relations.
        changes: the changes that are wanted, each with the key columns; the relation must have
            them.

    Raises:
        PolicyError: it has not.
    """
    for one, keys in changes:
        table = looked_up.of_tables.get(one.relation)
        columns = None if table is None else list(table.kinds)
        for error in key_errors(file, Clock(period=one), keys, columns):
            raise error
        looked_up.by_name[one.relation].changes(keys)


def relations_with_columns(
    file: PolicyFile, schema: pa.Schema, *, is_guessed: bool = False
) -> LookedUpRelations:
    """Return the relations in which a file looks values up, for a log with some columns.

    If the file has no policies, these are the relations that queries may be about: those that no
    other relation is made of.

    Args:
        file: the policy file.
        schema: the columns of the log.
        is_guessed: whether the columns are those of the policies, for want of a log.

    Raises:
        MtlmonError: as for `looked_up_relations`, or a relation does not fit the columns.
    """
    needs = needs_of(file, file.atoms, [*file.streams, *file.shown])
    environment = file.environment._replace(streams={})
    options = {"resolution": environment.unit}
    changing = [one.relation for one in changes_in(file)]
    if not file.policies:
        changing += queried_in(file)
    watched = [
        (policy.clock.period, (file.key or ()) if policy.key is None else policy.key)
        for policy in file.policies
        if policy.clock is not None and isinstance(policy.clock.period, Changes)
    ]
    found = looked_up_relations(
        file, needs.relations, environment, options, lambda: list(schema.names), changing
    )
    for name, relation in found.of_rows.items():
        missing = [one for one in relation.columns if one not in schema.names]
        if missing:
            owner, own_name = file.owner_of(name)
            fault = "whose type is not known" if is_guessed else "which the table does not have"
            raise formula_error(
                owner.text,
                owner.intervals[own_name].place,
                f"relation {own_name} reads column {missing[0]}, {fault}",
                source=owner.source,
                hint="name a table" if is_guessed else f"the columns are {some(schema.names)}",
                kind=PolicyError,
            )
        # nothing is looked up in those of queries
        relation.waits = not file.policies
        relation.read(pa.RecordBatch.from_pylist([], schema))
    watch(file, found, watched)
    return found


class KnownLog(Protocol):
    """A log whose columns are known, and whose relations are evaluated apart from monitoring it."""

    @property
    def names(self) -> Sequence[str]:
        """The columns of the log."""

    def known(self, relation: LogRelation, environment: Environment) -> KnownRelation:
        """Return what look-ups in a relation of its rows use."""


def known_relations(
    file: PolicyFile,
    wanted: Mapping[str, Sequence[str]],
    environment: Environment,
    log: KnownLog | None = None,
    changing: Collection[str] = (),
    given: GivenRelations | None = None,
    memory: MemoryLimit | None = None,
) -> dict[str, KnownRelation]:
    """Evaluate relations in which conditions on events look values up.

    Args:
        file: the policy file.
        wanted: as for `looked_up_relations`.
        environment: likewise.
        log: the log; None if relations cannot read its rows.
        changing: as for `looked_up_relations`.
        given: likewise.
        memory: likewise.

    Raises:
        MtlmonError: as for `looked_up_relations`, or a relation reads the rows of the log.
    """
    options = {
        "resolution": environment.unit,
        "time_unit": environment.time_unit,
        "time_zone": file.time_zone,
    }
    if log is not None:
        found = looked_up_relations(file, wanted, environment, options, lambda: log.names, changing)
        of_rows = {name: log.known(one, environment) for name, one in found.of_rows.items()}
        return {**found.of_tables, **of_rows}
    for name in (*wanted, *changing):
        owner, own_name = file.owner_of(name)
        if reads_rows(owner.intervals, own_name):
            reason = "which cannot be looked up here"
            hint = "relations of tables can be looked up; mtlmon.check looks up all of them"
            if not environment.has_columns:
                reason = "but the log is read as text, whose rows have no columns"
                hint = "relations of tables can be looked up; those of rows need a table of rows"
            raise formula_error(
                owner.text,
                owner.intervals[own_name].place,
                f"relation {own_name} reads the rows of the log, {reason}",
                source=owner.source,
                hint=hint,
                kind=PolicyError,
            )
    found = looked_up_relations(
        file, wanted, environment, options, lambda: None, changing, given=given, memory=memory
    )
    return found.of_tables


def columns_of_log(
    source: TableFile | TableObject, pattern: str | None, dialect: Dialect
) -> list[str] | None:
    """Return the columns of a log by its beginning; None for a pipe, which is read only once.

    Raises:
        MtlmonError: it cannot be read.
        OSError: likewise.
    """
    if not isinstance(source, TableFile):
        if isinstance(source.table, GivenRows):
            return None
        schema = getattr(source.table, "schema", None)
        if not isinstance(schema, pa.Schema):
            schema = pa.RecordBatchReader.from_stream(source.table).schema
        return list(schema.names)
    if file_size(source) is None or source.path == "-":
        return None
    if pattern is not None:
        return list(read_line_schema(source.path, pattern, dialect).names)
    return list(read_schema(source.path, dialect, source.format).names)


def _not_certain(file: PolicyFile, name: str) -> MtlmonError:
    hint = "select the columns of rows first, as in rows select road as road, speed as speed join"
    message = (
        f"relation {name} joins or compares rows with all their columns, which are not known "
        "before a pipe is read"
    )
    return formula_error(
        file.text,
        file.intervals[name].place,
        message,
        source=file.source,
        hint=hint,
        kind=PolicyError,
    )
