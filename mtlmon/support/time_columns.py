"""Reads which columns have the times of a table."""

from __future__ import annotations

from mtlmon.errors import MtlmonError

__all__ = ["time_columns"]


def time_columns(time: str) -> tuple[str, ...]:
    """Return the columns of times that a text names, with commas between them.

    Raises:
        MtlmonError: a name is empty or occurs twice.
    """
    names = tuple(name.strip() for name in time.split(",")) if "," in time else (time,)
    if "," in time and not all(names):
        raise MtlmonError(f"the columns of times, {time!r}, have an empty name")
    if len(set(names)) < len(names):
        raise MtlmonError(f"the columns of times, {time!r}, name a column twice")
    return names
