"""Policies that look at nothing but their own row: each has its verdict once its atoms are known.

A late row changes no other verdict of such a policy. Only a row whose atoms change, as they depend
on other rows, gets another one. So nothing needs to be kept of rows: what their verdicts were
follows from the atoms that they had. The same holds for rows that wait for later values; one that
waits again is no time-point until then.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.history.changes import INSERTED, UPDATED, WITHDRAWN, Changes, change_type
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
    """Judges rows by their own atoms, which may change; none is ever retracted.

    Set `leader` before the first rows: the history that admits them. The arguments are those of
    `History`; the formula looks at its own time-point only.

    Attributes:
        leader: as said.
        known_below: where rows wait, the time below which none waits for one that can still come.

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
        # the names of rows that wait again, as has been told
        self._withdrawn: set[tuple[int, int, int]] = set()
        self.known_below: int | None = None

    def judge(
        self,
        names: Names,
        held: NDArray[np.bool_],
        places: Sequence[int],
        former: NDArray[np.bool_] | None = None,
        was_there: NDArray[np.bool_] | None = None,
        is_removed: NDArray[np.bool_] | None = None,
    ) -> None:
        """Judge rows, in the order in which they change.

        Args:
            names: their names.
            held: which atoms hold at them.
            places: the columns of the atoms of this history.
            former: which atoms held at them before; None if they are all new.
            was_there: which of them were time-points before; None if all were.
            is_removed: which of them are no time-points any more; None if none is.
        """
        after = self._truth(held, places).astype(np.uint8)
        before = np.full(len(after), _OPEN, np.uint8)
        if former is not None:
            before = self._truth(former, places).astype(np.uint8)
            before = before if was_there is None else np.where(was_there, before, _OPEN)
        if is_removed is not None and is_removed.any():
            after = np.where(is_removed, np.uint8(_OPEN), after)
            firsts, lasts = _first_and_last(names)
            names, after, before = names.taken(lasts), after[lasts], before[firsts]
        known = int(np.count_nonzero(before != _OPEN))
        self._counters["events"] += int(np.count_nonzero(after != _OPEN)) - known
        self._counters["replayed_events"] += known
        self._counts += np.bincount(after, minlength=_OPEN + 1)
        self._counts -= np.bincount(before, minlength=_OPEN + 1)
        operation = np.where(before == _OPEN, np.uint8(INSERTED), np.uint8(UPDATED))
        operation[(after == _OPEN) & (before != _OPEN)] = WITHDRAWN
        self._note_withdrawn(names, after, operation)
        is_shown = np.array([self._shown >> kind & 1 for kind in range(_OPEN + 1)], np.bool_)
        chosen = np.flatnonzero((before != after) & (is_shown[after] | (operation != INSERTED)))
        if len(chosen):
            records = _records(names.taken(chosen), after[chosen])
            records["former"], records["operation"] = before[chosen], operation[chosen]
            self._found.append(records)

    def _note_withdrawn(
        self, names: Names, after: NDArray[np.uint8], operation: NDArray[np.uint8]
    ) -> None:
        """Remember which rows wait again; one that comes back has had a verdict."""
        if self._withdrawn:
            bound = self.known_below or 0
            self._withdrawn = {name for name in self._withdrawn if name[0] >= bound}
            listed = _each(names)
            is_back = np.array([name in self._withdrawn for name in listed], np.bool_)
            is_back &= after != _OPEN
            operation[is_back] = UPDATED
            self._withdrawn.difference_update(_each(names.taken(np.flatnonzero(is_back))))
        removed = np.flatnonzero(operation == WITHDRAWN)
        self._withdrawn.update(_each(names.taken(removed)))

    def _truth(self, held: NDArray[np.bool_], places: Sequence[int]) -> NDArray[np.bool_]:
        """Whether the formula is true, where atoms hold in some columns."""
        columns: Mapping[str, NDArray[np.bool_]] = {
            name: held[:, place] for name, place in zip(self.atoms, places, strict=True)
        }
        known: dict[int, NDArray[np.bool_]] = {}
        for node in postorder(self._formula):
            if node.operator is ops.ATOM:
                assert node.name is not None
                # no verdict depends on an atom that is not read
                held_of = columns.get(node.name)
                known[id(node)] = np.zeros(len(held), np.bool_) if held_of is None else held_of
            elif node.operator in (ops.TRUE, ops.FALSE):
                known[id(node)] = np.full(len(held), node.operator is ops.TRUE)
            else:
                operands = (known[id(operand)] for operand in node.operands)
                known[id(node)] = _OPERATORS[node.operator](*operands)
        return known[id(self._formula)]

    def changes(self) -> Changes:
        found, self._found = self._found, []
        return Changes(_by_trace(np.concatenate([np.empty(0, change_type()), *found])))

    def take_counts(self) -> NDArray[np.int64]:
        found, self._counts = self._counts, np.zeros_like(self._counts)
        return found

    def finish(self, end_time: object = None) -> Changes:
        """Return no changes: all rows are judged."""
        return self.changes()

    # ---- what is known ---------------------------------------------------------------------

    def final_below(self, key: Hashable = None) -> int | None:
        bound = self.leader.final_below(key)
        if bound is None or self.known_below is None:
            return bound
        return min(bound, self.known_below)

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
        head = [self._counters, sorted(self._withdrawn), self.known_below]
        return json.dumps(head).encode()

    def _restore(self, snapshot: Any) -> None:
        try:
            found, withdrawn, self.known_below = json.loads(bytes(snapshot))
            self._counters = {name: int(found[name]) for name in self._counters}
            self._withdrawn = {(time, trace, offset) for time, trace, offset in withdrawn}
        except (ValueError, TypeError, LookupError):
            raise damaged() from None


def _records(names: Names, kinds: NDArray[np.uint8]) -> NDArray[np.void]:
    """The changes of rows that have their first verdicts."""
    records = np.zeros(len(kinds), change_type())
    records["time_stamp"], records["trace"] = names.time_stamps, names.traces
    records["offset"], records["kind"] = names.offsets, kinds
    return records


def _each(names: Names) -> list[tuple[int, int, int]]:
    return list(zip(*(column.tolist() for column in names), strict=True))


def _first_and_last(names: Names) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the first and the last row of each name are, by name."""
    order = np.lexsort(names)
    is_other = np.zeros(len(order) - 1, np.bool_)
    for column in names:
        is_other |= column[order[1:]] != column[order[:-1]]
    return order[np.append(True, is_other)], order[np.append(is_other, True)]


def _by_trace(records: NDArray[np.void]) -> NDArray[np.void]:
    """Return changes by trace and time, as histories tell them; mostly they are."""
    is_behind = np.zeros(max(0, len(records) - 1), np.bool_)
    columns = [records[name] for name in ("offset", "time_stamp", "trace")]
    for column in columns:
        is_behind = (column[1:] > column[:-1]) | (column[1:] == column[:-1]) & is_behind
    return records if is_behind.all() else records[np.lexsort(columns)]
