"""The kernel for each aggregate and offset, with what it takes and gives."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.machine_code import NotPossible, constant_as
from mtlmon.policy.predicates.time_points import is_later
from mtlmon.streams import native
from mtlmon.streams.cells import cell_kind, from_cells, is_set, room_for_results, to_cells
from mtlmon.syntax.bounds import UNITS
from mtlmon.syntax.durations import Duration, DurationInterval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.expression import Constant, Expression
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.operators import Operator
    from mtlmon.streams.cells import Cells, Mask, Texts

_Number = TypeVar("_Number", np.int64, np.uint8)
_Step: TypeAlias = Literal["sum", "avg", "var", "stddev", "count"]

# A pane with fewer ticks takes as much memory as these, and one that has to be undone is copied, so
# there should not be too many.
_LEAST_TICKS = 30
_MOST_PANES = 500

MOST_DISTANCE = 1_000_000
"""How many values LAST and HOLD look back at most; as many are kept for each trace."""


class Extent(NamedTuple):
    """Which rows an operator looks at.

    Attributes:
        lower: how old values are at least, in units of time.
        upper: how old they are at most; -1 for no limit.
        distance: for LAST and `hold(1)`, how many values back, from 1; otherwise 0.
        length: for a rate, how long the window is: in seconds if the unit of time is known, else in
            units of time.
        counts_present: whether the value at the row itself is the first one back.
    """

    lower: int
    upper: int
    distance: int = 0
    length: float = 0
    counts_present: bool = False

    @property
    def excludes_present(self) -> bool:
        """Whether the value at a row does not depend on the argument at the same row."""
        return (self.distance > 0 and not self.counts_present) or self.lower > 0


def extent_of(node: Expression, unit: str | None) -> Extent:
    """Return which rows an aggregate or offset looks at.

    Args:
        node: a node with an operator of `MEMORY`.
        unit: the unit of the time-stamps, if it is known.

    Raises:
        FormulaError: a duration is not a whole number of units.
        NotPossible: the operator looks at later rows.
    """
    if node.operator in ops.WINDOWS:
        interval = node.window.interval
        if isinstance(interval, DurationInterval) and unit is not None:
            interval = interval.in_unit(unit, node.operator.word)
        upper = -1 if interval.upper is None else interval.upper
        length = 0.0
        if node.operator is ops.WINDOW_RATE:
            units = max(0, upper - interval.lower)
            length = units * UNITS[unit] / UNITS["s"] if unit is not None else float(units)
        return Extent(interval.lower, upper, length=length)
    distance = node.offset.distance
    if node.operator in {ops.LAST, ops.HOLD} and distance:
        assert isinstance(distance, int)
        word, counts_present = node.operator.word, node.operator is ops.HOLD
        most = MOST_DISTANCE - counts_present
        if distance > most:
            raise NotPossible(f"{word}({distance}) looks back further than {most} values")
        return Extent(0, -1, distance + counts_present, counts_present=counts_present)
    if is_later(node):
        shown = "next(...)" if node.operator is ops.NEXT else f"at(+{distance})"
        raise NotPossible(
            f"{shown} looks at later rows: only policies and triggers on rows can use it, and the "
            "streams that they read as they are"
        )
    return Extent(length_of(node, unit), -1)


def length_of(node: Expression, unit: str | None) -> int:
    """Return how long ago, or how much later, a value of AT or HOLD is.

    Args:
        node: the AT or HOLD.
        unit: the unit of the time-stamps, if it is known.

    Raises:
        FormulaError: a duration is not a whole number of units.
    """
    distance = node.offset.distance
    if isinstance(distance, Duration):
        interval = DurationInterval(distance, distance)
        distance = (interval if unit is None else interval.in_unit(unit, "at")).lower
    return distance


class Meeting(NamedTuple):
    """The time-points of a kernel's argument and those of its results, in one order.

    Attributes:
        batch: all of them.
        arguments: which of them are those of the argument.
        results: which of them are those of the results.
        is_result: for each of them, whether it is one of `results`.
    """

    batch: native.Batch
    arguments: NDArray[np.int64]
    results: NDArray[np.int64]
    is_result: Mask


class Kernel:
    """A native kernel between columns of Arrow.

    Args:
        node: a node with an operator of `MEMORY`.
        argument: the kind of its argument; NULL if it has none.
        kind: the kind of its values, with the default among them.
        extent: the rows it looks at.
        texts: the numbers of texts.
        period: if results are only wanted at ticks, their period, else 0.

    Attributes:
        node: the node.
        argument_kind: the kind of its argument.
        argument: the kind of the values that the native kernel takes.
        found_kind: the kind of the results of the native kernel.
        kind: the kind of the values, with the default among them.
        native: the native kernel.
        counter: for a default of a counting aggregate: counts the values that are not null.
        period: as given.
        pane: the width of the panes whose rows are merged, in units of time; 0 if none are.
    """

    def __init__(
        self,
        node: Expression,
        argument: Kind,
        kind: Kind,
        extent: Extent,
        texts: Texts,
        period: int = 0,
    ) -> None:
        self.node = node
        self.extent = extent
        is_quantile = node.operator in _QUANTILES
        self.argument_kind = argument
        self.argument = kinds.FLOAT if is_quantile else cell_kind(argument)
        self._texts = texts
        self.found_kind = _found_kind(node.operator, argument)
        self.kind = cell_kind(kind)
        self._default = default_of(node)
        self.native = self._kernel()
        self.counter = self._counter()
        self.period = period
        self.pane = 0
        if period > 0:
            pane = gcd(period, extent.lower, max(0, extent.upper))
            if all([one.set_panes(pane) for one in self.natives]):
                self.pane = pane

    def look_back(self, length: int) -> None:
        """Let an offset take the last value a length of time ago; it must have had no row."""
        self.extent = Extent(length, -1)
        self.pane = 0
        self.native = native.Fold("last", self.argument.name == "float", length)

    def begin_sooner(self, length: int) -> None:
        """Let a window begin and end a length of time later; it must have had no row.

        It gets its argument as it was so long ago then.
        """
        lower, upper, *_ = self.extent
        self.extent = self.extent._replace(
            lower=max(0, lower - length), upper=upper if upper < 0 else upper - length
        )
        self.native = self._kernel()
        self.counter = self._counter()
        self.pane = 0

    def can_step_over_ticks(self, period: int) -> bool:
        """Whether a window of ticks of a period can do without some; see `step_over_ticks`."""
        lower, upper, *_ = self.extent
        return (
            self.node.operator in _STEPS and -(-lower // period) <= upper // period <= MOST_DISTANCE
        )

    def step_over_ticks(self, period: int) -> None:
        """Let a window of ticks go by their numbers; it must have had no row.

        Ticks may then be left out where all values in the window are the same: see
        `native.TickWindow`, and `native.TickPanes` for results that are wanted rarely.

        Args:
            period: the period of the ticks that it looks at.
        """
        lower, upper, *_ = self.extent
        first, last = -(-lower // period), upper // period
        kind, is_float = _STEPS[self.node.operator], self.argument.name == "float"
        pane = gcd(self.period, lower, upper)
        if pane % period or pane // period < _LEAST_TICKS or upper // pane > _MOST_PANES:
            pane = 0
        self.pane = pane

        def window(kind: _Step, *, is_float: bool) -> native.Kernel:
            if not pane:
                return native.TickWindow(kind, is_float, first, last)
            bounds = pane // period, lower // pane, upper // pane
            return native.TickPanes(kind, is_float, period, *bounds)

        self.native = window(kind, is_float=is_float)
        if self.counter is not None:
            self.counter = window("count", is_float=False)

    def beside(self, last: Expression, argument: Kind) -> Kernel:
        """Return a kernel of the last values of an argument, with the texts of this one."""
        return Kernel(last, argument, argument, Extent(0, -1, 1), self._texts)

    @property
    def skips_undefined(self) -> bool:
        """Whether NaN is no value, as null."""
        return self.argument.name == "float" and self.node.operator in ops.WINDOWS

    @property
    def _compares_texts(self) -> bool:
        operator = self.node.operator
        return self.argument.name == "text" and operator in {ops.WINDOW_MIN, ops.WINDOW_MAX}

    def rank_texts(self) -> None:
        """Tell the native kernel the order of all texts, if it compares texts."""
        if self._compares_texts:
            self.native.set_ranks(self._texts.ranks())

    @property
    def natives(self) -> list[native.Kernel]:
        """The native kernels, one or two."""
        return [self.native] if self.counter is None else [self.native, self.counter]

    @property
    def can_rest(self) -> bool:
        """Whether the state stays as it is where the same value comes again and again.

        It may change for as long as `extent.lower` after another value came.
        """
        return self.keeps_latest or (self.node.operator is ops.LAST and self.extent.distance == 1)

    @property
    def keeps_latest(self) -> bool:
        """Whether it is the newest value, or the newest one of some time ago."""
        return self.node.operator in {ops.AT, ops.HOLD} and not self.extent.distance

    @property
    def settling_age(self) -> int | None:
        """How old a row may be before it no longer matters; None if some rows always do."""
        node, upper = self.node, self.extent.upper
        if node.operator not in ops.WINDOWS or node.operator is ops.WINDOW_INTEGRAL or upper < 0:
            return None
        return upper

    def argument_of(self, columns: Sequence[pa.Array]) -> pa.Array | None:
        """Return the argument that some columns are; None if there are none."""
        return columns[0] if columns else None

    def run(
        self,
        rows: native.Batch,
        values: pa.Array | None,
        meeting: Meeting | native.Batch | None = None,
    ) -> tuple[pa.Array, int]:
        """Compute the results at the time-points of a batch.

        Args:
            rows: the time-points of the results.
            values: the argument, or None if there is none.
            meeting: how the time-points of the argument lie among those of the results; or the
                former, if each comes before those of the results at its time; None if they are the
                same.

        Returns:
            The results, and how many there are: if one overflows, those before it.
        """
        cells, mask = self._input(values)
        self.rank_texts()
        results, validity, done = self._feed(self.native, rows, cells, mask, meeting)
        operator = self.node.operator
        if operator is ops.WINDOW_ANY:
            results = (results > 0).astype(np.int64)
        elif operator is ops.WINDOW_ALL:
            results = (results == 0).astype(np.int64)
        found = from_cells(results[:done], validity[:done], self.found_kind, self._texts)
        if self._default is None or done < rows.count:
            return found, done
        found = pc.cast(found, column_type(self.kind))
        default = pa.scalar(constant_as(self._default, self.kind), column_type(self.kind))
        if self.counter is None:
            return pc.fill_null(found, default), done
        assert values is not None
        mask = is_set(values.is_valid())
        if self.skips_undefined:
            mask = without_undefined(cells, mask)
        counts, _, _ = self._feed(self.counter, rows, None, mask, meeting)
        return pc.if_else(pa.array(counts > 0), found, default), done

    def _input(self, values: pa.Array | None) -> tuple[Cells | None, Mask | None]:
        if values is None:
            return None, None
        if self.node.operator in {ops.WINDOW_COUNT, ops.WINDOW_ANY}:
            return None, is_set(pc.fill_null(values, False))
        if self.node.operator is ops.WINDOW_ALL:
            return None, is_set(pc.invert(pc.fill_null(values, True)))
        cells, mask = to_cells(values, self.argument, self._texts)
        if self.skips_undefined:
            mask = without_undefined(cells, mask)
        return cells, mask

    @staticmethod
    def _feed(
        kernel: native.Kernel,
        rows: native.Batch,
        cells: Cells | None,
        mask: Mask | None,
        meeting: Meeting | native.Batch | None,
    ) -> tuple[Cells, Mask, int]:
        if not isinstance(meeting, Meeting):
            results, validity = room_for_results(rows.count)
            done = kernel.feed(rows, cells, mask, results, validity, None, meeting)
            return results, validity, done
        count = meeting.batch.count
        if cells is not None:
            cells = _scattered(cells, meeting.arguments, count)
        mask = _scattered(np.ones(1, np.uint8) if mask is None else mask, meeting.arguments, count)
        results, validity = room_for_results(count)
        done = kernel.feed(meeting.batch, cells, mask, results, validity, meeting.is_result)
        done = int(np.searchsorted(meeting.results, done)) if done < count else rows.count
        return results[meeting.results], validity[meeting.results], done

    def _counter(self) -> native.Kernel | None:
        if self.node.operator not in _COUNTING or self._default is None:
            return None
        return native.CountWindow(self.extent.lower, self.extent.upper)

    def _kernel(self) -> native.Kernel:
        operator = self.node.operator
        lower, upper, distance, length, counts_present = self.extent
        is_float = self.argument.name == "float"
        if operator in _COUNTS:
            return native.CountWindow(lower, upper)
        if distance:
            return native.Last(distance, counts_present)
        if operator in {ops.AT, ops.HOLD}:
            return native.Fold("last", is_float, lower)
        if operator in _SUMS:
            return native.SumWindow(_SUMS[operator], is_float, lower, upper)
        if operator is ops.WINDOW_DISTINCT:
            return native.DistinctWindow(is_float, lower, upper)
        if operator in _BETWEEN:
            kind = _BETWEEN[operator]
            if ops.LINEAR in self.node.window.parameters:
                kind = "lines"
            return native.StepWindow(kind, is_float, lower, upper, length)
        if operator in _QUANTILES:
            parameters = self.node.window.parameters
            share = constant_as(parameters[0], kinds.FLOAT) if parameters else 0.5
            assert isinstance(share, float)
            if not 0 <= share <= 1:
                raise NotPossible(f"quantile takes a number from 0 to 1, not {parameters[0]}")
            return native.QuantileWindow(share, lower, upper, operator is ops.WINDOW_MAD)
        if operator in _CHOICES:
            choice = _CHOICES[operator]
            compares = self._compares_texts
            if upper < 0:
                return native.Fold(choice, is_float, lower, compares)
            return native.QueueWindow(choice, is_float, lower, upper, compares)
        raise NotPossible(f"{operator.word} over a window is not possible yet")


def without_undefined(cells: Cells | None, mask: Mask | None) -> Mask | None:
    """A mask of floats in which NaN is null, too."""
    assert cells is not None
    is_undefined = np.isnan(cells.view(np.float64))
    if not is_undefined.any():
        return mask
    known = (~is_undefined).view(np.uint8)
    return known if mask is None else known & mask


def _scattered(values: NDArray[_Number], places: NDArray[np.int64], count: int) -> NDArray[_Number]:
    """An array of a size with values at some places, and 0 elsewhere."""
    found = np.zeros(count, values.dtype)
    found[places] = values
    return found


_COUNTING = {ops.WINDOW_COUNT, ops.WINDOW_ANY, ops.WINDOW_ALL, ops.WINDOW_DISTINCT}
"""Aggregates with a value where nothing is in the window."""
_COUNTS = {ops.WINDOW_COUNT, ops.COUNT_ROWS, ops.WINDOW_ANY, ops.WINDOW_ALL}
_QUANTILES = {ops.WINDOW_MEDIAN, ops.WINDOW_QUANTILE, ops.WINDOW_MAD}
_SUMS: dict[Operator, Literal["sum", "avg", "var", "stddev"]] = {
    ops.WINDOW_SUM: "sum",
    ops.WINDOW_AVG: "avg",
    ops.WINDOW_VAR: "var",
    ops.WINDOW_STDDEV: "stddev",
}
_STEPS: dict[Operator, _Step] = {
    **_SUMS,
    ops.WINDOW_COUNT: "count",
}
_CHOICES: dict[Operator, Literal["first", "last", "min", "max"]] = {
    ops.WINDOW_FIRST: "first",
    ops.WINDOW_LAST: "last",
    ops.WINDOW_MIN: "min",
    ops.WINDOW_MAX: "max",
}
_BETWEEN: dict[Operator, Literal["integral", "lines", "increase", "rate", "changes", "resets"]] = {
    ops.WINDOW_INTEGRAL: "integral",
    ops.WINDOW_INCREASE: "increase",
    ops.WINDOW_RATE: "rate",
    ops.WINDOW_CHANGES: "changes",
    ops.WINDOW_RESETS: "resets",
}
"""Aggregates of the steps between successive values."""
_INTEGERS = {
    *(ops.WINDOW_COUNT, ops.COUNT_ROWS, ops.WINDOW_DISTINCT),
    *(ops.WINDOW_CHANGES, ops.WINDOW_RESETS),
}


def _found_kind(operator: Operator, argument: Kind) -> Kind:
    """The kind of a native kernel's results for the kind of its argument."""
    if operator in _INTEGERS:
        return kinds.INTEGER
    if operator in {ops.WINDOW_ANY, ops.WINDOW_ALL}:
        return kinds.BOOLEAN
    if operator in ops.OFFSETS.values() or operator in _CHOICES:
        return cell_kind(argument)
    if operator in {ops.WINDOW_SUM, ops.WINDOW_INCREASE} and argument.name in {"integer", "null"}:
        return argument
    return kinds.FLOAT


def default_of(node: Expression) -> Constant:
    """Return the constant behind `or:`; None is null."""
    return node.window.default if node.operator in ops.WINDOWS else node.offset.default
