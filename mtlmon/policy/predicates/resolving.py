"""Finds out what the names in an expression stand for.

The parser makes a column of every name. Whether it is one depends on what the file declares, and on
where the name stands: in the body of an atom names are columns, as they were before there were
streams, and where a condition is expected they can be atoms of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Constant, Expression
from mtlmon.policy.predicates.hints import some
from mtlmon.policy.predicates.looking_up import how_to_look_up, looked_up_in
from mtlmon.policy.predicates.printer import column_text
from mtlmon.support.guesses import with_advice
from mtlmon.syntax.report import formula_error

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mtlmon.errors import FormulaError

_NO_CONSTANTS: Mapping[str, Constant] = {}
_NO_RELATIONS: Mapping[str, Shape] = {}

# Where a condition is expected of the operands.
_CONNECTIVES = frozenset({ops.AND, ops.OR, ops.NOT})
_OF_CONDITIONS = frozenset({"count", "any", "all"})
_LIFE_TIMES = frozenset(ops.LIFE_TIMES.values())
_RECORD_TIMES = frozenset(ops.RECORD_TIMES.values())
# What has the value of one of its operands.
_CHOICES = frozenset({ops.IF, ops.COALESCE, *ops.OFFSETS.values()})


class Shape(NamedTuple):
    """What a file says of the columns of a relation.

    Attributes:
        columns: all of them; None if that depends on tables.
        keys: those whose values tell apart what is valid at one time; None if it does not say.
    """

    columns: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None


class Scope(NamedTuple):
    """What the names in an expression can stand for.

    Attributes:
        streams: the names of the streams.
        atoms: the names of the atoms that the file declares.
        lets: the names of the lets without operators of the future.
        future_lets: the names of the other lets, which expressions cannot use.
        constants: the values of the constants by name.
        relations: the relations over validity intervals by name.
        parameters: the names of the parameters of the stream that the expression belongs to.
        is_atom_body: whether the expression is the body of an atom.
        is_end: whether the expression says when instances end.
        is_record: whether the expression is about the records of a relation.
    """

    streams: Collection[str] = ()
    atoms: Collection[str] = ()
    lets: Collection[str] = ()
    future_lets: Collection[str] = ()
    constants: Mapping[str, Constant] = _NO_CONSTANTS
    relations: Mapping[str, Shape] = _NO_RELATIONS
    parameters: Collection[str] = ()
    is_atom_body: bool = False
    is_end: bool = False
    is_record: bool = False


class _Place(NamedTuple):
    """Where a node stands: whether a condition is expected there, and whether names are columns."""

    is_condition: bool
    is_of_columns: bool


def resolve(
    expression: Expression,
    scope: Scope,
    text: str,
    source: str = "<predicate>",
    *,
    is_condition: bool = False,
) -> Expression:
    """Replace the names in an expression by what they stand for.

    A name in the body of an atom, outside the parentheses of an aggregate, is a stream or constant
    of that name, else a column. Everywhere else it is a parameter, else what is declared under it,
    else, where a condition is expected, an atom of the log, else a column. A condition is expected
    as operand of `and`, `or` and `not`, as argument of `count`, `any` and `all`, behind `if`, and
    where the caller says so; what chooses between its operands, such as `coalesce`, passes that on.

    Args:
        expression: the expression as parsed.
        scope: what names can stand for.
        text: the text that the spans of the expression refer to.
        source: the name of the text in errors.
        is_condition: whether a condition is expected of the whole expression.

    Returns:
        An expression whose columns are columns; `row.NAME` has become one.

    Raises:
        PolicyError: a let looks into the future, a name is that of a relation, there is no stream
            or relation where one is needed, or a relation has no such columns.
    """
    resolver = _Resolver(scope, text, source)
    return resolver.resolve(expression, _Place(is_condition, scope.is_atom_body))


class _Resolver:
    __slots__ = ("scope", "source", "text")

    def __init__(self, scope: Scope, text: str, source: str) -> None:
        self.scope = scope
        self.text = text
        self.source = source

    def resolve(self, root: Expression, place: _Place) -> Expression:
        done: dict[tuple[int, _Place], Expression] = {}
        # with where its operands stand once these are done
        stack: list[tuple[Expression, _Place, list[_Place] | None]] = [(root, place, None)]
        while stack:
            node, at, places = stack.pop()
            if places is not None:
                keys = zip(map(id, node.operands), places, strict=True)
                done[id(node), at] = self.resolved(node, at, tuple(done[key] for key in keys))
            elif (id(node), at) in done:
                continue
            elif node.operands:
                places = _places(node, at)
                stack.append((node, at, places))
                pairs = zip(node.operands[::-1], places[::-1], strict=True)
                stack += [(operand, own, None) for operand, own in pairs]
            else:
                done[id(node), at] = self.resolved(node, at, ())
        return done[id(root), place]

    def resolved(
        self, node: Expression, place: _Place, operands: tuple[Expression, ...]
    ) -> Expression:
        """Resolve a node whose operands are resolved."""
        operator, scope = node.operator, self.scope
        if operator is ops.ROW_COLUMN:
            return Expression(ops.COLUMN, (), node.name, node.span)
        if operator is ops.COLUMN:
            return self.name(node, place)
        if operator in _LIFE_TIMES and not scope.is_end:
            hint = f"write stream NAME = ... per ... until {operator.word}() > 10m"
            raise self.error(node, f"{operator.word}() is for until", hint)
        if operator in _RECORD_TIMES and not scope.is_record:
            hint = "write it in where, select or group of a relation"
            raise self.error(node, f"{operator.word}() is for the records of relations", hint)
        if operator is ops.OVER:
            self.require_stream(node, node.over.stream)
        elif operator is ops.INSTANCE:
            self.require_stream(node, node.name)
        elif operator in ops.LOOK_UPS:
            looked_up = looked_up_in(node, scope, self.error)
            return Expression(operator, operands, looked_up, node.span)
        if all(one is other for one, other in zip(operands, node.operands, strict=True)):
            return node
        return Expression(operator, operands, node.value, node.span)

    def name(self, node: Expression, place: _Place) -> Expression:
        name, scope = node.name, self.scope
        if name in scope.parameters:
            return Expression(ops.PARAMETER, (), name, node.span)
        if name in scope.streams:
            return Expression(ops.STREAM, (), name, node.span)
        if name in scope.constants:
            return Expression(ops.CONSTANT, (), scope.constants[name], node.span)
        if place.is_of_columns:
            return node
        if name in scope.relations:
            raise self.error(node, f"{column_text(name)} is a relation", how_to_look_up(name))
        if name in scope.lets:
            return Expression(ops.LET, (), name, node.span)
        if name in scope.future_lets:
            hint = f"only a let of the past is a value; row.{column_text(name)} is the column"
            raise self.error(node, f"let {name} looks into the future", hint)
        if name in scope.atoms or place.is_condition:
            return Expression(ops.ATOM, (), name, node.span)
        return node

    def require_stream(self, node: Expression, name: str) -> None:
        streams = self.scope.streams
        if name in streams:
            return
        if name in self.scope.relations:
            raise self.error(node, f"{column_text(name)} is a relation", how_to_look_up(name))
        hint = "declare it: stream NAME = EXPRESSION per EXPRESSION"
        if streams:
            hint = f"the streams are {some(map(column_text, streams))}"
        hint = with_advice(name, streams, hint, written=column_text)
        raise self.error(node, f"there is no stream {column_text(name)}", hint)

    def error(self, node: Expression, message: str, hint: str) -> FormulaError:
        start = 0 if node.span is None else node.span.start
        return formula_error(
            self.text, start, message, source=self.source, hint=hint, kind=PolicyError
        )


def _places(node: Expression, place: _Place) -> list[_Place]:
    """Where the operands of a node stand."""
    operator = node.operator
    if operator in _CONNECTIVES:
        places = [_Place(True, place.is_of_columns)]
    elif operator in ops.WINDOWS:
        places = [_Place(operator.word in _OF_CONDITIONS, False)]
    elif operator is ops.OVER:
        own = _Place(node.over.aggregate in _OF_CONDITIONS, False)
        return [own, *[_Place(False, place.is_of_columns)] * len(node.over.by)]
    elif operator is ops.IF:
        return [_Place(True, place.is_of_columns), place, place]
    elif operator in _CHOICES:
        places = [place]
    else:
        places = [_Place(False, place.is_of_columns)]
    return places * len(node.operands)
