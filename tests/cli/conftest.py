"""What the tests of the command's process have in common."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from tests.cli.process import Ended
from tests.doors import main


@pytest.fixture(autouse=True)
def _sigint_as_from_a_terminal() -> Iterator[None]:
    """A test run started in the background ignores SIGINT, and its children would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def command(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    """The command in this process, for tests to which a process of its own adds nothing."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: object) -> Ended:
        capfd.readouterr()
        status = main([str(argument) for argument in arguments])
        return Ended(status, *capfd.readouterr())

    return run
