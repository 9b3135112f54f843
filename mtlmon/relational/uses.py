"""Notes what the rows that an engine remembers say about the policies: values of which variables.

Operators that differ in the names of variables only share a state, as do their operands, within a
policy or between several. So the columns of a state can be different variables for each policy
that uses it. What is inside of a state is planned once, with the variables of the first use;
`UseNotes.uses` translates it for all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.relational.plan import Plan

__all__ = ["Use", "UseNotes", "Uses"]


class Use(NamedTuple):
    """What the columns of some rows are for a policy.

    Attributes:
        policy: the number of the policy.
        columns: for each column, the variable's place among those that the policy reports and
            exposes, or None for another variable.
    """

    policy: int
    columns: tuple[int | None, ...]


class Uses(NamedTuple):
    """All uses of the rows that an engine remembers.

    Attributes:
        states: of the rows of each state.
        queries: of the rows that each query makes.
        waiting: of the rows that wait for the late block of each query.
    """

    states: tuple[tuple[Use, ...], ...]
    queries: tuple[tuple[Use, ...], ...]
    waiting: tuple[tuple[Use, ...], ...]


class _Part:
    """A query or state, as the first one who used it named its variables.

    Attributes:
        names: the variables of its columns.
        used: what it uses itself, a query or state, and the variables of those columns; None for
            what is not a variable.
        waiting: the variables of the rows for a late block.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.used: list[tuple[str, int, tuple[str | None, ...]]] = []
        self.waiting: tuple[str | None, ...] = ()


class UseNotes:
    """Notes uses while a planner plans: for each query and state `begin`, what it uses, `end`."""

    def __init__(self) -> None:
        self._open: list[_Part] = []
        self._parts: dict[tuple[str, int], _Part] = {}
        self._roots: list[tuple[int, int]] = []

    def begin(self, names: Sequence[str]) -> None:
        """Begin a query or state with these columns, which has no number yet."""
        self._open.append(_Part(names))

    def end(self, kind: str, number: int) -> None:
        """End what was begun last: a "query" or "state"."""
        self._parts[kind, number] = self._open.pop()

    def use(self, kind: str, number: int, names: Sequence[str | None]) -> None:
        """Note that what is open uses a query or state, whose columns are these variables."""
        self._open[-1].used.append((kind, number, tuple(names)))

    def connect(self, state: int, query: int) -> None:
        """Note that a state uses a query, which had no number when the state ended."""
        part = self._parts["state", state]
        part.used.append(("query", query, part.names))

    def renumber(self, queries: Sequence[int]) -> None:
        """Note that queries have got other numbers."""

        def other(kind: str, number: int) -> int:
            return queries[number] if kind == "query" else number

        for part in self._parts.values():
            part.used = [(kind, other(kind, one), names) for kind, one, names in part.used]
        self._parts = {(kind, other(kind, one)): part for (kind, one), part in self._parts.items()}

    def wait(self, columns: Mapping[str, int], width: int) -> None:
        """Note the columns of the rows that wait for the late block of the query that is open."""
        names = {place: name for name, place in columns.items()}
        self._open[-1].waiting = tuple(names.get(place) for place in range(width))

    def answer(self, query: int, policy: int) -> None:
        """Note that a query answers a policy; its columns are what that reports and exposes."""
        self._roots.append((query, policy))

    def uses(self, plan: Plan) -> Uses:
        """Return all uses of the rows of a plan."""
        found: dict[tuple[str, int], dict[Use, None]] = {}
        waiting: dict[int, dict[Use, None]] = {}
        stack = [
            ("query", query, Use(policy, tuple(range(len(self._parts["query", query].names)))))
            for query, policy in self._roots
        ]
        while stack:
            kind, number, use = stack.pop()
            known = found.setdefault((kind, number), {})
            if use in known:
                continue
            known[use] = None
            part = self._parts[kind, number]
            places: dict[str | None, int | None] = dict(zip(part.names, use.columns, strict=True))
            if kind == "query":
                columns = tuple(map(places.get, part.waiting))
                waiting.setdefault(number, {})[Use(use.policy, columns)] = None
            stack += [
                (other, inner, Use(use.policy, tuple(map(places.get, names))))
                for other, inner, names in part.used
            ]
        for number, state in enumerate(plan.states):
            if state.kind == "spans":
                # they have the rows of their parent
                found["state", number] = found.get(("state", state.operand), {})
        return Uses(
            tuple(tuple(found.get(("state", one), ())) for one in range(len(plan.states))),
            tuple(tuple(found.get(("query", one), ())) for one in range(len(plan.queries))),
            tuple(tuple(waiting.get(one, ())) for one in range(len(plan.queries))),
        )
