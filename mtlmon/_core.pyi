from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Protocol, Self, SupportsIndex, final, overload

from numpy.typing import ArrayLike
from typing_extensions import Buffer

from mtlmon._program import Program
from mtlmon._stream import VerdictStream
from mtlmon.pending import PendingTimePoint
from mtlmon.syntax.formula import Formula
from mtlmon.verdict_arrays import VerdictArray

class _ArrowArray(Protocol):
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Verdict:
    @property
    def time_stamp(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def kind(self) -> Literal["true", "false", "equivalent"]: ...
    @property
    def value(self) -> bool | None: ...
    @property
    def ref(self) -> tuple[int, int] | None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Monitor:
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
    def max_memory(self) -> int | None: ...
    @max_memory.setter
    def max_memory(self, value: SupportsIndex | str | None) -> None: ...
    @property
    def program(self) -> Program: ...
    @property
    def mode(self) -> Literal["local", "global", "naive"]: ...
    @property
    def unknown(self) -> Literal["ignore", "error"]: ...
    @property
    def atoms(self) -> tuple[str, ...]: ...
    @property
    def pending(self) -> list[PendingTimePoint]: ...
    @property
    def next_change(self) -> int | None: ...
    @property
    def settled_from(self) -> int | None: ...
    @property
    def counters(self) -> dict[str, int]: ...
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
    def snapshot(self) -> bytes: ...
    def restore(self, snapshot: Buffer) -> None: ...
    def reset(self) -> None: ...
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
