"""First-order policies: finite relations, and the states of operators."""

from collections.abc import Iterable, Sequence
from typing import Final, final

from mtlmon.arrays.native import KeyTable, _Array
from mtlmon.relational.plan import Plan

OPERATIONS: Final[dict[str, int]]
STATE_KINDS: Final[dict[str, int]]
LEFT_KINDS: Final[dict[str, int]]
STEP_KINDS: Final[dict[str, int]]
MODES: Final[dict[str, int]]
SOURCE_KINDS: Final[dict[str, int]]
AGGREGATE_KINDS: Final[dict[str, int]]
CELL_KINDS: Final[dict[str, int]]

@final
class PointBlock:
    """Time-points that wait to be read."""

    def __init__(self, widths: _Array) -> None: ...
    def __len__(self) -> int: ...
    def add(self, time_stamp: int, rows: Iterable[tuple[int, Sequence[int]]]) -> None: ...
    def take(self) -> list[tuple[int, list[tuple[int, tuple[int, ...]]]]]: ...

@final
class AnswerBlock:
    """Answers that wait to be written."""

    def __init__(self, widths: _Array) -> None: ...
    def __len__(self) -> int: ...
    def add(
        self,
        policy: int,
        kind: int,
        time_stamp: int,
        offset: int,
        point: int,
        cells: Sequence[int] = (),
    ) -> None: ...
    def take(self) -> list[tuple[int, int, int, int, int, tuple[int, ...]]]: ...

@final
class RelationalEngine:
    """Evaluates the policies of a plan."""

    wants_holding: bool
    skips_overflows: bool
    most_rows: int
    limit_name: str
    pauses_at_found: bool
    pauses: bool
    keeps_texts: bool
    spare_texts: int
    def __init__(self, plan: Plan, texts: KeyTable) -> None: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def texts(self) -> KeyTable: ...
    @property
    def points(self) -> PointBlock: ...
    @property
    def answers(self) -> AnswerBlock: ...
    @property
    def overflows(self) -> int: ...
    @property
    def failure(self) -> BaseException | None: ...
    @property
    def point_count(self) -> int: ...
    @property
    def clock(self) -> int: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def found_points(self) -> list[int]: ...
    @property
    def answered_points(self) -> list[int]: ...
    def advance(self) -> None: ...
    def end(self, clock: int, is_closed: bool) -> None: ...
    def snapshot(self) -> bytes: ...
    def restore(self, snapshot: bytes) -> None: ...

@final
class Allocations: ...
