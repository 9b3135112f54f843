"""What holds a buffer lets go of it in the right order, also when garbage is collected.

The collector cleared the reference to a block's owner before the buffer was released: the owner
went while its memory was in use, which ended a live command that met a bad line with a signal.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mtlmon import Monitor
from tests.doors import EventColumns, TextEvents, TextMonitor, TextResolver


def loaded(loop: Any) -> Any:
    loop.load(memoryview(bytearray(b"@1 p\n" * 100)))
    return loop


@pytest.mark.parametrize(
    "make",
    [
        lambda: loaded(TextEvents(("p",))),
        lambda: loaded(TextMonitor(Monitor("p"))),
        lambda: loaded(TextResolver()),
        lambda: EventColumns(memoryview(np.arange(5).data), 5),
    ],
    ids=["TextEvents", "TextMonitor", "TextResolver", "EventColumns"],
)
def test_buffers_in_a_cycle_of_garbage(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    for _ in range(3):
        cycle: list[Any] = [make()]
        cycle.append(cycle)
        del cycle
        gc.collect()
    assert ignored == []
