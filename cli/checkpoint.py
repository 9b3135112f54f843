"""Checkpoint files: how far a run has come, for a later one to go on from there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from hashlib import blake2b
from typing import NamedTuple

from mtlmon.cli.failure import Failure, WriteFailure
from mtlmon.support.replacing import create_beside, leftovers, write_all

__all__ = ["AFRESH", "DIGEST_BYTES", "Checkpoint", "CheckpointFile", "Place", "sync_directory"]

DIGEST_BYTES = 32
"""Of the digests of log and output."""

AFRESH = "(without --resume the log is read from its beginning)"
"""What to do about a checkpoint that does not fit."""

MAGIC = b"mtlmon checkpoint\n"
VERSION = 2
OWN_DIGEST_BYTES = 16
SIZE_BYTES = 8
HEAD_BYTES = len(MAGIC) + 1 + OWN_DIGEST_BYTES
# the digests of log and output; the output's size, device and inode, and the length of its path
FIXED_BYTES = 2 * DIGEST_BYTES + 4 * SIZE_BYTES


class Place(NamedTuple):
    """Where a file is: it is the same file if its path or its inode is.

    A file that is renamed keeps its inode, and one on a file system that is mounted anew, whose
    device may have another number then, keeps its path.
    """

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, descriptor: int, path: str) -> Place:
        """The place of an open file."""
        status = os.fstat(descriptor)
        return cls(os.path.realpath(path), status.st_dev, status.st_ino)

    def is_same(self, other: Place) -> bool:
        """Whether the two are of one file."""
        return self.path == other.path or self[1:] == other[1:]


class Checkpoint(NamedTuple):
    """What a run must know to go on.

    Attributes:
        log_digest: BLAKE2b of the bytes that were read of the log.
        output_digest: BLAKE2b of the bytes of verdicts that belong to them.
        output_size: how many these are.
        output: the file that has them.
        snapshot: of the text monitor, which also knows how many bytes were read.
    """

    log_digest: bytes
    output_digest: bytes
    output_size: int
    output: Place
    snapshot: bytes

    def encode(self) -> bytes:
        """As bytes that tell whether they are damaged."""
        path = os.fsencode(self.output.path)
        numbers = (self.output_size, self.output.device, self.output.inode, len(path))
        body = b"".join(
            [
                self.log_digest,
                self.output_digest,
                *(number.to_bytes(SIZE_BYTES, "big") for number in numbers),
                path,
                self.snapshot,
            ]
        )
        return MAGIC + bytes([VERSION]) + own_digest(body) + body

    @classmethod
    def decode(cls, body: bytes) -> Checkpoint | None:
        """What `encode` has made of a checkpoint, after its head; None if it is damaged."""
        if len(body) < FIXED_BYTES:
            return None
        size, device, inode, length = (
            int.from_bytes(body[place : place + SIZE_BYTES], "big")
            for place in range(2 * DIGEST_BYTES, FIXED_BYTES, SIZE_BYTES)
        )
        path = body[FIXED_BYTES : FIXED_BYTES + length]
        return cls(
            body[:DIGEST_BYTES],
            body[DIGEST_BYTES : 2 * DIGEST_BYTES],
            size,
            Place(os.fsdecode(path), device, inode),
            body[FIXED_BYTES + length :],
        )


def own_digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=OWN_DIGEST_BYTES).digest()


class CheckpointFile:
    """The file that holds the latest checkpoint.

    It is replaced as a whole: whatever happens, it holds one complete checkpoint, the one before
    or the new one. One process at a time uses it: the file that has the name is locked, and so is
    each new one before it takes the name. The lock ends with the process, however that ends.

    Attributes:
        path: of the file itself, where a link to it leads.
        name: for messages.
    """

    def __init__(self, path: str) -> None:
        # a link stays one: what it leads to is replaced
        self.path = os.path.realpath(path)
        self.name = path
        # of the file that is there, once it is locked
        self.descriptor: int | None = None

    def lock(self) -> None:
        """Let no other process use the file, if there is one, until `close` or the process's end.

        Raises Failure if it is anything but a checkpoint, which may be replaced, or in use.
        """
        try:
            while self.descriptor is None:
                if not stat.S_ISREG(os.stat(self.path).st_mode):
                    raise Failure(f"{self.name} is no regular file, as checkpoints are")
                descriptor = open_to_lock(self.path)
                try:
                    self.claim(descriptor)
                    # another process may have replaced the file before it was locked
                    if is_named(descriptor, self.path):
                        self.descriptor, descriptor = descriptor, -1
                finally:
                    if descriptor >= 0:
                        os.close(descriptor)
            if os.pread(self.descriptor, len(MAGIC), 0) != MAGIC:
                raise Failure(f"{self.name} is not a checkpoint, or a damaged one")
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise Failure(f"cannot read {self.name}: {reason(error)}") from None
        self.remove_leftovers()

    def claim(self, descriptor: int) -> None:
        """Lock an open file."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self.used_by_another() from None
        except OSError as error:
            raise WriteFailure(f"cannot lock {self.name}: {error.strerror}") from None

    def close(self) -> None:
        """Let other processes use the file."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def read(self) -> Checkpoint | None:
        """The checkpoint, None if there is no such file. No lock is needed for that.

        Raises Failure when it cannot be read, is no checkpoint or damaged.
        """
        try:
            with open(self.path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise Failure(f"cannot read {self.name}: {reason(error)}") from None
        place = len(MAGIC)
        if content[:place] != MAGIC:
            raise Failure(f"{self.name} is not a checkpoint, or a damaged one")
        if len(content) > place and content[place] != VERSION:
            raise Failure(
                f"cannot resume from {self.name}: it has version {content[place]}, and this "
                f"version of mtlmon reads version {VERSION} only {AFRESH}"
            )
        body = content[HEAD_BYTES:]
        found = None
        if own_digest(body) == content[place + 1 : HEAD_BYTES]:
            found = Checkpoint.decode(body)
        if found is None:
            raise Failure(f"cannot resume from {self.name}: the checkpoint is damaged {AFRESH}")
        return found

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the file; when this returns, the checkpoint would outlive a loss of power.

        Raises:
            WriteFailure: the checkpoint before is there still.
            Failure: another process has written a first checkpoint.
        """
        try:
            descriptor, temporary = create_beside(self.path)
            try:
                write_all(descriptor, checkpoint.encode())
                os.fsync(descriptor)
                # before it has the name: nobody else can lock it in between
                self.claim(descriptor)
                self.rename(temporary)
            except BaseException:
                os.close(descriptor)
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            self.close()
            self.descriptor = descriptor
            sync_directory(self.path)
        except (OSError, ValueError) as error:
            raise WriteFailure(f"cannot write {self.name}: {reason(error)}") from None

    def rename(self, temporary: str) -> None:
        """Give the new file its name, which the first one must not take from another file."""
        if self.descriptor is not None:
            os.rename(temporary, self.path)
            return
        try:
            os.link(temporary, self.path)
        except FileExistsError:
            raise self.used_by_another() from None
        except OSError:
            # not all file systems have links
            os.rename(temporary, self.path)
        else:
            os.unlink(temporary)

    def remove_leftovers(self) -> None:
        """Remove what killed processes have left of new checkpoints, and nothing else.

        That is a file with a name of ours whose content is the beginning of a checkpoint, or none
        yet, and which no process has locked.
        """
        with contextlib.suppress(OSError):
            for path in leftovers(self.path):
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if MAGIC.startswith(file.read(len(MAGIC))):
                        os.unlink(path)

    def used_by_another(self) -> Failure:
        return Failure(f"another process uses {self.name}: give every run a checkpoint of its own")


def open_to_lock(path: str) -> int:
    """Open a file, for writing if that is allowed, as some file systems demand it for a lock."""
    flags = os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, os.O_RDWR | flags)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)


def is_named(descriptor: int, path: str) -> bool:
    """Whether the file of this name is the open one."""
    return os.path.samestat(os.fstat(descriptor), os.stat(path))


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
