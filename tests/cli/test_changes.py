"""Policies on changes of relations by the command: pipes, kills, outputs, and what is refused."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.kills import check_killed_runs
from tests.cli.process import Live, mtlmon

if TYPE_CHECKING:
    from pathlib import Path

ROOM = """unit s
key door
relation sessions = rows valid until kind = "close" per door where kind = "open" select door as door
relation at_once  = sessions group select count() as doors
relation limits   = table "limits.csv" valid [from, to)
policy capacity "not too many" per none on changes of at_once severity high:
    coalesce(at_once[].doors, 0) < 4
policy brief on changes of sessions: exists sessions[door = door.hold()] IMPLIES NEXT[0,9s] true
policy within per none on changes of limits: count[0,5s]() < limits[].most
policy free per none on changes of sessions: not exists sessions[door = "a"]
policy alive on every 10s: exists sessions[door = door.hold()]
policy kinds: kind = "open" OR kind = "close"
trigger open on changes of sessions: exists sessions[door = door.hold()] message "{door} at {ts}"
"""
LIMITS = "from,to,most\n0,40,5\n40,120,9\n120,,3\n"
HEADER = "ts,door,kind\n"


def log_of(seed: int, count: int, until: int = 200) -> list[str]:
    chance = random.Random(seed)
    times = sorted(chance.randrange(until) for _ in range(count))
    kinds = ["open", "open", "close", "knock"]
    return [f"{ts},{chance.choice('abcdef')},{chance.choice(kinds)}\n" for ts in times]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "limits.csv").write_text(LIMITS)
    (tmp_path / "room.mtl").write_text(ROOM)
    (tmp_path / "log.csv").write_text(HEADER + "".join(log_of(1, 150)))
    return tmp_path


def test_a_pipe_and_rows_that_come_late(folder: Path) -> None:
    policies, path = str(folder / "room.mtl"), folder / "log.csv"
    wanted = mtlmon(policies, str(path))
    assert wanted.status == 1
    lines = wanted.output.splitlines()
    for name in ("capacity", "brief", "within", "open"):
        ends = {line.rpartition(" ")[2] for line in lines if line.split("\t")[0] == name}
        assert ends == {"true", "false"}, name
    piped = mtlmon("--format", "csv", policies, log=path.read_text())
    assert piped.output == wanted.output
    rows = path.read_text().splitlines(keepends=True)[1:]
    moved = [row for place in range(0, len(rows), 5) for row in rows[place : place + 5][::-1]]
    by_time = sorted(moved, key=lambda row: int(row.split(",")[0]))
    for option in (["--wait", "200s"], ["--sort"]):
        (folder / "moved.csv").write_text(HEADER + "".join(moved))
        (folder / "sorted.csv").write_text(HEADER + "".join(by_time))
        found = mtlmon(*option, policies, str(folder / "moved.csv"))
        assert found.output == mtlmon(policies, str(folder / "sorted.csv")).output


def test_a_pipe_sees_changes_as_soon_as_time_has_passed_them(folder: Path) -> None:
    (folder / "slow.mtl").write_text(
        "relation slow = rows where v < 40 valid 10 group road select count() as n\n"
        "policy over per road on changes of slow: exists slow[road.hold()]\n"
    )
    with Live("--format", "csv", str(folder / "slow.mtl")) as live:
        live.send("ts,road,v\n0,a,10\n")
        live.send("3,b,90\n")
        assert live.read_line() == "over\ta\t0:0 true"
        live.send("11,b,90\n")
        assert live.read_line() == "over\ta\t10:0 false"
        assert live.end().status == 1


def test_killed_runs(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text(LIMITS)
    policies, log, output = tmp_path / "room.mtl", tmp_path / "log.csv", tmp_path / "output"
    policies.write_text(ROOM)
    log.write_text(HEADER + "".join(log_of(5, 2_000, 800)))
    arguments = ["--summary", "--format", "csv", "-o", str(output), str(policies)]
    expected, _ = check_killed_runs(arguments, log, output, random.Random(4), every="100", kills=2)
    assert expected.status == 1


def test_a_log_that_grows(folder: Path) -> None:
    rows = log_of(3, 150)
    path, output = folder / "log.csv", folder / "output"
    policies = str(folder / "room.mtl")
    options = ["--checkpoint", str(folder / "state"), "--resume", "-o", str(output)]
    options += ["--checkpoint-every", "10", policies, str(path)]
    path.write_text(HEADER + "".join(rows))
    wanted = mtlmon(policies, str(path)).output
    # in the middle of rows of one time-stamp
    for count in (40, 41, 90, 150):
        path.write_text(HEADER + "".join(rows[:count]))
        ended = mtlmon(*options)
        assert ended.status == 1, ended.errors
    assert output.read_text() == wanted


@pytest.mark.parametrize("verdicts", ["first", "false", "none"])
def test_fewer_verdicts(folder: Path, verdicts: str) -> None:
    policies, path = str(folder / "room.mtl"), str(folder / "log.csv")
    wanted = mtlmon("--resolve", policies, path).output.splitlines()
    false = [line for line in wanted if line.endswith("false")]
    found = mtlmon("--verdicts", verdicts, "--resolve", "--summary", policies, path)
    lines = found.output.splitlines()
    if verdicts == "first":
        times = [int(line.split("\t")[2].partition(":")[0]) for line in false]
        assert [int(line.split("\t")[2].partition(":")[0]) for line in lines] == [min(times)]
        return
    assert lines == (false if verdicts == "false" else [])
    capacity = [line for line in wanted if line.startswith("capacity")]
    counts = next(line for line in found.errors.splitlines() if line.startswith("capacity"))
    assert counts.split()[1:3] == [
        str(sum(line.endswith(end) for line in capacity)) for end in ("true", "false")
    ]


def test_outputs_and_explanations(folder: Path) -> None:
    policies, path = str(folder / "room.mtl"), str(folder / "log.csv")
    options = [
        "--output-format",
        "jsonl",
        "--verdicts",
        "false",
        "--explain",
        "--explain-limit",
        "12",
    ]
    ended = mtlmon(*options, policies, path)
    found = [json.loads(line) for line in ended.output.splitlines()]
    opened = [one for one in found if one["policy"] == "open"]
    assert opened
    assert all(one["message"] == f"{one['door']} at {one['time']}" for one in opened)
    assert f"the last row was {path}:" in ended.errors
    assert "policy free\n" in ended.errors
    report = folder / "report.html"
    mtlmon("--report", str(report), "--verdicts", "none", policies, path)
    assert "changes of at_once" in report.read_text()
    checked = mtlmon("check-policy", policies)
    assert "on changes of sessions" in checked.output
    analyzed = mtlmon("analyze", policies, path)
    assert "policy capacity: changes of at_once of the log" in analyzed.output
    assert "trigger open: changes of sessions of each door" in analyzed.output
    shown = mtlmon("--explain-formula", policies)
    assert "on changes of at_once" in shown.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lateness", "5s", "--clock", "key"], "work with ticks, as in policy capacity"),
        (["--key", "kind"], "kind is not a column of relation sessions"),
    ],
)
def test_options_that_are_refused(folder: Path, options: list[str], message: str) -> None:
    ended = mtlmon(*options, str(folder / "room.mtl"), str(folder / "log.csv"))
    assert ended.status == 2
    assert message in ended.errors


def test_text_logs_have_changes_of_tables_alone(folder: Path) -> None:
    text = 'relation limits = table "limits.csv" valid [from, to)\nrelation r = rows valid 5\n'
    (folder / "text.mtl").write_text(f"{text}policy p on changes of limits: any[0,5](a)\n")
    ended = mtlmon("--end-time", "150", str(folder / "text.mtl"), log="@1 a\n@37 a\n")
    assert ended.output == "p\t40:0 true\np\t120:0 false\n"
    with Live("--lateness", "100", str(folder / "text.mtl")) as live:
        for line, said in (("1 a", None), ("130", "40:0 false"), ("37 a", "!40:0 true")):
            live.send(f"@{line}\n")
            while said is not None and live.read_line() != f"p\t{said}":
                pass
        assert live.end().status == 1
    (folder / "text.mtl").write_text(f"{text}policy p on changes of r: any[0,5](a)\n")
    ended = mtlmon(str(folder / "text.mtl"), log="@1 a\n")
    assert ended.status == 2
    assert "text.mtl:2:10: relation r reads the rows of the log, but the log" in ended.errors
