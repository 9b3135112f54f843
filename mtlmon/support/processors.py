"""The processors that this process may use."""

from __future__ import annotations

import os

__all__ = ["has_idle_processor", "processor_count"]


def processor_count() -> int:
    """Return the number of processors that this process may use, or 1 if it is not known."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def has_idle_processor() -> bool:
    """Return whether another thread would have a processor of its own at this moment.

    Where the system does not tell how many threads are running, no other ones are assumed.
    """
    running = 1
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            running = int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        pass
    return running < processor_count()
