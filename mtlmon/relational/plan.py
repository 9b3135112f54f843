"""What the engine evaluates: queries of blocks of steps, and the states of temporal operators.

Everything is numbers, as the engine is native: a block, state, program, query, atom, group or
function is a place in the lists of a `Plan`, and a variable is a column of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.arrays.native import KeyTable
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.uses import Uses

NO_QUERY = 2**32 - 1
"""Stands for no query, state or block."""

# counted left sides have queries, which are digested, as have lets that use themselves
_NOT_DIGESTED = ("texts", "functions", "counted", "uses", "joint")


class ProgramPlan(NamedTuple):
    """An expression of the cells of a row.

    Attributes:
        code: for each instruction the operation, the target, and the arguments a, b and c.
        registers: how many there are.
        constants: the cells of constants; None is null.
        result: the register with the value.
        descriptions: the words for each instruction, for errors.
    """

    code: list[tuple[int, int, int, int, int]]
    registers: int
    constants: list[int | None]
    result: int
    descriptions: list[str]


class SidePlan(NamedTuple):
    """One of two states that meet in a step. The native `Side` says what the parts mean."""

    state: int
    first_index: int | None
    key_index: int
    first_keys: tuple[int, ...]
    keys: tuple[int, ...]
    takes: tuple[int, ...]
    places: tuple[int, ...]


class StepPlan(NamedTuple):
    """A step of a block, which makes rows of rows. The native `Step` says what the parts mean."""

    kind: str
    width: int
    mode: str = "join"
    source_kind: str = "atom"
    source: int = 0
    key_index: int = 0
    is_binding: bool = False
    is_distinct: bool = False
    keys: tuple[int, ...] = ()
    matched: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()
    equal: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    aggregate: str = "COUNT"
    cell: str = "integer"
    has_value: bool = False
    group: int = 0
    sides: tuple[SidePlan, ...] = ()


class BlockPlan(NamedTuple):
    """Steps, one after another.

    Attributes:
        width: the number of columns that it is given.
        steps: the steps.
    """

    width: int
    steps: list[StepPlan]


class LeftPlan(NamedTuple):
    """A conjunct of the left side of SINCE or UNTIL.

    Attributes:
        kind: "breaks" (NOT of a query), "runs" (a query), "marks" and "ends" (of what the rows of
            the second query match, those of the first one let go on), or "filters" (a block for all
            slots).
        operand: the query, or `NO_QUERY`.
        width: the number of columns of its rows.
        key_index: for SINCE, the index of the slots that rows match.
        block: the block of a filter.
        columns: for SINCE, where a row has the columns of the index; for UNTIL, which column of a
            slot each column of a row is.
        texts: the columns of its rows that are texts.
    """

    kind: str
    operand: int
    width: int
    key_index: int
    block: int
    columns: tuple[int, ...]
    texts: tuple[int, ...]


class StatePlan(NamedTuple):
    """The state of a temporal operator.

    Attributes:
        kind: "window" (ONCE, EVENTUALLY), "counts" (HISTORICALLY, ALWAYS), "since", "until",
            "neighbour" (PREVIOUS, NEXT), "present" (what a let that uses itself has at the
            time-point), or, of the rows of another state, which is the operand, "groups" (their
            aggregates) or "spans" (when they held; up to `upper` back).
        is_future: whether it looks ahead.
        lower: the lower bound of its interval.
        upper: the upper bound; None if there is none.
        width: the number of columns of its rows.
        texts: the columns that are texts.
        operand: the query whose rows it takes.
        indexes: the columns of each index; the first has all.
        lefts: the conjuncts of the left side.
        grouped_by: for "groups", the columns of the other state's rows that tell groups apart.
        valued: for "groups", the column whose values are summed or ordered, or None for a count.
        ordering: for "groups", "MIN" or "MAX" if the least or largest value is asked for.
        cell: for "groups", the kind of the cells of that column.
        is_pruning: for "groups", whether the other state, which nothing else looks at, forgets the
            rows that cannot come first any more.
        is_exact: for "window", whether all time-points at which a row came are kept.
        is_strict: for "since" and "until", whether the present does not count: the right side
            holds before it, or behind it, and the left side up to it.
    """

    kind: str
    is_future: bool
    lower: int
    upper: int | None
    width: int
    texts: tuple[int, ...]
    operand: int
    indexes: list[tuple[int, ...]]
    lefts: list[LeftPlan]
    grouped_by: tuple[int, ...] = ()
    valued: int | None = None
    ordering: str | None = None
    cell: str = "integer"
    is_pruning: bool = False
    is_exact: bool = False
    is_strict: bool = False

    @property
    def is_earlier(self) -> bool:
        """Whether it looks at time-points before the one at which it stands, and not at that."""
        if self.is_future:
            return False
        if self.kind in {"window", "counts"}:
            return self.lower > 0
        return self.kind == "neighbour" or (self.kind == "since" and self.is_strict)


class QueryPlan(NamedTuple):
    """A formula that is evaluated by itself.

    Attributes:
        early: the block for what the present and the past decide, or None.
        late: the block that waits for later time-points, or None.
        width: the number of columns of its rows.
        policy: the number of the policy that it answers, or None.
        is_find: whether that is a `find`.
        early_states: the states that the early block looks at, each behind those it needs.
        late_states: those that the late block looks at.
        waiting_texts: the columns of the rows for the late block that are texts.
        kept: the atoms that the late block looks at.
        consumers: the states that take its rows: the number of each, and that of the conjunct of
            its left side, or None for its operand.
        part: which part of a closed policy's formula it is, or None.
    """

    early: int | None
    late: int | None
    width: int
    policy: int | None
    is_find: bool
    early_states: list[int]
    late_states: list[int]
    waiting_texts: tuple[int, ...]
    kept: list[int]
    consumers: list[tuple[int, int | None]]
    part: int | None = None


class ClosedPlan(NamedTuple):
    """A policy that an ordinary monitor answers, from what queries say.

    Attributes:
        policy: the number of the policy.
        formula: the ordinary formula, true at the time-points that are found.
        part_count: how many queries there are.
    """

    policy: int
    formula: str
    part_count: int


class CountedPlan(NamedTuple):
    """The left side of a policy that is an implication; its valuations are only counted.

    Attributes:
        policy: the number of the policy.
        query: the query that finds them, which has no other use.
        is_own: whether the policy is the implication itself and reports the variables of the left
            side, so that only these valuations can violate it.
        has_variables: whether the left side has variables; otherwise time-points are counted.
        written: the left side as text.
    """

    policy: int
    query: int
    is_own: bool
    has_variables: bool
    written: str


class AtomPlan(NamedTuple):
    """An atom of the log.

    Attributes:
        name: its name.
        kinds: the kinds of its arguments.
        key: the columns of a key, whose values are its last arguments.
    """

    name: str
    kinds: tuple[Kind, ...]
    key: tuple[str, ...] = ()


class PolicyPlan(NamedTuple):
    """What is known of a policy's answers.

    Attributes:
        name: the name of the policy, or None.
        is_find: whether it is a `find`.
        variables: the variables that it reports.
        kinds: the kind of each.
        text: what the policy means, in words; empty if the file does not say.
        severity: how serious a violation is, or None.
        key: the columns of its key, whose values are the first of those that it reports, as texts.
    """

    name: str | None
    is_find: bool
    variables: tuple[str, ...]
    kinds: tuple[Kind, ...]
    text: str = ""
    severity: str | None = None
    key: tuple[str, ...] = ()


class Plan(NamedTuple):
    """All that the engine needs.

    Attributes:
        texts: the numbers of texts, those of constants among them.
        named_atoms: the atoms, in the order of their numbers.
        named_policies: the policies, in the order of their numbers.
        point: the number of the built-in atom `point`, or None.
        time: the number of the built-in atom `time`, or None.
        functions: what Python computes: takes columns of cells, the number of rows and the texts,
            and returns a cell or None for each row.
        groups: the number of columns of each group.
        closed: the policies that ordinary monitors answer.
        counted: the left sides that are counted.
        uses: what remembered rows say about the policies, for slices; None before it is known.
        joint: how many queries there are, the first ones, whose late blocks need each other's
            answers about earlier time-points, so that they are run one time-point after another.
    """

    texts: KeyTable
    named_atoms: list[AtomPlan]
    named_policies: list[PolicyPlan]
    point: int | None
    time: int | None
    states: list[StatePlan]
    blocks: list[BlockPlan]
    programs: list[ProgramPlan]
    queries: list[QueryPlan]
    groups: list[int]
    functions: list[Callable[[list[list[int]], int, KeyTable], list[int | None]]]
    closed: list[ClosedPlan]
    counted: list[CountedPlan]
    uses: Uses | None
    joint: int = 0

    def digest(self) -> bytes:
        """A digest of all but functions and uses, which tells plans of other policies apart."""
        from hashlib import blake2b

        parts = [getattr(self, name) for name in self._fields if name not in _NOT_DIGESTED]
        return blake2b(repr(parts).encode(), digest_size=8).digest()

    def words_of_query(self, number: int) -> str:
        """What errors call a query: its policy, or those that it is a part of."""
        found = sorted(self._policies_of(number))
        words = [
            ("find" if one.is_find else "policy") + ("" if one.name is None else f" {one.name}")
            for one in (self.named_policies[policy] for policy in found)
        ]
        if any(one.query == number for one in self.counted):
            return f"the left side of {words[0]}"
        is_part = self.queries[number].policy is None
        return f"{'a part of ' if is_part else ''}{' and '.join(words)}"

    def _policies_of(self, number: int) -> set[int]:
        """The numbers of the policies that look at a query, also by way of others."""
        seen: set[int] = set()
        counted: set[int] = set()
        waiting = [number]
        while waiting:
            query = waiting.pop()
            if query in seen:
                continue
            seen.add(query)
            counted |= {one.policy for one in self.counted if one.query == query}
            states = {state for state, _ in self.queries[query].consumers}
            waiting += [
                other
                for other, one in enumerate(self.queries)
                if not states.isdisjoint([*one.early_states, *one.late_states])
            ]
        found = {policy for query in seen if (policy := self.queries[query].policy) is not None}
        return found | counted

    @property
    def atoms(self) -> list[int]:
        """The number of arguments of each atom."""
        return [len(atom.kinds) for atom in self.named_atoms]

    @property
    def atom_texts(self) -> list[tuple[int, ...]]:
        """The arguments of each atom that are texts."""
        return [
            tuple(place for place, kind in enumerate(atom.kinds) if cell_kind(kind) == "text")
            for atom in self.named_atoms
        ]

    @property
    def policies(self) -> list[list[str]]:
        """The kinds of the cells of each policy's answers."""
        return [[cell_kind(kind) for kind in one.kinds] for one in self.named_policies]


def cell_kind(kind: Kind) -> str:
    """How cells of a kind are compared: "integer", "float" or "text"."""
    if kind.name in {"float", "decimal"}:
        return "float"
    return "text" if kind.name in {"text", "unknown"} else "integer"
