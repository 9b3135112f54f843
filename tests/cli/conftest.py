"""What the tests of the command's process have in common."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _sigint_as_from_a_terminal() -> Iterator[None]:
    """A test run started in the background ignores SIGINT, and its children would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
