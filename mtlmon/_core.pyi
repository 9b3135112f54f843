from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Protocol, Self, SupportsIndex, final, overload

from numpy.typing import ArrayLike

from mtlmon.engine.native import Program, Session
from mtlmon.engine.native import Verdict as Verdict
from mtlmon.syntax.formula import Formula
from mtlmon.verdicts.arrays import VerdictArray
from mtlmon.verdicts.native import VerdictStream

class _ArrowArray(Protocol):
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Monitor(Session):
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
    def next_change(self) -> int | None: ...
    @property
    def settled_from(self) -> int | None: ...
    def step(
        self,
        time_stamp: SupportsIndex,
        atoms: Iterable[str] | Mapping[str, bool] | SupportsIndex = (),
    ) -> list[Verdict]: ...
    @overload
    def feed(
        self,
        time_stamps: ArrayLike,
        letters: ArrayLike | Mapping[str, ArrayLike],
        *,
        atoms: Sequence[str] | None = None,
        unknown: Literal["ignore", "error"] | None = None,
    ) -> VerdictArray: ...
    @overload
    def feed(
        self,
        time_stamps: _ArrowArray | _ArrowStream,
        letters: None = None,
        *,
        atoms: None = None,
        time: str = "time_stamp",
        unknown: Literal["ignore", "error"] | None = None,
    ) -> VerdictArray: ...
    def advance(self, time_stamp: SupportsIndex) -> list[Verdict]: ...
    def finish(
        self, end_time: SupportsIndex | Literal["last", "inf"] | None = None
    ) -> list[Verdict]: ...
    def __call__(
        self,
        events: Iterable[tuple[SupportsIndex, Iterable[str] | Mapping[str, bool] | SupportsIndex]],
        end_time: SupportsIndex | Literal["last", "inf"] | None = None,
    ) -> VerdictStream: ...
    def astream(
        self,
        events: AsyncIterable[
            tuple[SupportsIndex, Iterable[str] | Mapping[str, bool] | SupportsIndex]
        ],
        end_time: SupportsIndex | Literal["last", "inf"] | None = None,
    ) -> AsyncIterator[Verdict]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
