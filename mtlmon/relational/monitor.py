"""Monitors of first-order policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import PolicyError, TimeStampError
from mtlmon.relational.analysis import analyse
from mtlmon.relational.cells import Value, from_cell, to_cell
from mtlmon.relational.native import RelationalEngine
from mtlmon.relational.planning import plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.policy import PolicyFile

_KINDS = (False, True, None)


class Answer(NamedTuple):
    """What a monitor says about a time-point.

    Attributes:
        policy: the name of the policy, or None if it has none.
        time_stamp: the time-stamp of the time-point.
        offset: which of the time-points of the time-stamp it is, from 0 on.
        value: False for a violation of a policy, True if nothing violates it, None for what a
            `find` has found.
        valuation: the values of the variables, by name.
        point: the number of the time-point, from 0 on.
    """

    policy: str | None
    time_stamp: int
    offset: int
    value: bool | None
    valuation: dict[str, Value]
    point: int


class RelationalMonitor:
    """Monitors the first-order policies of a file.

    Args:
        policy: a policy file, or its text.
        verdicts: "false" for violations and what a `find` finds, "all" for the time-points
            without violations, too.

    Attributes:
        plan: how the policies are evaluated.
        engine: what evaluates them.

    Raises:
        PolicyError: a policy cannot be evaluated, or the file has none with variables.

    >>> monitor = RelationalMonitor("publish(u, f) IMPLIES ONCE[0,10] approve(f)")
    >>> monitor.step(3, {"approve": [("report",)]})
    []
    >>> [answer.valuation for answer in monitor.step(5, {"publish": [("alice", "draft")]})]
    [{'u': 'alice', 'f': 'draft'}]
    """

    def __init__(self, policy: PolicyFile | str, *, verdicts: str = "false") -> None:
        if verdicts not in {"false", "all"}:
            raise ValueError(f"verdicts is 'false' or 'all', not {verdicts!r}")
        if isinstance(policy, str):
            from mtlmon.policy import parse_policies

            policy = parse_policies(policy)
        analysis = analyse(policy)
        if analysis.errors:
            raise analysis.errors[0]
        if not analysis.policies:
            raise PolicyError(
                "the file has no policy with variables", hint="use Monitor for other policies"
            )
        self.plan = plan(policy, analysis)
        self.engine = RelationalEngine(self.plan, self.plan.texts)
        self.engine.wants_holding = verdicts == "all"
        self._numbers = {atom.name: number for number, atom in enumerate(self.plan.named_atoms)}

    def step(
        self, time_stamp: int, database: Mapping[str, Iterable[Sequence[object]]]
    ) -> list[Answer]:
        """Take in a time-point.

        Args:
            time_stamp: its time-stamp.
            database: the rows of each atom. Atoms that no policy names are left out; an atom
                without arguments has the row `()`. Rows with null or NaN are left out.

        Returns:
            What is known now, in the order of time-points.

        Raises:
            TimeStampError: the time-stamp is below that of an earlier time-point.
            TypeError, ValueError: a row does not have the arguments of its atom.
        """
        if time_stamp < self.engine.clock:
            raise TimeStampError(
                f"the time-stamp {time_stamp} is below {self.engine.clock}, that of an earlier "
                "time-point"
            )
        rows: list[tuple[int, list[int]]] = []
        for name, given in database.items():
            number = self._numbers.get(name)
            if number is None or number in {self.plan.point, self.plan.time}:
                continue
            rows += ((number, cells) for row in given if (cells := self._cells(number, row)))
            rows += ((number, []) for row in given if not self.plan.named_atoms[number].kinds)
        self.engine.points.add(time_stamp, rows)
        self.engine.advance()
        return self._answers()

    def advance(self, time_stamp: int) -> list[Answer]:
        """Say that no time-point with a lower time-stamp comes."""
        self.engine.end(time_stamp, False)
        return self._answers()

    def finish(self) -> list[Answer]:
        """Say that no time-point comes any more; return what that decides."""
        self.engine.end(self.engine.clock, True)
        return self._answers()

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        saved: bytes = self.engine.snapshot()
        return saved

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot of a monitor of the same policies; this one must be new.

        Raises:
            SnapshotError: the bytes are not such a snapshot.
        """
        self.engine.restore(snapshot)

    @property
    def held_bytes(self) -> int:
        """The bytes that the monitor holds, without texts."""
        held: int = self.engine.held_bytes
        return held

    def _cells(self, number: int, row: Sequence[object]) -> list[int]:
        """The cells of a row; none if a value is null."""
        atom = self.plan.named_atoms[number]
        if len(row) != len(atom.kinds):
            raise ValueError(f"{atom.name} has {len(atom.kinds)} arguments, not {len(row)}")
        cells: list[int] = []
        for value, kind in zip(row, atom.kinds, strict=True):
            cell = to_cell(value, kind, self.plan.texts)
            if cell is None:
                return []
            cells.append(cell)
        return cells

    def _answers(self) -> list[Answer]:
        found: list[Answer] = []
        for policy, kind, time_stamp, offset, point, cells in self.engine.answers.take():
            known = self.plan.named_policies[policy]
            valuation = {
                name: from_cell(cell, one, self.plan.texts)
                for name, one, cell in zip(known.variables, known.kinds, cells, strict=False)
            }
            value = _KINDS[kind]
            found.append(Answer(known.name, time_stamp, offset, value, valuation, point))
        return found
