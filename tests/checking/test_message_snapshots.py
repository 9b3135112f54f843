"""Messages of triggers that are written after a snapshot although their rows stand before it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import mtlmon
from mtlmon.errors import SnapshotError
from mtlmon.policy import parse_policies
from tests.checking.relaying import relayed, shown_messages
from tests.doors import LogCheck

FIRST = """\
key k
trigger jump: x > 3 message "{k} has {x}"
policy later: x >= 0 IMPLIES EVENTUALLY[0,50] x = 100
"""
TICKS = """\
unit s
key k
stream seen = count[0,10s](x > 3) every 1s
trigger busy on every 1s: seen > 0 message "{seen} seen"
"""
FILES = ["1,a,1\n2,a,7\n3,b,5\n", "5,b,1\n", "7,a,9\n9,b,9\n", "9,a,100\n40,a,1\n", "70,a,1\n"]


def write(directory: Path) -> list[str]:
    paths = []
    for number, rows in enumerate(FILES):
        path = directory / f"{number}.csv"
        path.write_text(f"ts,k,x\n{rows}")
        paths.append(str(path))
    return paths


@pytest.mark.parametrize(("text", "verdicts", "count"), [(FIRST, "first", 1), (TICKS, "false", 35)])
def test_messages_go_on(
    tmp_path: Path, text: str, verdicts: Literal["first", "false"], count: int
) -> None:
    paths = write(tmp_path)
    expected = mtlmon.check(text, paths, verdicts=verdicts).to_arrow().to_pylist()
    assert all(one["message"] for one in expected)
    # Keys a and b are busy from 2 and 3 until 19.
    assert len(expected) == count
    assert relayed(paths, text, verdicts) == expected


def test_damaged_messages_are_refused() -> None:
    file = parse_policies(FIRST)
    check = LogCheck(file.policies, verdicts="first")
    shown_messages(check, file, "first")
    assert check.messages is not None
    for damaged in (b"{", b"[]", b"[[],[[1,2]],[],[]]", b'[[["a",1]],[],[],[]]'):
        with pytest.raises(SnapshotError, match="damaged"):
            check.messages.restore(damaged)
