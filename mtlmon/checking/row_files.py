"""The files that the rows of a log come from, and how rows in them are named.

Rows are named to people and programs by file and line, or by number where files have no lines.
"""

from __future__ import annotations

from mtlmon.support.lean_typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.checking.sources import Origins

__all__ = ["RowFile", "RowFiles", "RowPlace"]


class RowFile(NamedTuple):
    """A file or an object that rows come from.

    Attributes:
        name: the name of the file; None for an object, such as a data frame.
        has_lines: whether a row is known by the line of the file that it begins on. Rows of other
            files have their numbers, from 1, and those of objects their indices.
    """

    name: str | None
    has_lines: bool = True

    @property
    def prefix(self) -> str:
        """What precedes the number of a row, as in `app.log:17` and `app.parquet row 17`."""
        if self.name is None:
            return "row "
        return f"{self.name}{':' if self.has_lines else ' row '}"


class RowPlace(NamedTuple):
    """Where a row is.

    Attributes:
        file: the file.
        row: the number of the row in it, as `RowFile` says.
    """

    file: RowFile
    row: int

    def __str__(self) -> str:
        return f"{self.file.prefix}{self.row}"


class RowFiles:
    """Gives the files of a log numbers, from 0.

    Attributes:
        files: the files so far.
    """

    def __init__(self) -> None:
        self.files: list[RowFile] = []
        self._numbers: dict[RowFile, int] = {}

    def number_of(self, file: RowFile) -> int:
        """Return the number of a file."""
        number = self._numbers.setdefault(file, len(self.files))
        if number == len(self.files):
            self.files.append(file)
        return number

    def numbers_of(self, files: Iterable[RowFile]) -> list[int]:
        """Return the numbers of several files."""
        return [self.number_of(file) for file in files]

    def of(self, origins: Origins, first: int = 0, end: int | None = None) -> NDArray[np.uint32]:
        """Return the number of the file of each row, or of those from `first` to `end`."""
        # PERF: text logs need no numpy, unless their rows are wanted
        import numpy as np

        numbers = np.array(self.numbers_of(origins.files), np.uint32)
        if origins.file_of is None:
            return np.repeat(numbers[:1], len(origins.rows[first:end]))
        found: NDArray[np.uint32] = numbers[origins.file_of[first:end]]
        return found

    @property
    def names(self) -> list[str | None]:
        """The names of the files."""
        return [file.name for file in self.files]

    @property
    def prefixes(self) -> list[str]:
        """What precedes the numbers of rows of each file."""
        return [file.prefix for file in self.files]

    def place(self, file: int, row: int) -> RowPlace:
        """Return where a row is, given the number of its file."""
        return RowPlace(self.files[file], row)

    def restore(self, files: Sequence[tuple[str | None, bool]]) -> None:
        """Continue with the files of a snapshot, which is `files` in JSON.

        Raises:
            TypeError, ValueError: they are no such files.
        """
        for name, has_lines in files:
            self.number_of(RowFile(name, has_lines))
