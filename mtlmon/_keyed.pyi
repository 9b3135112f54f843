from typing import Literal, final

from mtlmon._arrays import EventColumns, _Array
from mtlmon._memory_limit import MemoryLimit
from mtlmon._program import Program
from mtlmon.pending import PendingTimePoint
from mtlmon.syntax.formula import Formula

@final
class KeyedMonitors:
    def __init__(
        self,
        formula: Formula | Program | str,
        mode: Literal["local", "global", "naive"] = "local",
        *,
        bdd: Literal["auto", "cudd", "autoref"] = "auto",
        unit: Literal["ns", "us", "ms", "s", "m", "h", "d"] | None = None,
        unknown: Literal["ignore", "error"] = "ignore",
    ) -> None: ...
    @property
    def atoms(self) -> tuple[str, ...]: ...
    @property
    def mode(self) -> Literal["local", "global", "naive"]: ...
    def set_limit(self, memory: MemoryLimit, policies: int) -> None: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def counters(self) -> dict[str, int]: ...
    def feed(self, events: EventColumns, numbers: _Array) -> tuple[bytes, bytes]: ...
    def finish(
        self, number: int, end_time: int | Literal["last", "inf"] | None = None
    ) -> bytes: ...
    @property
    def pending_streams(self) -> list[int]: ...
    def pending(self, number: int, time_stamp: int = 0) -> list[PendingTimePoint]: ...
