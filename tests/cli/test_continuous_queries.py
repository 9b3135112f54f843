"""`mtlmon query` on pipes and files that go on, with late rows and checkpoints."""

from __future__ import annotations

import json
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
import pyarrow.parquet as pq

from mtlmon import query
from tests.cli.process import Live, mtlmon, wait_until
from tests.cli.test_lateness_kills import kill_after
from tests.doors import LatestRecords
from tests.reference.revisions import Folded

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RULES = """\
unit s
relation limits   = table "limits.csv" valid [from, to) key k
relation recent   = rows valid 20 group k select count() as n, sum(v) as total
relation sessions = rows valid until kind = "close" per k where kind = "open" select k as k
relation over     = rows select k as k, v as v join limits on true where k = limits_k and v > most
                    select k as k, v as v, most as most
relation brief    = sessions where end() - start() < 6 select k as k, end() - start() as seconds
relation many     = brief shift -2 group none select count() as n, last(seconds) as seconds
relation lasting  = recent where n > 2 valid 7 every 5 distinct on k select k as k, total as total
relation few      = rows valid last 2 rows per k group k select max(v) - min(v) as range
relation after    = over select k as k valid 9 group k select count() as n
relation pieces   = recent coalesce max 6
"""
NAMES = (
    *("recent", "sessions", "over", "brief", "many", "lasting", "few"),
    *("after", "pieces"),
)
HEADER = "ts,k,kind,v\n"


@pytest.fixture
def rules(tmp_path: Path) -> str:
    (tmp_path / "limits.csv").write_text("k,from,to,most\na,0,100,3\na,100,,5\nb,50,,2\n")
    path = tmp_path / "rules.mtl"
    path.write_text(RULES)
    return str(path)


def rows_of(seed: int, count: int = 300) -> list[tuple[int, str]]:
    """Rows in the order of time, as lines of CSV."""
    source = random.Random(seed)
    now, rows = 3, []
    for _ in range(count):
        now += source.randrange(3)
        kind = source.choice(["open", "close", "other"])
        rows.append((now, f"{now},{source.choice('abc')},{kind},{source.randrange(9)}\n"))
    return rows


def late_rows(rows: list[tuple[int, str]], lateness: int, seed: int) -> list[tuple[int, str]]:
    """The same, of which some come later, but not too late."""
    source = random.Random(seed)
    return sorted(rows, key=lambda row: row[0] + source.choice([0, 0, source.randrange(lateness)]))


def text_of(rows: Iterable[tuple[int, str]]) -> str:
    return HEADER + "".join(line for _, line in rows)


def in_order(
    path: Path, rules: str, name: str, rows: list[tuple[int, str]], *options: str
) -> list[str]:
    """What a query of the whole log writes, in the order of ends."""
    path.write_text(text_of(sorted(rows, key=lambda row: row[0])))
    done = mtlmon("query", *options, rules, name, str(path))
    assert (done.status, done.errors) == (0, "")
    lines = done.output.splitlines()
    return sorted(lines, key=lambda line: json.loads(line)["end"] or 2**63)


def folded(lines: Iterable[str]) -> list[Any]:
    """The records after all revisions."""
    known = Folded()
    revision, final = 0, 0
    for line in lines:
        row = json.loads(line)
        changes = {word: row.pop(word) for word in ("op", "revision", "final", "old_end")}
        start, end = row.pop("start"), row.pop("end")
        assert changes["revision"] >= revision
        for one in (end, changes["old_end"]):
            # what was final before this batch does not change
            assert one is None or changes["revision"] == revision or one >= final
        if changes["revision"] > revision:
            revision, final = changes["revision"], changes["final"] or 0
        known.take([(changes["op"], (start, end, tuple(row.values())), changes["old_end"])])
    return known.records()


def bag(lines: Iterable[str]) -> list[Any]:
    rows = map(json.loads, lines)
    return sorted(
        ((row.pop("start"), row.pop("end"), tuple(row.values())) for row in rows), key=str
    )


@pytest.mark.parametrize("name", NAMES)
def test_records_of_a_pipe_are_those_of_the_log(name: str, rules: str, tmp_path: Path) -> None:
    rows = rows_of(1)
    wanted = in_order(tmp_path / "log.csv", rules, name, rows)
    piped = mtlmon("query", rules, name, "-", log=text_of(rows))
    assert (piped.status, piped.errors) == (0, "")
    assert piped.output.splitlines() == wanted
    late = tmp_path / "late.csv"
    waited = mtlmon(
        *("query", "--wait", "10", "--late", str(late), "--output-format", "csv", rules, name, "-"),
        log=text_of([*late_rows(rows, 10, 2), (0, "1,a,open,1\n")]),
    )
    assert waited.errors == f"mtlmon: 1 row came too late to be checked (see {late})\n"
    assert late.read_text() == f"{HEADER}1,a,open,1\n"
    assert len(waited.output.splitlines()) == 1 + len(wanted)


@pytest.mark.parametrize("name", NAMES)
def test_revisions_lead_to_the_records_of_the_log(name: str, rules: str, tmp_path: Path) -> None:
    rows = rows_of(3)
    log = tmp_path / "late.csv"
    log.write_text(text_of(late_rows(rows, 15, 4)))
    wanted = in_order(tmp_path / "log.csv", rules, name, rows)
    output = tmp_path / "out.jsonl"
    with Live("query", "--lateness", "15", "-o", str(output), rules, name, "-") as live:
        lines = log.read_text().splitlines(keepends=True)
        for first in range(0, len(lines), 60):
            live.send("".join(lines[first : first + 60]))
            live.wait_until_read()
        assert live.end().status == 0
    found = output.read_text().splitlines()
    # few of the sessions that are over are told of before
    assert name in {"brief", "many"} or {json.loads(line)["op"] for line in found} > {"insert"}
    assert folded(found) == bag(wanted)
    assert mtlmon("latest", str(output)).output.splitlines() == wanted
    strong = ["--lateness", "15", "--consistency", "strong"]
    assert mtlmon("query", *strong, rules, name, str(log)).output.splitlines() == wanted
    table = tmp_path / "out.parquet"
    as_table = ["--lateness", "15", "--output-format", "parquet", "-o", str(table)]
    assert mtlmon("query", *as_table, rules, name, str(log)).status == 0
    assert len(pq.read_table(table)) == len(wanted)
    in_csv = mtlmon("query", "--lateness", "15", "--output-format", "csv", rules, name, str(log))
    latest = mtlmon("latest", "--format", "csv", log=in_csv.output).output.splitlines()
    assert len(latest) == 1 + len(wanted)


@pytest.mark.parametrize("name", NAMES)
def test_records_are_cut_where_the_log_ends(name: str, rules: str, tmp_path: Path) -> None:
    """What the whole log says, up to its end, whichever way it is read."""
    rows = rows_of(6, 60)
    log, late = tmp_path / "log.csv", tmp_path / "late.csv"
    log.write_text(text_of(rows))
    late.write_text(text_of(late_rows(rows, 15, 4)))
    whole = [json.loads(line) for line in mtlmon("query", rules, name, str(log)).output.split()]
    last = rows[-1][0]
    for given, end in (("last", last), ("0", last), (str(last + 4), last + 4), ("inf", 2**62)):
        said = sorted(
            ((one | {"end": min(one["end"] or 2**63, end + 1)}) for one in whole),
            key=lambda one: one["end"],
        )
        wanted = [
            json.dumps(one | {"end": None if one["end"] == 2**62 + 1 else one["end"]})
            for one in said
            if one["start"] <= end
        ]
        asked = ["query", "--end-time", given]
        once = mtlmon(*asked, rules, name, str(log))
        assert (once.status, once.errors) == (0, "")
        assert bag(once.output.splitlines()) == bag(wanted)
        lines = sorted(once.output.splitlines(), key=lambda line: json.loads(line)["end"] or 2**63)
        assert mtlmon(*asked, rules, name, "-", log=log.read_text()).output.splitlines() == lines
        for order in (["--wait", "15"], ["--lateness", "15", "--consistency", "strong"]):
            assert mtlmon(*asked, *order, rules, name, str(late)).output.splitlines() == lines
        revised = mtlmon(*asked, "--lateness", "15", rules, name, "-", log=late.read_text())
        latest = mtlmon("latest", "--format", "jsonl", log=revised.output)
        assert latest.output.splitlines() == lines


def test_rows_are_taken_back(rules: str, tmp_path: Path) -> None:
    """Before or after they come; and rows are replaced."""
    text = (
        "ts,k,kind,v,op,id\n10,a,open,1,+,1\n12,a,close,1,+,2\n5,b,open,1,-,3\n5,b,open,1,+,3\n"
        "12,a,close,1,-,2\n14,a,close,1,+,4\n13,a,close,1,+,4\n9,c,open,1,-,7\n90,c,open,1,+,8\n"
    )
    options = ["--op", "op", "--id", "id", "--lateness", "20"]
    done = mtlmon("query", *options, rules, "sessions", "-", log=text)
    assert done.errors == "mtlmon: 1 retraction found no row\n"
    assert folded(done.output.splitlines()) == [(10, 13, ("a",)), (90, None, ("c",))]
    stopped = mtlmon("query", *options, "--on-error", "stop", rules, "sessions", "-", log=text)
    assert stopped.status == 0


def test_ends_are_moved(tmp_path: Path) -> None:
    """A row with a known id replaces the row, so that its record ends earlier."""
    path = tmp_path / "rules.mtl"
    path.write_text("unit s\nrelation r = rows valid [ts, till) select k as k\n")
    with Live("query", "--lateness", "20", "--id", "id", str(path), "r", "-") as live:
        live.send("ts,till,k,id\n1,50,a,1\n")
        assert (live.read_line() or "").startswith('{"start":1,"end":50,"k":"a","op":"insert"')
        live.send("1,30,a,1\n")
        line = live.read_line() or ""
        assert line.startswith('{"start":1,"end":30,"k":"a","op":"update"')
        assert line.endswith('"old_end":50}')
        live.send("1,,a,1\n2,9,b,2\n1,20,a,1\n")
        lines = [live.read_line() or "" for _ in range(2)]
    assert [json.loads(line)["op"] for line in lines] == ["update", "insert"]
    assert [json.loads(line)["end"] for line in lines] == [20, 9]


@pytest.mark.parametrize(
    "order", [["--lateness", "5"], ["--lateness", "5", "--consistency", "strong"], ["--wait", "5"]]
)
def test_refused_rows_survive_kills(rules: str, tmp_path: Path, order: list[str]) -> None:
    rows = late_rows(rows_of(8, 900), 15, 9)
    late, checkpoint = tmp_path / "late.csv", tmp_path / "checkpoint"
    whole, output = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    options = ["query", *order, "--late", str(late)]
    wanted = mtlmon(*options, "-o", str(whole), rules, "recent", "-", log=text_of(rows))
    refused = late.read_text()
    assert len(refused.splitlines()) > 10
    late.unlink()
    arguments = [*options, "--resume", "--checkpoint", str(checkpoint)]
    arguments += ["--checkpoint-every", "0.05s", "-o", str(output), rules, "recent", "-"]
    text = text_of(rows).encode()
    written = 0
    for share in (0.3, 0.6):
        cut = text.index(b"\n", int(share * len(text))) + 3
        written = kill_after(arguments, text[:cut], checkpoint, written)
        with late.open("a") as file:
            # what was written behind the checkpoint comes again
            file.write("1,a,open,1\n")
    done = mtlmon(*arguments, log=text)
    assert (done.status, done.errors) == (0, wanted.errors)
    assert late.read_text() == refused
    if order == ["--lateness", "5"]:
        assert folded(output.read_text().splitlines()) == folded(whole.read_text().splitlines())
    else:
        assert output.read_text() == whole.read_text()


CHAINS = """\
ts,till,k,id,op,new
5,20,b,2,-,12
1,50,a,1,+,
1,30,a,1,-,20
1,50,a,1,-,30
5,,b,2,+,
5,,b,2,-,20
7,60,c,3,+,
7,40,c,3,-,30
7,60,c,3,-,70
8,60,d,4,+,
8,60,d,4,-,
"""


@pytest.mark.parametrize("calendar", [False, True])
def test_retractions_move_ends(calendar: bool, tmp_path: Path) -> None:
    """Again and again, before or after the row comes; what does not fit is counted."""
    path, text = tmp_path / "rules.mtl", CHAINS
    declared = "unit s\n"
    if calendar:
        declared += "column till: time\n"
        text = "\n".join(
            ",".join(
                f"1970-01-01T00:00:{int(cell) % 60:02}Z" if cell and place in (0, 1, 5) else cell
                for place, cell in enumerate(line.split(","))
            )
            if not line.startswith("ts")
            else line
            for line in CHAINS.replace("60", "59").replace("70", "59").splitlines()
        )
    path.write_text(f"{declared}relation r = rows valid [ts, till) select k as k\n")
    options = ["--lateness", "20", "--op", "op", "--id", "id", "--new-end", "new"]
    done = mtlmon("query", *options, str(path), "r", "-", log=text)
    assert done.errors == "mtlmon: 2 retractions moved no end\n"
    last = 59 if calendar else 60
    wanted = [(1, 20, ("a",)), (5, 12, ("b",)), (7, last, ("c",))]
    assert folded(done.output.splitlines()) == wanted
    with Live("query", *options, str(path), "r", "-") as live:
        lines: list[str] = []
        for line in text.splitlines():
            live.send(f"{line}\n")
            live.wait_until_read()
        lines += live.end().output.splitlines()
    assert folded(lines) == wanted
    assert len(lines) >= 4


def test_moved_ends_survive_kills(tmp_path: Path) -> None:
    path, output, checkpoint = (tmp_path / name for name in ("r.mtl", "out.jsonl", "checkpoint"))
    path.write_text("unit s\nrelation r = rows valid [ts, till) select k as k\n")
    source = random.Random(7)
    rows: list[tuple[float, str]] = []
    for number in range(200):
        start = number // 2
        rows.append((start, f"{start},{start + 90},k{number % 3},{number},+,\n"))
        for old, new in ((90, 60), (60, 30)):
            place = start + source.randrange(-5, 15)
            rows.append((place, f"{start},{start + old},k{number % 3},{number},-,{start + new}\n"))
    lines = [line for _, line in sorted(rows)]
    text = ("ts,till,k,id,op,new\n" + "".join(lines)).encode()
    arguments = ["--resume", "--checkpoint", str(checkpoint), "--checkpoint-every", "0.05s"]
    arguments += ["--lateness", "40", "--op", "op", "--id", "id", "--new-end", "new"]
    arguments = ["query", *arguments, "-o", str(output), str(path), "r", "-"]
    written = 0
    for share in (0.3, 0.6):
        cut = text.index(b"\n", int(share * len(text))) + 3
        written = kill_after(arguments, text[:cut], checkpoint, written)
    done = mtlmon(*arguments, log=text)
    assert (done.status, done.errors) == (0, "")
    ends = ((number // 2, number // 2 + 30, number % 3) for number in range(200))
    log = tmp_path / "log.csv"
    log.write_text("ts,till,k\n" + "".join(f"{one},{two},k{key}\n" for one, two, key in ends))
    whole = mtlmon("query", str(path), "r", str(log))
    assert folded(output.read_text().splitlines()) == bag(whole.output.splitlines())


def test_records_come_while_the_pipe_is_open(rules: str) -> None:
    with Live("query", rules, "sessions", "-") as live:
        live.send(f"{HEADER}1,a,open,1\n2,b,open,1\n5,b,close,1\n")
        assert live.read_line(0.3) is None
        live.send("6,c,open,1\n")
        assert live.read_line() == '{"start":2,"end":5,"k":"b"}'
        ended = live.end()
    assert ended.output.splitlines() == [
        '{"start":1,"end":null,"k":"a"}',
        '{"start":6,"end":null,"k":"c"}',
    ]
    with Live("query", "--lateness", "0", rules, "sessions", "-") as live:
        live.send(f"{HEADER}1,a,open,1\n")
        assert (live.read_line() or "").startswith('{"start":1,"end":null,"k":"a","op":"insert"')
        live.send("5,a,close,1\n")
        line = live.read_line() or ""
        assert line.startswith('{"start":1,"end":5,"k":"a","op":"update"')
        assert line.endswith('"old_end":null}')


@pytest.mark.parametrize("waits", [False, True])
def test_time_passes_while_the_pipe_is_silent(waits: bool, rules: str) -> None:
    """A window ends although no row comes."""
    now = int(time.time())
    options = ["--idle", "1s", "--time-unit", "s", *(["--wait", "1s"] if waits else [])]
    with Live("query", *options, rules, "recent", "-") as live:
        live.send(f"{HEADER}{now - 19},a,open,1\n")
        wanted = {"start": now - 19, "end": now + 1, "k": "a", "n": 1, "total": 1}
        assert json.loads(live.read_line() or "") == wanted
        assert time.time() >= now + 2


@pytest.mark.parametrize(
    ("order", "end"),
    [
        ([], ["--end-time", "last"]),
        (["--lateness", "15"], ["--end-time", "last"]),
        (["--wait", "15"], []),
    ],
)
@pytest.mark.parametrize("name", ["recent", "sessions", "many", "lasting"])
def test_kills(order: list[str], end: list[str], name: str, rules: str, tmp_path: Path) -> None:
    rows = rows_of(5, 900)
    come = late_rows(rows, 15, 6) if order else rows
    wanted = in_order(tmp_path / "log.csv", rules, name, rows, *end)
    output, checkpoint = tmp_path / "out.jsonl", tmp_path / "checkpoint"
    arguments = ["--resume", "--checkpoint", str(checkpoint), "--checkpoint-every", "0.05s"]
    arguments = ["query", *arguments, *order, *end, "-o", str(output), rules, name, "-"]
    text = text_of(come).encode()
    written = 0
    for share in (0.3, 0.6):
        cut = text.index(b"\n", int(share * len(text))) + 3
        written = kill_after(arguments, text[:cut], checkpoint, written)
    done = mtlmon(*arguments, log=text)
    assert (done.status, done.errors) == (0, "")
    for _ in range(2):
        lines = output.read_text().splitlines()
        if order[:1] == ["--lateness"]:
            assert folded(lines) == bag(wanted)
        else:
            assert lines == wanted
        # the end of the log is not part of what a later run goes on from
        assert mtlmon(*arguments, log=text).status == 0
    other = [*arguments[:-3], rules, "over", "-"]
    again = mtlmon(*other, log=text)
    assert "it was made for another relation" in again.errors


def test_integers_become_floats(rules: str) -> None:
    """What was told with an integer is known again with a float."""
    text = '{"ts":1,"k":"a","v":1}\n', '{"ts":2,"k":"a","v":2}\n', '{"ts":3,"k":"a","v":0.5}\n'
    with Live("query", "--lateness", "5", "--format", "jsonl", rules, "recent", "-") as live:
        lines = []
        for line in text:
            live.send(line)
            lines.append(live.read_line() or "")
        lines += live.end().output.splitlines()
    found = mtlmon("latest", "--format", "jsonl", log="".join(f"{line}\n" for line in lines))
    assert found.errors == ""
    totals = [json.loads(line)["total"] for line in found.output.splitlines()]
    assert totals == [1, 3, 3.5, 2.5, 0.5]


def test_a_followed_file(rules: str, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f"{HEADER}1,a,open,1\n")
    with Live("query", "--follow", str(log), rules, "sessions") as live:
        with log.open("a") as file:
            file.write("5,a,close,1\n6,b,open,1\n")
        assert live.read_line() == '{"start":1,"end":5,"k":"a"}'
        live.process.send_signal(signal.SIGINT)
        assert live.read_line() == '{"start":6,"end":null,"k":"b"}'
        wait_until(lambda: live.process.poll() is not None)
    ended = live.process.returncode
    assert ended == 0


def test_programs(rules: str, tmp_path: Path) -> None:
    table = pa.table({"ts": [1, 2, 5, 4], "k": ["a", "b", "a", "b"], "kind": ["o", "o", "c", "c"]})
    text = 'relation r = rows valid until kind = "c" per k where kind = "o" select k as k'
    found = query(text, "r", table, lateness=3, resolution="s")
    assert [record["op"] for record in found] == ["insert", "insert"]
    found = query(text, "r", table, wait=3, resolution="s")
    assert found.to_pylist() == [
        {"start": 2, "end": 4, "k": "b"},
        {"start": 1, "end": 5, "k": "a"},
    ]
    assert found.num_rows == 2
    output = tmp_path / "out.csv"
    written = query(text, "r", table, wait=3, output=output, output_format="csv", resolution="s")
    assert written.finish().status == 0
    assert output.read_text() == 'start,end,k\n2,4,"b"\n1,5,"a"\n'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recent", "-"], "relations read tables, but the log is read as text"),
        (["whole", "-"], "not known before a pipe is read"),
        (["--op", "op", "recent", "-"], "--op is about corrections of rows: say how late"),
        (["--sort", "--lateness", "5", "recent", "-"], "--sort"),
        (["--new-end", "new", "recent", "-"], "--new-end is about the ends that retractions move"),
        (
            [*("--op", "op", "--id", "id", "--lateness", "5", "--new-end", "new"), "recent", "-"],
            "but relation recent has none such: write rows valid [ts, COLUMN)",
        ),
        (
            [*("--op", "op", "--id", "id", "--lateness", "5", "--new-end", "v"), "ended", "-"],
            "--new-end v is the column of the ends that records have: name the one with those",
        ),
        (
            ["--checkpoint", "x", "recent", "-"],
            "--checkpoint needs a file for the verdicts: add -o",
        ),
        (["--follow", "x.csv", "recent", "y.csv"], "--follow names the log: leave out y.csv"),
    ],
)
def test_errors(arguments: list[str], message: str, rules: str, tmp_path: Path) -> None:
    more = "relation whole = rows valid 5\nrelation ended = rows valid [ts, v) select k as k\n"
    (tmp_path / "rules.mtl").write_text(RULES + more)
    *options, name, log = arguments
    done = mtlmon(
        "query",
        *options,
        rules,
        name,
        log,
        log=f"{HEADER}1,a,open,1\n" if name != "recent" or "--new-end" in options else "",
    )
    assert done.status == 2
    assert message in done.errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"start":1}', "1:1: a revision of a record has a column end"),
        ("5:0 true", "1:1: this is no JSON object"),
        ('{"start":1,"end":[2]}', "1:1: a cell of a record is no list and no object"),
        (
            '{"start":1,"end":2,"op":"delete","revision":1,"final":null,"old_end":null}',
            "1:1: there is no such record that could change",
        ),
        (
            '{"start":"x","end":2,"op":"insert","revision":1,"final":null,"old_end":null}',
            "start is a time-stamp, not x",
        ),
        (
            '{"start":1,"end":2,"op":"put","revision":1,"final":null,"old_end":null}',
            "op is insert, update or delete, not put",
        ),
    ],
)
def test_errors_in_revisions(line: str, message: str) -> None:
    done = mtlmon("latest", "--format", "jsonl", log=f"{line}\n")
    assert done.status == 2
    assert message in done.errors


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_latest_records_with_texts_of_all_kinds(tmp_path: Path, format: str) -> None:
    """Wherever blocks of the changelog end; and an empty text is not null."""
    texts = ["a\nb", 'q"x', None, "", "12", "z,\r\ny", "\n" * 99, "'"]
    rules, log, changes = (str(tmp_path / one) for one in ("r.mtl", "l.jsonl", f"c.{format}"))
    (tmp_path / "r.mtl").write_text("relation r = rows valid 5 select k as k\n")
    rows = [{"ts": 4 * n, "k": texts[n % len(texts)]} for n in range(4000)]
    (tmp_path / "l.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options = ["--output-format", format]
    whole = mtlmon("query", *options, rules, "r", log).output
    mtlmon("query", "--lateness", "10", *options, "-o", changes, rules, "r", log)
    assert mtlmon("latest", changes).output == whole


def test_latest_records_of_a_changelog_without_revisions() -> None:
    """The header of the records is there all the same."""
    done = mtlmon("latest", "--format", "csv", log="start,end,k,op,revision,final,old_end\n")
    assert (done.status, done.output) == (0, "start,end,k\n")
    done = mtlmon("latest", "--format", "csv", log="start,end,k\n")
    assert done.status == 2
    assert "<stdin>:1:1: a revision of a record has a column op" in done.errors


def test_a_changelog_that_ends_within_quotes() -> None:
    log = 'start,end,k,op,revision,final,old_end\n1,2,"a\n,insert,1,,\n'
    done = mtlmon("latest", "--format", "csv", log=log)
    assert done.status == 2
    assert done.errors == "mtlmon: <stdin>:2:1: a quote is not closed by the end of the changelog\n"


def test_latest_records_of_many_that_are_final_at_once() -> None:
    """All of them are written; and ends that move to and fro leave nothing behind."""
    loop = LatestRecords(path="c", format="jsonl")
    line = '{"start":%s,"end":%s,"op":"%s","revision":%s,"final":%s,"old_end":%s}\n'
    moves = [(8, 9, "update", 3 + 2 * n, 5, 7) for n in range(4000)]
    back = [(8, 7, "update", 4 + 2 * n, 5, 9) for n in range(4000)]
    rows: list[tuple[object, ...]] = [(n, n + 1, "insert", 1, 0, "null") for n in range(40000)]
    rows += [(8, 7, "insert", 2, 5, "null")]
    for pair in zip(moves, back, strict=True):
        rows += pair
    rows += [(50000, "null", "insert", 9000, 45000, "null"), (50000, 50001, "insert", 9001, 1, 1)]
    loop.load(memoryview("".join(line % row for row in rows[:-2]).encode()))
    loop.run()
    assert len(loop._by_end) < 90000
    loop.load(memoryview("".join(line % row for row in rows[-2:]).encode()))
    loop.run()
    assert len(loop.writer.take().splitlines()) == 40001


_REVISION = '{"start":1,"end":3,"k":%s,"op":"insert","revision":1,"final":null,"old_end":null}\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 100000, "this is no JSON object"),
        ((_REVISION % 1).replace("k", "m"), "this revision has other columns than those before"),
    ],
)
def test_lines_that_are_no_revisions_of_the_query(line: str, message: str) -> None:
    done = mtlmon("latest", "--format", "jsonl", log=f"{_REVISION % 1}{line}\n")
    assert (done.status, done.errors) == (2, f"mtlmon: <stdin>:2:1: {message}\n")


def test_latest_records_with_values_of_several_types() -> None:
    log = "".join(_REVISION % one for one in ("1", '"a"', "null", "2.5", '"A"'))
    done = mtlmon("latest", "--format", "jsonl", log=log)
    found = [json.loads(line)["k"] for line in done.output.splitlines()]
    assert found == [1, 2.5, "A", "a", None]
