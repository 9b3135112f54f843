"""Monitors a running program: events come from any thread, violations go to the test's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from operator import index
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex

from mtlmon.errors import MtlmonError, TimeStampError, ViolationError
from mtlmon.support.copies import NotCopied
from mtlmon.support.time_stamps import checked_time_stamp
from mtlmon.syntax.bounds import UNITS
from mtlmon.testing import report
from mtlmon.testing.callers import Caller, ErrorsForOwner, caller
from mtlmon.testing.clocks import make_clock
from mtlmon.testing.events import given_atoms
from mtlmon.testing.limits import Limit
from mtlmon.testing.ordering import EventOrder, wait_units
from mtlmon.testing.recording import DEFAULT_KEEP
from mtlmon.testing.recordings import Recordings
from mtlmon.testing.subject import read_subject
from mtlmon.testing.times import TimeReader
from mtlmon.testing.vacuity import left_side

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Collection, Sequence
    from types import TracebackType
    from typing import Self

    from mtlmon.analysis.antecedent import Vacuous
    from mtlmon.testing.clocks import Clock
    from mtlmon.testing.logs import Listening, LogRule
    from mtlmon.testing.ordering import Wait
    from mtlmon.testing.recording import AtEnd, Atoms, EndTime, Mode
    from mtlmon.testing.recordings import AnyRecording, EventRead, Found
    from mtlmon.testing.seen import Unknown
    from mtlmon.testing.subject import Asserted
    from mtlmon.testing.times import TimeStamp

__all__ = ["LiveMonitor"]

_NO_VALUES: Mapping[str, object] = {}


class _Call(NamedTuple):
    """An item of the queue: an event, or the passing of time without an event.

    Attributes:
        time_stamp: the time-stamp of the event, or the least that later events can have.
        atoms: the atoms of the event, for policies with variables with their rows, or None if time
            passes without an event.
        is_adjustable: whether to raise the time-stamp to the previous one if it is lower.
        values: the values of the event that conditions can be about.
        number: the number of its key.
    """

    time_stamp: int
    atoms: Collection[str] | None
    is_adjustable: bool
    values: Mapping[str, object]
    number: int


class LiveMonitor(NotCopied):
    """A monitor that is fed while a program runs, and raises violations.

    Args:
        formula: a `Formula`, a text as for `check`, also with conditions on values, or a policy.
        key: the name of a value of events, or several, which divide the events into traces that are
            monitored separately, as `check` does: `event("start", task=7)`. With `listen`, fields
            of records.
        clock: the source of time-stamps for `event`: "monotonic" counts from the creation of the
            monitor, "wall" from 1970, and a function is called for each event. If the clock goes
            back, the previous time-stamp is used.
        unit: the unit of the time-stamps, one of ns, us, ms, s, m, h and d; by default that of the
            policy, or "ms" if the clock is given by name. Bounds in the text of the formula can
            then have units.
        at_end: what the end of the stream means: "decided": undecided time-points are a failure;
            "undecided-ok": they are not; "closed": no event follows, so all are decided.
        end_time: what is known about the time after the stream, as for `check`.
        mode: the mode of the `Monitor`.
        keep: how many of the last events to remember for the report; None means all.
        unknown: what `close` does about atoms of the formula that no event has, and that may be
            misspelt: "warn" (`UnknownAtomWarning`), "error" or "ignore". By default they are an
            error if events are mappings that also say which atoms do not hold, and a warning
            otherwise. Atoms that a rule of `listen` can give are not reported.
        vacuous: what `close` does if the left side of an implication has held nowhere, as for
            `check`.
        wait: how late an event may be, if events are not in the order of time, as for `check`.
            Events are monitored once none can come before them any more, at the latest by `close`;
            an event that comes later is an error of its call. With a clock, time passes up to that
            long ago.
        owner: the identifier of the thread that owns the monitor, outside of asyncio; by default
            the thread and the asyncio task that create it.

    Events can come from any thread, from callbacks of asyncio and from signal handlers; they are
    queued in the order of the calls. The thread that creates the monitor, and in asyncio the task,
    is its owner; if the monitor is created outside of asyncio, the owner is whatever the thread
    runs outside of asyncio. A violation, or the error of an event that is no such thing, is raised
    by the next call that the owner makes, at the latest by `close`. `step`, `event` and `advance`
    never raise it in other threads, tasks or callbacks, so the monitored program does not see it.

    A policy `at most 5` is violated at its sixth violation. A share such as `at most 1%` refers to
    all events, so only `close` raises the violation.

    Attributes:
        formula: the monitored formula.

    Raises:
        FormulaError: the text of the formula is invalid.
        MtlmonError: another argument is invalid.

    >>> with LiveMonitor("response IMPLIES ONCE[0,5] request") as monitor:
    ...     monitor.step(1, {"request"})
    ...     monitor.step(3, {"response"})
    """

    def __init__(
        self,
        formula: Asserted,
        *,
        key: str | Sequence[str] | None = None,
        clock: Clock | None = None,
        unit: str | None = None,
        at_end: AtEnd = "decided",
        end_time: EndTime = None,
        mode: Mode = "local",
        keep: int | None = DEFAULT_KEEP,
        unknown: Unknown = None,
        vacuous: Vacuous = "ignore",
        wait: Wait | None = None,
        owner: int | None = None,
    ) -> None:
        __tracebackhide__ = True
        if unit is not None and unit not in UNITS:
            raise MtlmonError(f"the unit is one of {', '.join(UNITS)}, not {unit!r}")
        subject = read_subject(formula, unit, "ms" if isinstance(clock, str) else None)
        self._order: EventOrder[_Call] | None = None
        if wait is not None:
            self._order = EventOrder(wait_units(wait, subject.unit))
        self._end_time = end_time
        self._recordings = Recordings(
            subject, key=key, mode=mode, at_end=at_end, keep=keep, unknown=unknown, vacuous=vacuous
        )
        self._left = left_side(self._recordings, vacuous)
        self._limit = Limit(self._recordings, self._left)
        self._seen = self._recordings.first.seen
        self._times = TimeReader(subject.unit, subject.zone)
        self.formula = subject.formula
        self._clock = None
        if clock is not None:
            self._clock = make_clock(clock, subject.unit or "ms", self._times)
        self._owner = caller() if owner is None else Caller(owner)
        self._is_closed = False
        # The violation, and the exception for it, which is only made when the owner asks: that
        # takes time, which the monitored program should not spend.
        self._violated: tuple[AnyRecording, tuple[int, int]] | None = None
        # whether the violation is one that fails, whatever follows
        self._is_decided = False
        self._failure: Exception | None = None
        self._is_forgiven = False
        self._listening: list[Listening] = []
        # Re-entrant, as a signal handler can bring an event in the middle of another one.
        self._door = RLock()
        # The largest time-stamp that was queued, and the last one that was monitored.
        self._last_time_stamp = 0
        self._monitored = 0
        self._queue: deque[_Call] = deque()
        self._work = RLock()
        self._is_working = False

    # ---- feeding -----------------------------------------------------------------------------

    def step(self, time_stamp: TimeStamp, atoms: Atoms = ()) -> None:
        """Process an event with a given time-stamp.

        Args:
            time_stamp: an integer from 0 to 2^63-1, not below any earlier one; or, if there is a
                unit, a datetime, a timedelta or seconds as a float.
            atoms: the names of the propositions that hold, or a dictionary that says for each
                name whether it holds, or gives the values that conditions are about, the key, or
                the rows of atoms with arguments, as in `{"publish": [("alice", "report")]}`.

        Raises:
            ViolationError: there is a violation, and the caller is the owner.
            TimeStampError: the time-stamp is negative, too large or decreasing, or is no time; the
                event is ignored.
            TypeError: the time-stamp is not an integer, or the atoms are not a collection of names,
                or have no key.
            MtlmonError: the monitor is closed.
        """
        __tracebackhide__ = True
        with ErrorsForOwner(self):
            stamp = self._times.read(time_stamp)
            read = self._read(atoms)
            with self._door:
                stamp = self._checked(stamp)
                self._put(stamp, read.letter, values=read.values, number=read.number)
                if self._seen.missing:
                    self._seen.note_mapping(read.atoms)
        self._after_call()

    def event(self, *atoms: str | Mapping[str, object], **values: object) -> None:
        """Process an event that happens now.

        Args:
            atoms: the names of the propositions that hold; or dictionaries as for `step`, for names
                that are no keywords of Python.
            values: the values that conditions are about, the key, or the rows of atoms with
                arguments, as in `publish=[("alice", "report")]`.

        Raises:
            ViolationError: there is a violation, and the caller is the owner.
            TypeError: a value is not of the form that the formula needs, or the key is missing.
            MtlmonError: the monitor has no clock, or is closed.
        """
        __tracebackhide__ = True
        with ErrorsForOwner(self):
            has_key = self._recordings.keys is not None
            read = self._put_event(given_atoms(atoms, values, has_key=has_key))
            if self._seen.missing and any(isinstance(one, Mapping) for one in atoms):
                with self._door:
                    self._seen.note_mapping(read.atoms)
        self._after_call()

    def notify(
        self, atoms: frozenset[str], fields: Mapping[str, object] = _NO_VALUES, source: str = ""
    ) -> None:
        """Process an event that happens now, without raising violations even to the owner.

        Args:
            atoms: the names of the propositions that hold.
            fields: other values of the event, of which the key and those that conditions are about
                are used.
            source: what the event comes from, for the message if it has no key.

        Raises:
            MtlmonError: the monitor has no clock.
        """
        if self._is_closed:
            return
        wanted, keys = self._recordings.wanted, self._recordings.keys
        try:
            if keys is not None:
                keys.require(fields, f"{source or 'the event'} has no")
            values = {name: fields[name] for name in wanted if name in fields}
            self._put_event(dict.fromkeys(atoms, True) | values if wanted else atoms)
        except MtlmonError as error:
            self.fail(error)
        self._drain(wait=False)

    def fail(self, error: Exception) -> None:
        """Make the next call of the owner raise the error."""
        if self._failure is None:
            # Frames of the monitored program would live as long as the monitor.
            is_own = isinstance(error, MtlmonError)
            self._failure = error.with_traceback(None) if is_own else error

    def advance(self, time_stamp: TimeStamp | None = None) -> None:
        """Declare that no later event is below a time-stamp, by default that of the clock.

        Raises:
            ViolationError: there is a violation, and the caller is the owner.
            TimeStampError: the time-stamp is negative or too large.
            MtlmonError: the monitor is closed, or has no clock and no time-stamp is given.
        """
        __tracebackhide__ = True
        with ErrorsForOwner(self):
            if time_stamp is None:
                self._put_now(None)
            else:
                stamp = checked_time_stamp(self._times.read(time_stamp))
                with self._door:
                    if stamp >= self._known_time:
                        self._put(self._checked(stamp), None)
        self._after_call()

    def listen(
        self,
        *rules: LogRule,
        logger: logging.Logger | str | None = None,
        level: int | str | None = None,
    ) -> None:
        """Turn log records into events, until the monitor is closed.

        Args:
            rules: the rules that map records to atoms; see `LogRule`.
            logger: the logger to listen to, or its name; by default the root logger.
            level: the level that the logger is set to in the meantime.

        Raises:
            MtlmonError: the monitor has no clock.
        """
        __tracebackhide__ = True
        from mtlmon.testing.logs import Listening

        self._require_clock()
        for rule in rules:
            self._seen.know(rule.can_give)
        self._listening.append(Listening(self, rules, logger, level))

    # ---- verdicts ----------------------------------------------------------------------------

    @property
    def violation(self) -> ViolationError | None:
        """The violation that was found, or None; this does not raise it."""
        self._drain(wait=True)
        failure = self._make_failure()
        return failure if isinstance(failure, ViolationError) else None

    def take_violation(self) -> ViolationError | None:
        """Return the violation that `check` would raise, or None; it is not raised any more.

        Use this in tests that expect a violation. The monitor stops at the violation.
        """
        self._pass_time()
        violation = self.violation
        if violation is not None:
            self._failure = None
            self._is_forgiven = True
        return violation

    def check(self) -> None:
        """Raise the violation if one is known; with a clock, let time pass first.

        Raises:
            ViolationError: the violation.
        """
        __tracebackhide__ = True
        self._pass_time()
        self._drain(wait=True)
        self._raise_failure()

    def close(self, *, place: tuple[str, int] | None = None) -> None:
        """End the stream.

        Later events are an error if they come from the owner, and ignored otherwise.

        Args:
            place: the file and line that a warning is about; by default those of the call.

        Raises:
            ViolationError: a time-point violates the formula, or is undecided although `at_end`
                does not allow that.
            TraceError: an atom of the formula occurs in no event, and that is an error.
        """
        __tracebackhide__ = True
        if not self._is_closed:
            self._pass_time()
            if self._shut():
                with self._work:
                    self._finish(place)
        self._raise_failure()

    def abandon(self) -> ViolationError | None:
        """End the stream early; undecided time-points are not a failure.

        Returns:
            The violation that was found before, or None.
        """
        self._shut()
        return self.violation

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        if error is None:
            self.close()
            return
        violation = self.abandon()
        if violation is not None and violation is not error:
            error.add_note(str(violation))

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<LiveMonitor, {state}, {self._recordings.event_count} events: {self.formula}>"

    # ---- inside ------------------------------------------------------------------------------

    def is_owner(self) -> bool:
        """Whether the owner calls."""
        return caller() == self._owner

    def _require_clock(self) -> Callable[[], SupportsIndex]:
        __tracebackhide__ = True
        if self._clock is None:
            raise MtlmonError(
                "the monitor has no clock: give it one, as in clock='monotonic', or pass "
                "time-stamps to step"
            )
        return self._clock

    def _checked(self, time_stamp: SupportsIndex) -> int:
        __tracebackhide__ = True
        number = checked_time_stamp(time_stamp)
        if self._order is None and number < self._last_time_stamp:
            raise TimeStampError(
                f"time-stamp {number} is below {self._last_time_stamp}: time-stamps must not "
                "decrease"
            )
        return number

    @property
    def _known_time(self) -> int:
        """No event is below this time; the caller holds `_door`."""
        return self._last_time_stamp if self._order is None else self._order.frontier

    def _pass_time(self) -> None:
        if self._clock is not None and not self._is_closed:
            self._put_now(None)

    def _read(self, atoms: Atoms) -> EventRead:
        __tracebackhide__ = True
        # A new key gets the next number.
        with self._door:
            return self._recordings.read(atoms)

    def _put_event(self, atoms: Atoms) -> EventRead:
        __tracebackhide__ = True
        read = self._read(atoms)
        self._put_now(read.letter, read.values, read.number)
        return read

    def _put_now(
        self,
        letter: Collection[str] | None,
        values: Mapping[str, object] = _NO_VALUES,
        number: int = 0,
    ) -> None:
        __tracebackhide__ = True
        clock = self._require_clock()
        with self._door:
            # A time-stamp below the last one is not an error here: the clock went back, or a signal
            # handler brought an event in between. It is raised to the last one.
            stamp = index(clock())
            if self._order is not None:
                late = self._order.wait if letter is None else 0
                stamp = max(stamp - late, self._order.frontier)
            self._put(stamp, letter, is_adjustable=True, values=values, number=number)

    def _put(
        self,
        time_stamp: int,
        letter: Collection[str] | None,
        *,
        is_adjustable: bool = False,
        values: Mapping[str, object] = _NO_VALUES,
        number: int = 0,
    ) -> None:
        """Queue an event; the caller holds `_door`."""
        __tracebackhide__ = True
        if self._is_closed:
            if self.is_owner():
                raise MtlmonError("the monitor is closed: no event can follow")
            return
        self._last_time_stamp = max(self._last_time_stamp, time_stamp)
        call = _Call(time_stamp, letter, is_adjustable, dict(values), number)
        if self._order is None:
            self._queue.append(call)
            return
        if letter is None:
            self._order.pass_time(time_stamp)
        else:
            self._order.add(time_stamp, call)
        self._queue.extend(self._order.released())
        if letter is None:
            self._queue.append(call)

    def _after_call(self) -> None:
        __tracebackhide__ = True
        is_owner = self.is_owner()
        self._drain(wait=is_owner)
        if is_owner:
            self._raise_failure()

    def _drain(self, *, wait: bool) -> None:
        """Process the queue, unless another thread is already doing that.

        Args:
            wait: whether to wait for that thread, so that all of the queue is processed.
        """
        while wait or self._queue:
            if not self._work.acquire(blocking=wait):
                return
            try:
                # A signal handler has interrupted this very loop, which goes on afterwards.
                if self._is_working:
                    return
                self._is_working = True
                try:
                    self._monitor_queue()
                finally:
                    self._is_working = False
            finally:
                self._work.release()
            # Look again: an item can have been queued after the last look.
            wait = False

    def _monitor_queue(self) -> None:
        while self._queue:
            time_stamp, letter, is_adjustable, values, number = self._queue.popleft()
            if self._is_decided or self._failure is not None:
                continue
            if is_adjustable:
                time_stamp = max(time_stamp, self._monitored)
            recordings = self._recordings
            try:
                if letter is None:
                    self._note(recordings.advance(time_stamp))
                else:
                    conditions = recordings.conditions
                    if conditions is not None:
                        letter = conditions.one(time_stamp, frozenset(letter), values, number)
                    self._note(recordings.step(time_stamp, letter, number))
                    if self._left is not None:
                        self._left.step(time_stamp, letter, number)
            except MtlmonError as error:
                # This may be a thread of the monitored program, so keep the error for the owner.
                # Drop its frames, which would keep BDDs alive longer than their manager.
                self._failure = error.with_traceback(None)
            except Exception as error:
                self._failure = error
            self._monitored = time_stamp

    def _note(self, found: Found) -> bool:
        """Store the first violation among verdicts; return whether the policy has failed."""
        for recording, verdict in found:
            if verdict.value is False:
                if self._violated is None:
                    self._violated = recording, (verdict.time_stamp, verdict.offset)
                if self._limit.is_exceeded_for_good:
                    self._is_decided = True
                    return True
        return False

    def _shut(self) -> bool:
        """Take no more events; return whether this call does so, and none before."""
        for one in reversed(self._listening):
            one.stop()
        with self._door:
            is_first = not self._is_closed
            self._is_closed = True
            if is_first and self._order is not None:
                self._queue.extend(self._order.finish())
        self._drain(wait=True)
        return is_first

    def _finish(self, place: tuple[str, int] | None) -> None:
        __tracebackhide__ = True
        if self._is_decided or self._failure is not None:
            return
        recordings, left = self._recordings, self._left
        if self._note(recordings.finish(self._end_time)):
            return
        if left is not None:
            left.finish(self._end_time)
        violation = None
        if self._violated is not None:
            violation = self._limit.judge(report.violation(*self._violated))
        still_open = recordings.open
        has_failed = violation is not None or bool(still_open)
        has_failed = has_failed or (left is not None and left.is_failure)
        self._seen.finish(recordings.event_count, has_failed=has_failed, place=place)
        if not has_failed:
            for one in self._listening:
                self._seen.note_dropped(one.dropped(self._seen.atoms), place)
        if violation is not None:
            self._failure = violation
        elif still_open:
            self._failure = report.undecided(still_open[0], len(still_open) - 1)
        elif left is not None:
            self._failure = left.failure(place)

    def _make_failure(self) -> Exception | None:
        if self._failure is None and self._is_decided and not self._is_forgiven:
            assert self._violated is not None
            self._failure = self._limit.judge(report.violation(*self._violated))
        return self._failure

    def _raise_failure(self) -> None:
        __tracebackhide__ = True
        failure = self._make_failure()
        if failure is not None:
            raise failure
