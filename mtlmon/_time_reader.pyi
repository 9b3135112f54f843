from typing import Final, Literal, final

from mtlmon._arrays import _Array
from mtlmon._cells import TextCells
from mtlmon._time_formats import TimeFormat

FAULTS: Final[dict[int, str]]

@final
class TimeReader:
    def __init__(
        self, notation: Literal["number", "iso"] | TimeFormat, multiply: int, divide: int
    ) -> None: ...
    def read(self, cells: TextCells, time_stamps: _Array, faults: _Array) -> int: ...
