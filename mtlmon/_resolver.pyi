from collections.abc import Iterable
from typing import final

@final
class Resolver:
    """Gives each time-point of a stream of verdicts its Boolean value."""

    def __init__(self) -> None: ...
    @property
    def open_count(self) -> int: ...
    @property
    def true_count(self) -> int: ...
    @property
    def false_count(self) -> int: ...
    def resolve(
        self, verdicts: Iterable[tuple[int, int, bool | tuple[int, int]]]
    ) -> list[tuple[int, int, bool]]: ...
