"""The meaning of aggregates and offsets over the values of a trace.

Written to be obviously right: every window is collected from all rows and folded from scratch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

Value = bool | int | float | str | None
"""A cell; None is null."""

INTEGERS = range(-(2**63), 2**63)


class Overflow(Exception):
    """An integer does not fit into 64 bits."""


def in_window(
    time_stamps: Sequence[int], values: Sequence[Value], row: int, lower: int, upper: int | None
) -> list[Value]:
    """The values, without nulls, of the rows in the window [lower, upper] of a row, in order."""
    return [
        values[j]
        for j in range(row + 1)
        if values[j] is not None
        and time_stamps[row] - time_stamps[j] >= lower
        and (upper is None or time_stamps[row] - time_stamps[j] <= upper)
    ]


def last(values: Sequence[Value], row: int, distance: int) -> Value:
    """The value that is `distance` values below a row."""
    below = [value for value in values[:row] if value is not None]
    return below[-distance] if len(below) >= distance else None


def latest(values: Sequence[Value], row: int, distance: int) -> Value:
    """The value that is `distance` values before the newest one that a row sees."""
    seen = [value for value in values[: row + 1] if value is not None]
    return seen[-1 - distance] if len(seen) > distance else None


def at(time_stamps: Sequence[int], values: Sequence[Value], row: int, distance: int) -> Value:
    """The last value at or before a time that is `distance` before that of a row."""
    found = in_window(time_stamps, values, row, distance, None)
    return found[-1] if found else None


def fold(aggregate: str, values: list[Value], parameter: float = 0.5) -> Value:
    """The value of an aggregate over a window without nulls; None is null.

    The parameter is the share of a quantile, and the length of the window of a rate.
    """
    if aggregate in {"count", "any", "all"}:
        trues = sum(value is True for value in values)
        return {"count": trues, "any": trues > 0, "all": trues == len(values)}[aggregate]
    if aggregate == "distinct":
        return len({canonical(value) for value in values})
    if not values:
        return None
    if aggregate in {"changes", "resets"}:
        steps = pairwise(values)
        if aggregate == "changes":
            return sum(one != other for one, other in steps)
        return sum(other < one for one, other in steps)  # type: ignore[operator]
    if aggregate in {"increase", "rate"}:
        return None if len(values) < 2 else growth(values, aggregate, parameter)
    if aggregate in {"first", "last"}:
        return values[0] if aggregate == "first" else values[-1]
    if aggregate in {"min", "max"}:
        return extreme(values, aggregate == "max")
    if aggregate == "sum":
        return total(values)
    if aggregate == "avg":
        return average(values)
    if aggregate in {"var", "stddev"}:
        return spread(values, aggregate)
    if aggregate == "mad":
        middle = quantile(values, 0.5)
        return quantile([abs(value - middle) for value in values], 0.5)  # type: ignore[operator]
    return quantile(values, 0.5 if aggregate == "median" else parameter)


def bucket_quantile(buckets: list[tuple[float, float]], share: float) -> float | None:
    """A quantile of a histogram, of which pairs say how many observations are at most at a bound.

    Args:
        buckets: the pairs, in the order in which counts with the same bound are added.
        share: the share of the observations.
    """
    bounds = sorted({bound for bound, _ in buckets})
    if len(bounds) < 2 or bounds[-1] != math.inf:
        return None
    counts: list[float] = []
    for bound in bounds:
        count = 0.0
        for own, part in buckets:
            count += part if own == bound else 0.0
        before = counts[-1] if counts else count
        is_close = abs(count - before) < 1e-12 * (abs(count) + abs(before))
        counts.append(before if count < before or is_close else count)
    if counts[-1] == 0:
        return None
    wanted = share * counts[-1]
    place = next((n for n, count in enumerate(counts[:-1]) if count >= wanted), len(counts) - 1)
    if place == len(counts) - 1:
        return bounds[-2]
    low, start = (bounds[place - 1], counts[place - 1]) if place else (0.0, 0.0)
    if not place and bounds[0] <= 0:
        return bounds[0]
    if counts[place] == start:
        return None
    return low + (bounds[place] - low) * ((wanted - start) / (counts[place] - start))


def canonical(value: Value) -> Value | tuple[str]:
    """All NaN are one value, and the zeros are one value."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else value + 0.0
    return value


def extreme(values: list[Value], is_max: bool) -> Value:
    """The least or greatest; NaN if there is one, and -0.0 is below 0.0."""
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        return math.nan

    def key(value: Value) -> Any:
        return (value, math.copysign(1.0, value)) if isinstance(value, float) else value

    return max(values, key=key) if is_max else min(values, key=key)


def total(values: list[Value]) -> int | float:
    if all(isinstance(value, int) for value in values):
        found = sum(values)  # type: ignore[arg-type]
        if found not in INTEGERS:
            raise Overflow
        return found
    return rounded_total(values)


def growth(values: list[Value], aggregate: str, length: float) -> int | float:
    """How much a counter has grown; it counts from 0 where it is below the value before."""
    grown: list[Value] = []
    for one, other in pairwise(values):
        if not other >= one:  # type: ignore[operator]
            grown.append(other)
        elif math.isfinite(one) and math.isfinite(other):  # type: ignore[arg-type]
            # the exact difference, of which only the sum is rounded
            grown += [other, -one]  # type: ignore[operator]
        else:
            grown.append(other - one)  # type: ignore[operator]
    return total(grown) if aggregate == "increase" else rounded_total(grown) / length


def rounded_total(values: list[Value]) -> float:
    """The exact sum, rounded once to the nearest float; with infinities and NaN what IEEE says."""
    special = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    if special:
        return sum(special)
    return rounded(sum((Fraction(value) for value in values), Fraction()))  # type: ignore[arg-type]


def rounded(value: Fraction) -> float:
    """The nearest float; ties go to the even one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def average(values: list[Value]) -> float:
    """The exact sum, rounded to the digits of a float, however large it is, and then divided."""
    total = rounded_total(values)
    if math.isinf(total) and all(math.isfinite(value) for value in values):  # type: ignore[arg-type]
        small = rounded(sum((Fraction(value) for value in values), Fraction()) / 2**64)  # type: ignore[arg-type]
        return math.ldexp(small / len(values), 64)
    return total / len(values)


def spread(values: list[Value], aggregate: str) -> float | None:
    """The variance or standard deviation of a sample; the variance is rounded once."""
    if len(values) < 2:
        return None
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]  # type: ignore[arg-type]
    variance = Fraction(statistics.variance(exact))
    if aggregate == "var":
        return rounded(variance)
    if rounded(variance) < math.inf:
        return math.sqrt(rounded(variance))
    try:
        return math.ldexp(math.sqrt(rounded(variance / 2**1200)), 600)
    except OverflowError:
        return math.inf


def quantile(values: list[Value], share: float) -> float:
    """Linear interpolation at the place (n - 1) * share of the sorted values."""
    floats = [float(value) for value in values]  # type: ignore[arg-type]
    if any(map(math.isnan, floats)):
        return math.nan
    floats.sort(key=lambda value: (value, math.copysign(1.0, value)))
    place = (len(floats) - 1) * share
    below = math.floor(place)
    part = place - below
    low = floats[below]
    if part == 0:
        return low
    high = floats[below + 1]
    if low == high:
        return low
    if math.isinf(high - low):
        return low * (1 - part) + high * part
    return low + (high - low) * part


def line_integral(
    time_stamps: Sequence[int], values: Sequence[Value], row: int, lower: int, upper: int | None
) -> float | None:
    """The area under the lines between the values known at the end of the window.

    Whole lines are added exactly and rounded once; the one in which the window begins counts from
    there, and is added in floating point.
    """
    end = time_stamps[row] - lower
    known = [
        (time_stamps[j], values[j])
        for j in range(row + 1)
        if values[j] is not None and time_stamps[j] <= end
    ]
    start = None if upper is None else time_stamps[row] - upper
    if not known or (start is not None and known[-1][0] < start):
        return None
    total, special, cut = Fraction(), [], 0.0
    for (begin, value), (stop, following) in pairwise(known):
        ends: list[Any] = [value, following]
        if stop == begin or (start is not None and stop <= start):
            continue
        if start is not None and begin <= start:
            low, high = float(ends[0]), float(ends[1])
            if math.isinf(low) or math.isinf(high):
                cut = low + high
                continue
            share = float(stop - start) / float(stop - begin)
            cut = (stop - start) * ((low * share + high * (1 - share)) * 0.5 + high * 0.5)
        elif not all(math.isfinite(one) for one in ends):
            special += [one for one in ends if not math.isfinite(one)]
        else:
            total += Fraction(sum(map(Fraction, ends)) * (stop - begin), 2)
    return (sum(special) if special else rounded(total)) + cut


def integral(
    time_stamps: Sequence[int], values: Sequence[Value], row: int, lower: int, upper: int | None
) -> float | None:
    """The integral of the held value over the window from the first value on, rounded once."""
    end = time_stamps[row] - lower
    known = [
        (time_stamps[j], values[j])
        for j in range(row + 1)
        if values[j] is not None and time_stamps[j] <= end
    ]
    if not known:
        return None
    start = known[0][0] if upper is None else max(known[0][0], time_stamps[row] - upper)
    steps: list[tuple[Value, int]] = []
    for place, (begin, value) in enumerate(known):
        stop = known[place + 1][0] if place + 1 < len(known) else end
        if stop > max(begin, start):
            steps.append((value, stop - max(begin, start)))
    special = [value for value, _ in steps if isinstance(value, float) and not math.isfinite(value)]
    if special:
        return sum(special)
    areas = (Fraction(value) * length for value, length in steps)  # type: ignore[arg-type]
    return rounded(sum(areas, Fraction()))
