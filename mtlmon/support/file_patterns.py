"""Finds the files that match a pattern."""

from __future__ import annotations

import glob
import os

from mtlmon.errors import MtlmonError

__all__ = ["files_of"]


def exists(name: str) -> bool:
    """Whether there is a file or directory with this name, or one that matches it as a pattern."""
    return os.path.exists(name) or bool(glob.has_magic(name) and glob.glob(name, recursive=True))


def files_of(name: str) -> list[str]:
    """Return the file with this name, or else the files that match it as a pattern.

    `**` in a pattern matches directories at any depth. The files are in alphabetical order.

    Raises:
        MtlmonError: nothing matches the pattern.
        OSError: the name is not a pattern, and there is no such file.
    """
    if os.path.exists(name) or not glob.has_magic(name):
        os.stat(name)
        return [name]
    matched = sorted(filter(os.path.isfile, glob.glob(name, recursive=True)))
    if not matched:
        raise MtlmonError(f"{name}: no file matches this pattern")
    return matched
