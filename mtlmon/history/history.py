"""`History`: the events of one or many traces, in the order of time however late they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mtlmon.drive.feeding import event_columns
from mtlmon.engine.guarding import Guard, guarded
from mtlmon.engine.native import Session, read_atoms
from mtlmon.engine.pending import decision_delay, looks_ahead
from mtlmon.errors import (
    CopyError,
    EventError,
    InUseError,
    MtlmonError,
)
from mtlmon.history import snapshots
from mtlmon.history.changes import Changes, change_type
from mtlmon.history.keys import KeyNumbers
from mtlmon.history.native import Histories
from mtlmon.history.operations import ADVANCE, COMPLETE, RETRACT, operation_codes
from mtlmon.support.time_stamps import LARGEST_TIME_STAMP, checked_time_stamp
from mtlmon.verdicts.arrays import VerdictArray, verdict_type

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Buffer

    from mtlmon.arrays.native import EventColumns
    from mtlmon.engine.native import Program
    from mtlmon.syntax.formula import Formula

__all__ = ["COUNTERS", "History", "count_of", "require_ids"]

COUNTERS: dict[str, Callable[[Histories], int]] = {
    "events": lambda one: one.event_count,
    "late": lambda one: one.late_count,
    "refused": lambda one: one.refused_count,
    "waiting": lambda one: one.waiting,
    "retracted": lambda one: one.retracted_count,
    "duplicates": lambda one: one.duplicate_count,
    "unmatched": lambda one: one.unmatched_count,
    "awaited": lambda one: len(one.awaited) + sum(map(len, one.awaited_rows.values())),
    "ids": lambda one: len(one.ids),
    "incomplete": lambda one: one.incomplete_count,
    "replays": lambda one: one.replays,
    "replayed_chunks": lambda one: one.replayed_chunks,
    "replayed_events": lambda one: one.replayed_events,
    "early_stops": lambda one: one.early_stops,
    "held_bytes": lambda one: one.held_bytes,
    "state_bytes": lambda one: one.state_bytes,
}
"""What `History.counters` has, by name."""


class History:
    """Monitors events that may come late, and corrects verdicts.

    The history is what has come so far, sorted by time-stamp; events of one time-stamp keep the
    order in which they came. After every batch, the verdicts are those that a `Monitor` gives for
    the history. A late event takes the next free offset of its time-stamp, so no time-point ever
    gets another name. After a late event, the history judges events again from shortly before it,
    until the monitor reaches the same state as before.

    Events can be retracted: the verdicts are then those of a history in which they have never
    been, but no other event gets their names. An event that has an id can be retracted by it, and
    an event with an id that is known takes the place of the one before. An id is known until its
    event is later than twice the lateness.

    Args:
        formula: a `Formula`, a text that `parse` can read, or a compiled `Program`.
        mode: which undecided time-points are reported as equivalent, as for `Monitor`.
        lateness: how far below the largest time-stamp so far an event may be to be taken in, in the
            stream's unit. Events that come later are refused and counted. None means that all
            events are taken in; then nothing is ever forgotten.
        wait: how much time must pass after an event before it is judged. Events that come in the
            meantime are put in order and need no corrections. At most `lateness`.
        clock: "all": there is one largest time-stamp so far; "key": one for each key.
        equality: whether events without ids can be retracted, by their key, time-stamp and atoms.
            Then a verdict becomes final only when the events that show that time has passed are too
            old to be retracted.
        unmatched: "count" or "error": what to do with a retraction whose event does not come.
        unit: the unit of the time-stamps, as for `Monitor`.
        bdd: the back end of the library dd, as for `Monitor`.

    Memory grows with the events of the last `lateness` and of the time that a verdict can take
    after its time-point, if that has a bound.

    Raises:
        FormulaError: the text is not a formula.
        MtlmonError: an argument is not one of these.

    >>> from mtlmon import History
    >>> history = History("request IMPLIES EVENTUALLY[0,5] response", lateness=60)
    >>> history.atoms
    ('request', 'response')
    >>> print(*history.push([10, 20], [0b01, 0b00]), sep=", ")
    10:0 false, 20:0 true
    >>> print(*history.push([12], [0b10]), sep=", ")  # late
    !10:0 true, 12:0 true
    """

    # whether events that contradict counts are left out, and whether events come with their names
    _rejects = False
    _is_named = False

    # the kinds of first verdicts that changes have records for, as bits
    _shown = 0xFF

    def __init__(
        self,
        formula: Formula | Program | str,
        mode: Literal["local", "global", "naive"] = "local",
        *,
        lateness: int | None,
        wait: int = 0,
        clock: Literal["all", "key"] = "all",
        equality: bool = False,
        unmatched: Literal["count", "error"] = "count",
        unit: Literal["ns", "us", "ms", "s", "m", "h", "d"] | None = None,
        bdd: Literal["auto", "cudd", "autoref"] = "auto",
        _spacing: int = 0,
    ) -> None:
        given: object = formula
        if isinstance(given, (list, tuple, dict)):
            raise MtlmonError("a history has one formula: make a history for each policy")
        if clock not in ("all", "key"):
            raise MtlmonError(f"clock is 'all' or 'key', not {clock!r}")
        self._lateness = None if lateness is None else length_of(lateness, "lateness")
        self._wait = length_of(wait, "wait")
        if self._lateness is not None and self._wait > self._lateness:
            raise MtlmonError(
                f"events wait {self._wait}, but those more than {self._lateness} late are refused: "
                "wait is at most lateness"
            )
        if unmatched not in ("count", "error"):
            raise MtlmonError(f"unmatched is 'count' or 'error', not {unmatched!r}")
        self._clock = clock
        self._equality = bool(equality)
        self._unmatched = unmatched
        self._emitted_unmatched = 0
        self._spacing = _spacing
        self._guard = Guard("history")
        self._session = Session(formula, mode, unit=unit, bdd=bdd)
        self._bdd: Literal["auto", "cudd", "autoref"] = bdd
        self._histories = self._new_histories()
        self._keys = self._key_numbers()
        self._is_keyed: bool | None = None
        self._emitted_final: int | None = None

    def _new_histories(self) -> Histories:
        session = Session(self.program, self.mode, bdd=self._bdd)
        return Histories(
            session,
            lateness=self._lateness,
            wait=self._wait,
            delay=decision_delay(self.program.rows, self.program.root),
            is_by_key=self._clock == "key",
            spacing=self._spacing,
            can_reopen=looks_ahead(self.program.rows),
            takes_equal=self._equality,
            is_named=self._is_named,
            rejects=self._rejects,
        )

    # ---- events ----------------------------------------------------------------------------

    @guarded
    def push(
        self,
        time_stamps: ArrayLike,
        letters: object,
        *,
        keys: Sequence[Hashable] | NDArray[Any] | None = None,
        ids: Sequence[Hashable] | NDArray[Any] | None = None,
        operations: Sequence[str] | NDArray[Any] | None = None,
        atoms: Sequence[str] | None = None,
        unknown: Literal["ignore", "error"] = "ignore",
    ) -> Changes:
        """Take a batch of events, in the order in which they come, and return what they change.

        Args:
            time_stamps: an array of n integers, in any order.
            letters: the atoms that hold at these events, as for `Monitor.feed`.
            keys: the key of each event, which says to what trace it belongs: an array of integers
                or texts, or a sequence of hashable objects. Either all batches have keys or none.
            ids: the id of each event, among those of all keys; None for events without one.
            operations: what each row does; without them, all insert. `"+"`, `"I"` and `"insert"`
                insert the event; `"-"`, `"D"` and `"retract"` retract the event that has the id of
                the row or, for rows without an id, the last one that equals it; `"advance"` only
                lets time pass. A retraction whose event has not come waits for it, until time has
                gone on by more than `lateness`.
            atoms: the names of the columns or bits, as for `Monitor.feed`.
            unknown: what to do with columns and bits that the formula does not name, as for
                `Monitor.feed`.

        Raises:
            EventTypeError, EventError, TimeStampError: as for `Monitor.feed`, except that
                time-stamps may decrease; the history is unchanged.
            EventError: an event is one too many in an interval given to `complete`, and `index`
                tells which one; or retractions have waited in vain, and `unmatched` is "error".
                The next call returns the changes of the rows before it.
            MonitorBrokenError: an earlier batch was interrupted.
        """
        if unknown not in ("ignore", "error"):
            raise MtlmonError(f"unknown is 'ignore' or 'error', not {unknown!r}")
        columns = event_columns(self.atoms, time_stamps, letters, atoms, unknown == "error")
        return self._push(columns, keys, operations, ids)

    @guarded
    def push_columns(
        self,
        columns: EventColumns,
        keys: Sequence[Hashable] | NDArray[Any] | None = None,
        *,
        ids: Sequence[Hashable] | NDArray[Any] | None = None,
        operations: Sequence[str] | NDArray[Any] | None = None,
    ) -> Changes:
        """Do the same as `push` with columns of events."""
        return self._push(columns, keys, operations, ids)

    def _push(
        self,
        columns: EventColumns,
        keys: Sequence[Hashable] | NDArray[Any] | None,
        operations: Sequence[str] | NDArray[Any] | None,
        ids: Sequence[Hashable] | NDArray[Any] | None,
        counted: NDArray[np.int64] | None = None,
    ) -> Changes:
        count = columns.count
        if count:
            self._require_keys(keys is not None)
        names = None if ids is None else _listed(ids, count, "ids")
        codes = None if operations is None else operation_codes(operations, count)
        if codes is not None and not self._equality:
            require_ids(codes, names)
        numbers = None if keys is None else self._numbers_of_rows(keys, count, codes, names)
        pairs = None if counted is None else np.ascontiguousarray(counted).reshape(-1)
        refused = self._histories.push(columns, numbers, codes, names, pairs)
        return self._changes(np.frombuffer(refused, np.uint32))

    @guarded
    def insert(
        self, time_stamp: int, atoms: Any = (), *, key: Hashable = None, id: Hashable = None
    ) -> Changes:
        """Take one event, given as for `Monitor.step`.

        Args:
            time_stamp: when it happened.
            atoms: the atoms that hold at the event.
            key: its key, in histories with keys.
            id: its id, if it can be retracted or corrected by that.

        Raises:
            EventTypeError, EventError, TimeStampError: as for `Monitor.step`, except that
                time-stamps may decrease.
        """
        return self._push_one(time_stamp, atoms, key, id, "insert")

    @guarded
    def retract(
        self,
        time_stamp: int | None = None,
        atoms: Any = (),
        *,
        key: Hashable = None,
        id: Hashable = None,
    ) -> Changes:
        """Take one event back, as if it had never happened.

        Args:
            time_stamp: the time-stamp of the event, to retract the last one that is equal; the
                history must have been made with `equality=True`.
            atoms: the atoms of that event.
            key: the key of that event.
            id: the id of the event; nothing else is needed then.

        Raises:
            EventError: neither an id nor a time-stamp is given, or the history does not allow
                retractions by equality.
        """
        if id is None and time_stamp is None:
            raise EventError("give the id of the event to retract, or its time-stamp and atoms")
        if id is not None:
            # the id alone says which event is meant
            names, codes = [id], np.array([RETRACT], np.uint8)
            columns = event_columns(
                self.atoms, [0], np.zeros((1, len(self.atoms)), np.bool_), None, False
            )
            refused = self._histories.push(columns, None, codes, names)
            return self._changes(np.frombuffer(refused, np.uint32))
        return self._push_one(checked_time_stamp(time_stamp), atoms, key, None, "retract")

    def _push_one(
        self, time_stamp: int, atoms: Any, key: Hashable, name: Hashable, operation: str
    ) -> Changes:
        if isinstance(atoms, int):
            if atoms < 0:
                raise EventError(f"an integer of bits cannot be negative, as {atoms} is")
            letter = [[bool(atoms >> place & 1) for place in range(len(self.atoms))]]
        else:
            names = read_atoms(atoms)
            letter = [[name in names for name in self.atoms]]
        matrix = np.array(letter, np.bool_).reshape(1, len(self.atoms))
        return self._push(
            event_columns(self.atoms, [checked_time_stamp(time_stamp)], matrix, None, False),
            None if key is None else [key],
            [operation],
            None if name is None else [name],
        )

    @guarded
    def advance(self, time_stamp: int, *, key: Hashable = None) -> Changes:
        """Let time pass without an event, in all traces that have events.

        A later event below `time_stamp` is late. What this call decides stays decided even if
        events are retracted, so the call has an effect even if earlier events have already reached
        that time. With a wait, time passes up to `time_stamp - wait`, and at the end up to
        `time_stamp`.

        Args:
            time_stamp: the time that it is now.
            key: in histories with a clock for each key, the key whose time passes.

        Raises:
            EventTypeError, TimeStampError: the time-stamp is not an integer from 0 to 2^63-1.
        """
        checked = checked_time_stamp(time_stamp)
        number = None
        if self._clock == "key":
            if key is None:
                raise EventError("each key has its own time: say which one's time passes")
            self._require_keys(True)
            number = int(self._numbers_of([key], 1)[0])
        elif key is not None:
            raise EventError("there is one time for all keys: give no key")
        self._histories.advance(checked, number)
        return self._changes()

    @guarded
    def complete(self, start: int, end: int, count: int) -> Changes:
        """Say how many events there are in an interval of time, whenever they come.

        There are exactly `count` events, of all keys together, with time-stamps from `start` on
        that are below `end`; retracted ones do not count. Once these events have come, and all
        events before `start` are known as well, no event below `end` waits any longer, none can be
        retracted, and verdicts that depend on these events alone are final. Events are known if
        they are below the largest time-stamp so far minus the lateness, or in an interval that is
        complete. Then time has passed up to `end`, as if `advance` said so.

        If some of the events have not come by the time at which they would be refused, or at the
        end of the log, the interval is dropped and counted as `incomplete`.

        Raises:
            EventError: there are more events than that already; or the call is so late that some
                events from `start` on may have been forgotten, and others were before; or each key
                has its own time.
        """
        if self._clock == "key":
            raise EventError("each key has its own time: events of an interval cannot be counted")
        start, end = checked_time_stamp(start), checked_time_stamp(end)
        if not self._histories.complete(start, end, count_of(count, "count")):
            raise EventError(
                f"events from {start} on may be forgotten already, as such late ones are refused: "
                "say earlier how many there are"
            )
        return self._changes()

    @guarded
    def finish(self, end_time: int | Literal["last", "inf"] | None = None) -> Changes:
        """End all traces: judge what waits, and then what the end decides. No event can follow.

        Args:
            end_time: what is known about the time after the last event, as for `Monitor.finish`.
                With one clock, "last" means the largest time-stamp so far.
        """
        if end_time == "last" and self._clock == "all":
            end_time = self._histories.now()
        self._histories.finish(end_time)
        return self._changes()

    def _changes(self, refused: NDArray[np.uint32] | None = None) -> Changes:
        in_vain = self._histories.unmatched_count - self._emitted_unmatched
        if in_vain and self._unmatched == "error":
            self._emitted_unmatched += in_vain
            what = "retraction has" if in_vain == 1 else "retractions have"
            raise EventError(f"{in_vain} {what} waited for an event in vain")
        records = np.frombuffer(self._histories.changes(self._shown), change_type())
        final = None
        if self._clock == "all":
            bound = self._histories.bound()
            if bound and (self._emitted_final is None or bound > self._emitted_final):
                self._emitted_final = final = bound
        keys = self._keys.keys if self._is_keyed else None
        return Changes(records, keys, final_below=final, refused=refused)

    # ---- corrections ----------------------------------------------------------------------

    def _numbers_of_rows(
        self,
        keys: Sequence[Hashable] | NDArray[Any],
        count: int,
        codes: NDArray[np.uint8] | None,
        names: list[Hashable] | None,
    ) -> NDArray[np.uint32]:
        """The numbers of the keys of rows, 0 where no key is needed."""
        if codes is None or len(keys) != count:
            return self._numbers_of(keys, count)
        needs_none = np.zeros(count, np.bool_)
        if names is not None:
            needs_none |= (codes == RETRACT) & [name is not None for name in names]
        if self._clock == "all":
            needs_none |= (codes == ADVANCE) | (codes == COMPLETE)
        places = np.flatnonzero(~needs_none)
        numbers = np.zeros(count, np.uint32)
        chosen = (
            keys[places] if isinstance(keys, np.ndarray) else [keys[k] for k in places.tolist()]
        )
        numbers[places] = self._numbers_of(chosen, len(places))
        return numbers

    # ---- keys ------------------------------------------------------------------------------

    def _key_numbers(self, keys: Sequence[Hashable] = ()) -> KeyNumbers:
        """What knows the numbers of keys, of which some are known."""
        return KeyNumbers(keys)

    def _require_keys(self, is_keyed: bool) -> None:
        if self._is_keyed is None:
            self._is_keyed = is_keyed
        elif self._is_keyed != is_keyed:
            raise EventError(
                "events have no keys, but those before have keys"
                if self._is_keyed
                else "events have keys, but those before have none"
            )

    def _numbers_of(
        self, keys: Sequence[Hashable] | NDArray[Any], count: int
    ) -> NDArray[np.uint32]:
        """The numbers of keys, new ones in the order in which they come."""
        if len(keys) != count:
            raise EventError(f"{len(keys)} keys for {count} time-stamps")
        return self._keys.numbers_of(keys)

    def _known_number(self, key: Hashable) -> int:
        if self._is_keyed:
            if key is None:
                raise EventError("the history has keys: say which one is meant")
            return self._keys.known(key)
        if key is not None:
            raise EventError("the history has no keys")
        return 0

    # ---- what is known ---------------------------------------------------------------------

    @property
    def program(self) -> Program:
        return self._session.program

    @property
    def mode(self) -> Literal["local", "global", "naive"]:
        """The mode in use."""
        return self._session.mode

    @property
    def atoms(self) -> tuple[str, ...]:
        """The names of the atoms, in the order of bits and columns."""
        return self._session.atoms

    @property
    @guarded
    def keys(self) -> tuple[Hashable, ...]:
        """The keys so far, in the order of their first events."""
        return tuple(self._keys.keys)

    @guarded
    def latest(self, key: Hashable = None) -> VerdictArray:
        """The verdicts as they are now, in the order of time-points, without forgotten ones.

        Args:
            key: the key whose verdicts are asked for; None in histories without keys.

        Raises:
            KeyError: no event has had this key.
        """
        records = self._histories.latest(self._known_number(key))
        return VerdictArray(np.frombuffer(records, verdict_type()))

    @guarded
    def final_below(self, key: Hashable = None) -> int | None:
        """The time-stamp below which all verdicts are final; None if there is none.

        Args:
            key: the key that is meant; None means the verdicts of all keys.
        """
        return self._histories.bound(None if key is None else self._known_number(key))

    @property
    @guarded
    def earliest_pending(self) -> tuple[int, int] | None:
        """Time-stamp and offset of the earliest undecided time-point of all keys, or None."""
        return self._histories.earliest_pending()

    @property
    @guarded
    def counters(self) -> dict[str, int]:
        """Counters of what has been done so far: for diagnosis, not for decisions.

        events (judged, less those retracted since), late (those that needed corrections), refused,
        waiting; retracted, duplicates (known ids of equal events), unmatched (retractions without
        an event), awaited (those that may still find one), ids (that are known), incomplete
        (intervals); replays, replayed_chunks, replayed_events and early_stops (replays that ended
        because the state was the same as before); held_bytes (the memory for all events that are
        remembered), state_bytes (that for the states after them).
        """
        return {name: count(self._histories) for name, count in COUNTERS.items()}

    # ---- snapshots -------------------------------------------------------------------------

    @guarded
    def snapshot(self) -> bytes:
        """Return the history as bytes, for `restore` in any process.

        The snapshot does not include the formula.

        Raises:
            SnapshotError: the history is finished, or a key or an id is neither an integer nor a
                text.
        """
        return self._snapshot()

    def _snapshot(self) -> bytes:
        return snapshots.encode(self._histories, self._settings(), self._keys.keys, self._facts())

    @guarded
    def restore(self, snapshot: Buffer) -> None:
        """Go on from a snapshot of another history of the same formula, mode and settings.

        Takes as long as judging the events that are remembered.

        Raises:
            SnapshotError: the bytes are not a snapshot, or are damaged, or belong to a history of
                another formula, mode or other settings; the history is unchanged.
        """
        self._restore(snapshot)

    def _restore(self, snapshot: Buffer) -> None:
        histories = self._new_histories()
        keys, facts = snapshots.decode(snapshot, histories, self._settings())
        self._histories = histories
        self._keys = self._key_numbers(keys)
        self._emitted_unmatched = histories.unmatched_count
        self._know(facts)

    def _settings(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "atoms": list(self.atoms),
            "lateness": self._lateness,
            "wait": self._wait,
            "clock": self._clock,
            "equality": self._equality,
        }

    @guarded
    def __reduce__(self) -> tuple[Callable[..., History], tuple[object, ...]]:
        if type(self) is not History:
            raise CopyError(f"a {type(self).__name__} cannot be copied or pickled")
        chosen = {
            "lateness": self._lateness,
            "wait": self._wait,
            "clock": self._clock,
            "equality": self._equality,
            "unmatched": self._unmatched,
            "bdd": self._bdd,
            "_spacing": self._spacing,
        }
        return _again, (self.program, self.mode, chosen, self._snapshot())

    def _facts(self) -> dict[str, Any]:
        return {"is_keyed": self._is_keyed, "told_final": self._emitted_final}

    def _know(self, facts: dict[str, Any]) -> None:
        self._is_keyed = facts["is_keyed"]
        self._emitted_final = facts["told_final"]

    def __repr__(self) -> str:
        try:
            counters = self.counters
        except InUseError:
            return f"<History in mode {self.mode}, in use>"
        return (
            f"<History in mode {self.mode} after {counters['events']} events, "
            f"{counters['late']} late, {counters['refused']} refused>"
        )


def _again(program: Program, mode: Any, chosen: dict[str, Any], snapshot: bytes) -> History:
    """Return a history that goes on from a snapshot, for copies and pickles."""
    history = History(program, mode, **chosen)
    history.restore(snapshot)
    return history


def require_ids(codes: NDArray[np.uint8], names: Sequence[Hashable] | None) -> None:
    """Refuse retractions without ids.

    Raises:
        EventError: there is one.
    """
    for place in np.flatnonzero(codes == RETRACT).tolist():
        if names is None or names[place] is None:
            raise EventError(
                f"the retraction at index {place} has no id: make the history with "
                "equality=True to retract events by their key, time-stamp and atoms",
                index=place,
            )


def length_of(value: object, name: str) -> int:
    """Return a length of time as an integer of Python."""
    return count_of(value, name, " in the unit of the time-stamps")


def count_of(value: object, name: str, unit: str = "") -> int:
    """Return a number from 0 on as an integer of Python; its unit is for the error."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise MtlmonError(f"{name} is an integer{unit}, not {value!r}")
    if not 0 <= value <= LARGEST_TIME_STAMP:
        raise MtlmonError(f"{name} is from 0 to 2^63-1, not {value}")
    return int(value)


def _listed(values: Sequence[Hashable] | NDArray[Any], count: int, what: str) -> list[Hashable]:
    if len(values) != count:
        raise EventError(f"{len(values)} {what} for {count} time-stamps")
    return values.tolist() if isinstance(values, np.ndarray) else list(values)
