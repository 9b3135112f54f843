"""Memory limits: how sizes are written, and the error when a limit is exceeded.

The limit covers the memory of mtlmon's own structures. The process takes more: Python, pyarrow and
the blocks of a table that are being read are not included.
"""

from __future__ import annotations

from mtlmon.errors import MemoryLimitError, MtlmonError
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import SupportsIndex

    from mtlmon.support.option_names import OptionNames
    from mtlmon.syntax.formula import Formula

__all__ = ["CATEGORIES", "FORMULA_NODE_BYTES", "formula_bytes", "limit_error", "memory_size"]

# By category: what holds the memory, and how to reduce it. The order is that of the enumeration in
# structures/memory_limit.pxd.
_CATEGORIES = {
    "formula": ("the formulas and their programs", "use fewer or smaller formulas"),
    "operators": (
        "what operators remember (witnesses of SINCE, obligations of UNTIL)",
        "use shorter intervals or a coarser time unit",
    ),
    "pending": (
        "undecided time-points",
        "use shorter intervals, or mode local or global instead of naive",
    ),
    "expressions": (
        "the expressions of undecided time-points",
        "use shorter intervals or a coarser time unit",
    ),
    "transitions": ("the transition table", "use fewer policies at a time"),
    "key_states": (
        "the states of keys",
        "use {}, so that keys without events are forgotten, or split the log by key",
    ),
    "keys": ("the texts of keys", "use fewer key columns, or split the log by key"),
    "streams": (
        "windows, streams and relations of rows",
        "use shorter windows, or split the log by key",
    ),
    "relations": ("rows and records of relations", "select fewer columns or rows"),
    "equivalents": (
        "time-points whose equivalence is not resolved yet",
        "leave equivalences as they are, or use shorter intervals",
    ),
    "in_order": (
        "verdicts that wait for their turn",
        "give the formula's reach, or do without the order",
    ),
    "sorting": (
        "events that are being sorted, wait for late ones, or may still have late ones before them",
        "sort the log beforehand, or allow events to be less late",
    ),
    "verdicts": ("verdicts that are not taken out yet", "feed fewer events at a time"),
    "buffers": ("the buffers of text", "look for lines that are too long"),
}

CATEGORIES = tuple(_CATEGORIES)
"""The categories of held memory, as named in `Monitor.counters` and `MemoryLimitError.held`."""

FORMULA_NODE_BYTES = 300
"""The size of a node of a formula with its interval, name and place in the text: measured."""

_SIZE = r"([0-9]{1,18}(?:\.[0-9]{1,9})?)[ ]?(?:([KMGT]?)(i?B)?)"
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def memory_size(size: SupportsIndex | str) -> int:
    """Convert a size to a number of bytes.

    Args:
        size: a number of bytes, or a text: a number followed by K, M, G or T, for powers of 1024.
            KiB, MiB, GiB and TiB mean the same; KB, MB, GB and TB are powers of 1000.

    Raises:
        MtlmonError: it is not such a size, or it is less than one byte.

    >>> memory_size("500M"), memory_size("1.5GB"), memory_size(4096)
    (524288000, 1500000000, 4096)
    """
    if isinstance(size, str):
        import re

        found = re.fullmatch(_SIZE, size.strip(), re.IGNORECASE)
        if found is not None:
            number, prefix, unit = found.groups()
            base = 1000 if prefix and unit in ("B", "b") else 1024
            exact = float(number) if "." in number else int(number)
            count = int(exact * base ** _POWERS[prefix.upper()])
            if count > 0:
                return count
        raise MtlmonError(
            f"'{size}' is not a size of memory: give a number of bytes, or one with K, M, G or T "
            "(powers of 1024; KB, MB, GB and TB are powers of 1000), as in 500M"
        )
    try:
        count = size.__index__()
    except AttributeError:
        raise MtlmonError(
            f"max_memory is a number of bytes or a text such as '500M', not {size!r}"
        ) from None
    if count <= 0:
        raise MtlmonError(f"max_memory is at least one byte, not {count}")
    return count


def size_text(count: int) -> str:
    """Write a number of bytes with at least three digits, in powers of 1024.

    >>> size_text(700), size_text(524288000), size_text(1234567)
    ('700 bytes', '500 MiB', '1.18 MiB')
    """
    if count < 1000:
        return f"{count} bytes" if count != 1 else "1 byte"
    value = count / 1024
    prefixes = iter(("Ki", "Mi", "Gi", "Ti"))
    prefix = next(prefixes)
    while value >= 999.5 and prefix != "Ti":
        value /= 1024
        prefix = next(prefixes)
    digits = 0 if value >= 99.95 or value == int(value) else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {prefix}B"


def formula_bytes(*formulas: Formula) -> int:
    """The approximate memory of the objects of formulas."""
    return FORMULA_NODE_BYTES * len(postorder(*formulas))


def limit_error(limit: int, held: dict[str, int], names: OptionNames) -> MemoryLimitError:
    """Make the error that says what holds most of the memory.

    Args:
        limit: the limit in bytes.
        held: the bytes by category.
        names: how the caller writes options.
    """
    most = max(held, key=lambda name: held[name])
    what, remedy = _CATEGORIES[most]
    total = sum(held.values())
    # Rounded, the two may look the same.
    text = f"{total:,} bytes" if size_text(total) == size_text(limit) else size_text(total)
    return MemoryLimitError(
        f"the memory limit of {size_text(limit)} is exceeded: {text} are held, "
        f"{size_text(held[most])} of them by {what}; allow more memory with "
        f"{names.written('max_memory')}, or {remedy.format(names.written('advance_every'))}",
        limit=limit,
        held=held,
    )
