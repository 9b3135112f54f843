"""The first violation where verdicts are corrected: that of a run that lets rows wait."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Live
from tests.cli.test_lateness import Command

POLICIES = {
    "plain": "policy one: p IMPLIES EVENTUALLY[0,6s] q\npolicy two: q IMPLIES ONCE[0,6s] p\n",
    "variables": (
        "policy one: FORALL u. p(u) IMPLIES EVENTUALLY[0,6s] q(u)\n"
        "policy two: FORALL u. q(u) IMPLIES ONCE[0,9s] p(u)\n"
    ),
}


def log_of(kind: str, seed: int, count: int = 60) -> str:
    """Lines that come late, some of them too late; violations are rare."""
    source = random.Random(f"{kind} {seed}")
    now = 100
    lines = []
    for _ in range(count):
        now += source.choice([0, 1, 1, 2])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        rows = [name for name in "pq" if source.random() < 0.6]
        if kind == "variables":
            rows = [f"{name}({value})" for name in rows for value in "ab"]
        lines.append(" ".join([f"@{stamp}", *rows]) + "\n")
    return "".join(lines)


@pytest.mark.parametrize("kind", list(POLICIES))
def test_the_first_violation_is_that_of_rows_that_wait(
    kind: str, tmp_path: Path, command: Command
) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log"
    file.write_text("unit s\n" + POLICIES[kind])
    for seed in range(8):
        log.write_text(log_of(kind, seed, 60 if seed < 6 else 8))
        ends = ["--end-time", "inf"] if seed % 2 else []
        options = ["--verdicts", "first", *ends, file, log]
        wanted = command("--wait", "6s", *options)
        done = command("--lateness", "6s", *options)
        assert (done.status, done.output) == (wanted.status, wanted.output), done.errors
        # what came too late is counted up to where a run stops
        others = [
            [line for line in one.errors.splitlines() if "too late" not in line]
            for one in (done, wanted)
        ]
        assert others[0] == others[1]
        tables = command("--lateness", "6s", "--output-format", "jsonl", *options)
        assert tables.status == wanted.status
        found = [json.loads(line) for line in tables.output.splitlines()]
        assert len(found) == wanted.output.count("\n")
        for one, line in zip(found, wanted.output.splitlines(), strict=True):
            assert (one["op"], one["verdict"]) == ("insert", False)
            assert line.startswith(f"{one['policy']}\t{one['time']}:{one['offset']} false")


@pytest.mark.parametrize("kind", list(POLICIES))
def test_policies_have_an_order_at_a_time_point(
    kind: str, tmp_path: Path, command: Command
) -> None:
    """What a later policy says of it does not matter."""
    values = ["(u)", "(a)"] if kind == "variables" else ["", ""]
    known = f"policy known: p{values[0]} IMPLIES ONCE[0,9] q{values[0]}\n"
    later = f"policy later: p{values[0]} IMPLIES EVENTUALLY[0,9] q{values[0]}\n"
    file, log = tmp_path / "p.mtl", tmp_path / "log"
    log.write_text(f"@99 p{values[1]}\n@101\n")
    for first, rest in ((known, later), (later, known)):
        file.write_text(first + rest)
        wanted = command("--wait", 6, "--verdicts", "first", file, log)
        done = command("--lateness", 6, "--verdicts", "first", file, log)
        assert done == wanted
        assert bool(done.output) == (first == known)


@pytest.mark.parametrize("kind", list(POLICIES))
def test_a_live_pipe_stops_once_the_first_violation_is_final(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "p.mtl"
    file.write_text("unit s\n" + POLICIES[kind])
    value = "(a)" if kind == "variables" else ""
    rest = " (u=a)" if kind == "variables" else ""
    with Live("--lateness", "20s", "--verdicts", "first", str(file)) as live:
        for line in ("@100 p", "@112 q", "@118 p", "@104 q", "@108 p", "@140"):
            live.send(f"{line}{value if line[-1] in 'pq' else ''}\n")
            # the violations of 100 and 112 go, and that of 118 may still go
            assert live.read_line(0.1) is None
        live.send("@150\n")
        assert live.read_line() == f"one\t118:0 false{rest}"
        done = live.end()
        assert (done.status, done.output, done.errors) == (1, "", "")


def test_a_run_goes_on_from_a_checkpoint(tmp_path: Path, command: Command) -> None:
    for kind, policies in POLICIES.items():
        file, log = tmp_path / "p.mtl", tmp_path / "log"
        file.write_text("unit s\n" + policies)
        text = log_of(kind, 3)
        lines = text.splitlines(keepends=True)
        log.write_text(text)
        wanted = command("--wait", "6s", "--verdicts", "first", file, log)
        saved, output = tmp_path / f"{kind}.saved", tmp_path / f"{kind}.out"
        options = ["--lateness", "6s", "--verdicts", "first", "--checkpoint", saved]
        for count in (9, 25, 60):
            log.write_text("".join(lines[:count]))
            done = command(*options, "--resume", "-o", output, file, log)
            assert done.status in (0, 1), done.errors
        assert (done.status, output.read_text()) == (wanted.status, wanted.output)
        other = command(*options[:2], *options[4:], "--resume", "-o", output, file, log)
        assert other.status == 2
        assert "with" in other.errors


def test_explanations_are_of_the_first_violation(tmp_path: Path, command: Command) -> None:
    file, log = tmp_path / "p.mtl", tmp_path / "log"
    for kind, policies in POLICIES.items():
        file.write_text("unit s\n" + policies)
        log.write_text(log_of(kind, 5))
        reasons = [tmp_path / "late.txt", tmp_path / "wait.txt"]
        options = ["--verdicts", "first", "--explain", "--explain-output"]
        done = command("--lateness", "6s", *options, reasons[0], file, log)
        wanted = command("--wait", "6s", *options, reasons[1], file, log)
        assert done.output == wanted.output != ""
        assert reasons[0].read_text() == reasons[1].read_text() != ""


@pytest.mark.parametrize("kind", list(POLICIES))
def test_a_report_shows_what_holds_where_a_run_stops(
    kind: str, tmp_path: Path, command: Command
) -> None:
    file, log, page = tmp_path / "p.mtl", tmp_path / "log", tmp_path / "page.html"
    file.write_text("unit s\n" + POLICIES[kind])
    # both policies are violated, and a late row takes a violation back
    rows = {"plain": "pq", "variables": ("p(a)", "q(a)")}[kind]
    first, second = rows
    log.write_text(f"@100 {first}\n@109 {second}\n@102 {second}\n@120 {first}\n@140\n@150\n")
    done = command("--lateness", "9s", "--verdicts", "first", "--report", page, file, log)
    assert done.status == 1
    name = done.output.split()[1]
    assert done.output.startswith("two\t109:0 false" if kind == "plain" else "one\t120:0 false")
    text = page.read_text()
    assert name in text
    # all has been read at once
    assert "120:0" in text


def test_a_violation_of_a_key_is_told_long_after_its_time(tmp_path: Path, command: Command) -> None:
    """It is final for its own policy long before it is for all."""
    file = tmp_path / "p.mtl"
    file.write_text(
        'unit s\nkey ip\natom read(f) = what = "read"\natom open(f) = what = "open"\n'
        'atom p = what = "p"\npolicy slow: p IMPLIES EVENTUALLY[0,1000] p\n'
        "policy again: read(f) IMPLIES PREVIOUS open(f)\n"
    )
    parts = ["5,a,open,x\n6,a,read,y\n", "\n".join(f"{k},b,open,x" for k in range(7, 400)) + "\n"]
    logs = []
    for number, rows in enumerate([*parts, "900,b,open,x\n", "901,b,open,x\n"]):
        logs.append(tmp_path / f"{number}.csv")
        logs[-1].write_text("ts,ip,what,f\n" + rows)
    done = command(
        "--lateness", "5", "--verdicts", "first", "--policy", file, "--time", "ts", *logs
    )
    assert done.output == "again\ta\t6:0 false (f=y)\n", done.errors
