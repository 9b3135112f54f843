"""The first violation of rows that come late, compared with the one of the rows in order."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from mtlmon.errors import SnapshotError
from mtlmon.policy import PolicyFile, parse_policies
from mtlmon.tables import open_tables
from tests.checking.test_history_check import (
    POLICIES,
    Row,
    admitted,
    batches_of,
    late_rows,
    table,
)
from tests.doors import (
    Bounds,
    FirstChanges,
    FirstViolation,
    HistoryCheck,
    LateChecks,
    LiveViolations,
    LogCheck,
    MemoryLimit,
)
from tests.sampling import has_all_cases, thinned
from tests.traces import EndTime

Found = tuple[int, int, int]
"""The time-stamp, the number of the policy, and the offset of a violation."""

ONE = (
    "policy one: ask IMPLIES EVENTUALLY[0,5] (reply OR NOT PREVIOUS reply)\n"
    "policy two: reply IMPLIES ONCE[0,9] ask\n"
)
ENDS: tuple[EndTime, ...] = (None, "last", "inf", 400)


def found_of(
    file: PolicyFile,
    rows: list[Row],
    source: random.Random,
    bounds: Bounds,
    end: EndTime,
    *,
    restores: bool,
) -> tuple[list[Found], int, tuple[tuple[int, int], int] | None]:
    """What is told, after how many rows, and what is told of the end."""

    def new() -> LateChecks:
        plain = HistoryCheck(
            file.policies, "local", lambda: bounds, memory=MemoryLimit(), key=file.key or ()
        )
        return LateChecks(plain, None)

    check = new()
    plain = check.plain
    assert plain is not None
    log = open_tables(
        [table(batch) for batch in batches_of(rows, source)],
        plain.atoms,
        policies=file,
        partitions=plain.partitions.columns,
        in_any_order=True,
    )
    has_keys = any(keys is not None for keys in log.key_tables)

    def first_of(check: LateChecks) -> FirstViolation:
        assert check.plain is not None
        return FirstViolation(
            [FirstChanges(check.plain, has_keys=has_keys)], has_common_points=not has_keys
        )

    first = first_of(check)
    emitted: list[Found] = []

    def take(rows: object) -> None:
        for row in rows:  # type: ignore[attr-defined]
            if hasattr(row, "records"):
                for record in row.records.tolist():
                    emitted.append((record[0], row.policy, record[1]))

    def steps() -> Iterator[None]:
        nonlocal check, first
        for batch in log:
            yield from check.feed(batch, log)
            if restores:
                snapshots = check.snapshot(), first.snapshot()
                check = new()
                first = first_of(check)
                check.restore(snapshots[0])
                first.restore(snapshots[1])
        yield from check.end(log, end)

    with log:
        for _ in steps():
            take(first.take(check.taken()))
            if first.is_known:
                return emitted, check.position, None
        take(first.end())
    return emitted, check.position, first.open_before


def first_in_order(file: PolicyFile, rows: list[Row], end: EndTime) -> LogCheck:
    check = LogCheck(file.policies, verdicts="first", key=file.key or (), threads=1)
    log = open_tables(
        table(rows),
        check.atoms,
        policies=file,
        partitions=check.partitions.columns,
        sort=True,
    )
    for _ in check.run(log, end):
        pass
    return check


@pytest.mark.parametrize("text", [ONE, POLICIES])
def test_the_first_violation_is_that_of_the_rows_in_order(text: str) -> None:
    file = parse_policies(text)
    early = 0
    for seed in thinned(range(32)):
        source = random.Random(seed)
        rows = late_rows(seed, source.choice([4, 12, 60]))
        end = ENDS[seed % len(ENDS)]
        lateness = source.choice([3, 9])
        bounds = Bounds(lateness, source.choice([0, 0, 2]))
        emitted, count, open_before = found_of(
            file, rows, source, bounds, end, restores=seed % 3 == 0
        )
        check = first_in_order(file, admitted(rows, lateness, ()), end)
        wanted = check.first
        if check.open_first is not None:
            assert wanted is not None
            assert emitted == []
            name = wanted.time_stamp, wanted.offset
            assert open_before == (name, check.open_first[1])
            continue
        assert open_before is None
        assert emitted == (
            [] if wanted is None else [(wanted.time_stamp, wanted.policy, wanted.offset)]
        )
        early += count < len(rows)
    # many are known before the end
    assert early > 4 or not has_all_cases()


def test_violations_that_come_and_go() -> None:
    """The earliest one is right however many have come and gone."""
    source = random.Random(1)
    live = LiveViolations()
    there: set[tuple[int, ...]] = set()
    for _ in range(30_000):
        name = source.randrange(90), source.randrange(90)
        live.add(name, -1 if name in there else 1)
        there ^= {name}
        if source.random() < 0.01:
            assert live.earliest == min(there, default=None)
    other = LiveViolations()
    other.restore(live.parts())
    assert other.earliest == min(there, default=None)


def test_a_snapshot_that_is_none() -> None:
    check = HistoryCheck(
        parse_policies(ONE).policies, "local", lambda: Bounds(1, 0), memory=MemoryLimit()
    )
    for text in (b"", b"[1]", b"[true, [1, [[null]]]]", b"[false, [0, 3]]", b"[false]"):
        with pytest.raises(SnapshotError):
            FirstViolation([FirstChanges(check, has_keys=False)]).restore(text)
