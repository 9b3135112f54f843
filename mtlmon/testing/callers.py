"""Who calls a monitor: its owner, or the monitored program, which must not see its errors."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import TracebackType

    from mtlmon.testing.live import LiveMonitor

__all__ = ["Caller", "ErrorsForOwner", "caller"]


class Caller(NamedTuple):
    """What calls.

    Attributes:
        thread: the identifier of the thread.
        loop: the event loop of asyncio that runs there, or None.
        task: the task that it runs; None for a callback, or without a loop.
    """

    thread: int
    loop: object = None
    task: object = None


def caller() -> Caller:
    """Return what runs now."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return Caller(get_ident())
    try:
        return Caller(get_ident(), asyncio.get_running_loop(), asyncio.current_task())
    except RuntimeError:
        return Caller(get_ident())


class ErrorsForOwner:
    """A context whose errors reach the owner of a monitor: at once, or at its next call."""

    __slots__ = ("_monitor",)

    def __init__(self, monitor: LiveMonitor) -> None:
        self._monitor = monitor

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        __tracebackhide__ = True
        if not isinstance(error, Exception) or self._monitor.is_owner():
            return False
        self._monitor.fail(error)
        return True
