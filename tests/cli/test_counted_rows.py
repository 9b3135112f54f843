"""Rows that say how many others there are: once all are there, nothing waits for late ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import mtlmon
from tests.cli.late_runs import HEADER, PLAIN_HEADER, Row, history_of, rows_of, with_counts
from tests.cli.process import Live
from tests.cli.process import mtlmon as command
from tests.reference.revisions import Folded
from tests.run.both import check_both

COLUMNS = "ts,user,what,op,since,n\n"
ASKED = "event 'what'\npolicy answered: ask IMPLIES EVENTUALLY[0,5] reply\n".replace("'", '"')
LOG = "1,a,ask,+,,\n9,b,ask,+,,\n20,,,complete,0,3\n4,a,reply,+,,\n"


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "asked.mtl"
    path.write_text(ASKED)
    return path


def with_options(*more: str, lateness: int = 60) -> list[str]:
    options = ["--lateness", str(lateness), "--op", "op", "--complete", "since,n"]
    return ["--format", "csv", *options, *more]


@pytest.mark.parametrize("consistency", ["middle", "strong"])
def test_time_passes_when_all_have_come(asked: Path, consistency: str) -> None:
    """The fourth row lets time pass to 20, at which all is decided, long before the lateness."""
    with Live(*with_options("--consistency", consistency), str(asked), "-") as live:
        live.send(COLUMNS)
        for line in LOG.splitlines(keepends=True):
            live.send(line)
            live.wait_until_read()
        lines = [live.read_line()]
        while lines[-1] != "!@15":
            lines.append(live.read_line())
    verdicts = ["answered\t1:0 true", "answered\t4:0 true", "answered\t9:0 false", "!@15"]
    if consistency == "strong":
        assert lines == verdicts
    else:
        assert lines == ["answered\t1:0 false", "answered\t!1:0 true", *verdicts[1:]]


@pytest.mark.parametrize(
    ("rows", "errors"),
    [
        (
            "3,a,reply,+,,\n",
            ":6: the row of time-stamp 3 is one too many: all events below 20 were there according "
            "to their counts; --on-error skip leaves such rows out",
        ),
        (
            "30,,,complete,25,1\n26,a,ask,+,,\n26,a,ask,+,,\n",
            ":8: the row of time-stamp 26 is one more than the 1 that lie in [25, 30) according to "
            "their count; --on-error skip leaves such rows out",
        ),
        (
            "22,a,ask,+,,\n22,a,ask,+,,\n30,,,complete,20,1\n",
            ":8: the row of time-stamp 30 counts too few: there are 2 events in [20, 30) already",
        ),
        (
            "20,,,complete,20,1\n",
            ":6: column 'since': the interval that is counted is empty: it goes from 20",
        ),
        (
            "30,,,complete,soon,1\n",
            ":6: column 'since': no start of the interval that is counted: 'soon'",
        ),
        ("30,,,complete,20,\n", ":6: column 'n': no number of events: it is an integer from 0 on"),
        (
            "30,,,complete,20,-1\n",
            ":6: column 'n': '-1' is no number of events: it is an integer from 0",
        ),
        (
            "30,,,finished,20,1\n",
            ":6: column 'op': 'finished' is none of +, I, insert, -, D, retract, adv",
        ),
    ],
)
def test_what_contradicts_itself(asked: Path, tmp_path: Path, rows: str, errors: str) -> None:
    log = tmp_path / "log.csv"
    log.write_text(COLUMNS + LOG + rows)
    done = command(*with_options(), str(asked), str(log))
    assert done.status == 2
    assert errors in done.errors, done.errors
    assert "answered\t9:0 false" in done.output


def test_what_contradicts_counts_is_skipped(asked: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(COLUMNS + LOG + "3,a,reply,+,,\n25,a,ask,+,,\n30,,,complete,20,0\n")
    found = check_both(asked, log, *with_options("--on-error", "skip"))
    assert [row["time"] for row in found] == [1, 4, 9]
    done = command(*with_options("--on-error", "skip"), str(asked), str(log))
    assert done.errors.startswith("mtlmon: skipped 2 rows that could not be read\n"), done.errors


def test_counts_that_come_too_late_or_are_not_reached(asked: Path, tmp_path: Path) -> None:
    log, late = tmp_path / "log.csv", tmp_path / "late.csv"
    too_late = "20,,,complete,0,3\n"
    log.write_text(f"{COLUMNS}50,a,reply,+,,\n{too_late}45,,,complete,42,1\n")
    done = command(*with_options("--late", str(late), lateness=10), str(asked), str(log))
    # all below 40 is known anyway
    assert (done.status, late.exists() and late.read_text()) == (0, "")
    assert done.errors.startswith("mtlmon: fewer rows came in an interval than were counted there")
    log.write_text(f"{COLUMNS}1,a,ask,+,,\n50,a,ask,+,,\n45,,,complete,2,3\n")
    done = command(*with_options("--late", str(late), lateness=10), str(asked), str(log))
    assert late.read_text() == COLUMNS + "45,,,complete,2,3\n"
    assert done.errors.startswith("mtlmon: 1 row came too late to be checked")


def test_options_that_it_needs(asked: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(COLUMNS + LOG)
    done = command("--lateness", "5", "--op", "op", str(asked), str(log))
    assert (
        "no columns say what the row counts: name them, as in --complete START,COUNT" in done.errors
    )
    done = command("--lateness", "5", "--complete", "since,n", str(asked), str(log))
    assert done.errors.startswith("mtlmon: --complete is about rows that count others: say what")
    done = command("--lateness", "5", "--op", "op", "--complete", "a,b,c", str(asked), str(log))
    assert "'a,b,c' is not one column or two" in done.errors
    done = command(*with_options("--clock", "key"), str(asked), str(log))
    assert "--clock key does not work with --complete" in done.errors
    text = tmp_path / "log.txt"
    text.write_text("@1 ask\n")
    done = command(*with_options()[2:], "--format", "text", "-e", "ask", str(text))
    assert "works on tables" in done.errors


def test_times_are_written_as_those_of_rows(asked: Path, tmp_path: Path) -> None:
    """Also with a unit, a format or a time zone."""
    log = tmp_path / "log.csv"
    rows = ["01:00:01,a,ask,+,,", "01:00:09,b,ask|reply,+,,", "01:00:20,,,complete,{}01:00:00,2"]
    rows.insert(1, "01:00:00,,,complete,,0")
    day = "2024-05-01 "
    log.write_text(COLUMNS + "".join(f"{day}{row.format(day)}\n" for row in rows))
    done = command(*with_options("--time-zone", "Europe/Berlin"), str(asked), str(log))
    assert (done.status, done.errors) == (1, "")
    first = 1714518001
    lines = [f"{first}:0 false", f"{first + 8}:0 true", f"!@{first + 14}"]
    assert [line.split("\t")[-1] for line in done.output.splitlines()] == lines


# ---- random logs -------------------------------------------------------------------------------

RULES = """\
relation r = rows valid 6 group k select count() as n, sum(v) as total
relation s = rows valid until q per k where p select k as k
"""


@pytest.mark.parametrize("seed", range(12))
def test_queries(seed: int, tmp_path: Path) -> None:
    """Revisions lead to the records of the rows in the order of time, and what is final stays."""
    source = random.Random(f"counted {seed}")
    lateness = source.choice([4, 9, 25, 80])
    rows = with_counts(source, rows_of(source, lateness, corrects=True), lateness)
    rules, log, name = tmp_path / "r.mtl", tmp_path / "log.csv", source.choice("rs")
    rules.write_text(RULES)
    kept = history_of(rows, lateness)
    log.write_text(PLAIN_HEADER + "".join(row.plain for row in kept.rows.values()))
    wanted = Folded()
    if kept.rows:
        whole = command("query", str(rules), name, str(log))
        assert whole.status == 0, whole.errors
        wanted.take(("insert", *one) for one in map(record_of, whole.output.splitlines()))
    log.write_text(HEADER + "".join(row.cells for row in rows))
    options = ["--lateness", str(lateness), "--op", "op", "--id", "id", "--complete", "since,n"]
    options += ["--format", "csv"]
    if source.random() < 0.3:
        options += ["--consistency", "strong"]
        done = command("query", *options, str(rules), name, str(log))
        found = Folded()
        found.take(("insert", *one) for one in map(record_of, done.output.splitlines()))
        assert found.records() == wanted.records()
        return
    output = tmp_path / "out"
    options += ["--checkpoint", str(tmp_path / "saved"), "--resume", "-o", str(output)]
    for end in sorted({source.randrange(1, len(rows) + 1) for _ in range(3)} | {len(rows)}):
        log.write_text(HEADER + "".join(row.cells for row in rows[:end]))
        done = command("query", *options, str(rules), name, str(log))
        assert done.status == 0, done.errors
    found, final, revision = Folded(), 0, 0
    for line in output.read_text().splitlines():
        row = json.loads(line)
        if row["revision"] > revision:
            revision, bound = row["revision"], final
            final = row["final"] or 0
        for time in (row["end"], row["old_end"]):
            assert time is None or time >= bound
        record, old_end = record_of(line)
        found.take([(row["op"], record, old_end)])
    assert found.records() == wanted.records()


def record_of(line: str) -> tuple[tuple[int, int | None, tuple[Any, ...]], int | None]:
    row = json.loads(line)
    old_end = row.pop("old_end", None)
    for name in ("op", "revision", "final"):
        row.pop(name, None)
    return (row.pop("start"), row.pop("end"), tuple(row.values())), old_end


POLICIES = [
    "key k\npolicy a: p IMPLIES EVENTUALLY[0,5] q\n",
    "key k\nstream n = count[0,6](p)\npolicy a: n < 2\n"
    "policy b per none on every 4: count[0,9](p) > 0\n",
    "atom pa(k: text) = p\npolicy a: FORALL k. pa(k) IMPLIES EVENTUALLY[0,6] pa(k)",
]


@pytest.mark.parametrize("seed", range(9))
def test_a_method_says_what_rows_say(seed: int) -> None:
    """With snapshots between any two calls."""
    source = random.Random(f"methods {seed}")
    lateness = source.choice([4, 9, 25, 80])
    rows = [Row(0, "a", False, False, 0, "+", -1), *rows_of(source, lateness, corrects=True)]
    rows = with_counts(source, rows, lateness)
    options: Any = {"lateness": lateness, "op": "op", "id": "id"}
    if source.random() < 0.4:
        options["wait"] = lateness
    states = []
    for by_method in (False, True):
        own = options if by_method else {**options, "complete": ("since", "n")}
        run = mtlmon.live(POLICIES[seed % 3], **own)
        latest: dict[object, object] = {}

        def take(answers: Any, latest: dict[object, object] = latest) -> None:
            for answer in answers:
                row = dict(answer)
                verdict = (row.pop("verdict"), row.pop("reference", None))
                change = row.pop("op")
                row.pop("revision"), row.pop("final"), row.pop("message", None)
                latest[str(sorted(row.items()))] = None if change == "delete" else verdict

        for row in rows:
            if by_method and row.op == "complete":
                take(run.complete(row.id, row.ts, row.v))
            else:
                take(run.feed(fields_of(row)))
            if source.random() < 0.2:
                run = mtlmon.live(POLICIES[seed % 3], **own, snapshot=run.snapshot())
        take(run.end())
        states.append({name: one for name, one in latest.items() if one is not None})
        assert any("than were counted" in one for one in run.messages) == bool(
            history_of(rows, lateness).incomplete
        )
    assert states[0] == states[1]


def fields_of(row: Row) -> dict[str, object]:
    fields: dict[str, object] = dict.fromkeys(["k", "p", "q", "v", "since", "n", "id"])
    fields |= {"ts": row.ts, "op": row.op}
    if row.op == "complete":
        return {**fields, "since": row.id, "n": row.v}
    if row.op == "-":
        return {**fields, "id": f"i{row.id}"}
    if row.op == "advance":
        return fields
    return {**fields, "k": row.key, "p": row.p, "q": row.q, "v": row.v, "id": f"i{row.id}"}


def test_calls_that_cannot_be_used() -> None:
    run = mtlmon.live("p", lateness=10)
    assert not run.complete(0, 30, 3)
    run.feed({"ts": 5, "p": True})
    with pytest.raises(mtlmon.MtlmonError, match="the interval from 9 to below 9 is empty"):
        run.complete(9, 9, 0)
    with pytest.raises(mtlmon.MtlmonError, match="no number of rows"):
        run.complete(40, 50, -1)
    with pytest.raises(mtlmon.MtlmonError, match="'soon' is not a number"):
        run.complete("soon", 50, 1)
    run.feed([{"ts": 6, "p": True}, {"ts": 29, "p": False}])
    # all below 30 are there now; this call is too late
    run.complete(20, 40, 1)
    with pytest.raises(mtlmon.MtlmonError, match="row 4: the row of time-stamp 25 is one too many"):
        run.feed({"ts": 25, "p": True})
    with pytest.raises(mtlmon.RunError, match="complete needs lateness="):
        mtlmon.live("p", wait=5).complete(0, 1, 1)
    with pytest.raises(mtlmon.RunError, match="clock='key' does not work with complete"):
        mtlmon.live("p", key="k", lateness=5, clock="key").complete(0, 1, 1)


def test_lines_of_text() -> None:
    run = mtlmon.live("open IMPLIES EVENTUALLY[0,5] close", text=True, lateness=20)
    run.feed("@1 open\n@3 close\n")
    assert not run.complete(0, 12, 3)
    found = run.feed("@6 open\n")
    assert [(one.time, one.verdict) for one in found] == [(6, False)]
    error = "<lines>: the line of time-stamp 4 is one too many: all events below 12"
    with pytest.raises(mtlmon.EventError, match=error):
        run.feed("@4 open\n")


OF_TEXT = {
    False: "policy a: p IMPLIES EVENTUALLY[0,5] q\npolicy b: count[0,6](p) < 3\n"
    "policy c on every 4: count[0,9](p) > 0\n",
    True: "policy a: FORALL k. pa(k) IMPLIES EVENTUALLY[0,6] EXISTS v. qa(k, v)\n"
    "policy b: NOT EXISTS k. pa(k) AND PREVIOUS pa(k)\n",
}


@pytest.mark.parametrize("has_values", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_lines_count_as_rows_do(seed: int, has_values: bool, tmp_path: Path) -> None:
    """In files, in pieces that go on from checkpoints, and line by line from snapshots."""
    source = random.Random(f"text {seed} {has_values}")
    lateness = source.choice([4, 9, 25, 80])
    rows = [row for row in rows_of(source, lateness, corrects=False) if row.op == "+"]
    rows = with_counts(source, rows, lateness)
    table, text, output = (tmp_path / name for name in ("log.csv", "log.txt", "out"))
    table.write_text(HEADER + "".join(row.cells for row in rows))
    atoms = "atom pa(k: text) = p\natom qa(k: text, v: int) = q\n" if has_values else ""
    rules, own = tmp_path / "r.mtl", tmp_path / "own.mtl"
    rules.write_text(atoms + OF_TEXT[has_values])
    own.write_text(OF_TEXT[has_values])
    options = ["--lateness", str(lateness), "--resolve"]
    options += ["--wait", str(lateness)] if source.random() < 0.4 else []
    wanted = command(*options, "--op", "op", "--complete", "since,n", str(rules), str(table))
    state = sorted(command("latest", log=wanted.output).output.splitlines())
    lines = [row.line(has_values=has_values) for row in rows]
    options += ["--checkpoint", str(tmp_path / "saved"), "--resume", "-o", str(output)]
    for end in sorted({source.randrange(1, len(lines) + 1) for _ in range(3)} | {len(lines)}):
        text.write_text("".join(lines[:end]))
        done = command(*options, str(own), str(text))
    assert sorted(command("latest", str(output)).output.splitlines()) == state
    assert (done.status, done.errors) == (wanted.status, wanted.errors.replace("row", "line"))
    changed = [number for number, row in enumerate(rows[:-1]) if row.op == "complete"]
    if changed:
        # a count that says something else is another log
        other = rows[changed[0]]._replace(v=rows[changed[0]].v + 1).line(has_values=has_values)
        lines[changed[0]], own_line = other, lines[changed[0]]
        text.write_text("".join(lines))
        done = command(*options, str(own), str(text))
        assert done.status == 2
        assert "differ from those that were read" in done.errors
        lines[changed[0]] = own_line
    # whatever pieces come
    joined, found = "".join(lines), ""
    with Live(*options[:-5], str(own), "-") as live:
        while joined:
            size = source.choice([1, 2, 7, 40])
            live.send(joined[:size])
            live.wait_until_read()
            joined = joined[size:]
        found = live.end().output
    assert sorted(command("latest", log=found).output.splitlines()) == state


def test_lines_that_are_no_counts(tmp_path: Path) -> None:
    for line in ("!@9", "!@9 x", "!@[5,9 1", "!@[9) 1", "!9 1", f"!@9 {2**63}", " !@9 1", "!@ 9 1"):
        done = command("--lateness", "5", "-e", "p", log=f"@1 p\n{line}\n@2 p\n")
        assert done.status == 2
        assert "2:" in done.errors
        done = command(
            "--lateness", "5", "--on-error", "skip", "-e", "p", log=f"@1 p\n{line}\n@2 p\n"
        )
        assert done.errors.startswith("mtlmon: skipped 1 line that could not be read")
    done = command("--lateness", "50", "-e", "p", log="@1 p\n!@[9,9) 1\n")
    assert "the interval from 9 to below 9 is empty" in done.errors
    # numbers of lines, and a last line without a line feed
    done = command("--lateness", "50", "--rows", "-e", "p", log="@1 p\n!@9 2\r\n@2\n!@[9,20) 0")
    assert "!@20" in done.output
    assert "2:0 false\t<stdin>:3" in done.output
    # the run that explains reads them, too
    done = command(
        "--lateness", "50", "--explain", "-e", "NOT p", log=b"@1\n!@9 2\n@2 p\n!@[9,20) 0"
    )
    assert done.status == 2 and "explain" in done.errors
    (tmp_path / "log").write_text("@1\n!@9 2\n@2 p\n!@[9,20) 0")
    done = command("--lateness", "50", "--explain", "-e", "NOT p", str(tmp_path / "log"))
    assert (done.status, f"at {tmp_path}/log:3" in done.errors) == (1, True)
    # without late lines, nothing is to be said of them
    done = command("-e", "p", log="@1 p\n!@9 2\n")
    assert (done.status, "expected '@' and a time-stamp" in done.errors) == (2, True)


def test_lines_of_live_runs() -> None:
    """With a snapshot behind each line."""
    options: Any = {"text": True, "lateness": 900}
    for policy, end in (("p IMPLIES ONCE[0,9] q", ""), ("p(1) IMPLIES ONCE[0,9] q(1)", "(1)")):
        run = mtlmon.live(policy, **options)
        for line in ("@100 p", "!@[0,120) 3", "@107 p", "@99 q"):
            answers = run.feed(line if line.startswith("!") else line + end)
            run = mtlmon.live(policy, **options, snapshot=run.snapshot())
        # both have been told, and are taken back
        assert {one["time"] for one in answers} >= {100, 107}
        with pytest.raises(mtlmon.EventError, match="the line of time-stamp 110 is one too many"):
            run.feed(f"@110 q{end}")
