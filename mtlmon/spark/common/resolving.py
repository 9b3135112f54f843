"""Equivalences among verdicts in a table, as those of streams are, to Boolean verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.spark.common.events import key_names
from mtlmon.spark.common.ordering import check_collations, column_named
from mtlmon.spark.common.verdicts import COLUMNS, POLICY, verdict_columns, verdict_schema
from mtlmon.verdicts.arrays import EQUIVALENT, verdict_type
from mtlmon.verdicts.operations import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame


def resolve_verdicts(verdicts: DataFrame, *, key: str | Sequence[str] | None = None) -> DataFrame:
    """The Boolean verdict of every time-point that is decided.

    For tables of verdicts with equivalences: what `monitor` gives with `resolve=False`, or what a
    stream has written so far. The verdicts of a policy on a key are resolved by one task, in its
    memory.

    Args:
        verdicts: a data frame, not streaming, with the columns of verdicts, in any order.
        key: the columns of the key.

    Returns:
        Rows like those of `monitor` with `resolve=True`; late events are left out.
    """
    keys = key_names(key)
    check_collations([verdicts.schema[name] for name in keys])
    names = (POLICY, *keys, *COLUMNS)
    # pyspark cannot find columns again whose names have dots in them
    plain = [column_named(name).alias(f"column{number}") for number, name in enumerate(names)]
    rows = verdicts.where("verdict IS NOT NULL OR reference_time IS NOT NULL").select(*plain)
    groups = rows.groupBy(*rows.columns[: 1 + len(keys)])
    schema = verdict_schema([verdicts.schema[name] for name in keys])

    # Spark tells by the number of arguments what it has to give, and counts those of a method wrong
    def resolve_key(table: pa.Table) -> pa.Table:
        return _resolved(table, names)

    return groups.applyInArrow(resolve_key, schema)


def _resolved(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """From the verdicts of a policy on a key to those resolved, by time-point.

    The columns are those of `verdict_schema`, which are called like this.
    """
    records = _records(table.rename_columns(names))
    # the references have to be known before what they refer to is decided
    order = np.argsort(records["kind"] != EQUIVALENT, kind="stable")
    resolved = resolve(records[order], in_order=True)
    first = pa.array(np.zeros(len(resolved), np.int64))
    known = [column.take(first) for column in table.columns[: -len(COLUMNS)]]
    return pa.Table.from_arrays([*known, *verdict_columns(resolved)], names=names)


def _records(table: pa.Table) -> NDArray[np.void]:
    """Rows of verdicts as records."""
    records = np.zeros(table.num_rows, verdict_type())
    places = {"time": "time_stamp", "offset": "offset"}
    places |= {"reference_time": "reference_time_stamp", "reference_offset": "reference_offset"}
    for name, field in places.items():
        records[field] = table.column(name).fill_null(0).to_numpy()
    verdict = table.column("verdict")
    records["kind"] = verdict.cast(pa.uint8()).fill_null(EQUIVALENT).to_numpy()
    return records
