"""What first-order policies write: answers as lines and as arrays."""

from collections.abc import Iterable, Sequence
from typing import Literal, final

from mtlmon.arrays.native import KeyTable, _Array
from mtlmon.relational.native import AnswerBlock
from mtlmon.text.native import Writer

def answer_arrays(answers: AnswerBlock) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes]: ...

@final
class AnswerLines:
    """Writes answers as lines of text."""

    def __init__(
        self,
        labels: Iterable[bytes],
        variables: Iterable[Sequence[tuple[str, str]]],
        texts: KeyTable,
        *,
        verdicts: Literal["all", "boolean", "false", "none"] = "false",
    ) -> None: ...
    @property
    def writer(self) -> Writer: ...
    def put(self, answers: AnswerBlock) -> None: ...
    def close(self) -> None: ...

@final
class FirstAnswers:
    """Keeps the answers of the first violation."""

    def __init__(self, widths: _Array, finds: Iterable[bool]) -> None: ...
    @property
    def found(self) -> AnswerBlock: ...
    @property
    def has_candidate(self) -> bool: ...
    @property
    def is_decided(self) -> bool: ...
    @property
    def time_point(self) -> tuple[int, int] | None: ...
    def put(self, answers: AnswerBlock) -> bool: ...

@final
class AnswerQueue:
    """Keeps answers until the verdicts of other policies have come as far."""

    def __init__(self, widths: _Array) -> None: ...
    def put(self, answers: AnswerBlock) -> None: ...
    def known(self) -> list[int]: ...
    def take(self, target: AnswerBlock, known: int) -> None: ...
