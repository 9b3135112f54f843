"""Verdicts on several policies and keys as bytes: lines of text, or what a library writes."""

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
        """Remove them and return them."""

    def flush(self, file_descriptor: int, /) -> None:
        """Write them, waiting as long as it takes."""


class Output(Protocol):
    """Takes verdicts and makes bytes of them."""

    @property
    def writer(self) -> Writer:
        """What is to be written."""

    def put(self, rows: VerdictRows) -> None:
        """Take the verdicts out of the rows."""

    def close(self) -> None:
        """There are no more verdicts: the writer gets what ends the file."""


class TextOutput:
    """Lines of the form `[policy TAB][key TAB ...]ts:offset ...`."""

    def __init__(self, names: Sequence[str | None], keys: KeyTable | None) -> None:
        self._lines = PolicyLines(list(names), keys)
        self.writer: Writer = self._lines.writer

    def put(self, rows: VerdictRows) -> None:
        """Write the verdicts as lines."""
        self._lines.put(rows)

    def close(self) -> None:
        """Lines need no end."""
