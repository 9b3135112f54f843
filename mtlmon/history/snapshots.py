"""Histories as bytes and back.

A snapshot holds events and, of each trace, the monitor's state before the first of them. All else
follows from these, so whoever restores it judges the events again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mtlmon.errors import MtlmonError, SnapshotError
from mtlmon.history.native import (
    add_trace,
    add_waiting,
    facts_of,
    first_state,
    set_facts,
    trace_parts,
    waiting_parts,
)
from mtlmon.support.snapshot_parts import damaged, joined_parts, sealed, split_parts, unsealed

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from typing_extensions import Buffer

    from mtlmon.history.native import Histories

__all__ = ["decode", "encode"]

_KIND = b"mtlmon history 7\n"


def encode(
    histories: Histories, settings: dict[str, Any], keys: Sequence[Hashable], facts: dict[str, Any]
) -> bytes:
    """Return the snapshot of a history."""
    if histories.finished:
        raise SnapshotError("the history is finished: take the snapshot before that")
    _require_plain(keys, "key")
    known = facts_of(histories)
    _require_plain([name for name, *_ in known["ids"] + known["awaited"]], "id")
    # The state without events shows what formula the snapshot is of.
    blobs = [first_state(histories)]
    traces = []
    for number in range(histories.trace_count):
        state, time_stamps, letters, emitted, offset, advances, *rest = trace_parts(
            histories, number
        )
        blobs += [state, time_stamps, letters, emitted]
        traces.append([offset, advances, *rest])
    blobs += waiting_parts(histories)
    head = {
        "settings": settings,
        "facts": facts,
        "keys": list(keys),
        "traces": traces,
        "known": known,
    }
    return sealed(_KIND, joined_parts([json.dumps(head).encode(), *blobs]))


def decode(
    snapshot: Buffer, histories: Histories, settings: dict[str, Any]
) -> tuple[list[Hashable], dict[str, Any]]:
    """Let a new object of histories go on from a snapshot.

    Returns:
        The keys, and what the caller of `encode` has told.

    Raises:
        SnapshotError: the bytes are not a snapshot of such a history; `histories` must not be used.
    """
    try:
        text, *blobs = split_parts(unsealed(_KIND, bytes(memoryview(snapshot).cast("B"))))
        head = json.loads(text)
        _require_settings(head["settings"], settings)
        histories.session.restore(blobs[0])
        histories.session.reset()
        for number, (offset, advances, *rest) in enumerate(head["traces"]):
            state, stamps, letters, emitted = blobs[1 + 4 * number : 5 + 4 * number]
            places = [(place, time_stamp) for place, time_stamp in advances]
            add_trace(histories, state, stamps, letters, emitted, offset, places, *rest)
        stamps, letters, traces, numbers, waiting_ids = blobs[-5:]
        add_waiting(histories, stamps, letters, traces, numbers)
        known = head["known"]
        set_facts(histories, known, waiting_ids)
        keys, facts = head["keys"], head["facts"]
        emitted = facts["told_final"]
        if not (
            _are_plain(keys)
            and len(set(keys)) == len(keys)
            and _are_plain([name for name, *_ in known["ids"] + known["awaited"]])
            and facts["is_keyed"] in (None, False, True)
            and (emitted is None or type(emitted) is int)
        ):
            raise damaged()
        return keys, facts
    except SnapshotError:
        raise
    except (
        MtlmonError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise damaged() from error


def _are_plain(values: list[Any]) -> bool:
    return all(type(value) in (int, str) for value in values)


def _require_plain(values: Sequence[Hashable], what: str) -> None:
    for value in values:
        if type(value) not in (int, str):
            raise SnapshotError(
                f"the {what} {value!r} is neither an integer nor a text: no snapshot can hold it"
            )


def _require_settings(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name, value in wanted.items():
        if found[name] != value:
            raise SnapshotError(
                f"the snapshot is of a history with {name} {found[name]!r}, not {value!r}"
            )
