"""Lines of answers of policies with variables, with the rows that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.drive.native import policy_label

if TYPE_CHECKING:
    from mtlmon.checking.point_rows import PointRows
    from mtlmon.cli.files import Writer
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.output.native import AnswerLines

__all__ = ["RowLines"]


class RowLines:
    """Writes lines of answers, each followed by a tab, the file and the row.

    Args:
        lines: writes the lines.
        rows: the rows of time-points.
    """

    def __init__(self, lines: AnswerLines, rows: PointRows) -> None:
        self.lines = lines
        self.rows = rows

    @property
    def writer(self) -> Writer:
        """Holds the lines until they are written."""
        return self.lines.writer

    def put(self, answers: AnswerBlock) -> None:
        """Write answers, and forget them."""
        found = self.rows.of(np.frombuffer(answers.points(), np.uint64))
        # a label is an escaped name and a tab
        names = [b"\t" + policy_label(name or "")[:-1] for name in self.rows.files]
        places = zip(found.files.tolist(), found.rows.tolist(), strict=True)
        self.lines.put(answers, [b"%b:%d" % (names[file], row) for file, row in places])

    def close(self) -> None:
        """Do nothing: lines need no end."""
