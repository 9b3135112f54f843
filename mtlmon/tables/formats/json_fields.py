"""Reads fields of JSON objects on lines as texts, as the journal of systemd writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["json_names", "json_values"]


def json_values(lines: pa.Array, fields: Mapping[str, str]) -> dict[str, pa.Array]:
    """Return the texts of fields, by the names of columns; null where a line has none.

    A line that is no object has no fields. Bytes that are no text are a list of numbers in the
    journal, and a field that an entry has several times is a list, of which the first one counts.

    Args:
        lines: the lines.
        fields: the fields by the names of columns.
    """
    objects = [_object(line) for line in lines.to_pylist()]
    return {
        name: pa.array([_text(one.get(field)) for one in objects], lines.type)
        for name, field in fields.items()
    }


def json_names(lines: Iterable[str]) -> list[str]:
    """Return the fields of lines, in the order in which they come."""
    return list(dict.fromkeys(name for line in lines for name in _object(line)))


def _object(line: str) -> dict[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str | None:
    if isinstance(value, list):
        if value and all(isinstance(one, int) and 0 <= one < 256 for one in value):
            return bytes(value).decode(errors="replace")
        return _text(value[0]) if value else None
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
