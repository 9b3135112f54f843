"""Plans the formulas of policies: queries, and the order of the conjuncts in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.arrays.native import KeyTable
from mtlmon.errors import PolicyError
from mtlmon.policy.first_order.terms import comparison, free_in, quantified, terms_of
from mtlmon.relational.arithmetic import static_parts
from mtlmon.relational.binding import Unbound, conjuncts
from mtlmon.relational.closed import closed_parts, looks_ahead_without_bound
from mtlmon.relational.meeting import meeting_of, without_static
from mtlmon.relational.outside import MOMENT
from mtlmon.relational.plan import (
    NO_QUERY,
    ClosedPlan,
    CountedPlan,
    Plan,
    PolicyPlan,
    QueryPlan,
    StepPlan,
)
from mtlmon.relational.planning.aggregates import Aggregates
from mtlmon.relational.planning.blocks import Block, Names, Scope
from mtlmon.relational.planning.context import Context
from mtlmon.relational.planning.formulas import exists_of, is_driven, is_late, shape, sides
from mtlmon.relational.planning.states import States
from mtlmon.relational.planning.steps import Steps
from mtlmon.relational.preparation import left_sides, prepared_lets, prepared_policies
from mtlmon.relational.recursion import is_earlier, mentions
from mtlmon.support.generators import run
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import STRICT, Formula
from mtlmon.syntax.report import shorten, visible
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.relational.analysis import Analysis
    from mtlmon.relational.plan import StatePlan
    from mtlmon.relational.preparation import LeftSide, Prepared, PreparedLet

_COUNTED = (ops.HISTORICALLY, ops.ALWAYS)
# The cost of a conjunct: what filters, from cheap to dear, then what adds rows.
# What calculates comes last, but before what awaits the values that it gives.
_COMPARES, _SCANS, _PROBES, _NESTED, _BINDS, _DRIVES, _JOINS, _CROSSES, _LISTS = range(9)
_CALCULATES, _AWAITS = 9, 10


class Use(NamedTuple):
    """A conjunct that can be evaluated now.

    Attributes:
        cost: how dear it is.
        binds: the variables that it binds.
    """

    cost: int
    binds: Names


class Planner:
    """Plans the policies of a file.

    Args:
        file: the policy file.
        analysis: what is known of its first-order policies.
        texts: the numbers of texts.
        prepared: the formulas of these policies.
        lefts: the left sides of those that are counted.
    """

    def __init__(
        self,
        file: PolicyFile,
        analysis: Analysis,
        texts: KeyTable,
        prepared: Sequence[Prepared],
        lefts: Sequence[LeftSide] = (),
    ) -> None:
        lets = _used_lets(
            analysis, [*(one.formula for one in prepared), *(one.formula for one in lefts)]
        )
        self._context = Context(file, analysis, texts, prepared, lefts, lets)
        self._steps = Steps(self._context)
        self._states = States(self._context, self._steps, self)
        self._aggregates = Aggregates(self._context, self._steps, self._states, self)
        self._known_queries: dict[object, int] = {}
        self._joint = 0
        # of the lets that use themselves
        self._let_queries: dict[str, int] = {}
        if lets:
            self._plan_lets(lets)
        for number, one in enumerate(prepared):
            self._add_policy(number, one)
        for left in lefts:
            self._count(left)
        self._connect_lets()

    @property
    def plan(self) -> Plan:
        """The plan of all policies."""
        point, time = (
            self._steps.known_atom(other if self._context.is_declared(name) else name)
            for name, other in (("point", MOMENT), ("time", ""))
        )
        plan = self._context.plan
        uses = self._context.uses.uses(plan)
        return plan._replace(point=point, time=time, uses=uses, joint=self._joint)

    def _plan_lets(self, lets: Mapping[str, PreparedLet]) -> None:
        """Plan the lets that use themselves: queries whose rows states of them have."""
        for name, one in lets.items():
            self._let_queries[name] = self.query(one.formula, one.names)
        self._connect_lets()
        queries, states = self._context.plan.queries, self._context.states
        order = _in_order(queries, states)
        numbers = [order.index(number) for number in range(len(order))]
        queries[:] = [queries[number] for number in order]
        for number, state in enumerate(states):
            if state.kind in {"groups", "spans"}:
                continue
            lefts = [
                left if left.operand == NO_QUERY else left._replace(operand=numbers[left.operand])
                for left in state.lefts
            ]
            states[number] = state._replace(operand=numbers[state.operand], lefts=lefts)
        self._known_queries = {key: numbers[one] for key, one in self._known_queries.items()}
        self._let_queries = {name: numbers[one] for name, one in self._let_queries.items()}
        self._context.uses.renumber(numbers)
        if self._context.late_lets:
            self._joint = len(queries)

    def _connect_lets(self) -> None:
        """Give the states of lets that use themselves their queries."""
        for state, name in self._states.waiting.items():
            query = self._let_queries[name]
            self._context.states[state] = self._context.states[state]._replace(operand=query)
            self._context.plan.queries[query].consumers.append((state, None))
            self._context.uses.connect(state, query)
        self._states.waiting = {}

    def _add_policy(self, number: int, one: Prepared) -> None:
        plan = self._context.plan
        names = (*one.names, *one.exposed)
        shown = (*one.analysis.reported, *(name.partition(" ")[0] for name in one.exposed))
        policy = one.analysis.policy
        key = (policy.key or ()) if policy.key_variables else ()
        shown = (*key, *shown[len(key) :])
        plan.named_policies.append(
            PolicyPlan(
                policy.name,
                policy.is_find,
                shown,
                tuple(self._context.kinds[name] for name in names),
                policy.text,
                policy.severity,
                key,
            )
        )
        if names or not looks_ahead_without_bound(one.formula):
            query = self.query(one.formula, names, number, is_find=policy.is_find)
            self._context.uses.answer(query, number)
            return
        ordinary, parts = closed_parts(one.formula)
        plan.closed.append(ClosedPlan(number, str(ordinary), len(parts)))
        for place, part in enumerate(parts):
            query = self.query(part, (), number, is_find=policy.is_find, part=place)
            self._context.uses.answer(query, number)

    def _count(self, left: LeftSide) -> None:
        """Let the valuations of a left side be counted, if it can be evaluated by itself."""
        if looks_ahead_without_bound(left.formula) or not self._context.is_alone(left.formula):
            return
        query = self.query(left.formula, left.names)
        self._context.plan.counted.append(
            CountedPlan(left.policy, query, left.is_own, bool(left.names), left.written)
        )

    def query(
        self,
        formula: Formula,
        names: Sequence[str],
        policy: int | None = None,
        *,
        is_find: bool = False,
        part: int | None = None,
    ) -> int:
        """Plan a formula, in normal form, that is evaluated by itself; its number.

        Args:
            formula: the formula.
            names: its free variables in the order of the columns of its rows.
            policy: the policy that it answers, if it does.
            is_find: whether that is a `find`.
            part: which part of the policy's formula it is, if the policy is a closed one.
        """
        waiting = conjuncts(formula)
        self._context.uses.begin(names)
        early, late = Scope(None), Scope(object())
        late_lets = self._context.late_lets
        late_parts = [one for one in waiting if is_late(one, late_lets)]
        block = Block({}, 0)
        first: int | None = None
        second: int | None = None
        waiting_texts: tuple[int, ...] = ()
        if not late_parts:
            self.conjunction(waiting, block, early)
            self._steps.arrange(block, names)
            first = self._context.finished(block)
        else:
            is_guarded = not all(map(self._context.binding.arithmetic.is_in, late_parts))
            rest = self.conjunction(
                [one for one in waiting if not is_late(one, late_lets)],
                block,
                early,
                is_early=True,
                is_guarded=is_guarded,
            )
            if block.steps:
                first = self._context.finished(block)
            following = Block(block.columns, block.width)
            self.conjunction([*rest, *late_parts], following, late)
            self._steps.arrange(following, names)
            second = self._context.finished(following)
            waiting_texts = self._context.text_columns(
                sorted(block.columns, key=lambda name: block.columns[name])
            )
            self._context.uses.wait(block.columns, block.width)
        self._context.plan.queries.append(
            QueryPlan(
                first,
                second,
                len(names),
                policy,
                is_find,
                list(early.states),
                list(late.states),
                waiting_texts,
                list(late.atoms),
                [],
                part,
            )
        )
        number = len(self._context.plan.queries) - 1
        self._context.uses.end("query", number)
        return number

    def operand(self, formula: Formula, names: Sequence[str]) -> int:
        """The query of an operand; equal operands share one."""
        key = shape(formula, names)
        if key not in self._known_queries:
            self._known_queries[key] = self.query(formula, names)
        self._context.uses.use("query", self._known_queries[key], names)
        return self._known_queries[key]

    def conjunction(
        self,
        waiting: list[Formula],
        block: Block,
        scope: Scope,
        *,
        is_early: bool = False,
        is_guarded: bool = False,
    ) -> list[Formula]:
        """Add the steps of conjuncts to a block, in the cheapest order.

        Args:
            waiting: the conjuncts.
            block: the block.
            scope: what it belongs to.
            is_early: whether those that cannot be evaluated yet, or only by listing all that is
                remembered, are left for a late block.
            is_guarded: whether the late block has conjuncts that do not calculate, so that those
                that do are left for it.

        Returns:
            Those that are left.
        """
        parts = waiting
        waiting = list(waiting)
        # what has been asked whether it has any rows, by `id`
        asked: set[int] = set()
        tried: Formula | None = None
        while waiting:
            best = self._best(waiting, block.bound, parts)
            cost = _AWAITS if best is None else best[0]
            if cost >= _DRIVES and (cost != _CALCULATES or is_guarded):
                tried = self._try(waiting, block, tried)
            if is_early and (cost in (_LISTS, _AWAITS) or (is_guarded and cost == _CALCULATES)):
                return waiting
            if best is None:
                raise _not_planned(waiting[0])
            if cost == _CALCULATES:
                self._ask(waiting, block, scope, asked)
            self.add(best[1], block, scope, parts)
            waiting = [one for one in waiting if one is not best[1]]
        return waiting

    def _best(
        self, waiting: list[Formula], bound: Names, parts: Sequence[Formula]
    ) -> tuple[int, Formula] | None:
        """The conjunct that is evaluated next, and its cost; None if none can be."""
        arithmetic = self._context.binding.arithmetic
        targets = arithmetic.targets(waiting) - bound
        best: tuple[int, Formula] | None = None
        for one in waiting:
            use = self._use(one, bound, parts)
            if use is None:
                continue
            cost = use.cost
            if arithmetic.is_in(one):
                cost = _CALCULATES
            elif targets & self._context.binding.free(one):
                cost = _AWAITS
            if best is None or cost < best[0]:
                best = cost, one
        return best

    def _try(self, waiting: list[Formula], block: Block, last: Formula | None) -> Formula | None:
        """Leave out rows for which a condition is false that is calculated again later.

        What overflows here is kept: another conjunct may leave the row out. What is written before
        a condition may overflow as well, so it is tried with it, or the condition is not tried.

        Args:
            waiting: the conjuncts, in written order.
            block: the block.
            last: the last conjunct that has been tried before.

        Returns:
            The last that has been tried now.
        """
        arithmetic = self._context.binding.arithmetic
        first: list[Formula] = []
        for one in filter(arithmetic.is_in, waiting):
            if not static_parts(one) or not self._context.binding.free(one) <= block.bound:
                break
            first.append(one)
        if not block.columns or not first or first[-1] is last:
            return last
        self._steps.attempt(first, block)
        return first[-1]

    def _ask(self, waiting: list[Formula], block: Block, scope: Scope, asked: set[int]) -> None:
        """Leave out rows for which a conjunct has no rows, whatever arithmetic makes of them."""
        binding = self._context.binding
        for one in waiting:
            if id(one) in asked or binding.arithmetic.is_in(one):
                continue
            use = self._use(one, block.bound)
            if use is not None and block.columns:
                asked.add(id(one))
                self._exists(exists_of(use.binds, one, one), block, scope)

    def _use(self, node: Formula, bound: Names, parts: Sequence[Formula] = ()) -> Use | None:
        """How a conjunct would be evaluated under bound variables, or None if it cannot be."""
        found = run(self._context.binding.conjunct(node, bound, parts))
        if isinstance(found, Unbound):
            return None
        binds = found - bound
        operator = node.operator
        if not binds:
            if operator is ops.COMPARISON and not node.operands:
                return Use(_COMPARES, binds)
            inner = node.operands[0] if operator is ops.NOT else node
            if inner.operator in (ops.ATOM, ops.PREDICATE):
                return Use(_SCANS, binds)
            return Use(_PROBES if inner.operator.is_temporal else _NESTED, binds)
        if operator is ops.COMPARISON and not node.operands:
            return Use(_BINDS, binds)
        free = self._context.binding.free(node)
        if is_driven(node):
            # what shares no variable with the rows so far multiplies them
            return Use(_CROSSES if bound and not free & bound else _DRIVES, binds)
        return Use(_JOINS if free & bound else _LISTS, binds)

    def add(self, node: Formula, block: Block, scope: Scope, parts: Sequence[Formula] = ()) -> None:
        """Add the steps of a conjunct that can be evaluated, beside other ones."""
        operator = node.operator
        if operator is ops.TRUE:
            return
        if operator is ops.FALSE:
            block.add(StepPlan("branch", block.width, "semi"))
        elif operator in (ops.ATOM, ops.PREDICATE):
            self._scan(node, block, scope, "join")
        elif operator is ops.COMPARISON:
            fresh: frozenset[str] = frozenset()
            if node.operands:
                term, fresh = self._aggregates.replaced(node, block, scope, parts)
                node = comparison(term)
            self._steps.compare(node, block, fresh)
        elif operator is ops.NOT:
            self.exclude(node.operands[0], block, scope)
        elif operator is ops.AND:
            self.conjunction(conjuncts(node), block, scope)
        elif operator is ops.OR:
            self._branch(list(node.operands), block, scope)
        elif operator is ops.EXISTS:
            self._exists(node, block, scope)
        else:
            self.probe(node, block, scope, "join")

    def _nested(self, nodes: list[Formula], block: Block, scope: Scope, *, tags: int) -> Block:
        """A block for rows of another, which have so many more columns."""
        inner = Block(block.columns, block.width + tags)
        self.conjunction(nodes, inner, scope)
        return inner

    def exclude(self, node: Formula, block: Block, scope: Scope) -> None:
        """Add NOT of a formula, whose variables are bound."""
        if node.operator in (ops.ATOM, ops.PREDICATE):
            self._scan(node, block, scope, "anti")
        elif node.operator.is_temporal:
            self.probe(node, block, scope, "anti")
        elif node.operator is ops.COMPARISON and not node.operands:
            (term,) = terms_of(node)
            self._steps.program(term, block, None, "anti")
        elif not self._is_single(node, block, scope, "anti"):
            inner = self._context.finished(self._nested(conjuncts(node), block, scope, tags=1))
            block.add(StepPlan("branch", block.width, "anti", blocks=(inner,)))

    def _branch(self, sides: list[Formula], block: Block, scope: Scope) -> None:
        """Add an OR: rows for which a side holds, with what the sides bind."""
        # the rows of a side are not asked about further ones
        sides = sorted(sides, key=self._context.binding.arithmetic.is_in)
        uses = [run(self._context.binding.evaluated(side, block.bound)) for side in sides]
        found = [use for use in uses if not isinstance(use, Unbound)]
        new = sorted(frozenset().union(*found) - block.bound)
        inner = [
            self._nested(conjuncts(side), block, scope, tags=0 if new else 1) for side in sides
        ]
        numbers = tuple(self._context.finished(one) for one in inner)
        if not new:
            block.add(StepPlan("branch", block.width, "semi", blocks=numbers))
            return
        columns: list[int] = []
        for side, one in zip(sides, inner, strict=True):
            if any(name not in one.columns for name in new):
                # a side that is never true binds nothing
                assert side.operator is ops.FALSE, side
                columns += [0] * (block.width + len(new))
            else:
                columns += [*range(block.width), *(one.columns[name] for name in new)]
        width = block.width + len(new)
        block.add(StepPlan("branch", width, blocks=numbers, columns=tuple(columns)), *new)

    def _exists(self, node: Formula, block: Block, scope: Scope) -> None:
        hidden, body = quantified(node), node.operands[0]
        if found := sides(body):
            # a side need not have all of the variables
            self._branch([exists_of(hidden, side, node) for side in found], block, scope)
            return
        use = run(self._context.binding.evaluated(node, block.bound))
        assert not isinstance(use, Unbound)
        if not use - block.bound:
            if not self._is_single(node, block, scope, "semi"):
                inner = self._context.finished(self._nested(conjuncts(body), block, scope, tags=1))
                block.add(StepPlan("branch", block.width, "semi", blocks=(inner,)))
            return
        self.conjunction(conjuncts(body), block, scope)
        self._steps.leave_out(hidden, block)

    def _is_single(self, node: Formula, block: Block, scope: Scope, mode: str) -> bool:
        """Add EXISTS of one atom or operator as a look-up, if it is that."""
        while node.operator is ops.EXISTS:
            node = node.operands[0]
        if node.operator is ops.PREDICATE:
            self._scan(node, block, scope, mode)
            return True
        if node.operator.is_temporal and node.operator not in _COUNTED:
            if self._plain(node) is not node:
                return False
            self.probe(node, block, scope, mode)
            return True
        return False

    def _scan(self, node: Formula, block: Block, scope: Scope, mode: str) -> None:
        """Add the rows of an atom, or of a let that uses itself."""
        is_let = node.name in self._context.lets
        state = self._states.present(node, scope) if is_let else None
        self._steps.scan(node, block, scope, mode, state)

    def _plain(self, node: Formula) -> Formula:
        """What stands for SINCE or UNTIL, if something else than its state is asked as well.

        Where lets use themselves, `f SINCE[1,*) g` is f and a strict SINCE, which looks at earlier
        time-points alone: the let may need it before the rows of f and g are known.
        """
        if node.operator not in (ops.SINCE, ops.UNTIL) or node.value == STRICT:
            return node
        plain = without_static(node)
        if plain is not node or not is_earlier(node) or not mentions(node, self._context.lets):
            return plain
        left = node.operands[0]
        strict = Formula(ops.SINCE, node.operands, node.interval, None, node.span, STRICT)
        if left.operator is ops.TRUE:
            return strict
        return Formula(ops.AND, (left, strict), None, None, node.span)

    def probe(self, node: Formula, block: Block, scope: Scope, mode: str) -> None:
        """Add what a temporal operator holds for."""
        operator = node.operator
        if operator in _COUNTED:
            self._states.count(node, block, scope, mode)
            return
        plain = self._plain(node)
        if plain is not node:
            negated = mode == "anti"
            (self.exclude if negated else self.add)(plain, block, scope)
            return
        meeting = None
        if not mentions(node, self._context.lets):
            meeting = meeting_of(node, block.bound, self._context.binding)
        if meeting is not None:
            self._states.meet(meeting, block, scope, mode)
            return
        operand = node.operands[-1]
        names = free_in(operand)
        number = self._states.state(node, operand, names, scope)
        self._steps.look_up(number, names, block, mode)


def _used_lets(analysis: Analysis, formulas: Iterable[Formula]) -> dict[str, PreparedLet]:
    """The lets that use themselves, as far as formulas use them."""
    if not analysis.recursions:
        return {}
    lets = prepared_lets(analysis)
    used: set[str] = set()
    waiting = list(formulas)
    while waiting:
        names = {node.name for node in postorder(waiting.pop()) if node.name in lets} - used
        used |= {name for name in names if name is not None}
        waiting += [lets[name].formula for name in names if name is not None]
    return {name: one for name, one in lets.items() if name in used}


def _in_order(queries: Sequence[QueryPlan], states: Sequence[StatePlan]) -> list[int]:
    """Queries behind those whose rows they need at the same time-point; else as they are."""
    needs: list[set[int]] = []
    for query in queries:
        looked_at = [states[number] for number in (*query.early_states, *query.late_states)]
        feeders = [
            feeder
            for state in looked_at
            if not state.is_earlier and state.kind not in {"groups", "spans"}
            for feeder in (state.operand, *(left.operand for left in state.lefts))
        ]
        needs.append({one for one in feeders if one != NO_QUERY})
    order: list[int] = []
    done: set[int] = set()
    while len(order) < len(queries):
        following = next(
            number for number, own in enumerate(needs) if number not in done and own <= done
        )
        order.append(following)
        done.add(following)
    return order


def _not_planned(formula: Formula) -> PolicyError:
    """The analysis has found a way that the planner does not; this does not happen."""
    return PolicyError(f"no plan for '{shorten(visible(str(formula)), 80)}'")


def plan(
    file: PolicyFile,
    analysis: Analysis,
    texts: KeyTable | None = None,
    prepared: Sequence[Prepared] | None = None,
    *,
    counts_triggered: bool = False,
) -> Plan:
    """Plan the first-order policies of a file.

    Args:
        file: the policy file.
        analysis: what `analyse` found, without errors.
        texts: the numbers of texts; by default, none has one.
        prepared: the formulas of these policies, if they are not what the file says: those of
            `Slicing` make the plan of a slice.
        counts_triggered: whether to count how many valuations match the left sides of implications,
            as far as these can be evaluated by themselves.

    Raises:
        PolicyError: a policy cannot be evaluated.
        LimitError: a formula nests too deeply.
    """
    return Planner(
        file,
        analysis,
        KeyTable(1) if texts is None else texts,
        prepared_policies(analysis) if prepared is None else prepared,
        left_sides(analysis) if counts_triggered else (),
    ).plan
