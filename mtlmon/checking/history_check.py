"""Check policies on a log whose events may come late, and correct verdicts.

There is a history for each policy. A check takes the same batches of the same logs as `log_check`,
with rows as they come (`tables/arrivals`), and gives changes to `changes`, which writes their lines
together with those of verdicts. Only the histories decide which rows come too late, because that
can depend on the key of a policy; the log writes these rows to the file of late rows.

A history that admits rows does not tell how it names them. So with `--rows`, all histories follow
one that does, by the number of each row among all rows, which tells equal rows apart.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from mtlmon.checking.changes import Bound, PolicyChanges
from mtlmon.checking.check_snapshots import opened, sealed
from mtlmon.checking.clocks import (
    atoms_of_partitions,
    atoms_read,
    clock_of,
    end_time_of_all,
    when_of,
)
from mtlmon.checking.late_origins import LateOrigins
from mtlmon.checking.partitions import partitions_of
from mtlmon.checking.revising import Revising
from mtlmon.checking.shared_rows import LEAST_SHARING, SharedRows
from mtlmon.checking.triggered import Companions
from mtlmon.engine.memory_limit import formula_bytes
from mtlmon.engine.native import Session
from mtlmon.errors import SnapshotError
from mtlmon.history.following import (
    FollowingHistory,
    NamedHistory,
    NumberedHistory,
    Outcome,
    SharingHistory,
)
from mtlmon.history.operations import NO_CORRECTIONS
from mtlmon.history.present import PresentHistory, is_of_present
from mtlmon.policy.limits import PolicyCounts, tallies_of
from mtlmon.policy.past_formulas import future_operator
from mtlmon.policy.predicates.time_points import Changes as ChangesOf
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.checking.changes import Change
    from mtlmon.checking.clocks import EndTime
    from mtlmon.checking.late_messages import LateMessages
    from mtlmon.checking.late_partitions import LatePartition
    from mtlmon.checking.sources import EventBatch
    from mtlmon.engine.native import MemoryLimit, Program
    from mtlmon.history.changes import Changes
    from mtlmon.policy import Policy
    from mtlmon.policy.definitions import Clock
    from mtlmon.policy.limits import Tally, Triggered
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relations.revised import RevisedRelations
    from mtlmon.streams.atoms import StreamAtoms
    from mtlmon.syntax.formula import Formula

__all__ = ["Bounds", "HistoryCheck"]

# After how many bytes that events may take what is held is measured again, as a share of it.
_MEASURED_SHARE = 16
_EVENT_BYTES = 64


class Bounds(NamedTuple):
    """How late events may be, and how long they wait, in time units."""

    lateness: int
    wait: int


class HistoryCheck:
    """Checks several policies on a log, in one pass, with a history for each of them.

    After every batch, verdicts are those of a `LogCheck` for the events so far in the order of
    time. The changes of a batch come policy by policy, and then the bounds below which verdicts are
    final.

    Args:
        policies: the policies, which are on all rows or on those that a condition chooses.
        mode: as for `Monitor`.
        bounds: returns how late events may be; called once the first events have been read.
        clock: "all": an event is late if it is below the largest time-stamp of the log; "key": if
            it is below that of its key, by the key of each policy.
        key: the key columns of the policies that name none themselves.
        bdd: as for `Monitor`.
        memory: how much memory may be held.
        counts_triggered: whether to count how often the left sides of implications hold.
        equality: whether rows without ids can be retracted, as for `History`.
        tracks_rows: whether to find the rows that verdicts are about; the source must track them.
        notes_outcome: whether to note which rows count, for `left_out`.
        has_corrections: whether rows can be retracted or replaced.
        shown: the kinds of verdicts that are wanted, of `mtlmon.verdicts.arrays`.

    Attributes:
        policies: as given.
        clock: as given.
        memory: as given.
        partitions: how the policies divide the log into traces.
        position: the number of events that have been read, also of those that are refused.
        lateness: how late events may be, once the first ones have been read.
        revision: the number of batches with events.
        revision_count: how often a verdict was changed or withdrawn.
        bytes_beside: how many bytes whoever reads the log holds of the same rows.
        origins: finds the rows of verdicts; None if they are not wanted.
        streams: set this before the first events if atoms depend on other rows: computes them.
        inputs: then the function that returns the columns that streams read of a batch.
        relations: the relations of the log's rows in which atoms look values up; there is one time
            for all keys then.
        revising: keeps them up to date; set this before the first events if others do so, too.
        messages: the messages of violations, if they are made; see `make_messages`.
        clocks: for each policy, its time-points; None if all are on all rows.
        emitted_below: the bound that whoever takes changes has emitted.
    """

    emitted_below = 0
    bytes_beside = 0
    messages: LateMessages | None = None

    relations: RevisedRelations | None = None
    revising: Revising | None = None
    streams: StreamAtoms | None = None
    inputs: Callable[[Any], pa.RecordBatch] | None = None
    # how many rows have a state of the streams; 0 means as many as its size suggests
    _spacing = 0
    _least_sharing = LEAST_SHARING

    def __init__(
        self,
        policies: Sequence[Policy],
        mode: Literal["local", "global", "naive"],
        bounds: Callable[[], Bounds],
        *,
        memory: MemoryLimit,
        clock: Literal["all", "key"] = "all",
        key: Sequence[str] = (),
        bdd: Literal["auto", "cudd", "autoref"] = "auto",
        counts_triggered: bool = False,
        equality: bool = False,
        tracks_rows: bool = False,
        notes_outcome: bool = False,
        has_corrections: bool = False,
        shown: Collection[int] = (FALSE, TRUE, EQUIVALENT),
    ) -> None:
        keys = (policy.key for policy in policies)
        self.partitions = partitions_of(keys, key)
        self.policies = tuple(policies)
        self.clock: Literal["all", "key"] = clock
        self.memory = memory
        self.position = self.lateness = self.revision = self.revision_count = 0
        self._bounds = bounds
        self._found: list[Change] = []
        self._bdd = bdd
        self._equality = equality
        self._notes_outcome = notes_outcome
        self._can_go = has_corrections or equality
        self._shown = frozenset(shown)
        owners = self.partitions.of_policies
        self._companions = Companions(self.policies if counts_triggered else ())
        self._formulas = [policy.formula for policy in self.policies]
        self._sessions = [Session(formula, mode, bdd=bdd) for formula in self._formulas]
        self._partition_of = list(owners)
        # for each session its time-points; of a policy, None if all rows are
        self._clocks = [clock_of(policy) for policy in self.policies]
        self.clocks = list(self._clocks)
        with_rows = zip(owners, self._clocks, strict=True)
        # ticks have none
        of_rows = [None if one is not None and one.has_ticks else own for own, one in with_rows]
        self.origins = LateOrigins(of_rows) if tracks_rows else None
        # Equivalences say nothing about how many time-points are false, so where that matters they
        # are counted by histories in which there are none: by policy, the number of its counter.
        self._counters: list[int | None] = []
        for number, policy in enumerate(self.policies):
            is_exact = not policy.has_tolerance or self._sessions[number].mode == "naive"
            self._counters.append(None if is_exact else len(self._sessions))
            if not is_exact:
                self._add_counter(policy, number)
        self._first_companion = len(self._sessions)
        for policy, owner in zip(self._companions.policies, self._companions.owners, strict=True):
            self._add_counter(policy, owner)
        memory.note("formula", formula_bytes(*(policy.formula for policy in self.policies)))
        memory.check()
        self._histories: list[NumberedHistory] = []
        # those whose rows have letters that depend on other rows, by the number of the partition
        self._late_partitions: dict[int, LatePartition] = {}
        # those that several other policies share, likewise
        self._shared: dict[int, SharedRows] = {}
        # for each history, how many time-points are now true, false and equivalent
        self._now = np.zeros((len(self._sessions), 4), np.int64)
        self._emitted_of_keys: dict[tuple[int, int], int] = {}
        self._since_measured = 0
        self._held = 0

    def _add_counter(self, policy: Policy, owner: int) -> None:
        self._formulas.append(policy.formula)
        self._sessions.append(Session(policy.formula, "naive", bdd=self._bdd))
        self._partition_of.append(self.partitions.of_policies[owner])
        self._clocks.append(self._clocks[owner])

    def make_messages(self) -> None:
        """Make the messages of violations from the first events on.

        The `streams` compute the values of messages, too.
        """
        # PERF: importing Arrow takes longer than small logs
        from mtlmon.checking.late_messages import LateMessages

        when = [when_of(clock) for clock in self.clocks]
        self.messages = LateMessages(self.policies, self.partitions.of_policies, when)

    @property
    def atoms(self) -> tuple[str, ...]:
        """The atoms that the policies need, in order of first occurrence."""
        names = (name for some in self.atoms_of_partitions for name in some.get(0, ()))
        return tuple(dict.fromkeys(names))

    @property
    def atoms_of_partitions(self) -> list[dict[When, list[str]]]:
        """For each partition, the atoms of its policies: at rows under 0, at ticks by period."""
        return atoms_of_partitions(len(self.partitions.columns), self._reading)

    @property
    def _reading(self) -> list[tuple[int, Clock | None, list[str]]]:
        """For each session its partition, time-points and atoms."""
        names = atoms_read((session.atoms for session in self._sessions), self.policies)
        return list(zip(self._partition_of, self._clocks, names, strict=True))

    @property
    def _computed(self) -> list[str]:
        """The atoms that depend on other rows."""
        return [] if self.streams is None else sorted(self.streams.names)

    @property
    def modes(self) -> list[Literal["local", "global", "naive"]]:
        """The mode of each policy."""
        return [session.mode for session in self._sessions[: len(self.policies)]]

    # ---- events ----------------------------------------------------------------------------

    def _begin(self, bounds: Bounds) -> None:
        """Make the histories."""
        lateness, wait = self._lengths = bounds
        self.lateness = lateness
        self._share(lateness, wait)
        self._histories = [
            self._history(number, lateness, wait) for number in range(len(self._sessions))
        ]
        followed = [
            one
            for one, history in zip(self._reading, self._histories, strict=True)
            if isinstance(history, FollowingHistory)
        ]
        if not followed:
            return
        # PERF: importing Arrow takes longer than small logs
        from mtlmon.checking.late_partitions import LatePartition

        columns = self.partitions.columns
        self._late_partitions = {
            partition: LatePartition(
                self.streams,
                partition,
                needed.get(0, ()),
                has_keys=bool(columns[partition]),
                lateness=lateness,
                wait=wait,
                clock=self.clock,
                equality=self._equality,
                relations=self._relations_of(partition),
                columns=lambda: () if self.relations is None else self.relations.columns,
                spacing=self._spacing,
                origins=self.origins,
                outcome=Outcome() if self._notes_outcome else None,
                taker=None if self.messages is None else self.messages.taker_of(partition),
            )
            for partition, needed in enumerate(atoms_of_partitions(len(columns), followed))
            if needed
        }
        if self.relations is not None:
            self.revising = self.revising or Revising(self.relations)
            self.revising.add(self._late_partitions.values(), ask_first=True)
        for number, history in enumerate(self._histories):
            if isinstance(history, PresentHistory):
                history.leader = self._late_partitions[self._partition_of[number]].leader

    def _relations_of(self, partition: int) -> frozenset[str]:
        """The relations of the log's rows that the rows and ticks of a partition depend on."""
        if self.relations is None or self.streams is None:
            return frozenset()
        return self.relations.names & self.streams.relations_of(partition)

    def _share(self, lateness: int, wait: int) -> None:
        """Find the partitions whose rows several policies share."""
        if wait or self._can_go or self.clock == "key" or self._shown >= {FALSE, TRUE}:
            return
        numbers = range(len(self._sessions))
        counts = Counter(self._partition_of[one] for one in numbers if not self._follows(one))
        self._shared = {
            partition: SharedRows(partition, lateness, self._shown)
            for partition, count in counts.items()
            if count >= self._least_sharing
        }

    def _follows(self, number: int) -> bool:
        """Whether the letters of a policy, or its time-points, are known once all rows are."""
        session, own = self._sessions[number], self._clocks[number]
        computed = () if self.streams is None else self.streams.names
        # a history that admits rows does not tell which of them has which name
        follows = self.origins is not None or self._notes_outcome or own is not None
        follows = follows or (self.messages is not None and self.messages.has_values(number))
        return follows or not set(session.atoms).isdisjoint(computed)

    def _history(self, number: int, lateness: int, wait: int) -> NumberedHistory:
        """A history that admits rows itself, or one that follows."""
        session, own = self._sessions[number], self._clocks[number]
        computed = () if self.streams is None else self.streams.names
        follows = self._follows(number)
        # a time-point that is there now may be none if another row comes late
        can_go = own is not None and (own.atom in computed or own.waits)
        if own is not None and isinstance(own.period, ChangesOf) and self.relations is not None:
            can_go = can_go or own.period.relation in self.relations.names
        formula = self._formulas[number]
        kind: Callable[..., NumberedHistory] = NumberedHistory
        judged: Formula | Program = session.program
        if follows:
            kind = FollowingHistory
            of_rows = own is None or own.waits
            if of_rows and not self._can_go and is_of_present(formula):
                kind, judged = PresentHistory, formula
        elif self._partition_of[number] in self._shared:
            kind = SharingHistory
        history = kind(
            judged,
            session.mode,
            lateness=lateness,
            wait=0 if follows else wait,
            clock=self.clock,
            equality=self._equality or can_go,
            bdd=self._bdd,
        )
        # of others, only the numbers are asked
        history.show(self._shown if number < len(self.policies) else ())
        return history

    def feed(self, batch: EventBatch, refused: NDArray[np.bool_]) -> Iterator[None]:
        """Check the next events, and mark those that come too late.

        Raises:
            MtlmonError: the lengths of time do not fit the unit of the log.
        """
        if not self._histories:
            self._begin(self._bounds())
        if self.origins is not None:
            # the changes of the last batch have been taken out
            self.origins.forget(self._done_below)
        if self.messages is not None:
            self.messages.forget(self._done_below)
        self.revision += 1
        inputs = None if self.inputs is None else self.inputs(batch)
        for rows in self._rows_of_several:
            refused[rows.push(batch, inputs)] = True
        for number, history in self._following():
            if not isinstance(history, NamedHistory):
                partition = self._partition_of[number]
                events = batch.events_of(history.atoms, partition)
                corrections = batch.corrections or NO_CORRECTIONS
                changes = history.push_rows(events, batch.numbers_of(partition), corrections)
                refused[changes.refused] = True
                self._take(number, changes)
            yield
        self.position += len(refused)
        if self.clock == "key":
            self._emit_bounds_of_keys(batch)

    def _compute(self, *, is_end: bool = False) -> None:
        """Compute the atoms that depend on other rows, of the last batch or of the end."""
        for late in self._late_partitions.values():
            late.compute(self.revising, is_end=is_end)

    def pass_time(self, time_stamp: int) -> Iterator[None]:
        """Let time pass without events."""
        if not self._histories:
            return
        self.revision += 1
        for rows in self._rows_of_several:
            rows.pass_time(time_stamp)
        for number, history in self._following():
            if not isinstance(history, NamedHistory):
                self._take(number, history.advance(time_stamp))
            yield

    def count_events(self, start: int, end: int, count: int) -> bool:
        """Take in how many events an interval of time has; return whether that is not too late.

        Raises:
            EventError: there are more already.
        """
        if not self._histories:
            self._begin(self._bounds())
        self.revision += 1
        found = [rows.count_events(start, end, count) for rows in self._rows_of_several]
        for number, history in self._following():
            if not isinstance(history, NamedHistory):
                found.append(history.count_events(start, end, count))
                self._take(number, history.changes())
        return all(found)

    @property
    def _rows_of_several(self) -> list[LatePartition | SharedRows]:
        """What admits rows for several histories."""
        return [*self._late_partitions.values(), *self._shared.values()]

    def _following(self, *, is_end: bool = False) -> Iterator[tuple[int, NumberedHistory]]:
        """Yield each history, once it has heard of rows and of time that others have admitted."""
        self._compute(is_end=is_end)
        for number, history in enumerate(self._histories):
            partition, clock = self._partition_of[number], self._clocks[number]
            if isinstance(history, SharingHistory):
                self._shared[partition].emit(history)
                passed, kind = self._shared[partition].passed_over
                self._now[number, kind] += passed
            elif isinstance(history, FollowingHistory):
                self._late_partitions[partition].emit(history, clock)
            if isinstance(history, NamedHistory):
                self._take(number, history.changes())
            yield number, history

    def _take(self, number: int, changes: Changes) -> None:
        """Count the changes of a history; those of policies can be taken out."""
        records = changes.records
        self._now[number] += self._histories[number].take_counts()
        if number < len(self.policies):
            self.revision_count += int((records["operation"] != 0).sum())
            if self.messages is not None:
                records = self.messages.revised(number, records)
        if number < len(self.policies) and len(records):
            self._found.append(PolicyChanges(number, records, self.revision))

    def taken(self) -> list[Change]:
        """Remove the changes that have not been taken out yet, and return them."""
        found, self._found = self._found, []
        return found

    def final_below(self) -> int | None:
        """The time below which no verdict changes any more; None if keys have their own."""
        if self.clock == "key" or not self._histories:
            return None
        bounds = [history.final_below() for history in self._histories[: len(self.policies)]]
        known = [bound for bound in bounds if bound is not None]
        return min(known) if len(known) == len(bounds) else None

    def _emit_bounds_of_keys(self, batch: EventBatch) -> None:
        """Tell the bounds of keys in a batch that have moved."""
        histories = self._histories[: len(self.policies)]
        for policy, history in enumerate(histories):
            numbers = batch.numbers_of(self._partition_of[policy])
            traces = [0] if numbers is None else np.unique(numbers).tolist()
            for trace in traces:
                try:
                    bound = history.final_below(None if numbers is None else trace)
                except KeyError:
                    # a retraction with an id needs no key, or may have one without events
                    continue
                if bound and bound > self._emitted_of_keys.get((policy, trace), 0):
                    self._emitted_of_keys[policy, trace] = bound
                    self._found.append(Bound(bound, policy, trace))

    def _final_below(self, policy: int) -> NDArray[np.int64] | None:
        """The time below which verdicts of a policy are final, or that of each trace."""
        history = self._histories[policy]
        if self.clock == "all":
            bound = history.final_below()
            return None if bound is None else np.array([bound], np.int64)
        bounds = [history.final_below(trace) or 0 for trace in range(len(history.keys))]
        # a single one would be that of all traces
        return np.array([*bounds, 0], np.int64)

    def _done_below(self, policy: int) -> NDArray[np.int64] | None:
        """The time below which nothing of a policy's verdicts is asked any more."""
        bounds = self._final_below(policy)
        if bounds is None or self.clock == "key":
            return bounds
        return np.minimum(bounds, self.emitted_below)

    def end(self, clock: int, end_time: EndTime = None) -> Iterator[None]:
        """End the log, whose largest time-stamp is given."""
        if not self._histories:
            return
        self.revision += 1
        last = max(one.last_time() for one in self.leaders)
        end = end_time_of_all(last, clock if end_time == "last" else end_time)
        end_of_ticks = end_time_of_all(clock, end_time)
        for rows in self._rows_of_several:
            rows.finish(end)
        for number, history in self._following(is_end=True):
            when = self._clocks[number]
            own = end if when is None or not when.has_ticks else end_of_ticks
            # where rows wait, time decides nothing
            has_ended = when is None or not when.waits or own == "inf"
            self._take(number, history.finish(own if has_ended else None))
            yield

    def measure(self, count: int) -> None:
        """Note how much memory is held after so many more events, and check the limit.

        Nothing is done as long as that cannot have changed much.
        """
        self._since_measured += count
        if self._since_measured * _EVENT_BYTES * _MEASURED_SHARE < self._held:
            return
        self._since_measured = 0
        self._held = self.held_bytes
        self.memory.note("sorting", self._held)
        self.memory.check()

    @property
    def held_bytes(self) -> int:
        """The number of bytes that are held so that late rows can come, about, without ids."""
        parts = ("held_bytes", "state_bytes")
        held = sum(one.counter(part) for one in self._histories for part in parts)
        held += sum(rows.byte_count for rows in self._rows_of_several)
        held += 0 if self.relations is None else self.relations.byte_count
        held += self.bytes_beside
        held += 0 if self.messages is None else self.messages.held_bytes
        return held + (0 if self.origins is None else self.origins.held_bytes)

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state of the check after `position` events as bytes for `restore`.

        The snapshot does not include the texts of the keys, nor changes that wait.

        Raises:
            SnapshotError: the log has ended.
        """
        emitted = [[*key, bound] for key, bound in self._emitted_of_keys.items()]
        head = {
            "lengths": self._lengths if self._histories else None,
            "told_of_keys": emitted,
            "now": self._now.tolist(),
            "counts": [self.position, self.revision, self.revision_count],
        }
        histories = (history.snapshot() for history in self._histories)
        rows = (one.snapshot() for one in self._rows_of_several)
        relations = () if self.relations is None else (self.relations.snapshot(),)
        noted = [one.snapshot() for one in (self.origins, self.messages) if one is not None]
        parts = [json.dumps(head).encode(), *histories, *noted, *relations, *rows]
        return sealed(self._settings(), joined_parts(parts))

    def restore(self, snapshot: bytes) -> None:
        """Continue from the snapshot of another check; this check must be new.

        The caller goes on with the event that follows the first `position` events of the log. All
        keys must have the same numbers as before.

        Raises:
            SnapshotError: the bytes are not a snapshot, or are damaged, or belong to other policies
                or settings, or to another version. The check must not be used after that.
        """
        text, *parts = split_parts(opened(snapshot, self._settings())) or [b""]
        try:
            head = json.loads(text)
            self.position, self.revision, self.revision_count = head["counts"]
            self._emitted_of_keys = {
                (one, trace): emitted for one, trace, emitted in head["told_of_keys"]
            }
            self._now = np.array(head["now"], np.int64).reshape(self._now.shape)
            if head["lengths"] is not None:
                self._begin(Bounds(*head["lengths"]))
            holders: list[Any] = [*self._histories]
            holders += [one for one in (self.origins, self.messages) if one is not None]
            # what relations have as columns must be known before streams
            holders += () if self.relations is None else (self.relations,)
            holders += self._rows_of_several
            for holder, part in zip(holders, parts, strict=True):
                holder.restore(part)
        except SnapshotError:
            raise
        except (ValueError, KeyError, TypeError, OverflowError):
            raise damaged() from None

    def _settings(self) -> list[tuple[str, object]]:
        """Return the settings that a snapshot depends on, each with words for an error message."""
        texts = [(policy.name, str(policy.formula)) for policy in self.policies]
        return [
            ("a check of another kind", "histories"),
            ("other policies or another mode", (texts, self.modes)),
            ("policies with other keys", self.partitions),
            ("another clock (--clock)", self.clock),
            ("other streams", self._computed),
            ("or without rows" if self.origins is None else "with rows", self.origins is not None),
            ("another choice of what is counted", (self._counters, len(self._sessions))),
        ]

    @property
    def bounds_of_keys(self) -> list[Bound]:
        """The bounds of keys that have been told."""
        return [Bound(bound, *key) for key, bound in self._emitted_of_keys.items()]

    @property
    def key_counts(self) -> list[int]:
        """For each partition, how many traces have had events."""
        counts = [0] * len(self.partitions.columns)
        for partition, history in zip(self._partition_of, self._histories, strict=False):
            counts[partition] = max(counts[partition], len(history.keys))
        of_several: list[tuple[int, LatePartition | SharedRows]]
        of_several = [*self._late_partitions.items(), *self._shared.items()]
        for partition, rows in of_several:
            counts[partition] = max(counts[partition], len(rows.leader.keys))
        return counts

    def _event_count(self, number: int) -> int:
        """How many time-points a history has, also of those that it has passed over."""
        history = self._histories[number]
        if isinstance(history, SharingHistory):
            history = self._shared[self._partition_of[number]].leader
        return history.counter("events")

    # ---- what is known ---------------------------------------------------------------------

    @property
    def counts(self) -> list[PolicyCounts]:
        """The counts of each policy: without equivalences, unless so many may be false."""
        counts = []
        for number, counter in enumerate(self._counters):
            place = number if counter is None else counter
            false, true = self._now[place, FALSE], self._now[place, TRUE]
            events = self._event_count(place) if self._histories else 0
            counts.append(PolicyCounts(events, int(true), int(false)))
        return counts

    @property
    def uncounted(self) -> list[Policy]:
        """The policies whose verdicts may be equivalent to others, so that `counts` lack some."""
        return [
            policy
            for policy, session, counter in zip(
                self.policies, self._sessions, self._counters, strict=False
            )
            if counter is None
            and session.mode != "naive"
            and future_operator(policy.formula) is not None
        ]

    @property
    def kinds(self) -> list[tuple[int, int, int]]:
        """For each policy, how many time-points are now true, false and equivalent to others."""
        counts = self._now[: len(self.policies), [TRUE, FALSE, EQUIVALENT]].tolist()
        return [(true, false, equivalent) for true, false, equivalent in counts]

    @property
    def triggered(self) -> list[Triggered | None]:
        """For each policy how often its left side held; None if it has none, or is not counted."""
        if not self._companions.policies:
            return [None] * len(self.policies)
        held = self._now[self._first_companion :, TRUE].tolist()
        return self._companions.triggered(held, self.counts)

    @property
    def tallies(self) -> list[Tally]:
        """What is counted of each policy."""
        return tallies_of(self.policies, self.counts, self.triggered)

    @property
    def leaders(self) -> list[NumberedHistory]:
        """The histories that decide which rows there are: rows can be equal for some policies."""
        own = [one for one in self._histories if not isinstance(one, NamedHistory)]
        return own + [rows.leader for rows in self._rows_of_several]

    @property
    def waiting_rows(self) -> int:
        """How many rows wait for later values."""
        return max((late.waiting_count for late in self._late_partitions.values()), default=0)

    @property
    def earliest_pending(self) -> tuple[int, int, int] | None:
        """Time-stamp, offset and policy of the earliest undecided time-point, or None.

        Rows that wait for later values may become such time-points, of any policy: -1.
        """
        histories = enumerate(self._histories[: len(self.policies)])
        found = ((number, history.earliest_pending) for number, history in histories)
        pending = [(*one, number) for number, one in found if one is not None]
        waiting = [late.earliest_waiting for late in self._late_partitions.values()]
        pending += [(*one, -1) for one in waiting if one is not None]
        return min(pending, default=None)

    @property
    def judged_again(self) -> int:
        """How many time-points of policies were judged again, as events came before them."""
        histories = self._histories[: len(self.policies)]
        return sum(history.counter("replayed_events") for history in histories)
