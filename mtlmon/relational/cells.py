"""Values of Python as cells of the engine, and back."""

from __future__ import annotations

import re
from array import array
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from math import isnan
from struct import pack, unpack
from typing import TYPE_CHECKING

from mtlmon.arrays.native import KeyTable, TextCells
from mtlmon.policy.predicates.integers import LARGEST, SMALLEST
from mtlmon.support.snapshot_parts import damaged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.plan import PolicyPlan

Value = bool | int | float | str

_UNLIKE_A_WORD = re.compile(r'[\x00-\x20\x7f",()]')
_ESCAPES = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"})


def number_text(texts: KeyTable, text: str) -> int:
    """The number of a text, a new one if it has none."""
    return texts.number_text(text.encode("utf-8", "replace"))


def number_texts(texts: KeyTable, given: Sequence[str]) -> Sequence[int]:
    """The numbers of texts; those that have none get new ones."""
    parts = [text.encode("utf-8", "replace") for text in given]
    ends = array("q", accumulate(map(len, parts), initial=0))
    cells = TextCells(len(parts), 0, None, ends.tobytes(), b"".join(parts), True)
    numbers = array("I", bytes(4 * len(parts)))
    if parts:
        texts.number_rows([cells], numbers)
    return numbers


def restore_texts(texts: KeyTable, snapshot: bytes) -> None:
    """Give texts the numbers that they had; constants of the plan have them already.

    Raises:
        SnapshotError: the bytes are no snapshot of texts that begin with these constants.
    """
    others = KeyTable(1)
    others.restore(snapshot)
    count = len(others)
    ends, text = others.column(array("I", range(count)), 0)
    try:
        bytes(text).decode()
    except UnicodeDecodeError:
        raise damaged() from None
    numbers = array("I", bytes(4 * count))
    if count:
        texts.number_rows([TextCells(count, 0, None, ends, text, True)], numbers)
    if numbers != array("I", range(count)):
        raise damaged()


def to_cell(value: object, kind: Kind, texts: KeyTable) -> int | None:
    """The cell of a value; None for null and NaN, which rows do not have.

    Raises:
        TypeError: the value is of another kind.
        OverflowError: an integer does not fit 64 bits.
    """
    # PERF: most values are of these two types
    if type(value) is str and kind.name == "text":
        return number_text(texts, value)
    if type(value) is int and kind.name == "integer" and SMALLEST <= value <= LARGEST:
        return value
    if value is None:
        return None
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if kind.name in {"text", "unknown"}:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is not a text")
        return number_text(texts, value)
    if kind.name == "boolean":
        if not isinstance(value, bool):
            raise TypeError(f"{value!r} is not true or false")
        return int(value)
    if kind.name == "time" and isinstance(value, datetime):
        value = _nanoseconds(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not {kind.words}")
    if kind.name in {"float", "decimal"}:
        number = float(value)
        if isnan(number):
            return None
        (cell,) = unpack("<q", pack("<d", number or 0.0))
        return int(cell)
    if int(value) != value:
        raise TypeError(f"{value!r} is not an integer")
    if not SMALLEST <= value <= LARGEST:
        raise OverflowError(f"{value} does not fit 64 bits")
    return int(value)


def _nanoseconds(moment: datetime) -> int:
    """The nanoseconds from 1970 to a moment, which is in UTC if it has no time zone."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    # those that moments of pandas have besides
    rest: int = getattr(moment, "nanosecond", 0)
    return (since.days * 86400 + since.seconds) * 10**9 + since.microseconds * 1000 + rest


def value_text(value: Value, kind: Kind) -> str:
    """The value as lines of answers have it."""
    if kind.name == "time" and isinstance(value, int):
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value // 10**9)
        fraction = f".{value % 10**9:09}".rstrip("0").rstrip(".")
        return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if not isinstance(value, str):
        return repr(value)
    if value and not _UNLIKE_A_WORD.search(value):
        return value
    return f'"{value.translate(_ESCAPES)}"'


def from_cell(cell: int, kind: Kind, texts: KeyTable) -> Value:
    """The value of a cell."""
    if kind.name in {"text", "unknown"}:
        text: str = texts.key(cell)[0]
        return text
    if kind.name == "boolean":
        return bool(cell)
    if kind.name in {"float", "decimal"}:
        (number,) = unpack("<d", pack("<q", cell))
        return float(number)
    return cell


def values_of(cells: Sequence[int], kinds: Sequence[Kind], texts: KeyTable) -> tuple[Value, ...]:
    """Return the values of cells of these kinds."""
    return tuple(from_cell(cell, kind, texts) for cell, kind in zip(cells, kinds, strict=True))


def valuation(policy: PolicyPlan, values: Sequence[Value], sign: str) -> str:
    """Return the values of an answer as text, with a sign between names and values."""
    named = zip(policy.variables, policy.kinds, values, strict=True)
    return ", ".join(f"{name}{sign}{value_text(value, kind)}" for name, kind, value in named)
