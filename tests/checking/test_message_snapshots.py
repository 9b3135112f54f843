"""Messages of triggers that are written after a snapshot although their rows stand before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from mtlmon.checking import LogCheck, TraceKeys
from mtlmon.errors import SnapshotError
from mtlmon.policy import parse_policies
from mtlmon.tables import check_tables, open_tables
from mtlmon.tables.checking import shown_messages
from mtlmon.tables.verdicts import VerdictTable

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


def relayed(paths: list[str], text: str, verdicts: Any) -> list[dict[str, Any]]:
    """The verdicts of checks of which each goes on from the snapshot of the one before."""
    file = parse_policies(text)
    shown: Any = None

    def make() -> LogCheck:
        nonlocal shown
        check = LogCheck(file.policies, key=file.key or (), verdicts=verdicts)
        shown = shown_messages(check, file, verdicts)
        return check

    check = make()
    source = open_tables(
        paths,
        check.atoms,
        policies=file,
        partitions=check.partitions.columns,
        atoms_of_partitions=check.atoms_of_partitions,
        shown=shown,
    )
    source.only_due_ticks(check.repeats_ticks)
    found: list[dict[str, Any]] = []
    with source:
        for batch in source:
            for _ in check.feed(batch, source):
                names = [policy.name for policy in check.policies]
                keys = TraceKeys(check.partitions, source.key_tables)
                table = VerdictTable(names, keys, messages=check.messages)
                for part in table.batches(check.verdicts):
                    found.extend(part.to_pylist())
            if check.is_stopped:
                break
            if not check.is_within_row:
                snapshot = check.snapshot()
                check.close()
                check = make()
                check.restore(snapshot)
                assert check.snapshot() == snapshot
    return found


@pytest.mark.parametrize(("text", "verdicts", "count"), [(FIRST, "first", 1), (TICKS, "false", 35)])
def test_messages_go_on(
    tmp_path: Path, text: str, verdicts: Literal["first", "false"], count: int
) -> None:
    paths = write(tmp_path)
    expected = check_tables(paths, text, verdicts=verdicts).to_arrow().to_pylist()
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
