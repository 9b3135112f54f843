"""Guesses which known name was meant by a misspelt one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["did_you_mean", "nearest"]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar, or None if none is; case does not matter."""
    # Imported only when something is wrong, because the import is slow.
    from difflib import get_close_matches

    by_small = {one.casefold(): one for one in known if one != name}
    found = get_close_matches(name.casefold(), by_small, 1)
    return by_small[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: a guess at what was meant, or nothing.

    >>> did_you_mean("eror", ["error", "request"]), did_you_mean("eror", ["done"])
    ("; did you mean 'error'?", '')
    """
    guess = nearest(name, known)
    return "" if guess is None else f"; did you mean {guess!r}?"
