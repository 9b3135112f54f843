"""Late rows that later rows count: --lateness with windows and streams."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cli.process import Live
from tests.cli.test_lateness import Command, collapsed, late_events, line_of, text_of
from tests.reference.late import judged_and_refused

TEXTS = """\
stream asks = count[0,4](ask)
policy few: asks < 3
policy answered: (count[0,9](stop) >= 2) IMPLIES EVENTUALLY[0,5] reply
policy early: (ts < 130) OR (ask SINCE[0,9] reply)
policy chosen on rows where count[0,6](reply) >= 2: NEXT[0,4] ask
"""

RELATIONS = """\
key host
event "what"
relation busy   = rows valid 9 group user select avg(millis) as spent, count() as n
relation failed_at = rows valid 12 where what = "failed" select host as host
policy calm: coalesce(busy[user].spent, 0) < 400
policy slow on rows where failed: busy[user].n < 4 IMPLIES EVENTUALLY[0,5] ok
policy user per user: count[0,6](exists failed_at[host]) < 3
"""

TABLE = """\
key host
event "what"
stream fails = count[0,20](failed)
stream spent = spent.last(or: 0) + millis
policy brute "fewer than 8 failures": fails < 8
policy calm per none: spent < 9000
policy slow on rows where failed: avg[0,9](millis) < 300 IMPLIES EVENTUALLY[0,5] ok
policy user per user: max[1,8](millis, or: 0) < 500
"""


def test_the_changes_of_each_line_of_a_text_log(tmp_path: Path) -> None:
    policies = tmp_path / "p.mtl"
    policies.write_text("unit s\npolicy brute: count[0,2m](failed) < 3\n")
    with Live("--lateness", "5m", str(policies)) as live:
        for text, lines in (
            ("@1000 failed\n", ["brute\t1000:0 true", "!@700"]),
            ("@1110 failed\n", ["brute\t1110:0 true", "!@810"]),
            ("@1230\n", ["brute\t1230:0 true", "!@930"]),
            ("@1060 failed\n", ["brute\t1060:0 true", "brute\t!1110:0 false"]),
            ("@1150 failed\n", ["brute\t1150:0 false"]),
            ("@1160 failed\n", ["brute\t1160:0 false", "brute\t!1230:0 false"]),
        ):
            live.send(text)
            assert sorted(str(live.read_line()) for _ in lines) == sorted(lines)
        assert live.end().status == 1


def test_a_text_log(tmp_path: Path, command: Command) -> None:
    """Read at once, and line by line."""
    policies, log, ordered = (tmp_path / name for name in ("p.mtl", "log", "ordered"))
    policies.write_text(TEXTS)
    for seed, end in ((1, "last"),):
        events = late_events(seed)
        log.write_text(text_of(events))
        rows = [(event.time_stamp, line_of(event)) for event in events]
        judged, refused = judged_and_refused(rows, 6)
        ordered.write_text("".join(f"{row}\n" for _, row in judged))
        wanted = command("--end-time", end, policies, ordered)
        done = command("--lateness", "6", "--end-time", end, policies, log)
        assert collapsed(done.output) == sorted(wanted.output.splitlines()), done.errors
        with Live("--lateness", "6", "--end-time", end, str(policies)) as live:
            for line in text_of(events).splitlines(keepends=True):
                live.send(line)
            done = live.end()
        assert collapsed(done.output) == sorted(wanted.output.splitlines())
        assert done.status == wanted.status
        assert f"{len(refused)} line" in done.errors


@pytest.mark.parametrize("clock", ["all", "key"])
def test_a_live_table(clock: str, tmp_path: Path, command: Command) -> None:
    """Also with times to wait; mtlmon latest makes of the changes what a sorted log has."""
    policies, sorted_log, changes = (tmp_path / name for name in ("p.mtl", "s.csv", "changes"))
    policies.write_text(TABLE)
    source = random.Random(clock)
    rows = []
    now = 100
    for _ in range(80):
        now += source.choice([0, 0, 1, 2])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        cells = f"{source.choice(['a,b', 'c'])!r}".replace("'", '"'), source.choice("xy")
        what, millis = source.choice(["failed", "failed", "ok"]), source.choice([20, 900, 300])
        rows.append((stamp, f"{stamp},{cells[0]},{cells[1]},{what},{millis}"))
    header = "ts,host,user,what,millis\n"
    sorted_log.write_text(
        header + "".join(f"{row}\n" for _, row in sorted(rows, key=lambda r: r[0]))
    )
    wanted = command("--end-time", "last", policies, sorted_log)
    options = ["--lateness", "9", "--clock", clock, "--end-time", "last", "--format", "csv"]
    for wait in ("0", "3"):
        with Live(*options, "--wait", wait, str(policies)) as live:
            live.send(header)
            for _, row in rows:
                live.send(f"{row}\n")
            done = live.end()
        changes.write_text(done.output)
        assert done.status == wanted.status == 1, done.errors
        latest = command("latest", changes)
        assert sorted(latest.output.splitlines()) == sorted(wanted.output.splitlines())


@pytest.mark.parametrize("waits", ["0", "4"])
def test_relations_of_a_live_table(waits: str, tmp_path: Path, command: Command) -> None:
    """A relation is over all keys: a late row changes what the rows of others find."""
    policies, sorted_log, changes = (tmp_path / name for name in ("p.mtl", "s.csv", "changes"))
    policies.write_text(RELATIONS)
    source = random.Random(waits)
    rows = []
    now = 100
    for _ in range(80):
        now += source.choice([0, 0, 1, 2])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        cells = source.choice("abc"), source.choice("xy"), source.choice(["failed", "ok"])
        rows.append((stamp, f"{stamp},{','.join(cells)},{source.choice([20, 900, 300])}\n"))
    header = "ts,host,user,what,millis\n"
    sorted_log.write_text(header + "".join(row for _, row in sorted(rows, key=lambda r: r[0])))
    wanted = command("--end-time", "last", policies, sorted_log)
    options = ["--lateness", "9", "--wait", waits, "--end-time", "last", "--format", "csv"]
    with Live(*options, str(policies)) as live:
        live.send(header)
        for _, row in rows:
            live.send(row)
        done = live.end()
    changes.write_text(done.output)
    assert done.status == wanted.status == 1, done.errors
    latest = command("latest", changes)
    assert sorted(latest.output.splitlines()) == sorted(wanted.output.splitlines())


def test_clocks_of_keys_and_relations_of_rows(tmp_path: Path, command: Command) -> None:
    policies = tmp_path / "p.mtl"
    policies.write_text(RELATIONS)
    log = tmp_path / "log.csv"
    log.write_text("ts,host,user,what,millis\n")
    done = command("--lateness", "9", "--clock", "key", policies, log)
    assert done.status == 2
    assert (
        "--clock key does not work with relations made of rows of the log, as busy" in done.errors
    )


def test_a_record_with_another_end(tmp_path: Path, command: Command) -> None:
    """A late row closes a record; once it is taken back, the record has its former end."""
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text(
        'event "what"\n'
        'relation open = rows valid until what = "stop" per door where what = "start" '
        "select door as door\n"
        "policy shut: NOT exists open[door]\n"
    )
    log.write_text(
        "ts,op,id,door,what\n100,+,r1,a,start\n110,+,r2,a,ok\n120,+,r3,b,ok\n130,+,r4,a,ok\n"
        "105,+,r5,a,stop\n0,-,r5,,\n108,+,r6,a,stop\n0,-,r6,,\n115,+,r7,a,stop\n"
    )
    options = ["--lateness", 300, "--op", "op", "--id", "id", "--end-time", "last"]
    done = command(*options, policies, log)
    assert collapsed(done.output) == [
        "shut\t100:0 false",
        "shut\t110:0 false",
        "shut\t115:0 true",
        "shut\t120:0 true",
        "shut\t130:0 true",
    ]


def test_rows_that_are_taken_back(tmp_path: Path, command: Command) -> None:
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text('event "what"\npolicy few: count[0,60](failed) < 3\n')
    log.write_text(
        "ts,op,id,what\n100,+,r1,failed\n110,+,r2,failed\n130,+,r3,failed\n"
        "0,-,r2,\n150,+,r4,failed\n105,+,r4,failed\n200,advance,,\n"
    )
    done = command("--lateness", 300, "--op", "op", "--id", "id", policies, log)
    assert collapsed(done.output) == ["few\t100:0 true", "few\t105:0 true", "few\t130:0 false"]
    assert done.status == 1


def test_an_overflow_is_an_error(tmp_path: Path, command: Command) -> None:
    """With both ways to treat errors, as a late row may cause it in rows that have verdicts."""
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text("policy few: sum[0,60](n) < 3\n")
    log.write_text(f"ts,n\n100,{2**62}\n110,{2**62}\n")
    for choice in ("stop", "skip"):
        done = command("--lateness", 300, "--on-error", choice, policies, log)
        assert done.status == 2
        assert "at time-stamp 110: sum" in done.errors
        assert "cannot be left out where verdicts are corrected" in done.errors


def test_another_log_is_noticed(tmp_path: Path, command: Command) -> None:
    """Also if only a column differs that streams read."""
    policies, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    policies.write_text("policy few: sum[0,60](n) < 3\n")
    files = ["--checkpoint", tmp_path / "c", "--resume", "-o", tmp_path / "out"]
    for amount, status in ((1, 0), (1, 0), (2, 2)):
        log.write_text(f"ts,n\n100,{amount}\n110,1\n")
        done = command("--lateness", 300, *files, policies, log)
        assert done.status == status, done.errors
    assert "log" in done.errors
