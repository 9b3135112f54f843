"""Streams that read their own earlier values: one machine computes a group of them, row by row.

Streams of different time-points can read each other: a tick sees the rows up to its time, and a row
the ticks below it. Then the machine goes over all of these in one order, and its code has sections
for each kind of time-points.

What does not depend on the group is computed before, whole columns at a time, and is an input of
the machine. An aggregate or offset of the group's own values is a kernel of the machine. If it
excludes the present row, its result comes first, and the kernel gets its argument at the end of the
row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import RowError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.kinds import kind_of
from mtlmon.policy.predicates.machine_code import EQUAL, GREATER, MachineCode, NotPossible
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams import native
from mtlmon.streams.cells import cell_kind, from_cells, room_for_results, to_cells
from mtlmon.streams.kernels import Kernel, default_of
from mtlmon.streams.layer import LayerError
from mtlmon.syntax.report import shorten
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.streams.cells import Cells, Mask, Texts
    from mtlmon.streams.kernels import Extent
    from mtlmon.streams.layer import Columns
    from mtlmon.streams.points import Points

_SHOWN_WIDTH = 60
_MOST_ROUNDS = 100


class Memory(NamedTuple):
    """An aggregate or offset whose argument depends on the group.

    Attributes:
        column: the name of the column that stands for its results in expressions.
        node: the node as written.
        extent: the rows that it looks at.
        whole: the node over columns.
        origin: the expression that it is a part of.
        period: the time-points of its results.
        argument_period: those of its argument.
        are_apart: whether one of these are rows, and the other ticks, so that they never coincide.
    """

    column: str
    node: Expression
    extent: Extent
    whole: Expression
    origin: Predicate
    period: int
    argument_period: int
    are_apart: bool

    @property
    def is_of_the_past(self) -> bool:
        """Whether it only looks at time-points before its own."""
        return self.extent.excludes_present or self.are_apart

    @property
    def argument(self) -> Expression:
        """Its argument over columns."""
        return self.whole.operands[0]


class Member(NamedTuple):
    """A stream of the group.

    Attributes:
        column: the name of the column that stands for its value in expressions.
        value: its expression over columns.
        on: where it has a value, over columns; None for all rows.
        origins: the expressions as written, that of `on` last.
        period: its time-points.
    """

    column: str
    value: Expression
    on: Expression | None
    origins: list[Predicate]
    period: int


class Recursion(MachineCode):
    """Compiles a group of streams.

    Args:
        members: the streams, each after those whose present value it needs.
        memories: the aggregates and offsets of the group's values, each after those in its
            argument.
        schema: the columns, without those that stand for values of the group.
        periods: for columns, their time-points, if these are not those of all members.
        check: returns the kinds of the nodes of an expression over columns, by `id`, and raises
            errors if its last argument is true.
        texts: the numbers of texts.

    Raises:
        PolicyError: a type does not fit.
        NotPossible: an operator is not possible in such streams.
    """

    def __init__(
        self,
        members: list[Member],
        memories: list[Memory],
        schema: pa.Schema,
        periods: Mapping[str, int],
        check: Callable[[Expression, Predicate, pa.Schema, bool], Mapping[int, Kind]],
        texts: Texts,
    ) -> None:
        super().__init__(native.OPERATIONS, "a stream that reads itself")
        self._members = members
        self._memories = memories
        self._numbers = {memory.column: number for number, memory in enumerate(memories)}
        self._schema = schema
        self._check = check
        self._texts = texts
        self._periods = periods
        # All time-points of the group.
        found = [member.period for member in members]
        found += [one for memory in memories for one in (memory.period, memory.argument_period)]
        self._kinds_of_points = list(dict.fromkeys(found))
        # Where each section of the code begins, and its time-points.
        self._sections: list[tuple[int, int]] = []
        self._registers_of: dict[int, dict[Expression, int]] = {}
        self._inputs: dict[str, int] = {}
        self._results: dict[str, int] = {}
        # The kinds of what stands for values of the group.
        self._own_kinds: dict[str, Kind] = {}
        self._infer()
        for memory in memories:
            window = memory.node.window if memory.node.operator in ops.WINDOWS else None
            if window is not None and (own := window.own or window.machine) is not None:
                raise NotPossible(
                    f"{own.name} is of Python, so it cannot be of a stream that reads itself"
                )
        self._kernels = [
            Kernel(
                one.node,
                self._kinds[id(one.argument)],
                self._own_kinds[one.column],
                one.extent,
                texts,
            )
            for one in memories
        ]
        self._natives = [kernel.native for kernel in self._kernels]
        # For each memory the registers of its last value, without the default, and of the next one.
        self._found: dict[int, int] = {}
        self._kept: dict[int, int] = {}
        # The numbers of the kernels that count, for those that need it.
        self._counters: dict[int, int] = {}
        for number, kernel in enumerate(self._kernels):
            if kernel.counter is not None:
                self._counters[number] = len(self._natives)
                self._natives.append(kernel.counter)
        self._emit_all()

    @property
    def kinds(self) -> list[Kind]:
        """The kind of each member."""
        return [self._own_kinds[member.column] for member in self._members]

    def task(self, columns: list[str]) -> MachineTask:
        """Return the machine as a task.

        Args:
            columns: the name of the column for each member.
        """
        points = self._kinds_of_points
        ends = [begin for begin, _ in self._sections[1:]] + [len(self._code)]
        sections = [
            (end - begin, points.index(period))
            for (begin, period), end in zip(self._sections, ends, strict=True)
        ]
        results = [self._results[member.column] for member in self._members]
        can_rest = len(points) == 1 and points[0] > ROWS
        can_rest = can_rest and all(kernel.can_rest for kernel in self._kernels)
        changing = self._changing() if can_rest else []
        for number in changing:
            results += self._found[number], self._kept[number]
        machine = native.Machine(
            self._code,
            self._register_count,
            len(self._inputs),
            self._constants,
            self._natives,
            results,
            sections,
        )
        inputs = [
            Port(name, kind_of(self._schema.field(name).type), self._periods.get(name, points[0]))
            for name in self._inputs
        ]
        outputs = [
            Port(name, kind, member.period)
            for name, kind, member in zip(columns, self.kinds, self._members, strict=True)
        ]
        nodes = [str(node) for node in self._nodes]
        of_kernels = [memory.argument_period for memory in self._memories]
        if len(points) == 1:
            return MachineTask(
                machine,
                inputs,
                outputs,
                self._kernels,
                nodes,
                self._texts,
                points[0],
                len(changing) if can_rest else None,
            )
        return JointMachineTask(
            machine,
            inputs,
            outputs,
            self._kernels,
            nodes,
            self._texts,
            points,
            self._sections,
            of_kernels,
        )

    def _changing(self) -> list[int]:
        """The memories whose values tell when the state of any memory changes."""
        return [
            number
            for number, memory in enumerate(self._memories)
            if memory.node.operator is ops.LAST
        ]

    def _infer(self) -> None:
        """Find the kinds, from those of constants and columns on, until they stay the same.

        On the way, a kind may not fit because others are not known yet.
        """
        columns = [member.column for member in self._members]
        columns += [memory.column for memory in self._memories]
        found = dict.fromkeys(columns, kinds.NULL)
        for _ in range(_MOST_ROUNDS):
            before = dict(found)
            found = self._round(before, is_final=False)
            if found == before:
                break
        self._own_kinds = self._round(found, is_final=True)

    def _round(self, known: Mapping[str, Kind], *, is_final: bool) -> dict[str, Kind]:
        """Check all expressions with the kinds that are known; return those that follow."""
        schema = self._schema
        for name, kind in known.items():
            schema = schema.append(pa.field(name, column_type(kind)))
        found: dict[str, Kind] = {}
        self._kinds = {}

        def kind_of_value(expression: Expression, origin: Predicate) -> Kind:
            self._kinds |= self._check(expression, origin, schema, is_final)
            kind = self._kinds[id(expression)]
            return kinds.NULL if kind.name == "unknown" else kind

        for member in self._members:
            found[member.column] = kind_of_value(member.value, member.origins[0])
            if member.on is not None:
                kind_of_value(member.on, member.origins[1])
        for memory in self._memories:
            found[memory.column] = cell_kind(kind_of_value(memory.whole, memory.origin))
        return found

    def _emit_all(self) -> None:
        deferred: dict[int, None] = {}
        for member in self._members:
            parts = [member.value] if member.on is None else [member.value, member.on]
            registers = [self._fragment(part, member.period, deferred) for part in parts]
            kind = self._own_kinds[member.column]
            register = self._as(registers[0], self._kinds[id(member.value)], kind)
            if member.on is not None:
                nothing = self._constant(None)
                register = self._new("if", member.value, registers[1], register, nothing)
            self._results[member.column] = register
        for number, memory in enumerate(self._memories):
            if memory.node.operator is ops.LAST and memory.column not in self._results:
                # no value needs it: it only tells when other memories change
                deferred[number] = None
                self._enter(memory.period)
                self._results[memory.column] = self._get(number)
        puts: list[tuple[int, int]] = []
        while len(puts) < len(deferred):
            number = list(deferred)[len(puts)]
            memory = self._memories[number]
            argument = self._fragment(memory.argument, memory.argument_period, deferred)
            puts.append((number, argument))
        for number, register in puts:
            self._enter(self._memories[number].argument_period)
            self._put(number, register)

    def _enter(self, period: int) -> None:
        """Let the code that follows be for some time-points."""
        if self._sections and self._sections[-1][1] == period:
            return
        if self._sections and self._sections[-1][0] == len(self._code):
            self._sections.pop()
            if self._sections and self._sections[-1][1] == period:
                self._registers = self._registers_of[period]
                return
        self._sections.append((len(self._code), period))
        # what is computed at other time-points has no value here
        self._registers = self._registers_of.setdefault(period, {})

    def _fragment(self, expression: Expression, period: int, deferred: dict[int, None]) -> int:
        """Emit the code of an expression, with that of the kernels it needs; its register."""
        needed: set[int] = set()
        open_parts = [expression]
        while open_parts:
            for node in postorder(open_parts.pop()):
                number = self._number(node)
                if number is not None and number not in needed:
                    needed.add(number)
                    if not self._memories[number].is_of_the_past:
                        open_parts.append(self._memories[number].argument)
        for number in sorted(needed):
            memory = self._memories[number]
            if memory.column in self._results:
                continue
            if memory.is_of_the_past:
                deferred[number] = None
            else:
                self._enter(memory.argument_period)
                self._put(number, self._expression(memory.argument))
            self._enter(memory.period)
            self._results[memory.column] = self._get(number)
        self._enter(period)
        return self._expression(expression)

    def _number(self, node: Expression) -> int | None:
        """The number of the memory whose results a node stands for."""
        return self._numbers.get(node.name) if node.operator in ops.COLUMNS else None

    def _put(self, number: int, register: int) -> None:
        memory, kernel = self._memories[number], self._kernels[number]
        operator = memory.node.operator
        operation = "put"
        if operator in {ops.WINDOW_COUNT, ops.WINDOW_ANY}:
            operation = "put_true"
        elif operator is ops.WINDOW_ALL:
            operation = "put_false"
        else:
            kind = self._kinds[id(memory.argument)]
            register = self._as(register, kind, kernel.argument)
            if kernel.skips_undefined:
                register = self._new("nan_to_null", memory.node, register)
        self._kept[number] = register
        self._add(operation, memory.node, 0, number, register)
        if number in self._counters:
            self._add("put", memory.node, 0, self._counters[number], register)

    def _get(self, number: int) -> int:
        memory, kernel = self._memories[number], self._kernels[number]
        operator = memory.node.operator
        register = self._found[number] = self._new("get", memory.node, number)
        if operator in {ops.WINDOW_ANY, ops.WINDOW_ALL}:
            wanted = GREATER if operator is ops.WINDOW_ANY else EQUAL
            zero = self._constant(0)
            register = self._new("compare_integers", memory.node, register, zero, wanted)
        default = default_of(memory.node)
        if default is None:
            return register
        register = self._as(register, kernel.found_kind, kernel.kind)
        other = self._cell(default, kernel.kind)
        if number not in self._counters:
            return self._new("coalesce", memory.node, register, other)
        count = self._new("get", memory.node, self._counters[number])
        zero = self._constant(0)
        has_values = self._new("compare_integers", memory.node, count, zero, GREATER)
        return self._new("if", memory.node, has_values, register, other)

    def _text_cell(self, text: str) -> int:
        return int(self._texts.numbers(pa.array([text]))[0])

    def _name(self, node: Expression) -> int:
        if node.name in self._own_kinds:
            return self._results[node.name]
        number = self._inputs.setdefault(node.name, len(self._inputs))
        register = self._new("load", node, number)
        if self._kinds[id(node)].name in {"decimal", "other"}:
            raise NotPossible(f"a stream that reads itself cannot use column {node.name}")
        return register


class Port(NamedTuple):
    """A column that a machine reads or writes.

    Attributes:
        name: its name.
        kind: the kind of its values.
        period: its time-points.
    """

    name: str
    kind: Kind
    period: int


class MachineResults(NamedTuple):
    """A machine, with the cells of its inputs and room for those of its results.

    Attributes:
        machine: the machine.
        inputs: the cells of inputs.
        input_masks: their masks.
        results: the cells of results.
        validities: whether they are valid.
    """

    machine: native.Machine
    inputs: list[Cells]
    input_masks: list[Mask | None]
    results: list[Cells]
    validities: list[Mask]


class MachineTask:
    """A machine between columns of Arrow.

    Attributes:
        kernels: the kernels that the machine uses.
        outputs: the columns that it writes.
        period: the time-points of the columns: `ROWS`, a period, or those of instances.
        periods: all kinds of time-points, in the order of the numbers that sections of code have.
        machine: the machine.
        argument_periods: for each kernel the time-points of its argument.
        reads: the names of the columns that it takes.
        can_rest: whether the streams stay as they are once a tick has left the state as it was,
            until other columns change. `changed` says which ticks did not.
        linger: for how long the streams may go on to change after a tick that changed the state.
    """

    def __init__(
        self,
        machine: native.Machine,
        inputs: list[Port],
        outputs: list[Port],
        kernels: list[Kernel],
        nodes: list[str],
        texts: Texts,
        period: int,
        memories: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.period = self.argument_period = period
        self.periods = [period]
        self.argument_periods = [period] * len(kernels)
        self.reads = tuple(port.name for port in inputs)
        self.can_rest = memories is not None
        self.linger = max((kernel.extent.lower for kernel in kernels), default=0)
        self._memories = memories or 0
        self._changed = np.zeros(0, np.bool_)
        self.machine = machine
        self._inputs = inputs
        self.outputs = outputs
        self._nodes = nodes
        self._texts = texts

    def run(self, columns: Columns, points: Points) -> None:
        """Compute the streams, and add them to the columns.

        Raises:
            RowError: an integer overflows.
        """
        rows, own = points.batch(self.period), columns[self.period]
        cells, masks = self._cells(columns)
        results, validities, done = self._run(rows, cells, masks)
        if done < rows.count:
            raise RowError(self.overflow(), rows=(done,))
        for port, values, validity in zip(self.outputs, results, validities, strict=False):
            own[port.name] = from_cells(values, validity, port.kind, self._texts)
        self._changed = np.zeros(rows.count, np.bool_)
        of_state = zip(results[len(self.outputs) :], validities[len(self.outputs) :], strict=True)
        for (last, has_last), (kept, is_kept) in zip(of_state, of_state, strict=True):
            differs = (last != kept) | (has_last == 0)
            self._changed |= differs & (is_kept != 0)

    @property
    def changed(self) -> NDArray[np.bool_]:
        """The ticks of the last batch that changed the state."""
        return self._changed

    def opened(self, columns: Columns, count: int) -> MachineResults:
        """Return the machine with its inputs, for the rows of instances that it may end."""
        cells, masks = self._cells(columns)
        room = [room_for_results(count) for _ in self.outputs]
        return MachineResults(
            self.machine, cells, masks, [one for one, _ in room], [one for _, one in room]
        )

    def put(self, columns: Columns, found: MachineResults, rows: NDArray[np.int64]) -> None:
        """Add the results at some of the rows to the columns of instances."""
        results = zip(self.outputs, found.results, found.validities, strict=True)
        for port, values, validity in results:
            columns[port.period][port.name] = from_cells(
                values[rows], validity[rows], port.kind, self._texts
            )

    def overflow(self) -> str:
        """What overflows, in words."""
        return f"{shorten(self._nodes[self.machine.failed], _SHOWN_WIDTH)} overflows 64 bits"

    def _cells(self, columns: Columns) -> tuple[list[Cells], list[Mask | None]]:
        found = [
            to_cells(columns[port.period][port.name], port.kind, self._texts)
            for port in self._inputs
        ]
        for kernel in self.kernels:
            kernel.rank_texts()
        return [cells for cells, _ in found], [mask for _, mask in found]

    def _run(
        self,
        rows: native.Batch,
        cells: list[Cells],
        masks: list[Mask | None],
        kinds_of_points: NDArray[np.uint64] | None = None,
    ) -> tuple[list[Cells], list[Mask], int]:
        """Run the machine; returns the cells and masks of results, and how many there are."""
        count = len(self.outputs) + 2 * self._memories
        room = [room_for_results(rows.count) for _ in range(count)]
        results, validities = [one for one, _ in room], [one for _, one in room]
        done = self.machine.run(rows, cells, masks, results, validities, kinds_of_points)
        return results, validities, done


class JointMachineTask(MachineTask):
    """A machine between columns of several kinds of time-points.

    Args:
        periods: the kinds of time-points, in the order of the numbers that sections have.
        sections: where sections of the code begin, and their time-points.
        argument_periods: for each kernel the time-points of its argument.
    """

    def __init__(
        self,
        machine: native.Machine,
        inputs: list[Port],
        outputs: list[Port],
        kernels: list[Kernel],
        nodes: list[str],
        texts: Texts,
        periods: list[int],
        sections: list[tuple[int, int]],
        argument_periods: list[int],
    ) -> None:
        super().__init__(machine, inputs, outputs, kernels, nodes, texts, max(periods))
        self.argument_periods = argument_periods
        self.periods = periods
        self._sections = sections

    def run(self, columns: Columns, points: Points) -> None:
        """Compute the streams, and add them to the columns.

        Raises:
            LayerError: an integer overflows.
        """
        batch, places = points.joint(self.periods)
        kinds_of_points = np.zeros(batch.count, np.uint64)
        for number, period in enumerate(self.periods):
            kinds_of_points[places[period]] |= np.uint64(1 << number)
        cells, masks = self._cells(columns)
        for number, port in enumerate(self._inputs):
            own, mask = cells[number], masks[number]
            cells[number] = np.zeros(batch.count, np.int64)
            cells[number][places[port.period]] = own
            found = np.zeros(batch.count, np.uint8)
            found[places[port.period]] = 1 if mask is None else mask
            masks[number] = found
        results, validities, done = self._run(batch, cells, masks, kinds_of_points)
        if done < batch.count:
            failed = self.machine.failed
            period = next(one for begin, one in reversed(self._sections) if begin <= failed)
            row = int(np.searchsorted(places[period], done))
            raise LayerError(period, RowError(self.overflow(), rows=(row,)), has_memory=True)
        for port, values, validity in zip(self.outputs, results, validities, strict=True):
            chosen = places[port.period]
            columns[port.period][port.name] = from_cells(
                values[chosen], validity[chosen], port.kind, self._texts
            )
