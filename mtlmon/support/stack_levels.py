"""Finds the line of a program that a warning is about."""

from __future__ import annotations

import os
import sys

__all__ = ["levels_inside"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def levels_inside() -> int:
    """The `stacklevel` with which the caller warns about the line that called the package."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    return level
