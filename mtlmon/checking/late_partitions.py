"""The rows of one partition that come late, where letters depend on other rows.

A history that judges nothing finds which rows there are. Their atoms are computed then, also those
of other rows that see them, and the histories of policies hear of new rows and of changed ones.

Bounds of what is final need not know how far streams reach. Streams look at their own row and at
earlier ones. So a row at time t, which comes or goes, changes atoms of rows at t or later only, and
all of these can still come themselves, as t is not below the bound of admission, b. Therefore the
atoms of all rows below b stay. A verdict of a time-point at s depends on atoms up to s + d, where d
is the decision delay of the formula, and on how far time has passed. If s + d is below b, these
stay; whether time has passed is shown by rows, whatever their atoms are, and by those that are
time-points for good (`History` knows which ones can be retracted, or chosen no longer).
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.arrays.canonical import canonical_cells
from mtlmon.checking.clocks import when_of
from mtlmon.checking.late_emission import Emission, Revised, Step, revised_rows
from mtlmon.checking.late_origins import origin_type
from mtlmon.checking.row_pool import RowPool, staying
from mtlmon.history.following import (
    FollowingHistory,
    LeadingHistory,
    taken_back,
)
from mtlmon.history.operations import NO_CORRECTIONS
from mtlmon.history.present import PresentHistory
from mtlmon.policy.predicates.time_points import ROWS, Waiting
from mtlmon.relations.touching import TouchedRows
from mtlmon.streams.late_computing import Computer
from mtlmon.streams.late_snapshots import rows_as_bytes, rows_of_bytes
from mtlmon.streams.named_rows import NO_NAMES, Names, Rows, joined
from mtlmon.streams.round_rows import RoundRows
from mtlmon.streams.ticking import LATEST
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Literal

    from numpy.typing import NDArray

    from mtlmon.checking.late_origins import LateOrigins
    from mtlmon.checking.revising import Revising
    from mtlmon.checking.sources import EventBatch
    from mtlmon.history.following import Found, Outcome, Passed
    from mtlmon.policy.definitions import Clock
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relations.revised import Changed, RevisedRelations
    from mtlmon.streams.atoms import StreamAtoms
    from mtlmon.streams.late_computing import Computed
    from mtlmon.streams.late_ticks import ChangedTicks

__all__ = ["LatePartition", "texts_of"]

# How many traces a batch looks at for rows to forget, beside those that it has rows of.
_SWEPT_TRACES = 64
# So many chunks of a trace there are at least within the lateness where rows look values up, if
# each trace has a state.
_SPANS = 4
# The pool is made smaller when it has so many more rows than wait.
_SPARE_ROWS = 4096
_NO_COLUMN = "\0"


class _Held(NamedTuple):
    """Rows that have their names, but not their atoms yet.

    Attributes:
        rows: the rows.
        flags: their flags.
        order: where those are that came in the first step of the batch, by trace and time, and so
            on.
        steps: in this order, the number of the step of each.
    """

    rows: Rows
    flags: NDArray[np.uint8]
    order: NDArray[np.intp]
    steps: NDArray[np.intp]

    def taken(self, places: NDArray[np.intp]) -> _Held:
        """Return those at some places of the order; the rows stay in theirs.

        PERF: mostly all but the last rows are taken, or these. To sort rows by time again took a
        tenth of the time of look-ups without late rows.
        """
        own = self.order[places]
        kept = np.sort(own)
        first, last = (int(kept[0]), int(kept[-1]) + 1) if len(kept) else (0, 0)
        is_part = last - first == len(kept)
        rows = self.rows.between(first, last) if is_part else self.rows.taken(kept)
        return _Held(rows, self.flags[kept], np.searchsorted(kept, own), self.steps[places])


class LatePartition:
    """The rows of a partition, for policies whose letters depend on other rows.

    Args:
        streams: computes atoms; None if all are known for each row by itself.
        partition: the number of the partition.
        atoms: the atoms that its policies need.
        has_keys: whether its traces have keys.
        lateness: as for `History`; so are the others.
        wait: likewise.
        clock: likewise.
        equality: likewise.
        relations: the relations of the log's rows that its rows and ticks depend on; if there are
            any, the rows of a time-stamp are judged once time has passed it.
        columns: finds the columns of the log that these read, once rows are known.
        spacing: as for `RoundRows`.
        origins: gets the rows that time-points come from, if they are wanted.
        outcome: as for `LeadingHistory`.
        taker: as for `Computer`.
        leader: finds which rows there are, for other partitions as well, as one trace; None for
            one of its own. Somebody else hands over what it tells then.

    Attributes:
        leader: finds which rows there are.
        atoms: the atoms, in the order of the columns of `Rows.held`.
        relations: as given.
    """

    def __init__(
        self,
        streams: StreamAtoms | None,
        partition: int,
        atoms: Iterable[str],
        *,
        has_keys: bool,
        lateness: int,
        wait: int,
        clock: Literal["all", "key"],
        equality: bool,
        relations: frozenset[str] = frozenset(),
        columns: Callable[[], Sequence[str]] = tuple,
        spacing: int = 0,
        origins: LateOrigins | None = None,
        outcome: Outcome | None = None,
        taker: Callable[[Computed], None] | None = None,
        leader: LeadingHistory | None = None,
    ) -> None:
        self._taker = taker
        self._has_own_leader = leader is None
        self._streams = streams
        self._origins = origins
        self.relations = relations
        self._of_relations = columns
        self._partition = partition
        self._has_keys = has_keys
        self._lateness = lateness
        self._wait = wait
        self._clock = clock
        self._spacing = spacing
        computed = () if streams is None else streams.names_of(partition)
        plain = [name for name in dict.fromkeys(atoms) if name not in computed]
        self._plain = plain
        self.atoms = (*plain, *computed)
        self.leader = leader or LeadingHistory(
            lateness=lateness, wait=wait, clock=clock, equality=equality, outcome=outcome
        )
        self._looked_up = frozenset[str]()
        if streams is not None and relations:
            self._looked_up = streams.relations_of(partition)
        self._computer: Computer | None = None
        self._rounds: RoundRows | None = None
        # the next trace to look at for rows to forget
        self._swept = 0
        self._trace_count = 0
        self._pool = RowPool(has_origins=origins is not None)
        # rows whose time has not passed; those to be judged, and how time passes behind each step
        self._held: _Held | None = None
        self._ready: _Held | None = None
        self._passed: list[Passed | None] = []
        self._removed = NO_NAMES
        self._rows: Rows | None = None
        self._steps: list[Step] = []
        self._revised: Revised | None = None
        # how far time has passed at the end of the log
        self._end: int | None = None
        self._ticks: dict[When, ChangedTicks] = {}
        # whether no rows come any more at all, and below what no row waits for one that can come
        self._lets_go = False
        self._known_below = 0

    # ---- batches ---------------------------------------------------------------------------

    def push(self, batch: EventBatch, inputs: pa.RecordBatch | None) -> NDArray[np.int64]:
        """Take a batch; `compute` and `emit` say what has become of it.

        Args:
            batch: the rows, as they come.
            inputs: the columns that streams read; None if there are no streams.

        Returns:
            The indices of the rows that come too late.

        Raises:
            EventError: integers overflow in a row.
        """
        stamps = np.asarray(batch.time_stamps, np.int64)
        numbers = batch.numbers_of(self._partition)
        corrections = batch.corrections or NO_CORRECTIONS
        rows = self.pool(batch, inputs)
        texts = texts_of(rows) if corrections.takes_back else None
        refused, found = self.leader.admit(stamps, texts, numbers, corrections)
        self.arrange(found)
        return refused

    def pool(self, batch: EventBatch, inputs: pa.RecordBatch | None) -> Rows:
        """Keep the rows of a batch, before they are admitted; return them without names."""
        rows = self._rows_of(batch, inputs, batch.numbers_of(self._partition))
        own = None if self._origins is None else self._origins.numbered(batch.origins)
        self._pool.add(self.leader.numbers_of_next(len(rows.time_stamps)), rows, own)
        return rows

    def pass_time(self, time_stamp: int) -> None:
        """Let time pass in all traces, without a row."""
        self.arrange(self.leader.passed_by(time_stamp))

    def count_events(self, start: int, end: int, count: int) -> bool:
        """Do what `LeadingHistory.count_events` does."""
        is_taken, found = self.leader.let_count(start, end, count)
        self.arrange(found)
        return is_taken

    def finish(self, end_time: int | Literal["last", "inf"] | None) -> None:
        """End the log: nothing waits any more."""
        self.know_end(end_time)
        self.arrange(self.leader.ended(end_time))

    def know_end(self, end_time: int | Literal["last", "inf"] | None) -> None:
        """Note that the log ends, before its leader does."""
        now = self.leader.now() or 0
        # no tick follows the last time-stamp if the log ends for good; if nothing is known of the
        # time after the log, more may happen at the last one
        last = end_time if isinstance(end_time, int) else now
        self._end = now if end_time is None else max(now, min(LATEST, last + 1))
        self._lets_go = end_time == "inf"

    def _rows_of(
        self,
        batch: EventBatch,
        inputs: pa.RecordBatch | None,
        numbers: NDArray[np.uint32] | None,
    ) -> Rows:
        """The rows of a batch, without names, and with the atoms that are known."""
        stamps = np.asarray(batch.time_stamps, np.int64)
        count = len(stamps)
        held = np.zeros((count, len(self.atoms)), np.bool_)
        words = batch.letters_of(self._partition)
        for place, name in enumerate(self._plain):
            atom = batch.atoms.index(name)
            held[:, place] = words[:, atom // 64] >> np.uint64(atom % 64) & np.uint64(1)
        columns: tuple[str, ...] = ()
        program = None
        if self._streams is not None and inputs is not None:
            program = self._streams.programs_now[self._partition]
        if program is not None:
            columns = tuple(dict.fromkeys([*program.columns, *self._of_relations()]))
            if self._computer is None:
                self._computer = self._new_computer()
        if inputs is None or not columns:
            # a batch without columns would not know how many rows it has
            inputs = pa.RecordBatch.from_arrays([pa.nulls(count)], [_NO_COLUMN])
        else:
            inputs = inputs.select(columns)
        traces = np.zeros(count, np.uint32) if numbers is None else np.asarray(numbers, np.uint32)
        return Rows(inputs, stamps, traces, np.zeros(count, np.uint64), held)

    # ---- what has become of rows -----------------------------------------------------------

    def arrange(self, found: Found) -> None:
        """Find the rows that can be judged now, and those to take back, as the leader has told."""
        placed = np.concatenate([one.placed for one, _ in found])
        withdrawn = np.concatenate([one.withdrawn for one, _ in found])
        steps = np.repeat(np.arange(len(found)), [len(one.placed) for one, _ in found])
        rows, flags, order, origins = self._pool.take(placed)
        if self._origins is not None and origins is not None:
            self._origins.add(self._partition, *rows.names.taken(order), origins)
        if not self.leader.waiting:
            self._pool.clear()
        elif self._pool.count > 2 * self.leader.waiting + _SPARE_ROWS:
            self._pool.keep(self.leader.waiting_numbers())
        ready = _Held(rows, flags, order, steps)
        if self._held is not None:
            ready = _Held(
                joined([self._held.rows, rows]),
                np.concatenate([self._held.flags, flags]),
                np.concatenate([self._held.order, order + len(self._held.order)]),
                np.concatenate([self._held.steps, steps]),
            )
            self._held = None
        if len(withdrawn):
            withdrawn = taken_back(self._by_name(ready.rows), withdrawn, ready.flags)
        if self.relations:
            waits = self.waits(ready.rows.time_stamps[ready.order])
            if waits.any():
                held = ready.taken(np.flatnonzero(waits))
                self._held = held._replace(steps=np.zeros_like(held.steps))
                ready = ready.taken(np.flatnonzero(~waits))
        self._ready = ready
        self._passed = [passed for _, passed in found]
        self._removed = Names(withdrawn["time_stamp"], withdrawn["trace"], withdrawn["offset"])
        if not self._has_own_leader and self._rounds is not None:
            self._removed = self._rounds.with_traces(self._removed)

    def _by_name(self, rows: Rows) -> dict[str, NDArray[Any]]:
        """The names of rows as the leader calls them."""
        names = rows.by_name
        if not self._has_own_leader:
            names["trace"] = np.zeros_like(rows.traces)
        return names

    def waits(self, time_stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows wait, as relations are not known at their times."""
        if not self.relations or self._end is not None:
            return np.zeros(len(time_stamps), np.bool_)
        found: NDArray[np.bool_] = time_stamps >= self.known_below
        return found

    @property
    def known_below(self) -> int:
        """The time below which all rows are known that are not late; there has been one."""
        return max((self.leader.now() or 0) - self._wait, self.leader.admits_from() or 0)

    def revise(self, relations: RevisedRelations, *, is_end: bool = False) -> Sequence[Changed]:
        """Let relations know which rows can be judged; return what changes in them."""
        assert self._ready is not None
        rows = staying(self._ready.rows, self._ready.flags)[0]
        watermark = max(self.known_below, relations.watermark)
        if is_end:
            # ticks can be behind the last row
            last = int(rows.time_stamps[-1]) + 1 if len(rows.time_stamps) else 0
            watermark = max(watermark, last, self._end or 0)
        return relations.update(rows, self._removed, watermark)

    def compute(self, revising: Revising | None = None, *, is_end: bool = False) -> None:
        """Compute the atoms of rows that can be judged now, and of those that see them.

        Args:
            revising: keeps relations up to date; None if there are none.
            is_end: whether no more rows come.

        Raises:
            EventError: integers overflow in a row.
        """
        assert self._ready is not None
        changed = () if revising is None else revising.changed(self, is_end=is_end)
        rows, flags, order, steps = self._ready
        self._ready = None
        revised: list[Rows] = []
        former: list[NDArray[np.bool_]] = []
        if self._computer is not None:
            rows, revised = self._update(rows, flags, self._removed, changed)
            former = self._in_rounds().former
        self._revised = revised_rows(revised, self._removed, former, rows.held.shape[1])
        places = np.searchsorted(steps, np.arange(len(self._passed) + 1)).tolist()
        parts = (order[first:last] for first, last in pairwise(places))
        self._rows = rows
        self._steps = [
            Step(rows, flags, own, passed) for own, passed in zip(parts, self._passed, strict=True)
        ]

    def _update(
        self,
        rows: Rows,
        flags: NDArray[np.uint8],
        removed: Names,
        changed_records: Sequence[Changed],
    ) -> tuple[Rows, list[Rows]]:
        """Compute the atoms of new rows; return them, and others whose atoms have changed."""
        touching = None
        concerning = [one for one in changed_records if one.relation in self._looked_up]
        if concerning:
            assert self._streams is not None
            look_ups = self._streams.look_ups(self._partition)
            touching = TouchedRows(concerning, look_ups, self._streams.environment)
        new, places = staying(rows, flags)
        rounds = self._in_rounds()
        held, changed = rounds.update(new, removed, touching)
        if places is not None:
            held, computed = rows.held.copy(), held
            held[places] = computed
        rounds.pass_time(self.known_below if self._end is None else self._end)
        if self._lets_go:
            rounds.release()
        self._ticks = rounds.taken_ticks()
        self._forget(new.traces)
        return rows._replace(held=held), changed

    def _new_computer(self) -> Computer:
        assert self._streams is not None
        return Computer(self._streams, self._partition, self._plain, self._taker)

    def _in_rounds(self) -> RoundRows:
        if self._rounds is None:
            assert self._computer is not None
            # relations are known as far back as the chunks that can be computed again
            spans = _SPANS if self._computer.program.can_be_by_trace else 1
            self._rounds = RoundRows(
                self._computer,
                self._spacing,
                span=self._lateness // spans if self.relations else -1,
                lateness=-1 if self.relations else self._lateness,
                has_own_times=self._clock == "key",
            )
        return self._rounds

    def _forget(self, touched: NDArray[np.uint32]) -> None:
        """Forget rows of traces that have new ones, and of some others."""
        assert self._rounds is not None
        # relations are known as far back as rows are computed again
        reach_back = self._lateness if self.relations else None
        self._trace_count = max(self._trace_count, int(touched.max(initial=0)) + 1)
        if self._clock == "all":
            bound = self.leader.admits_from(0)
            if bound is not None:
                self._rounds.forget(bound, len(touched), reach_back)
            return
        bounds = {
            number: bound
            for number in self._with_swept(np.unique(touched).tolist())
            if (bound := self.leader.admits_from(number)) is not None
        }
        self._rounds.forget_some(list(bounds), list(bounds.values()), reach_back)

    def _with_swept(self, touched: Sequence[int]) -> set[int]:
        """The numbers of the traces that were touched, and some others, another part each time."""
        count = self._trace_count
        others = [(self._swept + k) % count for k in range(min(_SWEPT_TRACES, count))]
        self._swept = (self._swept + len(others)) % max(1, count)
        return {*touched, *others}

    @property
    def computed_from(self) -> int:
        """The time below which no row or tick is computed again, nor comes or goes."""
        start = None if self._rounds is None else self._rounds.first_start
        bound = self.leader.admits_from() or 0
        return bound if start is None else min(bound, start)

    @property
    def emitted(self) -> tuple[NDArray[np.bool_], Revised]:
        """The atoms of the rows that have their names now, and the other rows that have changed."""
        assert self._revised is not None
        return np.concatenate([step.held for step in self._steps]), self._revised

    def emit(self, history: FollowingHistory, clock: Clock | None) -> None:
        """Let the history of a policy hear what has become of rows or ticks in the last batch.

        Args:
            history: the history.
            clock: the time-points of the policy; None if all rows are.
        """
        when = when_of(clock)
        names: Sequence[str] = self.atoms
        if when != ROWS:
            assert self._streams is not None
            names = self._streams.tick_names_of(self._partition).get(when, ())
        places = [names.index(name) for name in history.atoms]
        changed = [self._ticks[when]] if when in self._ticks else []
        if isinstance(history, PresentHistory):
            self._judge(history, changed, places, waits=when != ROWS)
            return
        emission = Emission(history, places, has_keys=self._has_keys)
        bound = None
        if when == ROWS:
            choice = None if clock is None else self.atoms.index(clock.atom)
            assert self._revised is not None
            emission.rows(self._steps, self._revised, choice)
        elif isinstance(when, Waiting):
            emission.waiting(self._steps, changed, self._removed, len(names))
            bound = self._rows_known_below()
        else:
            passed = [one for one in self._passed if one is not None]
            emission.ticks(changed, passed, len(names))
        history.keep_time(self.leader, bound)

    def _judge(
        self,
        history: PresentHistory,
        changed: Sequence[ChangedTicks],
        places: Sequence[int],
        *,
        waits: bool,
    ) -> None:
        """Let rows be judged by themselves."""
        assert self._rows is not None
        assert self._revised is not None
        if self._revised.flags.any():
            raise ValueError("a row is taken back, which was said not to happen")
        if not waits:
            revised = self._revised
            history.judge(self._rows.names, self._rows.held, places)
            history.judge(revised.names, revised.held, places, revised.former)
            return
        for one in changed:
            names = Names(*one.revised[:3])
            history.judge(
                names, one.revised.held, places, one.former, one.was_there, one.is_removed
            )
        history.known_below = self._rows_known_below()

    def _rows_known_below(self) -> int:
        """The time below which no row waits for one that can still come."""
        bound = self.leader.admits_from()
        if bound is not None:
            known = bound if self._rounds is None else self._rounds.known_below(bound)
            self._known_below = max(self._known_below, known)
        return self._known_below

    @property
    def waiting_count(self) -> int:
        """How many rows wait for later values."""
        return 0 if self._rounds is None else self._rounds.waiting_count

    @property
    def earliest_waiting(self) -> tuple[int, int] | None:
        """Time-stamp and offset of the earliest of these rows; None if there is none."""
        return None if self._rounds is None else self._rounds.earliest_waiting

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state between two batches as bytes, for `restore`; there has been one."""
        numbers, waiting = self._pool.parts()
        head: dict[str, Any] = {"known_below": self._known_below}
        states: list[bytes] = []
        rows: list[Rows] = [waiting]
        if self._held is not None:
            head["held"] = self._held.flags.tolist()
            rows.append(self._held.rows)
        if self._computer is not None:
            states.append(self._computer.first_state)
        if self._rounds is not None:
            facts, own, placed = self._rounds.parts()
            head["facts"], head["placed"] = facts, 0 if placed is None else len(placed.time_stamps)
            states += own
            rows += [] if placed is None else [placed]
        schema = None if self._streams is None else self._streams.schema
        parts = [
            json.dumps(head).encode(),
            b"" if schema is None else schema.serialize().to_pybytes(),
            self.leader.snapshot() if self._has_own_leader else b"",
            numbers.tobytes(),
            b"" if self._origins is None else self._pool.origins.tobytes(),
            # the rows that wait come first
            rows_as_bytes(joined(rows)),
        ]
        return joined_parts([*parts, *states])

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            SnapshotError, ValueError, KeyError, TypeError, ArrowException: the bytes are damaged.
        """
        text, schema, leader, numbers, origins, data, *states = split_parts(snapshot)
        head = json.loads(text)
        if self._has_own_leader:
            self.leader.restore(leader)
        self._known_below = head["known_below"]
        rows = rows_of_bytes(data, len(self.atoms))
        waiting = np.frombuffer(numbers, np.uint64)
        first = len(waiting)
        known = None if self._origins is None else np.frombuffer(origins, origin_type())
        if known is not None and len(known) != first:
            raise damaged()
        self._pool.add(waiting, rows.between(0, first), known)
        if "held" in head:
            flags = np.array(head["held"], np.uint8)
            held = rows.between(first, first + len(flags))
            self._held = _Held(held, flags, np.arange(len(flags)), np.zeros(len(flags), np.intp))
            first += len(flags)
        if not states:
            return
        assert self._streams is not None
        if self._streams.schema is None:
            self._streams.compile_for(pa.ipc.read_schema(pa.py_buffer(schema)))
        self._computer = self._new_computer()
        self._computer.first_state, *states = states
        if "placed" in head:
            last = first + head["placed"]
            placed = rows.between(first, last) if head["placed"] else None
            self._in_rounds().restore(head["facts"], states, placed)

    # ---- what is known ---------------------------------------------------------------------

    @property
    def byte_count(self) -> int:
        """The number of bytes that rows and states take, about."""
        of_rounds = 0 if self._rounds is None else self._rounds.byte_count
        of_held = 0 if self._held is None else self._held.rows.byte_count
        of_leader = self.leader.counter("held_bytes") if self._has_own_leader else 0
        return of_leader + self._pool.byte_count + of_held + of_rounds


def texts_of(rows: Rows) -> Iterator[str]:
    """For each row, a text of what is in it: a NaN equals no other one, but its text does."""
    columns = map(canonical_cells, rows.inputs.columns)
    for place, cells in enumerate(zip(*columns, strict=True)):
        yield f"{cells!r} {rows.held[place].tobytes().hex()}"
