"""Relations: sweeps over the starts and ends of records."""

from typing import Literal, Protocol, final

from typing_extensions import disjoint_base

from mtlmon.arrays.native import _Array

@final
class Block: ...

@final
class Timeline:
    def __init__(
        self,
        starts: _Array,
        ends: _Array,
        by_start: _Array | None,
        by_end: _Array | None,
        count: int,
        has_ends: bool = True,
    ) -> None: ...
    @property
    def count(self) -> int: ...

@final
class Numbering:
    def __init__(self, numbers: _Array, count: int) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def limit(self) -> int: ...

def has_overlaps(timeline: Timeline, numbers: Numbering) -> bool: ...

@final
class Multiplicities:
    def __init__(
        self,
        rule: Literal["each", "once", "less", "absent", "least", "most"],
        timeline: Timeline,
        values: Numbering,
        left: int,
    ) -> None: ...
    @property
    def starts(self) -> memoryview: ...
    @property
    def ends(self) -> memoryview: ...
    @property
    def values(self) -> memoryview: ...

@disjoint_base
class Aggregate:
    def __init__(self, values: _Array | None, validity: _Array | None, count: int) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def results(self) -> memoryview: ...
    @property
    def results_validity(self) -> memoryview | None: ...

@final
class CountAggregate(Aggregate): ...

@final
class DistinctAggregate(Aggregate):
    def __init__(self, values: _Array, validity: _Array | None, count: int, limit: int) -> None: ...

@final
class SumAggregate(Aggregate):
    def __init__(
        self,
        values: _Array,
        validity: _Array | None,
        count: int,
        kind: Literal["sum", "avg", "var", "stddev"],
        is_float: bool,
    ) -> None: ...

@final
class QuantileAggregate(Aggregate):
    def __init__(
        self,
        values: _Array,
        validity: _Array | None,
        count: int,
        share: float,
        of_deviations: bool = False,
    ) -> None: ...

class _Calls(Protocol):
    def enter(self, group: int, row: int) -> object: ...
    def leave(self, group: int, row: int) -> object: ...
    def now(self, group: int) -> int: ...

@final
class OwnAggregate(Aggregate):
    def __init__(
        self, values: None, validity: _Array | None, count: int, calls: _Calls
    ) -> None: ...

@final
class LeastAggregate(Aggregate): ...

@final
class Groups:
    def __init__(
        self, timeline: Timeline, groups: Numbering, aggregates: list[Aggregate]
    ) -> None: ...
    @property
    def starts(self) -> memoryview: ...
    @property
    def ends(self) -> memoryview: ...
    @property
    def groups(self) -> memoryview: ...
    @property
    def overflow(self) -> int | None: ...

@final
class Pairs:
    def __init__(
        self,
        lefts: Timeline,
        left_keys: Numbering,
        rights: Timeline,
        right_keys: Numbering,
        keys: int,
    ) -> None: ...
    def find(self, limit: int) -> bool: ...
    @property
    def left(self) -> memoryview: ...
    @property
    def right(self) -> memoryview: ...

@final
class Contacts:
    def __init__(self, timeline: Timeline, columns: list[_Array]) -> None: ...
    @property
    def found(self) -> memoryview | None: ...

@final
class Codes:
    @property
    def count(self) -> int: ...
    @property
    def values(self) -> memoryview: ...
    def number(self, values: _Array, count: int) -> memoryview: ...
    def find(self, values: _Array, count: int) -> memoryview: ...

@final
class Segments:
    def __init__(
        self, timeline: Timeline, codes: _Array, rows: _Array | None, keys: int
    ) -> None: ...
    @property
    def overlapping(self) -> memoryview | None: ...
    @property
    def keys(self) -> int: ...
    def find(self, times: _Array, codes: _Array, count: int, nothing: int) -> memoryview: ...
