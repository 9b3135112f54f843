"""The syntax tree, with one immutable class for all nodes."""

from __future__ import annotations

from mtlmon.syntax import operators as ops
from mtlmon.syntax.interval import Interval
from mtlmon.syntax.native import STRICT, FormulaNode, Span
from mtlmon.syntax.operators import Operator
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping
    from typing import NoReturn, Protocol, TypeAlias

    from mtlmon.syntax.build import Bound

    class Terms(Hashable, Protocol):
        """The arguments of a predicate, or a comparison, of whose language formulas know nothing.

        Terms are immutable; they can be compared, hashed and pickled.
        """

        def parts(self, operands: tuple[Formula, ...]) -> list[str | Formula]:
            """Return the text in pieces, with the operands among them."""

    Value: TypeAlias = "Terms | tuple[str, ...] | str | None"

    # Operator, numbers of the operands, interval, name, span; for first-order operators, the value.
    _Row = (
        tuple[Operator, tuple[int, ...], Interval | None, str | None, "Span | None"]
        | tuple[Operator, tuple[int, ...], Interval | None, str | None, "Span | None", Value]
    )


__all__ = ["FALSE", "STRICT", "TRUE", "Formula", "Span", "atom", "make"]


class Formula(FormulaNode):
    """A formula of metric temporal logic: an operator applied to operands.

    Formulas are immutable. Equality and hash are structural and ignore spans. Nodes can be shared,
    so a formula is a directed acyclic graph, and they can nest as deeply as memory allows, because
    no function here is recursive.

    Combine formulas with `&`, `|`, `~` and `>>` (implies), and with the methods named like the
    binary operators. Python's `>>` binds tighter than `&` and `|`, so write `(p & q) >> r` or
    `(p & q).implies(r)`.

    Attributes:
        operator: a row of `mtlmon.syntax.operators`.
        operands: the operands, as many as the operator's arity.
        interval: the interval of a temporal operator, by default `Interval.FULL`; None for other
            operators.
        name: the name of an atom or predicate; None for other operators.
        span: the place in the source text, or None if there is none.
        value: the variables of a quantifier, the terms of a predicate or comparison; `STRICT` for a
            strict SINCE or UNTIL; None for other operators.
        is_first_order: whether it has quantifiers, atoms with arguments, or comparisons of
            variables.
        atoms: the names of the atoms, in order of first occurrence.
        is_bounded: whether every future operator except NEXT has an upper bound.
        looks_ahead: whether it has a future operator.

    Raises:
        ValueError: operands, interval, name or value do not fit the operator.
    """

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Formula is immutable, {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Formula is immutable, {name} cannot be deleted")

    def content(self) -> tuple[object, ...]:
        """Everything about the node except its operands and its span."""
        return self.operator.name, self.interval, self.name, self.value

    def __str__(self) -> str:
        """Write the formula with as few parentheses as possible; `parse` parses it back.

        Shared subformulas are written each time they occur. If that makes more than a million
        subformulas, each shared one is written once, as a `let` of a policy file, which
        `mtlmon.policy.parse_policies` parses.
        """
        from mtlmon.syntax.printer import WRITTEN_LIMIT, to_declarations, to_text, written_size

        if written_size(self) > WRITTEN_LIMIT:
            return to_declarations(self)
        return to_text(self)

    def _repr_svg_(self) -> str:
        """The tree of the formula with its reaches, which notebooks show."""
        from mtlmon.analysis.tree import formula_tree

        return formula_tree(self)

    def __repr__(self) -> str:
        from mtlmon.syntax.printer import WRITTEN_LIMIT, written_size
        from mtlmon.syntax.rewrite import has_durations

        if written_size(self) > WRITTEN_LIMIT:
            count = len(postorder(self))
            return f"<Formula of {count:,} subformulas, more than {WRITTEN_LIMIT:,} written out>"
        unit = ", unit='later'" if has_durations(self) else ""
        if self.is_first_order:
            return f"parse_policies({str(self)!r}{unit}).policies[0].formula"
        return f"parse({str(self)!r}{unit})"

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a formula is neither true nor false: combine formulas with & | ~ and >>, "
            "not with and, or, not"
        )

    def __invert__(self) -> Formula:
        return Formula(ops.NOT, (self,))

    def __and__(self, other: Formula | bool) -> Formula:
        return _combined(ops.AND, self, other)

    def __rand__(self, other: bool) -> Formula:
        return _combined(ops.AND, other, self)

    def __or__(self, other: Formula | bool) -> Formula:
        return _combined(ops.OR, self, other)

    def __ror__(self, other: bool) -> Formula:
        return _combined(ops.OR, other, self)

    def __rshift__(self, other: Formula | bool) -> Formula:
        return _combined(ops.IMPLIES, self, other)

    def __rrshift__(self, other: bool) -> Formula:
        return _combined(ops.IMPLIES, other, self)

    def implies(self, other: Formula | bool) -> Formula:
        """`self IMPLIES other`, the same as `self >> other`."""
        return _joined(ops.IMPLIES, self, other)

    def iff(self, other: Formula | bool) -> Formula:
        """`self EQUIV other`: true where both are true or both are false."""
        return _joined(ops.IFF, self, other)

    def since(
        self, other: Formula | bool, lower: Bound | None = None, upper: Bound | None = None
    ) -> Formula:
        """`self SINCE[lower,upper] other`: self ever since other. Bounds as in `eventually`."""
        return _joined(ops.SINCE, self, other, lower, upper)

    def trigger(
        self, other: Formula | bool, lower: Bound | None = None, upper: Bound | None = None
    ) -> Formula:
        """`self TRIGGER[lower,upper] other`: other ever since self triggered it."""
        return _joined(ops.TRIGGER, self, other, lower, upper)

    def until(
        self, other: Formula | bool, lower: Bound | None = None, upper: Bound | None = None
    ) -> Formula:
        """`self UNTIL[lower,upper] other`: self until other comes. Bounds as in `eventually`."""
        return _joined(ops.UNTIL, self, other, lower, upper)

    def release(
        self, other: Formula | bool, lower: Bound | None = None, upper: Bound | None = None
    ) -> Formula:
        """`self RELEASE[lower,upper] other`: other until self releases it."""
        return _joined(ops.RELEASE, self, other, lower, upper)

    def weak_until(
        self, other: Formula | bool, lower: Bound | None = None, upper: Bound | None = None
    ) -> Formula:
        """`self WEAK_UNTIL[lower,upper] other`: self until other, which need not come."""
        return _joined(ops.WEAK_UNTIL, self, other, lower, upper)

    def substitute(self, parts: Mapping[str, Formula | bool]) -> Formula:
        """Replace atoms by formulas, all at once.

        Args:
            parts: the replacements by the names of atoms. Other atoms are kept, and names that do
                not occur in the formula are ignored.

        >>> from mtlmon import parse
        >>> policy = parse("late IMPLIES ONCE[0,9] excuse")
        >>> policy.substitute({"late": parse("arrive AND NOT ONCE[0,5] ring")})
        parse('(arrive AND NOT ONCE[0,5] ring) IMPLIES ONCE[0,9] excuse')
        """
        from mtlmon.syntax.rewrite import substitute

        return substitute(self, parts)

    def in_unit(self, unit: str) -> Formula:
        """Convert bounds with units to numbers, for time-stamps in the given unit.

        Bounds without a unit are taken to be in this unit already.

        Args:
            unit: "ns", "us", "ms", "s", "m", "h" or "d".

        Raises:
            FormulaError: a bound is not a whole number of units, or an interval is empty.
            UnitError: the unit is unknown.

        >>> from mtlmon import atom, eventually
        >>> eventually(atom("response"), 0, "5s").in_unit("ms")
        parse('EVENTUALLY[0,5000] response')
        """
        from mtlmon.syntax.rewrite import in_unit

        return in_unit(self, unit)

    def __copy__(self) -> Formula:
        return self

    def __deepcopy__(self, memo: object) -> Formula:
        return self

    def __reduce__(self) -> tuple[Callable[[list[_Row]], Formula], tuple[list[_Row]]]:
        return _from_rows, (_to_rows(self),)

    @property
    def past_reach(self) -> int | None:
        """How far back in time a verdict can depend, in time units; None if there is no limit."""
        from mtlmon.analysis.reach import past_reach

        return past_reach(self)

    @property
    def future_reach(self) -> int | None:
        """How far ahead in time a verdict can depend, in time units; None if there is no limit."""
        from mtlmon.analysis.reach import future_reach

        return future_reach(self)


def make(
    operator: Operator,
    *operands: Formula,
    interval: Interval | None = None,
    name: str | None = None,
    span: Span | None = None,
    value: Value = None,
) -> Formula:
    """Make a formula from an operator and separate operands, as in `make(ops.AND, f, g)`."""
    return Formula(operator, operands, interval, name, span, value)


def atom(name: str) -> Formula:
    """Make the atomic proposition with the given name."""
    return Formula(ops.ATOM, name=name)


TRUE = Formula(ops.TRUE)
FALSE = Formula(ops.FALSE)


def _combined(operator: Operator, left: Formula | bool, right: Formula | bool) -> Formula:
    """Implements Python's operators; other operands can define the operator themselves."""
    if not isinstance(left, Formula | bool) or not isinstance(right, Formula | bool):
        return NotImplemented
    return _joined(operator, left, right)


def _joined(
    operator: Operator,
    left: Formula | bool,
    right: Formula | bool,
    lower: Bound | None = None,
    upper: Bound | None = None,
) -> Formula:
    from mtlmon.syntax.build import apply

    return apply(operator, (left, right), lower, upper)


def _to_rows(formula: Formula) -> list[_Row]:
    """A flat table of the nodes, to pickle formulas of any depth; shared nodes stay shared."""
    rows: list[_Row] = []
    row_of: dict[int, int] = {}
    for node in postorder(formula):
        row_of[id(node)] = len(rows)
        operands = tuple(row_of[id(operand)] for operand in node.operands)
        row = (node.operator, operands, node.interval, node.name, node.span)
        rows.append(row if node.value is None else (*row, node.value))
    return rows


def _from_rows(rows: list[_Row]) -> Formula:
    nodes: list[Formula] = []
    for row in rows:
        operator, operands, interval, name, span = row[:5]
        value = row[5] if len(row) > 5 else None
        taken = tuple(nodes[i] for i in operands)
        nodes.append(Formula(operator, taken, interval, name, span, value))
    return nodes[-1]
