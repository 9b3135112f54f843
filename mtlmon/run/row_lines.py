"""Lines of answers of policies with variables, with the rows that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.drive.native import policy_label

if TYPE_CHECKING:
    from mtlmon.checking.point_rows import PointRows
    from mtlmon.checking.row_files import RowFiles
    from mtlmon.checking.row_tracking import FoundRows
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.output.native import AnswerLines
    from mtlmon.run.files import Writer

__all__ = ["RowLines", "row_endings"]


def row_endings(found: FoundRows, files: RowFiles) -> list[bytes]:
    """Return the ends of lines about rows: a tab, the file and the row.

    Args:
        found: the rows.
        files: the files.
    """
    # a label is an escaped name and a tab
    names = [b"\t" + policy_label(prefix)[:-1] for prefix in files.prefixes]
    places = zip(found.files.tolist(), found.rows.tolist(), strict=True)
    return [b"%b%d" % (names[file], row) for file, row in places]


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
        self.lines.put(answers, row_endings(found, self.rows.files))

    def close(self) -> None:
        """Do nothing: lines need no end."""
