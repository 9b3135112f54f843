"""First-order policies: finite relations, and the states of operators."""

from collections.abc import Iterable, Sequence
from typing import final

from mtlmon.arrays.native import _Array

@final
class PointBlock:
    """Time-points that wait to be read."""

    def __init__(self, widths: _Array) -> None: ...
    def __len__(self) -> int: ...
    def add(self, time_stamp: int, rows: Iterable[tuple[int, Sequence[int]]]) -> None: ...
    def take(self) -> list[tuple[int, list[tuple[int, tuple[int, ...]]]]]: ...

@final
class AnswerBlock:
    """Answers that wait to be written."""

    def __init__(self, widths: _Array) -> None: ...
    def __len__(self) -> int: ...
    def add(
        self,
        policy: int,
        kind: int,
        time_stamp: int,
        offset: int,
        point: int,
        cells: Sequence[int] = (),
    ) -> None: ...
    def take(self) -> list[tuple[int, int, int, int, int, tuple[int, ...]]]: ...
