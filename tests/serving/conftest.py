"""What the tests of the playground share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.doors import STANDARD_INPUT, input_name, name_input

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def standard_input() -> Iterator[None]:
    """Let a test put a log in the place of standard input."""
    before, name = os.dup(STANDARD_INPUT), input_name()
    yield
    os.dup2(before, STANDARD_INPUT)
    os.close(before)
    name_input(name)
