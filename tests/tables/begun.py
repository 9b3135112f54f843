"""What runs of `mtlmon.check` that have begun know of their log."""

from __future__ import annotations

from typing import Any

import mtlmon


def judging_of(run: mtlmon.Run) -> Any:
    """The work of a run, with its policies."""
    judging = run._host.judging
    assert judging is not None, "nothing has been read"
    return judging


def check_of(run: mtlmon.Run) -> Any:
    """What checks the policies without variables of a run."""
    return judging_of(run).pace.check


def events_of(run: mtlmon.Run) -> Any:
    """The events that the rows of a run are read as."""
    return judging_of(run).source
