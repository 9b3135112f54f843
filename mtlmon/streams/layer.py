"""One layer of a program: expressions over columns, then kernels over their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from mtlmon.errors import RowError
from mtlmon.policy.predicates.checking import check
from mtlmon.policy.predicates.compiling import CompiledExpressions
from mtlmon.policy.predicates.environment import TIME_STAMPS
from mtlmon.policy.predicates.predicate import Predicate
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams.repeated_ticks import RepeatedTicks
from mtlmon.syntax.report import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.streams import native
    from mtlmon.streams.kernels import Kernel, Meeting
    from mtlmon.streams.points import Points

    Columns: TypeAlias = dict[int, dict[str, pa.Array]]

_SHOWN_WIDTH = 60


class Part(NamedTuple):
    """An expression that reads columns only.

    Attributes:
        expression: the expression.
        origin: the predicate that it comes from, for errors.
    """

    expression: Expression
    origin: Predicate


class Task(Protocol):
    """What computes columns from columns, and remembers rows.

    Attributes:
        kernels: the kernels that do so.
        period: the time-points of the columns that it adds: `ROWS`, a period, or the number of a
            family.
        argument_period: the time-points of what it takes.
    """

    kernels: list[Kernel]

    period: int
    argument_period: int

    def run(self, columns: Columns, points: Points) -> None:
        """Compute columns, and add them.

        Args:
            columns: the columns by their time-points and their names.
            points: all time-points.

        Raises:
            RowError: integers overflow.
        """


class KernelTask:
    """A kernel whose results become a column.

    Args:
        result: the name of the column of the results.
        kernel: the kernel.
        arguments: the names of the columns of its argument: one, none, or several of a machine.
        argument_period: the time-points of the argument, `ROWS` or a period.
        period: the time-points of the results.

    Attributes:
        may_be_null: whether values of the argument may be null, as far as is known.
        reads: the names of the columns that it takes.
    """

    def __init__(
        self,
        result: str,
        kernel: Kernel,
        arguments: tuple[str, ...],
        argument_period: int = ROWS,
        period: int = ROWS,
    ) -> None:
        self.kernels = [kernel]
        self.period = period
        self.argument_period = argument_period
        self.may_be_null = True
        self.reads = arguments
        self._result = result
        self._repeated: RepeatedTicks | None = None

    def repeat_ticks(self) -> None:
        """Let ticks that are left out repeat the values of those before; see `RepeatedTicks`."""
        (kernel,) = self.kernels
        self._repeated = RepeatedTicks(kernel, self.argument_period, self.period)
        self.kernels = self._repeated.kernels

    def run(self, columns: Columns, points: Points) -> None:
        """Compute the results, and add them to the columns.

        Raises:
            RowError: a sum of integers overflows.
        """
        if self._repeated is not None:
            (name,) = self.reads
            found = self._repeated.run(columns[self.argument_period][name], points)
            columns[self.period][self._result] = found
            return
        (kernel,) = self.kernels
        rows = points.batch(self.period)
        values = columns[self.argument_period]
        argument = kernel.argument_of([values[name] for name in self.reads])
        meeting: Meeting | native.Batch | None
        if points.comes_first(self.argument_period, self.period):
            # A tick sees all rows up to its time.
            meeting = points.batch(self.argument_period)
        else:
            meeting = points.meeting(self.argument_period, self.period)
        columns[self.period][self._result], done = kernel.run(rows, argument, meeting)
        if done < rows.count:
            shown = shorten(str(kernel.node), _SHOWN_WIDTH)
            raise RowError(f"{shown} overflows 64 bits", rows=(done,))


class TakenTask(ABC):
    """Values of a column at other time-points than its own.

    Args:
        result: the name of the column of the results.
        argument: the name of the column.
        argument_period: its time-points.
        period: those of the results.

    Attributes:
        result: as given.
        argument: as given.
    """

    def __init__(self, result: str, argument: str, argument_period: int, period: int) -> None:
        self.kernels: list[Kernel] = []
        self.period = period
        self.result = result
        self.argument = argument
        self.argument_period = argument_period

    @abstractmethod
    def taken(self, points: Points) -> pa.Array:
        """Return for each result the index of the value; null for none."""

    def run(self, columns: Columns, points: Points) -> None:
        """Take the values, and add them to the columns."""
        values = columns[self.argument_period][self.argument]
        columns[self.period][self.result] = values.take(self.taken(points))


class ChoiceTask(TakenTask):
    """A column at some of its ticks: those of a multiple, or such ticks of instances."""

    def taken(self, points: Points) -> pa.Array:
        return pa.array(points.common(self.argument_period, self.period))


class LayerError(Exception):
    """The error of rows or ticks.

    Attributes:
        period: which time-points the error's rows are, `ROWS` or a period.
        error: the error.
        has_memory: whether it is of a task, so that earlier time-points matter.
    """

    def __init__(self, period: int, error: RowError, has_memory: bool) -> None:
        super().__init__(period, error, has_memory)
        self.period = period
        self.error = error
        self.has_memory = has_memory


def check_part(
    part: Part,
    schema: pa.Schema,
    environment: Environment,
    *,
    wanted: Kind | None = None,
    is_final: bool = True,
) -> Mapping[int, Kind]:
    """Check the types of an expression, and return the kinds of its nodes by their `id`.

    Args:
        part: the expression.
        schema: the columns.
        environment: what the expression stands among.
        wanted: the kind that it must have, or None for any.
        is_final: whether errors are raised; otherwise some kinds may be unknown.

    Raises:
        PolicyError: a column does not exist, or a type does not fit.
    """
    checked = check(_predicate(part), schema, environment, wanted=wanted, is_of_one_row=False)
    if checked.errors and is_final:
        raise checked.errors[0]
    return checked.kinds


def _predicate(part: Part) -> Predicate:
    return part.origin.with_expression(part.expression)


class Layer:
    """Computes expressions over columns, and then aggregates and offsets of their results.

    Attributes:
        parts: the expressions by their time-points (`ROWS`, a period, or the number of a family)
            and by the name of the column that each becomes.
        tasks: the kernels and machines.
    """

    def __init__(self) -> None:
        self.parts: dict[int, dict[str, Part]] = {}
        self.tasks: list[Task] = []
        self._compiled: dict[int, CompiledExpressions] = {}

    def compile(self, schema: pa.Schema, environment: Environment) -> None:
        """Compile the expressions for columns of these types."""
        for period, parts in self.parts.items():
            expressions = {name: _predicate(part) for name, part in parts.items()}
            self._compiled[period] = CompiledExpressions(expressions, schema, environment)

    def parts_of_rows(self, rows: dict[str, pa.Array], points: Points) -> Mapping[str, pa.Array]:
        """Return the expressions over rows; none if integers overflow.

        Args:
            rows: the columns of the rows; gets their time-stamps, if expressions need these.
            points: the rows.
        """
        if ROWS not in self._compiled:
            return {}
        try:
            return self._computed(ROWS, rows, points)
        except RowError:
            return {}

    def _computed(
        self, period: int, own: dict[str, pa.Array], points: Points
    ) -> Mapping[str, pa.Array]:
        """Compute the expressions at some time-points."""
        compiled = self._compiled[period]
        if TIME_STAMPS in compiled.types:
            own[TIME_STAMPS] = pa.array(points.times(period))
        _require_columns(own, compiled.types)
        return compiled.compute(own, points.batch(period).count)

    def run(self, columns: Columns, points: Points) -> None:
        """Compute all results, and add them to the columns.

        Raises:
            LayerError: integers overflow.
            ValueError: a column is missing or has another type than the schema.
        """
        period = ROWS
        has_memory = False
        try:
            for period, compiled in self._compiled.items():
                own = columns[period]
                if period < ROWS:
                    points.copy_rows(columns, period, compiled.types)
                own |= self._computed(period, own, points)
            has_memory = True
            for task in self.tasks:
                period = task.period
                task.run(columns, points)
        except RowError as error:
            if error.is_of_argument:
                period = task.argument_period
            if period < ROWS:
                period, error = points.error_of_log(period, error)
            raise LayerError(period, error, has_memory) from None


def _require_columns(columns: Mapping[str, pa.Array], types: Mapping[str, pa.DataType]) -> None:
    for name, wanted in types.items():
        if name not in columns:
            raise ValueError(f"the batch has no column {name!r}")
        if columns[name].type != wanted:
            raise ValueError(
                f"column {name!r} is of type {columns[name].type}, but streams were compiled "
                f"for {wanted}"
            )
