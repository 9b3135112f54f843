"""Writes the steps of blocks: look-ups, comparisons and values of new variables."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from mtlmon.policy.first_order.terms import terms_of
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.relational.binding import bound_by
from mtlmon.relational.outside import MOMENT
from mtlmon.relational.plan import AtomPlan, StepPlan, cell_kind
from mtlmon.relational.programs import function_of, is_mixed, kinds_of_arguments, program_of
from mtlmon.syntax import operators as ops

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.planning.blocks import Block, Scope
    from mtlmon.relational.planning.context import Context
    from mtlmon.syntax.formula import Formula


class Steps:
    """Writes steps that need no plan of another formula.

    Args:
        context: what the parts of the planner share.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._atoms: dict[str, int] = {}

    def known_atom(self, name: str) -> int | None:
        """The number of an atom that some step looks at."""
        return self._atoms.get(name)

    def _atom(self, name: str, scope: Scope) -> int:
        found = kinds_of_arguments(name, self._context.relations)
        if name == MOMENT and not self._context.is_declared("point"):
            name = "point"
        if name not in self._atoms:
            self._atoms[name] = len(self._atoms)
            key = self._context.key_of(name)
            self._context.plan.named_atoms.append(AtomPlan(name, found, key))
        number = self._atoms[name]
        scope.atoms[number] = None
        return number

    def scan(
        self, node: Formula, block: Block, scope: Scope, mode: str, state: int | None = None
    ) -> None:
        """Add the rows of an atom, or of a let that uses itself, whose state has them."""
        number = self._atom(node.name or "", scope) if state is None else state
        found = kinds_of_arguments(node.name or "", self._context.relations)
        keys: list[tuple[int, int]] = []
        fixed: list[tuple[int, int]] = []
        equal: list[int] = []
        taken: dict[str, int] = {}
        for place, (argument, kind) in enumerate(zip(terms_of(node), found, strict=True)):
            if argument.operator is terms.WILDCARD:
                continue
            if argument.operator is terms.CONSTANT:
                cell = self._context.constant(argument.value, kind)
                if cell is None:
                    # no row has it
                    block.add(StepPlan("branch", block.width, "anti" if mode == "anti" else "semi"))
                    return
                fixed.append((place, cell))
            elif argument.name in block.columns:
                keys.append((block.columns[argument.name], place))
            elif argument.name in taken:
                equal += [taken[argument.name], place]
            else:
                taken[argument.name] = place
        source = "atom" if state is None else "neighbour"
        self.join("scan", source, number, len(found), block, mode, keys, taken, fixed, equal)

    def join(
        self,
        kind: str,
        source_kind: str,
        source: int,
        source_width: int,
        block: Block,
        mode: str,
        keys: list[tuple[int, int]],
        taken: Mapping[str, int],
        fixed: list[tuple[int, int]],
        equal: list[int],
        index: int = 0,
    ) -> None:
        """Add what looks rows up.

        Args:
            kind: "scan" or "probe".
            source_kind: what has the rows: "atom", "group" or "neighbour".
            source: its number.
            source_width: the number of its columns.
            block: the block.
            mode: "join", "semi" or "anti".
            keys: the columns of the block and of the source that must be equal.
            taken: the new variables, with their columns of the source.
            fixed: the columns of the source that must have a cell.
            equal: pairs, one after another, of columns of the source that must be equal.
            index: the index of the source that a probe uses.
        """
        if mode == "join" and not taken:
            mode = "semi"
        taken = taken if mode == "join" else {}
        seen = {place for _, place in keys} | {place for place, _ in fixed}
        seen |= {*taken.values(), *equal}
        block.add(
            StepPlan(
                kind,
                block.width + len(taken),
                mode,
                source_kind,
                source,
                index,
                is_distinct=mode == "join" and len(seen) < source_width,
                keys=tuple(key for key, _ in keys),
                matched=tuple(place for _, place in keys),
                takes=tuple(taken.values()),
                fixed=tuple(place for place, _ in fixed),
                constants=tuple(cell for _, cell in fixed),
                equal=tuple(equal),
            ),
            *taken,
        )

    def look_up(self, number: int, names: Sequence[str], block: Block, mode: str) -> None:
        """Add the rows of a state, whose columns are variables."""
        state = self._context.states[number]
        keys, taken = block.match(names)
        if state.kind == "neighbour":
            self.join("scan", "neighbour", number, len(names), block, mode, keys, taken, [], [])
            return
        columns = tuple(place for _, place in keys)
        index = 0 if len(columns) == len(names) else self._context.index(number, columns)
        self.join("probe", "neighbour", number, len(names), block, mode, keys, taken, [], [], index)

    def compare(self, node: Formula, block: Block, fresh: frozenset[str]) -> None:
        """Add a comparison without aggregates, which may bind a variable.

        Args:
            node: the comparison.
            block: the block.
            fresh: variables of the block that only this comparison has.
        """
        (term,) = terms_of(node)
        bound = block.bound
        is_equality = not is_mixed(node, self._context.kinds, self._context.environment)
        target = bound_by(term, bound) if is_equality else None
        if target is None:
            self.program(term, block, None)
        elif term.operator is terms.IN:
            cells = [
                self._context.constant(one, self._context.kinds[target]) for one in term.members
            ]
            values = tuple(dict.fromkeys(cell for cell in cells if cell is not None))
            block.add(StepPlan("listed", block.width + 1, constants=values), target)
        else:
            one, other = term.operands
            is_first = one.operator is terms.VARIABLE and one.name == target
            value = other if is_first else one
            kind_of = self._context.kinds
            is_fresh = value.operator is terms.VARIABLE and value.name in fresh
            if is_fresh and cell_kind(kind_of[value.name]) == cell_kind(kind_of[target]):
                # the column gets the other name
                block.columns[target] = block.columns.pop(value.name)
            else:
                self.program(value, block, target)

    def program(
        self, term: Expression, block: Block, target: str | None, mode: str = "semi"
    ) -> None:
        """Add a condition, or the value of a new variable."""
        kind = None if target is None else self._context.kinds[target]
        cell = "integer" if kind is None else cell_kind(kind)
        new = () if target is None else (target,)
        width = block.width + len(new)
        try:
            program = program_of(
                term,
                block.columns,
                self._context.kinds,
                self._context.environment,
                self._context.texts,
                kind,
            )
        except NotPossible:
            names, function = function_of(
                term, self._context.kinds, self._context.environment, kind
            )
            self._context.plan.functions.append(function)
            columns = tuple(block.columns[name] for name in names)
            block.add(
                StepPlan(
                    "call",
                    width,
                    mode,
                    source=len(self._context.plan.functions) - 1,
                    columns=columns,
                    is_binding=target is not None,
                    cell=cell,
                ),
                *new,
            )
            return
        self._context.plan.programs.append(program)
        block.add(
            StepPlan(
                "compute",
                width,
                mode,
                source=len(self._context.plan.programs) - 1,
                is_binding=target is not None,
                cell=cell,
            ),
            *new,
        )

    def attempt(self, nodes: Iterable[Formula], block: Block) -> None:
        """Add comparisons that keep rows for which one overflows, up to one no machine computes."""
        # a condition without a value is false
        false = Expression(terms.CONSTANT, (), False)
        conditions: list[Expression] = []
        for node in nodes:
            is_negated = node.operator is ops.NOT
            (term,) = terms_of(node.operands[0] if is_negated else node)
            term = Expression(terms.COALESCE, (term, false))
            conditions.append(Expression(terms.NOT, (term,)) if is_negated else term)
        context = self._context
        while conditions:
            found = reduce(lambda one, other: Expression(terms.AND, (one, other)), conditions)
            try:
                program = program_of(
                    found, block.columns, context.kinds, context.environment, context.texts
                )
            except NotPossible:
                conditions.pop()
                continue
            context.plan.programs.append(program)
            block.add(StepPlan("attempt", block.width, source=len(context.plan.programs) - 1))
            break

    def simple(self, value: Expression, kind: Kind, block: Block) -> Expression:
        """A term as one that machines compute; others become a variable that Python computes."""
        try:
            program_of(
                value,
                block.columns,
                self._context.kinds,
                self._context.environment,
                self._context.texts,
            )
        except NotPossible:
            name = self._context.fresh("value")
            self._context.kinds[name] = kind
            self.program(value, block, name)
            return Expression(terms.VARIABLE, (), name, value.span)
        return value

    def leave_out(self, hidden: Iterable[str], block: Block) -> None:
        """Leave out the columns of variables."""
        left_out = {block.columns[name] for name in hidden if name in block.columns}
        kept = [place for place in range(block.width) if place not in left_out]
        names = {place: name for name, place in block.columns.items()}
        block.columns = {
            names[place]: number for number, place in enumerate(kept) if place in names
        }
        block.width = len(kept)
        block.steps.append(StepPlan("project", len(kept), columns=tuple(kept), is_distinct=True))

    def arrange(self, block: Block, names: Sequence[str]) -> None:
        """Bring the columns of a query into their order."""
        columns = tuple(block.columns[name] for name in names)
        if columns != tuple(range(block.width)):
            is_distinct = len(set(columns)) < block.width
            block.width = len(columns)
            block.columns = {name: place for place, name in enumerate(names)}
            block.steps.append(
                StepPlan("project", len(columns), columns=columns, is_distinct=is_distinct)
            )
