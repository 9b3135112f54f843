"""Finds the kinds of streams from their expressions, even if these are recursive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.checking import check
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from mtlmon.errors import FormulaError
    from mtlmon.policy.predicates.checking import Checked
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.predicate import Predicate

# A kind goes from unknown or null by integer to float, so it changes less often than this.
_MOST_CHANGES = 8


def find_kinds(
    streams: Mapping[str, Predicate],
    schema: pa.Schema | None,
    environment: Environment,
    declared: Mapping[str, Kind],
) -> tuple[dict[str, Kind], list[FormulaError]]:
    """Find the kinds of the values of streams, and check their expressions.

    Args:
        streams: the expressions of the streams by name, in any order; they can use each other.
        schema: the columns of the table, or None if they are not known yet.
        environment: what the expressions stand among, without `streams`.
        declared: the kinds that the file declares.

    Returns:
        The kind of each stream, to be used as `Environment.streams`, and the errors in the order of
        the streams.
    """
    # the unit of a declared time, and whether it has a zone, follow from the expression
    fixed = {name: kind for name, kind in declared.items() if kind.name != "time"}
    found = {name: fixed.get(name, kinds.UNKNOWN) for name in streams}
    users: dict[str, list[str]] = {name: [] for name in streams}
    for name, stream in streams.items():
        for used in _streams_in(stream):
            if used in users:
                users[used].append(name)
    changes = dict.fromkeys(streams, 0)
    waiting = dict.fromkeys(name for name in streams if name not in fixed)
    while waiting:
        name = next(iter(waiting))
        del waiting[name]
        stream = streams[name]
        checked = _check(stream, schema, environment._replace(streams=found), None)
        kind = checked.kinds[id(stream.expression)]
        if kind != found[name] and changes[name] < _MOST_CHANGES:
            found[name] = kind
            changes[name] += 1
            waiting.update(dict.fromkeys(user for user in users[name] if user not in fixed))
    errors = []
    for name, stream in streams.items():
        wanted = declared.get(name)
        checked = _check(stream, schema, environment._replace(streams=found), wanted)
        errors += checked.errors
        if not checked.errors and schema is not None and found[name] == kinds.UNKNOWN:
            errors.append(_unknown(name, stream))
    return found, errors


def _check(
    stream: Predicate, schema: pa.Schema | None, environment: Environment, wanted: Kind | None
) -> Checked:
    return check(stream, schema, environment, wanted=wanted, is_of_one_row=False)


def _streams_in(stream: Predicate) -> set[str]:
    names = set()
    for node in postorder(stream.expression):
        if node.operator in {ops.STREAM, ops.INSTANCE}:
            names.add(node.name)
        elif node.operator is ops.OVER:
            names.add(node.over.stream)
    return names


def _unknown(name: str, stream: Predicate) -> FormulaError:
    span = stream.expression.span
    return formula_error(
        stream.text,
        0 if span is None else span.start,
        f"stream {name}: the type of its values does not follow from its expression",
        source=stream.source,
        hint=f"declare it: stream {name}: int = ..., or give a value to begin with, as in or: 0",
        kind=PolicyError,
    )
