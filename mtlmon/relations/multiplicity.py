"""Operators that only count how often each record is valid: coalesce, distinct, minus, ..."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from mtlmon.relations.native import Multiplicities, Numbering, Timeline
from mtlmon.relations.numbering import numbered
from mtlmon.relations.records import Records, aligned, order_of, take_numbered

Rule: TypeAlias = Literal["each", "once", "less", "absent", "least", "most"]


def coalesced(records: Records) -> Records:
    """Return the same snapshots in as few records as can be."""
    return records if records.is_coalesced else multiplied("each", records)


def multiplied(rule: Rule, records: Records, left: int | None = None) -> Records:
    """Count how often each record is valid, and return the records that a rule makes of that.

    Args:
        rule: a rule of `Multiplicities`.
        records: the records of the left relation, then those of the right one.
        left: the number of records of the left relation; all by default.
    """
    numbers, limit = numbered(records.columns, len(records))
    found = Multiplicities(
        rule,
        timeline(records),
        Numbering(numbers, len(records)),
        len(records) if left is None else left,
    )
    values = np.frombuffer(found.values, np.uint32)
    return Records(
        records.schema,
        take_numbered(records.columns, numbers, limit, values),
        np.frombuffer(found.starts, np.int64),
        np.frombuffer(found.ends, np.int64),
        is_coalesced=True,
    )


def timeline(records: Records, *, has_ends: bool = True) -> Timeline:
    """Return the starts of records in order of time, and, if wanted, their ends."""
    return Timeline(
        aligned(records.starts),
        aligned(records.ends),
        order_of(records.starts),
        order_of(records.ends) if has_ends else None,
        len(records),
        has_ends,
    )
