"""What all parts of the planner share: the tables of the plan, and the kinds of variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates.machine_code import constant_as
from mtlmon.relational.binding import BindingAnalysis, Unbound
from mtlmon.relational.cells import number_text, to_cell
from mtlmon.relational.plan import BlockPlan, Plan, StatePlan, cell_kind
from mtlmon.relational.planning.formulas import late_lets_of
from mtlmon.relational.programs import is_mixed, kinds_of_variables
from mtlmon.relational.uses import UseNotes
from mtlmon.support.generators import run
from mtlmon.syntax import operators as ops
from mtlmon.syntax.printer import name_of_rows
from mtlmon.syntax.report import formula_error, shorten, visible
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.arrays.native import KeyTable
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.analysis import Analysis
    from mtlmon.relational.planning.blocks import Block, Names
    from mtlmon.relational.preparation import LeftSide, Prepared, PreparedLet
    from mtlmon.syntax.formula import Formula


NO_LETS: Mapping[str, PreparedLet] = {}


class Context:
    """What all parts of the planner share.

    Args:
        file: the policy file.
        analysis: what is known of its first-order policies.
        texts: the numbers of texts.
        prepared: the formulas of these policies.
        lefts: the left sides that are counted.
        lets: the lets that use themselves.

    Attributes:
        environment: the columns and constants of the file.
        relations: the kinds of the arguments of each relation and of these lets.
        lets: these lets.
        late_lets: those about which later time-points decide.
        plan: the plan so far.
        uses: which queries use which queries and states.
        states: its states.
        needed: the states that each of them needs itself.
        known_states: their numbers, by what they are equal in.
        kinds: the kind of each variable.
        binding: which variables a formula binds.
    """

    def __init__(
        self,
        file: PolicyFile,
        analysis: Analysis,
        texts: KeyTable,
        prepared: Sequence[Prepared],
        lefts: Sequence[LeftSide] = (),
        lets: Mapping[str, PreparedLet] = NO_LETS,
    ) -> None:
        self._file = file
        self._blocks: list[BlockPlan] = []
        self._fresh_names = 0
        self.texts = texts
        self.environment = file.environment
        self.relations = analysis.predicates
        self.lets = lets
        self.late_lets = late_lets_of({name: one.formula for name, one in lets.items()})
        self.states: list[StatePlan] = []
        self.needed: list[list[int]] = []
        self.known_states: dict[object, int] = {}
        self.uses = UseNotes()
        self.plan = Plan(
            texts, [], [], None, None, self.states, self._blocks, [], [], [], [], [], [], None
        )
        # The formulas keep their comparisons alive, so that no other has the same `id`.
        self._formulas = [one.formula for one in prepared]
        self._formulas += [one.formula for one in lefts]
        self._formulas += [one.formula for one in lets.values()]
        self.kinds = kinds_of_variables(self._formulas, self.relations, self.environment)
        mixed = {
            id(node)
            for node in postorder(*self._formulas)
            if node.operator is ops.COMPARISON and is_mixed(node, self.kinds, self.environment)
        }
        self.binding = BindingAnalysis({}, mixed)
        for one in prepared:
            own = one.analysis.kinds
            self.kinds |= zip(one.names, (own[name] for name in one.analysis.reported), strict=True)
        for let in lets.values():
            self.kinds |= zip(let.names, let.kinds, strict=True)

    def key_of(self, name: str) -> tuple[str, ...]:
        """The columns of a key that are the last arguments of an atom."""
        relation = self._file.relations.get(name)
        arguments = () if relation is None else relation.arguments
        return tuple(one.name for one in arguments if one.is_key)

    def is_declared(self, name: str) -> bool:
        """Whether the file declares a relation or an atom of that name."""
        relation = self._file.relations.get(name_of_rows(name))
        return name in self._file.atoms or (relation is not None and relation.is_declared)

    def add_state(self, state: StatePlan, key: object, needs: Sequence[int]) -> int:
        """Add a state that equals no other; its number."""
        self.states.append(state)
        self.known_states[key] = len(self.states) - 1
        self.needed.append(list(needs))
        return len(self.states) - 1

    def fresh(self, name: str) -> str:
        """A name that no formula has: those of the expansion have one blank."""
        self._fresh_names += 1
        return f"{name}  {self._fresh_names}"

    def text_columns(self, names: Sequence[str]) -> tuple[int, ...]:
        """Which of the columns of some variables are texts."""
        return tuple(
            place for place, name in enumerate(names) if cell_kind(self.kinds[name]) == "text"
        )

    def finished(self, block: Block) -> int:
        self._blocks.append(BlockPlan(block.given, block.steps))
        return len(self._blocks) - 1

    def constant(self, value: object, kind: Kind) -> int | None:
        """The cell of a constant, or None if no value of the kind equals it."""
        if kind.name in {"text", "unknown"}:
            return number_text(self.texts, str(value))
        found = constant_as(value, kind)  # type: ignore[arg-type]
        return to_cell(found, kind, self.texts)

    def index(self, number: int, columns: tuple[int, ...]) -> int:
        """The index of a state on some of its columns, behind the one on all of them."""
        indexes = self.states[number].indexes
        if columns not in indexes[1:]:
            indexes.append(columns)
        return indexes.index(columns, 1)

    def alone(self, formula: Formula) -> Names:
        """The variables that a formula binds by itself; none if it cannot be evaluated so."""
        found = run(self.binding.evaluated(formula, frozenset()))
        return frozenset() if isinstance(found, Unbound) else found

    def is_alone(self, formula: Formula) -> bool:
        return self.binding.is_alone(formula)

    def error(self, node: Formula, message: str, hint: str) -> PolicyError:
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
