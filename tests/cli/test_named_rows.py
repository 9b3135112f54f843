"""Rows in explanations and reports: the file and the line, for each format and each order.

What is expected is found in the files as a person finds it: by looking for the text of the row.
"""

from __future__ import annotations

import gzip
import json
import re
from html import unescape
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from pyarrow import parquet

from tests.cli.process import Ended, shell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., Ended]

RULES = """\
unit s
stream fails = count[0,1m](status = 401)
policy few: fails < 7
"""
# time, status and what is unique in a row; the seventh failure is the violation
EVENTS = [(k, 401 if k % 3 else 200, f"row-{k}") for k in range(11)]
FAILED = [row for _, status, row in EVENTS if status == 401]


def written(kind: str, events: list[tuple[int, int, str]]) -> str:
    """A log of events with lines that are no events."""
    if kind == "csv":
        cells = [f'{time},{status},"{row}\n\n  more"\n\n' for time, status, row in events]
        return "\n" + "".join(["ts,status,what\n", *cells])
    if kind == "jsonl":
        rows = ({"ts": time, "status": status, "what": row} for time, status, row in events)
        return "".join(f"\n{json.dumps(row)}\n" for row in rows)
    if kind == "lines":
        return "".join(f"starting\n{time} {row} {status}\n" for time, status, row in events)
    assert kind == "text"
    return "".join(
        f"# {row}?\n@{time} {'fail' if status == 401 else 'ok'} {row}\n"
        for time, status, row in events
    )


def line_of(path: Path, row: str) -> str:
    """The file and the line with the text of a row."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    found = [
        number
        for number, line in enumerate(text.split("\n"), 1)
        if re.search(rf"{row}\b(?!\?)", line)
    ]
    assert len(found) == 1
    return f"{path}:{found[0]}"


def shown_rows(errors: str) -> tuple[str, list[str]]:
    """The row of the only violation that is explained, and those of its window."""
    (row,) = re.findall(r"(?m)^at (.*)$", errors)
    (rows,) = re.findall(r"(?m)^fails was 7: (.*)$", errors)
    return row, rows.split(", ")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.mtl"
    path.write_text(RULES)
    return path


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "lines"])
def test_tables(command: Command, tmp_path: Path, rules: Path, kind: str, is_packed: bool) -> None:
    paths = []
    for number, events in enumerate((EVENTS[:6], EVENTS[6:])):
        path = tmp_path / f"{number}.{kind}{'.gz' if is_packed else ''}"
        text = written(kind, events).encode()
        path.write_bytes(gzip.compress(text) if is_packed else text)
        paths.append(path)
    wanted = [
        line_of(paths[EVENTS.index(event) > 5], event[2]) for event in EVENTS if event[1] == 401
    ]
    options = ["--explain", "--verdicts", "none"]
    if kind == "lines":
        options += ["--pattern", r"^(?P<ts>\d+) (?P<what>\S+) (?P<status>\d+)"]
    for order in [], ["--sort"], ["--wait", "2s"], ["--lateness", "2s"]:
        done = command(*options, *order, "--rows", rules, *paths)
        assert shown_rows(done.errors) == (wanted[-1], wanted), order
    few = command(*options, rules, *paths)
    row, rows = shown_rows(few.errors)
    assert row == wanted[-1]
    assert rows == [*wanted[:5], "and 2 more (--rows names them)"]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_that_come_late(command: Command, tmp_path: Path, rules: Path, kind: str) -> None:
    events = EVENTS.copy()
    events[4], events[5] = events[5], events[4]
    path = tmp_path / f"log.{kind}"
    path.write_text(written(kind, events))
    wanted = [line_of(path, row) for row in FAILED]
    for order in "--sort", "--wait=2s", "--lateness=2s":
        done = command("--explain", "--verdicts", "none", order, "--rows", rules, path)
        assert shown_rows(done.errors) == (wanted[-1], wanted), order


def test_text_logs_and_standard_input(command: Command, tmp_path: Path) -> None:
    path, rules = tmp_path / "a log", tmp_path / "rules.mtl"
    path.write_text(written("text", EVENTS))
    rules.write_text(RULES.replace("status = 401", "fail"))
    wanted = [line_of(path, row) for row in FAILED]
    options = ["--explain", "--rows", "--verdicts", "none"]
    for order in [], ["--sort"], ["--wait", "2s"], ["--lateness", "2s"]:
        done = command(*options, *order, rules, path)
        assert shown_rows(done.errors) == (wanted[-1], wanted), order
    piped = shell(f"$M {' '.join(options)} '{rules}' < '{path}'")
    named = [place.replace(str(path), "<stdin>") for place in wanted]
    assert shown_rows(piped.errors) == (named[-1], named)


def test_formats_without_lines(command: Command, tmp_path: Path, rules: Path) -> None:
    path = tmp_path / "log.parquet"
    times, statuses, _ = zip(*EVENTS, strict=True)
    parquet.write_table(pa.table({"ts": times, "status": statuses}), path)
    places = [f"{path} row {k}" for k, (_, status, _) in enumerate(EVENTS, 1) if status == 401]
    done = command("--explain", "--rows", "--verdicts", "false", rules, path)
    assert shown_rows(done.errors) == (places[-1], places)
    assert done.output == f"few\t10:0 false\t{places[-1]}\n"
    people = command("--color", "always", rules, path).output
    assert f"{places[-1]}  10:0" in people
    assert command(
        "--rows", "--output-format", "jsonl", "--verdicts", "false", rules, path
    ).output.endswith(f'"file":"{path}","row":11}}\n')


def test_the_page_has_all_rows_if_asked(command: Command, tmp_path: Path, rules: Path) -> None:
    path, page = tmp_path / "log.csv", tmp_path / "page.html"
    path.write_text(written("csv", EVENTS))
    wanted = [line_of(path, row) for row in FAILED]
    for options, expected in (
        (["--rows"], wanted),
        ([], [*wanted[:5], "and 2 more (--rows names them)"]),
    ):
        command(*options, "--report", page, rules, path)
        (values,) = re.findall(r"<dd>7\s*(<span.*?</span>)</dd>", page.read_text(), re.DOTALL)
        assert unescape(re.sub(r"<[^>]*>", "", values)) == f"({', '.join(expected)})"


def test_json_has_all_rows(command: Command, tmp_path: Path, rules: Path) -> None:
    path, output = tmp_path / "log.csv", tmp_path / "why.jsonl"
    path.write_text(written("csv", EVENTS))
    rules.write_text(RULES.replace("policy few:", 'policy few "seldom" per none:'))
    done = command("--explain-output", output, "--verdicts", "none", rules, path)
    assert done.errors == ""
    (found,) = map(json.loads, output.read_text().splitlines())
    lines = [int(line_of(path, row).rpartition(":")[2]) for row in FAILED]
    assert found.pop("explanation").startswith("10:0 violates fails < 7\n")
    assert found == {
        "policy": "few",
        "text": "seldom",
        "time": 10,
        "offset": 0,
        "file": str(path),
        "row": lines[-1],
        "message": None,
        "values": [
            {
                "name": "fails",
                "value": "7",
                "rows": [{"file": str(path), "row": line} for line in lines],
            }
        ],
    }
    # what is left out, and why something is not explained, is said
    log = tmp_path / "log"
    log.write_text("@1\n@2\n@3\n")
    formula = "(EVENTUALLY p) AND NOT EVENTUALLY p"
    options = ["--explain-limit", "2", "--verdicts", "none"]
    done = command("--explain-output", output, *options, "-e", formula, log)
    assert "mtlmon: explained 2 violations; there are more (--explain-limit)\n" in done.errors
    first, second = map(json.loads, output.read_text().splitlines())
    assert (first["row"], second["row"]) == (1, 2)
    assert first["explanation"] is None
    assert "1:0 is false whatever comes" in first["remark"]


def test_json_of_ticks_and_keys(command: Command, tmp_path: Path, rules: Path) -> None:
    path, output = tmp_path / "log.csv", tmp_path / "why.jsonl"
    rules.write_text("unit s\nkey k\npolicy alive on every 2s: count[0,3s]() > 0\n")
    path.write_text("ts,k\n1,a\n8,b\n8,a\n")
    command("--explain-output", output, "--verdicts", "none", rules, path)
    (found,) = map(json.loads, output.read_text().splitlines())
    assert (found["key"], found["time"], found["file"], found["row"]) == ("a", 6, None, None)
    assert found["last_row"] == {"file": str(path), "row": 2}


VARIABLES = """\
unit s
policy approved: publish(u) IMPLIES ONCE[0,1m] EXISTS m. approve(m) AND m < u
"""
APPROVED = [(k, "approve", f"row{k}") for k in range(8)]


@pytest.mark.parametrize("kind", ["text", "csv", "parquet"])
def test_rows_that_parts_of_policies_with_variables_find(
    command: Command, tmp_path: Path, kind: str
) -> None:
    rules, path = tmp_path / "rules.mtl", tmp_path / f"log.{kind}"
    events = [*APPROVED, (9, "publish", "author")]
    atoms = [f"atom {name}(user: text)" for name in ("publish", "approve")]
    if kind != "text":
        atoms = [f'{atom} = what = "{atom.split("(")[0][5:]}"' for atom in atoms]
    rules.write_text("\n".join([*atoms, VARIABLES]))
    places = {}
    if kind == "text":
        lines = (f"# {user}?\n@{time} {what}({user})\n" for time, what, user in events)
        path.write_text("".join(lines))
    if kind == "csv":
        path.write_text(
            "ts,what,user,note\n" + "".join(f'{t},{w},{u},"a\n\nb"\n' for t, w, u in events)
        )
    if kind == "parquet":
        times, whats, users = zip(*events, strict=True)
        parquet.write_table(pa.table({"ts": times, "what": whats, "user": users}), path)
        places = {user: f"{path} row {k}" for k, user in enumerate(users, 1)}
    else:
        places = {user: line_of(path, user) for _, _, user in events}
    # the violation has a value for each row that matches
    found = [
        f"{time}:0 approve({user}) ({places[user]}, {9 - time}s before)"
        for time, _, user in APPROVED
    ]
    options = ["--explain", "--verdicts", "none", "--explain-limit", "1"]
    for order in [], ["--wait", "2s"], ["--sort"], ["--lateness", "2s"]:
        done = command(*options, *order, rules, path)
        assert f"\nat {places['author']}\n" in done.errors, order
        assert f"9:0 publish(author) ({places['author']})\n" in done.errors
        shown = re.findall(r"\d+:0 approve.*", done.errors)
        assert shown == found[-5:], order
        assert "… and 3 more of approve(_) in the 1m before (--rows names them)" in done.errors
        every = command(*options, *order, "--rows", rules, path)
        assert re.findall(r"\d+:0 approve.*", every.errors) == found, order
    page, output = tmp_path / "page.html", tmp_path / "why.jsonl"
    command("--rows", "--report", page, rules, path)
    assert all(one in page.read_text() for one in found)
    command("--explain-output", output, "--verdicts", "none", rules, path)
    (explained,) = map(json.loads, output.read_text().splitlines())
    assert (explained["policy"], explained["valuation"]) == ("approved", {"u": "author"})
    rows = [one for reason in explained["reasons"] for one in reason["found"]][-1]["rows"]
    assert [f"{one['time']}:0 approve({one['arguments'][0]})" for one in rows] == [
        one.partition(" (")[0] for one in found
    ]
    numbers = [int(re.findall(r"\d+$", places[user])[0]) for _, _, user in APPROVED]
    assert [(one["file"], one["row"]) for one in rows] == [(str(path), one) for one in numbers]


def test_columns_of_a_key_are_no_arguments(command: Command, tmp_path: Path) -> None:
    rules, log, output = (tmp_path / name for name in ("rules.mtl", "log.csv", "why.jsonl"))
    rules.write_text(
        'unit s\nkey user\natom open(f) = what = "open"\natom read(f) = what = "read"\n'
        "policy opened: read(f) IMPLIES ONCE open(f)\n"
    )
    log.write_text("ts,user,what,f\n1,a,open,x\n2,b,read,x\n3,a,read,x\n")
    command("--explain-output", output, rules, log)
    (explained,) = map(json.loads, output.read_text().splitlines())
    assert explained["valuation"] == {"user": "b", "f": "x"}
    (found,) = explained["reasons"][0]["found"]
    assert found["atom"] == "read(x)"
    assert [one["arguments"] for one in found["rows"]] == [["x"]]
