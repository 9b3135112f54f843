"""Tables as events: reads CSV, JSON lines, Parquet and Arrow, with keys and predicates.

Needs pyarrow: `pip install 'mtlmon[tables]'`.
"""

from __future__ import annotations

from mtlmon.support.extras import load_extra

load_extra("pyarrow", "tables")

from importlib import import_module  # noqa: E402
from typing import Any  # noqa: E402

from mtlmon.drive.native import KeyedMonitors  # noqa: E402
from mtlmon.tables.columns.times import Times  # noqa: E402
from mtlmon.tables.event_batch import EventBatch  # noqa: E402
from mtlmon.tables.events import TableEvents  # noqa: E402
from mtlmon.tables.formats.files import TableFile, table_files  # noqa: E402
from mtlmon.tables.opening import open_tables  # noqa: E402

__all__ = [
    "EventBatch",
    "KeyedMonitors",
    "TableEvents",
    "TableFile",
    "Times",
    "open_tables",
    "table_files",
]


def __getattr__(name: str) -> Any:
    # of earlier versions: `mtlmon.check` has all of it, and is above tables
    if name in ("TableCheck", "check_tables"):
        return getattr(import_module("mtlmon.run.checked_tables"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
