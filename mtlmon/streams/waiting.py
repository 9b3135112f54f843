"""Expressions over later values, `.next(k)` and `.at(+5s)`: rows wait until these are known.

Such an expression is split at everything that looks at no later value. That is computed when its
row comes, like any other expression; its value waits with the row. Once the later values are known,
too, the rest is computed. Rows of different traces may come out in another order than they came in,
but those of one trace do not. So nothing that looks at other rows can look at these values.

A policy with such atoms is on a clock of its own, `Waiting`, and its rows come like ticks: with the
row that lets them go. As this can change the order of rows of different traces, its monitors have a
clock for each trace (`own_clocks`), and no window can use these values, because windows of all
traces share one queue. This part runs after all layers, so an error in a layer leaves it untouched.
An integer overflow in it removes the time-point, not the row, which other policies have seen long
before.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import RowError, TickError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.compiling import CompiledExpressions
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.kinds import FLOAT
from mtlmon.policy.predicates.machine_code import NotPossible, constant_as
from mtlmon.policy.predicates.time_points import MEMORY, ROWS, is_later
from mtlmon.policy.templates import OF_INSTANCES, stream_of
from mtlmon.streams import native
from mtlmon.streams.cells import from_cells, to_cells
from mtlmon.streams.kernels import MOST_DISTANCE, default_of, length_of
from mtlmon.streams.ticking import NO_TICKS, Ticks
from mtlmon.support.refusals import refused
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.expression import Constant
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.streams.cells import Texts
    from mtlmon.streams.declarations import Stream
    from mtlmon.streams.layer import Columns
    from mtlmon.streams.points import Points

__all__ = ["Held", "HeldColumn", "Holding", "LaterValues", "WaitError", "chosen_value"]


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
    """Finds what looks at later values, and writes it without the names of streams and atoms.

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
        return any(
            is_later(node) or (node.operator in _NAMED and self._name_looks(node))
            for node in postorder(expression)
        )

    def expanded(self, expression: Expression) -> Expression:
        """Replace the names of what looks at later values by what they stand for.

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
        if node.operator in MEMORY or node.operator in OF_INSTANCES:
            is_of_later = any(self.looks(operand) for operand in node.operands)
            if node.operator in OF_INSTANCES and self._name_looks(node) and not is_of_later:
                raise WaitError(node, self._refused_in_instances(stream_of(node)))
            if is_of_later:
                raise WaitError(
                    node,
                    f"{node.operator.word or 'an instance'} cannot be of a value that waits for "
                    "later rows",
                    "look at the later value of the whole instead, as in avg[0,5](x).next()",
                )
            return node
        if node.operator in _NAMED and self._name_looks(node):
            if node.name in names:
                raise WaitError(node, f"{node.name} needs its own value at the same row")
            return self._meaning(node, (*names, node.name))
        operands = tuple(built[id(operand)] for operand in node.operands)
        if all(one is other for one, other in zip(operands, node.operands, strict=True)):
            return node
        return Expression(node.operator, operands, node.value, node.span)

    def _meaning(self, node: Expression, names: tuple[str, ...]) -> Expression:
        """What the name of a stream or definition stands for."""
        if node.operator is not ops.STREAM:
            return self._expanded(self._definitions[node.name].expression, names)
        stream = self._streams[node.name]
        if stream.per:
            raise WaitError(node, self._refused_in_instances(node.name))
        if stream.period != ROWS:
            message = f"stream {node.name} has every, so it cannot look at later rows"
            raise WaitError(node, message, "write next(...) in a stream of rows, or in the policy")
        value = self._expanded(stream.value.expression, names)
        if stream.on is not None:
            value = chosen_value(self._expanded(stream.on.expression, names), value, None)
        if stream.kind == FLOAT:
            always = Expression(ops.CONSTANT, (), True, value.span)
            value = chosen_value(always, value, Decimal("0.0"))
        return value

    def _refused_in_instances(self, stream: str) -> str:
        """Say why instances of a stream cannot look at later values."""
        nodes = [node for one in self._expressions(True, stream) for node in postorder(one)]
        if any(node.operator is ops.AT and node.offset.is_later for node in nodes):
            return refused("later, per", name=f"stream {stream}")
        return refused("next, per", name=f"stream {stream}")

    def _name_looks(self, node: Expression) -> bool:
        is_stream = node.operator is ops.STREAM or node.operator in OF_INSTANCES
        name = stream_of(node) if is_stream else node.name
        key = is_stream, name
        if key not in self._looks:
            self._looks[key] = False
            self._looks[key] = any(map(self.looks, self._expressions(is_stream, name)))
        return self._looks[key]

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


_NAMED = {ops.STREAM, ops.ATOM, ops.LET}


class HeldColumn(NamedTuple):
    """A column whose values wait with their rows, or for whose values rows wait.

    Attributes:
        source: the column at rows.
        result: the column at the rows that go.
        kind: the kind of its values.
        distance: how many values later; 0 for a row's own value.
        default: what stands for a later value that never comes.
        length: how much later the last value is wanted; None where `distance` says which one is.
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


class Held(NamedTuple):
    """Expressions of one set of rows that wait.

    Attributes:
        columns: what they read: first a row's own values, then later ones.
        expressions: the expressions over the results of these, by the names of their columns.
    """

    columns: list[HeldColumn]
    expressions: dict[str, Predicate]


def split(
    expression: Expression,
    own: Callable[[Expression], Expression],
    later: Callable[[Expression], Expression],
) -> Expression:
    """Replace the parts of an expression that look at no later value, and the later values.

    Args:
        expression: an expression without the names of what looks at later values.
        own: makes an expression that reads a row's own value of a part.
        later: makes an expression that reads a later value.

    Raises:
        NotPossible: a later value is too far away.
    """
    looks: set[int] = set()
    built: dict[int, Expression] = {}
    for node in postorder(expression):
        if is_later(node):
            looks.add(id(node))
            distance = node.offset.distance
            if (
                node.operator is ops.NEXT
                and isinstance(distance, int)
                and (distance > MOST_DISTANCE)
            ):
                raise NotPossible(f"next({distance}) looks further than {MOST_DISTANCE} values")
            built[id(node)] = later(node)
        elif any(id(operand) in looks for operand in node.operands):
            if node.operator in ops.LOOK_UPS:
                raise NotPossible(f"the key of {node} is a later value, but the record is one now")
            looks.add(id(node))
            operands = tuple(
                built[id(operand)] if id(operand) in looks else _own(operand, own)
                for operand in node.operands
            )
            built[id(node)] = Expression(node.operator, operands, node.value, node.span)
    return built[id(expression)] if id(expression) in looks else _own(expression, own)


def _own(node: Expression, own: Callable[[Expression], Expression]) -> Expression:
    return node if node.operator is ops.CONSTANT else own(node)


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
        self.native = native.HeldRows([one.distance for one in later], lengths, own)
        self.rows = NO_TICKS
        self._compiled = CompiledExpressions(held.expressions, schema, environment)
        self._texts = texts
        # which of all rows are left out, as integers overflow there
        self._left_out: set[int] = set()

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The types of the expressions, by name."""
        return {name: column_type(kind) for name, kind in self._compiled.kinds.items()}

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
            count = self.native.feed(points.batch(ROWS), *self._matrix(columns[ROWS]))
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
            return self._compiled.compute(found, count)
        except RowError as error:
            first = error.rows[0]
            raise TickError(
                error.reason,
                place=int(self.rows.places[first]),
                time_stamp=int(self.rows.time_stamps[first]),
                number=int(self.rows.numbers[first]),
                rows=tuple(sequence[is_kept][list(error.rows)].tolist()),
            ) from None

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
        wanted = self._compiled.types.get(column.result, found.type)
        return pc.fill_null(
            pc.cast(found, wanted), pa.scalar(constant_as(column.default, kind), wanted)
        )

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


def default_and_distance(node: Expression, unit: str | None) -> tuple[Constant, int, int | None]:
    """Return the default of a later value, how many values later it is, and how much later.

    Args:
        node: the later value.
        unit: the unit of the time-stamps, if it is known.

    Raises:
        FormulaError: a duration is not a whole number of units.
    """
    if node.operator is ops.AT:
        return default_of(node), 1, length_of(node, unit)
    distance = node.offset.distance
    assert isinstance(distance, int)
    return default_of(node), distance, None
