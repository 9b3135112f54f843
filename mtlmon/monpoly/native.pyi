"""Files of MonPoly: plain lines of logs, and verdicts as MonPoly writes them."""

from collections.abc import Iterable
from typing import final

from mtlmon.arrays.native import KeyTable
from mtlmon.relational.native import AnswerBlock
from mtlmon.text.native import Writer

@final
class PlainShape:
    """Says which lines of a log are plain."""

    def __init__(self, relations: Iterable[tuple[str, Iterable[str]]]) -> None: ...
    def end_in(self, data: bytes, last: int) -> tuple[int, int]: ...

@final
class VerdictLines:
    """Writes the answers about the only policy of a plan."""

    def __init__(
        self, columns: Iterable[tuple[int, str, str]], variable_count: int, texts: KeyTable
    ) -> None: ...
    @property
    def writer(self) -> Writer: ...
    def put(self, answers: AnswerBlock) -> None: ...
    def close(self) -> None: ...
