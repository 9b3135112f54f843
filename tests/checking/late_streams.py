"""Policies with streams on rows that come late, compared with ordered runs and with the references.

The texts have three atoms that depend on other rows, which `program` chooses at random. Most random
runs are runs of the command, and a sample of the others shows what is said after each batch. A
sample of all of them is judged by `tests.reference.policies`, which knows nothing of mtlmon's runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
from pytest import MonkeyPatch

from mtlmon.policy import PolicyFile, parse_policies
from mtlmon.tables import TableEvents
from tests.checking.logs import opened
from tests.checking.test_history_check import (
    NAMES,
    Clock,
    Mode,
    Row,
    admitted,
    batches_of,
    collapsed,
)
from tests.doors import (
    Bounds,
    ChangeLines,
    HistoryCheck,
    LateChecks,
    LogCheck,
    MemoryLimit,
    TextOutput,
    TraceKeys,
    main,
)
from tests.reference import policies as reference
from tests.reference.changelog import Collapsed
from tests.reference.relations import Relation
from tests.traces import EndTime

STREAMS = """\
key user
stream big = amount on amount > 6
stream total = total.last(or: 0) + amount - sum[5,9](amount, or: 0)
stream asked = count[0,4](ask)
stream most = max[0,5](asked)
stream before = big.last(or: 9)
stream of_host = count[0,9](ask) per host as h
stream views = views.last(or: 0) + 1 per amount as k from ask until amount > 7
stream visit = visit.last(or: 0) + 1 per host as h until silence() > 4 or age() >= 9
stream spent = spent.last(or: 0) + amount per host as h until spent > 15
stream of_both = sum[0,8](amount) per host as h, amount % 3 as k
stream of_kind = sum(of_both over of_both by h) + coalesce(of_host[h], 0) per host as h
stream called = called.last(or: 0) + amount
    per host as h on host = h or amount > 6 and ask until age() > 9
stream heard = sum[0,6](called) per host as h on ask until age() > 9
atom plain = amount > 5
"""

CONDITIONS = (
    "count[0,6](amount > 3) >= 3",
    "count[0,7](ask) >= 2",
    "count[0,inf]() > 5",
    "sum[1,5](amount) > 12",
    "avg[0,inf](amount) > 4.2",
    "max[0,4](amount) = 8",
    "median[0,9](amount) > 4",
    "distinct[0,8](host) = 2",
    "amount.last(or: 0) > amount",
    "amount.at(-3, or: 0) > 4",
    "big.hold(or: 0) > 7",
    "amount < big.hold(1, or: 9)",
    "before < amount",
    "total > 20",
    "most > 2",
    "any(of_host > 2 over of_host)",
    "of_host[host] > 1",
    "sum(views over views) > 2",
    "sum(visit over visit) > 3",
    "coalesce(visit[host], 0) > 1",
    "max(spent over spent) > 15",
    "count[3,3](ask) > 0",
    "increase[0,7](amount) > 4",
    "mad[0,9](amount) > 1",
    "changes[0,*)(host) > 3",
    "resets[1,9](amount) = 2",
    # the root of a negative number is NaN, which is no value in windows
    "min[0,6](sqrt(amount - 4.0), or: 0.0) < 1.2",
    "max(sqrt(amount - 4.0), 1.5) >= 1.5",
    "coalesce(views[amount], 0) > 1",
    "sum(of_both over of_both by h = host) > 5",
    "count(of_both > 4 over of_both by k = amount % 3) > 1",
    "coalesce(of_kind[host], 0) > 6",
    "coalesce(rank(of_both over of_both), 9) < 2",
    "sum(called over called) > 14",
    "coalesce(called[host], 0) > 9",
    "max(heard over heard) > 7",
)
FORMULAS = (
    "a IMPLIES EVENTUALLY[0,5] (reply OR plain)",
    "ALWAYS[0,4] (b IMPLIES ONCE[0,6] ask)",
    "(ask SINCE[0,8] c) OR PREVIOUS plain",
    "b IMPLIES EVENTUALLY a",
    "NEXT[0,3] a",
    "NOT c",
    "b IMPLIES EVENTUALLY[2,2] (ask OR ONCE[3,3] a)",
)
CLOCKS = ("", " on rows where a", " on rows where b", " on rows where ask")
LASTING = ("", "", " for 3", " for 9")
# the share of random runs that the references judge, too
JUDGED = 0.25
KEYS = {"answered": "", "calm": " per host", "pair": " per user, host", "whole": " per none"}


def atoms_of(source: random.Random) -> str:
    return "".join(f"atom {name} = {source.choice(CONDITIONS)}\n" for name in "abc")


def program(
    source: random.Random, clocks: Sequence[str] = CLOCKS, *, atoms: str | None = None
) -> PolicyFile:
    """A file of policies with the names and keys that `wanted` knows; random atoms by default."""
    policies = "".join(
        f"policy {name}{key}{source.choice(clocks)}{source.choice(LASTING)}: "
        f"{source.choice(FORMULAS)}\n"
        for name, key in KEYS.items()
    )
    return parse_policies(STREAMS + (atoms or atoms_of(source)) + policies)


class Corrected(NamedTuple):
    """What a check has said: the lines of each batch and of the end; the check and its source."""

    lines: list[list[str]]
    check: HistoryCheck
    source: TableEvents


class Ordered(NamedTuple):
    """What a check of rows in order has said, sorted, and the check."""

    lines: list[str]
    check: LogCheck


def corrected(
    file: PolicyFile,
    batches: Sequence[pa.Table],
    bounds: Bounds,
    *,
    mode: Mode = "local",
    clock: Clock = "all",
    end: EndTime = None,
    ends: bool = True,
    spacing: int = 0,
    operation: str | None = None,
    id: str | None = None,
    equality: bool = False,
    event: str | None = None,
    restores: bool = False,
) -> Corrected:
    """Correct the verdicts of policies, batch by batch; with `restores`, each by another check."""

    def new() -> HistoryCheck:
        check = HistoryCheck(
            file.policies,
            mode,
            lambda: bounds,
            memory=MemoryLimit(),
            clock=clock,
            key=file.key or (),
            equality=equality,
            has_corrections=operation is not None or id is not None,
        )
        check._spacing = spacing
        return check

    check = new()
    source = opened(
        check, file, batches, in_any_order=True, operation=operation, id=id, event=event
    )
    check.streams, check.inputs = source.streams, lambda batch: batch.inputs
    check.relations = source.relations
    if check.relations is not None:
        check.relations.spacing = spacing
    keys = TraceKeys(check.partitions, tuple(source.key_tables))
    output = ChangeLines([policy.name for policy in file.policies], keys, "all")

    checks = LateChecks(check, None)

    def taken() -> list[str]:
        output.put(checks.taken())
        return output.writer.take().decode().splitlines()

    lines = []
    with source:
        for batch in source:
            for _ in checks.feed(batch, source):
                pass
            lines.append(taken())
            if restores:
                snapshot, streams, inputs = checks.snapshot(), check.streams, check.inputs
                relations, check = check.relations, new()
                check.streams, check.inputs, check.relations = streams, inputs, relations
                checks = LateChecks(check, None)
                checks.restore(snapshot)
        if ends:
            for _ in checks.end(source, end):
                pass
            lines.append(taken())
    return Corrected(lines, check, source)


def said_by_command(
    file: PolicyFile,
    batches: Sequence[pa.Table],
    bounds: Bounds,
    *,
    mode: Mode = "local",
    clock: Clock = "all",
    end: EndTime = None,
    spacing: int = 0,
    options: Sequence[str] = (),
) -> list[str]:
    """The lines that the command writes about batches of rows."""
    with TemporaryDirectory() as name, MonkeyPatch.context() as patch:
        patch.setattr(HistoryCheck, "_spacing", spacing)
        policies, log, output = (Path(name) / one for one in ("p.mtl", "log.arrows", "lines"))
        policies.write_text(file.text)
        with pa.ipc.new_stream(log, batches[0].schema) as writer:
            for batch in batches:
                writer.write_table(batch.combine_chunks())
        asked = ["--lateness", bounds.lateness, "--wait", bounds.wait, "--mode", mode]
        asked += ["--clock", clock, *([] if end is None else ["--end-time", end]), *options]
        status = main([*map(str, asked), "-o", str(output), str(policies), str(log)])
        assert status in (0, 1)
        return output.read_text().splitlines()


class RandomRun(NamedTuple):
    """What has been said of rows that come late.

    Attributes:
        mode: the mode.
        bounds: how late rows may be, and how long they wait.
        prefixes: after each batch, how many rows have come, and the lines so far; nothing if the
            command has written them.
        lines: all lines.
        counts: how many verdicts there are in the end, or None.
    """

    mode: Mode
    bounds: Bounds
    prefixes: list[tuple[int, list[str]]]
    lines: list[str]
    counts: Any


def random_run(
    file: PolicyFile,
    rows: Sequence[Row],
    source: random.Random,
    end: EndTime,
    clock: Clock = "all",
    *,
    is_live: bool = False,
) -> RandomRun:
    """Correct the verdicts of policies in random batches, with a random lateness, wait and mode.

    Batches have few rows if `is_live`.
    """
    mode: Mode = source.choice(["local", "global", "naive"])
    lateness = source.choice([3, 7, 30])
    bounds = Bounds(lateness, source.choice([0, 0, 2, lateness]))
    if is_live:
        ends = sorted(source.sample(range(1, len(rows)), len(rows) * 3 // 4))
        batches = [list(rows[a:b]) for a, b in zip([0, *ends], [*ends, len(rows)], strict=True)]
    else:
        batches = batches_of(rows, source)
    tables = [table(batch) for batch in batches]
    spacing = source.choice([0, 1, 2, 5])
    if source.random() < 0.6:
        lines = said_by_command(
            file, tables, bounds, mode=mode, clock=clock, end=end, spacing=spacing
        )
        return RandomRun(mode, bounds, [], lines, None)
    found = corrected(
        file,
        tables,
        bounds,
        mode=mode,
        clock=clock,
        end=end,
        spacing=spacing,
        restores=source.random() < 0.7,
    )
    so_far: list[str] = []
    prefixes = []
    count = 0
    for batch, more in zip(batches, found.lines[:-1], strict=True):
        so_far += more
        count += len(batch)
        prefixes.append((count, list(so_far)))
    return RandomRun(mode, bounds, prefixes, [*so_far, *found.lines[-1]], found.check.counts)


def require_reference(
    file: PolicyFile,
    rows: Sequence[Row],
    lines: Sequence[str],
    end: EndTime,
    *,
    lateness: int | None = None,
    clock: Clock = "all",
    records: Mapping[str, tuple[Relation, pa.Schema]] | None = None,
    ends: bool = True,
) -> None:
    """Compare the last lines about each time-point with what the references say.

    Args:
        file: the policies.
        rows: the rows as they come.
        lines: the lines of a run.
        end: how it ends.
        lateness: how late rows may be; None if all that are given are taken in.
        clock: what measures how late they are.
        records: the records of the file's tables, by their paths.
        ends: whether these are all rows; else the lines are those about a part of the log.
    """
    schemas = {"rows": table([]).schema}
    schemas |= {path: schema for path, (_, schema) in (records or {}).items()}
    bags = {path: bag for path, (bag, _) in (records or {}).items()}
    last = max(row.ts for row in rows)
    wanted: list[str] = []
    for number, policy in enumerate(file.policies):
        key = NAMES[policy.name or ""].split() if clock == "key" else ()
        taken = rows if lateness is None else admitted(rows, lateness, key)
        in_order = [row._asdict() for row in sorted(taken, key=lambda row: row.ts)]
        # with clocks of keys, traces end with the log, also where its last row comes too late
        known = end
        if clock == "key" and ends:
            known = last - 1 if end is None else last if end == "last" else end
        log = reference.Log(in_order, known, bags, schemas, is_part=not ends)
        wanted += reference.lines_of(file, reference.said_of(file, log, [number]).values)
    assert resolved(lines) == sorted(wanted)


def resolved(lines: Sequence[str]) -> list[str]:
    """The Boolean values that a changelog says in the end, equivalences followed."""
    changelog = Collapsed()
    for line in lines:
        changelog.read(line)
    values = {name: changelog.value(name) for name in changelog.verdicts}
    return sorted(
        f"{key}\t{time}:{offset} {str(value).lower()}"
        for (key, (time, offset)), value in values.items()
        if value is not None
    )


def ordered(
    file: PolicyFile, rows: pa.Table, mode: Mode, end: EndTime, *, ends: bool = True
) -> Ordered:
    """What a check says of rows that are sorted by time."""
    check = LogCheck(file.policies, mode, key=file.key or (), threads=1)
    source = opened(check, file, rows, sort=True)
    keys = TraceKeys(check.partitions, tuple(source.key_tables))
    output = TextOutput([policy.name for policy in file.policies], keys)
    steps = check.run(source, end) if ends else (s for b in source for s in check.feed(b, source))
    for _ in steps:
        output.put(check.verdicts)
    output.put(check.verdicts)
    return Ordered(sorted(output.writer.take().decode().splitlines()), check)


def table(rows: Sequence[Row]) -> pa.Table:
    columns = [[row[place] for row in rows] for place in range(len(Row._fields))]
    types = [pa.int64(), pa.string(), pa.string(), pa.bool_(), pa.bool_(), pa.int64()]
    arrays = [pa.array(one, kind) for one, kind in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, list(Row._fields))


def compare_with_order(
    file: PolicyFile,
    rows: Sequence[Row],
    source: random.Random,
    end: EndTime,
    clock: Clock = "all",
    *,
    is_live: bool = False,
    records: Mapping[str, tuple[Relation, pa.Schema]] | None = None,
    decided: Callable[[Sequence[Row]], Sequence[Row]] | None = list,
) -> RandomRun:
    """Compare a random run with the rows in order of time, now and then before its end.

    Args:
        file: the policies.
        rows: the rows as they come.
        source: what chooses.
        end: how the log ends.
        clock: what measures how late rows are.
        is_live: whether batches have few rows.
        records: the records of the file's tables, by their paths.
        decided: of the rows taken in so far, those that all that has been said is about; None if
            that differs from policy to policy.
    """
    run = random_run(file, rows, source, end, clock, is_live=is_live)
    lateness = run.bounds.lateness
    parts = 0 if run.bounds.wait else min(3, len(run.prefixes))
    for count, so_far in source.sample(run.prefixes, parts):
        if decided is None:
            break
        so_many = rows[:count]
        known = decided(so_many if clock == "key" else admitted(so_many, lateness, ()))
        if not known:
            assert collapsed(so_far) == []
            continue
        assert collapsed(so_far) == wanted(file, known, run.mode, lateness, clock, None, ends=False)
        require_reference(
            file, known, so_far, None, lateness=lateness, clock=clock, records=records, ends=False
        )
    assert collapsed(run.lines) == wanted(file, rows, run.mode, lateness, clock, end)
    if source.random() < JUDGED:
        require_reference(
            file, rows, run.lines, end, lateness=lateness, clock=clock, records=records
        )
    if clock == "all" and run.mode == "naive" and run.counts is not None:
        taken = table(admitted(rows, lateness, ()))
        assert run.counts == ordered(file, taken, run.mode, end).check.counts
    return run


def passed(rows: Sequence[Row]) -> list[Row]:
    """The rows that time has passed: others of their time may change what relations say there."""
    now = max(row.ts for row in rows)
    return [row for row in rows if row.ts < now]


def wanted(
    file: PolicyFile,
    rows: Sequence[Row],
    mode: Mode,
    lateness: int,
    clock: Clock,
    end: EndTime,
    *,
    ends: bool = True,
) -> list[str]:
    """The lines of an ordered run over the rows that each policy takes in."""
    if clock == "all":
        return ordered(file, table(admitted(rows, lateness, ())), mode, end, ends=ends).lines
    lines = []
    last = max(row.ts for row in rows)
    known = last - 1 if end is None else last if end == "last" else end
    for policy in file.policies:
        taken = table(admitted(rows, lateness, NAMES[policy.name or ""].split()))
        lines += [
            line
            for line in ordered(file, taken, mode, known, ends=ends).lines
            if line.startswith(f"{policy.name}\t")
        ]
    return sorted(lines)


def with_operation(row: Row, left: dict[str, Row], source: random.Random) -> pa.Table:
    """Give a row an id and an operation; `left` has the rows that are not taken back, by id."""
    name = source.choice("ijklmnop")
    is_retraction = source.random() < 0.3 and name in left
    # a row that takes the place of another comes after those of its time, as any new row
    left.pop(name, None)
    if not is_retraction:
        left[name] = row
    found = table([row])
    for column, value in (("op", "-" if is_retraction else "+"), ("id", name)):
        found = found.append_column(column, pa.array([value]))
    return found


def compare_with_rows_left(
    file: PolicyFile,
    batches: Sequence[pa.Table],
    left: dict[str, Row],
    source: random.Random,
    end: EndTime,
    *,
    restores: bool,
    records: Mapping[str, tuple[Relation, pa.Schema]] | None = None,
) -> list[str]:
    """Compare batches of rows with operations with the rows that are left; return the lines."""
    bounds, spacing = Bounds(1000, source.choice([0, 3])), source.choice([0, 1, 5])
    if source.random() < 0.5 and not restores:
        options = ["--op", "op", "--id", "id"]
        every = said_by_command(file, batches, bounds, end=end, spacing=spacing, options=options)
    else:
        found = corrected(
            file,
            batches,
            bounds,
            end=end,
            spacing=spacing,
            operation="op",
            id="id",
            restores=restores,
        )
        every = [line for more in found.lines for line in more]
    in_order = sorted(left.values(), key=lambda row: row.ts)
    assert collapsed(every) == ordered(file, table(in_order), "local", end).lines
    if source.random() < JUDGED:
        require_reference(file, in_order, every, end, records=records)
    return every


def withdrawn_and_back(lines: Sequence[str]) -> tuple[int, int]:
    """Count the lines of time-points that are withdrawn, and of those that are there again."""
    names = [line.split(" ")[0] for line in lines if "!x" in line]
    return len(names), sum(line.split(" ")[0].replace("!", "!x") in names for line in lines)
