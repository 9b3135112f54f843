"""One history admits events, and tells what has become of them; others judge them."""

from __future__ import annotations

import numpy as np

from tests.doors import Corrections, LeadingHistory, operation_codes


def told(
    leader: LeadingHistory, rows: list[tuple[str, int, str]]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Take rows: what they do, their time-stamps and ids. Return what is placed, and withdrawn."""
    _, found = leader.admit(
        np.array([row[1] for row in rows], np.int64),
        [""] * len(rows),
        None,
        Corrections(operation_codes([row[0] for row in rows], len(rows)), [row[2] for row in rows]),
    )
    ((placements, passed),) = found
    assert passed is None
    placed, withdrawn = (
        list(zip(one["time_stamp"].tolist(), one["offset"].tolist(), strict=True))
        for one in placements
    )
    return placed, withdrawn


def test_what_becomes_of_events_is_told_once() -> None:
    leader = LeadingHistory(lateness=10)
    assert told(leader, [("+", 1, "a"), ("+", 2, "b"), ("+", 2, "c")]) == (
        [(1, 0), (2, 0), (2, 1)],
        [],
    )
    assert told(leader, [("-", 2, "b")]) == ([], [(2, 0)])
    assert told(leader, [("+", 3, "d"), ("-", 1, "a")]) == ([(3, 0)], [(1, 0)])
    assert told(leader, [("+", 2, "e")]) == ([(2, 2)], [])
    assert told(leader, [("-", 2, "c")]) == ([], [(2, 1)])
