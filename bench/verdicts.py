"""Whether two monitors say the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench.commands import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Iterable

    TimePoint = tuple[int, int]

_LINE = re.compile(r"\s*(\d+):(\d+)\s*(?:(true|false)|=\s*(\d+):(\d+))\s*", re.ASCII)
# Monitors differ in how soon they decide, and so in what is open at the end of a log.
_LEAST_SHARE = 0.9


def read_verdicts(lines: Iterable[str]) -> dict[TimePoint, bool]:
    """The Boolean verdict of each time-point that has one; equivalences are resolved.

    Lines are `5:0 true`, `5:1 = 5:0`; others are passed over.
    """
    decided: dict[TimePoint, bool] = {}
    equivalent: list[tuple[TimePoint, TimePoint]] = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        time_point = int(match[1]), int(match[2])
        if match[3]:
            decided[time_point] = match[3] == "true"
        else:
            equivalent.append((time_point, (int(match[4]), int(match[5]))))
    # An equivalence refers to an earlier time-point, which may be equivalent to a still earlier.
    for time_point, reference in sorted(equivalent):
        if reference in decided:
            decided[time_point] = decided[reference]
    return decided


def require_agreement(
    ours: dict[TimePoint, bool], theirs: dict[TimePoint, bool], what: str
) -> None:
    """Compare where both have decided.

    Raises BenchmarkError at a difference, or when theirs covers less than nine tenths of ours.
    """
    common = ours.keys() & theirs.keys()
    for time_point in sorted(common):
        if ours[time_point] != theirs[time_point]:
            raise BenchmarkError(
                f"{what}: {time_point[0]}:{time_point[1]} is {theirs[time_point]}, "
                f"mtlmon says {ours[time_point]}"
            )
    if len(common) < _LEAST_SHARE * len(ours):
        raise BenchmarkError(
            f"{what}: verdicts for {len(common)} time-points only, mtlmon has {len(ours)}"
        )
