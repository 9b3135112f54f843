"""Atoms of a text log that are conditions on its time and its other atoms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from mtlmon.checking.text_logs import TextBatch
from mtlmon.errors import MtlmonError, RowError, TickError
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.policy.predicates.environment import UTC, Environment
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams.atoms import StreamAtoms
from mtlmon.streams.ticking import LATEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.environment import Relation
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.streams.atoms import Computed

__all__ = ["TextStreams"]


class TextStreams:
    """Computes atoms for the batches of a text log.

    Args:
        file: the policy file that defines the atoms.
        names: the names of the atoms to compute.
        at_ticks: the names of the atoms to compute at ticks, by the period of these.
        log_atoms: the atoms that the log's lines name and these atoms use.
        unit: the unit of the time-stamps, if it is known.
        path: the name of the log in messages.
        shown: the names of expressions in `PolicyFile.shown` whose values batches have: at rows
            under `ROWS`, and at ticks under their period.
        values: the names of the streams whose values batches have.
        relations: the relations in which the atoms look values up.
        on_error: what to do with events and ticks at which integers overflow: "skip" leaves them
            out, "stop" makes the first of them an error, which mentions the option.

    Attributes:
        error: the error of the event after the last batch, or None.
        skipped: the number of events that were left out.
    """

    def __init__(
        self,
        file: PolicyFile,
        names: Sequence[str],
        at_ticks: Mapping[When, Sequence[str]],
        log_atoms: Sequence[str],
        unit: str | None,
        path: str,
        shown: Mapping[When, Sequence[str]] | None = None,
        *,
        values: Sequence[str] = (),
        relations: Mapping[str, Relation] | None = None,
        on_error: Literal["stop", "skip"] | None = None,
    ) -> None:
        self._names = tuple(names)
        environment = Environment(
            time=DEFAULT_TIME,
            unit=unit,
            zone=file.zone or UTC,
            has_columns=False,
            relations=relations or {},
        )
        wanted: dict[When, Sequence[str]] = {ROWS: self._names, **at_ticks}
        self._streams = StreamAtoms(
            file, [wanted], log_atoms, environment, values, shown=[shown or {}]
        )
        self._atoms: tuple[str, ...] = ()
        self._path = path
        self._on_error = on_error
        self.skipped = 0
        self.error: MtlmonError | None = None

    @property
    def points_left_out(self) -> int:
        """The number of time-points that were left out, as integers overflow there."""
        return self._streams.points_left_out

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the states of all streams take."""
        return self._streams.held_bytes

    @property
    def atoms(self) -> StreamAtoms:
        """What computes the atoms."""
        return self._streams

    def inputs(self, batch: TextBatch) -> pa.RecordBatch:
        """Return what the atoms are computed of, for the events of a batch."""
        return self._streams.prepared(*self._rows(batch))

    def state(self) -> list[Any]:
        """Return what is known by the events so far, for `restore`, as JSON can write it."""
        streams = self._streams
        saved = [] if streams.schema is None else [one.hex() for one in streams.snapshots()]
        return [self.skipped, streams.points_left_out, list(self._atoms), saved]

    def restore(self, state: Any) -> None:
        """Go on from a state.

        Raises:
            SnapshotError: it is damaged, or of other streams.
        """
        self.skipped, self._streams.points_left_out, atoms, saved = state
        self._atoms = tuple(atoms)
        if saved:
            names = [name for name in atoms if name not in self._names]
            self.inputs(TextBatch(b"", b"", names))
            self._streams.restore([bytes.fromhex(one) for one in saved])

    def track_rows(self) -> None:
        """Refuse to leave out rows that wait, as rows are known by their places."""
        self._streams.tracks_rows = True

    def only_due_ticks(self, is_wanted: bool = True) -> None:
        """From the first batch on, leave out ticks at which no atom changes, or not."""
        self._streams.only_due = is_wanted
        self._streams.can_leave_out = self._on_error == "skip"

    @property
    def waiting_rows(self) -> int:
        """The number of events that wait for later values."""
        return self._streams.waiting_rows

    def pieces(self, batch: TextBatch) -> Iterator[TextBatch]:
        """Yield the events of a batch with these atoms added, in pieces with few ticks.

        If integers overflow at an event or before it, it is left out, or the pieces end before it
        and `error` is set.
        """
        while len(batch.time_stamps):
            times = np.frombuffer(batch.time_stamps, np.int64)
            rows = self._streams.prepared(*self._rows(batch))
            count = self._streams.piece(times, [None], rows)
            if not count:
                yield from self._some_ticks(int(times[0]))
                if self._has_failed:
                    return
                continue
            piece = batch if count == len(times) else batch.before(count)
            try:
                found = self._computed(piece)
            except RowError as error:
                if self._on_error == "skip":
                    is_kept = np.ones(len(times), np.bool_)
                    is_kept[list(error.rows)] = False
                    batch = batch.chosen_events(is_kept)
                    self.skipped += len(error.rows)
                    continue
                self._set_error(f"time-stamp {times[error.rows[0]]}", error.reason, "events")
                assert self.error is not None
                self.error.__cause__ = error.__cause__
                last = error.rows[0]
            except TickError as error:
                if self._has_left_out(error):
                    continue
                last = error.place
            else:
                yield found
                batch = batch.behind(count)
                continue
            if last:
                yield self._computed(batch.before(last))
            return

    def ticks_until(self, limit: int) -> Iterator[TextBatch]:
        """Yield batches without events, with the ticks below a time; none is at the largest one.

        Raises:
            MtlmonError: integers overflow at a tick.
        """
        limit = min(limit, LATEST)
        while self._streams.ticks_end < limit:
            yield from self._some_ticks(limit)
            if self.error is not None:
                raise self.error

    def released(self) -> Iterator[TextBatch]:
        """Yield a batch without events, with those that wait for later values: none come.

        Raises:
            MtlmonError: integers overflow at one of them.
        """
        while True:
            try:
                found = self._streams.released()
            except TickError as error:
                if not self._has_left_out(error):
                    assert self.error is not None
                    raise self.error from self.error.__cause__
            else:
                yield _with_computed(TextBatch(b"", b"", self._atoms), found)
                return

    def _some_ticks(self, limit: int) -> Iterator[TextBatch]:
        """Yield a batch with some ticks before the next event, or set `error`."""
        try:
            found = self._streams.some_ticks(limit)
        except TickError as error:
            self._has_left_out(error)
            return
        yield _with_computed(TextBatch(b"", b"", self._atoms), found)

    def _has_left_out(self, refused: TickError) -> bool:
        """Leave out a tick, or set `error`; returns whether it has been left out."""
        if self._on_error == "skip":
            self._streams.leave_out(refused)
            return True
        self._set_error(refused.where, refused.reason, refused.what)
        return False

    @property
    def _has_failed(self) -> bool:
        return self.error is not None

    def _set_error(self, place: str, reason: str, what: str) -> None:
        advice = "" if self._on_error is None else f"; --on-error skip leaves such {what} out"
        self.error = MtlmonError(f"{self._path}: at {place}: {reason}{advice}")

    def _rows(self, batch: TextBatch) -> tuple[pa.RecordBatch, dict[str, pa.BooleanArray]]:
        """The times of events, and where atoms of the log hold."""
        words = batch.letters_of(0)
        held = {
            name: pa.array(_bits(words, batch.atoms.index(name)) != 0)
            for name in self._streams.log_atoms
        }
        times = np.frombuffer(batch.time_stamps, np.int64)
        return pa.RecordBatch.from_arrays([pa.array(times)], [DEFAULT_TIME]), held

    def _computed(self, batch: TextBatch) -> TextBatch:
        """Return a batch with the atoms added.

        Raises:
            RowError: integers overflow at some events.
            TickError: integers overflow at a tick.
        """
        times = np.frombuffer(batch.time_stamps, np.int64)
        computed = self._streams.evaluate(self._streams.prepared(*self._rows(batch)), times, [None])
        (found,) = computed.atoms
        words = batch.letters_of(0)
        self._atoms = atoms = (*batch.atoms, *self._names)
        masks = np.zeros((len(times), max(1, (len(atoms) + 63) // 64)), np.uint64)
        masks[:, : words.shape[1]] = words
        for number, name in enumerate(self._names, len(batch.atoms)):
            bits = np.asarray(found[name]).astype(np.uint64) << np.uint64(number % 64)
            masks[:, number // 64] |= bits
        result = TextBatch(batch.time_stamps, masks.data.cast("B"), atoms, computed.shown[0])
        result.origins = batch.origins
        return _with_computed(result, computed)


def _with_computed(batch: TextBatch, computed: Computed) -> TextBatch:
    """Add what is not of events: ticks, and values of streams."""
    (batch.ticks,) = computed.ticks
    batch.tick_end = computed.ticks_done
    batch.has_all_ticks = computed.has_all_ticks
    batch.values = computed.values
    batch.instances = computed.instances
    return batch


def _bits(
    words: np.ndarray[tuple[int, ...], np.dtype[np.uint64]], atom: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return words[:, atom // 64] >> np.uint64(atom % 64) & np.uint64(1)
