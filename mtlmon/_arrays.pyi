from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, final

import numpy as np
from typing_extensions import Buffer

from mtlmon._core import Monitor, Verdict

# numpy's arrays have the methods of buffers from Python 3.12 on only.
_Array: TypeAlias = Buffer | np.ndarray[Any, Any]
_Records = TypeVar("_Records", bound=np.ndarray[Any, Any])

def verdicts_of(records: _Array) -> list[Verdict]: ...

@final
class Memory:
    def __init__(
        self, array: _Array, item_size: int, count: int, is_writable: bool = False
    ) -> None: ...

@final
class EventColumns:
    def __init__(self, time_stamps: _Array, count: int) -> None: ...
    @property
    def count(self) -> int: ...
    def add_bytes(self, atom: int, array: _Array) -> None: ...
    def add_bitmap(self, atom: int, bitmap: _Array, first: int) -> None: ...
    def add_bit_of_masks(self, atom: int, masks: _Array, bit: int) -> None: ...
    def add_letters(self, atom_count: int, masks: _Array, word: int = 0) -> None: ...

@final
class Feeding:
    def __init__(self, monitor: Monitor) -> None: ...
    def feed(
        self, batches: list[EventColumns], new_records: Callable[[int], _Records]
    ) -> tuple[_Records, int]: ...
