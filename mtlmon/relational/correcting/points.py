"""What policies with variables say of events that come late, or are taken back."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mtlmon.errors import MtlmonError, SnapshotError
from mtlmon.history.following import IS_REMOVED, LeadingHistory, taken_back
from mtlmon.history.operations import NO_CORRECTIONS
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.relational.cells import from_cell, number_text, restore_texts
from mtlmon.relational.correcting.admission import EventAdmission
from mtlmon.relational.correcting.chunks import ChunkedPoints, Counts, Timed
from mtlmon.relational.correcting.holding import HeldKeys
from mtlmon.relational.delays import decision_delays
from mtlmon.relational.key_names import read_key
from mtlmon.relational.native import (
    AnswerBlock,
    PointBlock,
    RelationalEngine,
    choose_points,
    forget_texts,
    points_as_bytes,
    points_of_bytes,
    require_texts,
)
from mtlmon.relational.plan import cell_kind
from mtlmon.relational.running import HOLDS, HOLDS_FOR
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Literal, Protocol

    from numpy.typing import NDArray

    from mtlmon.history.following import Outcome
    from mtlmon.history.operations import Corrections
    from mtlmon.relational.correcting.admission import Admitted
    from mtlmon.relational.correcting.chunks import Name, Row
    from mtlmon.relational.key_names import Key, KeyNames
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.slicing.engine import Engine, SlicedEngine

    class RowListener(Protocol):
        """Is told which names events get."""

        @property
        def dtype(self) -> np.dtype[np.void]:
            """The type of where an event comes from."""

        def named(self, placed: NDArray[np.void], origins: NDArray[np.void], /) -> None:
            """Take events that have their names now, as `Placements` has them."""


__all__ = ["AGAIN", "GONE", "NEW", "ChangedAnswer", "PointHistory"]

NEW, AGAIN, GONE = range(3)
"""What has become of an answer: it was never there before, it is there again, or no longer."""

_LAST_KIND = 2

# The pool is made smaller when it has so many more time-points than wait.
_SPARE_POINTS = 4096
_KEYS_BYTES = 300


class ChangedAnswer(NamedTuple):
    """An answer that is there now and was not, or that was there and is not.

    Attributes:
        change: NEW, AGAIN or GONE.
        policy: the number of the policy.
        time_stamp: the time-stamp of the time-point.
        offset: the offset in its name.
        kind: 0 for a violation, 1 for none, 2 for a match.
        cells: the values of the variables.
    """

    change: int
    policy: int
    time_stamp: int
    offset: int
    kind: int
    cells: tuple[int, ...]


class PointHistory:
    """The answers of policies with variables about the events so far, in the order of time.

    Whoever reads a log adds time-points to `arrivals`, in the order in which they come, and then
    calls `push`.

    Args:
        made: the plan of the policies.
        lateness: as for `History`; so are the others.
        wait: likewise.
        equality: likewise.
        corrects: whether events can be taken back at all: with ids, or by equality.
        by_stamp: whether all events of one time-stamp are one time-point, of offset 0.
        wants_holding: whether time-points without violations are answered.
        keeps_found: whether `found_at` is asked for violations and matches.
        prepare: is called with each engine that is made.
        names: names time-points among those of their key; None if no policy has one.
        rows: is told which names events get; None if nobody asks.
        admission: finds which events there are, by the lateness and the others; None for one that
            lets all of their rows count.
        outcome: then notes which rows are events; None if nobody asks.
        conditional: the numbers of atoms whose rows count only where `admission` says so.
        spacing: as for `ChunkedPoints`.
        slices: an engine with slices that evaluates this plan; None for one without.
        ends_with_point: whether the log ends with one more time-point, without rows.

    Attributes:
        plan: as given.
        names: as given.
        by_stamp: as given.
        conditional: as given.
        arrivals: gets the next time-points.
        emitted_below: a time below which `found_at` is not asked any more.
    """

    emitted_below = 0

    def __init__(
        self,
        made: Plan,
        *,
        lateness: int | None,
        wait: int = 0,
        equality: bool = False,
        corrects: bool = False,
        by_stamp: bool = False,
        wants_holding: bool = False,
        keeps_found: bool = False,
        prepare: Callable[[Engine], None] = lambda _: None,
        names: KeyNames[Any] | None = None,
        rows: RowListener | None = None,
        admission: EventAdmission | None = None,
        outcome: Outcome | None = None,
        conditional: Sequence[int] = (),
        spacing: int = 0,
        slices: SlicedEngine | None = None,
        ends_with_point: bool = False,
    ) -> None:
        self.plan = made
        self._ends_with_point = ends_with_point
        self._slices = slices
        self.names = names
        self._rows = rows
        self._equality = equality
        self._corrects = corrects or equality
        self.by_stamp = by_stamp
        self._wants_holding = wants_holding
        self._prepare = prepare
        # the texts of the plan, and those that were kept last
        self._constants = self._kept_texts = len(made.texts)
        self.arrivals = self._block()
        if admission is None:
            leader = LeadingHistory(
                lateness=lateness, wait=wait, equality=equality, outcome=outcome
            )
            admission = EventAdmission(leader)
        self._admission = admission
        self.conditional = tuple(conditional)
        # the events that have no names yet, by their numbers among all rows
        self._pool = self._block()
        self._pooled = np.empty(0, np.uint64)
        # their keys, and where they come from
        self._keys: list[Sequence[Key]] = []
        self._origins = np.empty(0, None if rows is None else rows.dtype)
        self.chunked = ChunkedPoints(
            self._engine,
            self._block,
            by_stamp=by_stamp,
            conditional=conditional,
            spacing=spacing,
            reach=reach_of(made),
        )
        # answers that were told once, and are not there now
        self._withdrawn: dict[Row, None] = {}
        # violations and matches of chunks that are forgotten, above what is final
        self._keeps_found = keeps_found
        self._found: dict[Row, None] = {}
        self._final = 0
        # a time below which no answer is given again, nor asked for
        self._asked_from = 0
        self._has_late = any(query.late is not None for query in made.queries) or bool(made.closed)
        # for keys, whether their rows of a time-stamp violate anything
        self._held_keys: HeldKeys | None = None
        if by_stamp and wants_holding and names is not None:
            self._held_keys = HeldKeys(made, names)
        # where rows have come or gone since answers were taken out
        self._touched: list[int] = []
        delays = decision_delays(made)
        known = [delay for delay in delays if delay is not None]
        self._delay = max(known, default=0) if len(known) == len(delays) else None

    @property
    def leader(self) -> LeadingHistory:
        """The history that finds which events there are."""
        return self._admission.leader

    def close(self) -> None:
        """End the threads of slices."""
        if self._slices is not None:
            self._slices.close()

    def _block(self) -> PointBlock:
        return PointBlock(array("I", self.plan.atoms))

    def _engine(self) -> Engine:
        engine: Engine
        if self._slices is None:
            engine = RelationalEngine(self.plan, self.plan.texts)
        else:
            engine = self._slices.alike()
        engine.wants_holding = self._wants_holding
        engine.keeps_texts = True
        engine.know_constants(self._constants)
        self._prepare(engine)
        return engine

    # ---- events ----------------------------------------------------------------------------

    def push(
        self,
        corrections: Corrections = NO_CORRECTIONS,
        keys: Sequence[Sequence[Key]] | None = None,
        origins: NDArray[np.void] | None = None,
    ) -> NDArray[np.int64]:
        """Take the time-points of `arrivals` in; `changes` says what that changes.

        Args:
            corrections: what each row does.
            keys: the keys of each; only events whose keys are the same can be equal. None if
                policies have none.
            origins: where each comes from, if `rows` asks.

        Returns:
            The indices of those that come too late.

        Raises:
            MtlmonError: integers overflow, or an operator would remember too much.
        """
        stamps = np.frombuffer(self.arrivals.time_stamps(), np.int64)
        texts = None
        if self._equality or corrections.takes_back:
            texts = self._texts_of_arrivals()
            if keys is not None:
                texts = [f"{text} {key}" for text, key in zip(texts, keys, strict=True)]
        choose_points(self._pool, self.arrivals, np.arange(len(stamps), dtype=np.uint32))
        self.arrivals.drop(len(stamps))
        numbers = self.leader.numbers_of_next(len(stamps))
        self._pooled = np.concatenate([self._pooled, numbers])
        if keys is not None:
            assert self.names is not None
            # the changes of the last batch have been taken out
            self.names.forget(self._asked_from)
            self._keys += keys
        if origins is not None:
            self._origins = np.concatenate([self._origins, origins])
        refused, admitted = self._admission.admit(stamps, texts, corrections)
        self._take(admitted)
        return refused

    def _texts_of_arrivals(self) -> list[str]:
        """Texts of what is in the events of `arrivals`."""
        copied = self._block()
        choose_points(copied, self.arrivals, np.arange(len(self.arrivals), dtype=np.uint32))
        return [self._text_of(rows) for _, rows in copied.take()]

    def _text_of(self, rows: list[tuple[int, tuple[int, ...]]]) -> str:
        """A text of what is in a time-point; numbers of texts change."""
        atoms = self.plan.named_atoms
        known = {
            (
                atom,
                tuple(
                    from_cell(cell, kind, self.plan.texts) if kind.name == "text" else cell
                    for cell, kind in zip(cells, atoms[atom].kinds, strict=True)
                ),
            )
            for atom, cells in rows
        }
        return repr(sorted(known))

    def pass_time(self, time_stamp: int) -> None:
        """Let time pass without an event."""
        self._take(self._admission.let_time_pass(time_stamp))

    def count_events(self, start: int, end: int, count: int) -> bool:
        """Take in how many events an interval of time has; return whether that is not too late."""
        is_taken, admitted = self._admission.count_events(start, end, count)
        self._take(admitted)
        return is_taken

    def finish(self, end_time: int | Literal["last", "inf"] | None = None) -> None:
        """End the log: nothing waits any more.

        Args:
            end_time: what is known about the time after it.
        """
        if end_time == "last":
            end_time = self.leader.now()
        self._take(self._admission.finish(end_time))

        def end(engine: Engine) -> None:
            passed = self.chunked.passed
            if self._ends_with_point:
                engine.points.add(LARGEST, ())
                engine.advance()
            elif end_time in ("inf", LARGEST):
                engine.end(max(engine.clock, passed), True)
            elif isinstance(end_time, int):
                engine.end(max(end_time + 1, passed), False)
            elif passed > engine.clock:
                engine.end(passed, False)

        self.chunked.finish(end, with_point=self._ends_with_point)

    def _take(self, admitted: Admitted) -> None:
        """Take in events that have their names now, and remove those that were taken back."""
        found = admitted.found
        placed = np.concatenate([one.placed for one, _ in found])
        withdrawn = np.concatenate([one.withdrawn for one, _ in found])
        places = np.searchsorted(self._pooled, placed["number"])
        self._name(placed, places)
        flags = placed["flags"].astype(np.uint8)
        if len(withdrawn):
            withdrawn = taken_back(placed, withdrawn, flags)
        is_removed = flags & IS_REMOVED != 0
        removed = [*_names(withdrawn), *_names(placed[is_removed])]
        order = np.flatnonzero(~is_removed)
        order = order[np.argsort(placed["time_stamp"][order], kind="stable")]
        held = admitted.held
        if held is None:
            held = np.empty((len(placed), len(self.conditional)), np.bool_)
        placed, places, held = placed[order], places[order], held[order]
        for _, passed in found:
            if passed is not None:
                self.chunked.pass_time(passed[0])
        new = Timed(
            self._pool,
            places.astype(np.uint32),
            np.ascontiguousarray(placed["time_stamp"]),
            np.ascontiguousarray(placed["offset"]),
            held,
        )
        if self._held_keys is not None:
            self._touched += [*(name[0] for name in removed), *new.time_stamps.tolist()]
        self.chunked.update(new, removed, admitted.revised, admitted.rows)
        self._clear_pool()
        self._forget_texts()

    def _name(self, placed: NDArray[np.void], places: NDArray[np.intp]) -> None:
        """Let events have their names, whose places in the pool are given."""
        if self._rows is not None:
            self._rows.named(placed, self._origins[places])
        if self.names is None:
            return
        keys = [self._keys[place] for place in places.tolist()]
        if not all(keys):
            # it is behind a forged snapshot
            raise damaged()
        self.names.add_placed(placed["time_stamp"], placed["offset"], keys)

    def _clear_pool(self) -> None:
        waiting = self._admission.waiting_count
        if waiting and len(self._pooled) <= 2 * waiting + _SPARE_POINTS:
            return
        kept = np.flatnonzero(np.isin(self._pooled, self._admission.waiting()[0]))
        block = self._block()
        choose_points(block, self._pool, kept.astype(np.uint32))
        self._pool, self._pooled = block, self._pooled[kept]
        if self.names is not None:
            self._keys = [self._keys[place] for place in kept.tolist()]
        if self._rows is not None:
            self._origins = self._origins[kept]

    # ---- what has changed ------------------------------------------------------------------

    def changes(self) -> list[ChangedAnswer]:
        """Return what has changed since the last call, by policy and time-point."""
        changed = []
        net, self.chunked.net = self.chunked.net, {}
        if self._held_keys is not None:
            net = self._held_keys.of_keys(net, self._touched, self.chunked.missing)
            self._touched = []
        for row, by in net.items():
            if by < 0:
                self._withdrawn[row] = None
                change = GONE
            else:
                change = AGAIN if row in self._withdrawn else NEW
                self._withdrawn.pop(row, None)
            changed.append(ChangedAnswer(change, *row))
        # what is gone comes first; the rest is in the order of values, as the engine gives it
        changed.sort(key=lambda one: (one.policy, one.time_stamp, one.offset, one.change != GONE))
        self._forget()
        return changed

    def renamed(self, changes: Sequence[ChangedAnswer]) -> Sequence[ChangedAnswer]:
        """Return answers with the names of time-points among those of the policy's key."""
        if self.names is None:
            return changes
        found = []
        for one in changes:
            keys = None
            if not self.by_stamp or one.kind == HOLDS:
                keys = self.names.at(one.policy, one.time_stamp, one.offset)
            if keys is None:
                found.append(one)
                continue
            policy = self.plan.named_policies[one.policy]
            if len(keys) != 1 or any(len(key) != len(policy.key) for key in keys):
                # it is behind a forged snapshot
                raise damaged()
            ((key, offset),) = keys.items()
            answer = one._replace(offset=0 if self.by_stamp else offset)
            if one.kind == HOLDS:
                cells = [number_text(self.plan.texts, text) for text in key]
                cells += [0] * (len(policy.variables) - len(cells))
                answer = answer._replace(kind=HOLDS_FOR, cells=tuple(cells))
            found.append(answer)
        return found

    def latest(self) -> list[ChangedAnswer]:
        """Return all answers as they are now, without those that are forgotten."""
        rows = [ChangedAnswer(NEW, *row) for row in self.chunked.emitted]
        rows.sort(key=lambda one: one[1:4])
        return rows

    def found_at(self, policy: int, time_stamp: int, offset: int) -> list[ChangedAnswer]:
        """Return the violations or matches of a policy at a time-point, which is not final yet."""
        rows = [row for row in (*self._found, *self.chunked.emitted) if row[3] != HOLDS]
        return [ChangedAnswer(NEW, *row) for row in rows if row[:3] == (policy, time_stamp, offset)]

    def earliest_open(self, policies: Iterable[int]) -> tuple[int, int, int] | None:
        """Return the first time-point at the end at which one of some policies is undecided.

        It is a time-stamp, an offset and the number of the policy.
        """
        engine = self.chunked.engine
        points = ((*one, policy) for policy in policies for one in engine.waiting_points(policy, 1))
        return min(points, default=None)

    def final_below(self) -> int:
        """The time-stamp below which no answer can change any more."""
        bound = self.leader.admits_from()
        if bound is None:
            return self._final
        chunked = self.chunked
        found = 0
        if not self._has_late:
            found = bound
        else:
            if self._delay is not None:
                # events that can be taken back do not show for good that time has passed
                clock = chunked.last_below(bound) if self._corrects else chunked.engine.clock
                found = min(bound, max(clock, chunked.passed)) - self._delay
            found = max(found, chunked.settled_below(bound))
        self._final = max(self._final, found)
        return self._final

    def _forget(self) -> None:
        bound = self.leader.admits_from()
        if bound is None:
            return
        final = self.final_below()
        forgotten = self.chunked.forget(bound)
        self._asked_from = self.chunked.emitted_from
        if self._held_keys is not None:
            self._held_keys.forget(self._asked_from)
        if self._keeps_found:
            first = min(final, self.emitted_below)
            self._asked_from = min(self._asked_from, first)
            every = [*self._found, *forgotten]
            self._found = dict.fromkeys(row for row in every if row[3] != HOLDS and row[1] >= first)
        if any(row[1] < final for row in self._withdrawn):
            self._withdrawn = {row: None for row in self._withdrawn if row[1] >= final}

    def _forget_texts(self) -> None:
        """Forget texts that nothing needs, if there may be many."""
        chunked = self.chunked
        spare = chunked.engine.spare_texts
        if len(self.plan.texts) <= 2 * self._kept_texts + spare or len(self.arrivals):
            return
        base = self._engine()
        base.restore(chunked.state)
        held = chunked.held
        answers = AnswerBlock(array("I", [len(one.variables) for one in self.plan.named_policies]))
        net, withdrawn = list(chunked.net.items()), list(self._withdrawn)
        every = [*(row for row, _ in net), *withdrawn, *self._found]
        for policy, time_stamp, offset, kind, cells in every:
            answers.add(policy, kind, time_stamp, offset, 0, () if kind == HOLDS else cells)
        forget_texts(_engines_of(base), answers, [held.points, self._pool])
        self._kept_texts = len(self.plan.texts)
        rows: list[Row] = [
            (policy, time_stamp, offset, kind, cells)
            for policy, kind, time_stamp, offset, _, cells in answers.take()
        ]
        last = len(net) + len(withdrawn)
        self._withdrawn = dict.fromkeys(rows[len(net) : last])
        self._found = dict.fromkeys(rows[last:])
        chunked.net = dict(zip(rows, (by for _, by in net), strict=False))
        chunked.begin_again(base.snapshot(has_texts=False), held)

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`; all changes have been taken.

        The snapshot does not include the policies.

        Raises:
            SnapshotError: the log has ended, or an id is neither an integer nor a text.
        """
        chunked = self.chunked
        if len(self.arrivals) or chunked.net:
            raise ValueError("time-points or changes wait to be taken")
        held = chunked.held
        head = {
            "plan": self.plan.digest().hex(),
            "withdrawn": list(self._withdrawn),
            "found": list(self._found),
            "final": self._final,
            "counts": [counts.tolist() for counts in chunked.forgotten],
            "passed": chunked.passed,
            "missing": list(chunked.missing.items()),
        }
        return joined_parts(
            [
                json.dumps(head).encode(),
                self._admission.snapshot(),
                self.plan.texts.snapshot(),
                chunked.state,
                points_as_bytes(held.points),
                held.time_stamps.tobytes(),
                held.offsets.tobytes(),
                held.held.tobytes(),
                points_as_bytes(self._pool),
                self._pooled.tobytes(),
                json.dumps(self._keys).encode(),
                self._origins.tobytes(),
                b"" if self.names is None else self.names.snapshot(),
            ]
        )

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            SnapshotError: the bytes are damaged, or of other policies.
        """
        try:
            text, admitted, texts, state, *blobs = split_parts(snapshot)
            points, stamps, offsets, conditional, pool, pooled, keys, origins, names = blobs
            head = json.loads(text)
            if head["plan"] != self.plan.digest().hex():
                raise SnapshotError("the snapshot is of other policies")
            # arguments that are computed again find their texts
            restore_texts(self.plan.texts, texts)
            self._admission.restore(admitted)
            block = self._block()
            points_of_bytes(block, points)
            points_of_bytes(self._pool, pool)
            self._pooled = np.frombuffer(pooled, np.uint64)
            self._restore_names(keys, origins, names)
            times = np.frombuffer(stamps, np.int64)
            places = np.arange(len(times), dtype=np.uint32)
            marks = np.frombuffer(conditional, np.bool_)
            marks = marks.reshape(len(times), len(self.conditional))
            held = Timed(block, places, times, np.frombuffer(offsets, np.uint64), marks)
            if (
                not np.array_equal(_stamps_of(block), times)
                or len(held.offsets) != len(times)
                or len(self._pool) != len(self._pooled)
                or np.any(self._pooled[1:] <= self._pooled[:-1])
                or np.any(self._pooled[-1:] >= self.leader.numbers_of_next(1))
                or not self._has_pooled_waiting()
                or np.any(np.diff(times, prepend=0) < 0)
                or not all(
                    type(head[name]) is int and 0 <= head[name] <= LARGEST
                    for name in ("passed", "final")
                )
            ):
                raise damaged()
            self.chunked.passed = head["passed"]
            self.chunked.missing = {time: list(removed) for time, removed in head["missing"]}
            for time, removed in self.chunked.missing.items():
                if not _are_integers([time, *removed], 0) or removed != sorted(removed):
                    raise damaged()
            self.chunked.begin_again(state, held)
            base = self._engine()
            base.restore(state)
            # late events come behind all that the state has seen
            if base.clock > (self.leader.admits_from() or 0):
                raise damaged()
            for engine in _engines_of(base):
                require_texts(engine, [held.points, self._pool])
            if self._held_keys is not None:
                emitted = dict.fromkeys(self.chunked.emitted, 1)
                self._held_keys.of_keys(emitted, (), self.chunked.missing)
            self._final = head["final"]
            forgotten = Counts(*(np.array(one, np.int64) for one in head["counts"]))
            forgotten = forgotten._replace(counted=forgotten.counted.reshape(-1, 2))
            known = self.chunked.forgotten
            if any(one.shape != own.shape for one, own in zip(forgotten, known, strict=True)):
                raise damaged()
            self.chunked.forgotten = forgotten
            self._withdrawn, self._found = (
                dict.fromkeys(self._row(*row) for row in head[name])
                for name in ("withdrawn", "found")
            )
        except SnapshotError:
            raise
        except (MtlmonError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
            raise damaged() from None

    def _restore_names(self, keys: bytes, origins: bytes, names: bytes) -> None:
        """Go on with what belongs to events that have no names yet, and with the names of others.

        Raises:
            SnapshotError, ValueError, TypeError: the bytes are damaged.
        """
        if self.names is not None:
            self.names.restore(names)
            self._keys = [[read_key(key) for key in one] for one in json.loads(keys)]
            if len(self._keys) != len(self._pooled) or any(
                len(one) not in (0, len(self.names.used)) for one in self._keys
            ):
                raise damaged()
        if self._rows is not None:
            self._origins = np.frombuffer(origins, self._rows.dtype)
            if len(self._origins) != len(self._pooled):
                raise damaged()

    def _has_pooled_waiting(self) -> bool:
        """Whether the events that wait are in the pool, with their times."""
        numbers, stamps = self._admission.waiting()
        if not np.isin(numbers, self._pooled).all():
            return False
        places = np.searchsorted(self._pooled, numbers)
        return np.array_equal(_stamps_of(self._pool)[places], stamps)

    def _row(self, policy: int, time_stamp: int, offset: int, kind: int, cells: list[int]) -> Row:
        """An answer that a snapshot has.

        Raises:
            SnapshotError: there is no such answer.
        """
        numbers = [policy, time_stamp, offset, kind]
        if not _are_integers(numbers, 0) or not _are_integers(cells, -LARGEST - 1):
            raise damaged()
        kinds = self.plan.named_policies[policy].kinds
        count = len(self.plan.texts)
        if (
            kind > _LAST_KIND
            or len(cells) not in {0 if kind == HOLDS else len(kinds), len(kinds)}
            or any(
                cell_kind(one) == "text" and not 0 <= cell < count
                for one, cell in zip(kinds, cells, strict=False)
            )
        ):
            raise damaged()
        return policy, time_stamp, offset, kind, tuple(cells)

    @property
    def counted_valuations(self) -> dict[int, tuple[int, int]]:
        """How often left sides are matched, as engines tell it."""
        rows: list[list[int]] = self.chunked.counts.counted.tolist()
        policies = (one.policy for one in self.plan.counted)
        return {policy: (row[0], row[1]) for policy, row in zip(policies, rows, strict=True)}

    @property
    def byte_count(self) -> int:
        """The number of bytes that events, states and answers take, about."""
        held: int = self.plan.texts.memory + self._origins.nbytes + _KEYS_BYTES * len(self._keys)
        held += 0 if self.names is None else self.names.held_bytes
        return self.leader.counter("held_bytes") + self.chunked.byte_count + held


def reach_of(made: Plan) -> tuple[int, int] | None:
    """For how long after a time-point anything depends on it, as `ChunkedPoints` takes it.

    None if there is no limit, as where a let uses itself, or if numbers of time-points have a
    meaning of their own.
    """
    if made.point is not None or made.closed:
        return None
    if any(state.kind == "present" for state in made.states):
        return None
    time = count = 0
    for state in made.states:
        # the rows of groups are those of another state
        if state.kind == "neighbour":
            count += 1
        elif state.kind != "groups":
            if state.upper is None:
                return None
            time += state.upper
    return time, count


def _engines_of(engine: Engine) -> list[RelationalEngine]:
    """An engine, or those of its slices."""
    return [engine] if isinstance(engine, RelationalEngine) else engine.engines


def _stamps_of(block: PointBlock) -> NDArray[np.int64]:
    """The time-stamps of the time-points of a block."""
    return np.frombuffer(block.time_stamps(), np.int64)


def _are_integers(values: Sequence[object], least: int) -> bool:
    """Whether values are integers of 64 bits, from a least one on."""
    return all(type(one) is int and least <= one <= LARGEST for one in values)


def _names(records: NDArray[np.void]) -> Iterator[Name]:
    return zip(records["time_stamp"].tolist(), records["offset"].tolist(), strict=True)
