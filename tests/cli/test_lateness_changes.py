"""Policies on changes of relations where verdicts are corrected."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live
from tests.cli.test_lateness import Command, collapsed
from tests.cli.test_lateness_kills import check_killed_run
from tests.cli.test_lateness_report import text_of

# for the logs of killed runs; `posts` is a table
POLICIES = """\
key user
relation busy  = rows where v > 4 valid 20 group user, host select sum(v) as total
relation asked = rows valid until b or a per host where a select host as host
relation few   = busy where total < 12 select user as user, host as host
relation posts = table "posts.csv" valid [from, to)
policy one on changes of busy: coalesce(busy[user = user.hold(), host = host.hold()].total, 0) < 25
policy two per host on changes of asked: exists asked[host = host.hold()] IMPLIES NEXT[0,9] true
policy three per none on changes of few: count[0,30](exists asked[host = host]) > 9
policy four per none on changes of posts: count[0,5]() > posts[].most IMPLIES exists few[host = "x"]
policy five on every 10: exists few[user = user.hold()] OR EVENTUALLY[0,20] (count[0,9](a) > 0)
trigger six per host on changes of asked: exists asked[host = host.hold()] message "{host} at {ts}"
"""
POSTS = "from,to,most\n0,130,5\n130,290,9\n290,,3\n"

ROOM = """\
unit s
key door
relation sessions = rows valid until kind = "close" per door where kind = "open" select door as door
relation at_once  = sessions group select count() as doors
policy capacity per none on changes of at_once: coalesce(at_once[].doors, 0) < 3
policy brief on changes of sessions: exists sessions[door = door.hold()] IMPLIES NEXT[0,12s] true
policy kinds: kind = "close" IMPLIES kind.last(or: "close") = "open"
"""
# changes of a table are where they are, and see the rows that have come
SHIFTS = """\
relation shifts = table "shifts.csv" valid [from, to)
policy shift per none on changes of shifts: count[0,9s](kind = "open") < 4
policy guard on changes of shifts: exists shifts[door = door.hold()] IMPLIES count[0,9s]() > 1
policy next on changes of shifts: count[0,5s]() > 0 IMPLIES NEXT[0,14s] count[0,5s]() > 0
"""
HEADER = "ts,door,kind\n"


def rows_of(seed: int, count: int = 80) -> list[str]:
    """Rows that come up to eight seconds late, and some that come later."""
    source = random.Random(seed)
    now, rows = 100, []
    for _ in range(count):
        now += source.choice([0, 1, 1, 2])
        stamp = now - (source.randrange(10) if source.random() < 0.4 else 0)
        rows.append(
            f"{stamp},{source.choice('abcd')},{source.choice(['open', 'close', 'knock'])}\n"
        )
    return rows


@pytest.fixture
def room(tmp_path: Path) -> Path:
    path = tmp_path / "room.mtl"
    path.write_text(ROOM)
    return path


@pytest.fixture(params=["tables", "both"])
def rooms(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Policies on changes of relations of tables, and perhaps of rows, too."""
    source = random.Random(4)
    lines = ["from,to,door"]
    for place in range(30):
        begin = 100 + 4 * place + source.randrange(4)
        lines.append(f"{begin},{begin + 1 + source.randrange(20)},{source.choice('abcd')}")
    (tmp_path / "shifts.csv").write_text("\n".join([*lines, ""]))
    path = tmp_path / "room.mtl"
    of_rows = ROOM if request.param != "tables" else "unit s\nkey door\n"
    path.write_text(of_rows + SHIFTS)
    return path


def test_a_run_that_is_killed_comes_to_the_same_changes(tmp_path: Path, command: Command) -> None:
    (tmp_path / "posts.csv").write_text(POSTS)
    check_killed_run(tmp_path, POLICIES, 5, command)


@pytest.mark.parametrize("waits", ["0s", "3s"])
def test_a_live_pipe(waits: str, tmp_path: Path, rooms: Path, command: Command) -> None:
    log, rows = tmp_path / "log.csv", rows_of(1)
    log.write_text(HEADER + "".join(rows))
    ends = ["--end-time", "300"]
    wanted = command("--wait", "8s", *ends, rooms, log)
    with Live("--lateness", "8s", "--wait", waits, *ends, "--format", "csv", str(rooms)) as live:
        live.send(HEADER)
        for row in rows:
            live.send(row)
        done = live.end()
    assert collapsed(done.output) == sorted(wanted.output.splitlines())
    assert done.status == wanted.status == 1


def briefs(*verdicts: str) -> list[str]:
    return [f"brief\ta\t{verdict}" for verdict in verdicts]


def test_changes_follow_the_rows(room: Path) -> None:
    """A late row lets a relation change at other times."""
    with Live("--lateness", "90s", "--verdicts", "boolean", "--format", "csv", str(room)) as live:
        live.send(HEADER)
        for row, lines in (
            ("100,a,open", []),
            ("130,a,close", ["capacity\t\t100:0 true"]),
            ("131,b,knock", ["capacity\t\t130:0 true", *briefs("100:0 false", "130:0 true")]),
            (
                "111,a,close",
                [
                    "capacity\t\t111:0 true",
                    "capacity\t\t!x130:0",
                    *briefs("111:0 true", "!100:0 true", "!x130:0"),
                ],
            ),
            (
                "112,a,open",
                [
                    "capacity\t\t112:0 true",
                    "capacity\t\t!130:0 true",
                    *briefs("112:0 false", "!130:0 true"),
                ],
            ),
        ):
            live.send(f"{row}\n")
            found: list[str] = []
            while len(found) < len(lines):
                line = str(live.read_line())
                found += [] if line.startswith(("!@", "kinds")) else [line]
            assert sorted(found) == sorted(lines)


def test_the_first_violation(tmp_path: Path, rooms: Path, command: Command) -> None:
    """It is that of a run that waits, also if the run goes on from a checkpoint."""
    log, output = tmp_path / "log.csv", tmp_path / "out"
    for seed in range(6):
        rows = rows_of(seed)
        log.write_text(HEADER + "".join(rows))
        options = ["--verdicts", "first", "--end-time", "inf" if seed % 2 else "last"]
        wanted = command("--wait", "8s", *options, rooms, log)
        done = command("--lateness", "8s", *options, rooms, log)
        assert (done.status, done.output) == (wanted.status, wanted.output) != (0, "")
    saved = ["--checkpoint", tmp_path / "saved", "--resume", "-o", output]
    for count in (9, 30, 80):
        log.write_text(HEADER + "".join(rows[:count]))
        done = command("--lateness", "8s", *options, *saved, rooms, log)
        assert done.status in (0, 1), done.errors
    assert (done.status, output.read_text()) == (wanted.status, wanted.output)


def test_a_report_says_what_holds_at_the_end(tmp_path: Path, rooms: Path, command: Command) -> None:
    log, page, wanted = (tmp_path / name for name in ("log.csv", "page.html", "wanted.html"))
    rows = rows_of(2)
    now, admitted = 0, []
    for row in rows:
        stamp = int(row.split(",")[0])
        admitted += [row] if stamp >= now - 8 else []
        now = max(now, stamp)
    log.write_text(HEADER + "".join(sorted(admitted, key=lambda row: int(row.split(",")[0]))))
    assert command("--verdicts", "none", "--report", wanted, rooms, log).status == 1
    with Live("--lateness", "8s", "--format", "csv", "--report", str(page), str(rooms)) as live:
        live.send(HEADER)
        for row in rows:
            live.send(row)
            live.read_line(0.01)
        assert live.end().status == 1
    for name in ("at_once", "sessions", "shifts"):
        is_there = f"changes of {name}:" in rooms.read_text()
        assert (f"changes of {name}" in text_of(page)) == is_there
    first = "Policy capacity:" if "capacity" in rooms.read_text() else "Policy shift:"
    texts = [text_of(one).split(first)[0] for one in (page, wanted)]
    counts = [
        [part.split(" events ")[0].split("false ")[1].split()[0:5] for part in parts[1:]]
        for parts in (text.split("severity") for text in texts)
    ]
    assert counts[0] == counts[1]


def test_time_passes_while_a_pipe_is_silent(tmp_path: Path) -> None:
    """A session is over though nobody comes by, and then it was not."""
    file = tmp_path / "p.mtl"
    file.write_text(
        "unit s\nrelation slow = rows where v < 40 valid 1s group select count() as cars\n"
        "policy over on changes of slow: exists slow[]\n"
    )
    now = int(time.time())
    with Live("--lateness", "20s", "--idle", "300ms", "--format", "csv", str(file)) as live:
        live.send(f"ts,v\n{now},10\n")

        def read() -> str:
            while (line := str(live.read_line())).startswith("!@"):
                pass
            return line

        assert read() == f"over\t{now}:0 true"
        assert read() == f"over\t{now + 1}:0 false"
        live.send(f"{now},20\n")
        live.send(f"{now + 1},20\n")
        found = [read(), read()]
        assert found == [f"over\t!{now + 1}:0 true", f"over\t{now + 2}:0 false"]


def test_tables_change_while_a_pipe_is_silent(tmp_path: Path) -> None:
    """A row that is late by then is counted at the change that time has passed."""
    file, now = tmp_path / "p.mtl", int(time.time())
    (tmp_path / "shifts.csv").write_text(f"from,to\n{now + 1},{now + 2}\n{now + 900},\n")
    file.write_text(
        'unit s\nrelation shifts = table "shifts.csv" valid [from, to)\n'
        "policy quiet on changes of shifts: NOT exists shifts OR count[0,5s]() > 1\n"
    )
    with Live("--lateness", "20s", "--idle", "300ms", "--format", "csv", str(file)) as live:
        live.send(f"ts,v\n{now},1\n")

        def read() -> str:
            while (line := str(live.read_line())).startswith("!@"):
                pass
            return line

        assert read() == f"quiet\t{now + 1}:0 false"
        assert read() == f"quiet\t{now + 2}:0 true"
        live.send(f"{now + 1},2\n")
        assert read() == f"quiet\t!{now + 1}:0 true"


def test_rows_of_changes_and_explanations(tmp_path: Path, room: Path, command: Command) -> None:
    log, ordered = tmp_path / "log.csv", tmp_path / "ordered.csv"
    rows = ["100,a,open\n", "130,b,open\n", "120,a,close\n", "150,c,open\n"]
    log.write_text(HEADER + "".join(rows))
    ordered.write_text(HEADER + "".join(sorted(rows)))
    wanted = command("--rows", room, ordered)
    done = command("--lateness", "60s", "--rows", room, log)
    place = {row: number for number, row in enumerate(rows, 2)}
    numbers = {f"ordered.csv:{k}": f"log.csv:{place[row]}" for k, row in enumerate(sorted(rows), 2)}
    lines = wanted.output
    for name, other in numbers.items():
        lines = lines.replace(name, f"\0{other}")
    found = [line for line in done.output.splitlines() if "!@" not in line]
    assert sorted(found) == sorted(lines.replace("\0", "").splitlines())
    done = command("--lateness", "60s", "--verdicts", "none", "--explain", room, log)
    assert "100:0 violates exists sessions[door = door.hold()] IMPLIES" in done.errors


@pytest.mark.parametrize("start", [0, 10])
@pytest.mark.parametrize("end", [[], ["--end-time", "last"], ["--end-time", "inf"]])
def test_changes_at_the_last_time_stamp(
    start: int, end: list[str], tmp_path: Path, command: Command
) -> None:
    """More may happen then, unless it is known that nothing does: also at time-stamp 0."""
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text(
        "key k\nrelation sums = rows valid 7 group k select count() as n\n"
        "policy a on changes of sums: count[0,9](p) < 2\n"
    )
    log.write_text(f"ts,k,p\n{start},a,true\n")
    wanted = f"a\ta\t{start}:0 true\n" if end else ""
    for more in ([], ["--lateness", "0"], ["--lateness", "4"]):
        done = command("--verdicts", "all", *end, *more, policies, log)
        lines = [line for line in done.output.splitlines(keepends=True) if "!@" not in line]
        assert "".join(lines) == wanted
