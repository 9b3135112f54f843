"""Retractions that move ends of records, for policies and queries: what `settled` makes of rows."""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import mtlmon
from tests.cli.process import mtlmon as command
from tests.cli.test_lateness_kills import compare_with_kills
from tests.reference.moved_ends import Row, settled
from tests.sampling import thinned

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

SOURCES = """\
unit s
relation booked = rows where kind = "book" valid [ts, till) select room as room
relation named  = rows where kind = "book" select room as room, till as expires valid [ts, expires)
relation open   = booked group room select count() as n
relation total  = named group select count() as n
relation kept   = open where n > 1 valid 3
relation apart  = rows where kind = "enter" valid 4 select room as room
relation calm   = apart minus all booked
"""
POLICIES = (
    "policy free: entered IMPLIES NOT exists booked[room]",
    "policy soon: entered IMPLIES EVENTUALLY[0,6] (NOT exists booked[room])",
    "policy few: entered IMPLIES ONCE[0,9] (coalesce(open[room].n, 0) < 2)",
    "policy most per room: coalesce(total[].n, 0) < 4",
    "policy kept_up: exists kept[room] IMPLIES ONCE[0,9] entered",
    "policy calms: NOT exists calm[room]",
    "policy late: entered IMPLIES coalesce(till, 0) < ts + 9",
    "policy busy: count[0,9](exists booked[room]) < 3",
    "policy told per none on changes of open: coalesce(total[].n, 0) < 4",
    "policy ticks per none on every 5: coalesce(total[].n, 0) < 4",
    "policy names: FORALL r. entry(r) IMPLIES ONCE[0,8] booking(r)",
)
ATOMS = """\
atom entered = kind = "enter"
atom entry(room: text) = kind = "enter"
atom booking(room: text) = kind = "book"
"""
OPTIONS: dict[str, Any] = {"op": "op", "id": "id", "new_end": "new", "format": "csv"}


def policies(source: random.Random) -> str:
    """A file of some of the policies, of which one reads a relation with ends of its own."""
    some = source.sample(POLICIES, source.randrange(1, 4))
    return "\n".join(
        [SOURCES + ATOMS + POLICIES[source.randrange(3)].replace(":", "_0:", 1), *some]
    )


def log(source: random.Random, lateness: int, *, beyond: int | None = None) -> list[Row]:
    """Records that get other ends, and rows that enter rooms.

    Without `beyond`, rows come in time, links fit, and no two kinds of rows have the same time: for
    policies that do not read ends, a row with another end is the same, and stays where it was.
    """
    found: list[tuple[int, Row]] = []
    for number in range(source.randrange(5, 25)):
        stamp, room = source.randrange(40), source.choice("ab")
        late = lateness + (beyond or 0)

        def arrive(row: Row, late: int = late) -> None:
            found.append((row.time_stamp + source.randrange(late + 1), row))

        name = f"i{number}"
        is_entry = source.random() < 0.4
        if beyond is None:
            stamp = stamp // 2 * 2 + is_entry
        if is_entry:
            arrive(Row(stamp, "+", name, None, content=f"enter,{room}"))
            continue
        end: int | None = source.choice([None, stamp + source.randrange(1, 30)])
        content = f"book,{room}"
        arrive(Row(stamp, "+", name, end, content=content))
        for _ in range(source.choice([0, 1, 1, 2, 3])):
            new = (stamp + 30 if end is None else end) - source.randrange(
                1 if beyond is None else 0, 9
            )
            arrive(Row(stamp, "-", name, end, new, content))
            end = new if beyond is None or source.random() < 0.9 else 99
        if source.random() < 0.1:
            arrive(Row(stamp, "-", name, end, content=content))
    return [row for _, row in sorted(found, key=lambda one: one[0])]


def text_of(rows: Sequence[Row]) -> str:
    """The rows as CSV."""

    def cell(value: int | None) -> str:
        return "" if value is None else str(value)

    lines = [
        f"{row.time_stamp},{row.content},{row.operation},{row.id or ''},{cell(row.end)},"
        f"{cell(row.new_end)}\n"
        for row in rows
    ]
    return "".join(["ts,kind,room,op,id,till,new\n", *lines])


def final_rows(rows: Sequence[Row], lateness: int) -> list[Row]:
    """The rows that hold at the end of `settled` ones, none of which is too late, in order."""
    alive: dict[str, Row] = {}
    # when retractions have come whose rows had not
    awaited: dict[str, int] = {}
    clock = 0
    for row in rows:
        assert row.id is not None
        if row.operation == "+":
            clock = max(clock, row.time_stamp)
        if row.operation == "-" and row.id not in alive:
            awaited[row.id] = clock
        elif row.operation == "-":
            del alive[row.id]
        elif clock - awaited.pop(row.id, -99) <= lateness:
            pass
        elif alive.get(row.id) != row:
            # it comes behind the others of its time
            alive.pop(row.id, None)
            alive[row.id] = row
    return sorted(alive.values(), key=lambda row: row.time_stamp)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def told(answers: Any) -> list[dict[str, Any]]:
    """What answers say, but for numbers of revisions, which count batches."""
    return [{name: one[name] for name in one if name != "revision"} for one in answers]


def state_of(answers: Sequence[dict[str, Any]]) -> list[str]:
    """The verdicts and values that hold at the end, without offsets."""
    kept: dict[str, Any] = {}
    changes = {"op", "revision", "final"}
    for one in answers:
        own = {name: one[name] for name in one if name not in changes}
        # values of variables make an answer another one; verdicts do not
        names = dict(own) if own["policy"] == "names" else {**own, "verdict": None}
        key = repr({**names, "reference": None, "message": None})
        if one.get("op") == "delete":
            del kept[key]
        else:
            kept[key] = {**own, "offset": None}
    return sorted(map(repr, kept.values()))


@pytest.mark.parametrize("seed", thinned(range(60), 12))
def test_moved_ends_are_rows_with_these_ends(seed: int, tmp_path: Path) -> None:
    """Byte for byte, and so are counts and exit status; also of rows that come too late."""
    source = random.Random(seed)
    text = policies(source)
    lateness = source.choice([0, 3, 9, 30])
    rows = log(source, lateness, beyond=source.choice([0, 0, 4, 30]))
    other, broken = settled(rows, lateness)
    own, given = (
        written(tmp_path, name, text_of(one)) for name, one in (("a.csv", rows), ("b.csv", other))
    )
    options: dict[str, Any] = {**OPTIONS, "lateness": lateness, "on_error": "skip"}
    options["wait"] = source.choice([0, 0, lateness])
    options["verdicts"] = source.choice(["all", "false"])
    options["resolve"] = source.random() < 0.5
    options["rows"] = False
    run = mtlmon.check(text, own, **options)
    wanted = mtlmon.check(text, given, **{**options, "new_end": None})
    changes = list(map(dict, run))
    assert told(changes) == told(wanted)
    note = f"{broken} retraction{'s' if broken > 1 else ''} moved no end"
    assert [one for one in run.messages if one != note] == wanted.messages
    assert (note in run.messages) == bool(broken)
    assert run.status == wanted.status
    # row by row, and from snapshots
    answers: list[dict[str, Any]] = []
    lines = text_of(rows).splitlines()[1:]
    names = ["ts", "kind", "room", "op", "id", "till", "new"]
    del options["format"]

    def given_row(line: str) -> dict[str, Any]:
        cells = dict(zip(names, line.split(","), strict=True))
        numbers = {
            name: int(cells[name]) if cells[name] else None for name in ("ts", "till", "new")
        }
        return {**cells, **numbers}

    live = mtlmon.live(text, **options)
    for line in lines:
        answers += map(dict, live.feed(given_row(line)))
        if source.random() < 0.2:
            snapshot = live.snapshot()
            live.close()
            live = mtlmon.live(text, snapshot=snapshot, **options)
    answers += map(dict, live.end())
    assert live.status == run.status
    if options["resolve"]:
        # a verdict that is true now was told if it was false before
        is_wanted = "'verdict': False" if options["verdicts"] == "false" else ""
        states = state_of(answers), state_of(changes)
        found, wholly = ([one for one in some if is_wanted in one] for some in states)
        assert found == wholly


@pytest.mark.parametrize("seed", thinned(range(60), 12))
def test_moved_ends_come_to_the_log_in_order(seed: int, tmp_path: Path) -> None:
    """The verdicts at the end are those of each record with its last end."""
    source = random.Random(f"order {seed}")
    text = policies(source)
    lateness = source.choice([0, 3, 9, 30])
    rows = log(source, lateness)
    other, _ = settled(rows, lateness)
    options: dict[str, Any] = {"resolve": True, "format": "csv", "end_time": 200}
    ordered = written(tmp_path, "ordered.csv", text_of(final_rows(other, lateness)))
    own = written(tmp_path, "log.csv", text_of(rows))
    wanted = state_of(list(map(dict, mtlmon.check(text, ordered, **options))))
    consistency = source.choice(["strong", "middle"])
    options |= {**OPTIONS, "lateness": lateness, "consistency": consistency, "on_error": "skip"}
    run = mtlmon.check(text, own, **options)
    assert state_of(list(map(dict, run))) == wanted
    # and so do the records of queries
    relation = source.choice(["booked", "named", "open", "kept", "calm"])
    found = mtlmon.query(text, relation, own, lateness=lateness, **OPTIONS)
    records = command("latest", "--format", "jsonl", log=_lines_of(found)).output.splitlines()
    whole = mtlmon.query(text, relation, ordered)
    assert sorted(records) == sorted(_lines_of(whole).splitlines())


def _lines_of(records: Any) -> str:
    return "".join(json.dumps(dict(one), separators=(",", ":")) + "\n" for one in records)


def test_moved_ends_survive_kills(tmp_path: Path) -> None:
    source = random.Random(3)
    rows: list[tuple[float, Row]] = []
    for number in range(400):
        stamp, content = number // 2, f"{source.choice(['book', 'enter'])},r{number % 5}"
        rows.append((stamp, Row(stamp, "+", f"i{number}", stamp + 90, content=content)))
        for old, new in ((90, 60), (60, 30)):
            row = Row(stamp, "-", f"i{number}", stamp + old, stamp + new, content)
            rows.append((stamp + source.randrange(-5, 46), row))
    text = text_of([row for _, row in sorted(rows, key=lambda one: one[0])])
    log, output, late = written(tmp_path, "log.csv", text), tmp_path / "out", tmp_path / "late.csv"
    file = written(tmp_path, "p.mtl", "\n".join([SOURCES + ATOMS, *POLICIES[:3], POLICIES[8]]))
    arguments = ["--lateness", "40", "--op", "op", "--id", "id", "--new-end", "new"]
    arguments += ["--late", str(late), "-o", str(output), str(file)]
    found, resumed = compare_with_kills(
        arguments, log, output, late, lambda path: command("latest", str(path)).output
    )
    assert found
    # a retraction that comes too late is a row that does
    assert ",-," in late.read_text()
    other = command(*resumed, *arguments, "--new-end", "ts", str(log))
    assert (other.status, "it was made with another --new-end" in other.errors) == (2, True)


@pytest.mark.parametrize("kind", ["int", "date", "us", "ns", "text"])
def test_ends_of_all_types(kind: str, tmp_path: Path) -> None:
    """In Parquet, and in rows that are given one by one."""
    pa = pytest.importorskip("pyarrow")
    day = 86400
    rows = [Row(3 * day, "-", "i", 9 * day, 6 * day), Row(3 * day, "+", "i", 9 * day)]
    rows = [row._replace(content="book,a") for row in rows]
    rows += [Row(6 * day, "+", f"e{day}", None, None, "enter,a")]
    types = {"int": pa.int64(), "date": pa.date32(), "text": pa.int64()}
    type_of_ends = types.get(kind) or pa.timestamp(kind, "UTC")
    scale = {"date": 1, "us": day * 10**6, "ns": day * 10**9}.get(kind, day)

    def ends(values: list[int | None]) -> Any:
        found = [None if one is None else one // day * scale for one in values]
        bits = pa.int32() if kind == "date" else pa.int64()
        array = pa.array(found, bits).view(type_of_ends)
        return array.cast(pa.string()) if kind == "text" else array

    table = pa.table(
        {
            "ts": [one.time_stamp for one in rows],
            "kind": [one.content.split(",")[0] for one in rows],
            "room": ["a"] * 3,
            "op": [one.operation for one in rows],
            "id": [one.id for one in rows],
            "till": ends([one.end for one in rows]),
            "new": ends([one.new_end for one in rows]),
        }
    )
    text = SOURCES + ATOMS + POLICIES[0]
    options: dict[str, Any] = {**OPTIONS, "lateness": 4 * day, "format": None}
    if kind == "text":
        with pytest.raises(
            mtlmon.MtlmonError, match="column 'till': ends are whole numbers or tim"
        ):
            mtlmon.check(text, table, **options).finish()
        return
    run = mtlmon.check(text, table, **options)
    assert [one["verdict"] for one in run] == [True, True]
    assert run.status == 0
    del options["format"]
    with mtlmon.live(text, **options) as live:
        for row in table.to_pylist():
            live.feed(row)
        live.end()
        assert live.status == 0


@pytest.mark.parametrize("seed", thinned(range(12), 6))
def test_reasons_know_moved_ends(seed: int, tmp_path: Path) -> None:
    """The run that explains reads the log again, and moves the same ends."""
    source = random.Random(f"reasons {seed}")
    rows = log(source, 9, beyond=9)
    other, _ = settled(rows, 9)
    file = written(tmp_path, "p.mtl", "\n".join([SOURCES + ATOMS, *POLICIES[:4]]))
    options = ["--lateness", "9", "--op", "op", "--id", "id", "--explain", "--on-error", "skip"]
    found = []
    for one, more in ((rows, ["--new-end", "new"]), (other, [])):
        done = command(*options, *more, str(file), str(written(tmp_path, "log.csv", text_of(one))))
        lines = [re.sub(r"log.csv:\d+", "log.csv", line) for line in done.errors.splitlines()]
        found.append([done.output, *(line for line in lines if "moved no end" not in line)])
    assert found[0] == found[1]


def test_an_end_is_moved_as_all_that_it_is_read_as() -> None:
    text = SOURCES + 'policy a: till < 30 OR exists booked[room]\npolicy b: till < "30"\n'
    rows = [Row(1, "+", "i", 40, content="book,a"), Row(1, "-", "i", 40, 25, "book,a")]
    found = command(*_LATE, "--format", "csv", "-e", text, log=text_of(rows))
    assert sorted(found.output.splitlines()) == ["a\t1:1 true", "b\t1:1 true"]


_LATE = ("--lateness", "9", "--op", "op", "--id", "id", "--new-end", "new")


_CASES = tomllib.loads(Path(__file__).with_name("moved_ends.toml").read_text())["case"]


@pytest.mark.parametrize("case", _CASES, ids=[case["name"] for case in _CASES])
def test_cases(case: dict[str, Any], tmp_path: Path) -> None:
    lines = ["ts,kind,op,id,till,new", *case["rows"], ""]
    path = written(tmp_path, "log.csv", "\n".join(lines))
    rules = (
        'unit s\nrelation booked = rows where kind = "book" valid [ts, till) select kind as k\n'
        'policy free: kind = "enter" IMPLIES NOT exists booked\n'
    )
    run = mtlmon.check(rules, path, lateness=30, on_error="skip", resolve=True, **OPTIONS)
    found = {(one["time"], one["offset"]): one for one in map(dict, run)}
    shown = [
        f"{one['time']}:{one['offset']} {str(one['verdict']).lower()}"
        for _, one in sorted(found.items())
        if one["op"] != "delete"
    ]
    assert shown == case["answers"]
    records = mtlmon.query(rules, "booked", path, lateness=30, consistency="strong", **OPTIONS)
    assert [[one["start"], one["end"]] for one in records] == case["records"]
    for messages in (run.messages, records.messages):
        for count, what in ((case["unmoved"], "moved no end"), (case.get("late", 0), "too late")):
            told = [int(one.split()[0]) for one in messages if what in one]
            assert told == ([count] if count else [])
