"""`mtlmon.live`: a run to which a program gives rows as they come.

It is a run of `mtlmon.check`, with the same works and options, on a log that is given in pieces:
`Live` hands on a piece, and lets the run go on until it asks for more.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, wraps
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Unpack, cast

from mtlmon.errors import InUseError, MtlmonError, RunError, SnapshotError
from mtlmon.run.answers import Answer, Answers
from mtlmon.run.failure import VIOLATION
from mtlmon.run.formula_judge import FormulaJudge
from mtlmon.run.judging import PolicyWork
from mtlmon.run.keywords import LiveOptions, spec_of
from mtlmon.run.late_work import LateLines, LateWork
from mtlmon.run.library import Program, advised, run_of
from mtlmon.support.copies import NotCopied
from mtlmon.support.extras import load_extra
from mtlmon.support.option_names import OF_LIVE
from mtlmon.support.refusals import refused
from mtlmon.support.snapshot_parts import damaged, joined_parts, sealed, split_parts, unsealed
from mtlmon.tables.given import GivenRows
from mtlmon.text.given import GivenText

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
    from typing import Concatenate, ParamSpec, TypeVar

    from mtlmon.checking.log_check import LogCheck
    from mtlmon.policy.limits import PolicyCounts
    from mtlmon.run.idle import TimedCheckpointedWork
    from mtlmon.run.library import Policies
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.formats.files import SupportsArrowStream

    _P = ParamSpec("_P")
    _R = TypeVar("_R")

    Rows = Mapping[str, Any] | Sequence[Mapping[str, Any]] | SupportsArrowStream | str | bytes
    """A row, several of them, a table or frame; or lines of a text log."""

__all__ = ["Live", "live"]

pa: Any = load_extra("pyarrow", "tables")

_KIND = b"mtlmon live 1\n"
_PARTS = 5


class _LiveProgram(Program):
    """A program that knows the work of its run."""

    def __init__(self) -> None:
        super().__init__()
        self.work: TimedCheckpointedWork | None = None
        self.make_summary: Callable[[float], str] | None = None
        self.has_violation: Callable[[], bool] | None = None

    def begin(
        self, work: Any, summary: Callable[[float], str], has_violation: Callable[[], bool]
    ) -> None:
        self.work, self.make_summary, self.has_violation = work, summary, has_violation


class _PastPart:
    """Takes the place of the part of a log that an earlier run has checked, and nobody has now."""

    def skip(self, *_: object, **__: object) -> Iterator[None]:
        """Do nothing: the next rows are those behind the part."""
        return iter(())

    def seek(self, mark: object) -> bool:
        """Return that nothing is to be read again."""
        return True

    def forget_until(self, position: int) -> None:
        """Keep nothing."""

    def add(self, block: memoryview) -> None:
        """Keep nothing."""


def _locked(
    method: Callable[Concatenate[Live, _P], _R],
) -> Callable[Concatenate[Live, _P], _R]:
    """Let one thread at a time call a method; the others wait."""

    @wraps(method)
    def call(self: Live, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if self._owner == get_ident():
            raise InUseError("this run is in use: a function that it calls cannot call it")
        with self._lock:
            self._owner = get_ident()
            try:
                return method(self, *args, **kwargs)
            finally:
                self._owner = None

    return call


class Live(NotCopied):
    """A run to which rows are given as they come; made by `mtlmon.live`.

    Each call returns the answers that are known by then and that no call has returned before.
    Several threads may use one run: calls wait for each other, in one lock. The methods whose names
    begin with `a` do the same for asyncio, in a thread of the run, in the order of the calls.

    A run is a context manager, which ends the log unless there was an error.
    """

    def __init__(
        self,
        spec: RunSpec,
        steps: Steps,
        host: _LiveProgram,
        snapshot: bytes | None,
    ) -> None:
        self._lock = Lock()
        self._owner: int | None = None
        self._spec = spec
        self._steps = steps
        self._host = host
        self._given = cast("GivenRows | GivenText", spec.log.given)
        self._status: int | None = None
        self._error: BaseException | None = None
        self._is_closed = self._is_ended = False
        self._start = time.perf_counter()
        self._thread_lock = Lock()
        self._thread: ThreadPoolExecutor | None = None
        # the answers that no call has returned, and a time to pass once there are rows
        self._left: list[pa.RecordBatch] = []
        self._passed: object = None
        # and rows to count then
        self._counted: list[tuple[Any, Any, int]] = []
        with advised(spec):
            # opens what the policies read besides the log
            next(steps)
        if snapshot is not None:
            try:
                self._restore(snapshot)
            except BaseException:
                steps.close()
                raise

    # ---- rows ------------------------------------------------------------------------------

    @_locked
    def feed(self, rows: Rows) -> Answers:
        """Take the next rows, and return what is known now.

        Args:
            rows: a row as a mapping from columns to values, where columns that are missing are
                null; a list of rows; a record batch, table or data frame of pyarrow, pandas or
                Polars, which must have all columns; or, if the log is text, lines of it.

        Raises:
            TypeError: these are no rows. The run is as it was.
            MtlmonError: a row cannot be used, or a limit is reached; `answers` has what was known
                before. The run has ended, and its later calls raise RunError.
        """
        self._require_open()
        self._put(rows)
        if self._status is not None:
            # only the first violation was wanted, and is known
            self._given.drop()
            return Answers()
        self._resume()
        if self._work.known_time is not None:
            counted, self._counted = self._counted, []
            for one in counted:
                self._count(*one)
            if self._passed is not None:
                passed, self._passed = self._passed, None
                self._pass(passed)
        return self._taken()

    def _put(self, rows: Any) -> None:
        given = self._given
        if isinstance(given, GivenText):
            if not isinstance(rows, str | bytes):
                raise TypeError(
                    f"this log is text: give lines of it, not {type(rows).__name__}; for rows, "
                    "leave text=True out"
                )
            given.put(rows.encode() if isinstance(rows, str) else rows)
        elif isinstance(rows, Mapping):
            given.put([rows])
        elif isinstance(rows, pa.RecordBatch):
            given.put(rows)
        elif hasattr(rows, "__arrow_c_stream__"):
            with pa.RecordBatchReader.from_stream(rows) as reader:
                for batch in reader:
                    given.put(batch)
        elif isinstance(rows, str | bytes):
            raise TypeError("a row is a mapping; for lines of a text log, add text=True")
        elif isinstance(rows, Sequence) and all(isinstance(one, Mapping) for one in rows):
            if rows:
                given.put(rows)
        else:
            raise TypeError(
                "rows are a mapping, a list of mappings, or a table or data frame of pyarrow, "
                f"pandas or Polars; not {type(rows).__name__}"
            )

    @_locked
    def pass_time(self, time: Any) -> Answers:
        """Declare that no row below a time comes any more, and return what is known now.

        Rows below it come too late from now on. Before the first row, this waits for that row.
        What is decided by time alone is known once it has passed as far as the formula looks ahead.

        Args:
            time: a time as rows have it, or a time-stamp.

        Raises:
            MtlmonError: this is no time, or a limit is reached, as for `feed`.
        """
        self._require_open()
        if self._spec.times.clock == "key":
            raise RunError(refused("clock, pass_time"))
        if self._spec.log.signature is not None:
            raise RunError(refused("pass_time, signature"))
        if self._work.known_time is None and not self._work.has_late_rows:
            # rows have not shown how tables write times
            self._passed = self._time_stamp(time) if self._work.times is None else time
        else:
            self._pass(time)
        return self._taken()

    def _pass(self, time: Any) -> None:
        time_stamp = self._time_stamp(time)
        with self._ending():
            if self._work.release(time_stamp):
                self._given.waits = False
                self._resume()
            known = self._work.known_time
            if known is not None and time_stamp > known:
                self._work.pass_time(time_stamp)

    @_locked
    def complete(self, start: Any, end: Any, count: int) -> Answers:
        """Declare how many rows have times in an interval, and return what is known now.

        Exactly `count` rows, of all keys, have times from `start` on that are below `end`, whether
        they have come or not; rows that were taken back do not count. Once they are there, and so
        is all that comes before `start`, time has passed up to `end`, and what is decided below it
        is final. Before the first row, this waits for that row.

        A call that is so late that rows from `start` on may be forgotten, and others came before
        them, changes nothing, and counts as a row that comes too late.

        Args:
            start: a time as rows have it, or a time-stamp; None for the beginning.
            end: likewise, without None.
            count: how many rows there are.

        Raises:
            RunError: late rows are not remembered, or each key has its own time.
            MtlmonError: these are no times, or the interval is empty, or there are more rows
                already. A row that comes later, and is one too many, is an error of `feed`.
        """
        self._require_open()
        if self._spec.times.lateness is None:
            raise RunError("complete needs lateness=, so that late rows are remembered")
        if self._spec.times.clock == "key":
            with advised(self._spec):
                raise RunError(refused("clock, complete", given="--complete"))
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 1 << 63:
            raise MtlmonError(f"{count!r} is no number of rows: it is an integer from 0 on")
        if self._work.known_time is None:
            self._counted.append((start, end, count))
        else:
            self._count(start, end, count)
        return self._taken()

    def _count(self, start: Any, end: Any, count: int) -> None:
        first = 0 if start is None else self._time_stamp(start)
        last = self._time_stamp(end)
        if first >= last:
            raise MtlmonError(f"the interval from {first} to below {last} is empty")
        with self._ending():
            assert isinstance(self._work, LateWork)
            self._work.count_events(first, last, count)

    def _time_stamp(self, time: Any) -> int:
        times = self._work.times
        if times is None:
            if isinstance(time, bool) or not isinstance(time, int) or not 0 <= time < 1 << 63:
                raise MtlmonError(f"{time!r} is no time-stamp: these are numbers from 0 to 2^63-1")
            return time
        try:
            column = pa.array([time])
        except (pa.ArrowException, TypeError, OverflowError):
            raise MtlmonError(f"{time!r} is no time") from None
        found, faults = times.read(column)
        if faults is not None and faults[0]:
            raise MtlmonError(times.message(column, 0, int(faults[0]), self._spec.option_names))
        return int(found[0])

    @_locked
    def end(self) -> Answers:
        """End the log, and return the answers that are left; more calls return none.

        Raises:
            MtlmonError: as for `feed`.
        """
        if not self._is_ended:
            self._require_open()
            self._given.end()
            self._resume()
            self._is_ended = True
        return self._taken()

    @_locked
    def answers(self) -> Answers:
        """Return the answers that no call has returned: what was known before an error."""
        return self._taken()

    # ---- going on --------------------------------------------------------------------------

    @property
    def _work(self) -> TimedCheckpointedWork:
        assert self._host.work is not None
        return self._host.work

    def _require_open(self) -> None:
        if self._error is not None:
            what = str(self._error) or type(self._error).__name__
            raise RunError(f"the run has ended with an error: {what}") from self._error
        if self._is_closed or self._is_ended:
            raise RunError("the run has ended: no more rows can come")

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Let an error end the run; what was known before is kept."""
        try:
            with advised(self._spec):
                yield
        except BaseException as error:
            self._error = error
            self._steps.close()
            self._take()
            raise

    def _resume(self) -> None:
        """Let the run go on until it has no more rows, or has ended."""
        with self._ending():
            try:
                while self._status is None and not self._given.waits:
                    next(self._steps)
            except StopIteration as stop:
                self._status = stop.value

    def _take(self) -> None:
        output = self._host.output
        if output is not None:
            self._left += output.take()

    def _taken(self) -> Answers:
        self._take()
        batches, self._left = self._left, []
        return Answers(batches)

    # ---- what is known ---------------------------------------------------------------------

    @property
    def status(self) -> int | None:
        """The exit status that the command has, once the log has ended; else None.

        It is 0, or 1 if a policy is violated more often than it may be.
        """
        return self._status

    @property
    @_locked
    def has_violation(self) -> bool:
        """Whether a policy that matters is violated more often than it may be, so far."""
        if self._status is not None:
            return self._status == VIOLATION
        assert self._host.has_violation is not None
        return self._has_rows and self._host.has_violation()

    @property
    @_locked
    def counts(self) -> dict[str | None, PolicyCounts]:
        """How many time-points are true, false and undecided so far, as `Run.counts` has it.

        They are empty before the first row.

        Raises:
            RunError: as for `Run.counts`.
        """
        judging = self._host.judging
        with advised(self._spec):
            return judging.counts if judging is not None and self._has_rows else {}

    @property
    @_locked
    def summary(self) -> str:
        """Counts, speed and memory of the run so far, as the command tells with `--summary`.

        It is empty before the first row.
        """
        assert self._host.make_summary is not None
        if not self._has_rows:
            return ""
        return self._host.make_summary(time.perf_counter() - self._start)

    @property
    def _has_rows(self) -> bool:
        """Whether rows have shown the types of columns, which policies need; or the log has ended.

        What is asked of policies before would settle their types without rows.
        """
        source = self._source
        return self._is_ended or not hasattr(source, "schema") or source.schema is not None

    @property
    def messages(self) -> list[str]:
        """What the run has remarked so far, a sentence each."""
        return list(self._host.messages)

    # ---- snapshots -------------------------------------------------------------------------

    @_locked
    def snapshot(self) -> bytes:
        """Return the state of the run, for `mtlmon.live(..., snapshot=)` in another process.

        What has been returned as answers is not part of it.

        Raises:
            RunError: the run has ended, or something of it cannot be saved, with the reason.
        """
        self._require_open()
        with advised(self._spec):
            while self._work.settle():
                pass
            self._take()
            head = {"passed": self._passed, "counted": self._counted}
            try:
                text = json.dumps(head).encode()
            except TypeError:
                given = [self._passed, *self._counted]
                raise RunError(
                    f"{next(one for one in given if one)!r} was given before the first row: no "
                    "snapshot is known before a row"
                ) from None
            source = self._source
            rows = b"" if source is None else source.given_state()
            check = self._check
            if check is not None:
                check.saves_ticks = True
            moment = b"" if check is None else json.dumps(check.moment).encode()
            late = b"" if self._late_lines is None else self._late_lines.given_state()
            return sealed(_KIND, joined_parts([text, rows, self._work.snapshot(), moment, late]))

    @property
    def _late_lines(self) -> LateLines | None:
        """What finds lines of text that come too late, if it is not part of the log."""
        late = getattr(self._work, "late", None)
        return late if isinstance(late, LateLines) else None

    @property
    def _check(self) -> LogCheck | None:
        """The check of policies without variables, if their rows are in order."""
        judges = self._work.judges if isinstance(self._work, PolicyWork) else ()
        return next((one.check for one in judges if isinstance(one, FormulaJudge)), None)

    @property
    def _source(self) -> Any:
        """The log, if what it knows is not part of the snapshots of the work."""
        return getattr(self._work, "source", None)

    def _restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot.

        Raises:
            SnapshotError: it is damaged, or of other policies or options.
        """
        if not isinstance(snapshot, bytes):
            raise TypeError(f"live(snapshot=...) takes bytes, not {type(snapshot).__name__}")
        try:
            with advised(self._spec):
                self._restore_parts(snapshot)
        except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
            if isinstance(error, MtlmonError):
                raise
            raise SnapshotError("the snapshot is of other policies or options") from error

    def _restore_parts(self, snapshot: bytes) -> None:
        work: Any = self._work
        parts = split_parts(unsealed(_KIND, snapshot))
        if len(parts) != _PARTS:
            raise damaged()
        text, rows, state, moment, late = parts
        head = json.loads(text)
        self._passed, self._counted = head["passed"], list(map(tuple, head["counted"]))
        # what has been read is not read again, to be known again
        past = _PastPart()
        work.part_checked = work.rows_read = past
        source = self._source
        columns = None if isinstance(self._given, GivenText) else source.columns_of(rows)
        if columns is not None:
            # the types of columns, which plans need
            self._given.put(columns)
            while not self._given.waits:
                next(self._steps)
        work.restore(state, 0)
        if source is not None:
            source.restore_given(rows)
        if rows:
            for _ in work.skip(None):
                pass
        if (check := self._check) is not None:
            check.moment = json.loads(moment)
        if self._late_lines is not None:
            self._late_lines.restore_given(late)
        # nothing is kept of what is checked from now on
        work.part_checked = None

    # ---- the end ---------------------------------------------------------------------------

    @_locked
    def close(self) -> None:
        """Leave the run without ending the log, and close its files."""
        self._is_closed = True
        self._steps.close()

    # ---- asyncio ---------------------------------------------------------------------------

    async def afeed(self, rows: Rows) -> Answers:
        """Do the same as `feed` without blocking the event loop.

        A call that is cancelled goes on, as far as the run is concerned: `answers` has what it
        would have returned.
        """
        return await self._in_thread(self.feed, rows)

    async def apass_time(self, time: Any) -> Answers:
        """Do the same as `pass_time` without blocking the event loop."""
        return await self._in_thread(self.pass_time, time)

    async def acomplete(self, start: Any, end: Any, count: int) -> Answers:
        """Do the same as `complete` without blocking the event loop."""
        return await self._in_thread(self.complete, start, end, count)

    async def aend(self) -> Answers:
        """Do the same as `end` without blocking the event loop."""
        return await self._in_thread(self.end)

    async def aiter(self, rows: AsyncIterable[Rows]) -> AsyncIterator[Answer]:
        """Feed what an asynchronous iterator yields, end the log, and yield the answers.

        Args:
            rows: yields what `feed` takes.

        Raises:
            MtlmonError: as for `feed`, behind the answers that were known before.
        """
        try:
            async for some in rows:
                for answer in await self.afeed(some):
                    yield answer
            for answer in await self.aend():
                yield answer
        except MtlmonError:
            for answer in self.answers():
                yield answer
            raise

    async def _in_thread(self, method: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call a method in the only thread of the run, so that calls keep their order."""
        with self._thread_lock:
            if self._thread is None:
                # its thread ends once nobody has it any more
                self._thread = ThreadPoolExecutor(1, "mtlmon-live")
            thread = self._thread
        call = partial(method, *args, **kwargs)
        future = asyncio.get_running_loop().run_in_executor(thread, call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(self._keep)
            raise

    def _keep(self, future: asyncio.Future[Any]) -> None:
        """Keep the answers of a call for which nobody waits any more."""
        if future.cancelled() or future.exception() is not None:
            return
        found = future.result()
        if isinstance(found, Answers):
            with self._lock:
                self._left = [*found.batches(), *self._left]

    async def __aenter__(self) -> Live:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self._in_thread(self._leave, kind)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._leave(kind)

    def _leave(self, kind: object) -> None:
        if kind is None and self._error is None and not self._is_closed:
            rest = self.end()
            self._left = list(rest.batches())
        self.close()

    def __repr__(self) -> str:
        if self._status is not None:
            state = f"status {self._status}"
        elif self._error is not None:
            state = "ended with an error"
        else:
            state = "closed" if self._is_closed else "open"
        return f"<Live, {state}>"


def live(
    policies: Policies,
    *,
    text: bool = False,
    snapshot: bytes | None = None,
    **options: Unpack[LiveOptions],
) -> Live:
    """Check policies on rows that are given as they come, with the options of `mtlmon.check`.

    Args:
        policies: as for `mtlmon.check`.
        text: whether the log is text, whose lines are given, and not rows.
        snapshot: what `Live.snapshot` of an earlier run has returned, with which this run goes on;
            the policies and options must be the same.
        options: those of `mtlmon.check` that do not need all rows at once, or files.

    Returns:
        The run, to which rows are given.

    Raises:
        TypeError: there is no such option, or it takes values of another type.
        RunError: options contradict each other, or a policy file cannot be read.
        SnapshotError: the snapshot is damaged, or of other policies or options.
        MtlmonError: a policy is not valid.

    >>> monitor = live("policy answer: ask IMPLIES EVENTUALLY[0,5] reply", event="what", key="user")
    >>> monitor.feed({"ts": 1, "user": "ann", "what": "ask"})
    Answers([])
    >>> for answer in monitor.feed({"ts": 4, "user": "ann", "what": "reply"}):
    ...     print(answer["user"], answer.time, answer.verdict)
    ann 1 True
    ann 4 True
    >>> monitor.feed({"ts": 5, "user": "bob", "what": "ask"})
    Answers([])
    >>> [(answer["user"], answer.verdict) for answer in monitor.pass_time(11)]
    [('bob', False)]
    """
    if not isinstance(text, bool):
        raise TypeError(f"live(text=...) takes True or False, not {text!r}")
    host = _LiveProgram()
    spec = spec_of("live", options, host, LiveOptions, OF_LIVE)
    if text:
        lines = GivenText()
        lines.goes_on = snapshot is not None
        spec = spec.having(given=lines, logs=[lines.name], format="text")
    else:
        rows = GivenRows()
        rows.goes_on = snapshot is not None
        spec = spec.having(given=rows, tables=[rows])
    spec, steps, _, _ = run_of(policies, spec, host)
    return Live(spec, steps, host, snapshot)
