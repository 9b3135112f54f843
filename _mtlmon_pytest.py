"""The pytest plugin of mtlmon: the fixture `mtl_monitor`.

Wherever mtlmon is installed, pytest imports this module at every start, whether it is used or not.
So it is outside the package and imports nothing from it. This costs no time, and a run that
measures the coverage of mtlmon sees the package imported by the tests, not before. For the same
reason, there are no hooks here.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.testing.plugin import MonitorFactory

__all__ = ["mtl_monitor"]


@pytest.fixture
def mtl_monitor(request: pytest.FixtureRequest) -> Iterator[MonitorFactory]:
    """Make monitors of metric temporal logic: `mtl_monitor("p IMPLIES EVENTUALLY[0,5] q")`.

    The test feeds them with `step(time_stamp, atoms)`, or with `event(*atoms)` if they have a
    clock, and fails at the first violation, or at its end if something is left undecided. See
    `mtlmon.testing.LiveMonitor` for the arguments.
    """
    __tracebackhide__ = True
    from mtlmon.testing.plugin import monitors_of

    yield from monitors_of(request)
