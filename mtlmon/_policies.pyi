from concurrent.futures import Executor
from typing import Literal, final

from mtlmon._arrays import EventColumns, _Array
from mtlmon._first_violation import FirstViolation
from mtlmon._keyed import KeyedMonitors
from mtlmon._memory_limit import MemoryLimit

@final
class VerdictRows:
    def __len__(self) -> int: ...
    def taken(self) -> tuple[bytes, bytes, bytes]: ...
    def add_false(self, time_stamp: int, offset: int, stream: int, policy: int) -> None: ...

@final
class PolicyMonitors:
    monitors: list[KeyedMonitors]
    verdicts: VerdictRows
    violations: VerdictRows
    @property
    def first(self) -> FirstViolation | None: ...
    memory: MemoryLimit
    def __init__(
        self,
        monitors: list[KeyedMonitors],
        *,
        verdicts: Literal["all", "boolean", "false", "none"] = "all",
        resolve: bool = False,
        collect: bool = False,
        find_first: bool = False,
        delays: list[int | None] | None = None,
        executor: Executor | None = None,
        memory: MemoryLimit | None = None,
    ) -> None: ...
    def feed(
        self, events: list[EventColumns], numbers: _Array, first: int = 0, count: int = ...
    ) -> None: ...
    def advance(self, time_stamp: int) -> None: ...
    def finish(self, time_stamp: int, is_closed: bool) -> None: ...
    def check(self) -> None: ...
    @property
    def stream_count(self) -> int: ...
    @property
    def open_count(self) -> int: ...
    @property
    def earliest_pending(self) -> tuple[int, int, int] | None: ...
    def forget_idle(self, clock: int) -> bytes | None: ...
