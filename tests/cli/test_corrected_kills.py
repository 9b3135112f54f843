"""Corrected rows in runs that are killed at any moment, and started again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import mtlmon
from tests.cli.test_lateness import Command
from tests.cli.test_lateness_kills import compare_with_kills, latest

POLICIES = {
    "plain": (
        "key user\natom big = v > 6\n"
        "policy one: a IMPLIES EVENTUALLY[0,40] (b OR big)\n"
        "policy two per none: ALWAYS[0,9] (a IMPLIES EVENTUALLY[0,6] b)\n"
    ),
    "streams": (
        "key user\nstream asked = count[0,30](a) every 10\n"
        "policy one: asked.hold(or: 0) < 4\n"
        "policy two on every 10: asked < 6\n"
        "policy three on rows where sum[0,9](v) > 9: NEXT b\n"
    ),
    "variables": (
        "atom p(user: text, v: int) = a\natom q(user: text) = b\n"
        "policy one: FORALL u, n. p(u, n) IMPLIES EVENTUALLY[0,20] q(u)\n"
        "policy two: FORALL u, n. p(u, n) IMPLIES ONCE[0,20] q(u)\n"
    ),
}


def make_log(path: Path, seed: str, count: int = 600) -> None:
    """Rows that insert, take back and correct others, some of them too late."""
    source = random.Random(seed)
    now = 100
    with path.open("w") as file:
        file.write("ts,user,a,b,v,op,id\n")
        for number in range(count):
            now += source.random() < 0.5
            stamp = now - (source.randrange(60) if source.random() < 0.1 else 0)
            name = number if source.random() < 0.7 else max(0, number - source.randrange(40))
            operation = "-" if name != number and source.random() < 0.5 else "+"
            held = f"{source.random() < 0.4},{source.random() < 0.2},{source.randrange(10)}".lower()
            file.write(f"{stamp},u{source.randrange(9)},{held},{operation},r{name}\n")


@pytest.mark.parametrize("kind", list(POLICIES))
def test_corrections_survive_kills(kind: str, tmp_path: Path) -> None:
    log, policies = tmp_path / "log.csv", tmp_path / "p.mtl"
    output, late = tmp_path / "out", tmp_path / "late.csv"
    make_log(log, kind)
    policies.write_text(POLICIES[kind])
    columns = ["--op", "op"] if kind == "plain" else ["--op", "op", "--id", "id"]
    arguments = ["--lateness", "50", "--wait", "2", "--late", str(late), *columns]
    arguments += ["--on-error", "skip", "-o", str(output), str(policies)]
    _, resumed = compare_with_kills(arguments, log, output, late, lambda path: latest(path, "text"))
    other = mtlmon(*resumed, *arguments, "--op", "a", str(log))
    assert other.status == 2
    assert "it was made with another --op" in other.errors


def test_what_rows_did_is_part_of_the_log(tmp_path: Path, command: Command) -> None:
    """Rows that were corrected otherwise are another log, and those that were read count once."""
    log, output, saved = tmp_path / "log.csv", tmp_path / "out", tmp_path / "saved"
    rows = ["100,true,+,1", "105,true,+,2", "101,,-,2", "107,true,+,1", "108,,-,1"]
    options = ["--lateness", 50, "--op", "op", "--id", "id", "-e", "NOT p", "-o", output]
    options += ["--checkpoint", saved, "--resume", log]
    head = "ts,p,op,id\n"
    for count in (2, 4, 5):
        log.write_text(head + "\n".join(rows[:count]) + "\n")
        assert command(*options).status in (0, 1)
    done = command("latest", output)
    assert (done.status, done.output) == (0, "")
    for row in ("101,,+,2", "101,,-,1"):
        log.write_text(head + "\n".join([*rows[:2], row, *rows[3:]]) + "\n")
        done = command(*options)
        assert done.status == 2
        assert "differ from those that were read" in done.errors
