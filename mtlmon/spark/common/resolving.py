"""Resolves equivalences in tables of verdicts, such as those of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError
from mtlmon.spark.common.events import key_names
from mtlmon.spark.common.frames import require_at_rest
from mtlmon.spark.common.ordering import check_collations, column_named
from mtlmon.spark.common.verdicts import COLUMNS, POLICY, verdict_columns, verdict_schema
from mtlmon.verdicts.arrays import EQUIVALENT, verdict_type
from mtlmon.verdicts.operations import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame


def resolve_verdicts(verdicts: DataFrame, *, key: str | Sequence[str] | None = None) -> DataFrame:
    """Return the Boolean verdict of every time-point that is decided.

    Use this for tables of verdicts with equivalences: the result of `monitor` with `resolve=False`,
    or what a stream has written so far. A single task resolves the verdicts of a policy on a key in
    its memory.

    Args:
        verdicts: a data frame, not streaming, with the columns of verdicts, in any order.
        key: the key columns.

    Returns:
        Rows like those of `monitor` with `resolve=True`; late events are left out.

    Raises:
        MtlmonError: a column is missing.
    """
    require_at_rest(verdicts, "resolve_verdicts", "resolve the table that it is written to")
    keys = key_names(key)
    known = verdicts.columns
    check_collations([verdicts.schema[name] for name in keys if name in known])
    for name in (POLICY, *keys, *COLUMNS):
        if name not in known:
            raise MtlmonError(
                "a table of verdicts has the columns of monitor or monitor_stream, and "
                f"{name!r} is missing"
            )
    names = (POLICY, *keys, *COLUMNS)
    # pyspark cannot look up columns whose names contain dots
    plain = [column_named(name).alias(f"column{number}") for number, name in enumerate(names)]
    rows = verdicts.where("verdict IS NOT NULL OR reference_time IS NOT NULL").select(*plain)
    groups = rows.groupBy(*rows.columns[: 1 + len(keys)])
    schema = verdict_schema([verdicts.schema[name] for name in keys])

    # Spark counts the arguments to know what to pass, and counts those of a method wrongly
    def resolve_key(table: pa.Table) -> pa.Table:
        return _resolved(table, names)

    return groups.applyInArrow(resolve_key, schema)


def _resolved(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Resolve the verdicts of a policy on a key, sorted by time-point.

    Args:
        table: the verdicts.
        names: the names of its columns, which are in the order of `verdict_schema`.
    """
    records = _records(table.rename_columns(names))
    # the resolver must know the references before it knows what they refer to
    order = np.argsort(records["kind"] != EQUIVALENT, kind="stable")
    resolved = resolve(records[order], in_order=True)
    first = pa.array(np.zeros(len(resolved), np.int64))
    known = [column.take(first) for column in table.columns[: -len(COLUMNS)]]
    return pa.Table.from_arrays([*known, *verdict_columns(resolved)], names=names)


def _records(table: pa.Table) -> NDArray[np.void]:
    """Convert rows of verdicts to records."""
    records = np.zeros(table.num_rows, verdict_type())
    places = {"time": "time_stamp", "offset": "offset"}
    places |= {"reference_time": "reference_time_stamp", "reference_offset": "reference_offset"}
    for name, field in places.items():
        records[field] = table.column(name).fill_null(0).to_numpy()
    verdict = table.column("verdict")
    records["kind"] = verdict.cast(pa.uint8()).fill_null(EQUIVALENT).to_numpy()
    return records
