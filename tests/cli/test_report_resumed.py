"""A report is on all of a log, also if a run was interrupted and another one has gone on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.process import Ended, mtlmon

# what each run says of itself
OWN = re.compile(r"<dt>(Started|Duration|Peak memory|Command)</dt>.*")
# how often verdicts were changed depends on how much was read at once
CHANGED = re.compile(r"[\d,]+ (verdicts? changed, [\d,]+ withdrawn|violations? taken back)")

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


def with_late_rows(lines: list[str]) -> list[str]:
    """Let a row in ten come late."""
    lines = [*lines]
    for place in range(9, len(lines), 10):
        lines[place - 5 : place + 1] = [*lines[place - 4 : place + 1], lines[place - 5]]
    return lines


def shown(path: Path) -> str:
    text, count = OWN.subn("", path.read_text(encoding="utf-8"))
    assert count == 4
    return CHANGED.sub(r"\1", text)


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
        (PLAIN, with_late_rows(TEXT), "log", ["--lateness", "9", "--mode", "global"]),
        (KEYED, with_late_rows(TABLE), "log.csv", ["--lateness", "9", "--clock", "key"]),
        (KEYED, with_late_rows(TABLE), "-", ["--format", "csv", "--lateness", "3"]),
        (VARIABLES, with_late_rows(FACTS), "log", ["--lateness", "9"]),
        (
            ROWS + VARIABLES + KEYED.partition("user\n")[2],
            with_late_rows(TABLE),
            "log.csv",
            ["--lateness", "9"],
        ),
    ],
    ids=[
        "text",
        "explained",
        "keys",
        "rows",
        "pipe",
        "variables",
        "columns",
        "both",
        "late text",
        "late keys",
        "late pipe",
        "late variables",
        "late both",
    ],
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
    if "--lateness" in options:
        # which verdicts are told before they change depends on how much is read at once
        latest = mtlmon("latest", str(output)).output.splitlines()
        in_one_run = mtlmon("latest", "-", log=expected.output).output.splitlines()
        assert sorted(latest) == sorted(in_one_run)
    else:
        assert output.read_text() == expected.output
    assert done.errors == expected.errors
    assert shown(report) == wanted


@pytest.mark.parametrize("asked", ["--explain", "-C1"])
@pytest.mark.parametrize(
    ("policy", "lines", "name"),
    [
        (PLAIN, TEXT, "log"),
        (KEYED, TABLE, "log.csv"),
        (ROWS + VARIABLES, TABLE, "log.csv"),
        (ROWS + VARIABLES + KEYED.partition("user\n")[2], TABLE, "log.csv"),
    ],
    ids=["text", "keys", "columns", "both"],
)
def test_reasons_where_verdicts_are_corrected(
    policy: str, lines: list[str], name: str, asked: str, tmp_path: Path
) -> None:
    rules, log, output = tmp_path / "rules.mtl", tmp_path / name, tmp_path / "output"
    rules.write_text(policy)
    lines = with_late_rows(lines)
    log.write_text("".join(lines))
    options = ["--lateness", "20", asked, "-o", str(output), str(rules), str(log)]
    expected = mtlmon(*options)
    assert expected.status == 1
    assert expected.errors.count("\n") > 9
    for size in (len(lines) // 2, len(lines)):
        log.write_text("".join(lines[:size]))
        done = mtlmon("--checkpoint", str(tmp_path / "state"), "--resume", *options)
    assert (done.status, done.errors) == (expected.status, expected.errors)
