"""The parts of snapshots, each behind its length."""

from __future__ import annotations

import pytest

from mtlmon import SnapshotError
from tests.doors import JUDGES, POLICIES, joined_parts, sized, split_parts, take_sized
from tests.doors import split_kinds as split_kind

PARTS = [b"", b"one", b"\0" * 300]


def test_parts_come_apart_as_they_were_joined() -> None:
    assert split_parts(joined_parts(PARTS)) == PARTS
    assert split_parts(b"") == []
    assert take_sized(joined_parts(PARTS)) == (b"", joined_parts(PARTS[1:]))


def test_bytes_that_end_too_early_are_damaged() -> None:
    whole = joined_parts(PARTS)
    ends = {len(joined_parts(PARTS[:count])) for count in range(len(PARTS) + 1)}
    for end in range(len(whole)):
        if end in ends:
            assert split_parts(whole[:end]) == PARTS[: sorted(ends).index(end)]
            continue
        with pytest.raises(SnapshotError, match="is damaged"):
            split_parts(whole[:end])
    one = sized(b"part")
    for end in range(len(one)):
        with pytest.raises(SnapshotError, match="is damaged"):
            take_sized(one[:end])
    with pytest.raises(SnapshotError, match="is damaged"):
        take_sized(b"\xff" * 8 + b"part")


@pytest.mark.parametrize(
    ("snapshot", "message"),
    [
        (POLICIES, "is damaged"),
        (JUDGES, "made by a run of policies with variables and without"),
        (POLICIES[:-1] + b"\x01", "another version of mtlmon"),
        (b"mtlmon corrected\x01", "another version of mtlmon"),
        (b"x", "over a text log with a single policy"),
    ],
)
def test_snapshots_of_other_runs(snapshot: bytes, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        split_kind(snapshot, POLICIES, 1)
