"""The columns of relations, with their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates.checking import check
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.environment import NOTHING
from mtlmon.policy.predicates.kinds import joined, kind_of
from mtlmon.policy.validity.declared import AGGREGATES
from mtlmon.relations.algebra import (
    DistinctOn,
    Group,
    Join,
    Select,
    Semijoin,
    Source,
    Timed,
    ValidLast,
    ValidTo,
    ValidUntil,
    Where,
    nodes,
    operands,
)
from mtlmon.relations.records import canonical_schema
from mtlmon.support.guesses import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.relations.algebra import Aggregation, Node

_CONDITIONS = frozenset({"count", "any", "all"})
_NUMBERS = frozenset({"sum", "avg", "var", "stddev", "median", "quantile", "mad"})


def schema_of(
    node: Node, schemas: Mapping[str, pa.Schema], environment: Environment = NOTHING
) -> pa.Schema:
    """Return the columns of a relation.

    Args:
        node: the relation.
        schemas: the columns of each table that it reads, without start and end.
        environment: the time column, the unit and the zone, for functions of time.

    Raises:
        PolicyError: an expression does not fit the columns of its relation.
        MtlmonError: a table or column is missing, columns of two relations do not fit, a relation
            would have two columns of one name, or a table has a column that relations cannot hold.
    """
    return Types(schemas, environment).of(node)


class Types:
    """Finds the columns of relations, and remembers them; see `schema_of`."""

    def __init__(
        self, schemas: Mapping[str, pa.Schema], environment: Environment = NOTHING
    ) -> None:
        self._schemas = schemas
        self._environment = environment
        self._found: dict[Node, pa.Schema] = {}

    def of(self, node: Node) -> pa.Schema:
        """Return the columns of a relation."""
        for part in nodes(node):
            if part not in self._found:
                self._found[part] = self._of_part(part)
        return self._found[node]

    def _of_part(self, node: Node) -> pa.Schema:
        """The columns of a relation, where those of its operands are known."""
        if isinstance(node, Source):
            if node.name not in self._schemas:
                raise MtlmonError(f"there is no table {node.name!r}")
            return canonical_schema(self._schemas[node.name])
        of = [self._found[operand] for operand in operands(node)]
        return _schema(node, of, self._environment)


def _schema(node: Node, of: list[pa.Schema], environment: Environment) -> pa.Schema:
    if isinstance(node, Select):
        values = ((name, kind_in(of[0], value, environment)) for name, value in node.values)
        return _named((name, column_type(kind)) for name, kind in values)
    if isinstance(node, Group):
        keys = [(name, _column(of[0], name)) for name in node.keys]
        results = [(one.name, _aggregate_type(of[0], one, environment)) for one in node.values]
        return _named([*keys, *results])
    if isinstance(node, Join | Semijoin):
        if len(node.names) != len(of[1]):
            raise MtlmonError(f"{len(of[1])} columns of a joined relation, {len(node.names)} names")
        both = _named([*_items(of[0]), *zip(node.names, of[1].types, strict=True)])
        kind_in(both, node.on, environment, wanted=kinds.BOOLEAN)
        return both if isinstance(node, Join) else of[0]
    if isinstance(node, Timed):
        times = [name for name in (node.start, node.end) if name is not None]
        return _named([*_items(of[0]), *((name, pa.int64()) for name in times)])
    if isinstance(node, DistinctOn):
        for name in (*node.keys, node.order):
            _column(of[0], name)
        return _named(one for one in _items(of[0]) if one[0] != node.order)
    if isinstance(node, ValidLast):
        for name in node.per:
            _column(of[0], name)
        return of[0]
    if isinstance(node, ValidTo):
        kind = kind_in(of[0], node.end, environment)
        if kind.name not in {"integer", "time", "null"}:
            raise MtlmonError(
                f"the end of a record is a time-stamp or a time, but {node.end} is {kind.words}: "
                f"declare the column, as in column {node.end}: time"
            )
        return of[0]
    if isinstance(node, Where | ValidUntil):
        kind_in(of[0], node.condition, environment, wanted=kinds.BOOLEAN)
        for name in node.per if isinstance(node, ValidUntil) else ():
            _column(of[0], name)
        return of[0]
    return of[0] if len(of) == 1 else _common(*of)


def kind_in(
    schema: pa.Schema,
    predicate: Predicate,
    environment: Environment = NOTHING,
    *,
    wanted: Kind | None = None,
    hint: str | None = None,
) -> Kind:
    """Return the kind of an expression over the columns of a relation; the arguments are as for
    `check`.

    Raises:
        PolicyError: it does not fit the columns, or is not of the kind that is wanted.
    """
    checked = check(predicate, schema, environment, wanted=wanted, hint=hint)
    if checked.errors:
        raise checked.errors[0]
    return checked.kinds[id(predicate.expression)]


def _aggregate_type(
    schema: pa.Schema, aggregation: Aggregation, environment: Environment
) -> pa.DataType:
    word, argument, own = aggregation.word, aggregation.argument, aggregation.own
    if word not in AGGREGATES and own is None:
        _refuse(f"{word} is not an aggregate over groups", word, AGGREGATES)
    if aggregation.order:
        _column(schema, aggregation.order)
    if word in _CONDITIONS:
        if argument is not None:
            hint = None
            if word == "count":
                hint = (
                    "count() counts all records, count(CONDITION) those for which it is true, as "
                    f"in count(not ({argument} is null))"
                )
            kind_in(schema, argument, environment, wanted=kinds.BOOLEAN, hint=hint)
        return pa.int64() if word == "count" else pa.bool_()
    if argument is None:
        raise MtlmonError(f"{word}() needs an argument")
    is_number = word in _NUMBERS
    kind = kind_in(schema, argument, environment, wanted=kinds.FLOAT if is_number else None)
    if own is not None:
        return column_type(own.kind)
    if word == "distinct":
        return pa.int64()
    if is_number and kind.name not in {"null", "integer" if word == "sum" else "null"}:
        kind = kinds.FLOAT
    return column_type(kind)


def _common(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The columns of relations that are united, or taken from one another."""
    if len(left) != len(right):
        raise MtlmonError(
            f"a relation with {len(left)} columns ({', '.join(left.names)}) and one with "
            f"{len(right)} ({', '.join(right.names)}): select as many columns of both"
        )
    fields = []
    for one, other in zip(left, right, strict=True):
        kind = joined(kind_of(one.type), kind_of(other.type))
        if kind is None:
            raise MtlmonError(
                f"column {one.name!r} is {kind_of(one.type).words}, but {other.name!r}, which "
                f"belongs to it, is {kind_of(other.type).words}: select columns that fit"
            )
        fields.append((one.name, column_type(kind)))
    return pa.schema(fields)


def _items(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return list(zip(schema.names, schema.types, strict=True))


def _named(items: Iterable[tuple[str, pa.DataType]]) -> pa.Schema:
    schema = pa.schema(list(items))
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise MtlmonError(f"a relation would have two columns {name!r}: rename one of them")
    return schema


def _column(schema: pa.Schema, name: str) -> pa.DataType:
    if name not in schema.names:
        _refuse(f"there is no column {name!r}", name, schema.names)
    return schema.field(name).type


def _refuse(message: str, name: str, known: tuple[str, ...] | list[str]) -> NoReturn:
    raise MtlmonError(message + did_you_mean(name, known))
