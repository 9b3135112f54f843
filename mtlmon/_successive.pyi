from typing import Literal, final

from mtlmon._arrays import EventColumns, _Array
from mtlmon._program import Program
from mtlmon.syntax.formula import Formula

@final
class SuccessiveMonitor:
    def __init__(
        self,
        formula: Formula | Program | str,
        mode: Literal["local", "global", "naive"] = "local",
        *,
        bdd: Literal["auto", "cudd", "autoref"] = "auto",
        unit: Literal["ns", "us", "ms", "s", "m", "h", "d"] | None = None,
        resolve: bool = False,
        end_time: int | Literal["last", "inf"] | None = None,
    ) -> None: ...
    @property
    def atoms(self) -> tuple[str, ...]: ...
    @property
    def pending_count(self) -> int: ...
    def feed(self, events: EventColumns, starts: _Array) -> tuple[bytes, bytes]: ...
    def finish(self) -> bytes: ...
