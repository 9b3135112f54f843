"""Plans aggregates over the rows of formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.first_order.terms import aggregates_of, free_in, terms_of
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Expression
from mtlmon.relational.binding import conjuncts
from mtlmon.relational.meeting import without_static
from mtlmon.relational.normal import normal_form
from mtlmon.relational.nothing import driving, is_total
from mtlmon.relational.plan import StatePlan, StepPlan, cell_kind
from mtlmon.relational.planning.blocks import Block
from mtlmon.relational.programs import kinds_of, program_of
from mtlmon.syntax import operators as ops

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.relational.planning.blocks import Scope
    from mtlmon.relational.planning.context import Context
    from mtlmon.relational.planning.planner import Planner
    from mtlmon.relational.planning.states import States
    from mtlmon.relational.planning.steps import Steps
    from mtlmon.syntax.formula import Formula


class Aggregates:
    """Plans aggregates over the rows of formulas.

    Args:
        context: what the parts of the planner share.
        steps: writes steps.
        states: plans the states of temporal operators.
        planner: plans the formulas.
    """

    def __init__(self, context: Context, steps: Steps, states: States, planner: Planner) -> None:
        self._context = context
        self._steps = steps
        self._states = states
        self._planner = planner

    def replaced(
        self, node: Formula, block: Block, scope: Scope, parts: Sequence[Formula]
    ) -> tuple[Expression, frozenset[str]]:
        """Add the groups of the aggregates of a comparison.

        Args:
            node: the comparison.
            block: the block.
            scope: what it belongs to.
            parts: the conjuncts beside it.

        Returns:
            Its term with variables for the aggregates, and these.
        """
        drives = driving(node, parts)
        waiting = list(aggregates_of(node))
        names: dict[int, str] = {}
        while waiting:
            # what binds groups comes before what only asks about them
            term = next(
                (one for one in waiting if set(one.aggregate.by or ()) <= block.bound), None
            ) or next(one for one in waiting if one in drives)
            waiting = [one for one in waiting if one is not term]
            names[id(term)] = self._context.fresh("aggregate")
            operand = node.operands[term.aggregate.formula]
            self._aggregate(term, operand, names[id(term)], block, scope)
        return self._with(terms_of(node)[0], names), frozenset(names.values())

    def _with(self, term: Expression, names: Mapping[int, str]) -> Expression:
        """A term with variables for its aggregates."""
        if id(term) in names:
            return Expression(terms.VARIABLE, (), names[id(term)], term.span)
        if not term.operands:
            return term
        operands = tuple(self._with(one, names) for one in term.operands)
        return Expression(term.operator, operands, term.value, term.span)

    def _aggregate(
        self, term: Expression, formula: Formula, target: str, block: Block, scope: Scope
    ) -> None:
        word, _, by, _ = term.aggregate
        formula = normal_form(formula)
        groups = by or ()
        if self._running(term, formula, target, block, scope):
            return
        bound = [name for name in groups if name in block.columns]
        inner = Block({name: place for place, name in enumerate(bound)}, len(bound))
        self._planner.conjunction(conjuncts(formula), inner, scope)
        free = free_in(formula)
        self._steps.arrange(inner, [*bound, *(name for name in free if name not in bound)])
        kind = kinds.INTEGER
        program = 0
        if term.operands:
            (value,) = term.operands
            kind = kinds_of(value, self._context.kinds, self._context.environment)[id(value)]
            value = self._steps.simple(value, kind, inner)
            self._context.plan.programs.append(
                program_of(
                    value,
                    inner.columns,
                    self._context.kinds,
                    self._context.environment,
                    self._context.texts,
                )
            )
            program = len(self._context.plan.programs) - 1
        self._context.plan.groups.append(len(groups) + 1)
        number = len(self._context.plan.groups) - 1
        has_all = is_total(term) and set(groups) <= block.bound
        block.add(
            StepPlan(
                "aggregate",
                block.width,
                "outer" if has_all else "join",
                source=program,
                keys=tuple(block.columns[name] for name in bound),
                matched=tuple(range(len(groups))) if has_all else (),
                blocks=(self._context.finished(inner),),
                columns=tuple(inner.columns[name] for name in groups),
                aggregate=word,
                cell=cell_kind(kind),
                has_value=bool(term.operands),
                group=number,
            )
        )
        self._context.kinds[target] = (
            kinds.INTEGER if word == "COUNT" else kinds.FLOAT if word in {"AVG", "MEDIAN"} else kind
        )
        keys, taken = block.match(groups)
        taken[target] = len(groups)
        self._steps.join(
            "scan", "group", number, len(groups) + 1, block, "join", keys, taken, [], []
        )

    def _running(
        self, term: Expression, formula: Formula, target: str, block: Block, scope: Scope
    ) -> bool:
        """Add an aggregate that is kept up to date with the rows that an operator remembers.

        Returns:
            Whether it can be kept so: a count, the least or largest value of a variable, or the
            sum or mean of one that is an integer.
        """
        word, _, by, _ = term.aggregate
        operator = formula.operator
        if word == "MEDIAN":
            return False
        if operator not in (ops.ONCE, ops.EVENTUALLY, ops.SINCE):
            return False
        if operator is ops.SINCE and (
            without_static(formula) is not formula
            or (formula.interval is not None and formula.interval.lower > 0)
        ):
            return False
        operand = formula.operands[-1]
        names = free_in(operand)
        valued: int | None = None
        kind = kinds.INTEGER
        if term.operands:
            (value,) = term.operands
            if value.operator is not terms.VARIABLE:
                return False
            kind = self._context.kinds[value.name]
            if word in {"SUM", "AVG"} and kind.name != "integer":
                return False
            valued = names.index(value.name)
        ordering = word if word in {"MIN", "MAX"} else None
        groups = tuple(by or ())
        places = tuple(names.index(name) for name in groups)
        is_pruning = ordering is not None and operator is ops.ONCE
        pruned_by = (ordering, places, valued) if is_pruning else None
        parent = self._states.state(formula, operand, names, scope, pruned_by=pruned_by)
        key = ("groups", parent, places, valued, ordering)
        number = self._context.known_states.get(key)
        if number is None:
            number = self._context.add_state(
                StatePlan(
                    "groups",
                    operator.is_future,
                    0,
                    None,
                    len(groups),
                    self._context.text_columns(groups),
                    parent,
                    [tuple(range(len(groups)))],
                    [],
                    places,
                    valued,
                    ordering,
                    cell_kind(kind),
                    is_pruning,
                ),
                key,
                [*self._context.needed[parent], parent],
            )
        scope.states[number] = None
        self._context.kinds[target] = kinds.FLOAT if word == "AVG" else kind
        keys, taken = block.match(groups)
        index = 0 if not taken else self._context.index(number, tuple(place for _, place in keys))
        block.add(
            StepPlan(
                "probe",
                block.width + len(taken) + 1,
                "outer" if is_total(term) and not taken else "join",
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
