"""Streams with `per`: when their instances begin and end, and at which rows they have values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.time_points import MEMORY
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.streams.program import Stream


class Lifetime(NamedTuple):
    """When the instances of a stream begin and end; streams that share it share their instances.

    Attributes:
        keys: the expressions whose values tell instances apart.
        start: where an instance may begin, at the rows that belong to it; None for all of them.
        has_end: whether instances end.
        end: the rows where instances end; None for all rows.
        end_keys: the key of the instance that ends; () if all of the trace end.
    """

    keys: tuple[Expression, ...]
    start: Expression | None
    has_end: bool
    end: Expression | None
    end_keys: tuple[Expression, ...]


class TemplateError(Exception):
    """What is not possible in a stream with `per`; the caller makes an error with a place of it."""

    def __init__(self, origin: Predicate, node: Expression, message: str, hint: str) -> None:
        super().__init__(message)
        self.origin = origin
        self.node = node
        self.message = message
        self.hint = hint


def lifetime_of(stream: Stream) -> Lifetime:
    """Return when the instances of a stream with `per` begin and end.

    Raises:
        TemplateError: `until` names some instances, but neither one nor all of the trace.
    """
    keys = keys_of(stream)
    own = dict(zip(_names(stream), keys, strict=True))
    for clause in (stream.start, stream.end):
        if clause is not None:
            _require_present(clause)
    start = None if stream.start is None else _replaced(stream.start.expression, own)
    if stream.end is None:
        return Lifetime(keys, start, False, None, ())
    rest = _conjuncts(stream.end.expression)
    found: dict[str | None, Expression] = {}
    for conjunct in list(rest):
        name, other = _named_by(conjunct)
        if name is not None and name not in found:
            found[name] = other
            rest.remove(conjunct)
    named = [node for node in postorder(*rest) if node.operator is ops.PARAMETER]
    if found and len(found) < len(keys):
        missing = next(name for name in own if name not in found)
        message = f"until names {', '.join(map(str, found))}, but not {_described(missing)}"
        hint = "it ends one instance, and names all of its values, or all instances of the trace"
        raise TemplateError(stream.end, stream.end.expression, message, hint)
    if named and not found:
        message = f"until does not say which {named[0].name} it means"
        hint = f"write until EXPRESSION = {named[0].name}, and other conditions with and"
        raise TemplateError(stream.end, named[0], message, hint)
    end_keys = tuple(found[name] for name in own) if found else ()
    # The instance that ends has these values.
    others = dict(zip(own, end_keys, strict=True)) if found else {}
    parts = [_replaced(one, others) for one in rest]
    end = None
    for part in parts:
        end = part if end is None else Expression(ops.AND, (end, part), None, part.span)
    return Lifetime(keys, start, True, end, end_keys)


def condition_of(stream: Stream) -> Expression | None:
    """Return where a stream with `per` has a value, at the rows that belong to an instance.

    Returns:
        The condition; None for all of these rows.

    Raises:
        TemplateError: `on` is also about other rows.
    """
    if stream.on is None:
        return None
    own = dict(zip(_names(stream), keys_of(stream), strict=True))
    rest = _conjuncts(stream.on.expression)
    found = set()
    for conjunct in list(rest):
        name, other = _named_by(conjunct)
        if name in own and own[name] == other:
            found.add(name)
            rest.remove(conjunct)
    missing = [name for name in own if name not in found]
    if missing:
        message = "on is about rows that do not belong to the instance, which is not possible yet"
        key = own[missing[0]]
        name = "id" if missing[0] is None else missing[0]
        hint = f"write per {key} as {name} on {key} = {name} and ..."
        raise TemplateError(stream.on, stream.on.expression, message, hint)
    condition = None
    for part in rest:
        condition = part if condition is None else Expression(ops.AND, (condition, part))
    return condition


def keys_of(stream: Stream) -> tuple[Expression, ...]:
    """Return the expressions behind `per`; () if the stream has none."""
    return tuple(key.expression for key, _ in stream.per)


def parameters_of(stream: Stream) -> dict[str, int]:
    """Return the number of the key that each parameter stands for."""
    return {name: number for number, (_, name) in enumerate(stream.per) if name is not None}


def _names(stream: Stream) -> list[str | None]:
    """The names of the parameters; a key without a name has one that no parameter has."""
    return [f"the value of {key.expression}" if name is None else name for key, name in stream.per]


def _described(name: str | None) -> str:
    return f"{name}"


def _require_present(part: Predicate) -> None:
    """Refuse parameters in the arguments of aggregates and offsets, which are of the trace."""
    for node in postorder(part.expression):
        if node.operator in MEMORY:
            for one in postorder(node):
                if one.operator is ops.PARAMETER:
                    message = f"from and until cannot use {one.name} in a window of the trace"
                    hint = "count what belongs to an instance in a stream with the same per"
                    raise TemplateError(part, one, message, hint)


def _conjuncts(condition: Expression) -> list[Expression]:
    """The operands of the ANDs at the top."""
    found: list[Expression] = []
    stack = [condition]
    while stack:
        node = stack.pop()
        if node.operator is ops.AND:
            stack += reversed(node.operands)
        else:
            found.append(node)
    return found


def _named_by(condition: Expression) -> tuple[str | None, Expression]:
    """For `X = p`, return p and X; p is None for other conditions."""
    if condition.operator is ops.EQUAL:
        for one, other in (condition.operands, condition.operands[::-1]):
            is_free = all(node.operator is not ops.PARAMETER for node in postorder(other))
            if one.operator is ops.PARAMETER and is_free:
                return one.name, other
    return None, condition


def _replaced(root: Expression, values: Mapping[str | None, Expression]) -> Expression:
    """Replace parameters by expressions."""
    built: dict[int, Expression] = {}
    for node in postorder(root):
        if node.operator is ops.PARAMETER and node.name in values:
            built[id(node)] = values[node.name]
            continue
        operands = tuple(built[id(operand)] for operand in node.operands)
        if all(one is other for one, other in zip(operands, node.operands, strict=True)):
            built[id(node)] = node
        else:
            built[id(node)] = Expression(node.operator, operands, node.value, node.span)
    return built[id(root)]
