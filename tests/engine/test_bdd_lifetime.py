"""BDDs die before their manager, whoever keeps the monitor and whatever takes it apart.

Both back ends of `dd` complain on stderr when a manager goes while functions refer to its nodes,
and cudd's manager is then never freed. Each run is a child process with an empty stderr.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.doors import expressions_bdd as bdd

_PRELUDE = """
import gc
import sys

from mtlmon import Monitor, atom, eventually, next_

def deep():
    formula = atom("p")
    for bound in range(1, 5):
        formula = next_(formula).iff(eventually(formula, 0, bound))
    return formula

def run(monitor, steps):
    for time_stamp in range(steps):
        monitor.step(time_stamp, ["p"])
    assert monitor.counters["bdd_operations"]
    return monitor

class Box:
    pass

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

BACK_END = sys.argv[1]
gc.disable()
"""

_CYCLES = """
sizes = []
for i in range(30):
    box = Box()
    box.self = box
    box.monitor = run(Monitor(deep(), "global", bdd=BACK_END), 4)
    del box
    gc.collect()
    sizes.append(resident())
assert sizes[-1] - sizes[9] < 10 * 2**20, sizes
"""

_INTERRUPTS = """
def interrupt_at(number):
    "KeyboardInterrupt at a call of a Python function of the BDDs, as a signal would be noticed."
    left = number
    def profile(frame, event, argument):
        nonlocal left
        # autoref itself, in Python as it is, does not survive an interrupt anywhere.
        if event == "call" and frame.f_code.co_filename.endswith("expressions/bdd.py"):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
    sys.setprofile(profile)

sizes = []
for i in range(60):
    box = Box()
    box.self = box
    box.monitor = run(Monitor(deep(), "global", bdd=BACK_END), 3)
    interrupt_at(1 + 5 * i)
    try:
        for time_stamp in range(10, 100):
            box.monitor.step(time_stamp, ["p"])
        raise AssertionError("not interrupted")
    except KeyboardInterrupt as error:
        sys.setprofile(None)
        box.error = error
    if i % 2:
        box.monitor.reset()
        run(box.monitor, 3)
    del box
    if i % 5 == 4:
        gc.collect()
        sizes.append(resident())
assert sizes[-1] - sizes[2] < 10 * 2**20, sizes
"""

_EXITS = """
import threading

kept = run(Monitor(deep(), "global", bdd=BACK_END), 5)
box = Box()
box.self = box
box.monitor = run(Monitor(deep(), "global", bdd=BACK_END), 5)
ready = threading.Event()

def work():
    monitor = run(Monitor(deep(), "global", bdd=BACK_END), 5)
    ready.set()
    threading.Event().wait()

def leave():
    monitor = run(Monitor(deep(), "global", bdd=BACK_END), 5)
    raise SystemExit(0)

threading.Thread(target=work, daemon=True).start()
ready.wait()
leave()
"""


@pytest.mark.parametrize("back_end", ["cudd", "autoref"])
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(_CYCLES, id="garbage cycles"),
        pytest.param(_INTERRUPTS, id="interrupts"),
        pytest.param(_EXITS, id="exits"),
    ],
)
def test_nothing_is_left_and_nothing_said(program: str, back_end: str) -> None:
    try:
        bdd.load_back_end(back_end)
    except bdd.BackEndError as error:
        pytest.skip(f"dd brings no {back_end} here: {error}")
    done = subprocess.run(
        [sys.executable, "-c", _PRELUDE + program, back_end],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
