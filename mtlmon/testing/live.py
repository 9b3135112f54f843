"""Monitoring while the test runs: events from any thread, the verdict in the test's own."""

from __future__ import annotations

import sys
from collections import deque
from operator import index
from threading import RLock, get_ident
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.engine.native import read_atoms
from mtlmon.errors import MtlmonError, TimeStampError, ViolationError
from mtlmon.syntax.bounds import UNITS
from mtlmon.testing import report
from mtlmon.testing.clocks import make_clock
from mtlmon.testing.recording import DEFAULT_KEEP, Recording, read_formula

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from mtlmon._core import Verdict
    from mtlmon.syntax.formula import Formula
    from mtlmon.testing.clocks import Clock
    from mtlmon.testing.logs import LogRule
    from mtlmon.testing.recording import AtEnd, Atoms, EndTime, Mode
    from mtlmon.testing.seen import Unknown

__all__ = ["LiveMonitor"]

LARGEST_TIME_STAMP = (1 << 63) - 1


class _Call(NamedTuple):
    """What is queued: an event, or time that passes without one.

    Attributes:
        time_stamp: of the event; or no later one comes below it.
        atoms: of the event; None for time that passes.
        is_adjustable: whether a time-stamp below the one before is to be raised to that.
    """

    time_stamp: int
    atoms: frozenset[str] | None
    is_adjustable: bool


class LiveMonitor:
    """A monitor that is fed while a program runs, and raises what it finds.

    Args:
        formula: a `Formula`, or a text that `parse` reads.
        clock: stamps the events of `event`: "monotonic" counts from the making of the monitor on,
            "wall" from 1970 on, a function is called for each event. A clock that goes back is
            taken to stand still.
        unit: of the time-stamps, one of ns, us, ms, s, m, h and d; "ms" where a clock is given
            by name. Bounds in the text of a formula may then carry units.
        at_end: what the end of the stream means: "decided": no time-point may be left undecided;
            "undecided-ok": they may; "closed": no event follows, so all are decided.
        end_time: for `close`, as for `check`.
        mode: that of the `Monitor`.
        keep: how many of the last events to remember for the report; None for all.
        unknown: what `close` does about atoms of the formula that no event has, which may be
            misspelt: "warn" (`UnknownAtomWarning`), "error" or "ignore" them. By default they are
            an error if events are mappings that also say what does not hold, else a warning. An
            atom that a rule of `listen` may give is no mistake.
        owner: the identifier of the thread that is to be the owner; by default whoever makes the
            monitor.

    Events may come from any thread, from callbacks of asyncio and from signal handlers; they are
    queued in the order of the calls. Whoever makes the monitor (the thread, and in asyncio the
    task) is its owner. A violation is raised by the next call that the owner makes, and by
    `close` at the latest, in nobody else's thread or task: the program that is watched never sees
    it.

    Attributes:
        formula: that is monitored.

    Raises:
        FormulaError: the formula's text cannot be read.
        MtlmonError: another argument is none of those named here.

    >>> with LiveMonitor("response IMPLIES ONCE[0,5] request") as monitor:
    ...     monitor.step(1, {"request"})
    ...     monitor.step(3, {"response"})
    """

    def __init__(
        self,
        formula: Formula | str,
        *,
        clock: Clock | None = None,
        unit: str | None = None,
        at_end: AtEnd = "decided",
        end_time: EndTime = None,
        mode: Mode = "local",
        keep: int | None = DEFAULT_KEEP,
        unknown: Unknown = None,
        owner: int | None = None,
    ) -> None:
        __tracebackhide__ = True
        if isinstance(clock, str) and unit is None:
            unit = "ms"
        if unit is not None and unit not in UNITS:
            raise MtlmonError(f"the unit is one of {', '.join(UNITS)}, not {unit!r}")
        self.formula = read_formula(formula, unit)
        self._unit = unit
        self._end_time = end_time
        self._recording = Recording(
            self.formula, unit=unit, mode=mode, at_end=at_end, keep=keep, unknown=unknown
        )
        self._clock = None if clock is None else make_clock(clock, unit or "ms")
        self._owner = (get_ident(), _current_task()) if owner is None else (owner, None)
        self._is_closed = False
        # What was found, and the exception that is made of it only when somebody asks: that takes
        # time, which the program that is watched should not spend.
        self._violated: tuple[int, int] | None = None
        self._failure: Exception | None = None
        self._is_forgiven = False
        self._on_close: list[Callable[[], None]] = []
        # Re-entrant: a signal handler may come with an event in the middle of another one.
        self._door = RLock()
        # The largest time-stamp that came in, and the last one that was monitored.
        self._last_time_stamp = 0
        self._monitored = 0
        self._queue: deque[_Call] = deque()
        self._work = RLock()
        self._is_working = False

    # ---- feeding -----------------------------------------------------------------------------

    def step(self, time_stamp: int, atoms: Atoms = ()) -> None:
        """An event with a time-stamp of its own.

        Args:
            time_stamp: integer from 0 to 2^63-1, not below any before.
            atoms: the names of the propositions that hold, or a dictionary that says for each
                name whether it holds.

        Raises:
            ViolationError: to the owner.
            TimeStampError: negative, too large or decreasing; the event is not taken.
            TypeError: the time-stamp is no integer, or the atoms no collection of names.
            MtlmonError: the monitor is closed.
        """
        __tracebackhide__ = True
        letter = read_atoms(atoms)
        with self._door:
            self._put(self._checked(time_stamp), letter)
            if self._recording.seen.missing:
                self._recording.seen.note_mapping(atoms)
        self._after_call()

    def event(self, *atoms: str) -> None:
        """An event of this moment, with the atoms that hold.

        Raises:
            ViolationError: to the owner.
            MtlmonError: the monitor has no clock, or is closed.
        """
        __tracebackhide__ = True
        self._put_now(read_atoms(atoms))
        self._after_call()

    def notify(self, atoms: frozenset[str]) -> None:
        """An event of this moment, from code that must not see an exception, not even the owner's.

        Raises:
            MtlmonError: the monitor has no clock.
        """
        if self._is_closed:
            return
        try:
            self._put_now(atoms)
        except TimeStampError as error:
            self.fail(error)
        self._drain(wait=False)

    def fail(self, error: Exception) -> None:
        """Let the next call of the owner raise the error."""
        if self._failure is None:
            self._failure = error

    def advance(self, time_stamp: int | None = None) -> None:
        """No later event comes below the time-stamp, by default the clock's.

        Raises:
            ViolationError: to the owner.
            TimeStampError: negative or too large.
            MtlmonError: the monitor has no clock and no time-stamp is given, or it is closed.
        """
        __tracebackhide__ = True
        if time_stamp is None:
            self._put_now(None)
        else:
            with self._door:
                if time_stamp >= self._last_time_stamp:
                    self._put(self._checked(time_stamp), None)
        self._after_call()

    def listen(
        self,
        *rules: LogRule,
        logger: logging.Logger | str | None = None,
        level: int | str | None = None,
    ) -> None:
        """Make events of what is logged, until the monitor is closed.

        Args:
            rules: what the records are mapped to; see `LogRule`.
            logger: the logger, or its name, at which to listen; by default the root.
            level: that the logger is set to meanwhile, so that records from this level on arrive.

        Raises:
            MtlmonError: the monitor has no clock.
        """
        __tracebackhide__ = True
        from mtlmon.testing.logs import listening

        self._require_clock()
        for rule in rules:
            self._recording.seen.know(rule.can_give)
        self._on_close.append(listening(self, rules, logger, level))

    # ---- verdicts ----------------------------------------------------------------------------

    @property
    def violation(self) -> ViolationError | None:
        """The violation that was found, if there is one; looking does not raise it."""
        self._drain(wait=True)
        failure = self._make_failure()
        return failure if isinstance(failure, ViolationError) else None

    def take_violation(self) -> ViolationError | None:
        """What `check` would raise, if anything; it will not be raised any more.

        For tests in which a violation is what should happen. The monitor has stopped at it.
        """
        self._pass_time()
        violation = self.violation
        if violation is not None:
            self._failure = None
            self._is_forgiven = True
        return violation

    def check(self) -> None:
        """Raise the violation that is known by now; with a clock, let time pass first.

        Raises:
            ViolationError: the violation.
        """
        __tracebackhide__ = True
        self._pass_time()
        self._drain(wait=True)
        self._raise_failure()

    def close(self, *, place: tuple[str, int] | None = None) -> None:
        """End the stream.

        After that, events are an error if they are the owner's, else they are ignored.

        Args:
            place: the file and line that a warning is about; by default those of the call.

        Raises:
            ViolationError: a time-point violates the formula, or is undecided where that is not
                allowed.
            TraceError: no event has an atom of the formula, and that is an error.
        """
        __tracebackhide__ = True
        if not self._is_closed:
            self._pass_time()
            self._shut()
            self._finish(place)
        self._raise_failure()

    def abandon(self) -> ViolationError | None:
        """End the stream where it broke off: what it left undecided is no failure.

        Returns:
            The violation that was found before, if there is one.
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
        return f"<LiveMonitor, {state}, {self._recording.event_count} events: {self.formula}>"

    # ---- inside ------------------------------------------------------------------------------

    def _is_owner(self) -> bool:
        thread, task = self._owner
        return thread == get_ident() and (task is None or task is _current_task())

    def _require_clock(self) -> Callable[[], int]:
        __tracebackhide__ = True
        if self._clock is None:
            raise MtlmonError(
                "the monitor has no clock: give it one, as in clock='monotonic', or pass "
                "time-stamps to step"
            )
        return self._clock

    def _checked(self, time_stamp: int) -> int:
        __tracebackhide__ = True
        number = index(time_stamp)
        if not 0 <= number <= LARGEST_TIME_STAMP:
            raise TimeStampError(f"time-stamp {number} is not between 0 and 2^63-1")
        if number < self._last_time_stamp:
            raise TimeStampError(
                f"time-stamp {number} is below {self._last_time_stamp}: time-stamps must not "
                "decrease"
            )
        return number

    def _pass_time(self) -> None:
        if self._clock is not None and not self._is_closed:
            self._put_now(None)

    def _put_now(self, letter: frozenset[str] | None) -> None:
        __tracebackhide__ = True
        clock = self._require_clock()
        with self._door:
            # A time-stamp below the last one is no error here: the clock went back, or a signal
            # handler came with an event in between. It is taken for the last one.
            self._put(index(clock()), letter, is_adjustable=True)

    def _put(
        self, time_stamp: int, letter: frozenset[str] | None, *, is_adjustable: bool = False
    ) -> None:
        """Queue an event, the door being held."""
        __tracebackhide__ = True
        if self._is_closed:
            if self._is_owner():
                raise MtlmonError("the monitor is closed: no event can follow")
            return
        self._last_time_stamp = max(self._last_time_stamp, time_stamp)
        self._queue.append(_Call(time_stamp, letter, is_adjustable))

    def _after_call(self) -> None:
        __tracebackhide__ = True
        is_owner = self._is_owner()
        self._drain(wait=is_owner)
        if is_owner:
            self._raise_failure()

    def _drain(self, *, wait: bool) -> None:
        """Monitor what is queued, unless another thread is at it already.

        wait: until that thread is done, so that all that was queued is monitored.
        """
        while wait or self._queue:
            if not self._work.acquire(blocking=wait):
                return
            try:
                # Whoever is interrupted in the middle of it goes on afterwards.
                if self._is_working:
                    return
                self._is_working = True
                try:
                    self._monitor_queue()
                finally:
                    self._is_working = False
            finally:
                self._work.release()
            # What came in after the last look is not left lying about.
            wait = False

    def _monitor_queue(self) -> None:
        while self._queue:
            time_stamp, letter, is_adjustable = self._queue.popleft()
            if self._violated is not None or self._failure is not None:
                continue
            if is_adjustable:
                time_stamp = max(time_stamp, self._monitored)
            try:
                if letter is None:
                    self._note(self._recording.advance(time_stamp))
                else:
                    self._note(self._recording.step(time_stamp, letter))
            except MtlmonError as error:
                # This may be a thread of the program that is watched: tell the owner. Without its
                # frames, which would keep the engine's BDDs alive longer than their manager.
                self._failure = error.with_traceback(None)
            except Exception as error:
                self._failure = error
            self._monitored = time_stamp

    def _note(self, verdicts: list[Verdict]) -> bool:
        """Note the first violation among verdicts; return whether there is one."""
        for verdict in verdicts:
            if verdict.value is False:
                self._violated = verdict.time_stamp, verdict.offset
                return True
        return False

    def _shut(self) -> None:
        for undo in reversed(self._on_close):
            undo()
        self._on_close.clear()
        with self._door:
            self._is_closed = True
        self._drain(wait=True)

    def _finish(self, place: tuple[str, int] | None) -> None:
        __tracebackhide__ = True
        if self._violated is not None or self._failure is not None:
            return
        if self._note(self._recording.finish(self._end_time)):
            return
        recording = self._recording
        is_open = bool(recording.undecided) and recording.at_end == "decided"
        recording.seen.finish(recording.event_count, has_failed=is_open, place=place)
        if is_open:
            self._failure = report.undecided(recording)

    def _make_failure(self) -> Exception | None:
        if self._failure is None and self._violated is not None and not self._is_forgiven:
            self._failure = report.violation(self._recording, self._violated)
        return self._failure

    def _raise_failure(self) -> None:
        __tracebackhide__ = True
        failure = self._make_failure()
        if failure is not None:
            raise failure


def _current_task() -> object:
    """The task of asyncio that runs in this thread, if there is one."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
