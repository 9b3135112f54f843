from typing import final

from typing_extensions import Buffer

from mtlmon._scanner import Scanner

@final
class TextEvents:
    scanner: Scanner
    def __init__(
        self, atoms: tuple[str, ...], *, path: str = "<log>", skip_errors: bool = False
    ) -> None: ...
    @property
    def held_bytes(self) -> int: ...
    def load(self, block: Buffer) -> None: ...
    def load_end(self) -> None: ...
    def read(self) -> tuple[bytes, bytes]: ...
