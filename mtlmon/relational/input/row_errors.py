"""Messages about lines of a log of relations that cannot be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mtlmon.syntax.formula import atom
from mtlmon.text.excerpt import describe, excerpt

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["describe_row"]

_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s(),"]*')
_MESSAGES = {
    "name": "expected the name of an atom, not {character}",
    "missing": "expected a value, not {character}",
    "comma": "expected ',' or ')' after a value, not {character}",
    "open": "expected ')' after the values",
    "end": "nothing may follow ';' on a line but a comment",
}
_EXPECTED = {
    "integer": "an integer from -2^63 to 2^63-1",
    "float": "a number",
    "boolean": "true or false",
    "text": "UTF-8",
    "time": "a time, such as 2026-01-31T12:30:00Z",
}


def describe_row(
    fault: str,
    line: bytes,
    place: int,
    name: str | None,
    kinds: Sequence[str] | None,
    argument: int,
    count: int,
) -> tuple[str, int]:
    """Return a message about a fault in a line, and the column of its place, from 1.

    Args:
        fault: a key of the messages above, or "value", "text" or "count".
        line: the line.
        place: the index of the byte at fault.
        name: the name of the atom, where the fault is in its values.
        kinds: the kinds of its arguments.
        argument: for "value" and "text", the index of the argument.
        count: for "count", the number of values.
    """
    if fault in _MESSAGES:
        return describe(_MESSAGES[fault], line, place)
    assert name is not None
    assert kinds is not None
    written = str(atom(name))
    if fault == "count":
        message = f"{written} has {arguments(len(kinds))}, not {count or 'none'}"
    else:
        found = _VALUE.match(line[place:].decode(errors="replace"))
        assert found is not None
        value = excerpt(found.group(), 0)
        kind = kinds[argument]
        message = f"{value} is not {_EXPECTED[kind]}, as value {argument + 1} of {written} must be"
    return describe(message.replace("{", "{{").replace("}", "}}"), line, place)


def arguments(count: int) -> str:
    """Say how many arguments an atom has."""
    return "one argument" if count == 1 else f"{count or 'no'} arguments"
