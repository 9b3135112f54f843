"""Verdicts as the tests compare them, read from the lines that a monitor writes."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.traces import TimePoint

_LINE = re.compile(r"(\d+):(\d+) (?:(true|false)|= (\d+):(\d+))")


class Verdict(NamedTuple):
    """Either a Boolean `value`, or the earlier time-point that this one is equivalent to."""

    point: TimePoint
    value: bool | None
    reference: TimePoint | None

    def __str__(self) -> str:
        if self.reference is None:
            return f"{format_point(self.point)} {'true' if self.value else 'false'}"
        return f"{format_point(self.point)} = {format_point(self.reference)}"


def format_point(point: TimePoint) -> str:
    return f"{point[0]}:{point[1]}"


def parse_verdict(line: str) -> Verdict:
    """Reads one output line.

    Raises:
        ValueError: the line is no verdict.
    """
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"not a verdict: {line!r}")
    time_stamp, offset, word, *reference = match.groups()
    point = (int(time_stamp), int(offset))
    if word is not None:
        return Verdict(point, word == "true", None)
    return Verdict(point, None, (int(reference[0]), int(reference[1])))
