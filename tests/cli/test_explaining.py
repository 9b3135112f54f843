"""Explanations of violations by the command."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.dom import minidom

import pytest

from mtlmon.explanation import explain
from tests.cli.process import mtlmon as run
from tests.cli.process import shell

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMULA = "request IMPLIES EVENTUALLY[0,5] response"
LOG = "@18 tick\n@20 request\n@22\n@25\n@26 response\n@40 request\n@40 request\n@50\n"
EVENTS = [
    (18, set()),
    (20, {"request"}),
    (22, set()),
    (25, set()),
    (26, {"response"}),
    (40, {"request"}),
    (40, {"request"}),
    (50, set()),
]
VIOLATIONS = [(20, 0), (40, 0), (40, 1)]
LINES = {(20, 0): 2, (40, 0): 6, (40, 1): 7}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "events.log"
    path.write_text(LOG, encoding="utf-8")
    return path


def explanation(log: Path | str, point: tuple[int, int], formula: str, **options: int) -> str:
    return f"at {log}:{LINES[point]}\n{explain(formula, EVENTS, point, **options)}\n\n"


def explanations(log: Path | str, formula: str = FORMULA) -> str:
    return "".join(explanation(log, point, formula) for point in VIOLATIONS)


@pytest.mark.parametrize("mode", ["local", "global", "naive"])
def test_all_violations_are_explained_on_standard_error(log: Path, mode: str) -> None:
    plain = run("--mode", mode, "-e", FORMULA, str(log))
    done = run("--explain", "--mode", mode, "-e", FORMULA, str(log))
    assert done == (1, plain.output, explanations(log))


@pytest.mark.parametrize("verdicts", ["none", "false", "boolean"])
def test_explanations_do_not_depend_on_what_is_written(log: Path, verdicts: str) -> None:
    done = run("--explain", "--verdicts", verdicts, "-e", FORMULA, str(log))
    assert (done.status, done.errors) == (1, explanations(log))


def test_logs_that_are_read_in_parts(log: Path) -> None:
    """Explanations are about the events that they were found for, also once others are read."""
    # the last line comes alone
    log.write_text(LOG.rstrip(), encoding="utf-8")
    assert run("--explain", "-e", FORMULA, str(log)).errors == explanations(log)
    past = "NOT request"
    assert run("--explain", "-e", past, str(log)).errors == explanations(log, past)


def test_only_the_first_violation(log: Path) -> None:
    done = run("--explain", "--verdicts", "first", "-e", FORMULA, str(log))
    assert (done.status, done.output) == (1, "20:0 false\n")
    assert done.errors == explanation(log, (20, 0), FORMULA)


def test_limit(log: Path) -> None:
    done = run("--explain", "--explain-limit", "2", "-e", FORMULA, str(log))
    assert re.findall(r"^\S+ violates", done.errors, re.MULTILINE) == [
        "20:0 violates",
        "40:0 violates",
    ]
    assert done.errors.endswith(
        "mtlmon: explained 2 violations; there are more (--explain-limit)\n"
    )
    for wrong in "0", "-1", "x", "":
        done = run("--explain", f"--explain-limit={wrong}", "-e", FORMULA, str(log))
        assert done.status == 2
        assert "is not an integer from 1 on" in done.errors


def test_nothing_to_explain(log: Path) -> None:
    assert run("--explain", "-e", "NOT other", str(log)).errors == (
        "mtlmon: no event has the atom other\n"
    )


def test_files(log: Path, tmp_path: Path) -> None:
    text, page = tmp_path / "why.txt", tmp_path / "why.html"
    for path in text, page:
        done = run("--explain-output", str(path), "-e", FORMULA, str(log))
        assert (done.status, done.errors) == (1, "")
    assert text.read_text(encoding="utf-8") == explanations(log)
    html = page.read_text(encoding="utf-8")
    assert html.count("<section") == len(VIOLATIONS)
    for picture in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        minidom.parseString(picture)
    assert run("--explain-output", str(tmp_path), "-e", FORMULA, str(log)).status == 2


def test_no_file_is_overwritten(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for path, arguments in (log, []), (out, ["-o", str(out)]):
        done = run("--explain-output", str(path), *arguments, "-e", FORMULA, str(log))
        assert done.status == 2
        assert "this run uses it for something else" in done.errors
    assert log.read_text(encoding="utf-8") == LOG


def test_a_pipe_cannot_be_read_again() -> None:
    done = run("--explain", "-e", FORMULA, log=LOG)
    assert done == (
        2,
        "",
        "mtlmon: cannot explain: <stdin> cannot be read a second time; save the log to a file "
        "first\n",
    )


def test_a_file_as_standard_input(log: Path) -> None:
    done = shell(f"$M --explain -e '{FORMULA}' < '{log}'")
    assert (done.status, done.errors) == (1, explanations("<stdin>"))


def test_end_time(log: Path) -> None:
    formula = "NOT request OR EVENTUALLY[0,20] response"
    assert run("--explain", "-e", formula, str(log)).errors == ""
    done = run("--explain", "--end-time", "60", "-e", formula, str(log))
    assert done.status == 1
    assert done.errors == "".join(
        explanation(log, point, formula, end_time=60) for point in VIOLATIONS[1:]
    )


def test_decided_by_comparison_alone(log: Path) -> None:
    done = run("--explain", "-e", "(EVENTUALLY p) AND NOT EVENTUALLY p", str(log))
    assert done.status == 1
    assert "mtlmon: 18:0 is false whatever comes, but only by comparing" in done.errors


def test_skipped_lines(tmp_path: Path) -> None:
    log = tmp_path / "events.log"
    log.write_text(LOG.replace("@22", "@22\nbad\n@3"), encoding="utf-8")
    done = run("--explain", "--on-error", "skip", "-e", FORMULA, str(log))
    expected = explanations(log).replace("log:6", "log:8").replace("log:7", "log:9")
    assert done.errors == f"mtlmon: skipped 2 lines that could not be read\n{expected}"


@pytest.mark.parametrize(
    "formula",
    [
        "p IMPLIES ONCE[0,7] q",
        "(PREVIOUS[0,2] PREVIOUS[1,3] p) IMPLIES q SINCE[1,6] r",
        "(EVENTUALLY[2,4] HISTORICALLY[0,3] p) OR NOT (q OR r)",
        "ALWAYS[0,3] (p IMPLIES (ONCE[1,4] q) OR NEXT[0,2] r)",
        "(HISTORICALLY[0,5] EVENTUALLY[0,2] p) OR q OR r",
        "NOT (p AND PREVIOUS (q AND NEXT[0,9] r))",
    ],
)
def test_parts_of_long_logs_give_the_proofs_of_the_whole(formula: str, tmp_path: Path) -> None:
    """The command keeps only the events within reach; more than one block is read."""
    generator = random.Random(formula)
    formula = f"NOT late OR ({formula})"
    clock, events = 0, []
    for number in range(20_000):
        clock += generator.choice([0, 0, 1, 1, 2, 5])
        atoms = {atom for atom in "pqr" if generator.random() < 0.5}
        events.append((clock, atoms | ({"late"} if number > 16_000 else set())))
    lines = [f"@{time} {' '.join(sorted(atoms))} and more of it\n" for time, atoms in events]
    log = tmp_path / "events.log"
    log.write_text("".join(lines), encoding="utf-8")
    done = run("--explain", "--verdicts", "none", "-e", formula, str(log))
    names = re.findall(r"^(\d+):(\d+) violates", done.errors, re.MULTILINE)
    assert len(names) == 10
    points = [(int(time), int(offset)) for time, offset in names]
    places = {name: line for line, name in enumerate(names_of(events), 1)}
    expected = "".join(
        f"at {log}:{places[point]}\n{explain(formula, events, point)}\n\n" for point in points
    )
    assert expected in done.errors


def names_of(events: list[tuple[int, set[str]]]) -> Iterator[tuple[int, int]]:
    """The names of time-points: their time-stamps, and their numbers within these."""
    last, offset = -1, 0
    for time, _ in events:
        offset = offset + 1 if time == last else 0
        last = time
        yield time, offset


def test_as_many_violations_are_explained_as_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "events.log"
    log.write_text("".join(f"@{time} q\n" for time in range(300)), encoding="utf-8")
    done = run("--explain", "--explain-limit", "250", "--verdicts", "none", "-e", "p", str(log))
    assert len(re.findall(r"^\d+:0 violates", done.errors, re.MULTILINE)) == 250


def test_rows_of_a_key_are_numbered_by_themselves(tmp_path: Path) -> None:
    """PREVIOUS is the row of the key before, not any earlier one; `late` is of its rows, too."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    rules.write_text(
        'key user\natom login(ip) = kind = "login"\n'
        "policy twice: login(x) IMPLIES NOT PREVIOUS login(x)\n"
        "policy late: login(x) IMPLIES NOT ONCE[1,9] late\n"
    )
    rows = ["1,ann,A,true", "2,bob,A,true", "3,ann,A,false", "4,cid,A,true", "5,ann,A,false"]
    log.write_text("ts,user,ip,late,kind\n" + "".join(f"{row},login\n" for row in rows))
    done = run("--explain", "--verdicts", "none", str(rules), str(log))
    behind = re.findall(r"[✓✗] (?:PREVIOUS|ONCE).*\n((?:  .*\n)*)", done.errors)
    assert behind == [
        f"  └─ 1:0 login(A) ({log}:2, 2 time units before)\n",
        f"  └─ 1:0 late ({log}:2, 2 time units before)\n",
        f"  └─ 3:0 login(A) ({log}:4, 2 time units before)\n",
        f"  └─ 1:0 late ({log}:2, 4 time units before)\n",
    ]


@pytest.mark.parametrize("text", [FORMULA, f"policy answered: {FORMULA}"])
def test_text_logs_are_explained_without_pyarrow(log: Path, text: str) -> None:
    policy = log.with_name("policy.mtl")
    policy.write_text(text, encoding="utf-8")
    code = "import sys; sys.modules['pyarrow'] = None; from mtlmon.cli import main; main()"
    for option in ["--explain"], ["--report", str(log.with_name("report.html"))]:
        done = subprocess.run(
            [sys.executable, "-c", code, *option, str(policy), str(log)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.endswith("50:0 true\n")
        assert "internal fault" not in done.stderr
        assert done.stderr.count("├─ ✓") == (3 if option == ["--explain"] else 0)


def test_keys_that_nothing_violates_are_no_violations(tmp_path: Path) -> None:
    """With `--verdicts all` they are answered, and a report does not count them."""
    rules, log, page = (tmp_path / name for name in ("p.mtl", "log.csv", "page.html"))
    rules.write_text("key k\natom pa(k) = p\npolicy a: FORALL x. pa(x) IMPLIES ONCE[1,6] pa(x)\n")
    log.write_text("ts,k,p\n1,a,true\n2,b,false\n2,a,true\n")
    done = run("--explain", "--verdicts", "all", "--report", str(page), str(rules), str(log))
    assert done.output.splitlines() == ["a\ta\t1:0 false (x=a)", "a\tb\t2:0 true", "a\ta\t2:0 true"]
    assert done.errors.count("violates") == 1
    assert "k = a, x = a" in done.errors
    assert re.findall(r"([\d,]+) violations?\b", page.read_text())[0] == "1"
