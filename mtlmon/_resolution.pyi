from collections.abc import Iterable, Iterator
from typing import SupportsIndex, final

import numpy as np
from numpy.typing import NDArray

from mtlmon._core import Monitor, Verdict

@final
class Resolution:
    """Gives time-points their Boolean verdicts while the verdicts of a stream come in."""

    def __init__(
        self,
        *,
        in_order: bool = False,
        reach: int | None = None,
        monitor: Monitor | None = None,
        max_memory: SupportsIndex | str | None = None,
    ) -> None: ...
    @property
    def open_count(self) -> int: ...
    @property
    def held_bytes(self) -> int: ...
    def push(self, verdicts: Iterable[Verdict]) -> list[Verdict]: ...
    def push_array(self, verdicts: NDArray[np.void]) -> NDArray[np.void]: ...
    def finish(self) -> list[Verdict]: ...

@final
class ResolvedVerdicts(Iterator[Verdict]):
    """An iterator over the Boolean verdicts behind a stream of verdicts."""

    def __init__(
        self,
        verdicts: Iterable[Verdict],
        *,
        in_order: bool = False,
        reach: int | None = None,
        only_false: bool = False,
        max_memory: SupportsIndex | str | None = None,
    ) -> None: ...
    @property
    def open_count(self) -> int: ...
    def __iter__(self) -> ResolvedVerdicts: ...
    def __next__(self) -> Verdict: ...

@final
class VerdictCounter:
    """Counts the verdicts of a stream, resolved."""

    def __init__(self) -> None: ...
    @property
    def true_count(self) -> int: ...
    @property
    def false_count(self) -> int: ...
    @property
    def open_count(self) -> int: ...
    @property
    def reference_count(self) -> int: ...
    @property
    def equivalent_count(self) -> int: ...
    @property
    def first_violation(self) -> Verdict | None: ...
    def update(self, verdicts: Iterable[Verdict]) -> None: ...
    def add(self, item: Verdict) -> None: ...

def first_violation(verdicts: Iterable[Verdict], reach: int | None = None) -> Verdict | None: ...
