"""The exceptions of mtlmon, one tree under `MtlmonError`, and its warnings.

Every message says what is wrong, where, and how to mend it where that is known.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mtlmon.syntax.formula import Formula
    from mtlmon.text.formats import Guess

__all__ = [
    "CopyError",
    "EventError",
    "EventTypeError",
    "ExecutorError",
    "ExplanationError",
    "FormulaError",
    "InUseError",
    "LimitError",
    "LogError",
    "MemoryLimitError",
    "MonitorBrokenError",
    "MtlmonError",
    "PolicyError",
    "ReportError",
    "RowError",
    "RunError",
    "SnapshotError",
    "TableError",
    "TimeStampError",
    "TraceError",
    "UndecidedError",
    "UnitError",
    "UnknownAtomWarning",
    "VacuousError",
    "VacuousWarning",
    "ViolationError",
]


class MtlmonError(Exception):
    """Base class of every error that mtlmon raises on purpose."""

    def __reduce__(self) -> tuple[Callable[..., MtlmonError], tuple[object, ...]]:
        # Exceptions pickle by a call with their message alone, which subclasses with keywords
        # refuse; errors of worker processes have to arrive whole.
        return _restore, (type(self), self.args, self.__dict__)


class FormulaError(MtlmonError, ValueError):
    """A formula that cannot be read: syntax, intervals, units.

    `str(error)` is the whole multi-line report (message, line with a caret, hint).

    Attributes:
        message: what is wrong, one line, without the place.
        source: name of the text, a file for instance.
        line: 1-based line of the place in the text.
        column: 1-based column of the place, counted in characters.
        hint: how to mend it, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str = "<formula>",
        line: int = 1,
        column: int = 1,
        excerpt: str = "",
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.source = source
        self.line = line
        self.column = column
        self.hint = hint
        report = f"{source}:{line}:{column}: {message}"
        if excerpt:
            report += f"\n{excerpt}"
        if hint:
            report += f"\nhint: {hint}"
        super().__init__(report)


class PolicyError(FormulaError):
    """A policy file that cannot be read: declarations, predicates, types of columns.

    Attributes as of `FormulaError`; line and column are those of the file.
    """


class RowError(MtlmonError, ValueError):
    """Rows of a table on which a predicate has no value, because integers overflow.

    Attributes:
        atom: the atom that the predicate defines, None if it has no name.
        reason: what is wrong with the first of the rows, without the place.
        rows: their numbers in the batch, counted from 0, in increasing order; () for rows of atoms,
            which have no number.
        is_of_argument: for an aggregate at other time-points than rows, whether the rows are those
            of its argument.
    """

    is_of_argument = False

    def __init__(self, reason: str, *, rows: tuple[int, ...] = (), atom: str | None = None) -> None:
        self.atom = atom
        self.reason = reason
        self.rows = rows
        name = "" if atom is None else f"atom {atom}: "
        place = f" (row {rows[0]} of the batch, counted from 0)" if rows else ""
        super().__init__(f"{name}{reason}{place}")


class TickError(MtlmonError):
    """Integers overflow at a tick of a period, or at rows that have waited for later values.

    Attributes:
        reason: what is wrong, without the place.
        place: the number of rows of the batch that the tick or row comes after.
        time_stamp: the time of the tick, or of the first of the rows.
        number: the number of its trace.
        partition: the number of the partition that the trace belongs to.
        rows: the numbers of the rows among those that wait for the same values; () for a tick.
    """

    def __init__(
        self,
        reason: str,
        *,
        place: int,
        time_stamp: int,
        number: int,
        partition: int = 0,
        rows: tuple[int, ...] = (),
    ) -> None:
        self.reason = reason
        self.place = place
        self.time_stamp = time_stamp
        self.number = number
        self.partition = partition
        self.rows = rows
        super().__init__(f"{reason} at {self.where}")

    @property
    def where(self) -> str:
        """The tick or row in words."""
        return f"the {'row of time-stamp' if self.rows else 'tick'} {self.time_stamp}"

    @property
    def what(self) -> str:
        """A word for such time-points."""
        return "rows" if self.rows else "ticks"


class _EventInputError(MtlmonError):
    """An error of events that were given to a monitor, which is as it was before.

    Attributes:
        index: the number of the event at fault in its batch, from 0; None when it is not one event,
            or none of a batch.
    """

    def __init__(self, message: str, *, index: int | None = None) -> None:
        self.index = index
        super().__init__(message)


class TimeStampError(_EventInputError, ValueError):
    """A time-stamp that is negative, too large, or below one already seen."""


class EventError(_EventInputError, ValueError):
    """Events that do not fit: lengths that differ, missing or unknown atoms, nulls."""


class EventTypeError(_EventInputError, TypeError):
    """Events, or arrays of them, of the wrong type."""


class LogError(MtlmonError, ValueError):
    """A log line that cannot be read.

    Attributes:
        path: name of the log.
        line: 1-based line number.
        column: 1-based column, counted in characters.
        guess: what the line looks like, if it is one of another format.
    """

    def __init__(
        self, message: str, *, path: str, line: int, column: int, guess: Guess | None = None
    ) -> None:
        self.path = path
        self.line = line
        self.column = column
        self.guess = guess
        super().__init__(f"{path}:{line}:{column}: {message}")


class TableError(MtlmonError, ValueError):
    """A table that cannot be read as events, or a row of it.

    Attributes:
        message: what is wrong, without the place.
        path: name of the file.
        row: 1-based number of the row in the file, header not counted; None if it is not one row.
        line: 1-based number of its line, None if it is not one row or the format has no lines.
        column: name of the column, None if it is not one.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str,
        row: int | None = None,
        line: int | None = None,
        column: str | None = None,
    ) -> None:
        self.message = message
        self.path = path
        self.row = row
        self.line = line
        self.column = column
        place = path
        if line is not None:
            place += f":{line}"
        elif row is not None:
            place += f": row {row}"
        if column is not None and repr(column) not in message:
            place += f": column {column!r}"
        super().__init__(f"{place}: {message}")


class ExecutorError(MtlmonError):
    """An error of mtlmon on an executor of Spark, in one line.

    Attributes:
        kind: the class that it had there.
    """

    def __init__(self, message: str, *, kind: type[MtlmonError]) -> None:
        self.kind = kind
        super().__init__(message)


class RunError(MtlmonError):
    """A run cannot be carried out: a file cannot be read or written, or options contradict each
    other.
    """


class UnitError(MtlmonError, ValueError):
    """A unit of time that is unknown, or declared where it comes too late."""


class LimitError(MtlmonError):
    """The formula and the log together need more than a stated limit of the engine."""


class MemoryLimitError(LimitError):
    """The structures of mtlmon hold more memory than `max_memory` or `--max-memory` allows.

    Attributes:
        limit: in bytes.
        held: the bytes held, by category, as `Monitor.counters` names them.
        verdicts: the verdicts that the failed call has found, if it is one that returns verdicts.
    """

    verdicts: object = ()

    def __init__(self, message: str, *, limit: int, held: dict[str, int]) -> None:
        self.limit = limit
        self.held = held
        super().__init__(message)


class SnapshotError(MtlmonError, ValueError):
    """Bytes that are no snapshot, or one of another formula, mode or version, or damaged."""


class InUseError(MtlmonError):
    """A call of an object while another call of it has not returned yet.

    Only one call at a time may use a monitor, a history, streams, or an iterator of these. The
    other call may be in another thread, or be the one whose argument or callback makes this one.
    The object is as if this call had not been made.

    Args:
        what: what the object is.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"the {what} is in use: another call of it has not returned yet")


class CopyError(MtlmonError, TypeError):
    """An object that cannot be copied or pickled, because its state cannot."""


class MonitorBrokenError(MtlmonError):
    """The monitor was interrupted in the middle of an event and cannot go on."""


class ExplanationError(MtlmonError, ValueError):
    """A time-point that cannot be explained: it is not in the trace, or not decided by it."""


class UndecidedError(ExplanationError):
    """A time-point that the trace does not decide.

    Attributes:
        until: the time-stamp after whose end it is decided, whatever happens; None if there is no
            such time-stamp.
    """

    def __init__(self, message: str, *, until: int | None = None) -> None:
        self.until = until
        super().__init__(message)


class TraceError(MtlmonError, ValueError):
    """A recorded trace that cannot be read: its form, a column, a value at a position."""


class ReportError(MtlmonError):
    """A report that cannot be written."""


class ViolationError(MtlmonError, AssertionError):
    """A trace does not meet a formula that it was asserted to meet.

    `str(error)` is the whole report: the formula, the time-point, the events around it, what was
    expected and why it failed.

    Attributes:
        formula: that was asserted.
        time_point: (time_stamp, offset) of the first one that violates the formula, or that is
            undecided at the end of the trace.
        is_undecided: whether it is undecided rather than violated.
        key: the values of the key whose events these are, by their names; {} without a key.
    """

    def __init__(
        self,
        report: str,
        *,
        formula: Formula,
        time_point: tuple[int, int],
        is_undecided: bool = False,
        key: Mapping[str, object] | None = None,
    ) -> None:
        self.key = dict(key or {})
        self.formula = formula
        self.time_point = time_point
        self.is_undecided = is_undecided
        super().__init__(report)


class VacuousError(MtlmonError, AssertionError):
    """An implication holds of a trace only because its left side holds nowhere.

    Attributes:
        formula: that was asserted.
    """

    def __init__(self, message: str, *, formula: Formula) -> None:
        self.formula = formula
        super().__init__(message)


class VacuousWarning(UserWarning):
    """An implication holds of a trace only because its left side holds nowhere."""


class UnknownAtomWarning(UserWarning):
    """No event of a trace has an atom of the formula, which may be misspelt."""


def _restore(
    kind: type[MtlmonError], args: tuple[object, ...], attributes: dict[str, object]
) -> MtlmonError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error
