"""Tables as events: reads CSV, JSON lines, Parquet and Arrow, with keys and predicates.

Needs pyarrow: `pip install 'mtlmon[tables]'`.
"""

from __future__ import annotations

from mtlmon.support.extras import load_extra

load_extra("pyarrow", "tables")

from mtlmon.drive.native import KeyedMonitors  # noqa: E402
from mtlmon.tables.checking import TableCheck, check_tables  # noqa: E402
from mtlmon.tables.columns.times import Times  # noqa: E402
from mtlmon.tables.event_batch import EventBatch  # noqa: E402
from mtlmon.tables.events import TableEvents  # noqa: E402
from mtlmon.tables.formats.files import TableFile, table_files  # noqa: E402
from mtlmon.tables.opening import open_tables  # noqa: E402

__all__ = [
    "EventBatch",
    "KeyedMonitors",
    "TableCheck",
    "TableEvents",
    "TableFile",
    "Times",
    "check_tables",
    "open_tables",
    "table_files",
]
