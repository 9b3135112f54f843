"""Finds the part of a log of MonPoly that is also one of ours, which native code reads.

Nearly all logs have a time-point on each line and nothing unusual in it: no comments, no escapes,
no value that needs a second look. They are read natively, up to the first line that is not so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mtlmon.monpoly.logs import Place
from mtlmon.monpoly.native import PlainShape
from mtlmon.relational.atoms import named_rows
from mtlmon.relational.input.native import RowScanner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.relational.native import PointBlock
    from mtlmon.relational.plan import Plan

__all__ = ["PlainLines"]

_KINDS = {"int": "integer", "float": "float", "string": "text", "regexp": "text"}
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


class PlainLines:
    """Reads plain lines into the time-points that wait for an engine.

    PERF: a run of the command over 300,000 time-points with a row each takes 0.47 s of processor
    time this way, and 2.6 s with `LogReader` alone.

    Args:
        signature: the types of all relations that the log may have.
        relations: the relations whose rows are wanted, with the names that they have in the plan.
        made: the plan.
        points: the time-points.
    """

    def __init__(
        self,
        signature: Mapping[str, Sequence[str]],
        relations: Mapping[str, str],
        made: Plan,
        points: PointBlock,
    ) -> None:
        # other names are left to the reader that knows all forms
        plain = [
            (name, [_KINDS[kind] for kind in types])
            for name, types in signature.items()
            if _PLAIN_NAME.fullmatch(name)
        ]
        self._shape = PlainShape(plain)
        inner = {relations[name]: name for name in signature if name in relations}
        self._scanner = RowScanner(
            [(inner.get(name, name), kinds) for name, kinds in named_rows(made)],
            points,
            made.texts,
        )
        self._begun = Place()
        self._last = 0

    @property
    def point_count(self) -> int:
        """The number of time-points that were read."""
        return self._scanner.point_count

    @property
    def place(self) -> Place:
        """What was read ends here."""
        line = self._begun.line + self._scanner.lines.line_count
        last = self._scanner.lines.last_time_stamp
        known = self._begun.last if last is None else last
        return Place(self._begun.position + self._scanner.position, line, 0, known)

    def begin_at(self, place: Place) -> None:
        """Go on at a place that another object has had; this one must be new."""
        self._begun = place
        self._last = place.last

    @property
    def last_time_stamp(self) -> int:
        """The time-stamp of the last of them."""
        return self._last

    def load(self, data: bytes) -> int:
        """Load the plain lines at the beginning of some bytes, for `read`.

        Returns:
            The position behind them. A line is only taken if it ends with a semicolon, or a line
            that begins with `@` follows, as rows could follow otherwise.
        """
        end, self._last = self._shape.end_in(data, self._last)
        if end:
            self._scanner.load(data[:end])
        return end

    def read(self, most: int) -> bool:
        """Add up to `most` time-points; return whether there may be more."""
        return self._scanner.read(most)
