"""Check policies with variables so that checkpoints can be written and a later run can continue.

Nothing has to be settled: the engine has read all time-points that a source has made. The place is
a number of bytes or rows; rows of a time-stamp that are held back (`--time-points stamp`) are read
again. For tables, the plan depends on the types of columns, so the state is restored once the rows
before the place have been read, and the values of arguments are part of the log's digest. With
`--verdicts first`, the engine pauses where something is found, so that counts do not depend on
blocks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mtlmon.errors import SnapshotError
from mtlmon.run.policies import asks_for_triggered
from mtlmon.run.snapshot_parts import RELATIONS, damaged, joined_parts, require_same, split_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.run.relations import Check
    from mtlmon.run.spec import RunSpec

__all__ = [
    "restore_check",
    "restored_source",
    "snapshot_of",
]

_RUN_PARTS = 3
_PARTS = _RUN_PARTS + 2
"""How many parts of a snapshot describe a check: its run, what it has found and its rows."""


def snapshot_of(check: Check | None, source: bytes, options: RunSpec) -> bytes:
    """Return the state of a check as bytes.

    Args:
        check: the check, all of whose time-points have been taken in; None before the first.
        source: what is known of the log, as bytes.
        options: the options of the run.
    """
    kept = [value for _, value in _settings(options)]
    settings = json.dumps([*kept, options.judging.slices]).encode()
    found = None if check is None or check.found is None else check.found.snapshot()
    run = [b""] * _RUN_PARTS if check is None else check.run.snapshot()
    rows = b""
    if check is not None and check.point_rows is not None:
        rows = check.point_rows.snapshot()
    return joined_parts(RELATIONS, [settings, source, *run, json.dumps(found).encode(), rows])


def restored_source(snapshot: bytes, options: RunSpec) -> tuple[bytes, list[bytes]]:
    """Return what a snapshot knows of the log, and the state of the check for its run.

    Raises:
        SnapshotError: the snapshot is damaged, or was made with other options.
    """
    settings, source, *run = split_parts(snapshot, RELATIONS, 2 + _PARTS)
    if len(run) != _PARTS:
        raise damaged()
    *kept, slices = json.loads(settings)
    require_same(_settings(options), kept)
    if slices is not None and options.judging.slices is None:
        raise SnapshotError(
            f"it was made with --slices {slices}, so add --slices N; any number will do"
        )
    return source, run


def restore_check(check: Check, state: Sequence[bytes]) -> None:
    """Let a check go on from what `restored_source` has returned.

    Raises:
        SnapshotError: the snapshot is of other policies.
    """
    *run, found, rows = state
    check.run.restore(run)
    if check.point_rows is not None:
        check.point_rows.restore(rows)
    if check.found is not None:
        check.found.restore(json.loads(found))


def _settings(options: RunSpec) -> list[tuple[str, object]]:
    """Return the settings that must not change, each with the words for an error message."""
    # a policy `at most 1%` lets them be counted as well, but then its plan is another one
    counts = (
        options.log.signature is None
        and options.judging.verdicts != "first"
        and asks_for_triggered(options)
    )
    return [
        options.log.setting,
        (
            "from another kind of log" if options.log.signature else "from a log of MonPoly",
            options.log.signature is not None,
        ),
        *options.output.settings,
        *options.reporting.settings,
        ("with another --verdicts", options.judging.verdicts),
        ("with other --time-points", options.log.time_points),
        (f"with{'out' if options.output.rows else ''} --rows", options.output.rows),
        (
            f"{'without' if counts else 'with'} counting how often left sides are matched "
            "(--fail-on-vacuous, --report)",
            counts,
        ),
    ]
