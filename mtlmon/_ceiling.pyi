from collections.abc import Iterable
from typing import Literal, final

from mtlmon._writer import Writer

@final
class Ceiling:
    """Scans a log and writes one verdict for each event."""

    def __init__(self, atoms: Iterable[str] = ("p", "q")) -> None: ...
    def copy(self, input_file: int, output_file: int) -> None: ...
    def scan(self, log: bytes | bytearray | memoryview) -> int: ...

@final
class VerdictBatch:
    """Verdict records to be written."""

    def __init__(
        self,
        verdicts: Iterable[tuple[int, int, Literal["false", "true", "equivalent"], int, int]],
    ) -> None: ...
    def write(
        self, writer: Writer, verdicts: Literal["all", "boolean", "false", "none"] = "all"
    ) -> None: ...
