from collections.abc import Iterable
from typing import final

@final
class AtomTable:
    """Finds atoms by name, as UTF-8 bytes."""

    def __init__(self, atoms: Iterable[str]) -> None: ...
    @property
    def atoms(self) -> tuple[str, ...]: ...
    @property
    def letter_words(self) -> int: ...
