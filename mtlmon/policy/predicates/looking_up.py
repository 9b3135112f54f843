"""Finds out which columns of a relation a look-up is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.hints import some
from mtlmon.policy.predicates.printer import column_text
from mtlmon.support.guesses import with_advice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtlmon.errors import FormulaError
    from mtlmon.policy.predicates.expression import Expression, LookedUp
    from mtlmon.policy.predicates.resolving import Scope, Shape

    Refuse = Callable[[Expression, str, str], FormulaError]


ONLY = "look-ups are for the command, mtlmon.check, mtlmon.testing and mtlmon.spark.monitor"
"""The hint where relations cannot be looked up."""


def how_to_look_up(relation: str) -> str:
    """Return a hint for a relation that stands where a value is expected."""
    name = column_text(relation)
    return f"look up one of its columns, {name}[key].COLUMN, or ask: exists {name}[key]"


def looked_up_in(node: Expression, scope: Scope, refuse: Refuse) -> LookedUp:
    """Return the value of a look-up with the columns whose values the keys are.

    These are the columns that the look-up names, else the key of the relation, else those that are
    called like the keys.

    Args:
        node: a look-up, as parsed.
        scope: what names can stand for.
        refuse: makes the error of a node from a message and a hint.

    Raises:
        PolicyError: there is no such relation or column, or the number of keys is wrong.
    """
    looked_up = node.looked_up
    name = looked_up.relation
    if name not in scope.relations:
        raise refuse(node, *no_relation(name, scope))
    shape = scope.relations[name]
    keys = looked_up.names
    if keys is None:
        keys = _positional(node, name, shape, refuse)
    wanted = keys if looked_up.column is None else (*keys, looked_up.column)
    for column in wanted if shape.columns is not None else ():
        if column not in (shape.columns or ()):
            raise no_column(node, column, shape.columns or (), refuse)
    return looked_up._replace(keys=keys)


def no_column(node: Expression, column: str, known: Iterable[str], refuse: Refuse) -> FormulaError:
    """Return the error that the relation of a look-up has no such column."""
    known = list(known)
    hint = f"its columns are {some(map(column_text, known))}"
    hint = with_advice(column, known, hint, written=column_text)
    relation = column_text(node.looked_up.relation)
    return refuse(node, f"relation {relation} has no column {column_text(column)}", hint)


def _positional(node: Expression, name: str, shape: Shape, refuse: Refuse) -> tuple[str, ...]:
    """The columns of keys that are written without their columns."""
    names = [one.name if one.operator in ops.COLUMNS else None for one in node.operands]
    if shape.keys is not None:
        known = [one for one in names if one is not None]
        if len(known) == len(names) and sorted(known) == sorted(shape.keys):
            return tuple(known)
        if len(names) != len(shape.keys):
            if not shape.keys:
                hint = f"write {_example(name, (), node)}"
                raise refuse(node, f"relation {column_text(name)} has no key", hint)
            count = len(shape.keys)
            values = "one value" if count == 1 else f"{count} values"
            hint = f"write {_example(name, shape.keys, node)}, or name columns: [COLUMN = value]"
            message = f"the key of relation {column_text(name)} is {values}, not {len(names)}"
            raise refuse(node, message, hint)
        return shape.keys
    for one, operand in zip(names, node.operands, strict=True):
        if one is None:
            message = f"relation {column_text(name)} has no key, so {operand} may be of any column"
            raise refuse(node, message, f"name the column: [COLUMN = {operand}]")
    found = tuple(one for one in names if one is not None)
    for one in found:
        if found.count(one) > 1:
            hint = "name the columns: [COLUMN = value, ...]"
            raise refuse(node, f"{column_text(one)} stands for one column only", hint)
    return found


def _example(name: str, keys: Iterable[str], node: Expression) -> str:
    """How a look-up with a key is written."""
    written = f"{column_text(name)}[{', '.join(map(column_text, keys))}]"
    column = node.looked_up.column
    return f"exists {written}" if column is None else f"{written}.{column_text(column)}"


def no_relation(name: str, scope: Scope) -> tuple[str, str]:
    """Return the message and the hint of an error that there is no such relation."""
    if name in scope.streams:
        what = "instances have values, and no columns"
        hint = f"write {column_text(name)}[key] for the value of an instance"
        return f"{column_text(name)} is a stream: {what}", hint
    hint = f'declare it: relation {column_text(name)} = table "FILE" valid [from, to) key ...'
    if scope.relations:
        hint = f"the relations are {some(map(column_text, scope.relations))}"
    hint = with_advice(name, scope.relations, hint, written=column_text)
    return f"there is no relation {column_text(name)}", hint
