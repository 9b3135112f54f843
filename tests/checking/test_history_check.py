"""Policies on tables whose rows come late: verdicts are those of the rows in the order of time."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pytest

from mtlmon import MemoryLimitError, SnapshotError
from mtlmon.policy import PolicyFile, parse_policies
from mtlmon.tables import open_tables
from tests.doors import (
    CHANGE_COLUMNS,
    KINDS_OF,
    Bounds,
    ChangeLines,
    ChangeTable,
    HistoryCheck,
    JsonRowsOutput,
    LateChecks,
    LogCheck,
    MemoryLimit,
    TextOutput,
    TraceKeys,
    VerdictTable,
)
from tests.reference.changelog import Collapsed
from tests.sampling import thinned
from tests.traces import EndTime

POLICIES = """\
key user
atom big = amount > 5
atom small = amount <= 2 and not ask
policy answered: ask IMPLIES EVENTUALLY[0,5] (reply OR big)
policy calm per host: ALWAYS[0,4] (big IMPLIES ONCE[0,6] ask)
policy pair per user, host: (ask SINCE[0,8] small) OR PREVIOUS big
policy whole per none: big IMPLIES EVENTUALLY[1,4] (reply AND NEXT[0,3] small)
"""
FOREVER = f"{POLICIES}policy open: ask IMPLIES EVENTUALLY reply\n"


class Row(NamedTuple):
    ts: int
    user: str
    host: str
    ask: bool
    reply: bool
    amount: int


Clock = Literal["all", "key"]
CLOCKS: tuple[Clock, ...] = ("all", "key")
Mode = Literal["local", "global", "naive"]

NAMES = {"answered": "user", "calm": "host", "pair": "user host", "whole": "", "open": "user"}


def late_rows(
    seed: object, count: int = 60, spread: int = 9, users: str | None = None
) -> list[Row]:
    """Rows of a few users as they come, of which some are late by less than `spread`."""
    source = random.Random(str(seed))
    users = users or source.choice(["abc", "abc", "a", "abcdefghijkl"])
    now = 100
    rows = []
    for _ in range(count):
        now += source.choice([0, 0, 1, 1, 2, 4])
        stamp = now - (source.randrange(spread) if spread and source.random() < 0.4 else 0)
        user, host = source.choice(users), source.choice(["x", "y\tz"])
        held = source.random() < 0.4, source.random() < 0.3
        rows.append(Row(stamp, user, host, *held, source.randrange(9)))
    return rows


def batches_of(rows: Sequence[Row], source: random.Random) -> list[list[Row]]:
    """The rows in batches of any size."""
    rest = list(rows)
    batches = []
    while rest:
        size = source.choice([1, 1, 2, 5, 30])
        batches.append(rest[:size])
        rest = rest[size:]
    return batches


def table(rows: Sequence[Row]) -> pa.Table:
    columns = [[row[place] for row in rows] for place in range(len(Row._fields))]
    types = [pa.int64(), pa.string(), pa.string(), pa.bool_(), pa.bool_(), pa.int64()]
    arrays = [pa.array(one, kind) for one, kind in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, list(Row._fields))


def corrected(
    file: PolicyFile,
    batches: Sequence[Sequence[Row]],
    mode: Mode,
    bounds: Bounds,
    clock: Clock,
    end: EndTime,
    selection: str = "all",
    memory: str | None = None,
    *,
    is_json: bool = False,
    restores: bool = False,
    shares: bool = False,
    idle: int = 0,
) -> tuple[list[list[str]], LateChecks, int]:
    """The lines after each batch and after the end; the check, and how many rows are refused."""
    limit = MemoryLimit(None if memory is None else int(memory))

    def new() -> LateChecks:
        plain = HistoryCheck(
            file.policies,
            mode,
            lambda: bounds,
            memory=limit,
            clock=clock,
            key=file.key or (),
            shown=KINDS_OF[selection if shares else "all"],
        )
        plain._least_sharing = 1
        return LateChecks(plain, None)

    check = new()
    plain = check.plain
    assert plain is not None
    source = open_tables(
        [table(batch) for batch in batches],
        plain.atoms,
        policies=file,
        partitions=plain.partitions.columns,
        in_any_order=True,
    )
    names = [policy.name for policy in file.policies]
    keys = TraceKeys(plain.partitions, tuple(source.key_tables))
    output: ChangeLines | JsonRowsOutput[Any] = ChangeLines(names, keys, selection)
    if is_json:
        verdicts = VerdictTable(names, keys, source.times, more=CHANGE_COLUMNS)
        output = JsonRowsOutput(ChangeTable(verdicts, selection))

    def taken() -> list[str]:
        output.put(check.taken())
        return output.writer.take().decode().splitlines()

    lines = []
    with source:
        for batch in source:
            for _ in check.feed(batch, source):
                pass
            lines.append(taken())
            if idle and len(lines) % 3 == 0:
                # time passes further than rows have shown
                for _ in check.pass_time((source.clock or 0) + idle):
                    pass
                lines[-1] += taken()
            if restores:
                snapshot, check = check.snapshot(), new()
                check.restore(snapshot)
        for _ in check.end(source, end):
            pass
        lines.append(taken())
    return lines, check, source.refused


def ordered(
    file: PolicyFile, rows: Sequence[Row], mode: Mode, end: EndTime, *, ends: bool = True
) -> list[str]:
    """The lines for rows that are sorted by time."""
    check = LogCheck(file.policies, mode, key=file.key or (), threads=1)
    source = open_tables(
        table(rows), check.atoms, policies=file, partitions=check.partitions.columns, sort=True
    )
    keys = TraceKeys(check.partitions, tuple(source.key_tables))
    output = TextOutput([policy.name for policy in file.policies], keys)
    steps = check.run(source, end) if ends else (s for b in source for s in check.feed(b, source))
    for _ in steps:
        output.put(check.verdicts)
    output.put(check.verdicts)
    return sorted(output.writer.take().decode().splitlines())


def admitted(rows: Sequence[Row], lateness: int, columns: Sequence[str]) -> list[Row]:
    """The rows that are not too late, in their order; "now" is that of rows with equal columns."""
    latest: dict[tuple[str, ...], int] = {}
    taken = []
    for row in rows:
        key = tuple(getattr(row, name) for name in columns)
        latest[key] = max(latest.get(key, 0), row.ts)
        if latest[key] - row.ts <= lateness:
            taken.append(row)
    return taken


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
        return ordered(file, admitted(rows, lateness, ()), mode, end, ends=ends)
    lines = []
    last = max(row.ts for row in rows)
    # all traces end with the log, also where its last row is not admitted
    known = last - 1 if end is None else last if end == "last" else end
    for policy in file.policies:
        columns = NAMES[policy.name or ""].split()
        lines += [
            line
            for line in ordered(file, admitted(rows, lateness, columns), mode, known, ends=ends)
            if line.startswith(f"{policy.name}\t")
        ]
    return sorted(lines)


def collapsed(lines: Sequence[str]) -> list[str]:
    changelog = Collapsed()
    for line in lines:
        changelog.read(line)
    return sorted(
        f"{key}\t{verdict}" for (key, _), verdict in changelog.verdicts.items() if verdict
    )


@pytest.mark.parametrize("clock", ["all", "key"])
@pytest.mark.parametrize("mode", ["local", "global", "naive"])
def test_the_latest_verdicts_are_those_of_the_order_of_time(mode: Mode, clock: Clock) -> None:
    """After every batch, and at the end; whatever the batches are. No bound is contradicted."""
    ends: tuple[EndTime, ...] = (None, "last", "inf", 500)
    for seed in thinned(range(4)):
        source = random.Random(seed)
        file = parse_policies(source.choice([POLICIES, FOREVER]))
        rows = late_rows(seed, users="abcdefghijkl" if seed % 4 == 0 else None)
        bounds = Bounds(source.choice([3, 7, 30]), 0)
        end = ends[seed % len(ends)]
        batches = batches_of(rows, source)
        lines, check, refused = corrected(file, batches, mode, bounds, clock, end)
        so_far: list[str] = []
        count = 0
        for batch, more in zip(batches, lines[:-1], strict=True):
            so_far += more
            count += len(batch)
            if source.random() < 0.2:
                found = wanted(file, rows[:count], mode, bounds.lateness, clock, None, ends=False)
                assert collapsed(so_far) == found
        assert collapsed([*so_far, *lines[-1]]) == wanted(
            file, rows, mode, bounds.lateness, clock, end
        )
        keys = {""} if clock == "all" else {NAMES[one.name or ""] for one in file.policies}
        taken = [{id(row) for row in admitted(rows, bounds.lateness, key.split())} for key in keys]
        assert refused == len(rows) - len(set.intersection(*taken))
        revised = [line for more in lines for line in more if "!" in line and "!@" not in line]
        assert check.revision_count == len(revised)


def test_rows_in_order_have_no_revisions() -> None:
    for seed in thinned(range(6)):
        source = random.Random(seed)
        file = parse_policies(FOREVER)
        rows = late_rows(seed, spread=0)
        lines, check, refused = corrected(
            file, batches_of(rows, source), "local", Bounds(9, source.choice([0, 4])), "all", "last"
        )
        every = [line for more in lines for line in more]
        assert not any("!" in line for line in every)
        assert sorted(every) == ordered(file, rows, "local", "last")
        assert (check.late_count, check.revision_count, refused) == (0, 0, 0)


def test_waiting_saves_corrections() -> None:
    file = parse_policies(POLICIES)
    for clock in ("all", "key"):
        rows = late_rows(clock, 120, users="abc")
        batches = [[row] for row in rows]
        found = {}
        for wait in (0, 4, 7):
            lines, check, _ = corrected(file, batches, "local", Bounds(7, wait), clock, None)
            found[wait] = check.revision_count
            every = [line for more in lines for line in more]
            assert collapsed(every) == wanted(file, rows, "local", 7, clock, None)
        assert found[0] > found[4] > found[7] == 0


def test_a_bound_is_that_of_all_policies_or_of_a_key() -> None:
    file = parse_policies(POLICIES)
    rows = [Row(100, "a", "x", True, False, 0), Row(140, "b", "x", False, False, 0)]
    rows.append(Row(160, "a", "x", False, False, 0))
    batches = [[row] for row in rows]
    lines, _, _ = corrected(file, batches, "local", Bounds(10, 0), "all", None)
    # policies look up to 7 ahead, and the first row of a is undecided until its second one
    assert [line for more in lines for line in more if "!@" in line] == ["!@83", "!@100", "!@143"]
    lines, _, _ = corrected(file, batches, "local", Bounds(10, 0), "key", None)
    bounds = [line for line in lines[2] if "!@" in line]
    assert "answered\ta\t\t!@145" in bounds


@pytest.mark.parametrize("selection", ["boolean", "false", "none"])
def test_first_verdicts_that_nobody_wants(selection: str) -> None:
    """They are counted, and what changes them is told, though they are not told themselves."""
    file = parse_policies(POLICIES)
    for seed in thinned(range(3)):
        batches = batches_of(late_rows(seed), random.Random(seed))
        run = (file, batches)
        bounds = Bounds(7, 2)
        found, check, _ = corrected(*run, "local", bounds, "all", "last", selection)
        # rows that wait are not shared
        others, other, _ = corrected(*run, "local", bounds, "all", "last", selection, shares=True)
        assert others == found
        assert check.plain is not None
        assert other.plain is not None
        assert other.plain.kinds == check.plain.kinds


@pytest.mark.parametrize("selection", ["boolean", "false"])
def test_selected_verdicts(selection: str) -> None:
    """A change is written if the old or the new verdict would be."""
    file = parse_policies(POLICIES)
    for seed in thinned(range(3)):
        batches = batches_of(late_rows(seed), random.Random(seed))
        every, _, _ = corrected(file, batches, "local", Bounds(7, 0), "all", "last")
        some, _, _ = corrected(file, batches, "local", Bounds(7, 0), "all", "last", selection)
        latest: dict[str, str] = {}
        found = []
        for lines in every:
            chosen = []
            for line in lines:
                name, _, verdict = line.replace("!", "").partition(" ")
                before = latest.get(name, "")
                latest[name] = verdict
                words = ("false",) if selection == "false" else ("false", "true")
                if "@" in name or verdict in words or before in words:
                    chosen.append(line)
            found.append(chosen)
        assert some == found


def random_policies(source: random.Random) -> PolicyFile:
    """Policies of which most pass over rows, and others do not."""
    atoms = ["ask", "reply", "big", "small"]

    def formula(depth: int) -> str:
        if depth == 0 or source.random() < 0.2:
            return source.choice(["", "NOT "]) + source.choice(atoms)
        low = source.randrange(3)
        interval = f"[{low},{low + source.randrange(9)}]"
        unary = ["ALWAYS", "EVENTUALLY", "ONCE", "HISTORICALLY", "NOT", "NEXT", "PREVIOUS"]
        if source.random() < 0.5:
            name = source.choices(unary, [4, 4, 4, 4, 2, 1, 1])[0]
            return f"({name}{'' if name == 'NOT' else interval} {formula(depth - 1)})"
        name = source.choice(["AND", "OR", "IMPLIES", "IMPLIES", "UNTIL", "SINCE"])
        bounds = interval if name in {"UNTIL", "SINCE"} else ""
        return f"({formula(depth - 1)} {name}{bounds} {formula(depth - 1)})"

    head = POLICIES.splitlines()[:3]
    keys = [source.choice(["", " per host", " per none"]) for _ in range(8)]
    lines = [f"policy r{number}{key}: {formula(3)}" for number, key in enumerate(keys)]
    return parse_policies("\n".join([*head, *lines]))


def test_sharing_rows_changes_nothing() -> None:
    """Policies get only rows that make a difference to them, and say the same."""
    kinds = set()
    for seed in thinned(range(60), 8):
        source = random.Random(f"sharing {seed}")
        file = random_policies(source)
        rows = late_rows(seed, users=source.choice(["a", "abc", "abcdefgh"]))
        selection = source.choice(["false", "false", "none"])
        mode: Mode = source.choice(["local", "naive"])
        end: EndTime = source.choice([None, "last", "inf", 500])
        bounds = Bounds(source.choice([0, 3, 7, 30]), 0)
        batches, clock = batches_of(rows, source), CLOCKS[0]
        run = file, batches, mode, bounds, clock, end, selection
        idle = source.choice([0, 0, 2, 6])
        found, check, refused = corrected(*run, idle=idle)
        for restores in (False, True):
            others, other, refused_too = corrected(*run, shares=True, restores=restores, idle=idle)
            assert list(map(sorted, others)) == list(map(sorted, found))
            assert refused_too == refused
            assert check.plain is not None
            assert other.plain is not None
            assert other.plain.counts == check.plain.counts
            assert other.plain.kinds == check.plain.kinds
            assert other.plain.earliest_pending == check.plain.earliest_pending
            for name in ("position", "late_count", "refused_count", "revision_count"):
                assert getattr(other, name) == getattr(check, name), name
            assert other.plain.key_counts == check.plain.key_counts
            kinds |= {type(one).__name__ for one in other.plain._histories}
            taken = [one.counter("events") for one in other.plain._histories]
            kinds.add("fewer rows" if min(taken) < len(rows) - refused else "all rows")
    assert kinds >= {"SharingHistory", "fewer rows"}


@pytest.mark.parametrize("clock", ["all", "key"])
def test_snapshots_change_nothing(clock: Clock) -> None:
    """Not even if each batch is checked by another check."""
    file = parse_policies(FOREVER)
    for seed, wait in ((1, 0), (2, 3)):
        run = file, batches_of(late_rows(seed), random.Random(seed))
        lines, check, _ = corrected(*run, "local", Bounds(8, wait), clock, "last")
        others, other, _ = corrected(*run, "local", Bounds(8, wait), clock, "last", restores=True)
        assert others == lines
        for name in (
            "position",
            "late_count",
            "refused_count",
            "revision_count",
        ):
            assert getattr(other, name) == getattr(check, name), name
        assert other.plain is not None
        assert check.plain is not None
        assert other.plain.counts == check.plain.counts
        assert other.plain.kinds == check.plain.kinds


def test_snapshots_of_others_are_refused() -> None:
    file = parse_policies(POLICIES)

    def check(mode: Mode = "local", clock: Clock = "all", key: str = "user") -> HistoryCheck:
        bounds = Bounds(8, 0)
        memory = MemoryLimit()
        return HistoryCheck(
            file.policies, mode, lambda: bounds, memory=memory, clock=clock, key=(key,)
        )

    snapshot = check().snapshot()
    check().restore(snapshot)
    for other, message in (
        (check("naive"), "other policies or another mode"),
        (check(clock="key"), "another clock"),
        (check(key="host"), "policies with other keys"),
    ):
        with pytest.raises(SnapshotError, match=message):
            other.restore(snapshot)
    with pytest.raises(SnapshotError, match="another kind"):
        check().restore(LogCheck(file.policies).snapshot())
    with pytest.raises(SnapshotError, match="damaged"):
        check().restore(snapshot[:-1] + b"x")


@pytest.mark.parametrize("clock", ["all", "key"])
@pytest.mark.parametrize("selection", ["all", "false"])
def test_tables_of_changes_say_what_lines_say(selection: str, clock: Clock) -> None:
    """`final` is the last bound before the row, of all or of its policy and key."""
    file = parse_policies(POLICIES)
    batches = batches_of(late_rows(selection), random.Random(selection))
    bound = Bounds(7, 0)
    lines, _, _ = corrected(file, batches, "local", bound, clock, "last", selection)
    rows, _, _ = corrected(file, batches, "local", bound, clock, "last", selection, is_json=True)
    bounds: dict[str, int] = {}
    found = []
    for number, (more, wanted_lines) in enumerate(zip(rows, lines, strict=True), 1):
        some = []
        for row in map(json.loads, more):
            fields = [row["policy"], *((row[name] or "") for name in ("user", "host"))]
            key = "\t".join(one.replace("\t", "\\t") for one in fields)
            mark = "" if row["op"] == "insert" else "!"
            line = f"{key}\t{mark}{row['time']}:{row['offset']}"
            if row["op"] == "delete":
                assert row["verdict"] is None
                assert row["reference"] is None
            elif row["reference"] is not None:
                assert row["verdict"] is None
                line += f" = {row['reference']}"
            else:
                line += " true" if row["verdict"] else " false"
            some.append(line)
            assert row["revision"] == number
            assert row["final"] == bounds.get("" if clock == "all" else key)
            assert row["final"] is None or row["time"] >= row["final"]
        for line in wanted_lines:
            key, mark, stamp = line.rpartition("!@")
            if mark:
                bounds[key.rstrip("\t") if clock == "all" else key[:-1]] = int(stamp)
        found.append(some)
    assert found == [[line for line in more if "!@" not in line] for more in lines]
    assert bounds


def test_memory_has_a_limit() -> None:
    file = parse_policies(POLICIES)
    rows = late_rows("memory", 3000)
    with pytest.raises(MemoryLimitError, match="late ones before them"):
        corrected(file, [rows], "local", Bounds(10**6, 0), "all", None, memory="300000")
    batches = [rows[k : k + 50] for k in range(0, len(rows), 50)]
    corrected(file, batches, "local", Bounds(30, 0), "all", None, memory="300000")
