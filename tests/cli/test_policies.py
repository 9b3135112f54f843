"""The command on several policies: those of a text log, their explanations and reports."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Ended, Live, shell
from tests.verdicts import json_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., Ended]

FORMULAS = {
    "response": "p IMPLIES EVENTUALLY[0,5] q",
    "in\\the past": "q IMPLIES ONCE[0,9] p",
    "both": "ALWAYS[0,4] (p IMPLIES EVENTUALLY[0,3] q)",
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A policy file and a text log."""
    policies, log = tmp_path / "rules.mtl", tmp_path / "events.log"
    escaped = {name.replace("\\", "\\\\"): formula for name, formula in FORMULAS.items()}
    policies.write_text("".join(f'policy "{name}": {one}\n' for name, one in escaped.items()))
    source = random.Random(5)
    time_stamp = 0
    with log.open("w") as file:
        for _ in range(300):
            time_stamp += source.choice([0, 0, 1, 2, 6])
            atoms = [name for name in "pqr" if source.random() < 0.3]
            file.write(f"@{time_stamp} {' '.join(atoms)}\n")
    return policies, log


@pytest.mark.parametrize("mode", ["local", "global", "naive"])
def test_each_policy_answers_as_if_alone(
    command: Command, files: tuple[Path, Path], mode: str
) -> None:
    policies, log = files
    for more in [], ["--end-time", "last"], ["--resolve", "--end-time", "inf"]:
        asked = ["--mode", mode, *more]
        done = command(*asked, *files)
        lines = done.output.splitlines()
        for name, formula in FORMULAS.items():
            alone = command(*asked, "-e", formula, log)
            prefix = name.replace("\\", "\\\\") + "\t"
            found = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
            assert found == alone.output.splitlines()
        assert len(lines) == len(re.findall("\n", done.output))
        assert done.status == 1
    # a policy with a name keeps it also alone, whatever the name and the verdicts
    for name in "x", "in\\the past", "é" * 7, "n" * 5000:
        escaped = name.replace("\\", "\\\\")
        policies.write_text(f'policy "{escaped}": p UNTIL[0,3] q\n')
        prefix = f"{escaped}\t"
        for wanted in "all", "boolean", "false", "first", "none":
            asked = ["--mode", mode, "--verdicts", wanted]
            named, alone = command(*asked, *files), command(*asked, "-e", "p UNTIL[0,3] q", log)
            assert named.output == "".join(prefix + line for line in lines_of(alone))
            assert named.status == alone.status


@pytest.mark.parametrize("mode", ["local", "global", "naive"])
def test_json_lines(command: Command, files: tuple[Path, Path], mode: str) -> None:
    """Of one policy with or without a name, and of several, they say what lines of text say."""
    policies, log = files
    names = [None, "x", "in\\the past", 'quo"te', "\t", "é" * 7, "n" * 4000, "n" * 5000]
    for name in names:
        if name is not None:
            escaped = name.replace("\\", "\\\\").replace('"', '\\"')
            policies.write_text(f'policy "{escaped}": p UNTIL[0,3] q\n')
        for more in (
            [], ["--resolve"], ["--end-time", "inf"],
            *(["--verdicts", wanted] for wanted in ("boolean", "false", "first", "none")),
        ):  # fmt: skip
            asked = ["--mode", mode, *more]
            alone = command(*asked, "-e", "p UNTIL[0,3] q", log)
            formula = ["-e", "p UNTIL[0,3] q"] if name is None else [policies]
            done = command(*asked, "--output-format", "jsonl", *formula, log)
            lines = "".join(f"{json_line(line.rstrip(), name)}\n" for line in lines_of(alone))
            assert done == Ended(alone.status, lines, alone.errors)
    policies.write_text("policy one: p UNTIL[0,3] q\npolicy two: NOT r\n")
    text = command("--mode", mode, *files)
    fields = [line.rstrip("\n").split("\t") for line in lines_of(text)]
    lines = "".join(f"{json_line(line, name)}\n" for name, line in fields)
    done = command("--mode", mode, "--output-format", "jsonl", *files)
    assert done == Ended(text.status, lines, text.errors)


def test_json_lines_with_reports_and_explanations(
    command: Command, files: tuple[Path, Path], tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    asked = ["--explain", "--report", page, "-e", "p UNTIL[0,3] q", files[1]]
    text, lines = command(*asked), command("--output-format", "jsonl", *asked)
    assert "violates" in lines.errors
    assert (lines.status, lines.errors) == (text.status, text.errors)
    assert lines.output.splitlines() == [json_line(line, None) for line in text.output.splitlines()]


def lines_of(done: Ended) -> list[str]:
    return done.output.splitlines(keepends=True)


def test_the_first_of_several_policies(command: Command, files: tuple[Path, Path]) -> None:
    first = {}
    for number, (name, formula) in enumerate(FORMULAS.items()):
        done = command("--verdicts", "first", "-e", formula, files[1])
        time_stamp, offset = map(int, done.output.split(" ")[0].split(":"))
        first[time_stamp, number] = f"{name}\t{time_stamp}:{offset} false\n"
    done = command("--verdicts", "first", *files)
    assert done.output == first[min(first)].replace("\\", "\\\\")


def test_explanations(command: Command, tmp_path: Path) -> None:
    policies, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    policies.write_text('policy late: p IMPLIES EVENTUALLY[0,5] q\npolicy "no r": NOT r\n')
    log.write_text("ts,k,l,p,q,r\n1,a,x,true,,\n2,b,x,,true,true\n9,a,x,,,true\n9,b,y,true,,\n")
    asked = ["--explain", "--end-time", "inf", "--key", "k,l", "--verdicts", "none"]
    done = command(*asked, policies, log)
    assert (done.status, done.output) == (1, "")
    titles = re.findall(r"^policy .*\nat .*\n.* violates .*$", done.errors, re.MULTILINE)
    assert titles == [
        f"policy late, key a, x\nat {log}:2\n1:0 violates p IMPLIES EVENTUALLY[0,5] q",
        f"policy no r, key b, x\nat {log}:3\n2:0 violates NOT r",
        f"policy late, key b, y\nat {log}:5\n9:0 violates p IMPLIES EVENTUALLY[0,5] q",
        f"policy no r, key a, x\nat {log}:4\n9:0 violates NOT r",
    ]
    # only the events of its own key are shown
    assert "1:0  9:0" in done.errors
    limited = command(*asked, "--explain-limit", "1", policies, log)
    assert limited.errors.startswith(f"policy late, key a, x\nat {log}:2\n1:0 violates")
    assert limited.errors.endswith(
        "mtlmon: explained 1 violation; there are more (--explain-limit)\n"
    )
    page = tmp_path / "why.html"
    done = command(*asked, "--explain-output", page, policies, log)
    assert done == Ended(1, "", "")
    assert page.read_text().count("policy no r, key") == 2


def test_reports_and_summaries(command: Command, tmp_path: Path) -> None:
    policies, log, page = tmp_path / "rules.mtl", tmp_path / "log.csv", tmp_path / "report.html"
    policies.write_text('policy late: p IMPLIES EVENTUALLY[0,5] q\npolicy "no <r>": NOT r\n')
    rows = [f"{time},user {time % 3},{time % 2 == 0},,{time == 50}\n" for time in range(60)]
    log.write_text("ts,who,p,q,r\n" + "".join(rows) + "oops,x,,,\n")
    asked = ["--key", "who", "--on-error", "skip", "--summary", "--verdicts", "none"]
    done = command(*asked, "--report", page, policies, log)
    assert (done.status, done.output) == (1, "")
    assert re.search(r"^rows +61$", done.errors, re.MULTILINE)
    assert re.search(r"^skipped +1  that cannot be read$", done.errors, re.MULTILINE)
    assert re.search(r"^late +30 +27 +3$", done.errors, re.MULTILINE)
    assert re.search(r"^no <r> +59 +1 +0$", done.errors, re.MULTILINE)
    text = page.read_text()
    assert "late" in text
    assert "no &lt;r&gt;" in text
    assert "no <r>" not in text
    assert "user 2" in text
    for mode in "global", "naive":
        again = command(*asked, "--mode", mode, policies, log)
        assert again.errors.splitlines()[-2:] == done.errors.splitlines()[-2:]
    done = command(*asked[2:4], *asked[4:], "--resolve", policies, log)
    assert "mtlmon: 3 time-points undecided at the end" in done.errors


def test_several_policies_on_a_live_text_log(files: tuple[Path, Path]) -> None:
    with Live(str(files[0])) as live:
        live.send("@1 q\n")
        assert live.read_line() == "response\t1:0 true"
        assert live.read_line() == "in\\\\the past\t1:0 false"
        assert live.read_line(0.02) is None
        live.send("@7 p\n")
        assert live.read_line() == "in\\\\the past\t7:0 true"
        assert live.read_line() == "both\t1:0 true"
        live.send("@oops\n")
        message = (
            "<stdin>:3:2: time-stamp 'oops' is not an integer from 0 to 9223372036854775807 (@oops)"
        )
        assert live.end() == Ended(2, "", f"mtlmon: {message}\n")


def test_a_reader_that_goes_away(files: tuple[Path, Path]) -> None:
    policies, log = files
    with log.open("a") as file:
        file.write("@100000 p\n" * 300_000)
    done = shell('$M "$1" "$2" | head -n 1; echo ${PIPESTATUS[0]}', str(policies), str(log))
    assert done.errors == ""
    assert done.output.splitlines()[1:] == ["141"]


@pytest.mark.parametrize("formula", ["NOT p", "NOT p(x)"])
def test_what_a_policy_means_is_shown(command: Command, tmp_path: Path, formula: str) -> None:
    policies, log, page = tmp_path / "rules.mtl", tmp_path / "events.log", tmp_path / "page.html"
    policies.write_text(f'policy never "p is <forbidden>" severity high: {formula}\n')
    log.write_text("@1 p\n@2 q\n" if formula == "NOT p" else "@1 p(a)\n@2 q(a)\n")
    asked = ["--verdicts", "none", "--summary", "--explain"]
    done = command(*asked, "--report", page, policies, log)
    assert done.errors.startswith(f"policy never\np is <forbidden>\nat {log}:1\n1:0 violates")
    assert re.search(r"^never +\d.*  p is <forbidden>$", done.errors, re.MULTILINE)
    text = page.read_text()
    assert text.count("p is &lt;forbidden&gt;") == 1
    assert "<dt>severity</dt><dd>high</dd>" in text
    assert command(*asked, "--explain-output", page, policies, log).status == 1
    assert page.read_text().count("<p>p is &lt;forbidden&gt;</p>") == 1
