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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.arrays.native import EventColumns
from mtlmon.history.contents import Contents
from mtlmon.history.following import (
    IS_GONE,
    IS_HIDDEN,
    FollowingHistory,
    LeadingHistory,
    taken_back,
)
from mtlmon.streams.late_rows import ChunkedRows, Computer, Names, Rows, joined
from mtlmon.streams.late_snapshots import rows_as_bytes, rows_of_bytes
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Literal

    from numpy.typing import NDArray

    from mtlmon.checking.sources import EventBatch
    from mtlmon.history.following import Passed, Placements
    from mtlmon.streams.atoms import StreamAtoms

__all__ = ["LatePartition"]

# So many traces have chunks of their own, so that a late row concerns no other trace. The others
# share chunks, so many of them as well, which bounds what a batch costs.
_GROUPS = 256
# How many groups a batch looks at for rows to forget, beside those that it has rows of.
_SWEPT_GROUPS = 64
# The pool is made smaller when it has so many more rows than wait.
_SPARE_ROWS = 4096
_NO_COLUMN = "\0"


class _Step(NamedTuple):
    """Rows that have their names, and then perhaps time that passes.

    Attributes:
        rows: the rows, by trace and time.
        flags: their flags.
        advance: how far time passes then, and in which trace or in all; or None.
    """

    rows: Rows
    flags: NDArray[np.uint8]
    advance: Passed | None


class _Revised(NamedTuple):
    """Rows whose atoms have changed, and rows that were taken back.

    Attributes:
        names: their names.
        held: which atoms hold.
        flags: whether they were taken back.
    """

    names: Names
    held: NDArray[np.bool_]
    flags: NDArray[np.uint8]


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
        spacing: as for `ChunkedRows`.

    Attributes:
        leader: finds which rows there are.
        atoms: the atoms, in the order of the columns of `Rows.held`.
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
        spacing: int = 0,
    ) -> None:
        self._streams = streams
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
        self.leader = LeadingHistory(lateness=lateness, wait=wait, clock=clock, equality=equality)
        self._computer: Computer | None = None
        self._groups: dict[int, ChunkedRows] = {}
        # their numbers, and the next one to look at for rows to forget
        self._numbers: list[int] = []
        self._swept = 0
        self._pool = _Pool()
        self._contents = Contents()
        self._steps: list[_Step] = []
        self._revised: _Revised | None = None

    # ---- batches ---------------------------------------------------------------------------

    def push(self, batch: EventBatch, inputs: pa.RecordBatch | None) -> NDArray[np.int64]:
        """Take a batch; `tell` says what has become of it.

        Args:
            batch: the rows, as they come.
            inputs: the columns that streams read; None if there are no streams.

        Returns:
            The indices of the rows that come too late.

        Raises:
            EventError: integers overflow in a row.
        """
        stamps = np.asarray(batch.time_stamps, np.int64)
        count = len(stamps)
        numbers = batch.numbers_of(self._partition)
        operations, ids = batch.corrections or (None, None)
        rows = self._rows_of(batch, inputs, numbers)
        if operations is None and ids is None:
            contents = self._contents.new(count)
        else:
            contents = self._contents.numbers_of(_texts_of(rows), rows.traces, rows.time_stamps)
        self._pool.add(contents, rows)
        refused, found = self.leader.admit(stamps, contents, numbers, ids, operations)
        self._take(found)
        if operations is not None or ids is not None:
            self._contents.forget(self.leader, 2 * self._lateness)
        return refused

    def pass_time(self, time_stamp: int) -> None:
        """Let time pass in all traces, without a row."""
        passed = self.leader.let_time_pass(time_stamp)
        self._take([(self.leader.placements(), passed)])

    def finish(self, end_time: int | Literal["last", "inf"] | None) -> None:
        """End the log: nothing waits any more."""
        self.leader.finish(end_time)
        self._take([(self.leader.placements(), None)])

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
            columns = program.columns
            if self._computer is None:
                assert self._streams is not None
                self._computer = Computer(self._streams, self._partition, len(self._plain))
        if inputs is None or not columns:
            # a batch without columns would not know how many rows it has
            inputs = pa.RecordBatch.from_arrays([pa.nulls(count)], [_NO_COLUMN])
        else:
            inputs = inputs.select(columns)
        traces = np.zeros(count, np.uint32) if numbers is None else np.asarray(numbers, np.uint32)
        return Rows(inputs, stamps, traces, np.zeros(count, np.uint64), held)

    # ---- what has become of rows -----------------------------------------------------------

    def _take(self, found: list[tuple[Placements, Passed | None]]) -> None:
        """Compute the atoms of rows that have their names now, and of those that see them."""
        placed = np.concatenate([one.placed for one, _ in found])
        withdrawn = np.concatenate([one.withdrawn for one, _ in found])
        flags = placed["flags"].astype(np.uint8)
        if len(withdrawn):
            withdrawn = taken_back(placed, withdrawn, flags)
        rows = self._pool.take(placed)
        if not self.leader.waiting:
            self._pool.clear()
        elif self._pool.count > 2 * self.leader.waiting + _SPARE_ROWS:
            self._pool.keep(self.leader.waiting_contents())
        gone = Names(withdrawn["time_stamp"], withdrawn["trace"], withdrawn["offset"])
        changed: list[Rows] = []
        if self._computer is not None:
            rows, changed = self._update(rows, flags, gone)
        self._revised = _revised(changed, gone, rows.held.shape[1])
        first = 0
        self._steps = []
        for one, passed in found:
            last = first + len(one.placed)
            self._steps.append(_Step(rows.between(first, last), flags[first:last], passed))
            first = last

    def _update(self, rows: Rows, flags: NDArray[np.uint8], gone: Names) -> tuple[Rows, list[Rows]]:
        """Compute the atoms of new rows; return them, and others whose atoms have changed."""
        held = rows.held.copy()
        changed: list[Rows] = []
        staying = np.flatnonzero(flags & IS_GONE == 0)
        # in the order of time; those of a trace and time-stamp keep theirs
        staying = staying[np.argsort(rows.time_stamps[staying], kind="stable")]
        groups = self._groups_of(rows.traces[staying])
        leaving = self._groups_of(gone.traces)
        touched = np.unique(np.concatenate([groups, leaving])).tolist()
        for number in touched:
            group = self._group(number)
            own = staying if len(touched) == 1 else staying[groups == number]
            is_leaving = leaving == number
            names = Names(*(column[is_leaving] for column in gone))
            held[own], others = group.update(rows.taken(own), names)
            changed += others
        self._forget(touched)
        return rows._replace(held=held), changed

    def _group(self, number: int) -> ChunkedRows:
        group = self._groups.get(number)
        if group is None:
            assert self._computer is not None
            is_shared = self._clock == "all" and number >= _GROUPS
            divisor = _GROUPS if is_shared else None
            group = ChunkedRows(self._computer, divisor, self._spacing)
            self._groups[number] = group
            self._numbers.append(number)
        return group

    def _groups_of(self, traces: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The numbers of the groups that traces belong to.

        Keys that have their own times have no common order, so each of them is alone.
        """
        wide = traces.astype(np.int64)
        if self._clock == "key":
            return wide
        return np.where(wide < _GROUPS, wide, _GROUPS + wide % _GROUPS)

    def _forget(self, touched: Sequence[int]) -> None:
        """Forget rows of groups that were touched, and of some others."""
        numbers = self._numbers
        others = [
            numbers[(self._swept + k) % len(numbers)]
            for k in range(min(_SWEPT_GROUPS, len(numbers)))
        ]
        self._swept = (self._swept + len(others)) % max(1, len(numbers))
        for number in {*touched, *others}:
            bound = self.leader.admits_from(number if self._clock == "key" else 0)
            if bound is not None:
                self._groups[number].forget(bound)

    def tell(
        self, history: FollowingHistory, names: Sequence[str], clock: str | None = None
    ) -> None:
        """Let the history of a policy hear what has become of the rows of the last batch.

        Args:
            history: the history.
            names: its atoms.
            clock: the atom that holds where the policy has time-points; None if all rows are.
        """
        places = [self.atoms.index(name) for name in names]
        choice = None if clock is None else self.atoms.index(clock)
        revised = self._revised
        assert revised is not None
        if len(revised.flags):
            history.revise(
                _columns(revised.names.time_stamps, revised.held, places),
                revised.names.traces,
                revised.names.offsets,
                _chosen(revised.flags, revised.held, choice),
            )
        for rows, flags, passed in self._steps:
            history.follow(
                _columns(rows.time_stamps, rows.held, places),
                rows.traces,
                _chosen(flags, rows.held, choice),
                self._has_keys,
            )
            if passed is not None:
                history.pass_time(*passed)
        history.keep_time(self.leader)

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state between two batches as bytes, for `restore`; there has been one."""
        contents, waiting = self._pool.parts()
        head: dict[str, Any] = {"known": self._contents.parts(), "groups": []}
        states: list[bytes] = []
        rows: list[Rows] = [waiting]
        if self._computer is not None:
            self._computer.park()
            states.append(self._computer.first_state)
        for number, group in self._groups.items():
            chunks, own_states, own_rows = group.parts()
            head["groups"].append([number, chunks])
            states += own_states
            rows += own_rows
        schema = None if self._streams is None else self._streams.schema
        parts = [
            json.dumps(head).encode(),
            b"" if schema is None else schema.serialize().to_pybytes(),
            self.leader.snapshot(),
            contents.tobytes(),
            # the rows that wait come first
            rows_as_bytes(joined(rows)),
        ]
        return joined_parts([*parts, *states])

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            SnapshotError, ValueError, KeyError, TypeError, ArrowException: the bytes are damaged.
        """
        text, schema, leader, contents, data, *states = split_parts(snapshot)
        head = json.loads(text)
        self.leader.restore(leader)
        self._contents.restore(head["known"])
        rows = rows_of_bytes(data, len(self.atoms))
        waiting = np.frombuffer(contents, np.uint64)
        self._pool.add(waiting, rows.between(0, len(waiting)))
        if not states:
            return
        assert self._streams is not None
        if self._streams.schema is None:
            self._streams.compile_for(pa.ipc.read_schema(pa.py_buffer(schema)))
        self._computer = Computer(self._streams, self._partition, len(self._plain))
        self._computer.first_state, *states = states
        first = len(waiting)
        for number, chunks in head["groups"]:
            last = first + sum(count for _, count in chunks)
            own = states[: 1 + len(chunks)]
            self._group(number).restore(chunks, own, rows.between(first, last))
            states = states[1 + len(chunks) :]
            first = last

    # ---- what is known ---------------------------------------------------------------------

    @property
    def byte_count(self) -> int:
        """The number of bytes that rows and states take, about."""
        of_groups = sum(group.byte_count for group in self._groups.values())
        return self.leader.counters["held_bytes"] + self._pool.byte_count + of_groups


def _texts_of(rows: Rows) -> Iterator[str]:
    """For each row, a text of what is in it: a NaN equals no other one, but its text does."""
    columns = [column.to_pylist() for column in rows.inputs.columns]
    for place, cells in enumerate(zip(*columns, strict=True)):
        yield f"{cells!r} {rows.held[place].tobytes().hex()}"


def _revised(changed: list[Rows], gone: Names, atoms: int) -> _Revised:
    """What has changed, and what was taken back."""
    names = [*(rows.names for rows in changed), gone]
    held = [*(rows.held for rows in changed), np.zeros((len(gone.offsets), atoms), np.bool_)]
    flags = np.zeros(sum(map(len, held)), np.uint8)
    flags[len(flags) - len(gone.offsets) :] = IS_GONE
    columns = (np.concatenate(columns) for columns in zip(*names, strict=True))
    return _Revised(Names(*columns), np.concatenate(held), flags)


def _columns(
    time_stamps: NDArray[np.int64], held: NDArray[np.bool_], places: Sequence[int]
) -> EventColumns:
    columns = EventColumns(np.ascontiguousarray(time_stamps), len(time_stamps))
    if len(time_stamps):
        for atom, place in enumerate(places):
            columns.add_bytes(atom, np.ascontiguousarray(held[:, place]).view(np.uint8))
    return columns


def _chosen(
    flags: NDArray[np.uint8], held: NDArray[np.bool_], choice: int | None
) -> NDArray[np.uint8]:
    """The flags of rows, of which some are no time-points of a policy."""
    if choice is None:
        return flags
    return flags | np.where(held[:, choice], 0, IS_HIDDEN).astype(np.uint8)


class _Pool:
    """Rows that have no names yet, by the numbers of their contents."""

    def __init__(self) -> None:
        self._contents: list[NDArray[np.uint64]] = []
        self._parts: list[Rows] = []

    @property
    def count(self) -> int:
        return sum(map(len, self._contents))

    def add(self, contents: NDArray[np.uint64], rows: Rows) -> None:
        self._contents.append(contents)
        self._parts.append(rows)

    def clear(self) -> None:
        # the last one tells what columns there are
        nothing = np.empty(0, np.intp)
        self._contents = [np.empty(0, np.uint64)]
        self._parts = [one.taken(nothing) for one in self._parts[-1:]]

    def keep(self, contents: NDArray[np.uint64]) -> None:
        """Keep the rows with some contents."""
        known, rows = self._joined()
        kept = np.flatnonzero(np.isin(known, contents))
        self._contents, self._parts = [known[kept]], [rows.taken(kept)]

    def take(self, placed: NDArray[np.void]) -> Rows:
        """Return the rows that have been placed, with their names."""
        known, rows = self._joined()
        order = np.argsort(known, kind="stable")
        places = order[np.searchsorted(known[order], placed["content"])]
        taken = rows.taken(places)
        return taken._replace(
            time_stamps=np.ascontiguousarray(placed["time_stamp"]),
            traces=np.ascontiguousarray(placed["trace"]),
            offsets=np.ascontiguousarray(placed["offset"]),
        )

    def parts(self) -> tuple[NDArray[np.uint64], Rows]:
        """Return the rows and their contents, for `add`."""
        return self._joined()

    def _joined(self) -> tuple[NDArray[np.uint64], Rows]:
        self._contents = [np.concatenate(self._contents)]
        self._parts = [joined(self._parts)]
        return self._contents[0], self._parts[0]

    @property
    def byte_count(self) -> int:
        return sum(part.byte_count for part in self._parts)
