"""Moves formulas and expressions of one policy file into a file that joins several.

Only names that clash are renamed. Nodes are built anew. If the zone of a file is not that of the
run, functions of times get it. Spans of nodes are moved into one `JoinedText`: `formula_error`
finds the file and the line of a position in it, so errors need not know how many files there are.
"""

from __future__ import annotations

from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Expression
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula, Span
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.policy.definitions import Clock
    from mtlmon.policy.policy_file import PolicyFile

DECLARED = frozenset({terms.STREAM, terms.ATOM, terms.LET, terms.INSTANCE})
"""The operators of expressions whose name is declared in a file, or is an atom of the log."""


class Renamer:
    """Gives parts of a file their names and places in the file that it is joined into.

    Parts that are shared stay shared.

    Args:
        offset: how far the text of the file is moved.
        names: the new names of what the file declares; all others stay.
        zone: the time zone of the file, if it is not that of the joined file; otherwise None.
    """

    def __init__(self, offset: int, names: Mapping[str, str], zone: str | None) -> None:
        self.offset = offset
        self.names = names
        self.zone = zone
        # By `id`, with the node itself, which keeps the number from being used again.
        self._expressions: dict[int, tuple[Expression, Expression]] = {}
        self._formulas: dict[int, tuple[Formula, Formula]] = {}

    def name(self, name: str) -> str:
        """Return the new name of an atom, let or stream."""
        return self.names.get(name, name)

    def place(self, place: int) -> int:
        """Return the position in the joined text."""
        return place + self.offset

    def expression(self, root: Expression) -> Expression:
        """Return an expression whose names are the new ones."""
        done = self._expressions
        for node in postorder(root):
            if id(node) in done:
                continue
            value = node.value
            if node.operator in DECLARED:
                value = self.name(node.name)
            elif node.operator is terms.OVER:
                value = node.over._replace(stream=self.name(node.over.stream))
            elif node.operator in terms.LOOK_UPS:
                looked_up = node.looked_up
                value = looked_up._replace(relation=self.name(looked_up.relation))
            elif node.operator in terms.TIME_FUNCTIONS and self.zone is not None:
                value = self.zone
            operands = tuple(done[id(operand)][1] for operand in node.operands)
            moved = Expression(node.operator, operands, value, self._span(node.span))
            done[id(node)] = (node, moved)
        return done[id(root)][1]

    def formula(self, root: Formula) -> Formula:
        """Return a formula whose names are the new ones."""
        from mtlmon.policy.first_order.terms import Terms

        done = self._formulas
        for node in postorder(root):
            if id(node) in done:
                continue
            name, value = node.name, node.value
            if name is not None and node.operator in (ops.ATOM, ops.PREDICATE):
                name = self.name(name)
            if isinstance(value, Terms):
                value = Terms(*map(self.expression, value.expressions))
            operands = tuple(done[id(operand)][1] for operand in node.operands)
            span = self._span(node.span)
            moved = Formula(node.operator, operands, node.interval, name, span, value)
            done[id(node)] = (node, moved)
        return done[id(root)][1]

    def optional(self, expression: Expression | None) -> Expression | None:
        """Return an expression as `expression` does, or None for None."""
        return None if expression is None else self.expression(expression)

    def clock(self, clock: Clock | None) -> Clock | None:
        """Return the time-points of a policy or stream with the new names."""
        if clock is None:
            return None
        from mtlmon.policy.definitions import Clock
        from mtlmon.policy.predicates.time_points import Changes

        atom = None if clock.atom is None else self.name(clock.atom)
        period = clock.period
        if isinstance(period, Changes):
            period = Changes(self.name(period.relation), period.place + self.offset)
        return Clock(self.optional(clock.condition), period, atom)

    def _span(self, span: Span | None) -> Span | None:
        if span is None or not self.offset:
            return span
        return Span(span.start + self.offset, span.end + self.offset, span.indirect)


def used_names(file: PolicyFile) -> set[str]:
    """Return the names of atoms, lets and streams that a file declares or reads from the log."""
    names = {*file.lets, *file.streams, *file.relations, *file.intervals}
    names |= {name for name, one in file.atoms.items() if one.name is not None}
    conditions = set(file.conditions)
    formulas = [*file.lets.values()]
    for policy in file.policies:
        formulas += (policy.formula, policy.written)
        if policy.clock is not None and policy.clock.atom is not None:
            names.add(policy.clock.atom)
    for node in postorder(*formulas):
        if node.name is not None:
            names.add(node.name)
    for part in postorder(*expressions_of(file)):
        if part.operator in DECLARED:
            names.add(part.name)
    return names - (conditions - set(file.streams))


def expressions_of(file: PolicyFile) -> list[Expression]:
    """Return all expressions of a file outside its formulas."""
    found = [one.expression for one in file.atoms.values()]
    for stream in file.streams.values():
        found += stream.expressions
    for relation in file.relations.values():
        found += [] if relation.condition is None else [relation.condition]
        found += [one.expression for one in relation.arguments if one.expression is not None]
    found += file.shown.values()
    found += [
        policy.clock.condition
        for policy in file.policies
        if policy.clock is not None and policy.clock.condition is not None
    ]
    return found
