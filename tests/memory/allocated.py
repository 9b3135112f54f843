"""How many bytes malloc has given out, as the C library says."""

from __future__ import annotations

import ctypes
import gc

import pytest


class Mallinfo2(ctypes.Structure):
    """What mallinfo2 of glibc (from 2.33 on) returns."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    ]  # fmt: skip


def allocated_bytes() -> int:
    """The bytes in use of malloc's; skips the test where the C library does not tell."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        pytest.skip("the C library has no mallinfo2")
    mallinfo2.restype = Mallinfo2
    gc.collect()
    found = mallinfo2()
    return int(found.uordblks + found.hblkhd)
