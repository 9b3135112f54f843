from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Generic, Literal, SupportsIndex, TypeVar, final

from mtlmon._core import Verdict
from mtlmon.engine.native import Program
from mtlmon.engine.pending import PendingTimePoint
from mtlmon.syntax.formula import Formula

_Key = TypeVar("_Key", bound=Hashable)

@final
class Monitors(Generic[_Key]):
    def __init__(
        self,
        formula: Formula | Program | str,
        mode: Literal["local", "global", "naive"] = "local",
        *,
        bdd: Literal["auto", "cudd", "autoref"] = "auto",
        unit: Literal["ns", "us", "ms", "s", "m", "h", "d"] | None = None,
        unknown: Literal["ignore", "error"] = "ignore",
        max_memory: SupportsIndex | str | None = None,
    ) -> None: ...
    @property
    def program(self) -> Program: ...
    @property
    def mode(self) -> Literal["local", "global", "naive"]: ...
    @property
    def atoms(self) -> tuple[str, ...]: ...
    @property
    def counters(self) -> dict[str, int]: ...
    def step(
        self,
        key: _Key,
        time_stamp: SupportsIndex,
        atoms: Iterable[str] | Mapping[str, bool] | SupportsIndex = (),
    ) -> list[Verdict]: ...
    def advance(self, key: _Key, time_stamp: SupportsIndex) -> list[Verdict]: ...
    def pending(self, key: _Key) -> list[PendingTimePoint]: ...
    def finish(
        self, end_time: SupportsIndex | Literal["last", "inf"] | None = None
    ) -> Iterator[tuple[_Key, list[Verdict]]]: ...
    def forget(self, key: _Key) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __iter__(self) -> Iterator[_Key]: ...
