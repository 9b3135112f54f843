"""Lines of pairs, as in `time=12 level=info msg="a b" done` (logfmt)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import MtlmonError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NAME = r"[^\s=\"]+"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
# One pair, or a name alone, and the blanks behind it.
_PAIR = rf'(?:[^\s="]+(?:={_QUOTED}|=[^\s"]*)?\s+)'
_PAIRS = rf'(?:^|(?<=\s))([^\s="]+)(?:={_QUOTED}|=[^\s"]*|(?=\s|$))'
_ESCAPE = r"(?s)\\(.)"
_CONTROL = {"n": "\n", "r": "\r", "t": "\t"}


def pair_values(lines: pa.Array, name: str) -> pa.Array:
    """Return the value of a name in each line; null where it does not occur, or has no value.

    Where a name occurs several times, this is the first one; see `has_twice`. A name without `=` is
    true.

    Raises:
        MtlmonError: no pair can have this name.
    """
    if not re.fullmatch(_NAME, name):
        raise MtlmonError(f"no pair of a line can have the name {name!r}: names have no blanks")
    # Only what begins a line or follows whole pairs is a name: not what quotes enclose.
    regex = (
        rf"^\s*{_PAIR}*?{re.escape(name)}"
        rf'(?:(?P<sign>=)(?:(?P<quoted>{_QUOTED})|(?P<plain>[^\s"]*)))?(?:\s|$)'
    )
    found = pc.extract_regex(lines, regex)
    quoted = pc.utf8_slice_codeunits(found.field("quoted"), 1, 2**31 - 1)
    quoted = pc.replace_substring_regex(quoted, '"$', "")
    if pc.any(pc.match_substring(quoted, "\\")).as_py():
        texts = [
            None if one is None else re.sub(_ESCAPE, _plain, one) for one in quoted.to_pylist()
        ]
        quoted = pa.array(texts, lines.type)
    empty = pa.scalar("", lines.type)
    plain = found.field("plain")
    value = pc.if_else(pc.equal(plain, empty), quoted, plain)
    true = pa.scalar("true", lines.type)
    value = pc.if_else(pc.equal(found.field("sign"), empty), true, value)
    has_value = pc.and_(found.is_valid(), pc.not_equal(value, empty))
    return pc.if_else(has_value, value, pa.scalar(None, lines.type))


def has_twice(lines: pa.Array, name: str) -> NDArray[np.int64]:
    """Return the indices of the lines in which a name occurs more than once.

    PERF: few lines have its letters more than once, and only these are taken apart.
    """
    places = np.flatnonzero(pc.fill_null(pc.greater(pc.count_substring(lines, name), 1), False))
    if not len(places):
        return places
    again = rf"{re.escape(name)}(?:={_QUOTED}|=[^\s\"]*)?"
    regex = rf"^\s*{_PAIR}*?{again}\s+{_PAIR}*?{again}(?:\s|$)"
    is_found = np.asarray(pc.match_substring_regex(lines.take(pa.array(places)), regex))
    return places[is_found.astype(np.bool_)]


def pair_names(lines: list[str]) -> list[str]:
    """Return the names in some lines, in the order of their first occurrences."""
    names = (one for line in lines for one in re.findall(_PAIRS, line))
    return list(dict.fromkeys(names))


def _plain(found: re.Match[str]) -> str:
    return _CONTROL.get(found[1], found[1])
