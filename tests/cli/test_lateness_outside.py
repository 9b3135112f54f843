"""The command on late rows, judged by the references alone: no run of mtlmon says what is right.

Lines, the first violation, the counts and the violations of a report, for more users than the other
random logs have, while most traces share their chunks with others.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from hypothesis import settings

from mtlmon.policy import PolicyFile
from tests.checking import late_streams, test_late_next, test_late_row_changes, test_late_ticks
from tests.checking.late_streams import resolved, table
from tests.checking.test_history_check import Row, admitted
from tests.cli.test_lateness import Command
from tests.doors import checking_late_partitions as late_partitions
from tests.doors import streams_late_computing as late_computing
from tests.reference import policies as reference
from tests.traces import EndTime

PROGRAMS = {
    "streams": late_streams.program,
    "ticks": test_late_ticks.program,
    "later values": test_late_next.program,
    "changes": test_late_row_changes.program,
}
Found = tuple[list[int], list[tuple[str, ...]]]
USERS = "abcdefghijkl"


class Run(NamedTuple):
    """A log and policies as files, and what the references say of them."""

    file: PolicyFile
    rows: list[Row]
    options: list[object]
    said: reference.Said


def late_rows(source: random.Random, users: str) -> list[Row]:
    """Rows of many users, of which some are late; some users have one row only."""
    now = 100
    rows = []
    for _ in range(source.choice([12, 30, 45])):
        now += source.choice([0, 0, 0, 1, 1, 2])
        stamp = now - (source.randrange(20) if source.random() < 0.6 else 0)
        held = source.random() < 0.4, source.random() < 0.3
        user = source.choice(users)
        rows.append(Row(stamp, user, source.choice("xy"), *held, source.randrange(9)))
    return rows


def runs(kind: str, folder: Path, seeds: range) -> Iterator[Run]:
    for seed in seeds:
        source = random.Random(f"{kind} {seed}")
        rows = late_rows(source, USERS[: source.choice([1, 5, 12])])
        file = PROGRAMS[kind](source)
        end: EndTime = source.choice([None, "last", "inf", 260])
        lateness = source.choice([9, 20, 30])
        taken = sorted(admitted(rows, lateness, ()), key=lambda row: row.ts)
        schemas = {"rows": table([]).schema}
        log = reference.Log([row._asdict() for row in taken], end, {}, schemas)
        policies, arrows = folder / "p.mtl", folder / "log.arrows"
        policies.write_text(file.text)
        with pa.ipc.new_stream(arrows, schemas["rows"]) as writer:
            rest = rows
            while rest:
                size = source.choice([1, 2, 5, 9])
                writer.write_table(table(rest[:size]))
                rest = rest[size:]
        options: list[object] = ["--lateness", lateness, "--mode", source.choice(MODES)]
        options += ["--wait", source.choice([0, 0, 0, 2])]
        options += [] if end is None else ["--end-time", end]
        yield Run(file, rows, [*options, policies, arrows], reference.said_of(file, log))


MODES = ("local", "global", "naive")


def found_in(page: Path, file: PolicyFile) -> list[Found]:
    """For each policy of a report, its counts, and the time-points listed as violations."""
    text = page.read_text()
    found = []
    for number in range(1, len(file.policies) + 1):
        part = text.partition(f'<section id="policy-{number}"')[2].partition("</section>")[0]
        counts = re.findall(r'<div class="(?:false|true|open)"><dt>.*?<dd>([\d,]+)', part)
        listed = re.findall(r'<li id="policy-\d+-violation-\d+"><code>([\d:]+)</code>(.*)\n', part)
        keys = [(point, *re.findall(r'<bdi class="key">(.*?)</bdi>', of)) for point, of in listed]
        found.append(([int(one.replace(",", "")) for one in counts], sorted(keys)))
    return found


def require_report(run: Run, page: Path) -> None:
    """The counts of a report, and the violations that it lists: the earliest ones, at most 100."""
    for number, (counts, listed) in enumerate(found_in(page, run.file)):
        wanted = reference.counts_of(run.said.values, number)
        assert counts == [wanted[False], wanted[True], wanted[None]]
        false = {
            (f"{time}:{offset}", *([", ".join(key)] if key else [])): time
            for (of, key, (time, offset)), value in run.said.values.items()
            if of == number and value is False
        }
        assert len(set(listed)) == len(listed) == min(100, len(false))
        times = sorted(false.values())[: len(listed)]
        assert sorted(false[one] for one in listed) == times


@pytest.mark.parametrize("kind", list(PROGRAMS))
def test_lines_the_first_violation_and_a_report(
    kind: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    # traces share their chunks, and ticks are computed few at once
    monkeypatch.setattr(late_partitions, "_GROUPS", 2)
    monkeypatch.setattr(late_computing, "_MOST_TICKS", 5)
    revised = 0
    for run in runs(kind, tmp_path, range(4)):
        page, out = tmp_path / "page.html", tmp_path / "lines"
        done = command("-o", out, "--report", page, *run.options)
        lines = out.read_text().splitlines()
        values = run.said.values
        assert resolved(lines) == reference.lines_of(run.file, values)
        assert done.status == (False in values.values()), done.errors
        require_report(run, page)
        revised += sum("!" in line and "!@" not in line for line in lines)

        told = command("--verdicts", "first", *run.options).output.splitlines()
        first = reference.first_of(run.said)
        names = [f"{reference.shown(run.file, name)} false" for name in first.violations]
        if first.is_open or not names:
            assert told == []
        else:
            assert len(told) == 1
            assert told[0] in names
    assert revised > 0


LONG = """\
key user
policy calm: count[0,40](ask) < 4
policy answered: ask IMPLIES EVENTUALLY[3,30] reply
policy equal: count[7,7](reply) < 1
"""
# far more where somebody hunts
ROWS_OF_LONG = 10_000 if settings().max_examples <= 200 else 100_000


def said_of_long(rows: list[Row]) -> list[str]:
    """The verdicts of `LONG` on rows in the order of time that no others follow, by counting."""
    found = []
    for user in sorted({row.user for row in rows}):
        own = [row for row in rows if row.user == user]
        times = [row.ts for row in own]
        asks = [0, *accumulate(row.ask for row in own)]
        replies = [0, *accumulate(row.reply for row in own)]
        for place, row in enumerate(own):
            offset = place - bisect_left(times, row.ts)
            # the rows up to this one whose times are in a window
            asked = asks[place + 1] - asks[bisect_left(times, row.ts - 40)]
            equal = [bisect(times, row.ts - 7) for bisect in (bisect_left, bisect_right)]
            later = [bisect_left(times, row.ts + 3), bisect_right(times, row.ts + 30)]
            said = {
                "calm": asked < 4,
                "answered": not row.ask or replies[later[1]] > replies[later[0]],
                "equal": replies[equal[1]] == replies[equal[0]],
            }
            found += [
                f"{name}\t{user}\t{row.ts}:{offset} {str(value).lower()}"
                for name, value in said.items()
            ]
    return sorted(found)


def test_a_long_log(tmp_path: Path, command: Command) -> None:
    source = random.Random(ROWS_OF_LONG)
    rows, now = [], 1000
    for number in range(ROWS_OF_LONG):
        now += source.choice([0, 1, 1, 2])
        late = source.randrange(300) if source.random() < 0.02 else 0
        held = source.random() < 0.4, source.random() < 0.3
        # some users come once in a while only
        user = source.choice(USERS if number % 7 else USERS[:2])
        rows.append(Row(now - late, user, "x", *held, 0))
    policies, arrows, out = (tmp_path / name for name in ("p.mtl", "log.arrows", "lines"))
    policies.write_text(LONG)
    with pa.ipc.new_stream(arrows, table([]).schema) as writer:
        for first in range(0, len(rows), 50):
            writer.write_table(table(rows[first : first + 50]))
    asked = ["--lateness", 250, "--end-time", "inf", "-o", out, policies, arrows]
    assert command(*asked).status == 1
    lines = out.read_text().splitlines()
    assert sum("\t!" in line and "!@" not in line for line in lines) > 20
    taken = admitted(rows, 250, ())
    assert len(taken) < len(rows)
    assert resolved(lines) == said_of_long(sorted(taken, key=lambda row: row.ts))
