"""Streams as a program: an order in which whole columns are computed.

The parts of expressions that look at one row are computed by the operations of predicates. An
aggregate or offset is a kernel: it takes the column of its argument, and its results become a
column of their own, which the expressions around it read. Everything has a layer: an expression is
in the first layer behind those of the kernels and streams that it reads.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from mtlmon.errors import PolicyError, RowError, SnapshotError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.compiling import column_type
from mtlmon.policy.predicates.environment import NOTHING, Environment
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.predicate import Predicate
from mtlmon.streams import native
from mtlmon.streams.cells import Texts
from mtlmon.streams.dependencies import Need, in_order, is_recursive, present_order
from mtlmon.streams.kernels import MEMORY, Kernel, NotPossible, extent_of
from mtlmon.streams.layer import KernelTask, Layer, Part, check_part
from mtlmon.streams.recursion import Member, Memory, Recursion
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.expression import Constant
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.streams.kernels import Extent


class Stream(NamedTuple):
    """A declared stream.

    Attributes:
        value: its expression, with the text that it comes from.
        on: where it has a value; None for all rows.
        kind: the declared kind of its values; None if there is none.
    """

    value: Predicate
    on: Predicate | None = None
    kind: Kind | None = None


class _Builder:
    """Splits expressions into layers."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        definitions: Mapping[str, Predicate],
        schema: pa.Schema,
        environment: Environment,
        texts: Texts,
    ) -> None:
        self.schema = schema
        self.columns: list[str] = []
        self._streams = streams
        self._definitions = definitions
        self._environment = environment
        self._texts = texts
        self._layers: list[Layer] = []
        # What streams and definitions stand for.
        self._known: dict[str, _Placed] = {}
        # The columns of parts and of kernels.
        self._columns: dict[Expression, tuple[str, int]] = {}
        self._prefix = _unused_prefix(schema.names)

    def streams_in_order(self, roots: Iterable[Predicate]) -> None:
        """Place the streams that expressions need."""
        needs = self._needs(roots)
        for group in in_order(needs):
            if is_recursive(group, needs):
                self._recursive(group, needs)
            else:
                self._stream(group[0])

    def output(self, predicate: Predicate) -> str:
        """Place an expression, and return the name of its column."""
        return self._column(self._place(predicate.expression, predicate), predicate)[0]

    def finish(self) -> list[Layer]:
        """Compile all layers."""
        for layer in self._layers:
            layer.compile(self.schema, self._environment)
        return self._layers

    def _needs(self, roots: Iterable[Predicate]) -> dict[str, list[Need]]:
        """Find the streams and definitions that expressions need, and what these need."""
        found: dict[str, list[Need]] = {}
        open_names: list[str] = []
        for root in roots:
            open_names += [need.name for need in self._names(root)]
        while open_names:
            name = open_names.pop()
            if name not in found:
                found[name] = [need for part in self._parts(name) for need in self._names(part)]
                open_names += [need.name for need in found[name]]
        return found

    def _parts(self, name: str) -> list[Predicate]:
        if name in self._streams:
            stream = self._streams[name]
            return [stream.value] if stream.on is None else [stream.value, stream.on]
        return [self._definitions[name]]

    def _names(self, predicate: Predicate) -> list[Need]:
        """The streams and definitions that an expression names."""
        found: dict[Need, None] = {}
        seen: set[tuple[int, bool]] = set()
        stack = [(predicate.expression, False)]
        while stack:
            node, is_past = stack.pop()
            if (id(node), is_past) in seen:
                continue
            seen.add((id(node), is_past))
            if node.operator in _NAMED:
                known = self._streams if node.operator is ops.STREAM else self._definitions
                if node.name not in known:
                    raise self._error(predicate, node, f"{node.name} is not defined")
                found[Need(node.name, is_past)] = None
            if node.operator in MEMORY:
                is_past = is_past or self._extent(node, predicate).excludes_present
            stack += [(operand, is_past) for operand in node.operands]
        return list(found)

    def _recursive(self, group: list[str], needs: Mapping[str, list[Need]]) -> None:
        """Place streams that read their own earlier values."""
        order = present_order(group, needs)
        rest = [name for name in group if name not in order]
        if rest:
            self._refuse(rest)
        own = {name: f"{self._prefix}own {number}" for number, name in enumerate(order)}
        members: list[Member] = []
        memories: dict[Expression, Memory] = {}
        layer = 0
        for name in order:
            parts = self._parts(name)
            replaced = []
            for part in parts:
                expression, lowest = self._over_columns(part, own, memories)
                layer = max(layer, lowest)
                replaced.append(expression)
            on = replaced[1] if len(replaced) > 1 else None
            members.append(Member(own[name], replaced[0], on, parts))

        found = [*memories.values()]
        try:
            recursion = Recursion(members, found, self.schema, self._kinds, self._texts)
        except NotPossible as error:
            part = self._parts(order[0])[0]
            raise self._error(part, part.expression, str(error)) from None
        columns = [self._new_column(column_type(kind)) for kind in recursion.kinds]
        self._layer(layer).tasks.append(recursion.task(columns))
        for name, column in zip(order, columns, strict=True):
            node = self._parts(name)[0].expression
            self._known[name] = _Placed(_read(column, node), layer + 1)

    def _over_columns(
        self, part: Predicate, own: Mapping[str, str], memories: dict[Expression, Memory]
    ) -> tuple[Expression, int]:
        """Replace what does not depend on a group by columns, and its memories likewise.

        Args:
            part: an expression of the group.
            own: the columns that stand for the streams of the group.
            memories: the aggregates and offsets that were found so far; more are added.

        Returns:
            The expression, and the layer of the columns.
        """
        layer = 0
        # None for what does not depend on the group.
        replaced: dict[int, Expression | None] = {}

        def over_columns(node: Expression) -> Expression:
            nonlocal layer
            found = replaced[id(node)]
            if found is not None:
                return found
            if node.operator is ops.CONSTANT:
                return node
            column, lowest = self._column(self._place(node, part), part)
            layer = max(layer, lowest)
            return _read(column, node)

        for node in postorder(part.expression):
            if node.operator in _NAMED and node.name in own:
                replaced[id(node)] = _read(own[node.name], node)
            elif all(replaced[id(operand)] is None for operand in node.operands):
                replaced[id(node)] = None
            else:
                self._require_possible(node, part)
                operands = tuple(over_columns(operand) for operand in node.operands)
                found = Expression(node.operator, operands, node.value, node.span)
                if node.operator in MEMORY:
                    if found not in memories:
                        column = f"{self._prefix}kept {len(memories)}"
                        extent = self._extent(node, part)
                        memories[found] = Memory(column, node, extent, found, part)
                    found = _read(memories[found].column, node)
                replaced[id(node)] = found
        return over_columns(part.expression), layer

    def _refuse(self, names: list[str]) -> NoReturn:
        """Raise the error of streams that need their own values at the same row."""
        predicate = self._parts(names[0])[0]
        if len(names) == 1:
            message = f"stream {names[0]} needs its own value at the same row"
        else:
            message = f"streams {', '.join(names)} need each other at the same row"
        hint = f"write {names[0]}.last(or: 0) for the value at an earlier row"
        raise self._error(predicate, predicate.expression, message, hint)

    def _stream(self, name: str) -> None:
        """Place a stream or definition; what it needs has a place."""
        part = self._parts(name)[0]
        placed = self._place(part.expression, part)
        stream = self._streams.get(name)
        if stream is not None and stream.on is not None:
            where = self._place(stream.on.expression, stream.on)
            self._kind(where.expression, stream.on)
            chosen = _chosen(where.expression, placed.expression, None)
            placed = _Placed(chosen, max(placed.layer, where.layer))
        if stream is not None and stream.kind is kinds.FLOAT:
            # what is written as an integer becomes a float, too
            always = Expression(ops.CONSTANT, (), True, part.expression.span)
            placed = _Placed(_chosen(always, placed.expression, Decimal("0.0")), placed.layer)
        self._known[name] = placed

    def _place(self, expression: Expression, origin: Predicate) -> _Placed:
        """Replace everything with a memory by columns, and find the layer."""
        results: dict[int, _Placed] = {}
        for node in postorder(expression):
            operands = [results[id(operand)] for operand in node.operands]
            layer = max((operand.layer for operand in operands), default=0)
            if node.operator in _NAMED:
                results[id(node)] = self._known[node.name]
            elif node.operator in MEMORY:
                results[id(node)] = self._kernel(node, operands, origin)
            else:
                self._require_possible(node, origin)
                if node.operator in ops.COLUMNS:
                    self.columns.append(node.name)
                results[id(node)] = _Placed(_with_operands(node, operands), layer)
        return results[id(expression)]

    def _require_possible(self, node: Expression, origin: Predicate) -> None:
        if node.operator in _LATER:
            word = node.operator.word or node.operator.name
            raise self._error(origin, node, f"{word} is not possible here yet")

    def _extent(self, node: Expression, origin: Predicate) -> Extent:
        try:
            return extent_of(node, self._environment.unit)
        except NotPossible as error:
            raise self._error(origin, node, str(error)) from None

    def _kind(self, expression: Expression, origin: Predicate) -> Kind:
        return self._kinds(expression, origin, self.schema)[id(expression)]

    def _kinds(
        self, expression: Expression, origin: Predicate, schema: pa.Schema
    ) -> Mapping[int, Kind]:
        return check_part(Part(expression, origin), schema, self._environment)

    def _kernel(self, node: Expression, operands: list[_Placed], origin: Predicate) -> _Placed:
        extent = self._extent(node, origin)
        replaced = _with_operands(node, operands)
        if replaced not in self._columns:
            kinds_of = self._kinds(replaced, origin, self.schema)
            argument, layer, kind = None, 0, kinds.NULL
            for operand in operands:
                argument, layer = self._column(operand, origin)
                kind = kinds_of[id(operand.expression)]
            try:
                kernel = Kernel(node, kind, kinds_of[id(replaced)], extent, self._texts)
            except NotPossible as error:
                raise self._error(origin, node, str(error)) from None
            column = self._new_column(column_type(kernel.kind))
            self._layer(layer).tasks.append(KernelTask(column, kernel, argument))
            self._columns[replaced] = column, layer + 1
        column, layer = self._columns[replaced]
        return _Placed(_read(column, node), layer)

    def _column(self, placed: _Placed, origin: Predicate) -> tuple[str, int]:
        """Make an expression a column of its layer."""
        if placed.expression in self._columns:
            return self._columns[placed.expression]
        part = Part(placed.expression, origin)
        kind = self._kind(placed.expression, origin)
        column = self._new_column(column_type(kind))
        self._layer(placed.layer).parts[column] = part
        self._columns[placed.expression] = column, placed.layer
        return column, placed.layer

    def _new_column(self, column_type: pa.DataType) -> str:
        name = f"{self._prefix}{len(self.schema.names)}"
        self.schema = self.schema.append(pa.field(name, column_type))
        return name

    def _layer(self, number: int) -> Layer:
        while len(self._layers) <= number:
            self._layers.append(Layer())
        return self._layers[number]

    def _error(
        self, origin: Predicate, node: Expression, message: str, hint: str | None = None
    ) -> PolicyError:
        place = 0 if node.span is None else node.span.start
        error = formula_error(
            origin.text, place, message, source=origin.source, hint=hint, kind=PolicyError
        )
        assert isinstance(error, PolicyError)
        return error


class _Placed(NamedTuple):
    """An expression that reads columns only, and the first layer in which they exist."""

    expression: Expression
    layer: int


_NAMED = {ops.STREAM, ops.ATOM, ops.LET}
_LATER = {ops.PARAMETER, ops.OVER, ops.INSTANCE}
_MAGIC = b"MTLMON-STREAMS-1"
_DIGEST_BYTES = 8
# With so many texts, those that no state has are looked for first.
_MANY_TEXTS = 65_536


def _with_operands(node: Expression, operands: list[_Placed]) -> Expression:
    found = tuple(operand.expression for operand in operands)
    if all(one is other for one, other in zip(found, node.operands, strict=True)):
        return node
    return Expression(node.operator, found, node.value, node.span)


def _chosen(where: Expression, value: Expression, other: Constant) -> Expression:
    """An expression with a value where a condition holds, and another one elsewhere."""
    rest = Expression(ops.CONSTANT, (), other, value.span)
    return Expression(ops.IF, (where, value, rest), None, value.span)


def _read(column: str, node: Expression) -> Expression:
    """An expression that reads a computed column in the place of a node."""
    return Expression(ops.ROW_COLUMN, (), column, node.span)


def _unused_prefix(names: list[str]) -> str:
    prefix = "value "
    while any(name.startswith(prefix) for name in names):
        prefix += "."
    return prefix


def _digest(body: bytes) -> bytes:
    from hashlib import blake2b

    return blake2b(body, digest_size=_DIGEST_BYTES).digest()


def _parts(body: bytes) -> Iterator[bytes]:
    """The parts of a snapshot, each behind its length."""
    place = 0
    while place < len(body):
        size = int.from_bytes(body[place : place + 8], "little")
        place += 8
        yield body[place : place + size]
        place += size


class StreamProgram:
    """Computes expressions over streams, batch after batch, for many traces.

    Args:
        wanted: the expressions to compute, by name. Names in them are resolved: a STREAM is one of
            `streams`, an ATOM or LET one of `definitions`.
        streams: the declared streams by name.
        schema: the schema of all batches; columns that no expression names may differ.
        definitions: what the names of atoms and lets stand for.
        environment: the unit of the time-stamps, which is needed if intervals or distances have
            units, and for functions of time the time column and the zone.

    Attributes:
        columns: the names of the columns that are read.
        types: the type of the result for each name in `wanted`.

    Raises:
        PolicyError: a column does not exist, a type does not fit, a stream needs its own value at
            the same row, or an operator is not supported.
        FormulaError: a duration is not a whole number of units.
    """

    def __init__(
        self,
        wanted: Mapping[str, Predicate],
        streams: Mapping[str, Stream],
        schema: pa.Schema,
        definitions: Mapping[str, Predicate] | None = None,
        environment: Environment = NOTHING,
    ) -> None:
        self._texts = Texts()
        builder = _Builder(streams, definitions or {}, schema, environment, self._texts)
        builder.streams_in_order(wanted.values())
        outputs = {name: builder.output(predicate) for name, predicate in wanted.items()}
        self._layers = builder.finish()
        self._outputs = outputs
        self._kernels = [
            kernel for layer in self._layers for task in layer.tasks for kernel in task.kernels
        ]
        # Constants of machines; they keep their numbers.
        self._constant_texts = len(self._texts)
        self._most_texts = _MANY_TEXTS
        self._clock = 0
        self._marked_clock = 0
        self.columns = tuple(dict.fromkeys(builder.columns))
        self.types = {name: builder.schema.field(column).type for name, column in outputs.items()}

    def evaluate(
        self,
        batch: pa.RecordBatch,
        time_stamps: NDArray[np.int64],
        numbers: NDArray[np.uint32] | None = None,
    ) -> dict[str, pa.Array]:
        """Compute all wanted expressions for the next rows, and remember the rows.

        Args:
            batch: the rows, with the columns of the schema.
            time_stamps: their time-stamps, contiguous; they must not decrease, over all batches.
            numbers: for each row, the number of its trace, contiguous; None if there is only one
                trace. Numbers should be dense, as memory is needed for all below the largest.

        Returns:
            For each name in `wanted` an array as long as the batch. Conditions keep their nulls.

        Raises:
            RowError: integers overflow in some rows. These rows must be left out: `evaluate` is to
                be called again with the other rows of the batch. The state is as before the call.
            ValueError: a column is missing or has another type than in the schema, or time-stamps
                decrease.
        """
        self.commit()
        self._forget_texts()
        try:
            return self._attempt(batch, time_stamps, numbers)
        except _Refused as refused:
            error = refused.error
            while refused.layer > 0:
                # The row overflows if no earlier row does, which would have been left out before.
                self.undo()
                row = error.rows[0]
                error = RowError(error.reason, rows=(row,), atom=error.atom)
                batch = batch.slice(0, row)
                numbers = None if numbers is None else numbers[:row]
                try:
                    self._attempt(batch, time_stamps[:row], numbers)
                except _Refused as earlier:
                    refused = earlier
                    error = earlier.error
                else:
                    break
            self.undo()
            raise error from None
        except BaseException:
            self.undo()
            raise

    def commit(self) -> None:
        """Let `undo` return to the present state from now on; `evaluate` begins with it."""
        self._marked_clock = self._clock
        for kernel in self._natives():
            kernel.begin()

    def undo(self) -> None:
        """Return to the state before the last call of `evaluate`."""
        self._clock = self._marked_clock
        for kernel in self._natives():
            kernel.undo()

    def settled(self, count: int) -> NDArray[np.bool_]:
        """Find the traces that can be forgotten.

        The state of such a trace is that of a new one, and time alone does not change it.

        Args:
            count: the number of traces.

        Returns:
            For each trace whether it is settled.
        """
        flags = np.ones(count, np.uint8)
        for kernel in self._natives():
            kernel.settled(flags)
        return flags.view(np.bool_)

    def keep(self, new_numbers: bytes) -> None:
        """Give traces new numbers, in the same order, and forget others.

        Args:
            new_numbers: 32-bit integers, indexed by the current number; 2^32-1 for traces to
                forget.
        """
        for kernel in self._natives():
            kernel.keep(new_numbers)
        self._marked_clock = self._clock

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the state takes."""
        return self._texts.held_bytes + sum(kernel.held_bytes for kernel in self._natives())

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        parts = [self._clock.to_bytes(8, "little"), self._texts.snapshot()]
        parts.append("\n".join(self._kinds).encode())
        parts += [kernel.snapshot() for kernel in self._natives()]
        body = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        return _MAGIC + _digest(body) + body

    def restore(self, snapshot: bytes) -> None:
        """Continue from the snapshot of a program with the same arguments; this one must be new.

        Raises:
            SnapshotError: the bytes are not a snapshot, are damaged, or belong to another program.
                This program must not be used after that.
            MtlmonError: rows were evaluated before.
        """
        head = len(_MAGIC) + _DIGEST_BYTES
        body = snapshot[head:]
        if not snapshot.startswith(_MAGIC):
            raise SnapshotError("this is not a snapshot of streams")
        if snapshot[len(_MAGIC) : head] != _digest(body):
            raise SnapshotError("the snapshot is damaged: its digest does not fit its content")
        parts = list(_parts(body))
        natives = list(self._natives())
        if len(parts) != 3 + len(natives) or len(parts[0]) != 8 or not self._fit(parts[2]):
            raise SnapshotError("the snapshot is of other streams")
        self._clock = int.from_bytes(parts[0], "little")
        self._texts.restore(parts[1])
        for kernel, part in zip(natives, parts[3:], strict=True):
            kernel.restore(part)
        self.commit()

    @property
    def _kinds(self) -> list[str]:
        """The kind of the values that each kernel keeps."""
        return [f"{one.argument.name} {one.argument.unit}" for one in self._kernels]

    def _fit(self, written: bytes) -> bool:
        """Whether values of the kinds in a snapshot can be kept here; nulls are no values."""
        found = written.decode(errors="replace").split("\n") if written else []
        return len(found) == len(self._kernels) and all(
            kind == own or kind.startswith("null ")
            for kind, own in zip(found, self._kinds, strict=True)
        )

    def _forget_texts(self) -> None:
        """Forget the texts that no state has, if there are many."""
        if len(self._texts) < self._most_texts:
            return
        is_kept = np.zeros(len(self._texts), np.bool_)
        is_kept[: self._constant_texts] = True
        with_texts = [kernel.native for kernel in self._kernels if kernel.argument.name == "text"]
        for kernel in with_texts:
            kernel.mark_texts(is_kept.view(np.uint8))
        numbers = self._texts.keep(is_kept)
        for kernel in with_texts:
            kernel.renumber_texts(numbers)
        self._most_texts = max(_MANY_TEXTS, 2 * len(self._texts))

    def _natives(self) -> Iterator[native.Kernel]:
        for kernel in self._kernels:
            yield from kernel.natives

    def _attempt(
        self,
        batch: pa.RecordBatch,
        time_stamps: NDArray[np.int64],
        numbers: NDArray[np.uint32] | None,
    ) -> dict[str, pa.Array]:
        count = batch.num_rows
        rows = native.Batch(time_stamps, numbers, count, self._clock)
        columns: dict[str, pa.Array] = {
            name: batch.column(index) for index, name in enumerate(batch.schema.names)
        }
        for number, layer in enumerate(self._layers):
            try:
                layer.run(columns, rows)
            except RowError as error:
                raise _Refused(number, error) from None
        if count:
            self._clock = int(time_stamps[count - 1])
        return {name: columns[column] for name, column in self._outputs.items()}


class _Refused(Exception):
    """The error of a row, and the layer that it was found in."""

    def __init__(self, layer: int, error: RowError) -> None:
        super().__init__(layer, error)
        self.layer = layer
        self.error = error
