"""What the journal of a slice has: a snapshot first, then the rows of batches.

Each entry says all there is to know of the slice without its rows, so the last one tells whether
the journal is one of the present query.
"""

from __future__ import annotations

import json
import struct
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
    "SliceFacts",
    "SliceRows",
    "SliceSettings",
    "SliceSnapshot",
    "SliceState",
    "check_policy",
    "check_state",
]

_DIGEST_BYTES = 16
# generation, number of slices, batch, horizon, next wake-up, what has been told and the
# lateness (-1: none), digests of the policy and of the slicing
_FACTS = struct.Struct(f"<IIqQqqq{_DIGEST_BYTES}s{_DIGEST_BYTES}s")
_NONE = -1
_PARTS = 3


class SliceSettings(NamedTuple):
    """What states depend on.

    Attributes:
        policy: a digest of the text of the policies, and of what they read in which way.
        slicing: a digest of the plan of slices.
        record: the plan of slices, for `slicing_of`, as JSON. The state of the first slice has it.
        lateness: how far below the horizon rows are taken in; None if they correct nothing.
    """

    policy: bytes
    slicing: bytes
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
            blake2b(repr(known).encode(), digest_size=_DIGEST_BYTES).digest(),
            slicing.digest(),
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
    policy: bytes
    slicing: bytes

    def encoded(self) -> bytes:
        """Return the facts as bytes."""
        return _FACTS.pack(
            self.generation,
            self.slices,
            self.batch,
            self.horizon,
            _NONE if self.next_wakeup is None else self.next_wakeup,
            _NONE if self.emitted is None else self.emitted,
            _NONE if self.lateness is None else self.lateness,
            self.policy,
            self.slicing,
        )

    @classmethod
    def of(cls, entry: Entry) -> SliceFacts:
        """Decode the facts of an entry.

        Raises:
            SnapshotError: it is not the entry of a slice.
        """
        if len(entry.settings) != _FACTS.size:
            raise SnapshotError(DAMAGED)
        generation, slices, batch, horizon, *numbers, policy, slicing = _FACTS.unpack(
            entry.settings
        )
        wakeup, emitted, lateness = (None if one == _NONE else one for one in numbers)
        return cls(generation, slices, batch, horizon, wakeup, emitted, lateness, policy, slicing)


class SliceSnapshot(NamedTuple):
    """The first entry.

    Attributes:
        facts: what is known of the slice.
        record: `SliceSettings.record`; empty if this is not the first slice.
        engine: the snapshot of the engine.
        waiting: the rows that the engine has not taken in, packed; empty if there are none. They
            wait, or others may still come before them.
    """

    facts: SliceFacts
    record: bytes
    engine: bytes
    waiting: bytes

    def entry(self) -> Entry:
        """Return the entry of the journal."""
        parts = (self.record, self.engine, self.waiting)
        return Entry(True, self.facts.horizon, self.facts.encoded(), parts)

    @classmethod
    def of(cls, entry: Entry) -> SliceSnapshot:
        """Decode an entry.

        Raises:
            SnapshotError: it is not such an entry.
        """
        if not entry.is_state or len(entry.parts) != _PARTS:
            raise SnapshotError(DAMAGED)
        return cls(SliceFacts.of(entry), *entry.parts)


class SliceRows(NamedTuple):
    """A later entry.

    Attributes:
        facts: what is known of the slice from then on.
        rows: the rows of a batch that were not late, packed; empty if there were none.
    """

    facts: SliceFacts
    rows: bytes

    def entry(self) -> Entry:
        """Return the entry of the journal."""
        return Entry(False, self.facts.horizon, self.facts.encoded(), [self.rows])

    @classmethod
    def of(cls, entry: Entry) -> SliceRows:
        """Decode an entry.

        Raises:
            SnapshotError: it is not such an entry.
        """
        if entry.is_state or len(entry.parts) != 1:
            raise SnapshotError(DAMAGED)
        return cls(SliceFacts.of(entry), entry.parts[0])


class SliceState(NamedTuple):
    """The journal of a slice.

    Attributes:
        snapshot: the first entry.
        later: the later ones.
    """

    snapshot: SliceSnapshot
    later: Sequence[SliceRows]

    @property
    def facts(self) -> SliceFacts:
        """What is known of the slice."""
        return self.later[-1].facts if self.later else self.snapshot.facts

    @classmethod
    def decoded(cls, entries: Sequence[bytes]) -> SliceState:
        """Decode a journal, which is not empty.

        Raises:
            SnapshotError: the entries are not of this version.
        """
        first, *others = map(Entry.decoded, entries)
        return cls(SliceSnapshot.of(first), [SliceRows.of(one) for one in others])


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
