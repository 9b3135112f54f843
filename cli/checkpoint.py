"""Checkpoint files: how far a run has come, for a later one to go on from there."""

from __future__ import annotations

import contextlib
import os
import stat
from hashlib import blake2b
from typing import NamedTuple

from mtlmon.cli.failure import Failure, WriteFailure

__all__ = ["AFRESH", "DIGEST_BYTES", "Checkpoint", "CheckpointFile", "sync_directory"]

DIGEST_BYTES = 32
"""Of the log's digest."""

AFRESH = "(without --resume the log is read from its beginning)"
"""What to do about a checkpoint that does not fit."""

MAGIC = b"mtlmon checkpoint\n"
VERSION = 1
OWN_DIGEST_BYTES = 16
SIZE_BYTES = 8
HEAD_BYTES = len(MAGIC) + 1 + OWN_DIGEST_BYTES


class Checkpoint(NamedTuple):
    """What a run must know to go on.

    Attributes:
        log_digest: BLAKE2b of the bytes that were read of the log.
        output_size: how many bytes of verdicts belong to them.
        snapshot: of the text monitor, which also knows how many bytes were read.
    """

    log_digest: bytes
    output_size: int
    snapshot: bytes

    def encode(self) -> bytes:
        """As bytes that tell whether they are damaged."""
        body = self.log_digest + self.output_size.to_bytes(SIZE_BYTES, "big") + self.snapshot
        return MAGIC + bytes([VERSION]) + own_digest(body) + body


def own_digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=OWN_DIGEST_BYTES).digest()


class CheckpointFile:
    """The file that holds the latest checkpoint.

    It is replaced as a whole: whatever happens, it holds one complete checkpoint, the one before
    or the new one.

    Attributes:
        path: of the file itself, where a link to it leads.
        temporary: the path of the next checkpoint until it is complete.
        name: for messages.
    """

    def __init__(self, path: str) -> None:
        # a link stays one: what it leads to is replaced
        self.path = os.path.realpath(path)
        self.temporary = f"{self.path}.new"
        self.name = path

    def read(self) -> Checkpoint | None:
        """The checkpoint, None if there is no such file.

        Raises Failure when it cannot be read, is no checkpoint or damaged.
        """
        content = self._content()
        if content is None:
            return None
        place = len(MAGIC)
        if len(content) > place and content[place] != VERSION:
            raise Failure(
                f"cannot resume from {self.name}: it has version {content[place]}, and this "
                f"version of mtlmon reads version {VERSION} only {AFRESH}"
            )
        body = content[HEAD_BYTES:]
        if (
            len(body) < DIGEST_BYTES + SIZE_BYTES
            or own_digest(body) != content[place + 1 : HEAD_BYTES]
        ):
            raise Failure(f"cannot resume from {self.name}: the checkpoint is damaged {AFRESH}")
        size = body[DIGEST_BYTES : DIGEST_BYTES + SIZE_BYTES]
        return Checkpoint(
            body[:DIGEST_BYTES], int.from_bytes(size, "big"), body[DIGEST_BYTES + SIZE_BYTES :]
        )

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the file; when this returns, the checkpoint would outlive a loss of power.

        Raises WriteFailure; the checkpoint before is there still.
        """
        try:
            # what a killed process left behind
            self._remove_temporary()
            descriptor = os.open(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            with open(descriptor, "wb") as file:
                file.write(checkpoint.encode())
                file.flush()
                os.fsync(file.fileno())
            os.rename(self.temporary, self.path)
            sync_directory(self.path)
        except (OSError, ValueError) as error:
            with contextlib.suppress(OSError, ValueError):
                self._remove_temporary()
            raise WriteFailure(f"cannot write {self.name}: {reason(error)}") from None

    def check(self) -> None:
        """Raise Failure if the file is anything but a checkpoint, which may then be replaced."""
        self._content()

    def _remove_temporary(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.temporary)

    def _content(self) -> bytes | None:
        try:
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                raise Failure(f"{self.name} is no regular file, as checkpoints are")
            with open(self.path, "rb") as file:
                head = file.read(len(MAGIC))
                if head != MAGIC:
                    raise Failure(f"{self.name} is not a checkpoint, or a damaged one")
                return head + file.read()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise Failure(f"cannot read {self.name}: {reason(error)}") from None


def sync_directory(path: str) -> None:
    """Have on disk that a file is there, by this name.

    Raises OSError.
    """
    descriptor = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
