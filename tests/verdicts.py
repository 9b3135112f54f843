"""Verdicts as the tests compare them, read from the lines that a monitor writes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from tests.traces import TimePoint

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def json_line(
    line: str, policy: str | None, keys: Mapping[str, str] | None = None, time_text: str = ""
) -> str:
    """The JSON line that says the same as a line of text without the fields before its verdict."""
    verdict = parse_verdict(line)
    reference = verdict.reference
    members = {
        "policy": policy,
        **(keys or {}),
        "time": verdict.point[0],
        **({"time_text": time_text} if time_text else {}),
        "offset": verdict.point[1],
        "verdict": verdict.value,
        "reference": None if reference is None else format_point(reference),
    }
    text = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
    assert json.loads(text) == members
    return text
