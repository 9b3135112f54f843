"""Expressions over later values, `.next(k)` and `.at(+5s)`: rows wait until these are known.

Such an expression is split at everything that looks at no later value. That is computed when its
row comes, like any other expression; its value waits with the row. Once the later values are known,
too, the rest is computed. Rows of different traces may come out in another order than they came in,
but those of one trace do not. So nothing that looks at other rows can look at these values.

A policy with such atoms is on a clock of its own, `Waiting`, and its rows come like ticks: with the
row that lets them go. As this can change the order of rows of different traces, its monitors have a
clock for each trace (`own_clocks`), and no window can use these values, because windows of all
traces share one queue. In a stream with `per`, the later values are those of the row's instance,
which has a number: it is kept until the row goes, also if the instance has ended. An instance that
has ended has no more values, which is known at the next row of its trace at the latest. This part
runs after all layers, so an error in a layer leaves it untouched. An integer overflow in it removes
the time-point, not the row, which other policies have seen long before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import RowError, TickError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.compiling import CompiledExpressions
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.machine_code import constant_as
from mtlmon.policy.predicates.time_points import MEMORY, ROWS, is_later
from mtlmon.policy.templates import OF_INSTANCES, stream_of
from mtlmon.streams import native
from mtlmon.streams.cells import from_cells, to_cells
from mtlmon.streams.instance_groups import FORGOTTEN
from mtlmon.streams.instances import fed
from mtlmon.streams.ticking import NO_TICKS, Ticks
from mtlmon.support.refusals import refused
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.expression import Constant
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.streams.cells import Texts
    from mtlmon.streams.declarations import Stream
    from mtlmon.streams.instances import Family
    from mtlmon.streams.kernels import Kernel
    from mtlmon.streams.layer import Columns
    from mtlmon.streams.points import Points

__all__ = [
    "Held",
    "HeldColumn",
    "HeldLookUp",
    "HeldStep",
    "Holding",
    "LaterValues",
    "WaitError",
    "chosen_value",
    "needs_itself",
]


class WaitError(Exception):
    """What cannot look at later values.

    Attributes:
        node: the part of an expression at fault.
        message: what is wrong.
        hint: how to mend it, or None.
    """

    def __init__(self, node: Expression, message: str, hint: str | None = None) -> None:
        super().__init__(node, message, hint)
        self.node = node
        self.message = message
        self.hint = hint


def chosen_value(where: Expression, value: Expression, other: Constant) -> Expression:
    """Return an expression with a value where a condition holds, and another one elsewhere."""
    rest = Expression(ops.CONSTANT, (), other, value.span)
    return Expression(ops.IF, (where, value, rest), None, value.span)


class LaterValues:
    """Finds what looks at later values.

    Args:
        streams: the declared streams.
        definitions: what the names of atoms and lets stand for.
    """

    def __init__(self, streams: Mapping[str, Stream], definitions: Mapping[str, Predicate]) -> None:
        self._streams = streams
        self._definitions = definitions
        # whether a stream or definition looks at later values; while that is found out, False
        self._looks: dict[tuple[bool, str], bool] = {}

    def looks(self, expression: Expression) -> bool:
        """Whether an expression looks at later values, also by way of what it names."""
        return any(is_later(node) or self.name_looks(node) for node in postorder(expression))

    def name_looks(self, node: Expression) -> bool:
        """Whether a node names a stream or definition that looks at later values."""
        is_stream = node.operator is ops.STREAM or node.operator in OF_INSTANCES
        if not is_stream and node.operator not in {ops.ATOM, ops.LET}:
            return False
        name = stream_of(node) if is_stream else node.name
        key = is_stream, name
        if key not in self._looks:
            self._looks[key] = False
            self._looks[key] = any(map(self.looks, self._expressions(is_stream, name)))
        return self._looks[key]

    def expanded(self, expression: Expression) -> Expression:
        """Replace the names of definitions that look at later values by what they stand for.

        Raises:
            WaitError: an aggregate or the like is of later values.
        """
        return self._expanded(expression, ())

    def _expanded(self, expression: Expression, names: tuple[str, ...]) -> Expression:
        built: dict[int, Expression] = {}
        for node in postorder(expression):
            built[id(node)] = self._built(node, built, names)
        return built[id(expression)]

    def _built(
        self, node: Expression, built: Mapping[int, Expression], names: tuple[str, ...]
    ) -> Expression:
        if node.operator is ops.OVER and self.name_looks(node):
            raise WaitError(node, refused("later, over", name=str(node)))
        if node.operator in MEMORY or node.operator in OF_INSTANCES:
            if any(self.looks(operand) for operand in node.operands):
                raise WaitError(
                    node,
                    f"{node.operator.word or 'an instance'} cannot be of a value that waits for "
                    "later rows",
                    "look at the later value of the whole instead, as in avg[0,5](x).next()",
                )
            return node
        if node.operator in {ops.ATOM, ops.LET} and self.name_looks(node):
            if node.name in names:
                raise needs_itself(node)
            meaning = self._definitions[node.name].expression
            return self._expanded(meaning, (*names, node.name))
        operands = tuple(built[id(operand)] for operand in node.operands)
        if all(one is other for one, other in zip(operands, node.operands, strict=True)):
            return node
        return Expression(node.operator, operands, node.value, node.span)

    def require_rows(self, node: Expression, stream: Stream, *, calls: bool) -> None:
        """Require that a stream can look at later values: it has values at rows, and its own ones.

        Args:
            node: what names the stream.
            stream: the stream.
            calls: whether it has values at rows of other instances.

        Raises:
            WaitError: it cannot.
        """
        name = stream_of(node) if node.operator in OF_INSTANCES else node.name
        if stream.period != ROWS:
            message = f"stream {name} has every, so it cannot look at later rows"
            raise WaitError(node, message, "write next(...) in a stream of rows, or in the policy")
        if calls:
            message = f"stream {name} has values at rows of other instances"
            raise WaitError(node, message, "only values at its own rows can look at later rows")
        clauses = [key for key, _ in stream.per]
        clauses += [one for one in (stream.start, stream.end) if one is not None]
        if any(map(self.looks, clauses)):
            message = f"instances of {name} begin and end with rows, which cannot wait for that"
            raise WaitError(node, message, "leave later values out of per, from and until")

    def _expressions(self, is_stream: bool, name: str) -> list[Expression]:
        if not is_stream:
            known = self._definitions.get(name)
            return [] if known is None else [known.expression]
        if name not in self._streams:
            return []
        stream = self._streams[name]
        found = [stream.value.expression, *(key for key, _ in stream.per)]
        found += [] if stream.on is None else [stream.on.expression]
        return found + [one for one in (stream.start, stream.end) if one is not None]


def needs_itself(node: Expression) -> WaitError:
    """Return the error that a name stands for what needs its value at the same row."""
    return WaitError(node, f"{node.name} needs its own value at the same row")


class HeldColumn(NamedTuple):
    """A column whose values wait with their rows, or for whose values rows wait.

    Attributes:
        source: the column at rows.
        result: the column at the rows that go.
        kind: the kind of its values.
        distance: how many values later; 0 for a row's own value.
        default: what stands for a later value that never comes.
        length: how much later the last value is wanted; None where `distance` says which one is.
        group: for a later value of an instance, the result that is the number of this.
        family: for a number of an instance, or a later value of one, the instances.
        found_kind: the kind of the result, with the default among its values.
        text: for a later value, its text.
        may_be_null: whether the values that rows wait for may be null.
    """

    source: str
    result: str
    kind: Kind
    found_kind: Kind
    distance: int = 0
    default: Constant = None
    text: str = ""
    may_be_null: bool = True
    length: int | None = None
    group: str | None = None
    family: Family | None = None


class HeldLookUp(NamedTuple):
    """What reads the last value of an instance of a stream whose values wait.

    Attributes:
        result: the column at the rows that go.
        value: the values of the stream there.
        own: the column of the numbers of the rows' own instances.
        wanted: the column of the numbers of the instances that are read.
        kernel: has the last values.
    """

    result: str
    value: str
    own: str
    wanted: str
    kernel: Kernel


class HeldStep(NamedTuple):
    """What is computed together where rows go, behind the steps before.

    Attributes:
        expressions: expressions over the columns of `Held` and those of earlier steps, by name.
        look_ups: what reads instances of these.
    """

    expressions: dict[str, Predicate]
    look_ups: list[HeldLookUp]


class Held(NamedTuple):
    """Expressions of one set of rows that wait.

    Attributes:
        columns: what they read: first a row's own values, then later ones.
        steps: how they are computed; the last one has those that are wanted.
    """

    columns: list[HeldColumn]
    steps: list[HeldStep]


class Holding:
    """Holds rows back until later values are known, and computes expressions of these rows.

    Args:
        held: the expressions.
        schema: the columns.
        environment: what the expressions stand among.
        texts: the numbers of texts.

    Attributes:
        columns: as in `held`.
        native: the rows.
        rows: the rows that the last batch has let go.
    """

    def __init__(
        self, held: Held, schema: pa.Schema, environment: Environment, texts: Texts
    ) -> None:
        self.columns = held.columns
        own = sum(column.distance == 0 for column in held.columns)
        later = held.columns[own:]
        lengths = [-1 if one.length is None else one.length for one in later]
        places = {column.result: place for place, column in enumerate(held.columns)}
        groups = [-1 if one.group is None else places[one.group] for one in later]
        self.native = native.HeldRows([one.distance for one in later], lengths, own, groups)
        self._instances = [None if one.family is None else one.family.table for one in later]
        for place, column in enumerate(held.columns):
            if column.family is not None and not column.distance:
                column.family.waiting.append((self, place))
        self.rows = NO_TICKS
        self._steps = [
            (CompiledExpressions(step.expressions, schema, environment), step.look_ups)
            for step in held.steps
        ]
        self._types = {
            name: kind for compiled, _ in self._steps for name, kind in compiled.types.items()
        }
        self._texts = texts
        # which of all rows are left out, as integers overflow there
        self._left_out: set[int] = set()

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The types of the expressions, by name."""
        compiled, _ = self._steps[-1]
        return {name: column_type(kind) for name, kind in compiled.kinds.items()}

    @property
    def later(self) -> list[HeldColumn]:
        """The columns of later values."""
        return [column for column in self.columns if column.distance]

    @property
    def kernels(self) -> list[Kernel]:
        """What has the last values of instances."""
        return [one.kernel for _, look_ups in self._steps for one in look_ups]

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of what rows keep."""
        return [column.kind for column in self.columns]

    def run(self, columns: Columns, points: Points, *, is_end: bool = False) -> dict[str, pa.Array]:
        """Take the rows of a batch; compute the expressions for the rows that this lets go.

        Args:
            columns: all columns by their time-points.
            points: the time-points of the batch.
            is_end: whether no more rows come; the batch has none then, and all rows go.

        Raises:
            TickError: integers overflow at some of them.
        """
        if is_end:
            count = self.native.feed_end()
        else:
            cells, valid = self._matrix(columns[ROWS])
            count = self.native.feed(points.batch(ROWS), cells, valid, self._instances)
        width = len(self.columns)
        times, sequence = np.empty(count, np.int64), np.empty(count, np.int64)
        numbers, places = np.empty(count, np.uint32), np.empty(count, np.uint32)
        cells, valid = np.empty(count * width, np.int64), np.empty(count * width, np.uint8)
        self.native.write(times, numbers, places, sequence, cells, valid)
        is_kept = np.ones(count, np.bool_)
        if self._left_out:
            is_kept = np.array([one not in self._left_out for one in sequence.tolist()], np.bool_)
            count = int(np.count_nonzero(is_kept))
        self.rows = Ticks(times, numbers, places.astype(np.int64)).chosen(is_kept)
        shape = len(is_kept), width
        rows, is_valid = cells.reshape(shape)[is_kept], valid.reshape(shape)[is_kept]
        found = {
            column.result: self._result(column, rows[:, place], is_valid[:, place])
            for place, column in enumerate(self.columns)
        }
        try:
            return self._computed(found, count)
        except RowError as error:
            overflowing = self._first_of(error, found)
            first = overflowing[0]
            raise TickError(
                error.reason,
                place=int(self.rows.places[first]),
                time_stamp=int(self.rows.time_stamps[first]),
                number=int(self.rows.numbers[first]),
                rows=tuple(sequence[is_kept][list(overflowing)].tolist()),
            ) from None

    def _computed(self, columns: Mapping[str, pa.Array], count: int) -> dict[str, pa.Array]:
        """Compute the expressions step by step.

        Raises:
            RowError: integers overflow.
        """
        found = dict(columns)
        computed: dict[str, pa.Array] = {}
        for compiled, look_ups in self._steps:
            computed = compiled.compute(found, count)
            found |= computed
            for one in look_ups:
                found[one.result] = self._looked_up(one, found)
        return computed

    def _first_of(self, error: RowError, columns: Mapping[str, pa.Array]) -> tuple[int, ...]:
        """The rows that overflow whatever others do, or the first one if it reads an instance."""
        rows = tuple(error.rows)
        while len(self._steps) > 1:
            # a row that overflows is none, so those behind may read another value
            for kernel in self.kernels:
                kernel.native.undo()
            rows = rows[:1]
            before = {name: values.slice(0, rows[0]) for name, values in columns.items()}
            try:
                self._computed(before, rows[0])
            except RowError as earlier:
                rows = tuple(earlier.rows)
            else:
                break
        return rows

    def _matrix(self, rows: Mapping[str, pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """The cells of all columns, row after row."""
        if not self.columns:
            # conditions that are always true or false read nothing
            return np.empty(0, np.int64), np.empty(0, np.uint8)
        found = [to_cells(rows[one.source], one.kind, self._texts) for one in self.columns]
        valid = [np.ones(len(cells), np.uint8) if mask is None else mask for cells, mask in found]
        return np.column_stack([cells for cells, _ in found]).ravel(), np.column_stack(
            valid
        ).ravel()

    def _result(
        self, column: HeldColumn, cells: NDArray[np.int64], valid: NDArray[np.uint8]
    ) -> pa.Array:
        """The values of a column at the rows that go."""
        cells, valid = np.ascontiguousarray(cells), np.ascontiguousarray(valid)
        found = from_cells(cells, valid, column.kind, self._texts)
        if column.default is None:
            return found
        kind = column.found_kind
        wanted = self._types.get(column.result, found.type)
        return pc.fill_null(
            pc.cast(found, wanted), pa.scalar(constant_as(column.default, kind), wanted)
        )

    def _looked_up(self, one: HeldLookUp, columns: Mapping[str, pa.Array]) -> pa.Array:
        """The last value of an instance at each row that goes, behind that of its own instance."""
        kernel = one.kernel
        cells, mask = to_cells(columns[one.value], kernel.argument, self._texts)
        count = len(cells)
        numbers = np.empty((count, 2), np.uint32)
        for place, name in enumerate((one.own, one.wanted)):
            filled = pc.fill_null(columns[name], FORGOTTEN)
            numbers[:, place] = filled.to_numpy()
        values, masks = np.zeros((count, 2), np.int64), np.zeros((count, 2), np.uint8)
        values[:, 0], masks[:, 0] = cells, 1 if mask is None else mask
        # only the order of the rows of an instance matters, and not their times
        times = np.zeros(2 * count, np.int64)
        found, validity = fed(kernel, times, numbers.ravel(), values.ravel(), masks.ravel())
        return from_cells(found[1::2].copy(), validity[1::2].copy(), kernel.found_kind, self._texts)

    def leave_out(self, rows: Sequence[int]) -> None:
        """Leave out rows, whose numbers among all rows an error has told."""
        self._left_out.update(rows)

    def forget_left_out(self) -> int:
        """Forget the rows that were left out of what has been evaluated; return their number."""
        count = len(self._left_out)
        self._left_out.clear()
        return count

    def mark_texts(self, flags: NDArray[np.uint8]) -> None:
        """Set the flags of the texts that rows have."""
        for place, column in enumerate(self.columns):
            if column.kind.name == "text":
                self.native.mark_texts(flags, place)

    def renumber_texts(self, new_numbers: bytes) -> None:
        """Give texts new numbers."""
        for place, column in enumerate(self.columns):
            if column.kind.name == "text":
                self.native.renumber_texts(new_numbers, place)
