"""`mtlmon.live` says what `mtlmon.check` says, whenever rows come."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import random
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, assert_type, get_type_hints

import pytest

import mtlmon
from tests.doors import CheckOptions, LiveOptions
from tests.run.test_library import PLAIN, VARIABLES, frames
from tests.run.test_library import rows as text_of_rows
from tests.sampling import thinned

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

Row = dict[str, Any]

KEYED = "unit s\nkey k\nstream few = count[0,5](p)\npolicy w: few < 2\npolicy a: p IMPLIES NEXT q\n"
BOTH = VARIABLES + "stream few = count[0,5](p)\npolicy w: few < 2\npolicy a: p IMPLIES NEXT q\n"
LOOKING = """\
unit s
relation sums = rows valid 5 group k select sum(x) as n
stream few = count[0,5](p)
atom big(x, n = sums[k].n) = x > 1
atom seen(x, few = few) = p and exists sums[k]
policy v: FORALL x, n. big(x, n) AND n > 4 IMPLIES ONCE[0,5] EXISTS m. seen(x, m)
find f: seen(x, n) AND EVENTUALLY[1,5] EXISTS m. big(x, m) AND m > n
"""
POLICIES = {
    "looking": LOOKING,
    "keyed looking": f"key k\n{LOOKING}policy w: exists sums[k] or few < 2\n",
    "formula": "p IMPLIES EVENTUALLY[0,5] q",
    "plain": PLAIN,
    "keyed": KEYED,
    "variables": VARIABLES,
    "both": BOTH,
}
IN_ORDER: list[tuple[str, Row]] = [
    ("formula", {}),
    ("formula", {"key": "k", "rows": True}),
    ("formula", {"mode": "global"}),
    ("plain", {}),
    ("plain", {"key": "k", "verdicts": "false", "end_time": "inf"}),
    ("formula", {"verdicts": "first"}),
    ("formula", {"key": "k", "advance_every": 5}),
    ("keyed", {"rows": True}),
    ("variables", {}),
    ("variables", {"verdicts": "all", "rows": True}),
    ("variables", {"time_points": "stamp"}),
    ("variables", {"slices": 3}),
    ("variables", {"key": "k"}),
    ("both", {}),
    ("both", {"rows": True, "end_time": "last"}),
    ("both", {"verdicts": "first"}),
]
LATE: list[tuple[str, Row]] = [
    ("formula", {"wait": 5}),
    ("plain", {"wait": 5, "key": "k"}),
    ("plain", {"consistency": "strong", "lateness": 5}),
    ("formula", {"lateness": 4, "key": "k"}),
    ("formula", {"lateness": 4, "key": "k", "clock": "key"}),
    ("keyed", {"lateness": 4}),
    ("keyed", {"lateness": 4, "wait": 2, "rows": True}),
    ("keyed", {"lateness": 4, "verdicts": "first"}),
    ("variables", {"lateness": 4}),
    ("variables", {"lateness": 4, "rows": True}),
    ("variables", {"lateness": 4, "slices": 3}),
    ("variables", {"lateness": 4, "verdicts": "first"}),
    ("both", {"lateness": 4, "slices": 2}),
    ("both", {"lateness": 4, "rows": True}),
    ("both", {"wait": 5}),
    ("looking", {"lateness": 4, "verdicts": "all"}),
    ("looking", {"lateness": 4, "wait": 2, "slices": 3, "time_points": "stamp"}),
    ("keyed looking", {"lateness": 4, "wait": 2}),
    ("keyed looking", {"lateness": 4, "verdicts": "first"}),
    ("keyed looking", {"lateness": 4, "rows": True}),
]


def given_rows(seed: int, *, late: bool = False) -> list[Row]:
    """Rows as mappings."""
    found = []
    for row in csv.DictReader(io.StringIO(text_of_rows(seed, late=late))):
        values: Row = {name: int(row[name]) for name in ("ts", "x")}
        values |= {name: row[name] == "true" for name in "pq"}
        found.append({**values, "k": row["k"]})
    return found


def cut(rows: Sequence[Row], chance: random.Random) -> list[list[Row]]:
    """The rows in pieces."""
    pieces, place = [], 0
    while place < len(rows):
        pieces.append(list(rows[place : place + chance.choice((1, 1, 1, 2, 7))]))
        place += len(pieces[-1])
    return pieces


def as_given(piece: list[Row], chance: random.Random) -> Any:
    """A piece as one of the things that can be fed."""
    kind = chance.randrange(4)
    if kind == 0 and len(piece) == 1:
        return piece[0]
    if kind == 1:
        return pa.Table.from_pylist(piece)
    return pa.RecordBatch.from_pylist(piece) if kind == 2 else piece


def checked(policies: str, pieces: Sequence[list[Row]], options: Row) -> mtlmon.Run:
    """The run of `check` over pieces that come one after the other."""
    batches = [pa.RecordBatch.from_pylist(piece) for piece in pieces]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    return mtlmon.check(policies, reader, **options)


def plain(answers: Any) -> list[Row]:
    return [dict(answer) for answer in answers]


def sorted_rows(answers: list[Row]) -> list[tuple[str, ...]]:
    """Answers in an order that depends on nothing but themselves."""
    return sorted(tuple(f"{name} {one}" for name, one in sorted(row.items())) for row in answers)


def fed(run: mtlmon.Live, pieces: Sequence[list[Row]], chance: random.Random) -> list[Row]:
    return [row for piece in pieces for row in plain(run.feed(as_given(piece, chance)))]


@pytest.mark.parametrize("number", range(len(IN_ORDER) + len(LATE)))
def test_answers_are_those_of_check(number: int) -> None:
    name, options = (IN_ORDER + LATE)[number]
    for seed in thinned(range(3)):
        chance = random.Random(seed)
        pieces = cut(given_rows(seed, late=number >= len(IN_ORDER)), chance)
        run = mtlmon.live(POLICIES[name], **options)
        found = fed(run, pieces, chance) + plain(run.end())
        wanted = checked(POLICIES[name], pieces, options)
        rows = plain(wanted)
        assert rows
        assert sorted_rows(found) == sorted_rows(rows)
        assert run.status == wanted.status
        emitted = [one.replace("<RecordBatchReader>", "<rows>") for one in wanted.messages]
        assert run.messages == emitted


@pytest.mark.parametrize("lateness", [None, 5])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("stream w = count[0,5]()\npolicy q: w < 3", "stream w = count[0,6]()\npolicy q: w < 3"),
        (
            "stream w = x per x as id until x >= 2\npolicy q: count(w > 0 over w) < 3",
            "stream w = x per x as id until x >= 3\npolicy q: count(w > 0 over w) < 3",
        ),
        (
            "atom many = count[0,5]() > 3\npolicy q: NOT many",
            "atom many = count[0,5]() > 2\npolicy q: NOT many",
        ),
    ],
    ids=["window", "end", "atom"],
)
def test_a_snapshot_belongs_to_what_streams_and_atoms_mean(
    before: str, after: str, lateness: int | None
) -> None:
    """Of another file, the state would be that of no log."""
    run = mtlmon.live(before, lateness=lateness)
    run.feed({"ts": 0, "x": 1})
    state = run.snapshot()
    mtlmon.live(f"# why\n{before}", lateness=lateness, snapshot=state)
    with pytest.raises(mtlmon.SnapshotError, match="other streams"):
        mtlmon.live(after, lateness=lateness, snapshot=state)


@pytest.mark.parametrize("number", range(len(IN_ORDER) + len(LATE)))
def test_a_run_goes_on_from_a_snapshot_at_every_row(number: int) -> None:
    name, options = (IN_ORDER + LATE)[number]
    rows = given_rows(number, late=number >= len(IN_ORDER))[:30]
    whole = mtlmon.live(POLICIES[name], **options)
    parts = mtlmon.live(POLICIES[name], **options)
    for row in rows:
        state = parts.snapshot()
        parts.close()
        parts = mtlmon.live(POLICIES[name], snapshot=state, **options)
        assert plain(parts.feed(row)) == plain(whole.feed(row))
    assert plain(parts.end()) == plain(whole.end())
    assert parts.status == whole.status
    assert parts.messages == whole.messages


OF_ROWS = """\
unit s
relation opened = rows valid until p per k where x > 0 select k as k, x as n
relation total  = opened group select count() as n
relation recent = rows valid 5 group k select count() as n
relation steps  = rows valid 4 select k as k, 1 as one
relation calm   = steps select k as k distinct minus all few
relation few    = recent where n > 1 select k as k
stream lately = count[0,3]() every 2s
policy busy: recent[k].n < 3
policy either: lately.hold(or: 0) < 3 OR exists opened[k = k]
policy whole per none on changes of total: coalesce(total[].n, 0) < 2
policy keyed per k on changes of opened: exists opened[k = k.hold()]
policy calm on changes of calm: PREVIOUS[1,3] count[0,4]() > 1
policy tick on every 3s: exists total
"""


@pytest.mark.parametrize("options", [{}, {"key": "k"}, {"wait": 5}, {"lateness": 4}], ids=str)
@pytest.mark.parametrize("number", range(2))
def test_relations_of_rows_go_on(number: int, options: Row) -> None:
    policies = OF_ROWS
    if number:
        policies += "atom P(k, x) = p AND recent[k].n < 3\npolicy v: P(k, x) IMPLIES ONCE P(k, x)\n"
    rows = given_rows(number, late="wait" in options or "lateness" in options)[:40]
    whole, parts = (mtlmon.live(policies, **options) for _ in range(2))
    for place, row in enumerate(rows):
        parts = mtlmon.live(policies, snapshot=parts.snapshot(), **options)
        found = plain(parts.feed(row))
        if place % 3 == 0:
            parts = mtlmon.live(policies, snapshot=parts.snapshot(), **options)
            found += plain(parts.pass_time(row["ts"]))
        assert found == plain(whole.feed(row)) + plain(
            whole.pass_time(row["ts"]) if place % 3 == 0 else ()
        )
    assert plain(parts.end()) == plain(whole.end())


TEXT_POLICIES = {
    "formula": "p IMPLIES EVENTUALLY[0,5] q",
    "streams": "unit s\nstream few = count[0,5](p)\npolicy w: few < 2\npolicy a: p IMPLIES q\n",
    "variables": "policy seen: P(x) IMPLIES ONCE[0,9] Q(x)\nfind both: P(x) AND ONCE[0,3] Q(x)\n",
    "both": "policy seen: P(x) IMPLIES ONCE[0,9] Q(x)\npolicy a: p IMPLIES EVENTUALLY[0,5] q\n",
}
TEXTS: list[tuple[str, Row]] = [
    ("formula", {}),
    ("formula", {"mode": "naive", "rows": True}),
    ("streams", {}),
    ("variables", {"verdicts": "all"}),
    ("variables", {"slices": 2}),
    ("both", {}),
    ("both", {"rows": True}),
    ("formula", {"lateness": 4}),
    ("streams", {"lateness": 4}),
    ("variables", {"lateness": 4}),
    ("both", {"lateness": 4}),
]


def given_lines(seed: int, *, late: bool, has_arguments: bool) -> list[str]:
    found = []
    for row in given_rows(seed, late=late):
        atoms = [name for name in "pq" if row[name]]
        atoms += [f"{name}({row['x']})" for name in "PQ" if has_arguments and row[name.lower()]]
        found.append(" ".join([f"@{row['ts']}", *atoms]))
    return found


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_lines_of_text(number: int, tmp_path: Path) -> None:
    name, options = TEXTS[number]
    path = tmp_path / "log.txt"
    for seed in thinned(range(3)):
        lines = given_lines(
            seed, late="lateness" in options, has_arguments="P(x)" in TEXT_POLICIES[name]
        )
        path.write_text("\n".join(lines) + "\n")
        wanted = mtlmon.check(TEXT_POLICIES[name], path, **options)
        rows = plain(wanted)
        run = mtlmon.live(TEXT_POLICIES[name], text=True, **options)
        found = plain(run.feed("\n".join(lines[:10])))
        for line in lines[10:]:
            if seed != 1:
                state = run.snapshot()
                run.close()
                run = mtlmon.live(TEXT_POLICIES[name], text=True, snapshot=state, **options)
            found += plain(run.feed(line if seed else f"{line}\n".encode()))
        found += plain(run.end())
        for row in (*found, *rows):
            row.pop("file", None)
        if "lateness" in options:
            found, rows = holding(found), holding(rows)
        assert sorted_rows(found) == sorted_rows(rows)
        assert run.status == wanted.status


def holding(changes: list[Row]) -> list[Row]:
    """What is true once all changes have been made."""
    left: dict[str, Row] = {}
    for change in changes:
        row = {name: one for name, one in change.items() if name not in ("revision", "final")}
        operation = row.pop("op")
        name = str({key: row[key] for key in row if key not in ("verdict", "row")})
        if operation == "delete":
            left.pop(name)
        elif operation is not None:
            left[name] = row
    return list(left.values())


TIMED = ["formula", "keyed", "ticks", "variables", "both"]
POLICIES["ticks"] = (
    "unit s\nstream often = count[0,6](q) every 3s\npolicy ticks on every 3s: often < 2\n"
    "policy later: NEXT p\n"
)


@pytest.mark.parametrize("goes_on", [False, True], ids=["at once", "by snapshots"])
@pytest.mark.parametrize("options", [{}, {"wait": 3}, {"lateness": 4}], ids=str)
@pytest.mark.parametrize("name", TIMED)
def test_time_passes_without_rows(name: str, options: Row, goes_on: bool) -> None:
    rows = given_rows(5)[:25]
    time = rows[-1]["ts"] + 50
    run = mtlmon.live(POLICIES[name], **options)
    found = plain(run.pass_time(0))
    for row in rows:
        for when in (row["ts"] - 1, row["ts"]):
            found += plain(run.pass_time(max(0, when)))
            if goes_on:
                state = run.snapshot()
                run.close()
                run = mtlmon.live(POLICIES[name], snapshot=state, **options)
        found += plain(run.feed(row))
    found += plain(run.pass_time(time))
    if goes_on:
        run = mtlmon.live(POLICIES[name], snapshot=run.snapshot(), **options)
        late = mtlmon.live(POLICIES[name], snapshot=run.snapshot(), on_error="skip", **options)
        assert list(late.feed({**rows[-1], "ts": time - 10})) == []
    end = plain(run.end())
    wanted = plain(checked(POLICIES[name], [rows], {**options, "end_time": time - 1}))
    if "lateness" in options:
        found, end, wanted = holding(found + end), [], holding(wanted)
    assert sorted_rows(found + end) == sorted_rows(wanted)


def test_rows_below_the_time_that_has_passed_come_too_late() -> None:
    late: list[bytes] = []
    run = mtlmon.live("policy a: p", wait=3, late=late.append, key="k")
    run.feed({"ts": 5, "p": True, "k": "a"})
    assert [answer.time for answer in run.pass_time(9)] == [5]
    assert list(run.feed({"ts": 7, "p": False, "k": "b"})) == []
    assert [b'"ts": 7' in one for one in late] == [True]
    run.end()
    assert "1 row" in run.messages[0]


@pytest.mark.parametrize("goes_on", [False, True], ids=["at once", "by snapshots"])
@pytest.mark.parametrize("name", TEXT_POLICIES)
def test_lines_that_wait(name: str, goes_on: bool, tmp_path: Path) -> None:
    """Lines that wait are part of a snapshot, with their numbers and those of others."""
    path = tmp_path / "log.txt"
    for seed in thinned(range(3)):
        lines = given_lines(seed, late=True, has_arguments="P(x)" in TEXT_POLICIES[name])
        path.write_text("\n".join(lines) + "\n")
        options: Row = {"wait": 5, "rows": True, "text": True}
        wanted = mtlmon.check(TEXT_POLICIES[name], path, wait=5, rows=True, end_time=10_000)
        run = mtlmon.live(TEXT_POLICIES[name], **options)
        found: list[Row] = []
        for line in lines:
            found += plain(run.feed(line))
            if goes_on:
                state = run.snapshot()
                run.close()
                run = mtlmon.live(TEXT_POLICIES[name], snapshot=state, **options)
        found += plain(run.pass_time(10_001))
        if goes_on:
            run = mtlmon.live(TEXT_POLICIES[name], snapshot=run.snapshot(), **options)
        rows = plain(wanted)
        for row in (*found, *rows):
            row.pop("file", None)
        assert sorted_rows(found) == sorted_rows(rows)
        assert plain(run.end()) == []
        late = [one for one in run.messages if "too late" in one]
        assert late == [one for one in wanted.messages if "too late" in one]
    with pytest.raises(mtlmon.MtlmonError, match="'x' is no time-stamp"):
        mtlmon.live("p", text=True).pass_time("x")


def test_an_error_has_the_number_of_a_line_that_has_waited() -> None:
    run = mtlmon.live("p", text=True, wait=5)
    for line in ("@3 p", "@9 p", "@8 p", "@9 x(", "@8"):
        run.feed(line)
        run = mtlmon.live("p", text=True, wait=5, snapshot=run.snapshot())
    with pytest.raises(mtlmon.LogError, match="<lines>:4:"):
        run.feed("@20")


@pytest.mark.parametrize("options", [{"wait": 2}, {"lateness": 2}], ids=str)
def test_a_file_of_late_lines_goes_on(options: Row, tmp_path: Path) -> None:
    """A line that waits, or may be corrected, is not late because a run has gone on."""
    path = tmp_path / "late.txt"
    run = mtlmon.live("p", text=True, late=path, **options)
    for line in ("@5 p", "@2", "@4 p", "@6", "@3", "@5", "@9", "@6 p", "@7"):
        run.feed(line)
        state = run.snapshot()
        run.close()
        run = mtlmon.live("p", text=True, late=path, snapshot=state, **options)
    run.end()
    assert path.read_text() == "@2\n@3\n@6 p\n"


def test_late_lines_behind_a_snapshot_come_again(tmp_path: Path) -> None:
    """A run that is killed has written one, and the next one is given it again."""
    path = tmp_path / "late.txt"
    options: Row = {"lateness": 2, "late": path, "text": True}
    run = mtlmon.live("p", **options)
    run.feed("@5 p\n@2")
    state = run.snapshot()
    run.feed("@1")
    run.close()
    assert path.read_text() == "@2\n@1\n"
    run = mtlmon.live("p", snapshot=state, **options)
    run.feed("@1")
    run.end()
    assert path.read_text() == "@2\n@1\n"


def test_times_are_those_of_rows() -> None:
    run = mtlmon.live("policy a: p IMPLIES EVENTUALLY[0,5] q", unit="s")
    start = datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert list(run.feed({"ts": start, "p": True, "q": False})) == []
    assert list(run.pass_time(start + timedelta(seconds=5))) == []
    (answer,) = run.pass_time(start + timedelta(seconds=6))
    assert answer.verdict is False
    assert answer.time == int(start.timestamp())
    with pytest.raises(mtlmon.MtlmonError, match="tomorrow"):
        run.pass_time("tomorrow")
    with pytest.raises(mtlmon.MtlmonError, match="is no time"):
        run.pass_time(object())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"latenes": 3}, r"live\(\) has no option 'latenes'; did you mean 'lateness'\?"),
        ({"idle": "5s"}, r"no option idle, which mtlmon.check has: call pass_time"),
        ({"checkpoint": "x"}, r"no option checkpoint, which mtlmon.check has: take a snapshot"),
        ({"explain": True}, r"live\(\) has no option explain, which mtlmon.check has"),
        ({"format": "csv"}, r"no option format, which mtlmon.check has: give rows, or text=True"),
        ({"progress": True}, r"live\(\) has no option progress, which is for terminals"),
        ({"resolve": 1}, r"live\(resolve=...\) takes True or False, not 1"),
        ({"text": 1}, r"live\(text=...\) takes True or False, not 1"),
        ({"snapshot": "x"}, r"live\(snapshot=...\) takes bytes, not str"),
    ],
)
def test_keywords_that_are_wrong(given: Row, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        _live("p", **given)


_live: Any = mtlmon.live


def test_options_have_the_words_of_check() -> None:
    own, of_check = (get_type_hints(one) for one in (LiveOptions, CheckOptions))
    assert {name: of_check[name] for name in own} == own


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (5, "rows are a mapping, a list of mappings, or a table"),
        (["x"], "rows are a mapping"),
        ("@1 p", "for lines of a text log, add text=True"),
    ],
)
def test_what_is_no_row_changes_nothing(rows: Any, message: str) -> None:
    run = mtlmon.live("p")
    with pytest.raises(TypeError, match=message):
        run.feed(rows)
    assert [answer.verdict for answer in run.feed({"ts": 1, "p": True})] == [True]
    with pytest.raises(TypeError, match="give lines of it, not dict"):
        _live("p", text=True).feed({"ts": 1})


def test_an_error_ends_the_run_and_keeps_what_was_known() -> None:
    run = mtlmon.live("policy a: p")
    with pytest.raises(
        mtlmon.TableError, match=r"<rows>.*row 2.*time-stamp 1 comes after 3.*: add wait="
    ):
        run.feed([{"ts": 3, "p": True}, {"ts": 1, "p": True}])
    assert [(answer.time, answer.verdict) for answer in run.answers()] == [(3, True)]
    with pytest.raises(mtlmon.RunError, match="the run has ended with an error: "):
        run.feed({"ts": 4, "p": True})
    assert repr(run) == "<Live, ended with an error>"
    skips = mtlmon.live("policy a: p", on_error="skip")
    found = skips.feed([{"ts": 3, "p": True}, {"ts": 1, "p": True}, {"ts": 4, "p": None}])
    assert [answer.time for answer in found] == [3, 4]


def test_columns_that_rows_lack() -> None:
    with pytest.raises(mtlmon.TableError, match=r"no column 'user' for the key; .*'usr'"):
        mtlmon.live("p", key="user").feed({"ts": 1, "usr": "ann", "p": True})
    with pytest.raises(mtlmon.TableError, match="name the time column with time="):
        mtlmon.live("p").feed({"at": 1, "p": True})
    run = mtlmon.live("p OR q")
    assert [answer.verdict for answer in run.feed([{"ts": 1, "p": True}, {"ts": 2}])] == [
        True,
        False,
    ]
    run.feed({"ts": 3, "p": False})
    with pytest.raises(mtlmon.TableError, match="no row has a column 'q' for the atom q"):
        run.end()


def test_a_snapshot_of_others_is_refused() -> None:
    run = mtlmon.live("policy a: p", key="k")
    run.feed({"ts": 1, "p": True, "k": "a"})
    state = run.snapshot()
    others: list[tuple[str, Row]] = [
        ("policy a: NOT p", {"key": "k"}),
        ("policy a: p", {}),
        ("policy a: p", {"key": "k", "lateness": 3}),
        ("policy a: p", {"key": "k", "wait": 3}),
        ("policy a: p", {"text": True}),
        ("policy a: P(k) IMPLIES Q(k)", {"text": True}),
        ("atom P(k) = p\npolicy a: P(k) IMPLIES ONCE P(k)", {}),
    ]
    for policies, options in others:
        with pytest.raises(mtlmon.SnapshotError):
            _live(policies, snapshot=state, **options)
    chance = random.Random(1)
    for _ in range(50):
        place = chance.randrange(len(state))
        with pytest.raises(mtlmon.SnapshotError):
            mtlmon.live("policy a: p", key="k", snapshot=state[:place] + b"x" + state[place + 1 :])
    run.end()
    with pytest.raises(mtlmon.RunError, match="the run has ended"):
        run.snapshot()


@pytest.mark.parametrize("name", ["formula", "variables", "both"])
def test_a_function_takes_late_rows(name: str) -> None:
    rows = [{"ts": time, "p": True, "q": False, "k": "a", "x": 1} for time in (9, 1, 8, 2)]
    given: list[Row] = [{"wait": 3}, {"lateness": 3}]
    for options in given:
        found: list[list[Any]] = [[], []]

        def late(number: int, content: bytes, found: list[list[Any]] = found) -> None:
            found[number] += [json.loads(line)["ts"] for line in content.splitlines()]

        run = mtlmon.live(POLICIES[name], late=partial(late, 0), **options)
        for row in rows:
            run.feed(row)
        run.end()
        table = pa.Table.from_pylist(rows)
        mtlmon.check(POLICIES[name], table, late=partial(late, 1), **options).finish()
        assert found == [[1, 2], [1, 2]]
    with pytest.raises(mtlmon.RunError, match="takes rows of tables, not lines: give a path"):
        mtlmon.live("p", text=True, lateness=3, late=print)


@pytest.mark.parametrize("options", [{"wait": 1}, {"lateness": 1}], ids=str)
def test_a_file_of_late_rows_goes_on(options: Row, tmp_path: Path) -> None:
    path = tmp_path / "late.jsonl"
    run = mtlmon.live("policy a: p", late=path, **options)
    for time in (5, 1):
        run.feed({"ts": time, "p": True})
    state = run.snapshot()
    run.close()
    run = mtlmon.live("policy a: p", late=path, snapshot=state, **options)
    run.feed({"ts": 2, "p": True})
    run.end()
    assert [json.loads(line)["ts"] for line in path.read_text().splitlines()] == [1, 2]
    mtlmon.live("policy a: p", late=path, **options).end()
    assert path.read_text() == ""


def test_another_process_goes_on(tmp_path: Path) -> None:
    """Kill a process, and let another one go on from its last snapshot."""
    rows, path = given_rows(9), tmp_path / "state"
    whole = mtlmon.live(POLICIES["both"], key="k", rows=True)
    wanted = [plain(whole.feed(row)) for row in rows] + [plain(whole.end())]
    code = (
        "import json, os, sys, mtlmon\n"
        "rows, policies, path = json.load(sys.stdin)\n"
        "state = open(path, 'rb').read() if os.path.exists(path) else None\n"
        "run = mtlmon.live(policies, key='k', rows=True, snapshot=state)\n"
        "for row in rows:\n"
        "    print(json.dumps([dict(one) for one in run.feed(row)]), flush=True)\n"
        "open(path, 'wb').write(run.snapshot())\n"
        "os.kill(os.getpid(), 9)\n"
    )
    found: list[Any] = []
    for part in (rows[:20], rows[20:50]):
        given = json.dumps([part, POLICIES["both"], str(path)])
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, check=False, input=given, text=True, stdout=subprocess.PIPE)
        assert done.returncode == -9
        found += map(json.loads, done.stdout.splitlines())
    state = path.read_bytes()
    last = mtlmon.live(POLICIES["both"], key="k", rows=True, snapshot=state)
    found += [plain(last.feed(row)) for row in rows[50:]] + [plain(last.end())]
    assert found == wanted


def test_threads_wait_for_each_other() -> None:
    run = mtlmon.live("policy a: p IMPLIES ONCE[0,5] p", key="k", lateness=10_000)
    found: list[Row] = []

    def work(number: int) -> None:
        for time in range(100):
            found.extend(plain(run.feed({"ts": time, "p": True, "k": str(number)})))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found += plain(run.end())
    assert len([row for row in found if row["verdict"]]) == 400


def test_a_call_within_a_call_is_refused() -> None:
    emitted: list[str] = []

    def late(rows: bytes) -> None:
        with pytest.raises(mtlmon.InUseError) as caught:
            run.feed({"ts": 9, "p": True})
        emitted.append(str(caught.value))

    run = mtlmon.live("p", wait=1, late=late)
    run.feed([{"ts": 5, "p": True}, {"ts": 1, "p": True}])
    assert len(emitted) == 1
    assert len(run.end()) == 1


def test_asyncio() -> None:
    async def rows() -> AsyncIterator[Row]:
        for time in (1, 2, 9):
            await asyncio.sleep(0)
            yield {"ts": time, "p": time == 1, "q": False}

    async def main() -> list[Any]:
        found: list[Any] = []
        async with mtlmon.live("p IMPLIES EVENTUALLY[0,5] q", end_time="inf") as run:
            async for answer in run.aiter(rows()):
                found.append((answer.time, answer.verdict))
        async with mtlmon.live("p") as other:
            some = [other.afeed({"ts": time, "p": True}) for time in range(20)]
            times = [answer.time for one in await asyncio.gather(*some) for answer in one]
            assert times == list(range(20))
            assert list(await other.apass_time(30)) == []
            assert list(await other.aend()) == []
        return found

    assert asyncio.run(main()) == [(2, True), (1, False), (9, True)]


def _fail() -> None:
    raise ZeroDivisionError


def test_a_call_that_is_cancelled_goes_on() -> None:
    async def main() -> list[int]:
        run = mtlmon.live("p")
        call = asyncio.ensure_future(run.afeed([{"ts": time, "p": True} for time in range(3000)]))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        rest = await run.afeed({"ts": 3000, "p": True})
        await asyncio.sleep(0)
        return [answer.time for answer in (*run.answers(), *rest)]

    assert asyncio.run(main()) == list(range(3001))


def test_a_run_is_a_context() -> None:
    with mtlmon.live("p IMPLIES EVENTUALLY[0,5] q", end_time="inf") as run:
        run.feed({"ts": 1, "p": True, "q": False})
        before = run.status, run.has_violation
    assert before == (None, False)
    assert run.status == 1
    assert run.has_violation
    assert [answer.verdict for answer in run.answers()] == [False]
    with pytest.raises(ZeroDivisionError), mtlmon.live("p") as run:
        _fail()
    assert repr(run) == "<Live, closed>"
    with pytest.raises(mtlmon.RunError, match="the run has ended"):
        run.feed({"ts": 1, "p": True})


def test_what_is_known_of_a_run() -> None:
    run = mtlmon.live("policy a: p\npolicy b: P(k) IMPLIES P(k)\natom P(k) = p", verdicts="all")
    assert run.counts == {}
    found = run.feed([{"ts": 1, "p": True, "k": "x"}, {"ts": 2, "p": False, "k": "x"}])
    counts = run.counts
    assert (counts["a"].true, counts["a"].false) == (1, 1)
    assert "time-points" in run.summary
    assert len(found) == len(found.to_arrow()) == len(found.to_pandas()) == len(found.to_polars())
    assert found.to_arrow().to_pylist() == plain(found)
    assert found[0].policy == "a"
    assert [row for batch in found.batches() for row in batch.to_pylist()] == plain(found)
    assert mtlmon.live("p").feed([]).to_arrow().num_rows == 0
    late = mtlmon.live("policy a: p", lateness=3, resolve=True)
    late.feed([{"ts": 5, "p": True}, {"ts": 4, "p": False}])
    assert (late.counts["a"].true, late.counts["a"].false) == (1, 1)
    assert "lines" not in mtlmon.live("p", lateness=3).summary


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("options", [{}, {"lateness": 4}], ids=str)
def test_what_is_asked_before_rows_changes_nothing(name: str, options: Row) -> None:
    if name == "plain":
        # messages are not corrected
        options = {"wait": 4} if options else {}
    rows = given_rows(2)[:20]
    asked, other = (mtlmon.live(POLICIES[name], **options) for _ in range(2))
    for row in [None, *rows]:
        assert isinstance(asked.has_violation, bool)
        assert asked.messages == []
        assert bool(asked.summary) == (row is not None and row is not rows[0])
        if "lateness" not in options:
            assert isinstance(asked.counts, dict)
        if row is not None:
            assert plain(asked.feed(row)) == plain(other.feed(row))
    assert plain(asked.end()) == plain(other.end())
    assert asked.has_violation == (other.status == 1)
    assert asked.summary


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("text", [False, True])
def test_a_log_without_rows(name: str, text: bool) -> None:
    policies = POLICIES[name]
    if text:
        policies = TEXT_POLICIES.get(name, "p IMPLIES q")
    run = mtlmon.live(policies, text=text)
    assert not run.has_violation
    assert plain(run.end()) == []
    assert run.status == 0
    with pytest.raises(mtlmon.RunError, match="the run has ended: no more rows"):
        run.pass_time(3)
    assert list(run.end()) == []


def test_a_run_that_knows_the_first_violation_takes_no_more() -> None:
    for text in (False, True):
        run = mtlmon.live("policy a: p", verdicts="first", text=text)
        found = run.feed("@1\n@2\n" if text else [{"ts": 1, "p": False}, {"ts": 2, "p": False}])
        assert [(answer.time, answer.verdict) for answer in found] == [(1, False)]
        for _ in range(3):
            assert list(run.feed("@3" if text else {"ts": 3, "p": False})) == []
        assert list(run.end()) == []
        assert run.status == 1


def test_values_of_many_types() -> None:
    policies = """
    column price: float
    policy member: "admin" in tags IMPLIES `level.name` == "high"
    policy cheap: price < 2.5
    """
    run = mtlmon.live(policies, unit="s", time="at", key="who")
    start = datetime(2024, 5, 1, tzinfo=UTC)
    rows: list[Row] = [
        {"at": start, "who": 1, "tags": ["admin"], "level": {"name": "high"}, "price": 2},
        {"at": start, "who": None, "tags": None, "level": None, "price": None},
    ]
    found = plain(run.feed(rows[0]))
    assert [row["verdict"] for row in found] == [True, True]
    assert [row["who"] for row in found] == ["1", "1"]
    with pytest.raises(mtlmon.TableError, match=r"<rows>: row 2: the key column 'who' is empty"):
        run.feed(rows[1])
    with pytest.raises(mtlmon.TableError, match="column 'x': values that no column can have"):
        mtlmon.live("x > 1").feed({"ts": 1, "x": object()})


@pytest.mark.parametrize("declared", ["", "column x: float\n"])
def test_integers_become_floats_as_in_json_lines(declared: str, tmp_path: Path) -> None:
    policies = f"unit s\n{declared}stream total = sum[0,9](x)\npolicy a: total < 6 AND x < 2.6\n"
    path = tmp_path / "log.jsonl"
    rows = [{"ts": time, "x": x} for time, x in enumerate([1, 2, 2.5, None, 1, -0.25, 3])]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    wanted = [row["verdict"] for row in plain(mtlmon.check(policies, path))]
    run = mtlmon.live(policies)
    found = []
    for row in rows:
        run = mtlmon.live(policies, snapshot=run.snapshot())
        found += [answer.verdict for answer in run.feed(row)]
    assert found == wanted
    with pytest.raises(mtlmon.TableError, match="of type string, but of type double before"):
        run.feed({"ts": 9, "x": "a"})


def test_frames() -> None:
    for frame in frames():
        if isinstance(frame, list):
            continue
        run = mtlmon.live("policy a: p", key="k", verdicts="false")
        assert [(answer["k"], answer.time) for answer in run.feed(frame)] == [("b", 2)]


def test_types() -> None:
    run = mtlmon.live("p", lateness="5s", unit="s", key=["k"])
    assert_type(run, mtlmon.Live)
    assert_type(run.feed({"ts": 1, "k": "a", "p": True}), mtlmon.Answers)
    assert_type(run.end(), mtlmon.Answers)
    assert_type(mtlmon.live("p").snapshot(), bytes)
    assert_type(run.status, int | None)
    assert_type([answer.verdict for answer in run.answers()], list[bool | None])
