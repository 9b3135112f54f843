"""Guesses which known name was meant by a misspelt one, or by that of another language."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["advice", "did_you_mean", "nearest", "with_advice"]

LIKENESS = 0.6
"""How alike names are that are guessed, from 0 to 1, as difflib measures it."""

_NONE: Mapping[str, str] = {}


def nearest(name: str, known: Iterable[str], likeness: float = LIKENESS) -> str | None:
    """Return the known name that is most similar, or None if none is; case does not matter."""
    # Imported only when something is wrong, because the import is slow.
    from difflib import get_close_matches

    by_small = {one.casefold(): one for one in known if one != name}
    found = get_close_matches(name.casefold(), by_small, 1, likeness)
    return by_small[found[0]] if found else None


def advice(
    name: str,
    known: Iterable[str],
    others: Mapping[str, str] = _NONE,
    likeness: float = LIKENESS,
    written: Callable[[str], str] = str,
) -> str | None:
    """Return a hint for an unknown name; None if nothing is like it.

    Args:
        name: the name.
        known: the names that would be right.
        others: what other languages have, in lower case: the known name of the same meaning, or a
            sentence that says what to write.
        likeness: how alike a name must be to be guessed.
        written: writes a known name as the language does.

    >>> advice("eror", ["error"]), advice("Mean", ["avg", "max"], {"mean": "avg"})
    ('did you mean error?', 'did you mean avg?')
    >>> advice("xor", ["and"], {"xor": "write NOT (p EQUIV q)"}), advice("zz", ["and"])
    ('write NOT (p EQUIV q)', None)
    """
    names = list(known)
    meant = others.get(name.casefold())
    if meant is not None and " " in meant:
        return meant
    if meant not in names:
        meant = nearest(name, names, likeness)
    return None if meant is None else f"did you mean {written(meant)}?"


def with_advice(
    name: str,
    known: Iterable[str],
    otherwise: str,
    others: Mapping[str, str] = _NONE,
    written: Callable[[str], str] = str,
) -> str:
    """Return the advice on a name, before `otherwise`, a hint that lists the known names.

    A sentence that says what to write needs no list.

    >>> with_advice("wher", ["where"], "the steps are where, join")
    'did you mean where? the steps are where, join'
    """
    found = advice(name, known, others, written=written)
    if found is None:
        return otherwise
    return f"{found} {otherwise}" if found.endswith("?") else found


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: a guess at what was meant, or nothing.

    >>> did_you_mean("eror", ["error", "request"]), did_you_mean("eror", ["done"])
    ("; did you mean 'error'?", '')
    """
    guess = nearest(name, known)
    return "" if guess is None else f"; did you mean {guess!r}?"
