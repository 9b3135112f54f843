"""What the journal of a slice has: a snapshot first, then the rows of batches.

Each entry says all there is to know of the slice without its rows, so the last one tells whether
the journal is one of the present query.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import SnapshotError
from mtlmon.relational.slicing.moving import record_of
from mtlmon.spark.streaming.entries import DAMAGED, Entry
from mtlmon.spark.streaming.settings import relation_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.spark.common.slice_monitors import SliceSource

__all__ = [
    "SliceEntry",
    "SliceFacts",
    "SliceSettings",
    "check_policy",
    "check_state",
    "read_journal",
]

_DIGEST_BYTES = 16


class SliceSettings(NamedTuple):
    """What states depend on.

    Attributes:
        policy: a digest of the text of the policies, and of what they read in which way.
        slicing: a digest of the plan of slices.
        record: the plan of slices, for `slicing_of`, as JSON. The state of the first slice has it.
        lateness: how far below the horizon rows are taken in; None if they correct nothing.
    """

    policy: str
    slicing: str
    record: bytes
    lateness: int | None = None

    @classmethod
    def of(cls, source: SliceSource, lateness: int | None = None) -> SliceSettings:
        """Return the settings of slices."""
        slicing = source.slicing()
        given = source.source
        events = given.source
        known = (
            given.file.text,
            given.schema,
            given.names,
            [(name, str(one)) for name, one in sorted(events.policies.predicates.items())],
            (events.time_unit, events.resolution, events.selection.event, events.separator),
            relation_texts(events),
        )
        return cls(
            blake2b(repr(known).encode(), digest_size=_DIGEST_BYTES).hexdigest(),
            slicing.digest().hex(),
            json.dumps(record_of(slicing)).encode(),
            lateness,
        )


class SliceFacts(NamedTuple):
    """What is known of a slice between two batches.

    Attributes:
        generation: how often the states of the query have been moved to other slices.
        slices: how many there are.
        batch: the number of the last batch with rows, in which all slices were visited.
        horizon: rows with time-stamps below it have been taken in.
        next_wakeup: the least horizon at which there is something to do without a new row, or
            None.
        emitted: a horizon up to which everything has been reported, by the slices that these states
            were to be moved to; the states are as before. Usually None.
        lateness: `SliceSettings.lateness`.
        policy: `SliceSettings.policy`.
        slicing: `SliceSettings.slicing`.
    """

    generation: int
    slices: int
    batch: int
    horizon: int
    next_wakeup: int | None
    emitted: int | None
    lateness: int | None
    policy: str
    slicing: str

    @classmethod
    def first(cls, settings: SliceSettings, slices: int) -> SliceFacts:
        """Return what is known of a slice that has not been visited."""
        return cls(
            0, slices, 0, 0, None, None, settings.lateness, settings.policy, settings.slicing
        )


class SliceEntry(NamedTuple):
    """An entry of the journal.

    Attributes:
        facts: what is known of the slice from then on.
        rows: rows, packed; empty if there are none. Those of a batch that were not late; in the
            first entry, those that the engine has not taken in: they wait, or others may still come
            before them.
        engine: the snapshot of the engine, in the first entry; else None.
        record: in that of the first slice, `SliceSettings.record`; else empty.
    """

    facts: SliceFacts
    rows: bytes
    engine: bytes | None = None
    record: bytes = b""

    def entry(self) -> Entry:
        """Return it as any journal has it."""
        more = [] if self.engine is None else [self.engine, self.record]
        settings = json.dumps(self.facts).encode()
        return Entry(bool(more), self.facts.horizon, settings, [self.rows, *more])

    @classmethod
    def of(cls, entry: Entry) -> SliceEntry:
        """Decode an entry.

        Raises:
            SnapshotError: it is not the entry of a slice.
        """
        try:
            found = cls(SliceFacts(*json.loads(entry.settings)), *entry.parts)
        except (ValueError, TypeError):
            raise SnapshotError(DAMAGED) from None
        if entry.is_state == (found.engine is None):
            raise SnapshotError(DAMAGED)
        return found


def read_journal(entries: Sequence[bytes]) -> list[SliceEntry]:
    """Decode entries of a journal.

    Raises:
        SnapshotError: they are damaged, or not of this version.
    """
    return [SliceEntry.of(Entry.decoded(one)) for one in entries]


def check_policy(facts: SliceFacts, settings: SliceSettings) -> None:
    """Check that a state is of the same policies and lateness.

    Raises:
        SnapshotError: it was made with others.
    """
    if facts.policy != settings.policy:
        raise SnapshotError(
            "the state of the query was made with another policy or another text of it, with other "
            "atoms or units, or from columns of other types: start the query with what it was made "
            "with, or give it a checkpointLocation of its own"
        )
    if facts.lateness != settings.lateness:
        if facts.lateness is None:
            what = "without a lateness"
        elif settings.lateness is None:
            what = "with a lateness"
        else:
            what = "with another delay or lateness"
        raise SnapshotError(
            f"the state of the query was made {what}, which cannot change: start the query as it "
            "was started first, or give it a checkpointLocation of its own"
        )


def check_state(facts: SliceFacts, slices: int, settings: SliceSettings) -> None:
    """Check that a state fits the query.

    Raises:
        SnapshotError: it was made with other slices or settings, or has to be moved.
    """
    check_policy(facts, settings)
    if facts.slicing == settings.slicing and facts.emitted is None:
        return
    if facts.slices != slices:
        what = f"slices={facts.slices}, not {slices}"
    elif facts.emitted is None:
        what = "other statistics"
    else:
        what = "slices that have begun to be others"
    raise SnapshotError(
        f"the state of the query was made with {what}: give its checkpointLocation to "
        "monitor_stream as well, as checkpoint=, so that it is moved to these slices"
    )
