"""Sliding windows against their definitions, on costs and times of all kinds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.doors import WINDOW, Interval, Refusal, Windows, refusals, witnesses

_COSTS = st.lists(st.sampled_from([0, 1, 1, 2, 3, 5, 20]), min_size=12, max_size=12)
_STEPS = st.lists(st.sampled_from([0, 0, 1, 2, 5]), min_size=12, max_size=12)


def _windows(steps: list[int], interval: Interval) -> tuple[Windows, list[list[int]]]:
    """The windows from the first position on, and their positions one by one."""
    times = [sum(steps[: i + 1]) for i in range(len(steps))]
    positions = [
        [j for j in range(i + 1) if times[i] - times[j] in interval] for i in range(len(times))
    ]
    return Windows.of(times, 0, interval), positions


@given(_STEPS, strategies.intervals())
def test_windows(steps: list[int], interval: Interval) -> None:
    windows, positions = _windows(steps, interval)
    found = zip(windows.far, windows.near, strict=True)
    assert [list(range(far, near + 1)) for far, near in found] == positions
    # the same from a later position on, of the times that it and those after it look at
    for first in range(len(steps)):
        base = windows.far[first]
        times = [sum(steps[: i + 1]) for i in range(base, len(steps))]
        part = Windows.of(times, first - base, interval)
        found = zip(part.far, part.near, strict=True)
        shifted = [list(range(base + far, base + near + 1)) for far, near in found]
        assert shifted == positions[first:]


@given(_STEPS, strategies.intervals(), _COSTS, st.one_of(st.none(), _COSTS))
def test_witnesses(
    steps: list[int], interval: Interval, witness: list[int], chain: list[int] | None
) -> None:
    windows, positions = _windows(steps, interval)

    def cost(j: int, i: int) -> int:
        between = [] if chain is None else chain[j + 1 : i + 1]
        return witness[j] + sum(between) if witness[j] and 0 not in between else 0

    costs, choices = witnesses(windows, witness, chain)
    for i, window in enumerate(positions):
        assert costs[i] == min((cost(j, i) for j in window if cost(j, i)), default=0)
        if costs[i]:
            assert choices[i] in window
            assert cost(choices[i], i) == costs[i]


@given(
    _STEPS,
    strategies.intervals(),
    _COSTS,
    st.one_of(st.none(), _COSTS),
    st.booleans(),
    st.integers(0, 12),
)
def test_refusals(
    steps: list[int],
    interval: Interval,
    absent: list[int],
    cut: list[int] | None,
    cut_counts: bool,
    complete_from: int,
) -> None:
    windows, positions = _windows(steps, interval)

    def cost(k: int, i: int) -> int | None:
        """Of a cut at k, or of none."""
        if k == WINDOW:
            inside = [absent[j] for j in positions[i]]
            return sum(inside) if 0 not in inside and i >= complete_from else None
        if cut is None or not cut[k]:
            return None
        inside = [absent[j] for j in positions[i] if j > k or (j == k and not cut_counts)]
        return cut[k] + sum(inside) if 0 not in inside else None

    costs, choices = refusals(windows, Refusal(absent, cut, cut_counts, complete_from))
    for i, window in enumerate(positions):
        # A cut behind the window costs more than none, where that is allowed.
        nearest = window[0] if window else windows.far[i]
        possible = [cost(k, i) for k in (WINDOW, *range(nearest, i + 1))]
        assert costs[i] == min((c for c in possible if c is not None), default=None)
        if costs[i] is not None:
            assert cost(choices[i], i) == costs[i]
