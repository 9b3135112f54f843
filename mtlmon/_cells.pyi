from typing import final

from mtlmon._arrays import _Array

def texts_of_views(
    count: int,
    first: int,
    validity: _Array | None,
    views: _Array | None,
    pieces: list[_Array | None],
) -> tuple[bytes, bytes]: ...

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
