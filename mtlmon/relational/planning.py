"""Makes plans: how the formulas of policies are evaluated, step by step.

A conjunction is evaluated in an order: what this time-point has drives, and what is remembered is
looked up. What only the past decides is evaluated as a time-point comes; the rest waits for later
ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.arrays.native import KeyTable
from mtlmon.errors import PolicyError
from mtlmon.policy.first_order.terms import (
    comparison,
    free_variables,
    quantified,
    terms_of,
)
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.machine_code import NotPossible, constant_as
from mtlmon.relational.binding import (
    BindingAnalysis,
    Unbound,
    bound_by,
    conjuncts,
)
from mtlmon.relational.cells import number_text, to_cell
from mtlmon.relational.closed import closed_parts, looks_ahead_without_bound
from mtlmon.relational.meeting import Meeting, meeting_of, without_static
from mtlmon.relational.normal import normal_form
from mtlmon.relational.plan import (
    NO_QUERY,
    AtomPlan,
    BlockPlan,
    ClosedPlan,
    LeftPlan,
    Plan,
    PolicyPlan,
    QueryPlan,
    SidePlan,
    StatePlan,
    StepPlan,
    cell_kind,
)
from mtlmon.relational.preparation import prepared_policies
from mtlmon.relational.programs import (
    function_of,
    is_mixed,
    kinds_of,
    kinds_of_variables,
    program_of,
)
from mtlmon.relational.uses import UseNotes
from mtlmon.support.generators import run
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.interval import Interval
from mtlmon.syntax.report import shorten, visible
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.analysis import Analysis
    from mtlmon.relational.preparation import Prepared

Names = frozenset[str]

_FUTURES = (ops.EVENTUALLY, ops.ALWAYS, ops.UNTIL, ops.NEXT)
_COUNTED = (ops.HISTORICALLY, ops.ALWAYS)
# The cost of a conjunct: what filters, from cheap to dear, then what adds rows.
_COMPARES, _SCANS, _PROBES, _NESTED, _BINDS, _DRIVES, _JOINS, _CROSSES, _LISTS = range(9)


class _Use(NamedTuple):
    """A conjunct that can be evaluated now.

    Attributes:
        cost: how dear it is.
        binds: the variables that it binds.
    """

    cost: int
    binds: Names


class _Scope:
    """The part of a query that is planned: which states and atoms it looks at.

    Attributes:
        owner: tells the states of one late block from those of others; None for early blocks.
        states: the states that are looked at, each behind those it needs.
        atoms: the atoms that are looked at.
    """

    def __init__(self, owner: object | None) -> None:
        self.owner = owner
        self.states: dict[int, None] = {}
        self.atoms: dict[int, None] = {}


class _Block:
    """A block while it is written.

    Attributes:
        columns: the column of each variable.
        width: the number of columns.
        steps: the steps so far.
    """

    def __init__(self, columns: Mapping[str, int], width: int) -> None:
        self.columns = dict(columns)
        self.width = width
        self.given = width
        self.steps: list[StepPlan] = []

    @property
    def bound(self) -> Names:
        return frozenset(self.columns)

    def add(self, step: StepPlan, *new: str) -> None:
        """Add a step, which adds columns for new variables."""
        for name in new:
            self.columns[name] = self.width
            self.width += 1
        assert step.width == self.width, step
        self.steps.append(step)


class Planner:
    """Plans the policies of a file.

    Args:
        file: the policy file.
        analysis: what is known of its first-order policies.
        texts: the numbers of texts; by default, none has one.
        prepared: the formulas of these policies, if they are not what the file says.
    """

    def __init__(
        self,
        file: PolicyFile,
        analysis: Analysis,
        texts: KeyTable | None = None,
        prepared: Sequence[Prepared] | None = None,
    ) -> None:
        prepared = prepared_policies(file, analysis) if prepared is None else prepared
        self._file = file
        self._environment = file.environment
        self._texts = KeyTable(1) if texts is None else texts
        self._fresh_names = 0
        self._relations = analysis.relations
        self._atoms: dict[str, int] = {}
        self._states: list[StatePlan] = []
        # The states that each needs itself, and the variables of its columns.
        self._needed: list[list[int]] = []
        self._known_states: dict[object, int] = {}
        self._known_queries: dict[object, int] = {}
        self._uses = UseNotes()
        self._blocks: list[BlockPlan] = []
        self._plan = Plan(
            self._texts, [], [], None, None, self._states, self._blocks, [], [], [], [], [], None
        )
        formulas = [one.formula for one in prepared]
        self._kinds = kinds_of_variables(formulas, self._relations, self._environment)
        # The formulas keep their comparisons alive, so that no other has the same `id`.
        self._formulas = formulas
        mixed = {
            id(node)
            for node in postorder(*formulas)
            if node.operator is ops.COMPARISON and is_mixed(node, self._kinds, self._environment)
        }
        self._binding = BindingAnalysis({}, mixed)
        for one in prepared:
            own = one.analysis.kinds
            self._kinds |= zip(
                one.names, (own[name] for name in one.analysis.reported), strict=True
            )
        for number, one in enumerate(prepared):
            names = (*one.names, *one.exposed)
            shown = (*one.analysis.reported, *(name.partition(" ")[0] for name in one.exposed))
            policy = one.analysis.policy
            self._plan.named_policies.append(
                PolicyPlan(
                    policy.name, policy.is_find, shown, tuple(self._kinds[name] for name in names)
                )
            )
            if names or not looks_ahead_without_bound(one.formula):
                query = self._query(one.formula, names, number, is_find=policy.is_find)
                self._uses.answer(query, number)
                continue
            ordinary, parts = closed_parts(one.formula)
            self._plan.closed.append(ClosedPlan(number, str(ordinary), len(parts)))
            for place, part in enumerate(parts):
                query = self._query(part, (), number, is_find=policy.is_find, part=place)
                self._uses.answer(query, number)

    @property
    def plan(self) -> Plan:
        """The plan of all policies."""
        builtin = {
            name: self._atoms.get(name) if not self._is_declared(name) else None
            for name in ("point", "time")
        }
        uses = self._uses.uses(self._plan)
        return self._plan._replace(point=builtin["point"], time=builtin["time"], uses=uses)

    def _is_declared(self, name: str) -> bool:
        relation = self._file.relations.get(name)
        return name in self._file.atoms or (relation is not None and relation.is_declared)

    def _fresh(self, name: str) -> str:
        """A name that no formula has: those of the expansion have one blank."""
        self._fresh_names += 1
        return f"{name}  {self._fresh_names}"

    # Queries

    def _query(
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
        self._uses.begin(names)
        early, late = _Scope(None), _Scope(object())
        late_parts = [one for one in waiting if _is_late(one)]
        block = _Block({}, 0)
        first: int | None = None
        second: int | None = None
        waiting_texts: tuple[int, ...] = ()
        if not late_parts:
            self._conjunction(waiting, block, early)
            self._finish(block, names)
            first = self._finished(block)
        else:
            rest = self._conjunction(
                [one for one in waiting if not _is_late(one)], block, early, is_early=True
            )
            if block.steps:
                first = self._finished(block)
            following = _Block(block.columns, block.width)
            self._conjunction([*rest, *late_parts], following, late)
            self._finish(following, names)
            second = self._finished(following)
            waiting_texts = self._text_columns(
                sorted(block.columns, key=lambda name: block.columns[name])
            )
            self._uses.wait(block.columns, block.width)
        self._plan.queries.append(
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
        self._uses.end("query", len(self._plan.queries) - 1)
        return len(self._plan.queries) - 1

    def _operand(self, formula: Formula, names: Sequence[str]) -> int:
        """The query of an operand; equal operands share one."""
        key = _shape(formula, names)
        if key not in self._known_queries:
            self._known_queries[key] = self._query(formula, names)
        self._uses.use("query", self._known_queries[key], names)
        return self._known_queries[key]

    def _finish(self, block: _Block, names: Sequence[str]) -> None:
        """Bring the columns of a query into their order."""
        columns = tuple(block.columns[name] for name in names)
        if columns != tuple(range(block.width)):
            is_distinct = len(set(columns)) < block.width
            block.width = len(columns)
            block.columns = {name: place for place, name in enumerate(names)}
            block.steps.append(
                StepPlan("project", len(columns), columns=columns, is_distinct=is_distinct)
            )

    def _text_columns(self, names: Sequence[str]) -> tuple[int, ...]:
        """Which of the columns of some variables are texts."""
        return tuple(
            place for place, name in enumerate(names) if cell_kind(self._kinds[name]) == "text"
        )

    def _finished(self, block: _Block) -> int:
        self._blocks.append(BlockPlan(block.given, block.steps))
        return len(self._blocks) - 1

    # Conjunctions

    def _conjunction(
        self, waiting: list[Formula], block: _Block, scope: _Scope, *, is_early: bool = False
    ) -> list[Formula]:
        """Add the steps of conjuncts to a block, in the cheapest order.

        Args:
            waiting: the conjuncts.
            block: the block.
            scope: what it belongs to.
            is_early: whether those that cannot be evaluated yet, or only by listing all that is
                remembered, are left for a late block.

        Returns:
            Those that are left.
        """
        waiting = list(waiting)
        while waiting:
            best: tuple[_Use, Formula] | None = None
            for one in waiting:
                use = self._use(one, block.bound)
                if use is not None and (best is None or use.cost < best[0].cost):
                    best = use, one
            if best is None or (is_early and best[0].cost == _LISTS):
                if is_early:
                    return waiting
                raise _not_planned(waiting[0])
            self._add(best[1], block, scope)
            waiting = [one for one in waiting if one is not best[1]]
        return waiting

    def _use(self, node: Formula, bound: Names) -> _Use | None:
        """How a conjunct would be evaluated under bound variables, or None if it cannot be."""
        found = run(self._binding.evaluated(node, bound))
        if isinstance(found, Unbound):
            return None
        binds = found - bound
        operator = node.operator
        if not binds:
            if operator is ops.COMPARISON and not node.operands:
                return _Use(_COMPARES, binds)
            inner = node.operands[0] if operator is ops.NOT else node
            if inner.operator in (ops.ATOM, ops.PREDICATE):
                return _Use(_SCANS, binds)
            return _Use(_PROBES if inner.operator.is_temporal else _NESTED, binds)
        if operator is ops.COMPARISON and not node.operands:
            return _Use(_BINDS, binds)
        free = self._binding.free(node)
        if _is_driven(node):
            # what shares no variable with the rows so far multiplies them
            return _Use(_CROSSES if bound and not free & bound else _DRIVES, binds)
        return _Use(_JOINS if free & bound else _LISTS, binds)

    def _add(self, node: Formula, block: _Block, scope: _Scope) -> None:
        """Add the steps of a conjunct that can be evaluated."""
        operator = node.operator
        if operator is ops.TRUE:
            return
        if operator is ops.FALSE:
            block.add(StepPlan("branch", block.width, "semi"))
        elif operator in (ops.ATOM, ops.PREDICATE):
            self._scan(node, block, scope, "join")
        elif operator is ops.COMPARISON:
            self._compare(node, block, scope)
        elif operator is ops.NOT:
            self._exclude(node.operands[0], block, scope)
        elif operator is ops.AND:
            self._conjunction(conjuncts(node), block, scope)
        elif operator is ops.OR:
            self._branch(list(node.operands), block, scope)
        elif operator is ops.EXISTS:
            self._exists(node, block, scope)
        else:
            self._probe(node, block, scope, "join")

    def _nested(self, nodes: list[Formula], block: _Block, scope: _Scope, *, tags: int) -> _Block:
        """A block for rows of another, which have so many more columns."""
        inner = _Block(block.columns, block.width + tags)
        self._conjunction(nodes, inner, scope)
        return inner

    def _exclude(self, node: Formula, block: _Block, scope: _Scope) -> None:
        """Add NOT of a formula, whose variables are bound."""
        if node.operator in (ops.ATOM, ops.PREDICATE):
            self._scan(node, block, scope, "anti")
        elif node.operator.is_temporal:
            self._probe(node, block, scope, "anti")
        elif node.operator is ops.COMPARISON and not node.operands:
            (term,) = terms_of(node)
            self._program(term, block, None, "anti")
        elif not self._is_single(node, block, scope, "anti"):
            inner = self._finished(self._nested(conjuncts(node), block, scope, tags=1))
            block.add(StepPlan("branch", block.width, "anti", blocks=(inner,)))

    def _branch(self, sides: list[Formula], block: _Block, scope: _Scope) -> None:
        """Add an OR: rows for which a side holds, with what the sides bind."""
        uses = [run(self._binding.evaluated(side, block.bound)) for side in sides]
        found = [use for use in uses if not isinstance(use, Unbound)]
        new = sorted(frozenset().union(*found) - block.bound)
        inner = [
            self._nested(conjuncts(side), block, scope, tags=0 if new else 1) for side in sides
        ]
        numbers = tuple(self._finished(one) for one in inner)
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

    def _exists(self, node: Formula, block: _Block, scope: _Scope) -> None:
        hidden, body = quantified(node), node.operands[0]
        if sides := _sides(body):
            # a side need not have all of the variables
            self._branch([_exists_of(hidden, side, node) for side in sides], block, scope)
            return
        use = run(self._binding.evaluated(node, block.bound))
        assert not isinstance(use, Unbound)
        if not use - block.bound:
            if not self._is_single(node, block, scope, "semi"):
                inner = self._finished(self._nested(conjuncts(body), block, scope, tags=1))
                block.add(StepPlan("branch", block.width, "semi", blocks=(inner,)))
            return
        self._conjunction(conjuncts(body), block, scope)
        self._leave_out(hidden, block)

    def _is_single(self, node: Formula, block: _Block, scope: _Scope, mode: str) -> bool:
        """Add EXISTS of one atom or operator as a look-up, if it is that."""
        while node.operator is ops.EXISTS:
            node = node.operands[0]
        if node.operator is ops.PREDICATE:
            self._scan(node, block, scope, mode)
            return True
        if node.operator.is_temporal and node.operator not in _COUNTED:
            if node.operator in (ops.SINCE, ops.UNTIL) and (without_static(node) is not node):
                return False
            self._probe(node, block, scope, mode)
            return True
        return False

    # Steps

    def _atom(self, name: str, scope: _Scope) -> int:
        if name not in self._atoms:
            self._atoms[name] = len(self._atoms)
            found = self._relations.get(name, ())
            self._plan.named_atoms.append(AtomPlan(name, tuple(found)))
        number = self._atoms[name]
        scope.atoms[number] = None
        return number

    def _scan(self, node: Formula, block: _Block, scope: _Scope, mode: str) -> None:
        """Add the rows of an atom."""
        atom = self._atom(node.name or "", scope)
        found = self._plan.named_atoms[atom].kinds
        keys: list[tuple[int, int]] = []
        fixed: list[tuple[int, int]] = []
        equal: list[int] = []
        taken: dict[str, int] = {}
        for place, (argument, kind) in enumerate(zip(terms_of(node), found, strict=True)):
            if argument.operator is terms.WILDCARD:
                continue
            if argument.operator is terms.CONSTANT:
                cell = self._constant(argument.value, kind)
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
        self._join("scan", "atom", atom, len(found), block, mode, keys, taken, fixed, equal)

    def _join(
        self,
        kind: str,
        source_kind: str,
        source: int,
        source_width: int,
        block: _Block,
        mode: str,
        keys: list[tuple[int, int]],
        taken: Mapping[str, int],
        fixed: list[tuple[int, int]],
        equal: list[int],
        index: int = 0,
    ) -> None:
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

    def _constant(self, value: object, kind: Kind) -> int | None:
        """The cell of a constant, or None if no value of the kind equals it."""
        if kind.name in {"text", "unknown"}:
            return number_text(self._texts, str(value))
        found = constant_as(value, kind)  # type: ignore[arg-type]
        return to_cell(found, kind, self._texts)

    def _compare(self, node: Formula, block: _Block, scope: _Scope) -> None:
        (term,) = terms_of(node)
        if node.operands:
            term = self._aggregates(term, node, block, scope)
            node = comparison(term)
        bound = block.bound
        is_equality = not is_mixed(node, self._kinds, self._environment)
        target = bound_by(term, bound) if is_equality else None
        if target is None:
            self._program(term, block, None)
        elif term.operator is terms.IN:
            cells = [self._constant(one, self._kinds[target]) for one in term.members]
            values = tuple(dict.fromkeys(cell for cell in cells if cell is not None))
            block.add(StepPlan("listed", block.width + 1, constants=values), target)
        else:
            one, other = term.operands
            is_first = one.operator is terms.VARIABLE and one.name == target
            self._program(other if is_first else one, block, target)

    def _program(
        self, term: Expression, block: _Block, target: str | None, mode: str = "semi"
    ) -> None:
        """Add a condition, or the value of a new variable."""
        kind = None if target is None else self._kinds[target]
        cell = "integer" if kind is None else cell_kind(kind)
        new = () if target is None else (target,)
        width = block.width + len(new)
        try:
            program = program_of(
                term, block.columns, self._kinds, self._environment, self._texts, kind
            )
        except NotPossible:
            names, function = function_of(term, self._kinds, self._environment, kind)
            self._plan.functions.append(function)
            columns = tuple(block.columns[name] for name in names)
            block.add(
                StepPlan(
                    "call",
                    width,
                    mode,
                    source=len(self._plan.functions) - 1,
                    columns=columns,
                    is_binding=target is not None,
                    cell=cell,
                ),
                *new,
            )
            return
        self._plan.programs.append(program)
        block.add(
            StepPlan(
                "compute",
                width,
                mode,
                source=len(self._plan.programs) - 1,
                is_binding=target is not None,
                cell=cell,
            ),
            *new,
        )

    def _aggregates(
        self, term: Expression, node: Formula, block: _Block, scope: _Scope
    ) -> Expression:
        """Add the groups of the aggregates of a term; the term with variables for them."""
        if term.operator in terms.OF_FORMULAS:
            name = self._fresh("aggregate")
            self._aggregate(term, node.operands[term.aggregate.formula], name, block, scope)
            return Expression(terms.VARIABLE, (), name, term.span)
        if not term.operands:
            return term
        operands = tuple(self._aggregates(one, node, block, scope) for one in term.operands)
        return Expression(term.operator, operands, term.value, term.span)

    def _aggregate(
        self, term: Expression, formula: Formula, target: str, block: _Block, scope: _Scope
    ) -> None:
        word, _, by = term.aggregate
        formula = normal_form(formula)
        groups = by or ()
        if self._running(term, formula, target, block, scope):
            return
        bound = [name for name in groups if name in block.columns]
        inner = _Block({name: place for place, name in enumerate(bound)}, len(bound))
        self._conjunction(conjuncts(formula), inner, scope)
        free = free_variables(formula)[id(formula)]
        self._finish(inner, [*bound, *(name for name in free if name not in bound)])
        kind = kinds.INTEGER
        program = 0
        if term.operands:
            (value,) = term.operands
            kind = kinds_of(value, self._kinds, self._environment)[id(value)]
            value = self._simple(value, kind, inner)
            self._plan.programs.append(
                program_of(value, inner.columns, self._kinds, self._environment, self._texts)
            )
            program = len(self._plan.programs) - 1
        self._plan.groups.append(len(groups) + 1)
        number = len(self._plan.groups) - 1
        block.add(
            StepPlan(
                "aggregate",
                block.width,
                source=program,
                keys=tuple(block.columns[name] for name in bound),
                blocks=(self._finished(inner),),
                columns=tuple(inner.columns[name] for name in groups),
                aggregate=word,
                cell=cell_kind(kind),
                has_value=bool(term.operands),
                group=number,
            )
        )
        self._kinds[target] = (
            kinds.INTEGER if word == "COUNT" else kinds.FLOAT if word in {"AVG", "MEDIAN"} else kind
        )
        keys = [
            (block.columns[name], place)
            for place, name in enumerate(groups)
            if name in block.columns
        ]
        taken = {name: place for place, name in enumerate(groups) if name not in block.columns}
        taken[target] = len(groups)
        self._join("scan", "group", number, len(groups) + 1, block, "join", keys, taken, [], [])

    def _running(
        self, term: Expression, formula: Formula, target: str, block: _Block, scope: _Scope
    ) -> bool:
        """Add an aggregate that is kept up to date with the rows that an operator remembers.

        Returns:
            Whether it can be kept so: a count, or the sum or mean of a variable that is an integer.
        """
        word, _, by = term.aggregate
        operator = formula.operator
        if word not in {"COUNT", "SUM", "AVG"}:
            return False
        if operator not in (ops.ONCE, ops.EVENTUALLY, ops.SINCE):
            return False
        if operator is ops.SINCE and (
            without_static(formula) is not formula
            or (formula.interval is not None and formula.interval.lower > 0)
        ):
            return False
        operand = formula.operands[-1]
        names = free_variables(operand)[id(operand)]
        summed: int | None = None
        if term.operands:
            (value,) = term.operands
            if value.operator is not terms.VARIABLE or self._kinds[value.name].name != "integer":
                return False
            summed = names.index(value.name)
        groups = tuple(by or ())
        parent = self._state(formula, operand, names, scope)
        places = tuple(names.index(name) for name in groups)
        key = ("groups", parent, places, summed)
        if key not in self._known_states:
            self._states.append(
                StatePlan(
                    "groups",
                    operator.is_future,
                    0,
                    None,
                    len(groups),
                    self._text_columns(groups),
                    parent,
                    [tuple(range(len(groups)))],
                    [],
                    places,
                    summed,
                )
            )
            self._known_states[key] = len(self._states) - 1
            self._needed.append([*self._needed[parent], parent])
        number = self._known_states[key]
        scope.states[number] = None
        self._kinds[target] = kinds.FLOAT if word == "AVG" else kinds.INTEGER
        keys = [
            (block.columns[name], at) for at, name in enumerate(groups) if name in block.columns
        ]
        taken = {name: at for at, name in enumerate(groups) if name not in block.columns}
        index = 0 if not taken else self._index(number, tuple(place for _, place in keys))
        block.add(
            StepPlan(
                "probe",
                block.width + len(taken) + 1,
                source=number,
                key_index=index,
                keys=tuple(key for key, _ in keys),
                matched=tuple(place for _, place in keys),
                takes=tuple(taken.values()),
                aggregate=word,
            ),
            *taken,
            target,
        )
        return True

    def _simple(self, value: Expression, kind: Kind, block: _Block) -> Expression:
        """A term as one that machines compute; others become a variable that Python computes."""
        try:
            program_of(value, block.columns, self._kinds, self._environment, self._texts)
        except NotPossible:
            name = self._fresh("value")
            self._kinds[name] = kind
            self._program(value, block, name)
            return Expression(terms.VARIABLE, (), name, value.span)
        return value

    # States

    def _probe(self, node: Formula, block: _Block, scope: _Scope, mode: str) -> None:
        """Add what a temporal operator holds for."""
        operator = node.operator
        if operator in _COUNTED:
            self._count(node, block, scope, mode)
            return
        if operator in (ops.SINCE, ops.UNTIL):
            plain = without_static(node)
            if plain is not node:
                negated = mode == "anti"
                (self._exclude if negated else self._add)(plain, block, scope)
                return
        meeting = meeting_of(node, block.bound, self._binding)
        if meeting is not None:
            self._meet(meeting, block, scope, mode)
            return
        operand = node.operands[-1]
        names = free_variables(operand)[id(operand)]
        number = self._state(node, operand, names, scope)
        self._look_up(number, names, block, mode)

    def _meet(self, meeting: Meeting, block: _Block, scope: _Scope, mode: str) -> None:
        """Add the rows of a window that came while something held."""
        if mode != "join" and meeting.comparisons:
            inner = _Block(block.columns, block.width + 1)
            self._meet(meeting, inner, scope, "join")
            number = self._finished(inner)
            block.add(StepPlan("branch", block.width, mode, blocks=(number,)))
            return
        operand, held = meeting.window.operands[0], meeting.held.operands[-1]
        own = free_variables(operand)[id(operand)]
        others = free_variables(held)[id(held)]
        window = self._state(meeting.window, operand, own, scope, is_exact=True)
        parent = self._state(meeting.held, held, others, scope)
        assert meeting.window.interval is not None
        upper = meeting.window.interval.upper
        key = ("spans", parent, upper)
        if key not in self._known_states:
            state = self._states[parent]
            indexes = [tuple(range(state.width))]
            self._states.append(
                StatePlan("spans", False, 0, upper, state.width, state.texts, parent, indexes, [])
            )
            self._known_states[key] = len(self._states) - 1
            self._needed.append([*self._needed[parent], parent])
        spans = self._known_states[key]
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
            self._add(one, block, scope)
        if mode == "join":
            self._leave_out([name for name in new if name not in meeting.names], block)

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
            return (0 if len(places) == len(names) else self._index(state, places)), keys

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

    def _leave_out(self, hidden: Iterable[str], block: _Block) -> None:
        """Leave out the columns of variables."""
        left_out = {block.columns[name] for name in hidden if name in block.columns}
        kept = [place for place in range(block.width) if place not in left_out]
        names = {place: name for name, place in block.columns.items()}
        block.columns = {
            names[place]: number for number, place in enumerate(kept) if place in names
        }
        block.width = len(kept)
        block.steps.append(StepPlan("project", len(kept), columns=tuple(kept), is_distinct=True))

    def _look_up(self, number: int, names: Sequence[str], block: _Block, mode: str) -> None:
        """Add the rows of a state, whose columns are variables."""
        state = self._states[number]
        keys = [
            (block.columns[name], place)
            for place, name in enumerate(names)
            if name in block.columns
        ]
        taken = {name: place for place, name in enumerate(names) if name not in block.columns}
        if state.kind == "neighbour":
            self._join("scan", "neighbour", number, len(names), block, mode, keys, taken, [], [])
            return
        columns = tuple(place for _, place in keys)
        index = 0 if len(columns) == len(names) else self._index(number, columns)
        self._join(
            "probe", "neighbour", number, len(names), block, mode, keys, taken, [], [], index
        )

    def _index(self, number: int, columns: tuple[int, ...]) -> int:
        """The index of a state on some of its columns, behind the one on all of them."""
        indexes = self._states[number].indexes
        if columns not in indexes[1:]:
            indexes.append(columns)
        return indexes.index(columns, 1)

    def _count(self, node: Formula, block: _Block, scope: _Scope, mode: str) -> None:
        """Add HISTORICALLY or ALWAYS, whose variables are bound."""
        operand = node.operands[0]
        negation = normal_form(operand, negated=True)
        names = free_variables(operand)[id(operand)]
        if set(names) <= self._alone(negation):
            other = ops.ONCE if node.operator is ops.HISTORICALLY else ops.EVENTUALLY
            turned = Formula(other, (negation,), node.interval, None, node.span)
            self._probe(turned, block, scope, "semi" if mode == "anti" else "anti")
            return
        number = self._state(node, operand, names, scope)
        self._look_up(number, names, block, "anti" if mode == "anti" else "semi")

    def _alone(self, formula: Formula) -> Names:
        """The variables that a formula binds by itself; none if it cannot be evaluated so."""
        found = run(self._binding.evaluated(formula, frozenset()))
        return frozenset() if isinstance(found, Unbound) else found

    def _is_alone(self, formula: Formula) -> bool:
        found = run(self._binding.evaluated(formula, frozenset()))
        return not isinstance(found, Unbound) and self._binding.free(formula) <= found

    def _state(
        self,
        node: Formula,
        operand: Formula,
        names: Sequence[str],
        scope: _Scope,
        *,
        is_exact: bool = False,
    ) -> int:
        """The state of an operator; equal operators that stand at the same time-point share one.

        With `is_exact`, the state keeps all time-points of its rows.
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
            tuple(_shape(one, names) for one in node.operands),
        )
        if key in self._known_states:
            number = self._known_states[key]
            for one in (*self._needed[number], number):
                scope.states[one] = None
            self._uses.use("state", number, names)
            return number
        if operator.is_future and operator is not ops.NEXT and not interval.is_bounded:
            raise self._error(
                node,
                f"{operator.word} looks ahead without bound, which policies with variables cannot",
                f"give it an interval: {operator.word}[0,b]",
            )
        self._uses.begin(names)
        query = self._operand(operand, names)
        indexes: list[tuple[int, ...]] = [tuple(range(len(names)))]
        lefts: list[LeftPlan] = []
        feeds: list[tuple[int, int | None]] = [(query, None)]
        inner = _Scope(scope.owner)
        if operator in (ops.SINCE, ops.UNTIL):
            for part in conjuncts(node.operands[0]):
                left = self._left(part, node, names, indexes, inner)
                if left is None:
                    continue
                if left.operand != NO_QUERY:
                    feeds.append((left.operand, len(lefts)))
                lefts.append(left)
        kind = _STATE_KINDS[operator]
        self._states.append(
            StatePlan(
                kind,
                operator.is_future,
                interval.lower,
                interval.upper,
                len(names),
                self._text_columns(names),
                query,
                indexes,
                lefts,
                is_exact=is_exact,
            )
        )
        number = len(self._states) - 1
        self._uses.end("state", number)
        self._uses.use("state", number, names)
        self._needed.append(list(inner.states))
        self._known_states[key] = number
        for one in (*inner.states, number):
            scope.states[one] = None
        scope.atoms |= inner.atoms
        for feeder, place in feeds:
            self._plan.queries[feeder].consumers.append((number, place))
        return number

    def _left(
        self,
        part: Formula,
        node: Formula,
        names: Sequence[str],
        indexes: list[tuple[int, ...]],
        scope: _Scope,
    ) -> LeftPlan | None:
        """Plan a conjunct of the left side of SINCE or UNTIL; None if it is always true."""
        if part.operator is ops.TRUE:
            return None
        negation = normal_form(part, negated=True)
        is_since = node.operator is ops.SINCE
        for kind, formula in (("breaks", negation), ("runs", part)):
            if self._is_alone(formula):
                own = free_variables(formula)[id(formula)]
                query = self._operand(formula, own)
                places = tuple(names.index(name) for name in own)
                texts = self._text_columns(own)
                if not is_since:
                    return LeftPlan(kind, query, len(own), 0, NO_QUERY, places, texts)
                if len(own) == len(names):
                    positions = tuple(own.index(name) for name in names)
                    return LeftPlan(kind, query, len(own), 0, NO_QUERY, positions, texts)
                if places not in indexes[1:]:
                    indexes.append(places)
                index = indexes.index(places, 1)
                return LeftPlan(
                    kind, query, len(own), index, NO_QUERY, tuple(range(len(own))), texts
                )
        if not is_since:
            # A witness within `upper` of the present is also within that of each time-point up to
            # it. So only rows of which EVENTUALLY is true there need to be asked about.
            # PERF: they are listed at each time-point, and the answer waits for twice the interval.
            assert node.interval is not None
            coming = Interval(0, node.interval.upper)
            awaited = Formula(ops.EVENTUALLY, (node.operands[1],), coming, None, node.span)
            broken = Formula(ops.NOT, (part,), None, None, part.span)
            query = self._operand(Formula(ops.AND, (awaited, broken)), names)
            places = tuple(range(len(names)))
            texts = self._text_columns(names)
            return LeftPlan("breaks", query, len(names), 0, NO_QUERY, places, texts)
        block = _Block({name: place for place, name in enumerate(names)}, len(names) + 1)
        self._conjunction(conjuncts(part), block, scope)
        return LeftPlan("filters", NO_QUERY, 0, 0, self._finished(block), (), ())

    def _error(self, node: Formula, message: str, hint: str) -> PolicyError:
        from mtlmon.syntax.report import formula_error

        start = 0 if node.span is None else node.span.start
        written = shorten(visible(str(node)), 60)
        error = formula_error(
            self._file.text,
            start,
            f"{message}: '{written}'",
            source=self._file.source,
            hint=hint,
            kind=PolicyError,
        )
        assert isinstance(error, PolicyError)
        return error


_STATE_KINDS = {
    ops.ONCE: "window",
    ops.EVENTUALLY: "window",
    ops.HISTORICALLY: "counts",
    ops.ALWAYS: "counts",
    ops.SINCE: "since",
    ops.UNTIL: "until",
    ops.PREVIOUS: "neighbour",
    ops.NEXT: "neighbour",
}


def _is_late(formula: Formula) -> bool:
    """Whether later time-points decide about a formula."""
    return any(node.operator in _FUTURES for node in postorder(formula))


def _is_driven(formula: Formula) -> bool:
    """Whether the rows of a formula come from this time-point."""
    found = [formula]
    while found:
        node = found.pop()
        if node.operator is ops.PREDICATE:
            continue
        if node.operator is ops.AND:
            if not any(_is_driven(one) for one in conjuncts(node)):
                return False
        elif node.operator in (ops.OR, ops.EXISTS):
            found += node.operands
        elif node.operator not in (ops.ATOM, ops.FALSE, ops.PREVIOUS):
            return False
    return True


def _sides(formula: Formula) -> list[Formula]:
    """The operands of nested ORs; none if it is not an OR."""
    if formula.operator is not ops.OR:
        return []
    found: list[Formula] = []
    for one in formula.operands:
        found += _sides(one) or [one]
    return found


def _exists_of(names: Iterable[str], formula: Formula, origin: Formula) -> Formula:
    free = free_variables(formula)[id(formula)]
    own = tuple(name for name in names if name in free)
    if not own:
        return formula
    return Formula(ops.EXISTS, (formula,), None, None, origin.span, own)


def _shape(formula: Formula, names: Sequence[str]) -> object:
    """What formulas have in common that differ in the names of variables only."""
    numbers = {name: number for number, name in enumerate(names)}

    def of_term(term: Expression) -> object:
        if term.operator is terms.VARIABLE:
            return ("variable", numbers.setdefault(term.name, len(numbers)))
        if term.operator in terms.OF_FORMULAS:
            word, formula, by = term.aggregate
            groups = (
                None if by is None else tuple(numbers.setdefault(name, len(numbers)) for name in by)
            )
            return (term.operator.name, word, formula, groups, *map(of_term, term.operands))
        value = (type(term.value).__name__, term.value)
        return (term.operator.name, value, *map(of_term, term.operands))

    def of(node: Formula) -> object:
        bounds = None if node.interval is None else (node.interval.lower, node.interval.upper)
        own = [numbers.setdefault(name, len(numbers)) for name in quantified(node)]
        found = tuple(map(of_term, terms_of(node)))
        return (node.operator.name, node.name, bounds, tuple(own), found, *map(of, node.operands))

    return of(formula), len(names)


def _not_planned(formula: Formula) -> PolicyError:
    """The analysis has found a way that the planner does not; this does not happen."""
    return PolicyError(f"no plan for '{shorten(visible(str(formula)), 80)}'")


def plan(
    file: PolicyFile,
    analysis: Analysis,
    texts: KeyTable | None = None,
    prepared: Sequence[Prepared] | None = None,
) -> Plan:
    """Plan the first-order policies of a file.

    Args:
        file: the policy file.
        analysis: what `analyse` found, without errors.
        texts: the numbers of texts; by default, none has one.
        prepared: the formulas of these policies, if they are not what the file says: those of
            `Slicing` make the plan of a slice.

    Raises:
        PolicyError: a policy cannot be evaluated.
        LimitError: a formula nests too deeply.
    """
    return Planner(file, analysis, texts, prepared).plan
