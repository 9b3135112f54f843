"""Logs in all formats with the same rows, for tests of their times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyarrow import parquet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "logfmt", "pattern")
_PATTERN = r"^(?P<ts>[^|]*)\|(?P<what>.*)$"


class Log(NamedTuple):
    """A log: its path, and the pattern of its lines, or None."""

    path: str
    pattern: str | None


def written(folder: Path, format: str, rows: Sequence[tuple[object, str]]) -> Log:
    """Write rows with the columns `ts` and `what` in a format."""
    path = folder / f"log.{format}"
    pattern = {"logfmt": "logfmt", "pattern": _PATTERN}.get(format)
    if format in ("csv", "tsv"):
        mark = "," if format == "csv" else "\t"
        path.write_text("".join(f"{ts}{mark}{what}\n" for ts, what in [("ts", "what"), *rows]))
    elif format == "jsonl":
        path.write_text("".join(json.dumps({"ts": ts, "what": what}) + "\n" for ts, what in rows))
    elif format == "logfmt":
        path.write_text("".join(f'ts="{ts}" what={what}\n' for ts, what in rows))
    elif format == "pattern":
        path.write_text("".join(f"{ts}|{what}\n" for ts, what in rows))
    else:
        table = pa.table({"ts": [ts for ts, _ in rows], "what": [what for _, what in rows]})
        if format == "parquet":
            parquet.write_table(table, path, row_group_size=1)
        else:
            with pa.ipc.new_file(str(path), table.schema) as file:
                file.write_table(table, max_chunksize=1)
    return Log(str(path), pattern)
