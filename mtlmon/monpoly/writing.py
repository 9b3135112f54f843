"""Writes verdicts as MonPoly does."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from mtlmon.relational.cells import from_cell
from mtlmon.relational.running import HOLDS
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.plan import Plan

    Value = int | float | str


class MonPolyOutput:
    """Writes the answers about the only policy of a plan.

    Args:
        plan: the plan.
        columns: the variables in the order of the values in rows, with their types.

    Attributes:
        writer: holds the lines.
    """

    def __init__(self, plan: Plan, columns: Sequence[tuple[str, str]]) -> None:
        self.writer = ByteWriter()
        (policy,) = plan.named_policies
        self._texts = plan.texts
        self._types = [kind for _, kind in columns]
        places = [policy.variables.index(name) for name, _ in columns]
        self._columns = [(place, policy.kinds[place]) for place in places]

    def put(self, answers: AnswerBlock, /) -> None:
        """Write the answers, and take them out of the block."""
        found = [answer for answer in answers.take() if answer[1] != HOLDS]
        for (time_stamp, point), own in groupby(found, itemgetter(2, 4)):
            rows = [
                tuple([from_cell(cells[place], kind, self._texts) for place, kind in self._columns])
                for *_, cells in own
            ]
            self.writer.write(line_of(time_stamp, point, rows, self._types).encode())

    def close(self) -> None:
        """Do nothing: all lines are written."""


def line_of(
    time_stamp: int, time_point: int, rows: Iterable[tuple[Any, ...]], types: Sequence[str]
) -> str:
    """Write the rows of a time-point, with a line feed; nothing if there are none.

    Args:
        time_stamp: its time-stamp.
        time_point: its number, from 0.
        rows: the valuations, each with a value for each of the types.
        types: int, float, string or regexp, in the order of the variables; without variables, an
            empty row means that the formula holds.

    >>> line_of(5, 2, [("b", 2.5), ("a", 1e8)], ["string", "float"])
    '@5 (time point 2): ("a",1e+08) ("b",2.5)\\n'
    >>> line_of(5, 2, [()], []), line_of(5, 3, [], ["int"])
    ('@5 (time point 2): true\\n', '')
    """
    ordered = sorted(rows)
    if not ordered:
        return ""
    if not types:
        return f"@{time_stamp} (time point {time_point}): true\n"
    writers = [_WRITERS[kind] for kind in types]
    written = " ".join(
        f"({','.join([write(value) for write, value in zip(writers, row, strict=True)])})"
        for row in ordered
    )
    return f"@{time_stamp} (time point {time_point}): {written}\n"


def _quoted(text: Value) -> str:
    """Write a text in quotes, unless it begins and ends with some."""
    written = str(text)
    return written if len(written) > 1 and written[0] == written[-1] == '"' else f'"{written}"'


_WRITERS: dict[str, Callable[[Value], str]] = {
    "int": str,
    "float": lambda value: f"{value:g}",
    "string": _quoted,
    "regexp": lambda value: f"r{_quoted(value)}",
}
