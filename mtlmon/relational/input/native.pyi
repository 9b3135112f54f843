"""What first-order policies read: logs to time-points."""

from collections.abc import Iterable, Sequence
from typing import Final, final

from mtlmon.arrays.native import KeyTable, _Array
from mtlmon.relational.native import PointBlock
from mtlmon.text.native import Scanner

DEFAULT_POINTS: Final[int]

@final
class RelationTable:
    """The relations that are read, by name."""

    def __init__(self, relations: Iterable[tuple[str, Sequence[str]]]) -> None: ...
    @property
    def relations(self) -> tuple[tuple[str, tuple[str, ...]], ...]: ...
    @property
    def absent(self) -> tuple[str, ...]: ...

@final
class RowScanner:
    """Reads a log of relations, block by block."""

    def __init__(
        self,
        relations: Iterable[tuple[str, Sequence[str]]],
        points: PointBlock,
        texts: KeyTable,
        *,
        path: str = "<log>",
        skip_errors: bool = False,
    ) -> None: ...
    @property
    def lines(self) -> Scanner: ...
    @property
    def table(self) -> RelationTable: ...
    @property
    def points(self) -> PointBlock: ...
    @property
    def texts(self) -> KeyTable: ...
    @property
    def point_count(self) -> int: ...
    def load(self, block: bytes | bytearray | memoryview) -> None: ...
    def load_end(self) -> None: ...
    def unload(self) -> None: ...
    def read(self, most: int = 1024) -> bool: ...

@final
class ColumnRows:
    """Fills time-points from arrays."""

    def __init__(self, points: PointBlock, *, by_stamp: bool = False) -> None: ...
    @property
    def points(self) -> PointBlock: ...
    @property
    def point_count(self) -> int: ...
    def load(self, time_stamps: _Array, atoms: Sequence[tuple[_Array, _Array]]) -> None: ...
    def read(self, most: int = 1024) -> bool: ...
