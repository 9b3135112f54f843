"""Convert verdicts of several policies and keys to bytes: lines of text or library formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mtlmon.drive.native import PolicyLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.arrays.native import KeyTable
    from mtlmon.drive.native import VerdictRows

__all__ = ["Output", "TextOutput", "Writer"]


class Writer(Protocol):
    """Bytes that wait to be written to a file."""

    def __len__(self) -> int: ...

    def take(self) -> bytes:
        """Remove the bytes and return them."""

    def flush(self, file_descriptor: int, /) -> None:
        """Write the bytes, waiting as long as it takes."""


class Output(Protocol):
    """Takes verdicts and converts them to bytes."""

    @property
    def writer(self) -> Writer:
        """Holds the bytes to be written."""

    def put(self, rows: VerdictRows) -> None:
        """Take the verdicts out of the rows."""

    def close(self) -> None:
        """Declare that there are no more verdicts: the writer gets the end of the file."""


class TextOutput:
    """Writes lines of the form `[policy TAB][key TAB ...]ts:offset ...`."""

    def __init__(self, names: Sequence[str | None], keys: KeyTable | None) -> None:
        self._lines = PolicyLines(list(names), keys)
        self.writer: Writer = self._lines.writer

    def put(self, rows: VerdictRows) -> None:
        """Write the verdicts as lines."""
        self._lines.put(rows)

    def close(self) -> None:
        """Do nothing: lines need no end."""
