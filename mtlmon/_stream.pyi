from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, SupportsIndex, final

from mtlmon._core import Monitor, Verdict

@final
class VerdictStream(Iterator[Verdict]):
    """An iterator over the verdicts of a stream of events, as early as they are known."""

    def __init__(
        self,
        monitor: Monitor,
        events: Iterable[tuple[SupportsIndex, Iterable[str] | Mapping[str, bool] | SupportsIndex]],
        end_time: SupportsIndex | Literal["last", "inf"] | None = None,
    ) -> None: ...
    @property
    def monitor(self) -> Monitor: ...
    def __iter__(self) -> VerdictStream: ...
    def __next__(self) -> Verdict: ...

def step_of_stream(monitor: Monitor, event: object, index: int) -> list[Verdict]: ...
