"""A report is on all of a log, also if a run was interrupted and another one has gone on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.process import Ended, mtlmon

# what each run says of itself
OWN = re.compile(r"<dt>(Started|Duration|Peak memory|Command)</dt>.*")

PLAIN = 'policy answered "asked without an answer": p IMPLIES EVENTUALLY[0,5] q\n'
KEYED = """\
unit s
key user
policy waits: what = "ask" IMPLIES EVENTUALLY[0,5] what = "answer" message "{user} asked at {ts}"
policy rare: NOT what = "fail"
"""
VARIABLES = """\
policy allowed: ask(u) IMPLIES ONCE[0,20] login(u)
find again: ask(u) AND PREVIOUS ONCE ask(u)
"""
ROWS = 'atom ask(user) = what = "ask"\natom login(user) = what = "answer"\n'

TEXT = [f"@{k // 3}{' p' if k % 7 == 0 else ''}{' q' if k % 31 == 0 else ''}\n" for k in range(900)]
TABLE = ["ts,user,what\n"] + [
    f"{k // 2},u{k * k % 11},{('ask', 'answer', 'fail', 'x')[k * k % 17 % 4]}\n" for k in range(700)
]
FACTS = [f"@{k} {'login' if k % 5 == 0 else 'ask'}({k * k % 13})\n" for k in range(600)]


def shown(path: Path) -> str:
    text, count = OWN.subn("", path.read_text(encoding="utf-8"))
    assert count == 4
    return text


@pytest.mark.parametrize(
    ("policy", "lines", "name", "options"),
    [
        (PLAIN, TEXT, "log", []),
        (PLAIN, TEXT, "log", ["--explain", "-C2", "--time-stamps", "iso", "--unit", "s"]),
        (KEYED, TABLE, "log.csv", ["--context", "1"]),
        (KEYED, TABLE, "log.csv", ["--rows", "--verdicts", "all"]),
        (KEYED, TABLE, "-", ["--format", "csv"]),
        (VARIABLES, FACTS, "log", ["--time-stamps", "iso", "--unit", "s"]),
        (ROWS + VARIABLES, TABLE, "log.csv", ["--explain", "--rows"]),
        (ROWS + VARIABLES + KEYED.partition("user\n")[2], TABLE, "log.csv", ["-B1"]),
    ],
    ids=["text", "explained", "keys", "rows", "pipe", "variables", "columns", "both"],
)
def test_a_log_that_grows(
    policy: str, lines: list[str], name: str, options: list[str], tmp_path: Path
) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / name
    rules.write_text(policy)
    output, report = tmp_path / "output", tmp_path / "report.html"

    def run(size: int, *more: str) -> Ended:
        text = "".join(lines[:size])
        if name == "-":
            return mtlmon(*options, *more, "--report", str(report), str(rules), name, log=text)
        log.write_text(text)
        return mtlmon(*options, *more, "--report", str(report), str(rules), str(log))

    expected = run(len(lines))
    assert expected.status == 1
    wanted = shown(report)
    assert "Violations over time" in wanted
    for size in (len(lines) // 3, len(lines) // 2, len(lines)):
        report.unlink()
        done = run(size, "--checkpoint", str(tmp_path / "state"), "--resume", "-o", str(output))
        assert done.status == 1, done.errors
    assert output.read_text() == expected.output
    assert done.errors == expected.errors
    assert shown(report) == wanted
