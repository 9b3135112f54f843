"""A run of the command leaves no file open, however it ends."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.process import Ended

FUTURE = "p implies EVENTUALLY[0,5] q\n"
ATOMS = "atom pa(k: int)\natom qa(k: int)\n"
VARIABLES = "policy c: FORALL k. pa(k) IMPLIES EVENTUALLY[0,6] qa(k)\n"
COLUMNS = "unit s\natom pa(k: text) = p\natom qa(k: text) = q\n"
POLICIES = {
    "formula": FUTURE,
    "policies": f"policy a: {FUTURE}policy b: ONCE[0,3] p\n",
    "variables": ATOMS + VARIABLES,
    "both": f"{ATOMS}{VARIABLES}policy d: {FUTURE}",
    "streams": "unit s\nstream c = count[0,5](p)\npolicy a: c < 2\n",
    "streams and variables": (
        f"unit s\nstream c = count[0,3](p)\n{ATOMS}{VARIABLES}policy d: c < 5\n"
    ),
}
OF_TABLES = {
    "table": f"unit s\nkey k\npolicy a: {FUTURE}",
    "variables of rows": COLUMNS + VARIABLES,
    "both of rows": f"{COLUMNS}{VARIABLES}policy d: {FUTURE}",
    "relations": (
        "unit s\nrelation s = rows valid 5s group k select count() as n\npolicy a: s[k].n < 3\n"
    ),
}
LINES = ["@1 pa(1) p\n", "@3 pa(2) q\n", "@4 qa(1)\n", "@20 p\n"]
ROWS = ["1,a,true,false\n", "3,b,false,true\n", "4,a,true,true\n", "20,a,false,false\n"]
LOGS = {
    ".log": "".join(LINES),
    "-late.log": "".join([LINES[0], LINES[2], LINES[1], LINES[3], "@1 q\n"]),
    "-bad.log": f"{LINES[0]}@x\n",
    ".csv": "".join(["ts,k,p,q\n", *ROWS]),
    "-late.csv": "".join(["ts,k,p,q\n", ROWS[0], ROWS[2], ROWS[1], ROWS[3], "1,a,true,true\n"]),
    "-bad.csv": f"ts,k,p,q\n{ROWS[0]}5,a\n",
}
LATE = ["--lateness", "9s", "--unit", "s"]
OPTIONS: dict[str, list[str]] = {
    "plain": [],
    "report": ["--report", "report.html"],
    "explain": ["--explain"],
    "rows": ["--rows"],
    "first": ["--verdicts", "first"],
    "checkpoint": ["--checkpoint", "kept"],
    "sort": ["--sort"],
    "wait": ["--wait", "2s", "--unit", "s", "--late", "late"],
    "lateness": LATE,
    "lateness, late": [*LATE, "--late", "late"],
    "lateness, report": [*LATE, "--report", "report.html"],
    "lateness, explain": [*LATE, "--late", "late", "--explain"],
    "lateness, rows": [*LATE, "--rows"],
    "lateness, checkpoint": [*LATE, "--late", "late", "--checkpoint", "kept"],
    "lateness, first": [*LATE, "--verdicts", "first"],
    "lateness, table": [*LATE, "--output-format", "csv"],
}
UNORDERED = {name for name in OPTIONS if name.startswith(("sort", "wait", "lateness"))}


def opened() -> dict[str, str]:
    """The files that this process has open."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            # the descriptor of the listing itself
            continue
    return found


class Runs:
    """Runs the command, and says which files it has left open."""

    def __init__(self, command: Callable[..., Ended]) -> None:
        self.command = command
        self.left: list[tuple[tuple[str, ...], list[str]]] = []

    def run(self, *arguments: str, status: set[int]) -> None:
        for name in ("out", "late", "kept"):
            Path(name).unlink(missing_ok=True)
        before = opened()
        ended = self.command(*arguments)
        assert ended.status in status, (arguments, ended)
        if opened() != before:
            # what reads tables refers to itself
            gc.collect()
        if left := [file for name, file in opened().items() if before.get(name) != file]:
            self.left.append((arguments, left))


@pytest.fixture
def runs(command: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.chdir(tmp_path)
    for name, text in LOGS.items():
        Path(f"x{name}").write_text(text)
        Path(f"plain{name}").write_text(re.sub(r"\(\d\)", "", text))
    for name, text in {**POLICIES, **OF_TABLES}.items():
        Path(f"{name}.mtl").write_text(text)
    return Runs(command)


def log_for(policies: str) -> tuple[str, str]:
    """The name of the log for policies, without what is particular of it, and its ending."""
    if policies in OF_TABLES:
        return "x", ".csv"
    return "x" if "pa(" in POLICIES[policies] else "plain", ".log"


@pytest.mark.parametrize("options", OPTIONS)
def test_logs_are_closed(runs: Runs, options: str) -> None:
    late = "-late" if options in UNORDERED else ""
    for policies in (*POLICIES, *OF_TABLES):
        log, end = log_for(policies)
        runs.run(
            "-o", "out", *OPTIONS[options], f"{policies}.mtl", f"{log}{late}{end}", status={0, 1}
        )
    assert not runs.left


@pytest.mark.parametrize("options", ["plain", "wait", "lateness, explain"])
def test_logs_that_cannot_be_read_are_closed(runs: Runs, options: str) -> None:
    for policies in (*POLICIES, *OF_TABLES):
        log = "-bad".join(log_for(policies))
        runs.run("-o", "out", *OPTIONS[options], f"{policies}.mtl", log, status={2})
    assert not runs.left


def test_logs_are_closed_if_another_file_cannot_be_opened(runs: Runs) -> None:
    for option in ("-o", "--late", "--report", "--checkpoint"):
        for more in ([], LATE):
            for policies in ("formula", "policies", "variables", "both"):
                log = "".join(log_for(policies))
                given = ["-o", "out", *more, option, "none/x"]
                runs.run(*given, f"{policies}.mtl", log, status={0, 1, 2})
    assert not runs.left


def test_other_logs_are_closed(runs: Runs) -> None:
    Path("x.sig").write_text("P(x: int)\nQ(x: int)\n")
    Path("x.mfotl").write_text("P(x) IMPLIES EVENTUALLY[0,5] Q(x)\n")
    Path("points").write_text("@1 P(1)\n@3 Q(1)\n@2 P(4)\n@20\n")
    Path("changes").write_text("5:0 false\n!5:0 true\n!@9\n")
    of_monpoly = ["-o", "out", "--signature", "x.sig", "x.mfotl"]
    for options in ([], ["--report", "report.html"], ["--explain"], ["--wait", "2"]):
        runs.run(*options, "--sort", *of_monpoly, "points", status={0, 1, 2})
        runs.run(*options, *of_monpoly, "points", status={0, 1, 2})
    for command in (["latest"], ["resolve"], ["resolve", "--changelog"]):
        for log in ("changes", "x-bad.log"):
            runs.run(*command, "-o", "out", log, status={0, 1, 2})
    runs.run("streams", "-o", "out", "streams.mtl", "plain.log", status={0})
    runs.run("streams", "-o", "out", "streams.mtl", "plain-bad.log", status={2})
    runs.run("analyze", "table.mtl", status={0, 1})
    runs.run("query", "relations.mtl", "x.csv", "-o", "out", status={0, 2})
    assert not runs.left
