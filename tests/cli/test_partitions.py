"""Policies with keys of their own in one run of the command, against runs with --key."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import parquet

from tests.cli import process
from tests.cli.kills import check_killed_runs
from tests.cli.process import Ended
from tests.cli.test_table_kills import make_rows, write
from tests.doors import run_preparing

Command = Callable[..., Ended]

POLICIES = {
    "answered": "request IMPLIES EVENTUALLY[0,40] answer",
    "late": "ALWAYS[0,90] (request IMPLIES EVENTUALLY[0,60] (answer OR stop))",
    "the past": "answer IMPLIES ONCE[0,50] request",
    "amount": "LARGE IMPLIES (NOT stop) SINCE[0,50] request",
    "all": "stop IMPLIES ONCE[0,3] request",
}
ATOM = "atom LARGE = amount > 900\n"
KEYS: dict[str, tuple[str, ...] | None] = {
    "answered": ("user",),
    "late": None,
    "the past": ("host", "user"),
    "amount": ("host",),
    "all": (),
}
COLUMNS = ["host", "user"]

RUNS: dict[str, tuple[str, list[str]]] = {
    "plain": ("csv", []),
    "resolve": ("jsonl", ["--resolve", "--end-time", "inf"]),
    "global": ("parquet", ["--mode", "global", "--end-time", "last"]),
    "false": ("arrow", ["--verdicts", "false", "--mode", "naive"]),
    "limit": ("csv", ["--max-memory", "200M"]),
    "advance": ("csv", ["--advance-every", "25", "--resolve", "--end-time", "last"]),
    "sort": ("csv", ["--sort", "--threads", "1"]),
}


@pytest.fixture
def log(tmp_path: Path) -> Callable[[str, int], Path]:
    def make(format: str, count: int) -> Path:
        path = tmp_path / f"log.{format}"
        rows = make_rows(random.Random(format), count)
        write([{**row, "host": row["host"] or "c"} for row in rows], path)
        return path

    return make


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    """Give policies keys of their own, by their names."""

    def give(keys: dict[str, Any]) -> None:
        load: Any = run_preparing.load_policies

        def load_with_keys(options: Any) -> Any:
            file, settled = load(options)
            for policy in file.policies:
                policy.key = keys[policy.name]
            return file, settled

        monkeypatch.setattr(run_preparing, "load_policies", load_with_keys)

    return give


def rules(path: Path, *names: str, keys: dict[str, tuple[str, ...] | None] | None = None) -> Path:
    """A file with some of the policies, and the keys of these."""
    written = []
    for name in names:
        key = (keys or {}).get(name)
        per = "" if key is None else f" per {', '.join(key) or 'none'}"
        written.append(f'policy "{name}"{per}: {POLICIES[name]}\n')
    path.write_text(ATOM + "".join(written))
    return path


def verdicts_of(path: Path, format: str, columns: list[str]) -> list[dict[str, Any]]:
    """The verdicts of a file, with the columns of a table."""
    if format == "parquet":
        rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return rows
    text = path.read_text()
    if format == "jsonl":
        return [json.loads(line) for line in text.splitlines()]
    if format == "csv":
        cells_of_rows = csv.DictReader(text.splitlines())
        return [{name: cell or None for name, cell in row.items()} for row in cells_of_rows]
    found = []
    for line in text.splitlines():
        policy, *key, verdict = line.split("\t")
        cells = zip(columns, (one or None for one in key), strict=True)
        found.append({"policy": policy, **dict(cells), "verdict": verdict})
    return found


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("output_format", ["text", "jsonl", "csv", "parquet"])
def test_one_run_says_what_runs_with_key_say(
    command: Command,
    keyed: Callable[[dict[str, Any]], None],
    log: Callable[[str, int], Path],
    name: str,
    output_format: str,
    tmp_path: Path,
) -> None:
    format, options = RUNS[name]
    table = log(format, 3000)
    output = tmp_path / "output"
    asked = [*options, "--event", "what", "--output-format", output_format, "-o", output]
    alone = {}
    for policy in POLICIES:
        key = KEYS[policy]
        key = ("host",) if key is None else key
        keys = ["--key", ",".join(key)] if key else []
        done = command(*asked, *keys, rules(tmp_path / "one.mtl", policy), table)
        assert done.status in (0, 1), done.errors
        alone[policy] = verdicts_of(output, output_format, list(key))
    keyed(KEYS)
    done = command(*asked, "--key", "host", rules(tmp_path / "all.mtl", *POLICIES), table)
    assert done.status == 1, done.errors
    rows = verdicts_of(output, output_format, COLUMNS)
    for policy, expected in alone.items():
        for row in expected:
            row.update({column: None for column in COLUMNS if column not in row})
        assert [row for row in rows if row["policy"] == policy] == expected
    assert len(rows) == sum(map(len, alone.values())) > 0
    if output_format != "text":
        assert list(rows[0])[:3] == ["policy", *COLUMNS]


@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("csv", ["--output-format", "text", "--resolve"]),
        ("jsonl", ["--output-format", "jsonl", "--explain", "--explain-limit", "3"]),
        ("parquet", ["--output-format", "csv", "--max-memory", "200M", "--end-time", "last"]),
    ],
)
def test_killed_runs_write_what_an_undisturbed_one_does(
    log: Callable[[str, int], Path],
    format: str,
    options: list[str],
    tmp_path: Path,
) -> None:
    table = log(format, 6_000)
    output = tmp_path / "output"
    policies = rules(tmp_path / "all.mtl", *POLICIES, keys=KEYS)
    asked = ["--event", "what", "--key", "host", "--summary", "--format", format, *options]
    asked += ["-o", str(output), str(policies)]
    source = random.Random(format)
    can_pipe = format != "parquet" and "--explain" not in options
    expected, verdicts = check_killed_runs(
        asked, table, output, source, every="300", can_pipe=can_pipe
    )
    assert expected.status == 1
    rules(policies, *POLICIES, keys={**KEYS, "answered": ("host",)})
    checkpoint = output.with_name("checkpoint")
    other = process.mtlmon("--resume", "--checkpoint", str(checkpoint), *asked, str(table))
    assert (other.status, output.read_bytes()) == (2, verdicts)
    assert "with other keys" in other.errors


def test_the_first_violation(
    command: Command,
    keyed: Callable[[dict[str, Any]], None],
    log: Callable[[str, int], Path],
    tmp_path: Path,
) -> None:
    table = log("csv", 1000)
    keyed(KEYS)
    asked = ["--event", "what", "--key", "host", rules(tmp_path / "all.mtl", *POLICIES), table]
    every = command("--verdicts", "false", "--resolve", "--end-time", "inf", *asked).output
    done = command("--verdicts", "first", "--explain", *asked)
    assert done.status == 1
    (line,) = done.output.splitlines()
    assert line in every.splitlines()
    stamps = [int(one.rpartition("\t")[2].partition(":")[0]) for one in every.splitlines()]
    assert int(line.rpartition("\t")[2].partition(":")[0]) == min(stamps)
    assert done.errors.startswith(f"policy {line.partition(chr(9))[0]}")


def test_explanations_and_report(
    command: Command,
    keyed: Callable[[dict[str, Any]], None],
    log: Callable[[str, int], Path],
    tmp_path: Path,
) -> None:
    """Each violation is explained on the trace of its own key."""
    pytest.importorskip("jinja2", reason="jinja2 (mtlmon[report]) is not installed")
    table = log("csv", 1500)
    asked = ["--event", "what", "--end-time", "inf", "--verdicts", "none", "--explain-limit", "9"]
    text, page = tmp_path / "why.txt", tmp_path / "page.html"
    alone = []
    for policy in POLICIES:
        key = KEYS[policy]
        key = ("host",) if key is None else key
        keys = ["--key", ",".join(key)] if key else []
        one = rules(tmp_path / "one.mtl", policy)
        command(*asked, *keys, "--explain", "--explain-output", text, one, table)
        alone += sections(text)
    keyed(KEYS)
    everything = rules(tmp_path / "all.mtl", *POLICIES)
    done = command(
        *asked, "--key", "host", "--explain", "--explain-output", text, "--report", page,
        "--summary", everything, table,
    )  # fmt: skip
    assert done.status == 1
    found = sections(text)
    assert len(found) == 9
    assert set(found) <= set(alone)
    users = len({row["user"] for row in make_rows(random.Random("csv"), 1500)})
    lines = done.errors.splitlines()
    remarks = [line.split() for line in lines if line.startswith("keys")]
    assert [one[1:4] for one in remarks][:2] == [[str(users), "of", "user,"], ["3", "of", "host,"]]
    assert remarks[2][2:5] == ["of", "host,", "user,"]
    content = page.read_text()
    assert re.search(rf"<dt>keys with violations</dt><dd>\d+ .*of {users}<", content)
    assert re.search(r"<dt>keys with violations</dt><dd>3 .*of 3<", content)
    assert '<th scope="col">host, user</th>' in content


def sections(path: Path) -> list[str]:
    """The explanations of a file, without the remarks at its end."""
    parts = path.read_text().split("\n\n")
    return [part.strip() for part in parts if part.startswith("policy ")]


def test_a_text_log_has_no_columns(
    command: Command, keyed: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text("@1 p\n")
    policies = tmp_path / "rules.mtl"
    for text in "policy a: p", "policy a: p\npolicy b: p":
        policies.write_text(text)
        keyed({"a": ("user",), "b": None})
        done = command(policies, log)
        assert done.status == 2
        assert "divides the log by the column user" in done.errors
    policies.write_text("policy a: p")
    keyed({"a": ()})
    assert command(policies, log).output == "a\t1:0 true\n"
