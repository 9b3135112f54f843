"""Many monitors in one process: each takes what it needs, not room for what it might need."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
from mtlmon import Monitor
from mtlmon.engine.compile import compile_formula

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def programs(first):
    text = "p IMPLIES EVENTUALLY[0,{}] (q AND ONCE[0,3] r)"
    return [compile_formula(text.format(first + i)) for i in range(500)]

def watched(program):
    monitor = Monitor(program)
    for time_stamp in range(4):
        monitor.step(time_stamp, [("p", "q", "r")[time_stamp % 3]])
    return monitor

watched(programs(0)[0])
compiled = programs(1000)
before = resident()
monitors = list(map(watched, compiled))
print((resident() - before) // len(monitors))
"""


def test_a_monitor_is_small() -> None:
    """A file of 10,000 policies has 10,000 monitors: memo tables of full size are 1.5 GB then."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, check=True, text=True
    )
    assert int(done.stdout) < 50_000
