"""Plans the states of temporal operators, and the steps that look them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.first_order.terms import free_in, terms_of
from mtlmon.policy.predicates import operators as terms
from mtlmon.relational.binding import conjuncts
from mtlmon.relational.normal import normal_form
from mtlmon.relational.plan import NO_QUERY, LeftPlan, SidePlan, StatePlan, StepPlan
from mtlmon.relational.planning.blocks import Block, Scope
from mtlmon.relational.planning.formulas import joined, shape, sides
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import STRICT, Formula
from mtlmon.syntax.interval import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.relational.meeting import Meeting
    from mtlmon.relational.planning.blocks import Names
    from mtlmon.relational.planning.context import Context
    from mtlmon.relational.planning.planner import Planner
    from mtlmon.relational.planning.steps import Steps

_KINDS = {
    ops.ONCE: "window",
    ops.EVENTUALLY: "window",
    ops.HISTORICALLY: "counts",
    ops.ALWAYS: "counts",
    ops.SINCE: "since",
    ops.UNTIL: "until",
    ops.PREVIOUS: "neighbour",
    ops.NEXT: "neighbour",
}


class States:
    """Plans the states of temporal operators.

    Args:
        context: what the parts of the planner share.
        steps: writes steps.
        planner: plans the operands.

    Attributes:
        waiting: the states of lets that use themselves, by name, before their queries are known.
    """

    def __init__(self, context: Context, steps: Steps, planner: Planner) -> None:
        self._context = context
        self._steps = steps
        self._planner = planner
        # the states with the rows of lets that use themselves, which lack a query
        self.waiting: dict[int, str] = {}

    def state(
        self,
        node: Formula,
        operand: Formula,
        names: Sequence[str],
        scope: Scope,
        *,
        is_exact: bool = False,
        pruned_by: object | None = None,
    ) -> int:
        """The state of an operator; equal operators that stand at the same time-point share one.

        With `is_exact`, the state keeps all time-points of its rows. With `pruned_by`, it is one of
        its own for what forgets some of its rows.
        """
        assert node.interval is not None
        interval = node.interval
        operator = node.operator
        key = (
            operator,
            interval.lower,
            interval.upper,
            scope.owner,
            is_exact,
            pruned_by,
            node.value == STRICT,
            tuple(shape(one, names) for one in node.operands),
        )
        if key in self._context.known_states:
            number = self._context.known_states[key]
            for one in (*self._context.needed[number], number):
                scope.states[one] = None
            self._context.uses.use("state", number, names)
            return number
        if operator.is_future and operator is not ops.NEXT and not interval.is_bounded:
            raise self._context.error(
                node,
                f"{operator.word} looks ahead without bound, which policies with variables cannot",
                f"give it an interval: {operator.word}[0,b]",
            )
        self._context.uses.begin(names)
        query = self._planner.operand(operand, names)
        indexes: list[tuple[int, ...]] = [tuple(range(len(names)))]
        lefts: list[LeftPlan] = []
        feeds: list[tuple[int, int | None]] = [(query, None)]
        inner = Scope(scope.owner)
        if operator in (ops.SINCE, ops.UNTIL):
            for part in conjuncts(node.operands[0]):
                for left in self._lefts(part, node, names, indexes, inner):
                    if left.operand != NO_QUERY:
                        feeds.append((left.operand, len(lefts)))
                    lefts.append(left)
        number = self._context.add_state(
            StatePlan(
                _KINDS[operator],
                operator.is_future,
                interval.lower,
                interval.upper,
                len(names),
                self._context.text_columns(names),
                query,
                indexes,
                lefts,
                is_exact=is_exact,
                is_strict=node.value == STRICT,
            ),
            key,
            list(inner.states),
        )
        self._context.uses.end("state", number)
        self._context.uses.use("state", number, names)
        for one in (*inner.states, number):
            scope.states[one] = None
        scope.atoms |= inner.atoms
        for feeder, place in feeds:
            self._context.plan.queries[feeder].consumers.append((number, place))
        return number

    def present(self, node: Formula, scope: Scope) -> int:
        """The state with the rows that a let which uses itself has at a time-point."""
        context = self._context
        name = node.name or ""
        names = context.lets[name].names
        own = [term.name if term.operator is terms.VARIABLE else None for term in terms_of(node)]
        key = ("present", name, scope.owner)
        number = context.known_states.get(key)
        if number is None:
            context.uses.begin(names)
            texts, columns = context.text_columns(names), tuple(range(len(names)))
            # the operand is known once all such lets are planned
            state = StatePlan("present", False, 0, None, len(names), texts, NO_QUERY, [columns], [])
            number = context.add_state(state, key, [])
            self.waiting[number] = name
            context.uses.end("state", number)
        context.uses.use("state", number, own)
        scope.states[number] = None
        return number

    def _lefts(
        self,
        part: Formula,
        node: Formula,
        names: Sequence[str],
        indexes: list[tuple[int, ...]],
        scope: Scope,
    ) -> list[LeftPlan]:
        """Plan a conjunct of the left side of SINCE or UNTIL; nothing if it is always true."""
        if part.operator is ops.TRUE:
            return []
        negation = normal_form(part, negated=True)
        is_since = node.operator is ops.SINCE
        for kind, formula in (("breaks", negation), ("runs", part)):
            if self._context.is_alone(formula):
                return [self._rows_of_left(kind, formula, node, names, indexes)]
        if is_since and (asked := self._asked(part)) is not None:
            # what the second one matches ends, unless the first one matches it
            return [
                self._rows_of_left(kind, formula, node, names, indexes)
                for kind, formula in zip(("marks", "ends"), asked, strict=True)
            ]
        if not is_since:
            # A witness within `upper` of the present is also within that of each time-point up to
            # it. So only rows of which EVENTUALLY is true there need to be asked about.
            # PERF: they are listed at each time-point, and the answer waits for twice the interval.
            assert node.interval is not None
            coming = Interval(0, node.interval.upper)
            awaited = Formula(ops.EVENTUALLY, (node.operands[1],), coming, None, node.span)
            broken = Formula(ops.NOT, (part,), None, None, part.span)
            query = self._planner.operand(Formula(ops.AND, (awaited, broken)), names)
            places = tuple(range(len(names)))
            texts = self._context.text_columns(names)
            return [LeftPlan("breaks", query, len(names), 0, NO_QUERY, places, texts)]
        block = Block({name: place for place, name in enumerate(names)}, len(names) + 1)
        self._planner.conjunction(conjuncts(part), block, scope)
        return [LeftPlan("filters", NO_QUERY, 0, 0, self._context.finished(block), (), ())]

    def _rows_of_left(
        self,
        kind: str,
        formula: Formula,
        node: Formula,
        names: Sequence[str],
        indexes: list[tuple[int, ...]],
    ) -> LeftPlan:
        """Plan the rows of a formula that say which slots of SINCE or UNTIL go on, or end."""
        own = free_in(formula)
        query = self._planner.operand(formula, own)
        places = tuple(names.index(name) for name in own)
        texts = self._context.text_columns(own)
        if node.operator is not ops.SINCE:
            return LeftPlan(kind, query, len(own), 0, NO_QUERY, places, texts)
        if len(own) == len(names):
            positions = tuple(own.index(name) for name in names)
            return LeftPlan(kind, query, len(own), 0, NO_QUERY, positions, texts)
        if places not in indexes[1:]:
            indexes.append(places)
        index = indexes.index(places, 1)
        return LeftPlan(kind, query, len(own), index, NO_QUERY, tuple(range(len(own))), texts)

    def _asked(self, part: Formula) -> tuple[Formula, Formula] | None:
        """Take NOT of a formula, or another one, apart; None if these cannot be evaluated alone.

        Returns:
            The other one, and the formula that stands below NOT.
        """
        ends = [one.operands[0] for one in sides(part) if one.operator is ops.NOT]
        goes_on = [one for one in sides(part) if one.operator is not ops.NOT]
        if not ends or not goes_on:
            return None
        found = joined(ops.OR, goes_on), joined(ops.AND, ends)
        return found if all(map(self._context.is_alone, found)) else None

    def count(self, node: Formula, block: Block, scope: Scope, mode: str) -> None:
        """Add HISTORICALLY or ALWAYS, whose variables are bound."""
        operand = node.operands[0]
        negation = normal_form(operand, negated=True)
        names = free_in(operand)
        if set(names) <= self._context.alone(negation):
            other = ops.ONCE if node.operator is ops.HISTORICALLY else ops.EVENTUALLY
            turned = Formula(other, (negation,), node.interval, None, node.span)
            self._planner.probe(turned, block, scope, "semi" if mode == "anti" else "anti")
            return
        number = self.state(node, operand, names, scope)
        self._steps.look_up(number, names, block, "anti" if mode == "anti" else "semi")

    def meet(self, meeting: Meeting, block: Block, scope: Scope, mode: str) -> None:
        """Add the rows of a window that came while something held."""
        if mode != "join" and meeting.comparisons:
            inner = Block(block.columns, block.width + 1)
            self.meet(meeting, inner, scope, "join")
            number = self._context.finished(inner)
            block.add(StepPlan("branch", block.width, mode, blocks=(number,)))
            return
        operand, held = meeting.window.operands[0], meeting.held.operands[-1]
        own = free_in(operand)
        others = free_in(held)
        window = self.state(meeting.window, operand, own, scope, is_exact=True)
        parent = self.state(meeting.held, held, others, scope)
        assert meeting.window.interval is not None
        upper = meeting.window.interval.upper
        key = ("spans", parent, upper)
        spans = self._context.known_states.get(key)
        if spans is None:
            state = self._context.states[parent]
            indexes = [tuple(range(state.width))]
            spans = self._context.add_state(
                StatePlan("spans", False, 0, upper, state.width, state.texts, parent, indexes, []),
                key,
                [*self._context.needed[parent], parent],
            )
        scope.states[spans] = None
        before = block.bound
        columns = dict(block.columns)
        for name in (*own, *others):
            columns.setdefault(name, block.width + len(columns) - len(block.columns))
        new = [name for name in columns if name not in before]
        step = StepPlan(
            "meet",
            block.width + (len(new) if mode == "join" else 0),
            mode,
            source=block.width + len(new),
            is_distinct=mode == "join",
            sides=(
                self._side(window, own, before, before | set(others), columns),
                self._side(spans, others, before, before | set(own), columns),
            ),
        )
        block.add(step, *(new if mode == "join" else []))
        for one in meeting.comparisons:
            self._planner.add(one, block, scope)
        if mode == "join":
            self._steps.leave_out([name for name in new if name not in meeting.names], block)

    def _side(
        self,
        state: int,
        names: Sequence[str],
        before: Names,
        known: Names,
        columns: Mapping[str, int],
    ) -> SidePlan:
        """One of two states that meet: what is bound before them, and with the other one."""

        def index(bound: Names) -> tuple[int, tuple[int, ...]]:
            places = tuple(place for place, name in enumerate(names) if name in bound)
            keys = tuple(columns[names[place]] for place in places)
            return (0 if len(places) == len(names) else self._context.index(state, places)), keys

        first_index, first_keys = index(before)
        key_index, keys = index(known)
        new = [place for place, name in enumerate(names) if name not in before]
        return SidePlan(
            state,
            first_index if first_keys else None,
            key_index,
            first_keys,
            keys,
            tuple(new),
            tuple(columns[names[place]] for place in new),
        )
