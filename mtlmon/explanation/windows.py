"""The cheapest witness and the cheapest refutation of SINCE, for all time-points in one sweep.

Positions are counted so that the operator looks back, from `i` to `j <= i`; for a future operator
the caller turns time round. Costs are sizes of proofs, 0 where there is none. The candidates within
a window that slides are kept as a queue of increasing cost, so each enters and leaves it once and
the time is linear in the number of positions, whatever the interval.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.syntax.interval import Interval

__all__ = ["WINDOW", "Refusal", "Windows", "refusals", "witnesses"]

WINDOW = -1
"""Stands for the position of a cut where there is none."""


class Windows(NamedTuple):
    """The positions at a distance in the interval, for each position from `first` on.

    Attributes:
        first: the first position that is looked from.
        far: the window of position `first + x` is `far[x] .. near[x]`; if it is empty, `far[x]` is
            `near[x] + 1`.
        near: the other end of these windows.
    """

    first: int
    far: list[int]
    near: list[int]

    @classmethod
    def of(cls, times: Sequence[int], first: int, interval: Interval) -> Windows:
        """The windows for times that never decrease; that of `first` begins within them."""
        far, near = [], []
        low, high = 0, -1
        lower, upper = interval.lower, interval.upper
        for i in range(first, len(times)):
            now = times[i]
            if upper is not None:
                while now - times[low] > upper:
                    low += 1
            while high < i and now - times[high + 1] >= lower:
                high += 1
            far.append(low)
            near.append(high)
        return cls(first, far, near)


def witnesses(
    windows: Windows, witness: Sequence[int], chain: Sequence[int] | None
) -> tuple[list[int], list[int]]:
    """The least of `witness[j] + sum(chain[j+1 : i+1])` over the window, and its j; 0 for none.

    Args:
        windows: where to look for j.
        witness: the cost of each j, 0 if it is none.
        chain: the cost of each position between, 0 if j cannot lie behind it; None costs nothing.
    """
    count = len(witness)
    total = [0] * (count + 1) if chain is None else list(accumulate(chain, initial=0))
    costs, choices = [], []
    queue: deque[tuple[int, int]] = deque()
    entered = broken = checked = 0
    for i, (far, near) in enumerate(zip(windows.far, windows.near, strict=True), windows.first):
        for j in range(entered, near + 1):
            if witness[j]:
                _enter(queue, witness[j] - total[j + 1], j)
        entered = max(entered, near + 1)
        if chain is not None:
            for k in range(checked, i + 1):
                if not chain[k]:
                    broken = k
            checked = i + 1
        _leave(queue, max(far, broken))
        costs.append(queue[0][0] + total[i + 1] if queue else 0)
        choices.append(queue[0][1] if queue else 0)
    return costs, choices


class Refusal(NamedTuple):
    """What keeps positions from being witnesses.

    Attributes:
        absent: the cost of showing that a position is none, 0 if that cannot be shown.
        cut: the cost of showing that none lies behind a position, 0 likewise; None: nowhere.
        cut_counts: a cut shows that its own position is no witness either.
        complete_from: from this position on, windows contain every time-point they ever will.
    """

    absent: Sequence[int]
    cut: Sequence[int] | None
    cut_counts: bool
    complete_from: int


def refusals(windows: Windows, refusal: Refusal) -> tuple[list[int | None], list[int]]:
    """The least cost of showing that the window has no witness; None if that cannot be shown.

    Either every position of the window is absent (WINDOW), or there is a cut at a position k, and
    every position of the window from k on is absent. A cut behind the window is never cheaper than
    none; one between the window and i costs nothing more.

    Returns:
        The costs, 0 for an empty window without a cut; the positions of the cuts, or WINDOW.
    """
    absent, cut, cut_counts, complete_from = refusal
    total = list(accumulate(absent, initial=0))
    inside: deque[tuple[int, int]] = deque()
    between: deque[tuple[int, int]] = deque()
    costs: list[int | None] = []
    choices: list[int] = []
    entered = arrived = 0
    missing = -1
    for i, (far, near) in enumerate(zip(windows.far, windows.near, strict=True), windows.first):
        for k in range(entered, near + 1):
            if not absent[k]:
                missing = k
            if cut is not None and cut[k]:
                _enter(inside, cut[k] - total[k + 1 if cut_counts else k], k)
        entered = max(entered, near + 1)
        cost, choice = None, WINDOW
        if i >= complete_from and missing < far:
            cost = total[near + 1] - total[far]
        if cut is not None:
            for k in range(max(arrived, near + 1), i + 1):
                if cut[k]:
                    _enter(between, cut[k], k)
            arrived = i + 1
            _leave(between, near + 1)
            _leave(inside, max(far, missing if cut_counts else missing + 1))
            if between and (cost is None or between[0][0] < cost):
                cost, choice = between[0]
            if inside and (cost is None or inside[0][0] + total[near + 1] < cost):
                cost, choice = inside[0][0] + total[near + 1], inside[0][1]
        costs.append(cost)
        choices.append(choice)
    return costs, choices


def _enter(queue: deque[tuple[int, int]], key: int, position: int) -> None:
    while queue and queue[-1][0] >= key:
        queue.pop()
    queue.append((key, position))


def _leave(queue: deque[tuple[int, int]], first: int) -> None:
    """Drop positions before `first`."""
    while queue and queue[0][1] < first:
        queue.popleft()
