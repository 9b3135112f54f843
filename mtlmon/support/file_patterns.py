"""Files named by patterns."""

from __future__ import annotations

import glob
import os

from mtlmon.errors import MtlmonError

__all__ = ["files_of"]


def files_of(name: str) -> list[str]:
    """The file of this name, or the files that match it as a pattern, in alphabetical order.

    `**` in a pattern stands for directories at any depth.

    Raises:
        MtlmonError: nothing matches the pattern.
        OSError: there is no such file.
    """
    if os.path.exists(name) or not glob.has_magic(name):
        os.stat(name)
        return [name]
    matched = sorted(filter(os.path.isfile, glob.glob(name, recursive=True)))
    if not matched:
        raise MtlmonError(f"{name}: no file matches this pattern")
    return matched
