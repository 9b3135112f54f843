"""Random logs whose rows come late, are taken back, let time pass or are counted: their meaning."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

HEADER = "ts,k,p,q,v,op,id,since,n\n"
PLAIN_HEADER = "ts,k,p,q,v\n"


class Row(NamedTuple):
    """One row of a log.

    `id` is the number of the row that it takes back or replaces. A row that counts others says that
    there are `v` of them from `id` on that are below `ts`.
    """

    ts: int
    key: str
    p: bool
    q: bool
    v: int
    op: str
    id: int

    @property
    def cells(self) -> str:
        """The row of a table with operations."""
        if self.op == "complete":
            return f"{self.ts},,,,,complete,,{self.id},{self.v}\n"
        if self.op != "+":
            name = f"i{self.id}" if self.op == "-" else ""
            return f"{self.ts},,,,,{self.op},{name},,\n"
        return f"{self.plain.rstrip()},+,i{self.id},,\n"

    @property
    def plain(self) -> str:
        """The row of a table in the order of time."""
        return f"{self.ts},{self.key},{self.p},{self.q},{self.v}\n".lower()

    def line(self, *, has_values: bool) -> str:
        """The line of a text log, with or without atoms that have arguments."""
        if self.op == "complete":
            interval = f"[{self.id},{self.ts})" if self.id else str(self.ts)
            return f"!@{interval} {self.v}\n"
        atoms = [*(["p"] if self.p else []), *(["q"] if self.q else [])]
        if has_values:
            atoms = [*([f"pa({self.key})"] if self.p else [])]
            atoms += [f"qa({self.key},{self.v})"] if self.q else []
        return f"@{self.ts} {' '.join(atoms)}\n"


class History(NamedTuple):
    """What rows come to.

    Attributes:
        rows: those that happened, by their numbers in the order of time.
        names: the offsets of all rows that came in time, in the traces with and without keys.
        refused: the numbers of the rows that came too late.
        now: the largest time so far, also of rows that were taken back.
        passed: the largest time to which rows have let time pass, or counts that are reached; -1
            if there is none.
        rejected: the numbers of the rows that contradict counts.
        incomplete: how many counts are not reached.
    """

    rows: dict[int, Row]
    names: dict[tuple[str | None, int], int]
    refused: list[int]
    now: int
    passed: int
    rejected: list[int]
    incomplete: int


def rows_of(source: random.Random, lateness: int, *, corrects: bool) -> list[Row]:
    """Rows as they come; if some are taken back, time may pass at the end until all is decided."""
    now, rows = source.choice([0, 3, 50]), list[Row]()
    keys, share = source.choice(["a", "ab", "abc"]), source.choice([0.0, 0.3, 0.6, 0.9])
    alive: dict[int, Row] = {}
    for number in range(source.randrange(3, 30)):
        now += source.choice([0, 0, 1, 1, 2, 3, source.randrange(12)])
        late = source.randrange(lateness + 3) if source.random() < share else 0
        held = source.random() < 0.45, source.random() < 0.3, source.randrange(10)
        row = Row(max(0, now - late), source.choice(keys), *held, "+", number)
        known = max((one.ts for one in rows if one.op != "-"), default=0)
        recent = [one for one in alive.values() if max(known, row.ts) - one.ts <= lateness]
        kind = source.random() if corrects else 1.0
        if kind < 0.15 and recent:
            row = Row(0, "", False, False, 0, "-", source.choice(recent).id)
            del alive[row.id]
        elif kind < 0.25 and recent:
            before = source.choice(recent)
            # either a duplicate, or the same row at another time
            is_equal = source.random() < 0.3 or not lateness
            row = before if is_equal else row._replace(ts=before.ts + 1, id=before.id)
            alive[row.id] = row
        elif kind < 0.35:
            # it may say less than rows have that are taken back later
            row = Row(row.ts, "", False, False, 0, "advance", number)
        elif max(known, row.ts) - row.ts <= lateness:
            alive[number] = row
        rows.append(row)
    if corrects:
        rows += _ending(source, rows, alive, lateness)
    return rows


def with_counts(source: random.Random, rows: Sequence[Row], lateness: int) -> list[Row]:
    """Add rows that count others, most often right; none contradicts others, nor the other way."""
    found, start = [*rows], source.choice([0, 0, source.randrange(60)])
    for _ in range(source.randrange(1, 6)):
        end = start + source.choice([1, 2, 3, 5, 8, 20])
        kept = history_of(found, lateness).rows.values()
        number = sum(start <= row.ts < end for row in kept) + source.choice([0, 0, 0, 0, 1])
        more = [*found]
        row = Row(end, "", False, False, number, "complete", start)
        more.insert(source.randrange(len(more) + 1), row)
        if not history_of(more, lateness).rejected:
            found, start = more, end
    return found


def _ending(
    source: random.Random, rows: Sequence[Row], alive: dict[int, Row], lateness: int
) -> list[Row]:
    """Rows that take the last ones back, and let time pass: less far than these, or further."""
    now = max(one.ts for one in rows)
    ending = []
    for row in sorted(alive.values(), key=lambda one: -one.ts)[: source.randrange(4)]:
        if now - row.ts <= lateness:
            ending.append(Row(0, "", False, False, 0, "-", row.id))
    for _ in range(source.randrange(3)):
        passed = max(0, now + source.choice([-20, -6, -3, -1, 0, 2, 6, 60]))
        ending.append(Row(passed, "", False, False, 0, "advance", -1))
    kept = [one for one in ending if one.op == "advance"]
    # a row can be taken back after time has passed, but not by more than the lateness
    largest = max([now, *(one.ts for one in kept)])
    if all(largest - alive[one.id].ts <= lateness for one in ending if one.op == "-"):
        source.shuffle(ending)
    return ending


def history_of(rows: Sequence[Row], lateness: int, *, by_key: bool = False) -> History:
    """What rows come to, by definition; each key may have a time of its own."""
    latest: Counter[str] = Counter()
    alive: dict[int, int] = {}
    names: dict[tuple[str | None, int], int] = {}
    counts: Counter[tuple[str | None, int]] = Counter()
    refused: list[int] = []
    rejected: list[int] = []
    intervals: list[Row] = []
    now = passed = -1
    closed = incomplete = 0

    def count_of(interval: Row, but: int | None = None) -> int:
        others = (rows[number] for name, number in alive.items() if name != but)
        return sum(interval.id <= one.ts < interval.ts for one in others)

    for number, row in enumerate(rows):
        # what has come before this row may be all that was counted
        bound = max(closed, now - lateness)
        while reached := [c for c in intervals if c.id <= bound < c.ts and count_of(c) == c.v]:
            bound = closed = max(c.ts for c in reached)
            now, passed = max(now, closed), max(passed, closed)
        over = [c for c in intervals if c.ts <= bound]
        incomplete += sum(count_of(c) < c.v for c in over)
        intervals = [one for one in intervals if one not in over]
        if row.op == "complete":
            first = min((rows[one].ts for _, one in names), default=row.id)
            if row.ts > bound > row.id > first:
                refused.append(number)
            elif row.ts > bound and count_of(row) > row.v:
                rejected.append(number)
            elif row.ts > bound:
                intervals.append(row)
            continue
        if row.op == "-":
            if row.id not in alive or now - rows[alive[row.id]].ts > 2 * lateness:
                # its row came too late, or its id is known no longer
                rejected.append(number)
                continue
            if rows[alive[row.id]].ts < closed:
                refused.append(number)
                continue
            del alive[row.id]
            continue
        now = max(now, row.ts)
        if row.op == "advance":
            passed = max(passed, row.ts)
            continue
        latest[row.key] = max(latest[row.key], row.ts)
        if (latest[row.key] if by_key else now) - row.ts > lateness:
            refused.append(number)
            continue
        if row.id in alive and rows[alive[row.id]].ts < closed:
            refused.append(number)
            continue
        if row.id in alive and rows[alive[row.id]] == row:
            continue
        full = [c for c in intervals if c.id <= row.ts < c.ts and count_of(c, row.id) >= c.v]
        if row.ts < closed or full:
            rejected.append(number)
            continue
        alive[row.id] = number
        for key in (row.key, None):
            # the next free offset of its time-stamp, whatever was taken back
            names[key, number] = counts[key, row.ts]
            counts[key, row.ts] += 1
    for interval in intervals:
        # nothing comes any more
        if count_of(interval) == interval.v:
            now, passed = max(now, interval.ts), max(passed, interval.ts)
        else:
            incomplete += 1
    order = sorted(alive.values(), key=lambda number: (rows[number].ts, number))
    kept = {number: rows[number] for number in order}
    return History(kept, names, refused, now, passed, rejected, incomplete)


def unnumbered(lines: Sequence[str]) -> list[str]:
    """Verdicts without the offsets of their time-points."""
    return sorted(re.sub(r"(\d+):\d+( (?:true|false))", r"\1\2", line) for line in lines)


def numbers_in_order(history: History) -> dict[tuple[str | None, int, int], int]:
    """Return the numbers of rows by key, or None for all, time, and offset in the order of time."""
    numbers: dict[tuple[str | None, int, int], int] = {}
    counts: Counter[tuple[str | None, int]] = Counter()
    for number, row in history.rows.items():
        for key in (row.key, None):
            numbers[key, row.ts, counts[key, row.ts]] = number
            counts[key, row.ts] += 1
    return numbers


def renamed(lines: Sequence[str], history: History, whole: Sequence[str]) -> list[str]:
    """Verdicts of the rows in the order of time, with the names that these have where they came.

    Args:
        lines: the verdicts.
        history: the rows.
        whole: the names of the policies that are over the log as a whole.
    """
    numbers = numbers_in_order(history)
    found = []
    for line in lines:
        *fields, last = line.split("\t")
        key = None if fields[0] in whole or len(fields) == 1 else fields[1]

        def name(match: re.Match[str], key: str | None = key) -> str:
            time_stamp, offset = int(match[1]), int(match[2])
            return f"{time_stamp}:{history.names[key, numbers[key, time_stamp, offset]]}"

        # values come behind the verdict
        verdict, bracket, values = last.partition(" (")
        found.append("\t".join([*fields, re.sub(r"(\d+):(\d+)", name, verdict)]) + bracket + values)
    return sorted(found)
