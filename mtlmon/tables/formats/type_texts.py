"""The types of columns as texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["types_of", "types_text"]


def types_text(types: Mapping[str, pa.DataType]) -> str:
    """Return types of columns as a text, for `types_of`."""
    return str(pa.schema(list(types.items())).serialize().to_pybytes().hex())


def types_of(text: str) -> dict[str, pa.DataType]:
    """Return the types of columns, by a text of `types_text`."""
    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))
    return {field.name: field.type for field in schema}
