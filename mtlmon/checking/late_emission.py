"""What the histories of policies hear of rows and ticks that late rows have changed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.arrays.native import EventColumns
from mtlmon.history.following import IS_HIDDEN, IS_REMOVED
from mtlmon.streams.late_ticks import joined_ticks
from mtlmon.streams.named_rows import Names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.history.following import FollowingHistory, Passed
    from mtlmon.streams.late_ticks import ChangedTicks, TickRows
    from mtlmon.streams.named_rows import Rows

__all__ = ["Emission", "Revised", "Step", "revised_rows"]


class Step:
    """Rows that have their names, and then perhaps time that passes.

    Args:
        rows: the rows of this step and others.
        flags: their flags.
        places: where those of this step are, by trace and time.
        advance: how far time passes then, and in which trace or in all; or None.
    """

    def __init__(
        self,
        rows: Rows,
        flags: NDArray[np.uint8],
        places: NDArray[np.intp],
        advance: Passed | None,
    ) -> None:
        self._rows = rows
        self._flags = flags
        self._places = places
        self.advance = advance

    # PERF: policies that look at their own row only need no order; to make it took a thirtieth of
    # the time of windows without late rows.

    @cached_property
    def names(self) -> Names:
        """The names of the rows."""
        return self._rows.names.taken(self._places)

    @cached_property
    def held(self) -> NDArray[np.bool_]:
        """Which atoms hold."""
        held: NDArray[np.bool_] = self._rows.held[self._places]
        return held

    @cached_property
    def flags(self) -> NDArray[np.uint8]:
        """The flags of the rows."""
        flags: NDArray[np.uint8] = self._flags[self._places]
        return flags


class Revised(NamedTuple):
    """Rows whose atoms have changed, and rows that were taken back.

    Attributes:
        names: their names.
        held: which atoms hold.
        flags: whether they were taken back.
        former: which atoms held before, at those that were not.
    """

    names: Names
    held: NDArray[np.bool_]
    flags: NDArray[np.uint8]
    former: NDArray[np.bool_]


def revised_rows(
    changed: list[Rows], removed: Names, former: list[NDArray[np.bool_]], atoms: int
) -> Revised:
    """What has changed, with the atoms from before, and what was taken back."""
    names = [*(rows.names for rows in changed), removed]
    held = [*(rows.held for rows in changed), np.zeros((len(removed.offsets), atoms), np.bool_)]
    flags = np.zeros(sum(map(len, held)), np.uint8)
    flags[len(flags) - len(removed.offsets) :] = IS_REMOVED
    columns = (np.concatenate(columns) for columns in zip(*names, strict=True))
    before = np.concatenate([np.zeros((0, atoms), np.bool_), *former])
    return Revised(Names(*columns), np.concatenate(held), flags, before)


class Emission:
    """Lets the history of a policy hear what has become of rows or ticks.

    Args:
        history: the history.
        places: the columns of its atoms.
        has_keys: whether traces have keys.
    """

    def __init__(self, history: FollowingHistory, places: Sequence[int], *, has_keys: bool) -> None:
        self._history = history
        self._places = places
        self._has_keys = has_keys

    def rows(self, steps: Sequence[Step], revised: Revised, choice: int | None) -> None:
        """Tell of the rows of a batch.

        Args:
            steps: the new rows, and how time passes.
            revised: the other rows that have changed.
            choice: the column of the atom that holds where the policy has time-points; None if all
                rows are.
        """
        if len(revised.flags):
            flags = _chosen(revised.flags, revised.held, choice)
            self._revise(revised.names, revised.held, flags)
        for step in steps:
            self._follow(step.names, step.held, _chosen(step.flags, step.held, choice))
            if step.advance is not None:
                self._history.pass_time(*step.advance)

    def ticks(self, changed: Sequence[ChangedTicks], passed: Sequence[Passed], atoms: int) -> None:
        """Tell of ticks.

        Args:
            changed: what has changed.
            passed: how time passes.
            atoms: how many columns of atoms there are.
        """
        new = joined_ticks([one.new for one in changed], atoms)
        revised = joined_ticks([one.revised for one in changed], atoms)
        if len(revised.traces):
            is_removed = np.concatenate([one.is_removed for one in changed])
            self._revise(Names(*revised[:3]), revised.held, np.where(is_removed, IS_HIDDEN, 0))
        new = new.taken(np.lexsort((new.time_stamps, new.traces)))
        for last in [*passed, None]:
            is_now = np.ones(len(new.traces), np.bool_)
            if last is not None:
                is_now = new.time_stamps < last[0]
            own, new = new.taken(is_now), new.taken(~is_now)
            self._follow(own, own.held, np.zeros(len(own.traces), np.uint8))
            if last is not None:
                self._history.pass_time(*last)

    def waiting(
        self, steps: Sequence[Step], changed: Sequence[ChangedTicks], removed: Names, atoms: int
    ) -> None:
        """Tell of rows that wait.

        All rows have their names in the history at once, but are no time-points while they wait.
        Time alone decides nothing there.

        Args:
            steps: the new rows.
            changed: the rows that wait no longer, or again, or have other atoms.
            removed: the names of the rows that were taken back.
            atoms: how many columns of atoms there are.
        """
        for step in steps:
            nothing = np.zeros((len(step.flags), atoms), np.bool_)
            self._follow(step.names, nothing, step.flags | np.uint8(IS_HIDDEN))
        revised = joined_ticks([one.revised for one in changed], atoms)
        flags = [np.where(one.is_removed, IS_HIDDEN, 0) for one in changed]
        flags.append(np.full(len(removed.traces), IS_REMOVED))
        names = zip(*[Names(*revised[:3]), removed], strict=True)
        held = np.concatenate([revised.held, np.zeros((len(removed.traces), atoms), np.bool_)])
        self._revise(Names(*map(np.concatenate, names)), held, np.concatenate(flags))
        # what is revised is judged with the next events
        none = joined_ticks([], atoms)
        self._follow(none, none.held, np.zeros(0, np.uint8))

    def _follow(
        self, names: Names | TickRows, held: NDArray[np.bool_], flags: NDArray[np.uint8]
    ) -> None:
        columns = self._columns(names.time_stamps, held)
        self._history.follow(columns, np.ascontiguousarray(names.traces), flags, self._has_keys)

    def _revise(self, names: Names, held: NDArray[np.bool_], flags: NDArray[np.integer]) -> None:
        columns = self._columns(names.time_stamps, held)
        self._history.revise(columns, names.traces, names.offsets, flags.astype(np.uint8))

    def _columns(self, time_stamps: NDArray[np.int64], held: NDArray[np.bool_]) -> EventColumns:
        columns = EventColumns(np.ascontiguousarray(time_stamps), len(time_stamps))
        if len(time_stamps):
            for atom, place in enumerate(self._places):
                columns.add_bytes(atom, np.ascontiguousarray(held[:, place]).view(np.uint8))
        return columns


def _chosen(
    flags: NDArray[np.uint8], held: NDArray[np.bool_], choice: int | None
) -> NDArray[np.uint8]:
    """The flags of rows, of which some are no time-points of a policy."""
    if choice is None:
        return flags
    return flags | np.where(held[:, choice], 0, IS_HIDDEN).astype(np.uint8)
