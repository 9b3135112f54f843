from typing import final

from mtlmon._arrays import _Array

@final
class Offsets:
    def __init__(
        self, buffer: _Array | None, first: int, count: int, limit: int, is_large: bool
    ) -> None: ...
    @property
    def count(self) -> int: ...

@final
class TextCells:
    def __init__(
        self,
        count: int,
        first: int,
        validity: _Array | None,
        offsets: _Array | None,
        text: _Array | None,
        is_large: bool,
    ) -> None: ...
    @property
    def count(self) -> int: ...
