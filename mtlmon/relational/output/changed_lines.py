"""Lines of a changelog about policies with variables.

Each is a line of the output; the time-point has `!x` before it if the line does not hold any more,
and `!` if it holds again.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Protocol

from mtlmon.drive.native import policy_label
from mtlmon.relational.atoms import cell_word, key_fields
from mtlmon.relational.native import AnswerBlock
from mtlmon.relational.output.native import AnswerLines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtlmon.relational.correcting.points import ChangedAnswer
    from mtlmon.relational.plan import Plan

    class LineTimes(Protocol):
        """Writes times in place of time-stamps."""

        @property
        def is_plain(self) -> bool: ...
        def texts(self, time_stamps: Iterable[int]) -> list[str]: ...
        def lines(self, lines: bytes, fields: int) -> bytes: ...


__all__ = ["ChangedAnswerLines", "answer_block"]

_MARKS = (b"", b"!", b"!x")
"""What the last field of a line begins with, for NEW, AGAIN and GONE."""


def answer_block(made: Plan, changes: Iterable[ChangedAnswer]) -> AnswerBlock:
    """Return changed answers as answers, whose time-points have their numbers among these."""
    block = AnswerBlock(array("I", [len(one.variables) for one in made.named_policies]))
    for number, one in enumerate(changes):
        block.add(one.policy, one.kind, one.time_stamp, one.offset, number, one.cells)
    return block


class ChangedAnswerLines:
    """Writes the lines of a changelog.

    Args:
        made: the plan of the policies.
        times: writes times in place of time-stamps; None for time-stamps.
        key_columns: the columns of keys that lines have; by default, those of the policies.
    """

    def __init__(
        self,
        made: Plan,
        times: LineTimes | None = None,
        key_columns: Sequence[str] | None = None,
    ) -> None:
        self._plan = made
        self._times = times
        names = [one.name for one in made.named_policies]
        # policies without names are alone
        fields = key_fields(made, key_columns)
        self._fields = sum(name is not None for name in names[:1]) + len(fields[0])
        variables = [
            tuple(zip(one.variables, map(cell_word, one.kinds), strict=True))
            for one in made.named_policies
        ]
        labels = [b"" if name is None else policy_label(name) for name in names]
        self._lines = AnswerLines(labels, variables, made.texts, fields, verdicts="all")

    def lines(
        self, changes: Sequence[ChangedAnswer], tails: list[bytes] | None = None
    ) -> list[bytes]:
        """Return the lines of changes, with their line feeds.

        Args:
            changes: the changes.
            tails: what each line ends with, before its line feed; None for nothing.
        """
        self._lines.put(answer_block(self._plan, changes), tails)
        text = bytes(self._lines.writer.take())
        if self._times is not None:
            text = self._times.lines(text, self._fields)
        lines = []
        for line, one in zip(text.split(b"\n"), changes, strict=False):
            *fields, rest = line.split(b"\t", self._fields)
            lines.append(b"\t".join([*fields, b"%b%b\n" % (_MARKS[one.change], rest)]))
        return lines
