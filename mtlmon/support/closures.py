"""What is used, also by way of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

__all__ = ["closure"]


def closure(names: Iterable[str], uses: Mapping[str, Collection[str]]) -> set[str]:
    """Return some names and all that they use, also by way of others.

    Args:
        names: the names.
        uses: for each name those that it uses.
    """
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += uses[name]
    return found
