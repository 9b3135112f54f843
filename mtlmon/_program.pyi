from typing import final

@final
class Program:
    def __init__(
        self,
        rows: tuple[tuple[int, int, int, int, int | None, int], ...],
        root: int,
        atoms: tuple[str, ...],
        is_bounded: bool,
    ) -> None: ...
    @property
    def atoms(self) -> tuple[str, ...]: ...
    @property
    def is_bounded(self) -> bool: ...
    @property
    def rows(self) -> tuple[tuple[int, int, int, int, int | None, int], ...]: ...
    @property
    def root(self) -> int: ...
