"""Replaces files atomically: a reader sees the old content or the new, never a part of it.

The new content goes to a temporary file in the same directory, which is then renamed. The name of
the temporary file cannot be predicted, and the file is created with O_EXCL, so that no file or link
of another user is ever written to or removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat

__all__ = ["create_beside", "leftovers", "replace", "write_all", "write_whole"]

# All common file systems allow names of up to 255 bytes.
_NAME_BYTES = 200
_TOKEN_BYTES = 8
_TRIES = 100
_PERMISSIONS = 0o777


def create_beside(path: str) -> tuple[int, str]:
    """Create an empty temporary file in the directory of `path`.

    Returns:
        The descriptor of the file, and its path.

    Raises:
        OSError: the file cannot be created.
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
    """Find temporary files that `create_beside` has made for `path`.

    They are left over from killed processes, or still in use.
    """
    directory, prefix = os.path.split(_prefix(path))
    pattern = re.compile(re.escape(prefix) + rf"[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.tmp")
    with os.scandir(directory or ".") as entries:
        return [
            entry.path
            for entry in entries
            if pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]


def replace(path: str, content: bytes) -> None:
    """Replace a file by one with the given content; an existing file's permissions are kept.

    Raises:
        OSError: the file cannot be replaced; it is unchanged.
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
    """Write all of the content, with as many calls as that takes.

    Raises:
        OSError: a write fails.
    """
    with memoryview(content) as rest:
        place = 0
        while place < len(rest):
            place += os.write(descriptor, rest[place:])


def write_whole(path: str, content: bytes) -> None:
    """Replace the file at `path`, or write to it if it is a pipe or a device.

    If `path` is a link, its target is replaced, and the link is kept.

    Raises:
        OSError: the file cannot be written.
        ValueError: `path` cannot be a path, for example because it contains a null byte.
    """
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with open(path, "wb") as file:
            file.write(content)
    else:
        replace(os.path.realpath(path), content)


def _prefix(path: str) -> str:
    """The path of a temporary file for `path`, up to the random part of its name."""
    directory, name = os.path.split(path)
    short = os.fsdecode(os.fsencode(name)[:_NAME_BYTES])
    return os.path.join(directory, f".{short}.")
