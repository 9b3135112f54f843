"""Digests of the settings that a stream's state depends on, which are stored in the state.

Each entry of a journal has them, and they are compared when the state is read. Every task sends
bucket 0 a row, so that this happens in every batch with rows; otherwise, another number of buckets
would not be noticed.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING

from mtlmon.errors import SnapshotError
from mtlmon.policy.needs import needs_of
from mtlmon.policy.validity.declared import parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Column

    from mtlmon.spark.common.events import EventSource

_DIGEST_BYTES = 4

# The arguments of `monitor_stream`, in the order in which they are recorded.
_NAMES = ("policy", "atoms", "event", "time", "key", "order_within", "number of buckets")
_LATENESS = "delay or lateness"

NO_SETTINGS = bytes(_DIGEST_BYTES * len(_NAMES))
"""The digests of unknown settings."""

# pyspark numbers the variables of lambdas anew in each process
_VARIABLE = re.compile(r"\b([a-z]+)_\d+\b")


def stream_settings(
    source: EventSource,
    orders: Sequence[Column | str],
    schema: pa.Schema,
    buckets: int,
    lateness: int | None = None,
) -> bytes:
    """Compute digests of all settings that the state depends on, except the monitors' formulas.

    Args:
        source: how rows become events.
        orders: the caller's columns and expressions that order the rows of a time-stamp.
        schema: the selected columns, then those that order rows.
        buckets: the number of buckets.
        lateness: how far below the horizon events are taken in; None if verdicts are not corrected.
    """
    policies, selection = source.policies, source.selection
    count = len(selection.names)
    time_type = schema.field(0).type
    at_ticks = [name for period, some in policies.wanted.items() if period for name in some]
    atoms = dict.fromkeys([*policies.atoms, *at_ticks])
    settings: tuple[object, ...] = (
        [
            policies.mode,
            *((one.name, str(one.clock)) for one in policies.policies),
            *_relations(source),
        ],
        [(name, _text(source, name)) for name in atoms] + _stream_types(source, schema),
        None if selection.event is None else [selection.event, source.separator],
        [selection.time_name, str(time_type), source.time_unit, source.resolution],
        [(name, str(schema.field(name).type)) for name in source.keys],
        [
            (_VARIABLE.sub(r"\1", str(order)), str(field.type))
            for order, field in zip(orders, list(schema)[count:], strict=True)
        ],
        buckets,
        *(() if lateness is None else (lateness,)),
    )
    return b"".join(
        blake2b(repr(one).encode(), digest_size=_DIGEST_BYTES).digest() for one in settings
    )


def _stream_types(source: EventSource, schema: pa.Schema) -> list[tuple[str, str]]:
    """The types of the columns that streams read."""
    if not source.has_streams:
        return []
    return [(name, str(schema.field(name).type)) for name in source.policies.columns]


def _relations(source: EventSource) -> list[tuple[str, str]]:
    """The relations in which values are looked up, and those that they are made of, as text."""
    file = source.policies.file
    found: dict[tuple[str, str], None] = {}
    for name in source.policies.looked_up or ():
        assert file is not None
        owner, own_name = file.owner_of(name)
        for one in parts_of(owner.intervals, own_name):
            found[one.name, one.text(owner.unit)] = None
    return list(found)


def _text(source: EventSource, atom: str) -> str | None:
    """The predicate of an atom in its canonical spelling, or None."""
    predicate = source.policies.predicates.get(atom)
    if predicate is not None:
        return str(predicate)
    file = source.policies.file
    if file is None or atom not in file.atoms:
        return None
    needs = needs_of(file, [atom])
    streams = [(name, *map(str, file.streams[name].expressions)) for name in sorted(needs.streams)]
    lets = [(name, str(formula)) for name, formula in file.lets.items()]
    conditions = [(name, str(one)) for name, one in file.atoms.items()]
    zones = file.zone if not file.parts else tuple(one.zone for one in file.parts)
    return repr((str(file.atoms[atom]), streams, lets, conditions, zones))


def check_settings(found: bytes, settings: bytes) -> None:
    """Check that a state was made with the same settings.

    Raises:
        SnapshotError: the settings differ; the message names the arguments.
    """
    if found == settings:
        return
    names = (*_NAMES, _LATENESS)
    changed = [
        name
        for name, place in zip(
            names, range(0, _DIGEST_BYTES * len(names), _DIGEST_BYTES), strict=True
        )
        if found[place : place + _DIGEST_BYTES] != settings[place : place + _DIGEST_BYTES]
    ]
    raise SnapshotError(
        f"the state of the query was made with another {' and another '.join(changed)}: start the "
        "query with what it was made with, or give it a checkpointLocation of its own"
    )
