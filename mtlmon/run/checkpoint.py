"""Checkpoint files, which record how far a run has come so that a later run can continue."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Sequence
from typing import Any, NamedTuple

from mtlmon.run.failure import RunError, WriteFailure, reason
from mtlmon.support.replacing import create_beside, leftovers, write_all

__all__ = [
    "AFRESH",
    "DIGEST_BYTES",
    "Checkpoint",
    "CheckpointFile",
    "Edges",
    "LogMark",
    "Place",
    "sync_directory",
]

DIGEST_BYTES = 32
"""The size of the digests of logs and outputs."""

AFRESH = "(without --resume, the log is read from its beginning)"
"""Ends the messages about checkpoints that do not fit, as the way out."""

MAGIC = b"mtlmon checkpoint\n"
VERSION = 4
OWN_DIGEST_BYTES = 16
SIZE_BYTES = 8
HEAD = MAGIC + bytes([VERSION])
RECORD_HEAD_BYTES = SIZE_BYTES + OWN_DIGEST_BYTES
APPENDED_BYTES = 1 << 16
"""Checkpoints are appended to a file up to this size, or if one of them has more than half of it,
up to two of them."""
# PERF: appending costs 0.1 ms of processor time, and a new file that takes the name 0.4: to create
# it, to rename it, to let the old one go, and to wait for it and for the directory.


class Place(NamedTuple):
    """Identifies a file: two places with the same path or the same inode are the same file.

    A renamed file keeps its inode. A file keeps its path when its file system is mounted again,
    which may give the device another number.

    Attributes:
        path: the path without symbolic links.
        device: the number of the device.
        inode: the number of the inode on that device.
    """

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, descriptor: int, path: str) -> Place:
        """Return the place of an open file."""
        status = os.fstat(descriptor)
        return cls(os.path.realpath(path), status.st_dev, status.st_ino)

    def is_same(self, other: Place) -> bool:
        """Whether both places are the same file."""
        return self.path == other.path or self[1:] == other[1:]


class Edges(NamedTuple):
    """How the first bytes of a file are known again, without reading all of them.

    Attributes:
        size: how many bytes that are.
        head: the digest of the first of them.
        tail: the digest of the last of them, as far as they are not part of the head.
    """

    size: int
    head: str
    tail: str


class LogMark(NamedTuple):
    """How the part of a log that has been read is known again.

    Attributes:
        digest: the digest of all of it; None if there are edges.
        edges: the edges of its bytes in a file, behind which a later run goes on.
        file: that file.
        reader: the state of what reads the file, behind these bytes; empty if the snapshot of the
            monitors has it.
        events: the digest of the events behind these bytes that have been checked.
        before: the number of the events before.
        back: how many of these bytes are behind the place; those of a log that is not followed end
            there.
        shift: how many bytes more the log has up to there than the file, if it is followed and has
            come from several files.
        lost: how many bytes behind the place were cut off, if it is followed.
        head: the first lines of the log, if it is followed.
        passed: how time has passed for rows that wait for others, as `pass_again` takes it; None if
            it has not.
    """

    digest: str | None = None
    edges: Edges | None = None
    file: Place | None = None
    reader: str = ""
    events: str = ""
    before: int = 0
    back: int = 0
    shift: int = 0
    lost: int = 0
    head: str = ""
    passed: Sequence[Any] | None = None

    @property
    def place(self) -> int:
        """How many bytes of the file are before the place."""
        return 0 if self.edges is None else self.edges.size - self.back

    @property
    def position(self) -> int:
        """How many bytes of the log are before the place."""
        return self.shift + self.place


class Checkpoint(NamedTuple):
    """The information that a later run needs to continue.

    Attributes:
        log: the part of the log that has been monitored.
        verdicts: the verdicts on that part, as bytes of their file.
        output: the place of the file with these verdicts.
        snapshot: the state of the monitors, including their position in the log.
    """

    log: LogMark
    verdicts: Edges
    output: Place
    snapshot: bytes

    def encode(self) -> bytes:
        """Convert the checkpoint to bytes, with their size and a digest that reveals damage."""
        head = json.dumps(self[:-1]).encode()
        body = len(head).to_bytes(SIZE_BYTES, "big") + head + self.snapshot
        return len(body).to_bytes(SIZE_BYTES, "big") + own_digest(body) + body

    @classmethod
    def decode(cls, body: bytes) -> Checkpoint:
        """Read the undamaged bytes from `encode` that follow the size and the digest."""
        end = SIZE_BYTES + int.from_bytes(body[:SIZE_BYTES], "big")
        log, verdicts, output = json.loads(body[SIZE_BYTES:end])
        digest, edges, file, *rest = log
        mark = LogMark(
            digest,
            None if edges is None else Edges(*edges),
            None if file is None else Place(*file),
            *rest,
        )
        return cls(mark, Edges(*verdicts), Place(*output), body[end:])


def own_digest(body: bytes) -> bytes:
    """Return the digest by which a checkpoint reveals damage to itself."""
    # imported on use, as it loads OpenSSL
    from hashlib import blake2b

    return blake2b(body, digest_size=OWN_DIGEST_BYTES).digest()


def last_body(records: bytes) -> bytes | None:
    """Return the body of the last complete checkpoint; None if not even the first is complete."""
    found = None
    begin = RECORD_HEAD_BYTES
    while begin <= len(records):
        head = records[begin - RECORD_HEAD_BYTES : begin]
        end = begin + int.from_bytes(head[:SIZE_BYTES], "big")
        body = records[begin:end]
        if end > len(records) or own_digest(body) != head[SIZE_BYTES:]:
            break
        found = body
        begin = end + RECORD_HEAD_BYTES
    return found


class CheckpointFile:
    """The file that holds the latest checkpoint.

    A new checkpoint is appended, or if the file has become too large, replaces the file as a whole.
    So whatever happens, the last complete checkpoint of the file is either the previous or the new
    one. Only one process at a time can use the file: the process locks the present file, and each
    new file before it takes the name. The lock ends with `close`, or with the process, however the
    process ends.

    Attributes:
        path: the path of the file itself, with symbolic links resolved.
        name: the name of the file in messages.
    """

    def __init__(self, path: str) -> None:
        # Keep a symbolic link, and replace the file that it points to.
        self.path = os.path.realpath(path)
        self.name = path
        # the present file, once it is locked
        self.descriptor: int | None = None
        # its size, if this process has made it
        self.size = 0

    def lock(self) -> None:
        """Lock the file, if it exists, until `close` or the end of the process.

        Raises:
            RunError: another process uses the file, or it is not a checkpoint and so must not be
                replaced.
            WriteFailure: the file cannot be locked.
        """
        try:
            while self.descriptor is None:
                if not stat.S_ISREG(os.stat(self.path).st_mode):
                    raise RunError(f"{self.name} is not a regular file, as a checkpoint must be")
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
                raise RunError(f"{self.name} is not a checkpoint, or it is damaged")
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {self.name}: {reason(error)}") from None
        self.remove_leftovers()

    def claim(self, descriptor: int) -> None:
        """Lock an open file.

        Raises:
            RunError: another process has locked it.
            WriteFailure: the file system cannot lock it.
        """
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self.used_by_another() from None
        except OSError as error:
            raise WriteFailure(f"cannot lock {self.name}: {error.strerror}") from None

    def close(self) -> None:
        """Release the lock, so that other processes can use the file."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def read(self) -> Checkpoint | None:
        """Return the checkpoint, or None if the file does not exist; this needs no lock.

        Raises:
            RunError: the file cannot be read, or it is not a checkpoint, or it is damaged or has
                another version.
        """
        try:
            with open(self.path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {self.name}: {reason(error)}") from None
        place = len(MAGIC)
        if content[:place] != MAGIC:
            raise RunError(f"{self.name} is not a checkpoint, or it is damaged")
        if len(content) > place and content[place] != VERSION:
            raise RunError(
                f"cannot resume from {self.name}: it has version {content[place]}, and this "
                f"version of mtlmon reads version {VERSION} only {AFRESH}"
            )
        body = last_body(content[len(HEAD) :])
        if body is None:
            raise RunError(f"cannot resume from {self.name}: the checkpoint is damaged {AFRESH}")
        return Checkpoint.decode(body)

    def write(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; once this returns, it survives even a loss of power.

        Raises:
            WriteFailure: the checkpoint cannot be written; the previous one is still there.
            RunError: another process has written a first checkpoint in the meantime.
        """
        record = checkpoint.encode()
        try:
            if self.has_room(len(record)):
                self.append(record)
            else:
                self.replace(HEAD + record)
        except (OSError, ValueError) as error:
            raise WriteFailure(f"cannot write {self.name}: {reason(error)}") from None

    def has_room(self, size: int) -> bool:
        """Whether so many bytes can be appended, to a file of this process that has its name."""
        if not self.size or self.size + size > max(APPENDED_BYTES, 2 * size):
            return False
        assert self.descriptor is not None
        with contextlib.suppress(FileNotFoundError):
            return is_named(self.descriptor, self.path)
        return False

    def append(self, record: bytes) -> None:
        """Append to the file, which this process has made.

        Raises:
            OSError: it cannot be written; what is there of it is no complete checkpoint.
        """
        assert self.descriptor is not None
        os.lseek(self.descriptor, self.size, os.SEEK_SET)
        write_all(self.descriptor, record)
        os.fdatasync(self.descriptor)
        self.size += len(record)

    def replace(self, content: bytes) -> None:
        """Replace the file as a whole.

        Raises:
            OSError: it cannot be written; the previous file is still there.
            RunError: another process has written a first checkpoint in the meantime.
        """
        descriptor, temporary = create_beside(self.path)
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
            # Lock the file before it takes the name, so that no other process can.
            self.claim(descriptor)
            self.rename(temporary)
        except BaseException:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self.close()
        self.descriptor, self.size = descriptor, len(content)
        sync_directory(self.path)

    def rename(self, temporary: str) -> None:
        """Give the new file its name; a first checkpoint must not replace an existing file."""
        if self.descriptor is not None:
            os.rename(temporary, self.path)
            return
        try:
            os.link(temporary, self.path)
        except FileExistsError:
            raise self.used_by_another() from None
        except OSError:
            # Some file systems have no hard links.
            os.rename(temporary, self.path)
        else:
            os.unlink(temporary)

    def remove_leftovers(self) -> None:
        """Remove the temporary files of processes that were killed, and nothing else.

        Such a file has the name of a temporary file, is empty or begins like a checkpoint, and is
        not locked by any process.
        """
        with contextlib.suppress(OSError):
            for path in leftovers(self.path):
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if MAGIC.startswith(file.read(len(MAGIC))):
                        os.unlink(path)

    def used_by_another(self) -> RunError:
        return RunError(f"another process is using {self.name}: give every run its own checkpoint")


def open_to_lock(path: str) -> int:
    """Open a file, if possible for writing, because some file systems require that for locks."""
    flags = os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, os.O_RDWR | flags)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)


def is_named(descriptor: int, path: str) -> bool:
    """Whether the path leads to the open file."""
    return os.path.samestat(os.fstat(descriptor), os.stat(path))


def sync_directory(path: str) -> None:
    """Wait until the directory on disk contains a file's name.

    Raises:
        OSError: the directory cannot be synchronized.
    """
    descriptor = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
