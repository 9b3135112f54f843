"""Replacing files as a whole: a reader finds the old content or the new, never a part of it.

The new content is written to a temporary file in the same directory, which then takes the name.
Its name is not predictable, and it is created with O_EXCL, so that neither a file of somebody else
nor a link that somebody has put there is ever written to or removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat

__all__ = ["create_beside", "leftovers", "replace", "write_all", "write_whole"]

# names of files have at most 255 bytes on all common file systems
_NAME_BYTES = 200
_TOKEN_BYTES = 8
_TRIES = 100
_PERMISSIONS = 0o777


def create_beside(path: str) -> tuple[int, str]:
    """Create an empty file in the directory of `path`; return its descriptor and its path.

    Raises OSError.
    """
    for attempt in range(_TRIES):
        temporary = f"{_prefix(path)}{os.urandom(_TOKEN_BYTES).hex()}.tmp"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(temporary, flags, 0o666), temporary
        except FileExistsError:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def leftovers(path: str) -> list[str]:
    """Files with names as `create_beside` makes them for `path`: of killed processes, or in use."""
    directory, prefix = os.path.split(_prefix(path))
    pattern = re.compile(re.escape(prefix) + rf"[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.tmp")
    with os.scandir(directory or ".") as entries:
        return [
            entry.path
            for entry in entries
            if pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]


def replace(path: str, content: bytes) -> None:
    """Make `content` the content of a file, which keeps its permissions if it exists.

    Raises OSError; the file is then as it was.
    """
    descriptor, temporary = create_beside(path)
    try:
        try:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(descriptor, os.stat(path).st_mode & _PERMISSIONS)
            write_all(descriptor, content)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of the content, however many calls that takes.

    Raises OSError.
    """
    with memoryview(content) as rest:
        place = 0
        while place < len(rest):
            place += os.write(descriptor, rest[place:])


def write_whole(path: str, content: bytes) -> None:
    """Write to what `path` names: a regular file is replaced, a pipe or a device written to.

    Where `path` is a link, what it leads to is replaced, not the link.

    Raises OSError, or ValueError for a path that cannot be one.
    """
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with open(path, "wb") as file:
            file.write(content)
    else:
        replace(os.path.realpath(path), content)


def _prefix(path: str) -> str:
    """How names of temporary files begin, of which there may be several for one `path`."""
    directory, name = os.path.split(path)
    short = os.fsdecode(os.fsencode(name)[:_NAME_BYTES])
    return os.path.join(directory, f".{short}.")
