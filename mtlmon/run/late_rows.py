"""Rows that come late: how long others wait for them, and where those go that come too late."""

from __future__ import annotations

import os
import stat

from mtlmon.errors import SnapshotError
from mtlmon.run.failure import RunError, WriteFailure, reason
from mtlmon.run.files import OpenFile, is_same_file
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.support.lean_typing import NamedTuple
from mtlmon.text.native import LineOrder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.checking.counted_lines import CountedLines
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.history.operations import Corrections
    from mtlmon.policy import PolicyFile
    from mtlmon.run.spec import RunSpec, Times
    from mtlmon.support.inputs import Input
    from mtlmon.syntax.durations import Duration
    from mtlmon.syntax.formula import Formula

__all__ = [
    "NO_ORDER",
    "LateFile",
    "TableOrder",
    "TextOrder",
    "corrected_order",
    "late_file",
    "length_units",
    "moved_ends",
    "note_incomplete",
    "note_refused",
    "note_unmoved",
    "table_order",
    "text_order",
    "wait_units",
]


class LateFile(OpenFile):
    """The file of the rows that come too late.

    Args:
        path: its path.
        others: the paths of files that it must not be.
        stream: the input that is meant if `-` is one of them.
        keeps: whether it keeps what it has until the first rows are written, or `begin` is called,
            so that a later run can go on.

    Raises:
        RunError: the file cannot be written, or is used for something else.
    """

    def __init__(self, path: str, others: list[str], stream: Input, *, keeps: bool = False) -> None:
        self.path = path
        # how much of it is to be kept; None if the rest is cut off already
        self._kept: int | None = 0 if keeps else None
        for other in others:
            if other != STANDARD_STREAM and os.path.realpath(other) == os.path.realpath(path):
                raise RunError(f"{path} cannot hold late rows: this run uses it for something else")
        try:
            # without O_TRUNC, so that nothing is lost if the file turns out to be the log
            super().__init__(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))
            found = os.fstat(self.descriptor)
            if STANDARD_STREAM in others and is_same_file(found, os.fstat(stream.descriptor)):
                raise RunError(f"{path} is both the log and the file for late rows")
            self._is_regular = stat.S_ISREG(found.st_mode)
            if self._is_regular and not keeps:
                os.ftruncate(self.descriptor, 0)
        except (OSError, ValueError) as error:
            raise RunError(f"cannot write {path}: {reason(error)}") from None

    def write(self, rows: bytes) -> None:
        """Write rows at once, as a reader may follow the file.

        Raises:
            WriteFailure: the rows cannot be written.
        """
        self.begin()
        rest = memoryview(rows)
        try:
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
        except OSError as error:
            raise WriteFailure(f"cannot write {self.path}: {error.strerror}") from None

    @property
    def size(self) -> int:
        """The bytes of the rows that were written, in this and earlier runs."""
        if self._kept is not None:
            return self._kept
        return os.lseek(self.descriptor, 0, os.SEEK_CUR) if self._is_regular else 0

    def resume(self, size: int) -> None:
        """Keep the rows that an earlier run has written, as their size says.

        Raises:
            SnapshotError: the file has less.
        """
        if self._is_regular and os.fstat(self.descriptor).st_size < size:
            raise SnapshotError(f"{self.path} has lost rows that came too late")
        self._kept = size

    def begin(self) -> None:
        """Cut off what is not kept.

        Raises:
            WriteFailure: the file cannot be cut.
        """
        if self._kept is None:
            return
        try:
            if self._is_regular:
                os.ftruncate(self.descriptor, self._kept)
                os.lseek(self.descriptor, self._kept, os.SEEK_SET)
        except OSError as error:
            raise WriteFailure(f"cannot write {self.path}: {error.strerror}") from None
        self._kept = None


def late_file(options: RunSpec, *, keeps: bool = False) -> LateFile | None:
    """Open the file of --late, if the options name one; `keeps` is that of `LateFile`.

    Raises:
        RunError: the file cannot be written, or is used for something else.
    """
    if options.times.late is None:
        return None
    if callable(options.times.late):
        if options.log.is_table:
            # rows are given to the function
            return None
        raise RunError("late is a function, which takes rows of tables, not lines: give a path")
    used = [
        options.output.path,
        options.checkpoint.path,
        options.reporting.report,
        options.reporting.explain_output,
    ]
    others = [
        *options.log.paths,
        *options.policies.files,
        *(one for one in used if one is not None),
    ]
    goes_on = options.log.given is not None and options.log.given.goes_on
    file = LateFile(options.times.late, others, options.log.input, keeps=keeps or goes_on)
    if goes_on:
        # what comes too late from now on is written behind what an earlier run has written
        file.resume(os.fstat(file.descriptor).st_size)
    return file


class TableOrder(NamedTuple):
    """How rows of tables come into the order of time; the values are those of `open_tables`.

    Attributes:
        wait: how late a row may be; None if rows are in order.
        late: gets the rows that come too late.
        in_any_order: whether batches have the rows as they come.
        operation: then the column that says what rows do, or None.
        id: the column of ids, or None.
        complete: the columns of what rows count, or None.
        new_end: the columns of ends, and of those that retractions give, and how late a row may be,
            or None.
        clock: whether time passes for all keys, or for each.
        counting: for each row as it comes, whether it counts; None if that is to be found.
    """

    wait: int | Duration | None
    late: Callable[[bytes], None] | None
    in_any_order: bool = False
    operation: str | None = None
    id: str | None = None
    complete: tuple[str | None, str] | None = None
    new_end: tuple[str, str, int | Duration] | None = None
    clock: Literal["all", "key"] = "all"
    counting: NDArray[np.bool_] | None = None


NO_ORDER = TableOrder(None, None)


def table_order(
    options: RunSpec, file: PolicyFile | Formula | None = None, *, is_again: bool = False
) -> TableOrder:
    """Return how rows of tables come into the order of time; the others are as `text_order` has.

    Args:
        options: the options of the run.
        file: the policies, whose records may have ends that retractions move.
        is_again: as for `text_order`.

    Raises:
        RunError: the file for late rows cannot be written.
    """
    if not options.times.reorders:
        return NO_ORDER
    wait = 0 if options.times.wait is None else options.times.wait
    if options.log.counting is not None:
        from mtlmon.policy.predicates.integers import LARGEST

        clock = options.times.clock or "all"
        return TableOrder(
            # the rows of one key do not tell how late those of another are
            LARGEST if clock == "key" else wait,
            None,
            operation=options.log.op,
            id=options.log.id,
            complete=options.log.complete,
            new_end=moved_ends(file, options),
            clock=clock,
            counting=options.log.counting,
        )
    if callable(options.times.late):
        return TableOrder(wait, None if is_again else options.times.late)
    refused = None if is_again else late_file(options)
    return TableOrder(wait, None if refused is None else refused.write)


def corrected_order(
    options: RunSpec, late: LateFile | None, new_end: tuple[str, str, int | Duration] | None
) -> TableOrder:
    """Return how rows are read whose order others see to.

    Args:
        options: the options of the run.
        late: gets the rows that are too late.
        new_end: what `moved_ends` returns.
    """
    given = options.times.late
    return TableOrder(
        None,
        given if callable(given) else None if late is None else late.write,
        in_any_order=True,
        operation=options.log.op,
        id=options.log.id,
        complete=options.log.complete,
        new_end=new_end,
        clock=options.times.clock or "all",
    )


def moved_ends(
    file: PolicyFile | Formula | None, options: RunSpec, relation: str | None = None
) -> tuple[str, str, int | Duration] | None:
    """Return the column of ends, that of new ones, and how late rows may be; None without new ones.

    Args:
        file: the policies.
        options: the options of the run.
        relation: the relation that is asked for; None for those that policies read.

    Raises:
        RunError: no relation has ends of its own, or they are in several columns.
    """
    if options.log.new_end is None:
        return None
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.needs import changes_in, needs_of
    from mtlmon.policy.predicates.expression import TypedColumn
    from mtlmon.relations.declared import end_columns
    from mtlmon.syntax.report import visible

    relations = [] if relation is None else [relation]
    if isinstance(file, PolicyFile) and relation is None:
        relations += needs_of(file, file.atoms, [*file.streams, *file.shown]).relations
        relations += [one.relation for one in changes_in(file)]
    found: dict[str, str | None] = {}
    for name in relations:
        assert isinstance(file, PolicyFile)
        owner, own = file.owner_of(name)
        found |= {column: owner.row_types.get(column) for column in end_columns(owner, own)}
    if len(found) != 1:
        whose = "the policies look nothing up in relations with"
        if relation is not None:
            whose = f"relation {visible(relation)} has"
        number = "several" if found else "none" if relation is not None else "any"
        raise RunError(
            f"--new-end moves the ends that rows have in one column, but {whose} {number} such: "
            "write rows valid [ts, COLUMN)"
        )
    ((end, kind),) = found.items()
    if end == options.log.new_end:
        raise RunError(
            f"--new-end {visible(end)} is the column of the ends that records have: name the one "
            "with those that retractions give them"
        )
    names = end, options.log.new_end
    first, second = (one if kind is None else TypedColumn(one, kind) for one in names)
    times = options.times
    # in the run that explains, rows wait as long as they may be late
    return first, second, (times.wait or 0) if times.lateness is None else times.lateness


class TextOrder:
    """Puts the lines of a text log into the order of time.

    Args:
        wait: how late a line may be, in time units; None if it may be as late as it likes.
        late: the file for lines that come too late; None if they are only counted.
        joins_lines: whether time-points may have several lines, the first of which begins with '@'.
        passes_counts: whether lines may say how many others there are, which is known.

    Attributes:
        lines: orders the lines.
        memory: the memory limit of the run, which counts the lines that wait; None if none does.
    """

    memory: MemoryLimit | None = None

    def __init__(
        self,
        wait: int | None,
        late: LateFile | None,
        *,
        joins_lines: bool = False,
        passes_counts: bool = False,
    ) -> None:
        self.lines = LineOrder(wait, joins_lines=joins_lines)
        self._counts: CountedLines | None = None
        if passes_counts:
            from mtlmon.checking.counted_lines import CountedLines

            self._counts = CountedLines()
        self.late = late
        self.is_complete = False

    def push(self, block: memoryview) -> None:
        """Take a block of the log."""
        if self._counts is None:
            self.lines.push(block)
        else:
            self._pass_counts(self._counts.parts(block))
        self.take_refused()
        if self.memory is not None:
            self.memory.note("sorting", self.lines.held_bytes)
            if not self.lines.is_ready:
                # No other code checks the limit before lines are released.
                self.memory.check()

    def finish(self) -> None:
        """End the log: nothing waits any more."""
        if not self.is_complete:
            self.is_complete = True
            if self._counts is not None:
                self._pass_counts(self._counts.rest())
            self.lines.finish()
            self.take_refused()

    def _pass_counts(self, parts: Iterable[tuple[memoryview, Corrections | None]]) -> None:
        for part, counted in parts:
            # lines keep their numbers
            self.lines.push(part if counted is None else b"#\n")

    @property
    def refused(self) -> int:
        """The number of lines that came too late."""
        return self.lines.refused_count

    def note_refused(self, options: RunSpec) -> None:
        """Mention the lines that came too late."""
        note_refused(self.refused, "line", options)

    def take_refused(self) -> None:
        """Write the lines that have come too late to their file."""
        refused = self.lines.take_refused()
        if refused and self.late is not None:
            self.late.write(refused)


def text_order(options: RunSpec, *, is_again: bool = False) -> TextOrder | None:
    """Return what orders the lines of a text log; None if the options ask for no order.

    Args:
        options: the options of the run.
        is_again: whether the log is read again, so that the file of late rows is there already.

    Raises:
        RunError: the unit of the time to wait does not fit, or the file cannot be written.
    """
    joins = options.log.signature is not None
    if options.times.sort:
        return TextOrder(None, None, joins_lines=joins)
    if not options.times.reorders:
        return None
    wait = wait_units(options.times, options.times.unit, "--unit")
    return TextOrder(
        wait,
        None if is_again else late_file(options),
        joins_lines=joins,
        passes_counts=options.log.knows_counts,
    )


def wait_units(times: Times, unit: str | None, option: str) -> int:
    """Return how late a row may be, in time units; the arguments are as `length_units` has."""
    return 0 if times.wait is None else length_units(times.wait, "--wait", unit, option)


def length_units(length: int | Duration, name: str, unit: str | None, option: str) -> int:
    """Return a length of time in time units.

    Args:
        length: the length.
        name: the option that it is the value of.
        unit: the unit of time-stamps; None if it is not known.
        option: the option that tells it.

    Raises:
        RunError: the length has a unit, and time-stamps have none or a coarser one.
    """
    if isinstance(length, int):
        return length
    if unit is None:
        raise RunError(
            f"{name} {length} needs the unit of the time-stamps: add {option} s, for instance, or "
            f"give a number of time units, as in {name} 5"
        )
    from mtlmon.syntax.bounds import UNITS

    units, rest = divmod(length.nanoseconds, UNITS[unit])
    if rest:
        raise RunError(f"{name} {length} is not a whole number of the time-stamps' unit, {unit}")
    return units


def note_refused(count: int, row_name: str, options: RunSpec) -> None:
    """Mention the rows that came too late."""
    if count:
        from mtlmon.run.report import plural

        late = options.times.late
        where = f" (see {late})" if isinstance(late, str) else ""
        options.host.note(f"{plural(count, row_name)} came too late to be checked{where}")


def note_unmoved(count: int, options: RunSpec) -> None:
    """Mention the retractions that have moved no end."""
    if count:
        from mtlmon.run.report import plural

        options.host.note(f"{plural(count, 'retraction')} moved no end")


def note_incomplete(count: int, row_name: str, options: RunSpec) -> None:
    """Mention the intervals in which fewer rows came than were counted."""
    if count:
        from mtlmon.run.report import plural

        what = "an interval" if count == 1 else f"{plural(count, 'interval')}"
        options.host.note(f"fewer {row_name}s came in {what} than were counted there")
