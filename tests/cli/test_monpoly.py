"""The command on files of MonPoly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mtlmon.monpoly import monitoring
from tests.cli.process import Ended
from tests.monpoly.oracle import ReferenceEngine
from tests.monpoly.own_cases import CASES, SIGNATURE, Case, written

Command = Callable[..., Ended]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    """A signature, a formula and a log."""
    contents = {
        "a.sig": "publish(user: string, file: string)\napprove(file: string)\n",
        "a.mfotl": "publish(u, f) IMPLIES ONCE[0,7d] approve(f)\n",
        "a.log": "@10 approve(f1)\n@20 publish(alice, f1)(bob, f2)\n@30 publish(bob,f2)\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    signature, formula, log = (str(tmp_path / name) for name in contents)
    return signature, formula, log


@pytest.fixture(params=["engine", "reference"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine, or the reference in its place."""
    if request.param == "reference":
        monkeypatch.setattr(monitoring, "make_engine", ReferenceEngine)


def run_case(case: Case, folder: Path, command: Command, *arguments: str) -> Ended:
    for name, content in {"a.sig": SIGNATURE, "a.mfotl": case.formula, "a.log": case.log}.items():
        (folder / name).write_text(content)
    paths = (str(folder / "a.mfotl"), str(folder / "a.log"))
    given = [*arguments, *(["--negate"] if case.negate else [])]
    options = ("--output-format", "monpoly", "--signature", str(folder / "a.sig"))
    return command("--no-summary", *options, *given, *paths)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, tmp_path: Path, command: Command) -> None:
    case = CASES[name]
    ended = run_case(case, tmp_path, command)
    assert ended.output == written(case)
    assert ended.errors == ""
    assert ended.status == (1 if case.negate and case.output else 0)


@pytest.mark.usefixtures("engine")
def test_the_end_of_the_log_can_be_left_open(tmp_path: Path, command: Command) -> None:
    case = Case("EVENTUALLY[0,5] p(x)", "@0 p(1)\n@4\n@6\n", "")
    ended = run_case(case, tmp_path, command, "--nonewlastts")
    assert (ended.status, ended.output) == (0, "@0 (time point 0): (1)\n")


@pytest.mark.usefixtures("engine")
def test_what_is_earned_before_an_error_is_written(tmp_path: Path, command: Command) -> None:
    case = Case("p(x)", "@0 p(1)\n@4\n@3 p(2)\n@5 p(3)", "")
    ended = run_case(case, tmp_path, command)
    assert (ended.status, ended.output) == (2, "@0 (time point 0): (1)\n")
    assert "a.log:3:2: the time-stamp 3 is below the one before, 4" in ended.errors
    ended = run_case(case, tmp_path, command, "--on-error", "skip")
    assert (ended.status, ended.output) == (
        0,
        "@0 (time point 0): (1)\n@5 (time point 2): (3)\n",
    )
    assert "skipped 1 time-point that could not be read" in ended.errors


@pytest.mark.usefixtures("engine")
def test_wanted_verdicts_and_the_summary(tmp_path: Path, command: Command) -> None:
    case = Case("p(x) IMPLIES r()", "@0 p(1)\n@4 p(2) p(3)\n", "", negate=True)
    assert run_case(case, tmp_path, command, "--verdicts", "first")[:2] == (
        1,
        "@0 (time point 0): (1)\n",
    )
    assert run_case(case, tmp_path, command, "--verdicts", "none")[:2] == (1, "")
    ended = run_case(case, tmp_path, command, "--summary")
    assert "time-points         2\n" in ended.errors
    assert "valuations          3\n" in ended.errors


def test_a_formula_is_refused_with_its_place(files: tuple[str, str, str], command: Command) -> None:
    signature, formula, log = files
    Path(formula).write_text("publish(u, f)\nAND approved(f)")
    ended = command("--signature", signature, formula, log)
    assert ended.status == 2
    assert f"{formula}:2:5: the signature has no relation approved" in ended.errors
    assert "hint: did you mean approve?" in ended.errors


def test_a_signature_is_refused_with_its_place(
    files: tuple[str, str, str], command: Command
) -> None:
    signature, formula, log = files
    Path(signature).write_text("publish(user: text)")
    ended = command("--signature", signature, formula, log)
    assert ended.status == 2
    assert f"{signature}:1:15: there is no type text" in ended.errors


def test_what_nothing_binds_is_refused(files: tuple[str, str, str], command: Command) -> None:
    signature, formula, log = files
    ended = command("--signature", signature, formula, log)
    assert ended.status == 2
    assert "the formula: one side of OR binds" in ended.errors or "nothing says" in ended.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--end-time", "inf"], "--nonewlastts leaves the end of the log open"),
        (["--unit", "ms"], "time-stamps are seconds there"),
        (["--mode", "global"], "--mode does not work with --signature"),
        (["--resolve"], "--resolve does not work with --signature"),
        (["--report", "r.html"], "--report does not work with --signature"),
        (["--format", "csv"], "not for tables"),
        (["--output-format", "csv"], "--output-format csv does not work with --signature yet"),
    ],
)
def test_options_that_do_not_work(
    files: tuple[str, str, str], command: Command, arguments: list[str], message: str
) -> None:
    signature, formula, log = files
    ended = command(*arguments, "--negate", "--signature", signature, formula, log)
    assert ended.status == 2
    assert message in ended.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.mfotl"], "a.mfotl is a formula of MonPoly"),
        (["--negate", "-e", "p"], "--negate is for files of MonPoly"),
        (["--nonewlastts", "-e", "p"], "--nonewlastts is for files of MonPoly"),
        (["--output-format", "monpoly", "-e", "p"], "add --signature FILE"),
    ],
)
def test_options_that_need_a_signature(
    command: Command, arguments: list[str], message: str
) -> None:
    ended = command(*arguments)
    assert ended.status == 2
    assert message in ended.errors


def test_a_formula_is_explained(files: tuple[str, str, str], command: Command) -> None:
    signature, formula, log = files
    ended = command("--negate", "--explain-formula", "--signature", signature, formula, log)
    assert (ended.status, ended.errors) == (0, "")
    assert "rows of publish(u, f)" in ended.output
