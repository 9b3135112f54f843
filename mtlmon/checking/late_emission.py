"""What the histories of policies hear of rows and ticks that late rows have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.arrays.native import EventColumns
from mtlmon.history.following import IS_HIDDEN, IS_REMOVED
from mtlmon.streams.late_ticks import joined_ticks
from mtlmon.streams.named_rows import Names, Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.history.following import FollowingHistory, Passed
    from mtlmon.streams.late_ticks import ChangedTicks

__all__ = ["Revised", "Step", "emit_rows", "emit_ticks", "emit_waiting", "revised_rows"]


class Step(NamedTuple):
    """Rows that have their names, and then perhaps time that passes.

    Attributes:
        rows: the rows, by trace and time.
        flags: their flags.
        advance: how far time passes then, and in which trace or in all; or None.
    """

    rows: Rows
    flags: NDArray[np.uint8]
    advance: Passed | None


class Revised(NamedTuple):
    """Rows whose atoms have changed, and rows that were taken back.

    Attributes:
        names: their names.
        held: which atoms hold.
        flags: whether they were taken back.
    """

    names: Names
    held: NDArray[np.bool_]
    flags: NDArray[np.uint8]


def revised_rows(changed: list[Rows], removed: Names, atoms: int) -> Revised:
    """What has changed, and what was taken back."""
    names = [*(rows.names for rows in changed), removed]
    held = [*(rows.held for rows in changed), np.zeros((len(removed.offsets), atoms), np.bool_)]
    flags = np.zeros(sum(map(len, held)), np.uint8)
    flags[len(flags) - len(removed.offsets) :] = IS_REMOVED
    columns = (np.concatenate(columns) for columns in zip(*names, strict=True))
    return Revised(Names(*columns), np.concatenate(held), flags)


def emit_rows(
    history: FollowingHistory,
    steps: Sequence[Step],
    revised: Revised,
    places: Sequence[int],
    choice: int | None,
    *,
    has_keys: bool,
) -> None:
    """Let a history hear what has become of the rows of a batch.

    Args:
        history: the history.
        steps: the new rows, and how time passes.
        revised: the other rows that have changed.
        places: the columns of its atoms.
        choice: the column of the atom that holds where the policy has time-points; None if all rows
            are.
        has_keys: whether traces have keys.
    """
    if len(revised.flags):
        history.revise(
            _columns(revised.names.time_stamps, revised.held, places),
            revised.names.traces,
            revised.names.offsets,
            _chosen(revised.flags, revised.held, choice),
        )
    for rows, flags, passed in steps:
        history.follow(
            _columns(rows.time_stamps, rows.held, places),
            rows.traces,
            _chosen(flags, rows.held, choice),
            has_keys,
        )
        if passed is not None:
            history.pass_time(*passed)


def emit_ticks(
    history: FollowingHistory,
    changed: Sequence[ChangedTicks],
    passed: Sequence[Passed],
    places: Sequence[int],
    atoms: int,
    *,
    has_keys: bool,
) -> None:
    """Let a history of a policy on ticks hear what has become of these.

    Args:
        history: the history.
        changed: what has changed.
        passed: how time passes.
        places: the columns of its atoms.
        atoms: how many columns there are.
        has_keys: whether traces have keys.
    """
    new = joined_ticks([one.new for one in changed], atoms)
    revised = joined_ticks([one.revised for one in changed], atoms)
    if len(revised.traces):
        is_removed = np.concatenate([one.is_removed for one in changed])
        history.revise(
            _columns(revised.time_stamps, revised.held, places),
            revised.traces,
            revised.offsets,
            np.where(is_removed, IS_HIDDEN, 0).astype(np.uint8),
        )
    new = new.taken(np.lexsort((new.time_stamps, new.traces)))
    for last in [*passed, None]:
        is_now = np.ones(len(new.traces), np.bool_)
        if last is not None:
            is_now = new.time_stamps < last[0]
        own, new = new.taken(is_now), new.taken(~is_now)
        history.follow(
            _columns(own.time_stamps, own.held, places),
            np.ascontiguousarray(own.traces),
            np.zeros(len(own.traces), np.uint8),
            has_keys,
        )
        if last is not None:
            history.pass_time(*last)


def emit_waiting(
    history: FollowingHistory,
    steps: Sequence[Step],
    changed: Sequence[ChangedTicks],
    removed: Names,
    places: Sequence[int],
    atoms: int,
    *,
    has_keys: bool,
) -> None:
    """Let a history of a policy on rows that wait hear what has become of them.

    All rows have their names in the history at once, but are no time-points while they wait. Time
    alone decides nothing there.

    Args:
        history: the history.
        steps: the new rows.
        changed: the rows that wait no longer, or again, or have other atoms.
        removed: the names of the rows that were taken back.
        places: the columns of its atoms.
        atoms: how many columns there are.
        has_keys: whether traces have keys.
    """
    for rows, own, _ in steps:
        history.follow(
            _columns(rows.time_stamps, np.zeros((len(own), atoms), np.bool_), places),
            rows.traces,
            own | np.uint8(IS_HIDDEN),
            has_keys,
        )
    revised = joined_ticks([one.revised for one in changed], atoms)
    flags = [np.where(one.is_removed, IS_HIDDEN, 0) for one in changed]
    flags.append(np.full(len(removed.traces), IS_REMOVED))
    held = np.concatenate([revised.held, np.zeros((len(removed.traces), atoms), np.bool_)])
    history.revise(
        _columns(np.concatenate([revised.time_stamps, removed.time_stamps]), held, places),
        np.concatenate([revised.traces, removed.traces]),
        np.concatenate([revised.offsets, removed.offsets]),
        np.concatenate(flags).astype(np.uint8),
    )
    # what is revised is judged with the next events
    nothing = np.empty(0, np.uint32)
    history.follow(
        _columns(np.empty(0, np.int64), held[:0], places),
        nothing,
        nothing.astype(np.uint8),
        has_keys,
    )


def _columns(
    time_stamps: NDArray[np.int64], held: NDArray[np.bool_], places: Sequence[int]
) -> EventColumns:
    columns = EventColumns(np.ascontiguousarray(time_stamps), len(time_stamps))
    if len(time_stamps):
        for atom, place in enumerate(places):
            columns.add_bytes(atom, np.ascontiguousarray(held[:, place]).view(np.uint8))
    return columns


def _chosen(
    flags: NDArray[np.uint8], held: NDArray[np.bool_], choice: int | None
) -> NDArray[np.uint8]:
    """The flags of rows, of which some are no time-points of a policy."""
    if choice is None:
        return flags
    return flags | np.where(held[:, choice], 0, IS_HIDDEN).astype(np.uint8)
