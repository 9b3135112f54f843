"""The bytes that monitors with variables say they hold, against what malloc has given out."""

from __future__ import annotations

import pytest

from mtlmon import RelationalMonitor
from tests.memory.allocated import allocated_bytes

_COUNT = 20_000
DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"
_LONG = f"[0,{10 * _COUNT}]"


FORMULAS = [
    "p(x) AND ONCE q(x, y)",
    f"p(x) AND ONCE{_LONG} q(x, y)",
    "p(x) AND (NOT p(x) SINCE q(x, y))",
    f"p(x) AND ((p(x) OR r) SINCE{_LONG} q(x, y))",
    f"p(x) AND HISTORICALLY{_LONG} q(x, x)",
    f"p(x) AND EVENTUALLY{_LONG} q(x, y)",
    f"p(x) AND (p(x) UNTIL{_LONG} q(x, y))",
    f"p(x) AND COUNT(ONCE{_LONG} q(x, y) BY x) > 3",
    "p(x) AND SUM(y OVER ONCE q(x, y) BY x) > 3",
    f"p(x) AND ONCE{_LONG} EXISTS z. (q(z, x) AND (NOT p(z) SINCE q(z, x)))",
    # what waits for what follows
    f"q(x, y) AND EVENTUALLY{_LONG} r",
    f"q(x, y) AND NOT EVENTUALLY{_LONG} p(y)",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_what_is_remembered(formula: str) -> None:
    """All of it is counted, in whatever arrays it is."""
    monitor = RelationalMonitor(f"{DECLARED}find f: {formula}\n")
    log: list[tuple[int, dict[str, list[tuple[int, ...]]]]] = [
        (time, {"p": [(time,)], "q": [(time, -time)]}) for time in range(1, _COUNT)
    ]
    monitor.step(0, {"p": [(0,)], "q": [(0, 0)]})
    held, allocated = monitor.held_bytes, allocated_bytes()
    for time_stamp, database in log:
        monitor.step(time_stamp, database)
    held, allocated = monitor.held_bytes - held, allocated_bytes() - allocated
    assert allocated > 8 * _COUNT
    assert held == pytest.approx(allocated, rel=0.01)
