"""The rows of verdicts that are corrected: --rows with --lateness."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.checking import late_origins
from tests.cli.process import Live
from tests.cli.test_lateness import Command

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
            ("105,x,true,false,+,r2", ["one\tx\t100:0 false\tstdin:1"]),
            (
                "103,x,true,true,+,r3",
                ["one\tx\t!100:0 true\tstdin:1", "one\tx\t103:0 false\tstdin:3"],
            ),
            # corrected: it is another row, of another time-point
            ("105,x,true,true,+,r2", ["one\tx\t!103:0 true\tstdin:3"]),
            ("0,x,,,-,r3", ["one\tx\t!x103:0\tstdin:3"]),
            ("105,x,true,true,-,r2", ["one\tx\t!100:0\tstdin:1"]),
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
        rows = [1, 2, 3, 6]
        assert [line for line in done.output.splitlines() if "!" not in line] == [
            f"one\t{name}\t{log}:{row}" for name, row in zip(names, rows, strict=True)
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
