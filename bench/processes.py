"""What the processes take that this one has started: Java, and the Python workers of Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICKS = os.sysconf("SC_CLK_TCK")
# The fields of /proc/*/stat behind the name of the command.
_PARENT, _TIMES = 1, slice(11, 15)


def descendants() -> Iterator[Path]:
    """Yield the directories in /proc of this process, and of those that it has started."""
    own = Path("/proc/self").resolve().name
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if _is_descendant(process.name, own):
                yield process
        except OSError:
            # it has ended meanwhile
            continue


def processor_seconds() -> dict[str, float]:
    """Return the processor time so far of Java, and of Python."""
    found = {"java": 0.0, "python": 0.0}
    for process in descendants():
        try:
            command, _, fields = (process / "stat").read_text().rpartition(")")
        except OSError:
            continue
        ticks = sum(map(int, fields.split()[_TIMES]))
        found["java" if command.endswith("(java") else "python"] += ticks / _TICKS
    return found


def _is_descendant(process: str, own: str) -> bool:
    while process not in ("0", own):
        text = Path("/proc", process, "stat").read_text()
        process = text.rpartition(")")[2].split()[_PARENT]
    return process == own
