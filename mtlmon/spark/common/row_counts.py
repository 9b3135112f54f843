"""Reports counts from tasks to the driver: skipped rows, and events without an order."""

from __future__ import annotations

import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.accumulators import AccumulatorParam

from mtlmon.errors import MtlmonError
from mtlmon.support.copies import NotCopied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

_PACKAGE = str(Path(__file__).parents[1])
_KEPT_ERRORS = 10


class TiesWarning(UserWarning):
    """Rows of one key and time-stamp are different events, and their order is not defined."""


class SkippedRowsWarning(UserWarning):
    """Rows that are not events were skipped, as `on_error="skip"` demands."""


class TaskCounts(NamedTuple):
    """The counts of one task.

    Attributes:
        stage: the stage of the task.
        partition: the partition of the task.
        ties: the number of time-stamps of a key at which different events have no order.
        skipped: the number of rows that were skipped.
        errors: the errors of the first of these.
    """

    stage: int
    partition: int
    ties: int
    skipped: int
    errors: tuple[str, ...]


class RowCounts(NotCopied):
    """Counts of rows that tasks report to the driver, for the argument `counts`.

    Tasks report when they end, and an action waits for that. So the counts are complete when an
    action that reads all verdicts returns; after `show()` and `limit()` they may be incomplete.

    For a data frame, these are the counts of the last action; for a stream, those of all batches
    since the query was started. A task that is run twice counts once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_stream = False
        self._stage = -1
        self._tasks: dict[int, TaskCounts] = {}
        self._before = TaskCounts(-1, -1, 0, 0, ())
        self._place = ("<unknown>", 0)
        self._warned: set[type[Warning]] = set()

    def __repr__(self) -> str:
        return f"RowCounts(ties={self.ties}, skipped={self.skipped})"

    @property
    def ties(self) -> int:
        """The number of time-stamps of a key at which different events have no order."""
        return sum(one.ties for one in self._all())

    @property
    def skipped(self) -> int:
        """The number of rows that were skipped."""
        return sum(one.skipped for one in self._all())

    @property
    def errors(self) -> list[str]:
        """The errors of the first rows that were skipped."""
        return [error for one in self._all() for error in one.errors][:_KEPT_ERRORS]

    def reporter(self, spark: SparkSession | SparkContext, *, is_stream: bool = False) -> Reporter:
        """Make the reporter for the tasks of a plan, and reset the counts.

        Raises:
            MtlmonError: the session is one of Spark Connect, which cannot take reports.
        """
        self.__init__()  # type: ignore[misc]
        self._is_stream = is_stream
        self._place = _caller()
        context = context_of(spark)
        if context is None:
            raise MtlmonError(
                "a session of Spark Connect cannot take counts of rows from tasks; leave out counts"
            )
        return Reporter(context.accumulator((), _Reports(self)))

    def take(self, reports: Sequence[TaskCounts]) -> None:
        """Take the reports of tasks, and warn of the first ties and the first skipped rows."""
        with self._lock:
            for report in reports:
                self._take(report)
            messages = [
                (kind, message) for kind, message in self._messages() if kind not in self._warned
            ]
            self._warned |= {kind for kind, _ in messages}
        for kind, message in messages:
            self._warn(kind, message)

    def _take(self, report: TaskCounts) -> None:
        if report.stage < self._stage:
            # another attempt of a task that has been counted
            return
        if report.stage > self._stage:
            if self._is_stream:
                self._before = TaskCounts(-1, -1, self.ties, self.skipped, tuple(self.errors))
            self._stage = report.stage
            self._tasks = {}
        self._tasks[report.partition] = report

    def _all(self) -> list[TaskCounts]:
        return [self._before, *self._tasks.values()]

    def _messages(self) -> list[tuple[type[Warning], str]]:
        found: list[tuple[type[Warning], str]] = []
        if ties := self.ties:
            found.append((TiesWarning, ties_message(ties)))
        if skipped := self.skipped:
            found.append((SkippedRowsWarning, skipped_message(skipped, self.errors)))
        return found

    def _warn(self, kind: type[Warning], message: str) -> None:
        # An exception would end this thread of Spark. If warnings are turned into errors, write the
        # message to where warnings are shown.
        try:
            warnings.warn_explicit(message, kind, *self._place)
        except kind as raised:
            print(f"{self._place[0]}:{self._place[1]}: {kind.__name__}: {raised}", file=sys.stderr)


def ties_message(count: int) -> str:
    """Return the warning that some events have no order."""
    times = "1 time-stamp has" if count == 1 else f"{count} time-stamps of a key have"
    return (
        f"so far {times} different events that nothing orders, so verdicts may differ from run to "
        'run: give columns that order them as order_within (or ties="error", ties="allow")'
    )


def skipped_message(count: int, errors: Sequence[str]) -> str:
    """Return the warning that some rows were skipped."""
    rows = "1 row was" if count == 1 else f"{count} rows were"
    first = f", the first for this reason: {errors[0]}" if errors else ""
    return f"so far {rows} left out{first}"


class Reporter:
    """Sends the counts of tasks to the driver; picklable.

    Without an accumulator, as in sessions of Spark Connect, warnings go to the executor's log.
    """

    def __init__(self, accumulator: Accumulator[Sequence[TaskCounts]] | None) -> None:
        self._accumulator = accumulator

    def report(self, ties: int, skipped: int, errors: Sequence[str]) -> None:
        """Send the counts of the present task, which has ended or is stopped."""
        from pyspark import TaskContext

        if not ties and not skipped:
            return
        if self._accumulator is None:
            for count, message in (
                (ties, ties_message(ties)),
                (skipped, skipped_message(skipped, errors)),
            ):
                if count:
                    print(f"mtlmon: {message}", file=sys.stderr)
            return
        context = TaskContext.get()
        stage, partition = (0, 0) if context is None else (context.stageId(), context.partitionId())
        kept = tuple(errors[:_KEPT_ERRORS])
        self._accumulator.add((TaskCounts(stage, partition, ties, skipped, kept),))


def reporter_of(
    spark: SparkSession, counts: RowCounts | None, *, is_stream: bool = False
) -> Reporter:
    """Make the reporter for tasks: to the counts of the caller, or else only for warnings.

    Raises:
        MtlmonError: there are counts, and the session is one of Spark Connect; or they are none.
    """
    if counts is not None and not isinstance(counts, RowCounts):
        raise MtlmonError(f"counts is a mtlmon.spark.RowCounts, not a {type(counts).__name__}")
    if counts is None and context_of(spark) is None:
        return Reporter(None)
    return (RowCounts() if counts is None else counts).reporter(spark, is_stream=is_stream)


class _Reports(AccumulatorParam["Sequence[TaskCounts]"]):
    """Combines reports: tasks collect theirs, and the driver passes them on."""

    def __init__(self, counts: RowCounts | None = None) -> None:
        self._counts = counts

    def __reduce__(self) -> tuple[type[_Reports], tuple[()]]:
        return _Reports, ()

    def zero(self, value: Sequence[TaskCounts]) -> Sequence[TaskCounts]:
        return ()

    def addInPlace(
        self, value1: Sequence[TaskCounts], value2: Sequence[TaskCounts]
    ) -> Sequence[TaskCounts]:
        if self._counts is None:
            return (*value1, *value2)
        self._counts.take(value2)
        return ()


def context_of(spark: SparkSession | SparkContext) -> SparkContext | None:
    """The context of a session, or None for a session of Spark Connect."""
    from pyspark import SparkContext

    if isinstance(spark, SparkContext):
        return spark
    try:
        return spark.sparkContext
    except Exception:
        return None


def _caller() -> tuple[str, int]:
    """The file and line outside mtlmon that the present call comes from."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
