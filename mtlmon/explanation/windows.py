"""Finds the cheapest witness and the cheapest refutation of SINCE for all time-points in a sweep.

Positions are counted so that the operator looks back, from `i` to `j <= i`; for a future operator,
the caller reverses time. Costs are sizes of proofs, or 0 if there is none. The candidates within
the sliding window are kept in a queue of increasing cost. Each candidate enters and leaves the
queue once, so the time is linear in the number of positions, whatever the interval.
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
"""Used in place of the position of a cut if there is no cut."""


class Windows(NamedTuple):
    """For each position from `first` on, the window of positions at a distance in the interval.

    Attributes:
        first: the first position that has a window.
        far: the earlier end of each window: the window of position `first + x` is
            `far[x] .. near[x]`. If it is empty, `far[x]` is `near[x] + 1`.
        near: the later end of each window.
    """

    first: int
    far: list[int]
    near: list[int]

    @classmethod
    def of(cls, times: Sequence[int], first: int, interval: Interval) -> Windows:
        """Compute the windows; `times` never decrease, and contain the whole window of `first`."""
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
    """Minimise `witness[j] + sum(chain[j+1 : i+1])` over the j in the window of each i.

    Args:
        windows: the windows.
        witness: the cost of each j as a witness, or 0 if it is not one.
        chain: the cost of each position between j and i, or 0 if no witness can lie beyond it; None
            if these positions cost nothing.

    Returns:
        The least costs, and the j of each; both are 0 where there is no witness.
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
    """The costs of showing that positions are not witnesses.

    Attributes:
        absent: the cost of showing that a position is not a witness, or 0 if that is impossible.
        cut: the cost of showing that no witness lies beyond a position, or 0 if that is impossible;
            None if it is impossible everywhere.
        cut_counts: whether a cut also shows that its own position is not a witness.
        complete_from: from this position on, no later event can be within the windows.
    """

    absent: Sequence[int]
    cut: Sequence[int] | None
    cut_counts: bool
    complete_from: int


def refusals(windows: Windows, refusal: Refusal) -> tuple[list[int | None], list[int]]:
    """Minimise the cost of showing that the window of each position has no witness.

    Either every position of the window is absent (WINDOW), or there is a cut at a position k and
    every position of the window from k on is absent. A cut beyond the window is never cheaper than
    no cut. A cut between the window and i is enough by itself.

    Returns:
        The costs, None where it cannot be shown and 0 for an empty window without a cut; and the
        positions of the cuts, or WINDOW.
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
