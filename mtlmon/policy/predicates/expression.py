"""The syntax tree of expressions, with one immutable class for all nodes."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias

from mtlmon.policy.predicates import operators as ops
from mtlmon.syntax.native import ExpressionNode
from mtlmon.syntax.traversal import number_by, postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    import pyarrow as pa

    from mtlmon.policy.predicates.operators import Operator
    from mtlmon.policy.predicates.own_aggregates import OwnAggregate
    from mtlmon.policy.predicates.own_functions import OwnFunction
    from mtlmon.policy.predicates.own_machines import OwnMachine
    from mtlmon.syntax.durations import Duration
    from mtlmon.syntax.formula import Span
    from mtlmon.syntax.interval import Interval

Constant: TypeAlias = bool | int | Decimal | str | None


class Window(NamedTuple):
    """What an aggregate looks at.

    Attributes:
        interval: how far back, as for ONCE; a `DurationInterval` where the unit is not known yet.
        parameters: the constants behind the argument.
        default: the value where nothing is in the window; None is null, and for `count`,
            `distinct`, `any` and `all` what they are of nothing.
        own: the aggregate, if a program defines it.
        machine: for a machine, which one it is; its interval has all rows.
    """

    interval: Interval
    parameters: tuple[Constant, ...] = ()
    default: Constant = None
    own: OwnAggregate | None = None
    machine: OwnMachine | None = None


class Offset(NamedTuple):
    """Which other value LAST, NEXT, AT or HOLD is.

    Attributes:
        distance: for LAST and NEXT, how many values away, at least 1; for AT, how long ago, in the
            unit of the time-stamps or, where that is not known yet, as a `Duration`; for HOLD, how
            many values before the newest one, which is 0.
        default: the value where there is none; None is null.
        is_later: for AT, whether the distance is how much later.
    """

    distance: int | Duration
    default: Constant = None
    is_later: bool = False


class Over(NamedTuple):
    """An aggregate over the live instances of a stream.

    Attributes:
        aggregate: one of `mtlmon.policy.predicates.operators.OVER_WORDS`.
        stream: the name of the stream.
        parameters: the constants behind it.
        by: the values behind `per` that the instances of a group share, by name or column; () if
            all instances are one group. The values wanted are the operands behind the first.
    """

    aggregate: str
    stream: str
    parameters: tuple[Constant, ...] = ()
    by: tuple[str, ...] = ()


class LookedUp(NamedTuple):
    """What is looked up in a relation.

    Attributes:
        relation: the name of the relation.
        column: the column whose value is wanted; None where it matters only whether there is one.
        names: the columns whose values the operands are, as written; None if they are not written.
        keys: the columns whose values the operands are; None until names are resolved.
    """

    relation: str
    column: str | None = None
    names: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None


class Aggregate(NamedTuple):
    """An aggregate over the valuations of a formula.

    Attributes:
        word: one of `mtlmon.policy.predicates.operators.FORMULA_AGGREGATES`.
        formula: the number of the formula among the operands of the predicate or comparison that
            the expression belongs to.
        by: the variables whose values tell groups apart; None if all valuations are one group.
        is_of_rows: whether there are no groups without rows, as in MonPoly's language; otherwise
            COUNT and SUM of them are 0.
    """

    word: str
    formula: int
    by: tuple[str, ...] | None
    is_of_rows: bool = False


Value: TypeAlias = (
    "Constant | tuple[Constant, ...] | Window | Offset | Over | LookedUp | Aggregate | OwnFunction"
)
# Operator, numbers of the operands, value, span.
_Row: TypeAlias = "tuple[Operator, tuple[int, ...], Value, Span | None]"


class ComputedColumn(str):
    """The name of a column that has the values of an expression; messages show that instead.

    Attributes:
        node: the expression.
    """

    __slots__ = ("node",)

    node: Expression

    def __new__(cls, name: str, node: Expression) -> ComputedColumn:
        """Make the name of a column for an expression."""
        column = super().__new__(cls, name)
        column.node = node
        return column


NUMBER = "number"
"""The type of columns that are read as integers, and as floats once a number has a point."""
FLOATS = "floats"
"""The type of columns that are read as floats from the first row on, and have no integers that
floats do not tell apart: the engine for variables cannot make floats of integers later.
"""
ORDERED = "ordered"
"""The type of columns of which only the order is used, and whose first value says the rest."""
ORDERED_FLOATS = "ordered floats"
"""Likewise, with numbers read as FLOATS."""


class TypedColumn(str):
    """The name of a column whose cells an expression reads as values of a type.

    Where cells are texts or have types of their own, `read_as` is the column with these values;
    where there is none, the column itself has a type.

    Attributes:
        type: a type that can be declared, or NUMBER, FLOATS, ORDERED or
            ORDERED_FLOATS.
    """

    __slots__ = ("type",)

    type: str

    def __new__(cls, name: str, type: str) -> TypedColumn:
        """Make the name of a column that is read as values of a type."""
        column = super().__new__(cls, name)
        column.type = type
        return column

    @property
    def read_as(self) -> str:
        """The name of the column with the values of this type."""
        return read_as(str(self), self.type)

    def __reduce__(self) -> tuple[Callable[[str, str], TypedColumn], tuple[str, str]]:
        return TypedColumn, (str(self), self.type)


def read_as(name: str, type: str) -> str:
    """Return the name of the column with the cells of a column as values of a type."""
    return f"{name}\0{type}"


def column_in(names: Container[str], name: str) -> str:
    """Return the column among some names that an expression reads which names a column."""
    if isinstance(name, TypedColumn):
        return name.read_as if name.read_as in names else str(name)
    return name


def column_of_schema(schema: pa.Schema, name: str) -> str:
    """Return the column of a schema that an expression reads which names a column.

    PERF: looking for it in `schema.names`, a new list each time, took 0.5 s for 1,000 windows.
    """
    if isinstance(name, TypedColumn):
        return name.read_as if schema.get_all_field_indices(name.read_as) else str(name)
    return name


class Expression(ExpressionNode):
    """An operator or function applied to operands, a column, or a constant.

    Expressions are immutable. Equality and hash are structural and ignore spans. Nodes can nest as
    deeply as memory allows, because no function here is recursive.

    Attributes:
        operator: a row of `mtlmon.policy.predicates.operators`.
        operands: the operands, as many as the operator's arity.
        value: the name of a column, stream, atom, let, parameter, variable or INSTANCE, the value
            of a constant (numbers with a fraction or an exponent are Decimals), the tuple of values
            of IN and NOT_IN, a `Window`, `Offset`, `Over`, `LookedUp`, `Aggregate` or
            `OwnFunction`, and otherwise None.
        span: the place in the source text, or None if there is none.
    """

    __slots__ = ()

    def content(self) -> tuple[object, ...]:
        """Everything about the node except its operands and its span."""
        return self.operator.name, value_key(self.value)

    @property
    def name(self) -> str:
        """The value of a node that is or has a name."""
        assert isinstance(self.value, str)
        return self.value

    @property
    def constant(self) -> Constant:
        """The value of a constant."""
        assert self.value is None or isinstance(self.value, bool | int | Decimal | str)
        return self.value

    @property
    def members(self) -> tuple[Constant, ...]:
        """The value of IN and NOT_IN."""
        assert isinstance(self.value, tuple)
        assert not isinstance(self.value, Window | Offset | Over | LookedUp | Aggregate)
        return self.value

    @property
    def window(self) -> Window:
        """The value of an aggregate."""
        assert isinstance(self.value, Window)
        return self.value

    @property
    def machine(self) -> OwnMachine:
        """The machine that is called."""
        machine = self.window.machine
        assert machine is not None
        return machine

    @property
    def own_function(self) -> OwnFunction:
        """The value of OWN_FUNCTION."""
        from mtlmon.policy.predicates.own_functions import OwnFunction

        assert isinstance(self.value, OwnFunction)
        return self.value

    @property
    def offset(self) -> Offset:
        """The value of LAST, NEXT, AT and HOLD."""
        assert isinstance(self.value, Offset)
        return self.value

    @property
    def over(self) -> Over:
        """The value of OVER."""
        assert isinstance(self.value, Over)
        return self.value

    @property
    def looked_up(self) -> LookedUp:
        """The value of LOOK_UP and EXISTS."""
        assert isinstance(self.value, LookedUp)
        return self.value

    @property
    def aggregate(self) -> Aggregate:
        """The value of COUNT_FORMULA and AGGREGATE_FORMULA."""
        assert isinstance(self.value, Aggregate)
        return self.value

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an Expression is immutable, {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an Expression is immutable, {name} cannot be deleted")

    def __reduce__(self) -> tuple[Callable[[list[_Row]], Expression], tuple[list[_Row]]]:
        return _from_rows, (_to_rows(self),)

    def __str__(self) -> str:
        from mtlmon.policy.predicates.printer import to_text

        return to_text(self)

    def __repr__(self) -> str:
        return f"<Expression {self}>"


def value_key(value: object) -> object:
    """A key that distinguishes values: True, 1 and 1.0 are equal in Python, but not here."""
    if isinstance(value, tuple):
        return tuple(map(value_key, value))
    if isinstance(value, TypedColumn):
        return value.type, value.read_as
    return type(value).__name__, value


def number(*roots: Expression) -> tuple[list[Expression], dict[int, int]]:
    """Number the distinct subexpressions.

    Subexpressions that are equal except for their spans get the same number. Operands come before
    operators.

    Returns:
        A representative for each number, in order, and the number of every node by its `id`, valid
        as long as the roots exist.
    """
    return number_by(Expression.content, *roots)


def columns(*roots: Expression) -> tuple[str, ...]:
    """Return the names of the columns, in order of first occurrence."""
    names: dict[str, None] = {}
    for node in postorder(*roots):
        if node.operator in ops.COLUMNS:
            names[str(node.name)] = None
    return tuple(names)


def typed_columns(*roots: Expression) -> tuple[str, ...]:
    """Return the names of the columns as they are read, so some are `TypedColumn`, each once."""
    found: dict[object, str] = {}
    for node in postorder(*roots):
        if node.operator in ops.COLUMNS:
            found.setdefault(value_key(node.value), node.name)
    return tuple(found.values())


def _to_rows(expression: Expression) -> list[_Row]:
    """A flat table of the nodes, to pickle expressions of any depth; shared nodes stay shared."""
    rows: list[_Row] = []
    row_of: dict[int, int] = {}
    for node in postorder(expression):
        row_of[id(node)] = len(rows)
        operands = tuple(row_of[id(operand)] for operand in node.operands)
        rows.append((node.operator, operands, node.value, node.span))
    return rows


def _from_rows(rows: list[_Row]) -> Expression:
    nodes: list[Expression] = []
    for operator, operands, value, span in rows:
        nodes.append(Expression(operator, tuple(nodes[i] for i in operands), value, span))
    return nodes[-1]
