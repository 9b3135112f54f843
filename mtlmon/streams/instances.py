"""Instances of streams with `per` at run time: who is alive, and what is computed of them.

Instances are numbered like traces, and the same kernels compute them: the rows that belong to an
instance are time-points of their own, and the number of the instance takes the place of that of the
trace. A table (`instances.pxi`) tells which instances are alive, and `policy/templates` when they
begin and end. One that begins again gets a new number, so its past is empty without any kernel
having to forget something. When more than half of the numbers are of instances that have ended, all
kernels renumber, as they do for traces.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import RowError, SnapshotError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression, Offset
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams import native
from mtlmon.streams.bounds import MOST_ENDED
from mtlmon.streams.cells import from_cells, is_set, room_for_results, to_cells
from mtlmon.streams.instance_groups import FORGOTTEN, InstanceBounds, InstanceGroups
from mtlmon.streams.kernels import Extent, Kernel
from mtlmon.syntax.report import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, TypeAlias, TypedDict

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.templates import Lifetime
    from mtlmon.streams.cells import Cells, Mask, Texts
    from mtlmon.streams.instance_calls import InstanceCalls
    from mtlmon.streams.instance_nows import InstanceNows
    from mtlmon.streams.instance_ticks import InstanceTicks
    from mtlmon.streams.layer import Columns
    from mtlmon.streams.points import Points
    from mtlmon.streams.recursion import MachineResults, MachineTask
    from mtlmon.streams.ticks_of_ends import TicksOfEnds
    from mtlmon.streams.waiting import Holding

    Numbers: TypeAlias = NDArray[np.uint32]
    _Keys: TypeAlias = tuple[list[Cells], list[Mask | None]]

    _Kept: TypeAlias = Literal[
        "count",
        "sum",
        "avg",
        "var",
        "stddev",
        "min",
        "max",
        "quantile",
        "rank",
        "histogram_quantile",
    ]

    class _Between(TypedDict, total=False):
        rows: native.Batch
        places: NDArray[np.int64]

    class _Wanted(TypedDict, total=False):
        groups: Numbers
        wanted_groups: Numbers | None
        group_count: int
        owners: Numbers | None
        bounds: NDArray[np.float64]


_KEY_KINDS = {"integer", "float", "boolean", "text", "time", "null"}
_SHOWN_WIDTH = 60
_LEAST, _GREATEST = -(2.0**63), 2.0**63


class KeyColumn(NamedTuple):
    """A column of values that tell instances apart.

    Attributes:
        name: its name.
        kind: the kind of its values.
    """

    name: str
    kind: Kind


class Ends(NamedTuple):
    """Where instances end.

    Attributes:
        condition: the column that is true at rows behind which they do; None for all rows.
        keys: the columns with the key of the instance that ends; None if all of the trace do.
    """

    condition: str | None
    keys: list[KeyColumn] | None


class Family:
    """The instances of all streams with the same `per`, `from` and `until`.

    Args:
        name: the name of a stream that has them.
        frame: the number of the family, which is negative: that of its time-points, which are the
            rows that belong to an instance.
        keys: the columns that tell instances apart.
        start: the column that is true where instances may begin; None for all rows.
        ends: where instances end; None if they do not.
        texts: the numbers of texts.
        lifetime: after how much time they end.
        has_births: whether it matters when they began.

    Attributes:
        name: as given.
        frame: the number of the family.
        keys: the columns that tell instances apart.
        lifetime: as given.
        table: which instances live.
        kernels: the kernels of values of single instances.
        aggregates: the aggregates over all instances.
        kinds_over: the kind of the values of each of them.
        groups_of: what is aggregated by each of them; None for all instances of a trace.
        bounds_of: the bounds of buckets for each of them that is about histograms, else None.
        own_ticks: the ticks of the instances.
        nows: where their windows are read.
        calls: the rows that call instances which they do not belong to.
        ticks_of_ends: the ticks at which their own values may end them; None if none do.
        numbers: for the present batch, the number of each row's instance.
        has_waiting: whether rows wait for later values of instances.
        waiting: these rows, each time with a cell that is the number of an instance.

    Raises:
        NotPossible: values of this kind cannot tell instances apart.
    """

    def __init__(
        self,
        name: str,
        frame: int,
        keys: list[KeyColumn],
        start: str | None,
        ends: Ends | None,
        texts: Texts,
        lifetime: Lifetime,
        *,
        has_births: bool = False,
    ) -> None:
        for key in keys:
            if key.kind.name not in _KEY_KINDS:
                raise NotPossible(f"values after per cannot be {key.kind.words}")
        self.name = name
        self.frame = frame
        self.keys = keys
        self.lifetime = lifetime
        self.kernels: list[Kernel] = []
        self.aggregates: list[native.Over] = []
        self.kinds_over: list[Kind] = []
        self.groups_of: list[InstanceGroups | None] = []
        self.bounds_of: list[InstanceBounds | None] = []
        self._groups: dict[tuple[int, ...], InstanceGroups] = {}
        self.own_ticks: list[InstanceTicks] = []
        self.nows: list[InstanceNows] = []
        self.calls: list[InstanceCalls] = []
        self.ticks_of_ends: TicksOfEnds | None = None
        self.has_waiting = False
        self.waiting: list[tuple[Holding, int]] = []
        self.numbers = np.empty(0, np.uint32)
        # how many of those that have ended rows still wait for
        self._needed = 0
        self._is_text = [key.kind.name == "text" for key in keys]
        self.table = native.Instances(self._is_text, lifetime.age, lifetime.silence, has_births)
        self._start = start
        self._ends = ends
        self._texts = texts
        self._ranks = np.empty(0, np.uint32)

    def groups(self, keys: tuple[int, ...]) -> InstanceGroups:
        """The groups of instances that share some of the values behind `per`."""
        if keys not in self._groups:
            self._groups[keys] = InstanceGroups(self.table, self._is_text, keys)
        return self._groups[keys]

    @property
    def ticks(self) -> list[InstanceTicks | InstanceNows]:
        """All time-points of the instances but their rows."""
        return [*self.own_ticks, *self.nows]

    def run(
        self, columns: dict[str, pa.Array], points: Points, ending: MachineTask | None
    ) -> MachineResults | None:
        """Begin and end instances at the rows of a batch, and find those that rows belong to.

        In place of rows, these may be ticks of traces; see `Lifetime`.

        Args:
            columns: the columns of the rows.
            points: the time-points; gets the rows of the instances.
            ending: computes what ends instances; None if no values of their own do.

        Raises:
            RowError: an integer overflows in what ends instances.
            LayerError: one does so at a tick.
        """
        clock = self.lifetime.clock
        rows = points.batch(clock)
        cells, masks = self.cells_of(self.keys, columns)
        starts = None if self._start is None else where_true(columns[self._start])
        ends: Mask | None = None
        end_cells: list[Cells] | None = None
        end_masks: list[Mask | None] | None = None
        if self._ends is not None:
            condition = self._ends.condition
            ends = np.ones(rows.count, np.uint8)
            if condition is not None:
                ends = where_true(columns[condition])
            if self._ends.keys is not None:
                end_cells, end_masks = self.cells_of(self._ends.keys, columns)
        self.numbers = np.empty(rows.count, np.uint32)
        found = None if ending is None else ending.opened({clock: columns}, rows.count)
        ticks = self.ticks_of_ends
        if ticks is not None:
            ticks.begin(columns, points)
        between: _Between = {}
        if clock != ROWS:
            between = {"rows": points.batch(ROWS), "places": points.ticks_of(clock).places}
        done = self.table.run(
            rows,
            cells,
            masks,
            starts,
            ends,
            end_cells,
            end_masks,
            self.numbers,
            points.span.limit,
            None if ticks is None else ticks.native,
            *(() if found is None else found),
            **between,
        )
        if ticks is not None:
            ticks.end(self.table, points)
        if ending is not None and done < rows.count:
            raise RowError(ending.overflow(), rows=(done,))
        is_own = self.numbers != FORGOTTEN
        points.add_family(self.frame, self.numbers, None if is_own.all() else is_own, clock)
        return found

    def cells_of(
        self,
        found: Sequence[KeyColumn],
        columns: dict[str, pa.Array],
        numbers: Sequence[int] | None = None,
    ) -> tuple[list[Cells], list[Mask | None]]:
        """Return columns as cells of keys, or of some values of these, each with its mask."""
        keys = self.keys if numbers is None else [self.keys[number] for number in numbers]
        pairs = [
            _key_cells(columns[one.name], one.kind, key.kind, self._texts)
            for one, key in zip(found, keys, strict=True)
        ]
        return [cells for cells, _ in pairs], [mask for _, mask in pairs]

    def begin(self) -> None:
        """Begin a batch: what was done before can no longer be undone."""
        self.table.begin()
        for aggregate in self.aggregates:
            aggregate.begin()
        for ticks in self.ticks:
            ticks.begin()
        ended = self.table.count - self.table.living - self._needed
        if ended > max(MOST_ENDED, self.table.living):
            self.compact()

    def undo(self) -> None:
        """Return to the state at the last `begin`; the kernels are left as they are."""
        self.table.undo()
        for aggregate in self.aggregates:
            aggregate.undo()
        for ticks in self.ticks:
            ticks.undo()
        for groups in self._groups.values():
            groups.undo()
        for bounds in filter(None, self.bounds_of):
            bounds.undo()

    def compact(self, new_traces: bytes | None = None) -> None:
        """Forget the instances that have ended, and give traces new numbers.

        Those whose values rows wait for keep a number.
        """
        is_needed = np.zeros(self.table.count, np.uint8)
        for rows, cell in self.waiting:
            rows.native.mark_groups(is_needed, cell)
        numbers = self.table.compact(new_traces, is_needed)
        self._needed = self.table.count - self.table.living
        for rows, cell in self.waiting:
            rows.native.keep_groups(numbers, cell)
        for kernel in self.kernels:
            for one in kernel.natives:
                one.keep(numbers)
        for ticks in self.ticks:
            ticks.keep(numbers)
        kept = {keys: groups.keep(numbers) for keys, groups in self._groups.items()}
        for bounds in filter(None, self.bounds_of):
            bounds.restart()
        for aggregate, own in zip(self.aggregates, self.groups_of, strict=True):
            aggregate.keep(numbers, new_traces if own is None else kept[own.keys])

    def forget_all(self) -> None:
        """Forget all traces with their instances; the caller resets the state of kernels."""
        self.compact(b"")
        for ticks in self.ticks:
            ticks.forget_all()

    @property
    def held_bytes(self) -> int:
        """The number of bytes that are held, without those of the kernels."""
        found = self.table.held_bytes + sum(one.held_bytes for one in self.aggregates)
        if self.ticks_of_ends is not None:
            found += self.ticks_of_ends.native.held_bytes
        found += sum(groups.held_bytes for groups in self._groups.values())
        return found + sum(ticks.held_bytes for ticks in self.ticks)

    @property
    def own_keys(self) -> list[tuple[Expression, KeyColumn]]:
        """The expressions that tell instances apart, with their columns."""
        return list(zip(self.lifetime.keys, self.keys, strict=True))

    @property
    def part_count(self) -> int:
        """The number of parts of a snapshot."""
        return 1 + len(self.ticks) + len(self.aggregates)

    def snapshot(self) -> list[bytes]:
        """Return the state as parts for `restore`, without that of the kernels."""
        found = [self.table.snapshot(), *(ticks.snapshot() for ticks in self.ticks)]
        return [*found, *(one.snapshot(self.table) for one in self.aggregates)]

    def restore(
        self, parts: Sequence[bytes], widened: Sequence[bool], widened_over: Sequence[bool]
    ) -> None:
        """Continue from the parts of a snapshot; there must be no instances.

        Args:
            parts: the parts.
            widened: for each value of a key, whether it is an integer there and a float here.
            widened_over: the same for the values of each aggregate.

        Raises:
            SnapshotError: a part is damaged, or of other streams.
        """
        rest = iter(parts)
        self.table.restore(next(rest), widened)
        for ticks in self.ticks:
            try:
                ticks.restore(next(rest))
            except ValueError as error:
                raise SnapshotError(str(error)) from None
        own = zip(self.aggregates, self.groups_of, self.bounds_of, strict=True)
        for (aggregate, groups, bounds), flag, part in zip(own, widened_over, rest, strict=True):
            numbers = None if groups is None else groups.of_instances
            count = 0 if groups is None else groups.count
            of_buckets = None if bounds is None else bounds.of_instances
            aggregate.restore(part, self.table, flag, numbers, count, of_buckets)

    @property
    def _of_texts(self) -> list[native.Over]:
        return [one for one in self.aggregates if one.is_text]

    def rank_texts(self) -> None:
        """Tell the aggregates the order of all texts, if they compare some."""
        compared = self._of_texts
        ranks = self._texts.ranks() if compared else self._ranks
        if ranks is not self._ranks:
            self._ranks = ranks
            for one in compared:
                one.set_ranks(ranks)

    def mark_texts(self, flags: Mask) -> None:
        """Find the texts of keys and values; see `native.Instances.mark_texts`."""
        self.table.mark_texts(flags)
        for one in self._of_texts:
            one.mark_texts(flags)

    def renumber_texts(self, new_numbers: bytes) -> None:
        """Give texts new numbers; `compact` comes before, and `rank_texts` behind."""
        self.table.renumber_texts(new_numbers)
        for one in self._of_texts:
            one.renumber_texts(new_numbers)
        for groups in self._groups.values():
            groups.renumber_texts()


class FamilyTask:
    """Begins and ends instances, and finds the rows that belong to them."""

    def __init__(self, family: Family, ending: MachineTask | None) -> None:
        self.period = self.argument_period = family.lifetime.clock
        ends = [] if ending is None else [ending]
        if family.ticks_of_ends is not None:
            ends.append(family.ticks_of_ends.task)
        self.kernels: list[Kernel] = [kernel for end in ends for kernel in end.kernels]
        self.argument_periods = [period for end in ends for period in end.argument_periods]
        self._family = family
        self._ending = ending

    def run(self, columns: Columns, points: Points) -> None:
        """Do so at the rows of a batch."""
        found = self._family.run(columns[self.period], points, self._ending)
        if self._ending is not None and found is not None:
            rows = points.own_rows(self._family.frame)
            self._ending.put(columns, found, rows)


class InstancePointsTask:
    """Finds time-points of instances, behind the task that begins and ends these.

    Args:
        finder: adds the time-points of a batch.
    """

    period = argument_period = ROWS

    def __init__(self, finder: InstanceTicks | InstanceNows | InstanceCalls) -> None:
        self.kernels: list[Kernel] = []
        self._finder = finder

    def run(self, columns: Columns, points: Points) -> None:
        """Add the time-points of a batch."""
        self._finder.add(columns, points)


class RowsTask:
    """A column of instances as a column of rows, with the same name.

    Args:
        name: the name of the column.
        frame: the number of the family.
        clock: `ROWS`, or the period of the ticks at which instances begin.
    """

    def __init__(self, name: str, frame: int, clock: int) -> None:
        self.period = self.argument_period = clock
        self.kernels: list[Kernel] = []
        self._name = name
        self._frame = frame

    def run(self, columns: Columns, points: Points) -> None:
        """Add the column; it is null for rows without an instance."""
        own = columns[self._frame][self._name]
        columns[self.period][self._name] = points.as_rows(own, self._frame)


class NumbersTask:
    """The numbers of instances at rows, null where there is none.

    Args:
        result: the name of the column of the results.
        family: the instances.
        keys: the columns with the key of the instance; None for the one that the row belongs to.
    """

    period = argument_period = ROWS

    def __init__(self, result: str, family: Family, keys: list[KeyColumn] | None) -> None:
        self.kernels: list[Kernel] = []
        self._result = result
        self._family = family
        self._keys = keys

    def run(self, columns: Columns, points: Points) -> None:
        """Add the column."""
        numbers = self._family.numbers
        if self._keys is not None:
            rows = points.batch(ROWS)
            numbers = np.empty(rows.count, np.uint32)
            keys = self._family.cells_of(self._keys, columns[ROWS])
            self._family.table.find(rows, *keys, numbers)
        found = pa.array(numbers.astype(np.int64), mask=numbers == FORGOTTEN)
        columns[ROWS][self._result] = found


class NullTask:
    """A column of rows, or of ticks at which instances begin, that is null everywhere.

    Args:
        name: its name.
        kind: its type.
        clock: `ROWS`, or the period of the ticks.
    """

    def __init__(self, name: str, kind: pa.DataType, clock: int) -> None:
        self.period = self.argument_period = clock
        self.kernels: list[Kernel] = []
        self._name = name
        self._kind = kind

    def run(self, columns: Columns, points: Points) -> None:
        """Add the column."""
        count = points.batch(self.period).count
        columns[self.period][self._name] = pa.nulls(count, self._kind)


class LookUpTask:
    """The held value of the instance with a certain key, at rows or ticks.

    Args:
        result: the name of the column of the results.
        family: the instances.
        keys: the columns with the key of the instance.
        value: the column of values; at rows, it is null at those that belong to no instance.
        kind: the kind of the values.
        texts: the numbers of texts.
        argument_period: `ROWS`, or the number of the time-points of instances that have the values.
        period: the time-points of the results; those of rows have rows.
        may_become_null: whether the last value counts also where it is null.

    Attributes:
        family: the instances.
    """

    def __init__(
        self,
        result: str,
        family: Family,
        keys: list[KeyColumn],
        value: str,
        kind: Kind,
        texts: Texts,
        argument_period: int = ROWS,
        period: int = ROWS,
        *,
        may_become_null: bool = False,
    ) -> None:
        held = Expression(ops.HOLD, (Expression(ops.ROW_COLUMN, (), value),), Offset(0))
        kernel = Kernel(held, kind, kind, Extent(0, -1), texts)
        self.kernels = [kernel]
        if may_become_null:
            # whether there is a value
            self.kernels.append(Kernel(held, kinds.BOOLEAN, kinds.BOOLEAN, Extent(0, -1), texts))
        self.kind = kernel.kind
        self.argument_period = argument_period
        self.period = period
        self._result = result
        self.family = family
        self._keys = keys
        self._value = value
        self._texts = texts

    def run(self, columns: Columns, points: Points) -> None:
        """Compute the results, and add them to the columns."""
        kernel = self.kernels[0]
        value = columns[self.argument_period][self._value]
        values, mask = to_cells(value, kernel.argument, self._texts)
        keys = self.family.cells_of(self._keys, columns[self.period])
        if self.argument_period == ROWS:
            found, validity = self._at_rows(points, values, mask, keys)
        else:
            found, validity = self._among_ticks(points, values, mask, keys)
        columns[self.period][self._result] = from_cells(
            found, validity, kernel.found_kind, self._texts
        )

    def _at_rows(
        self, points: Points, values: Cells, mask: Mask | None, keys: _Keys
    ) -> tuple[Cells, Mask]:
        rows = points.batch(ROWS)
        count = rows.count
        # Each row puts the value of its own instance first, and then gets that of the other.
        numbers = np.empty((count, 2), np.uint32)
        numbers[:, 0] = self.family.numbers
        looked = np.empty(count, np.uint32)
        self.family.table.find(rows, *keys, looked)
        numbers[:, 1] = looked
        cells = np.zeros((count, 2), np.int64)
        cells[:, 0] = values
        masks = np.zeros((count, 2), np.uint8)
        masks[:, 0] = 1 if mask is None else mask
        times = np.repeat(rows.times, 2)
        found, validity = fed(
            self.kernels[0], times, numbers.reshape(-1), cells.reshape(-1), masks.reshape(-1)
        )
        return found[1::2].copy(), validity[1::2].copy()

    def _among_ticks(
        self, points: Points, values: Cells, mask: Mask | None, keys: _Keys
    ) -> tuple[Cells, Mask]:
        meeting = points.instance_meeting(self.argument_period, self.period)
        rows = points.readers(self.period)
        looked = np.empty(rows.count, np.uint32)
        self.family.table.find(rows, *keys, looked, meeting.moments[meeting.results])
        count = meeting.batch.count
        numbers = np.empty(count, np.uint32)
        numbers[meeting.arguments] = points.batch(self.argument_period).numbers_of_traces
        numbers[meeting.results] = looked
        cells, masks = np.zeros(count, np.int64), np.zeros(count, np.uint8)
        cells[meeting.arguments] = values
        masks[meeting.arguments] = 1 if mask is None else mask
        times, results = meeting.batch.times, meeting.results
        found, validity = fed(self.kernels[0], times, numbers, cells, masks)
        for known in self.kernels[1:]:
            is_put = 1 - meeting.is_result
            has_value, is_alive = fed(known, times, numbers, masks.astype(np.int64), is_put)
            validity &= is_alive & (has_value != 0)
        return found[results], validity[results]


class OverTask:
    """An aggregate over the held values of the living instances of a trace, at rows or ticks.

    Args:
        result: the name of the column of the results.
        node: the node as written.
        family: the instances.
        argument: the column of values; it counts at rows that belong to an instance.
        kind: the kind of the values.
        texts: the numbers of texts.
        argument_period: `ROWS`, or the number of the ticks of instances that have the values.
        period: the time-points of the results; those of rows have rows.
        first: with ticks, the column of rows with the value before the first tick of an instance.
        groups: what is aggregated; None for all instances of a trace.
        keys: with `groups`, the columns with the values that the instances of a group share.
        bounds: for a histogram, the bounds of buckets.

    Attributes:
        kind: the kind of the results.
        family: the instances.

    Raises:
        NotPossible: values of this kind have no such aggregate.
    """

    def __init__(
        self,
        result: str,
        node: Expression,
        family: Family,
        argument: str,
        kind: Kind,
        texts: Texts,
        argument_period: int = ROWS,
        period: int = ROWS,
        first: str | None = None,
        groups: InstanceGroups | None = None,
        keys: Sequence[KeyColumn] = (),
        bounds: InstanceBounds | None = None,
    ) -> None:
        self.kernels: list[Kernel] = []
        self._bounds = bounds
        self._first = first
        self._groups = groups
        self._keys = keys
        self.argument_period = argument_period
        self.period = period
        self._result = result
        self._node = node
        self.family = family
        self._argument = argument
        self._texts = texts
        self._word = node.over.aggregate
        is_float = kind.name in {"float", "decimal"}
        if self._word in _COUNTS:
            self.kind = kinds.INTEGER if self._word == "count" else kinds.BOOLEAN
            self._values = kinds.BOOLEAN
        elif kind.name == "text" and self._word not in _EXTREMES:
            raise NotPossible(f"{self._word} of texts is not possible yet")
        elif self._word in _QUANTILES:
            self.kind = self._values = kinds.FLOAT
            is_float = True
        else:
            self.kind = self._values = kinds.FLOAT if is_float else kind
            if self._word in _MEANS:
                self.kind = kinds.FLOAT
            elif self._word == "rank":
                self.kind = kinds.INTEGER
        share = node.over.parameters[0] if node.over.parameters else Decimal("0.5")
        is_text = self._values.name == "text"
        self._aggregate = native.Over(_OVER[self._word], is_float, float(str(share)), is_text)
        family.aggregates.append(self._aggregate)
        family.kinds_over.append(self._values)
        family.groups_of.append(groups)
        family.bounds_of.append(bounds)

    def run(self, columns: Columns, points: Points) -> None:
        """Compute the results, and add them to the columns.

        Raises:
            RowError: a sum of integers overflows.
        """
        cells, mask = self._cells(columns[self.argument_period][self._argument])
        first = None
        if self.argument_period != ROWS and self._first is not None:
            clock = self.family.lifetime.clock
            if points.batch(clock).count:
                (cell,), is_known = self._cells(columns[clock][self._first].slice(0, 1))
                first = int(cell) if is_known is None or is_known[0] else None
        # all texts of the batch are known now
        self.family.rank_texts()
        wanted = None
        if self._groups is not None:
            keys = self.family.cells_of(self._keys, columns[self.period], self._groups.keys)
            wanted = self._groups.find(points.readers(self.period), *keys)
        if self.argument_period == ROWS:
            results, validity, done = self._at_rows(points, cells, mask, wanted)
        else:
            results, validity, done = self._among_ticks(points, cells, mask, first, wanted)
        if done < points.batch(self.period).count:
            shown = shorten(str(self._node), _SHOWN_WIDTH)
            raise RowError(f"{shown} overflows 64 bits", rows=(done,))
        if self._word == "any":
            results = (results > 0).astype(np.int64)
        elif self._word == "all":
            results = (results == 0).astype(np.int64)
        own = columns[self.period]
        own[self._result] = from_cells(results, validity, self.kind, self._texts)

    def _cells(self, values: pa.Array) -> tuple[Cells, Mask | None]:
        if self._word == "all":
            # counts where it is false
            values = pc.invert(pc.cast(values, pa.bool_()))
        return to_cells(values, self._values, self._texts)

    def _at_rows(
        self, points: Points, cells: Cells, mask: Mask | None, wanted: Numbers | None
    ) -> tuple[Cells, Mask, int]:
        rows = points.batch(ROWS)
        results, validity = room_for_results(rows.count)
        done = self._aggregate.feed(
            self.family.table,
            rows,
            self.family.numbers,
            cells,
            mask,
            results,
            validity,
            **self._wanted(wanted, self._owners(points)),
        )
        return results, validity, done

    def _owners(self, points: Points) -> Numbers | None:
        """The instance whose rank is wanted, at each time-point of the results."""
        if self._word != "rank":
            return None
        if self.period == ROWS:
            return self.family.numbers
        numbers: Numbers = points.batch(self.period).numbers_of_traces
        return numbers

    def _wanted(self, wanted: Numbers | None, owners: Numbers | None) -> _Wanted:
        """What the aggregate gets about groups, ranks and histograms."""
        found: _Wanted = {"owners": owners}
        if self._groups is not None:
            found["groups"] = self._groups.of_instances
            found["wanted_groups"] = wanted
            found["group_count"] = self._groups.count
        if self._bounds is not None:
            found["bounds"] = self._bounds.of_instances
        return found

    def _among_ticks(
        self,
        points: Points,
        cells: Cells,
        mask: Mask | None,
        first: int | None,
        wanted: Numbers | None,
    ) -> tuple[Cells, Mask, int]:
        meeting = points.instance_meeting(self.argument_period, self.period, can_share=True)
        count = meeting.batch.count
        numbers = points.batch(self.argument_period).numbers_of_traces
        values, masks = cells, mask
        if len(meeting.arguments) < count:
            of_arguments, numbers = numbers, np.full(count, FORGOTTEN, np.uint32)
            numbers[meeting.arguments] = of_arguments
            values, masks = np.zeros(count, np.int64), np.zeros(count, np.uint8)
            values[meeting.arguments] = cells
            masks[meeting.arguments] = 1 if mask is None else mask
        wanted = _at(meeting.results, wanted, count)
        owners = _at(meeting.results, self._owners(points), count)
        results, validity = room_for_results(count)
        done = self._aggregate.feed(
            self.family.table,
            meeting.batch,
            numbers,
            values,
            masks,
            results,
            validity,
            meeting.moments,
            meeting.is_result,
            first,
            **self._wanted(wanted, owners),
        )
        done = int(np.searchsorted(meeting.results, done))
        return results[meeting.results], validity[meeting.results], done


def fed(
    kernel: Kernel, times: Cells, numbers: NDArray[np.uint32], cells: Cells, masks: Mask
) -> tuple[Cells, Mask]:
    """Put values, and get those of instances at the same time-points, null for no instance."""
    places = np.flatnonzero(numbers != FORGOTTEN)
    batch = native.Batch(times[places], numbers[places], len(places))
    found, validity = room_for_results(len(places))
    kernel.native.feed(batch, cells[places], masks[places], found, validity)
    results, is_valid = np.zeros(len(times), np.int64), np.zeros(len(times), np.uint8)
    results[places], is_valid[places] = found, validity
    return results, is_valid


def _at(places: NDArray[np.int64], numbers: Numbers | None, count: int) -> Numbers | None:
    """Put numbers of groups or instances at some of the time-points, and none at the others."""
    if numbers is None:
        return None
    found = np.full(count, FORGOTTEN, np.uint32)
    found[places] = numbers
    return found


_COUNTS = {"count", "any", "all"}
_QUANTILES = {"median", "quantile", "histogram_quantile"}
_MEANS = {"avg", "var", "stddev"}
_EXTREMES = {"min", "max"}
_OVER: dict[str, _Kept] = {
    **dict.fromkeys(("count", "any", "all"), "count"),
    **dict.fromkeys(("median", "quantile"), "quantile"),
    "rank": "rank",
    "histogram_quantile": "histogram_quantile",
    "sum": "sum",
    "avg": "avg",
    "var": "var",
    "stddev": "stddev",
    "min": "min",
    "max": "max",
}


def where_true(condition: pa.Array) -> Mask:
    """Return where a condition is true; null is not."""
    return is_set(pc.fill_null(pc.cast(condition, pa.bool_()), False))


def _key_cells(
    values: pa.Array, kind: Kind, wanted: Kind, texts: Texts
) -> tuple[Cells, Mask | None]:
    """Return values as cells of keys; what equals no key has a mask of 0."""
    cells, mask = to_cells(values, kind, texts)
    if "null" in {kind.name, wanted.name}:
        return np.zeros(len(values), np.int64), np.zeros(len(values), np.uint8)
    if kind.name == "float":
        floats = cells.view(np.float64)
        if wanted.name == "float":
            # both zeros are one key, and NaN equals nothing
            return (floats + 0.0).view(np.int64), _both(mask, ~np.isnan(floats))
        is_whole = (np.floor(floats) == floats) & (floats >= _LEAST) & (floats < _GREATEST)
        return np.where(is_whole, floats, 0.0).astype(np.int64), _both(mask, is_whole)
    if kind.name == "integer" and wanted.name == "float":
        floats = cells.astype(np.float64)
        in_range = floats < _GREATEST
        is_exact = in_range & (np.where(in_range, floats, 0.0).astype(np.int64) == cells)
        return (floats + 0.0).view(np.int64), _both(mask, is_exact)
    return cells, mask


def _both(mask: Mask | None, condition: NDArray[np.bool_]) -> Mask | None:
    if mask is not None:
        condition = condition & (mask != 0)
    return None if condition.all() else condition.view(np.uint8)
