"""Policies that look at nothing but their own row: each has its verdict when it comes.

A late row changes no other verdict of such a policy. Only a row whose atoms change, as they depend
on other rows, gets another one. So nothing needs to be kept of rows: what their verdicts were
follows from the atoms that they had.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.history.changes import UPDATED, Changes, change_type
from mtlmon.history.following import FollowingHistory
from mtlmon.support.snapshot_parts import damaged
from mtlmon.syntax import operators as ops
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.history.following import LeadingHistory
    from mtlmon.streams.named_rows import Names
    from mtlmon.syntax.formula import Formula

__all__ = ["PresentHistory", "is_of_present"]

_OPEN = 3
_OPERATORS = {
    ops.NOT: np.logical_not,
    ops.AND: np.logical_and,
    ops.OR: np.logical_or,
    ops.IMPLIES: np.less_equal,
    ops.IFF: np.equal,
}


def is_of_present(formula: Formula) -> bool:
    """Whether a formula without variables looks at its own time-point only."""
    return not any(node.operator.is_temporal for node in postorder(formula))


class PresentHistory(FollowingHistory):
    """Judges rows by their own atoms, which may change; none is ever taken back.

    Set `leader` before the first rows: the history that admits them. The arguments are those of
    `History`; the formula looks at its own time-point only.

    PERF: beside a window, such a policy took a quarter of the time without late rows, and as much
    memory for each row as its columns.
    """

    leader: LeadingHistory

    def __init__(self, formula: Formula, *args: Any, **chosen: Any) -> None:
        super().__init__(formula, *args, **chosen)
        self._formula = formula
        self._found: list[NDArray[np.void]] = []
        self._counts = np.zeros(_OPEN + 1, np.int64)
        self._counters = {"events": 0, "replayed_events": 0}

    def judge(
        self,
        names: Sequence[Names],
        held: Sequence[NDArray[np.bool_]],
        revised: tuple[Names, NDArray[np.bool_], NDArray[np.bool_]],
        places: Sequence[int],
    ) -> None:
        """Judge rows.

        Args:
            names: the names of new rows, in parts.
            held: which atoms hold at them.
            revised: the names of others whose atoms have changed, and which hold now and did.
            places: the columns of the atoms of this history.
        """
        others, now, before = revised
        after, former = self._truth(now, places), self._truth(before, places)
        changed = np.flatnonzero(after != former)
        self._counters["replayed_events"] += len(after)
        for own, atoms in zip(names, held, strict=True):
            kinds = self._truth(atoms, places).astype(np.uint8)
            self._counters["events"] += len(kinds)
            self._count(kinds, 1)
            shown = [kind for kind in (0, 1) if self._shown >> kind & 1]
            chosen = np.arange(len(kinds))
            if len(shown) < 2:
                chosen = np.flatnonzero(kinds == shown[0]) if shown else chosen[:0]
            self._found.append(_records(own.taken(chosen), kinds[chosen]))
        if len(changed):
            records = _records(others.taken(changed), after[changed].astype(np.uint8))
            records["former"], records["operation"] = former[changed], UPDATED
            self._count(records["kind"], 1)
            self._count(records["former"], -1)
            self._found.append(records)
        self._found = [_by_trace(np.concatenate(self._found))] if self._found else []

    def _truth(self, held: NDArray[np.bool_], places: Sequence[int]) -> NDArray[np.bool_]:
        """Whether the formula is true, where atoms hold in some columns."""
        columns: Mapping[str, NDArray[np.bool_]] = {
            name: held[:, place] for name, place in zip(self.atoms, places, strict=True)
        }
        known: dict[int, NDArray[np.bool_]] = {}
        for node in postorder(self._formula):
            if node.operator is ops.ATOM:
                assert node.name is not None
                known[id(node)] = columns[node.name]
            elif node.operator in (ops.TRUE, ops.FALSE):
                known[id(node)] = np.full(len(held), node.operator is ops.TRUE)
            else:
                operands = (known[id(operand)] for operand in node.operands)
                known[id(node)] = _OPERATORS[node.operator](*operands)
        return known[id(self._formula)]

    def _count(self, kinds: NDArray[np.uint8], by: int) -> None:
        true = int(np.count_nonzero(kinds))
        self._counts[:2] += by * len(kinds) - by * true, by * true
        self._counts[_OPEN] -= by * len(kinds)

    def changes(self) -> Changes:
        found, self._found = self._found, []
        return Changes(np.concatenate([np.empty(0, change_type()), *found]))

    def take_counts(self) -> NDArray[np.int64]:
        found, self._counts = self._counts, np.zeros_like(self._counts)
        return found

    def finish(self, end_time: object = None) -> Changes:
        """Return no changes: all rows are judged."""
        return self.changes()

    # ---- what is known ---------------------------------------------------------------------

    def final_below(self, key: Hashable = None) -> int | None:
        return self.leader.final_below(key)

    @property
    def keys(self) -> tuple[Hashable, ...]:
        return self.leader.keys

    @property
    def earliest_pending(self) -> None:
        """None: no time-point is undecided."""
        return None

    def counter(self, name: str) -> int:
        return self._counters.get(name, 0)

    def _snapshot(self) -> bytes:
        return json.dumps(self._counters).encode()

    def _restore(self, snapshot: Any) -> None:
        try:
            found = json.loads(bytes(snapshot))
            self._counters = {name: int(found[name]) for name in self._counters}
        except (ValueError, TypeError, LookupError):
            raise damaged() from None


def _records(names: Names, kinds: NDArray[np.uint8]) -> NDArray[np.void]:
    """The changes of rows that have their first verdicts."""
    records = np.zeros(len(kinds), change_type())
    records["time_stamp"], records["trace"] = names.time_stamps, names.traces
    records["offset"], records["kind"], records["former"] = names.offsets, kinds, _OPEN
    return records


def _by_trace(records: NDArray[np.void]) -> NDArray[np.void]:
    """Return changes by trace and time, as histories tell them; mostly they are."""
    is_behind = np.zeros(max(0, len(records) - 1), np.bool_)
    columns = [records[name] for name in ("offset", "time_stamp", "trace")]
    for column in columns:
        is_behind = (column[1:] > column[:-1]) | (column[1:] == column[:-1]) & is_behind
    return records if is_behind.all() else records[np.lexsort(columns)]
