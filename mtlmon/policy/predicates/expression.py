"""The syntax tree of predicates, with one immutable class for all nodes."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from mtlmon.policy.predicates import operators as ops
from mtlmon.syntax.traversal import number_by, postorder

if TYPE_CHECKING:
    from mtlmon.policy.predicates.operators import Operator
    from mtlmon.syntax.formula import Span

Constant: TypeAlias = bool | int | Decimal | str | None


class Expression:
    """An operator or function applied to operands, a column, or a constant.

    Expressions are immutable. Equality and hash are structural and ignore spans. Nodes can nest as
    deeply as memory allows, because no function here is recursive.

    Attributes:
        operator: a row of `mtlmon.policy.predicates.operators`.
        operands: the operands, as many as the operator's arity.
        value: the name of a column, the value of a constant (numbers with a fraction or an exponent
            are Decimals), the tuple of values of IN and NOT_IN, and otherwise None.
        span: the place in the source text, or None if there is none.
    """

    __slots__ = ("_hash", "operands", "operator", "span", "value")

    operator: Operator
    operands: tuple[Expression, ...]
    value: Constant | tuple[Constant, ...]
    span: Span | None
    _hash: int

    def __init__(
        self,
        operator: Operator,
        operands: tuple[Expression, ...] = (),
        value: Constant | tuple[Constant, ...] = None,
        span: Span | None = None,
    ) -> None:
        if len(operands) != operator.arity:
            raise ValueError(f"{operator} takes {operator.arity} operands, not {len(operands)}")
        set_slot = object.__setattr__
        set_slot(self, "operator", operator)
        set_slot(self, "operands", operands)
        set_slot(self, "value", value)
        set_slot(self, "span", span)
        set_slot(self, "_hash", hash((operator.name, operands, value_key(value))))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an Expression is immutable, {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an Expression is immutable, {name} cannot be deleted")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return _equal(self, other)

    def __str__(self) -> str:
        from mtlmon.policy.predicates.printer import to_text

        return to_text(self)

    def __repr__(self) -> str:
        return f"<Expression {self}>"


def value_key(value: Constant | tuple[Constant, ...]) -> object:
    """A key that distinguishes values: True, 1 and 1.0 are equal in Python, but not here."""
    if isinstance(value, tuple):
        return tuple(map(value_key, value))
    return type(value).__name__, value


def number(*roots: Expression) -> tuple[list[Expression], dict[int, int]]:
    """Number the distinct subexpressions.

    Subexpressions that are equal except for their spans get the same number. Operands come before
    operators.

    Returns:
        A representative for each number, in order, and the number of every node by its `id`, valid
        as long as the roots exist.
    """
    return number_by(_content, *roots)


def _content(node: Expression) -> object:
    return node.operator.name, value_key(node.value)


def columns(*roots: Expression) -> tuple[str, ...]:
    """Return the names of the columns, in order of first occurrence."""
    names: dict[str, None] = {}
    for node in postorder(*roots):
        if node.operator is ops.COLUMN:
            assert isinstance(node.value, str)
            names[node.value] = None
    return tuple(names)


def _equal(left: Expression, right: Expression) -> bool:
    compared: set[tuple[int, int]] = set()
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        if a is b or (id(a), id(b)) in compared:
            continue
        if a._hash != b._hash or a.operator is not b.operator:
            return False
        if value_key(a.value) != value_key(b.value):
            return False
        compared.add((id(a), id(b)))
        stack.extend(zip(a.operands, b.operands, strict=True))
    return True
