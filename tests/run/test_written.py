"""Files that a run writes, and files of MonPoly: the same in both ways in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mtlmon
from tests.cli.process import mtlmon as command
from tests.doors import in_python
from tests.monpoly.own_cases import CASES, SIGNATURE
from tests.run.both import check_both, keywords_of

LOG = "".join(
    f"@{time} {'p' if time % 3 else ''} {'q' if time % 4 else ''}\n" for time in range(40)
)


def counts(lines: list[str]) -> list[str]:
    """What a summary says of events and verdicts; seconds and bytes are other ones each time."""
    names = ("events", "time-points", "true", "false", "equal", "undecided")
    return [line for line in lines if line.strip().startswith(names)]


def written(folder: Path, files: dict[str, str]) -> list[Path]:
    for name, text in files.items():
        (folder / name).write_text(text)
    return [folder / name for name in files]


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "--verdicts false --output-format jsonl",
        "--resolve --end-time last",
        "--verdicts first",
        "--mode naive --threads 2",
        "--max-memory 20M",
        "--wait 2",
        "--sort --output-format jsonl",
        "--on-error skip",
        "--rows",
        "--output-format csv",
        "--max-memory 10",
        "--unit s --time-stamps iso",
    ],
)
@pytest.mark.parametrize("policies", ["p IMPLIES EVENTUALLY[0,3] q", "policy a: NOT q"])
def test_a_text_log_of_one_policy(policies: str, asked: str, tmp_path: Path) -> None:
    """Text becomes lines in native code for both, where no more is asked for."""
    rules, log = written(tmp_path, {"rules.mtl": policies, "log.txt": LOG})
    arguments = asked.split()
    done = command(*arguments, "--summary", "-o", str(tmp_path / "own"), str(rules), str(log))
    _, keywords = keywords_of(arguments)
    emitted: list[str] = []
    status: int | None = 2
    run = mtlmon.check(rules, log, output=tmp_path / "found", **keywords)
    try:
        status = run.finish().status
    except mtlmon.MtlmonError as error:
        emitted = [in_python(str(error))]
    assert status == done.status
    assert (tmp_path / "found").read_bytes() == (tmp_path / "own").read_bytes()
    lines = [in_python(one.removeprefix("mtlmon: ")) for one in done.errors.splitlines()]
    said = [line for text in [*run.messages, *emitted] for line in text.splitlines()]
    assert [one.replace("=,", ",") for one in said] == lines[: len(said)]
    if status != 2:
        assert counts(run.summary.splitlines()) == counts(lines[len(said) :])


def test_a_run_with_checkpoints_goes_on(tmp_path: Path) -> None:
    rules, log = written(tmp_path, {"rules.mtl": "p IMPLIES EVENTUALLY[0,3] q", "log.txt": LOG})
    asked: dict[str, Any] = {
        "output": tmp_path / "found", "checkpoint": tmp_path / "state", "resume": True,
    }  # fmt: skip
    log.write_text(LOG[:200].rpartition("\n")[0] + "\n")
    mtlmon.check(rules, log, **asked).finish()
    log.write_text(LOG)
    mtlmon.check(rules, log, end_time="last", **asked).finish()
    done = command("--end-time", "last", str(rules), str(log))
    assert (tmp_path / "found").read_text() == done.output


@pytest.mark.parametrize("name", CASES)
def test_files_of_monpoly(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    files = {"a.mfotl": case.formula, "a.log": case.log, "a.sig": SIGNATURE}
    formula, log, signature = written(tmp_path, files)
    arguments = ["--signature", str(signature), *(["--negate"] if case.negate else [])]
    check_both(formula, log, *arguments)
    _, keywords = keywords_of(arguments)
    target = tmp_path / "found"
    run = mtlmon.check(formula, log, output=target, output_format="monpoly", **keywords)
    assert run.has_violation == (case.negate and bool(case.output))
    done = command("--output-format", "monpoly", *arguments, str(formula), str(log))
    assert target.read_text() == done.output


@pytest.mark.parametrize(
    "asked",
    [
        "--nonewlastts",
        "--mode naive",
        "--end-time last",
        "--key x",
        "--rows",
        "--verdicts first",
        "--verdicts none",
        "--lateness 5",
        "--wait 5",
        "--max-rows 1",
        "--fail-on-vacuous",
        "--explain",
    ],
)
def test_options_with_files_of_monpoly(asked: str, tmp_path: Path) -> None:
    files = {"a.mfotl": "p(x)", "a.log": "@0 p(1)(2)\n@4 p(3)\n@6\n", "a.sig": SIGNATURE}
    formula, log, signature = written(tmp_path, files)
    check_both(formula, log, "--signature", str(signature), *asked.split())


def test_formulas_of_monpoly_need_a_signature(tmp_path: Path) -> None:
    formula, log, signature = written(
        tmp_path, {"a.mfotl": "p(x)", "a.log": "@0 p(1)\n", "a.sig": SIGNATURE}
    )
    with pytest.raises(mtlmon.RunError, match="add the signature of its log with signature=PATH"):
        mtlmon.check(formula, log)
    with pytest.raises(mtlmon.RunError, match="negate is for files of MonPoly: add signature=PATH"):
        mtlmon.check("p", log, negate=True)
    assert [one["verdict"] for one in mtlmon.check("p(x)", log, signature=signature)] == [True]
    with pytest.raises(mtlmon.RunError, match="signature is for a formula of MonPoly: give its"):
        mtlmon.check(mtlmon.parse("p"), log, signature=signature)


def test_a_program_may_end_while_it_has_the_run(tmp_path: Path) -> None:
    """What the run has open is closed without a word while the interpreter ends."""
    (tmp_path / "log").write_text("@0 p\n@1 q\n")
    for rest in ("run.finish()", "next(run.batches(), None)", ""):
        program = f"""
import mtlmon


from pathlib import Path
run = mtlmon.check("p IMPLIES EVENTUALLY[0,5] q", Path("log"), output="out")
{rest}
"""
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
