"""Holds bytes until they are written to a file."""

from __future__ import annotations

import io
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["ByteWriter"]


class ByteWriter(io.RawIOBase):
    """A buffer of bytes that are to be written to a file."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        # how many bytes of the first part are written
        self._written = 0

    def __len__(self) -> int:
        return self._size

    def __bool__(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer) -> int:
        """Append bytes."""
        part = bytes(data)
        if part:
            self._parts.append(part)
            self._size += len(part)
        return len(part)

    def take(self) -> bytes:
        """Remove the bytes and return them."""
        first, *others = self._parts or [b""]
        taken = b"".join([first[self._written :], *others])
        self._parts = []
        self._size = self._written = 0
        return taken

    def flush(self, file_descriptor: int | None = None) -> None:
        """Write the bytes to a file; without a file, do nothing.

        Raises:
            OSError: the file accepts no more bytes. The bytes that it accepted are not written
                again.
        """
        if file_descriptor is None:
            return
        while self._parts:
            count = os.write(file_descriptor, memoryview(self._parts[0])[self._written :])
            self._size -= count
            self._written += count
            if self._written == len(self._parts[0]):
                del self._parts[0]
                self._written = 0
