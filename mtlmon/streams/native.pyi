"""Streams: windows and offsets over the rows of many traces."""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias, final

from typing_extensions import disjoint_base

from mtlmon.arrays.native import _Array

@final
class Batch:
    def __init__(
        self, time_stamps: _Array, numbers: _Array | None, count: int, clock: int = 0
    ) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def traces(self) -> int: ...
    @property
    def times(self) -> Any: ...

@disjoint_base
class Kernel:
    def feed(
        self,
        batch: Batch,
        values: _Array | None,
        mask: _Array | None,
        results: _Array,
        validity: _Array,
        wanted: _Array | None = None,
    ) -> int: ...
    def begin(self) -> None: ...
    def undo(self) -> None: ...
    def settled(self, flags: _Array) -> None: ...
    def keep(self, new_numbers: _Array) -> None: ...
    def forget_all(self) -> None: ...
    def set_ranks(self, ranks: _Array) -> None: ...
    def mark_texts(self, flags: _Array) -> None: ...
    def renumber_texts(self, new_numbers: _Array) -> None: ...
    def snapshot(self) -> bytes: ...
    def restore(self, snapshot: bytes | bytearray | memoryview) -> None: ...
    def most_bytes(self, traces: int, rows: int, rows_of_trace: int, batch: int) -> int: ...
    @property
    def held_bytes(self) -> int: ...

@disjoint_base
class Window(Kernel): ...

_Choice: TypeAlias = Literal["first", "last", "min", "max"]
_Sum: TypeAlias = Literal["sum", "avg", "var", "stddev"]

@final
class CountWindow(Window):
    def __init__(self, lower: int, upper: int) -> None: ...

@final
class SumWindow(Window):
    def __init__(self, kind: _Sum, is_float: bool, lower: int, upper: int) -> None: ...

@final
class QueueWindow(Window):
    def __init__(
        self, kind: _Choice, is_float: bool, lower: int, upper: int, is_text: bool = False
    ) -> None: ...

@final
class DistinctWindow(Window):
    def __init__(self, is_float: bool, lower: int, upper: int) -> None: ...

@final
class QuantileWindow(Window):
    def __init__(self, share: float, lower: int, upper: int) -> None: ...

@final
class IntegralWindow(Window):
    def __init__(self, is_float: bool, lower: int, upper: int) -> None: ...

@final
class Fold(Kernel):
    def __init__(
        self, kind: _Choice, is_float: bool, lower: int, is_text: bool = False
    ) -> None: ...

@final
class Last(Kernel):
    def __init__(self, distance: int) -> None: ...

OPERATIONS: Final[dict[str, int]]

@final
class Machine:
    def __init__(
        self,
        code: Sequence[tuple[int, int, int, int, int]],
        registers: int,
        inputs: int,
        constants: Sequence[int | None],
        kernels: Sequence[Kernel],
        outputs: Sequence[int],
    ) -> None: ...
    @property
    def failed(self) -> int: ...
    def run(
        self,
        batch: Batch,
        cells: Sequence[_Array],
        masks: Sequence[_Array | None],
        results: Sequence[_Array],
        validities: Sequence[_Array],
    ) -> int: ...

@final
class Instances:
    def __init__(self, text_columns: Sequence[bool]) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def living(self) -> int: ...
    @property
    def held_bytes(self) -> int: ...
    def run(
        self,
        batch: Batch,
        keys: Sequence[_Array],
        key_masks: Sequence[_Array | None],
        starts: _Array | None,
        ends: _Array | None,
        end_keys: Sequence[_Array] | None,
        end_masks: Sequence[_Array | None] | None,
        numbers: _Array,
    ) -> None: ...
    def find(
        self,
        batch: Batch,
        keys: Sequence[_Array],
        masks: Sequence[_Array | None],
        numbers: _Array,
    ) -> None: ...
    def begin(self) -> None: ...
    def undo(self) -> None: ...
    def settled(self, flags: _Array) -> None: ...
    def compact(self, new_traces: bytes | None = None) -> bytes: ...
    def mark_texts(self, flags: _Array) -> None: ...
    def renumber_texts(self, new_numbers: _Array) -> None: ...
    def snapshot(self) -> bytes: ...
    def restore(self, snapshot: bytes | bytearray | memoryview) -> None: ...

@final
class Columns:
    def __init__(
        self, cells: Sequence[_Array], masks: Sequence[_Array | None], width: int, count: int
    ) -> None: ...

@final
class Over:
    def __init__(self, kind: Literal["count", "sum", "min", "max"], is_float: bool) -> None: ...
    @property
    def held_bytes(self) -> int: ...
    def feed(
        self,
        instances: Instances,
        batch: Batch,
        numbers: _Array,
        values: _Array,
        mask: _Array | None,
        results: _Array,
        validity: _Array,
    ) -> int: ...
    def begin(self) -> None: ...
    def undo(self) -> None: ...
    def keep(self, new_numbers: _Array, new_traces: _Array | None = None) -> None: ...
    def snapshot(self, instances: Instances) -> bytes: ...
    def restore(self, snapshot: bytes | bytearray | memoryview, instances: Instances) -> None: ...
