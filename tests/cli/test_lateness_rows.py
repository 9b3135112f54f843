"""The rows of verdicts that are corrected: --rows with --lateness."""

from __future__ import annotations

import csv
import json
import random
import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live
from tests.cli.test_lateness import Command
from tests.doors import checking_late_origins as late_origins

POLICIES = """\
key user
policy one: a IMPLIES EVENTUALLY[0,5] b
policy two per host on rows where a: NEXT[0,3] b
policy three per none: count[0,9](a) < 4
"""
HEAD = "ts,user,host,a,b\n"


def rows_of(seed: int, count: int = 60) -> list[str]:
    source = random.Random(seed)
    now = 100
    rows = []
    for _ in range(count):
        now += source.choice([0, 0, 1, 2])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        held = ",".join(source.choice(["true", "false"]) for _ in "ab")
        rows.append(f"{stamp},{source.choice('xyz')},{source.choice('gh')},{held}\n")
    return rows


def latest_of(lines: list[str]) -> list[str]:
    """The lines that hold at last: a change is about the row of the line that it replaces."""
    last: dict[tuple[str, ...], str | None] = {}
    rows: dict[tuple[str, ...], str] = {}
    for line in lines:
        if line.startswith("!@") or "\t!@" in line:
            continue
        *fields, verdict, row = line.split("\t")
        name, _, value = verdict.partition(" ")
        name = name.removeprefix("!").removeprefix("x")
        key = (*fields, name)
        assert rows.setdefault(key, row) == row, line
        assert (key in last) == verdict.startswith("!")
        last[key] = "\t".join([*fields, f"{name} {value}", row]) if value else None
    return sorted(line for line in last.values() if line is not None)


@pytest.mark.parametrize("form", ["text", "csv", "jsonl"])
def test_rows_are_those_of_rows_in_order(
    form: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_origins, "_SPARE_ROWS", 4)
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text(POLICIES)
    for seed in range(4):
        rows = rows_of(seed)
        options = ["--rows", "--end-time", "last", "--resolve"]
        log.write_text(HEAD + "".join(rows))
        wanted = command("--wait", 6, *options, file, log)
        saved, output = tmp_path / f"saved{seed}", tmp_path / f"out{seed}"
        more = ["--lateness", 6, "--wait", seed, "--output-format", form, "-o", output]
        for count in (7, 8, 30, len(rows)):
            # what is read at once is a batch
            log.write_text(HEAD + "".join(rows[:count]))
            end = options if count == len(rows) else [options[0], options[3]]
            kept = ["--checkpoint", saved, "--resume"]
            done = command(*more, *end, *kept, file, log)
            assert done.status in (0, 1), done.errors
        lines = output.read_text().splitlines()
        if form == "text":
            assert latest_of(lines) == sorted(wanted.output.splitlines())
            continue
        if form == "csv":
            import pyarrow.csv

            found = pyarrow.csv.read_csv(output).to_pylist()
        else:
            found = [json.loads(line) for line in lines]
        columns = ("policy", "user", "host", "time", "offset")
        last = {tuple(row[name] or "" for name in columns): row for row in found}
        values = []
        for row in last.values():
            key = "\t".join(row[name] or "" for name in columns[:3])
            verdict = f"{row['time']}:{row['offset']} {str(row['verdict']).lower()}"
            if row["op"] != "delete":
                values.append(f"{key}\t{verdict}\t{row['file']}:{row['row']}")
        assert sorted(values) == sorted(wanted.output.splitlines())


def test_each_change_has_the_row_of_its_time_point(tmp_path: Path) -> None:
    file = tmp_path / "p.mtl"
    file.write_text("key user\npolicy one on rows where a: NEXT[0,9] b\n")
    options = ["--lateness", "60", "--op", "op", "--id", "id", "--format", "csv", "--rows"]
    with Live(*options, str(file)) as live:
        live.send("ts,user,a,b,op,id\n")
        for row, lines in (
            ("100,x,true,false,+,r1", []),
            ("105,x,true,false,+,r2", ["one\tx\t100:0 false\t<stdin>:2"]),
            (
                "103,x,true,true,+,r3",
                ["one\tx\t!100:0 true\t<stdin>:2", "one\tx\t103:0 false\t<stdin>:4"],
            ),
            # corrected: it is another row, of another time-point
            ("105,x,true,true,+,r2", ["one\tx\t!103:0 true\t<stdin>:4"]),
            ("0,x,,,-,r3", ["one\tx\t!x103:0\t<stdin>:4"]),
            ("105,x,true,true,-,r2", ["one\tx\t!100:0\t<stdin>:2"]),
        ):
            live.send(f"{row}\n")
            for line in lines:
                while (found := str(live.read_line())).startswith("!@"):
                    pass
                assert found == line


def test_equal_rows_are_told_apart(tmp_path: Path, command: Command) -> None:
    """Of equal rows the last one is taken back."""
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text("policy one: NOT a\n")
    for wait in (0, 60):
        log.write_text(
            "ts,op,a\n100,+,true\n100,+,false\n100,+,true\n100,+,true\n100,-,true\n101,+,true\n"
        )
        done = command("--lateness", 60, "--wait", wait, "--op", "op", "--rows", file, log)
        names = ["100:0 false", "100:1 true", "100:2 false", "101:0 false"]
        rows = [2, 3, 4, 7]
        assert [line for line in done.output.splitlines() if "!" not in line] == [
            f"one\t{name}\t{log}:{row}" for name, row in zip(names, rows, strict=True)
        ]


@pytest.mark.parametrize("policy", ["policy one: NOT a", "policy one: FORALL u. NOT p(u)"])
def test_rows_that_are_taken_back_while_they_wait(
    policy: str, tmp_path: Path, command: Command
) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    atom = "atom p(host) = what" if "FORALL" in policy else "atom a = what"
    file.write_text(f"{atom}\n{policy}\n")
    for rows, options, row in (
        (["+,", "-,", "+,"], ["--op", "op"], 4),
        (["+,", "+,", "-,"], ["--op", "op"], 2),
        (["+,i", "+,j", "-,i"], ["--op", "op", "--id", "id"], 3),
        (["+,i", "+,j", "-,j"], ["--op", "op", "--id", "id"], 2),
        (["+,i", "+,i", "-,j", "+,j"], ["--op", "op", "--id", "id"], 2),
        (["+,i", "-,i", "+,i"], ["--op", "op", "--id", "id"], 4),
    ):
        log.write_text("ts,what,host,op,id\n" + "".join(f"100,true,h,{row}\n" for row in rows))
        for wait in (0, 60):
            shown = ["--lateness", 60, "--wait", wait, "--rows", "--verdicts", "false"]
            done = command(*shown, *options, file, log)
            (line,) = (line for line in done.output.splitlines() if not line.startswith("!"))
            assert line.startswith("one\t100:")
            assert line.endswith(f"\t{log}:{row}")


def test_a_tick_at_the_time_of_a_row_has_no_row(tmp_path: Path, command: Command) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text("policy one on every 5: count[0,4]() < 1\npolicy two: n < 1\n")
    log.write_text("ts,n\n105,1\n104,0\n112,2\n")
    done = command("--lateness", 9, "--rows", "--end-time", "last", file, log)
    lines = [line for line in done.output.splitlines() if "!" not in line]
    assert lines == [
        "one\t105:0 false",
        "one\t110:0 true",
        f"two\t104:0 true\t{log}:3",
        f"two\t105:0 false\t{log}:2",
        f"two\t112:0 false\t{log}:4",
    ]


def test_lines_of_a_text_log(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log"
    log.write_text("# a comment\n@100 p\n\n@107\n@102 q\n@107 p\n")
    done = command("--lateness", 20, "--rows", "-e", "p IMPLIES EVENTUALLY[0,5] q", log)
    assert done.output.splitlines() == [
        f"100:0 true\t{log}:2",
        f"102:0 true\t{log}:5",
        f"107:0 true\t{log}:4",
        "!@82",
    ]
    done = command("--lateness", 20, "--clock", "key", "--rows", "-e", "p", log)
    assert done.output.splitlines()[0] == f"100:0 true\t{log}:2"


VARIABLES = """\
policy approved: FORALL u, f. publish(u, f) IMPLIES ONCE[0,9] approve(f)
policy soon: FORALL f. approve(f) IMPLIES EVENTUALLY[0,4] EXISTS u. publish(u, f)
find both: publish(u, f) AND (ONCE[1,9] publish(v, f)) AND NOT u = v
"""
ATOMS = """\
time "ts"
atom publish(user: text, file: text) = what = "publish"
atom approve(file: text) = what = "approve"
"""


def answers_that_hold(output: Path, form: str) -> list[tuple[str, ...]]:
    """The policy, name and values of the answers that hold at last, and their rows."""
    live: dict[tuple[str, ...], None] = {}
    if form == "csv":
        for line in csv.DictReader(output.read_text().splitlines()):
            values = ", ".join(f"{name}={line[name]}" for name in "ufv" if line[name])
            name = f"{line['time']}:{line['offset']} match" + (f" ({values})" if values else "")
            if line["policy"] != "both":
                name = name.replace("match", line["verdict"])
            row = line["policy"], name, f"{line['file']}:{line['row']}"
            if line["op"] == "insert":
                live[row] = None
            else:
                del live[row]
        return sorted(live)
    for text in output.read_text().splitlines():
        if text.startswith("!@"):
            continue
        policy, verdict, place = text.split("\t")
        row = policy, verdict.removeprefix("!").removeprefix("x"), place
        if verdict.startswith("!x"):
            del live[row]
        else:
            assert row not in live
            live[row] = None
    return sorted(live)


def log_of(kind: str, source: random.Random) -> tuple[list[str], list[int]]:
    """The rows of a log, and the places of those that are not taken back."""
    now, rows, kept = 100, [], []
    for _ in range(60):
        now += source.choice([0, 0, 1, 2])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        user, name = source.choice("ab"), source.choice("fgh")
        what = source.choice(["publish", "approve"])
        if kind == "log":
            rows.append(f"@{stamp} {what}({f'{user}, ' if what == 'publish' else ''}{name})\n")
        else:
            rows.append(f"{stamp},{what},{user},{name},+\n")
        if kind == "op" and source.random() < 0.3:
            # of equal rows, the last one is taken back
            rows.append(rows[-1].replace("+", "-"))
        else:
            kept.append(len(rows) - 1)
    return rows, kept


@pytest.mark.parametrize(
    ("kind", "form"), [("log", "text"), ("csv", "csv"), ("stamp", "text"), ("op", "text")]
)
def test_answers_have_the_rows_of_their_time_points(
    kind: str, form: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_origins, "_SPARE_ROWS", 4)
    file, log = tmp_path / "p.mtl", tmp_path / ("log" if kind == "log" else "log.csv")
    head = "" if kind == "log" else "ts,what,user,file,op\n"
    file.write_text((ATOMS if head else "") + VARIABLES)
    source = random.Random(kind)
    rows, kept = log_of(kind, source)
    options = ["--rows", "--verdicts", "all"]
    if kind == "stamp":
        options += ["--time-points", "stamp"]
    log.write_text(head + "".join(rows[place] for place in kept))
    wanted = command("--wait", 9, *options, "--end-time", "last", file, log).output.splitlines()
    saved, output = tmp_path / "saved", tmp_path / "out"
    more = ["--lateness", 9, "--wait", 0 if kind == "op" else 2, "--output-format", form]
    more += ["-o", output, "--checkpoint", saved, "--resume"]
    if kind == "op":
        more += ["--op", "op"]
    for count in (7, 8, 30, len(rows)):
        log.write_text(head + "".join(rows[:count]))
        end = ["--end-time", "last"] if count == len(rows) else []
        done = command(*more, *options, *end, file, log)
        assert done.status in (0, 1), done.errors
    found = answers_that_hold(output, form)
    expected = sorted(tuple(line.split("\t")) for line in wanted)
    if kind == "op":
        # rows that were taken back have had names, and lines
        pattern = re.compile(r":\d+ ")
        found = [(policy, pattern.sub(" ", name), row) for policy, name, row in found]
        expected = [
            (policy, pattern.sub(" ", name), f"{log}:{kept[int(row.rpartition(':')[2]) - 2] + 2}")
            for policy, name, row in expected
        ]
    assert sorted(found) == sorted(expected)


def test_a_time_point_of_several_rows_has_the_first_of_them(
    tmp_path: Path, command: Command
) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log.csv"
    file.write_text(ATOMS + VARIABLES)
    log.write_text("ts,what,user,file,op\n1,publish,a,f,+\n")
    options = ["--lateness", 9, "--rows", "--time-points", "stamp", "--op", "op"]
    done = command(*options, file, log)
    assert done.status == 2
    assert "another one if that row is taken back" in done.errors
