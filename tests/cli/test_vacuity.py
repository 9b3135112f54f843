"""How often policies were triggered, in the summary, the report and the exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import Ended, mtlmon

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., Ended]

POLICIES = """\
policy response: p IMPLIES EVENTUALLY[0,5] q
policy unused: ALWAYS[0,3] (q AND p IMPLIES r)
policy plain: NOT r
"""
LOG = "@1 p\n@2 q\n@3\n@9 p\n@40\n@41 p\n"
TABLE = "ts,user,p,q,r\n" + "".join(
    f"{time},{user},{int(p)},{int(q)},0\n"
    for user, time, p, q in [
        ("a", 1, True, False),
        ("b", 2, True, False),
        ("a", 3, False, True),
        ("b", 9, False, True),
        ("b", 12, False, False),
    ]
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "events.log"
    path.write_text(LOG)
    return path


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    path = tmp_path / "rules.mtl"
    path.write_text(POLICIES)
    return path


def of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "one.mtl"
    path.write_text(text)
    return path


def test_summary(command: Command, policies: Path, log: Path) -> None:
    done = command("--summary", policies, log)
    assert done.errors.splitlines()[-3:] == [
        "",
        "response: 3 triggered, 1 violated (33.3%), 1 open",
        "warning: policy unused was never triggered, so nothing was checked",
    ]
    # the verdicts are the same, and nobody asks for the counts
    assert done.output == command(policies, log).output


def test_summary_of_one_policy(command: Command, tmp_path: Path, log: Path) -> None:
    one = of(tmp_path, "policy response: p IMPLIES EVENTUALLY[0,5] q\n")
    done = command("--summary", one, log)
    assert done.errors.endswith("\n\nresponse: 3 triggered, 1 violated (33.3%), 1 open\n")
    assert done.output == command(one, log).output
    assert done.output.startswith("response\t1:0 ")


def test_summary_of_tables_with_keys(command: Command, policies: Path, tmp_path: Path) -> None:
    table = tmp_path / "log.csv"
    table.write_text(TABLE)
    done = command("--summary", "--key", "user", policies, table)
    assert "\nresponse: 2 triggered, 1 violated (50.0%), 0 open\n" in done.errors
    whole = command("--summary", policies, table)
    assert "\nresponse: 2 triggered, 0 violated (0.0%), 0 open\n" in whole.errors


def test_exit_status(command: Command, policies: Path, tmp_path: Path, log: Path) -> None:
    used = of(tmp_path, "policy response: p IMPLIES ONCE p\n")
    assert command("--fail-on-vacuous", used, log).status == 0
    unused = of(tmp_path, "policy response: p AND q IMPLIES ONCE r\n")
    assert command("--verdicts", "none", unused, log).status == 0
    done = command("--fail-on-vacuous", "--explain", "--verdicts", "none", unused, log)
    assert done.status == 1
    assert done.errors.splitlines()[-1] == (
        "mtlmon: policy response was never triggered (--fail-on-vacuous)"
    )
    done = command("--fail-on-vacuous", "-e", "p AND q IMPLIES p", log)
    assert done.status == 1
    assert done.errors == "mtlmon: the formula was never triggered (--fail-on-vacuous)\n"
    # a formula that is no implication is always put to use
    assert command("--fail-on-vacuous", "-e", "NOT r OR p", log).status == 0


def test_what_does_not_go_together(command: Command, tmp_path: Path, log: Path) -> None:
    done = command("--fail-on-vacuous", "--verdicts", "first", "-e", "p", log)
    assert done.status == 2
    assert "--fail-on-vacuous does not work with --verdicts first" in done.errors


def test_report(command: Command, policies: Path, log: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    command("--report", page, policies, log)
    text = page.read_text()
    assert '<dt>triggered</dt><dd>3 <span class="faint">33.3 % violated</span></dd>' in text
    assert text.count("<dt>triggered</dt>") == 2
    assert text.count("the left side of the implication never held") == 1


def test_policies_with_and_without_variables(command: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("@1 p a(x)\n@2 q b(x)\n@9 p\n@20\n")
    both = of(tmp_path, "policy x: p IMPLIES EVENTUALLY[0,5] q\npolicy y: b(u) IMPLIES ONCE a(u)\n")
    done = command("--summary", both, log)
    assert "\nx: 2 triggered, 1 violated (50.0%), 0 open\n" in done.errors


@pytest.mark.parametrize(
    ("clause", "status"),
    [
        ("at most 33%", 1),
        ("at most 34%", 0),
        ("at most 100%", 0),
        ("at most 0", 1),
        ("at most 1", 0),
        ("at most 0%", 1),
    ],
)
def test_tolerances(command: Command, tmp_path: Path, log: Path, clause: str, status: int) -> None:
    """A share is of the time-points at which the left side held: 1 of 3, not 1 of 6."""
    one = of(tmp_path, f"policy x {clause}: p IMPLIES EVENTUALLY[0,5] q\n")
    assert command(one, log).status == status
    done = command("--summary", one, log)
    remark = f"{clause}: too many" if status else clause
    assert f"1 violated (33.3%, {remark}), 1 open" in done.errors


@pytest.mark.parametrize(("clause", "status"), [("at most 49%", 1), ("at most 50%", 0)])
def test_tolerances_without_implication(
    command: Command, tmp_path: Path, log: Path, clause: str, status: int
) -> None:
    done = command("--summary", of(tmp_path, f"policy x {clause}: NOT p\n"), log)
    assert done.status == status
    remark = f"{clause}: too many" if status else clause
    assert done.errors.endswith(f"\n\nx: 3 of 6 violated (50.0%, {remark})\n")


def test_tolerances_with_variables(command: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("@1 p(1)\n@2 p(2) p(3)\n@3\n")
    for most, status in (1, 1), (2, 0):
        one = of(tmp_path, f"policy x at most {most}: NOT p(a)\n")
        done = command("--summary", one, log)
        assert done.status == status
        remark = f"at most {most}: too many" if status else f"at most {most}"
        assert done.errors.endswith(f"\n\nx: 2 of 3 violated (66.7%, {remark})\n")


def test_a_number_of_violations_is_whole(command: Command, tmp_path: Path, log: Path) -> None:
    done = command(of(tmp_path, "policy x at most 1.5: p\n"), log)
    assert done.status == 2
    assert "expected '%'" in done.errors
    assert "a number of violations is whole" in done.errors


def test_checkpoints_keep_the_counts(tmp_path: Path) -> None:
    """The left side holds in the first part of the log only."""
    log, state, output = tmp_path / "log", tmp_path / "state", tmp_path / "verdicts"
    used = of(tmp_path, "policy x: p IMPLIES ONCE p\n")
    log.write_text("@1 p\n@2 p\n")
    options = ["--checkpoint", str(state), "--resume", "-o", str(output), str(used), str(log)]
    assert mtlmon("--fail-on-vacuous", *options).status == 0
    log.write_text("@1 p\n@2 p\n@3 q\n")
    done = mtlmon("--fail-on-vacuous", "--summary", *options)
    assert done.status == 0
    assert "x: 2 triggered, 0 violated (0.0%), 0 open" in done.errors
    # a run that does not count cannot go on from there, nor the other way round
    assert mtlmon(*options).status == 2
    state.unlink()
    assert mtlmon("--summary", *options).status == 0
    assert mtlmon("--fail-on-vacuous", *options).status == 2


def test_time_points_of_policies(command: Command, tmp_path: Path, log: Path) -> None:
    """Left sides are counted at the time-points of their policies, ticks that rest included."""
    rules = of(
        tmp_path,
        "unit s\n"
        "policy ticks on every 10s: any[0,9s](p) IMPLIES any[0,9s](q)\n"
        "policy rest on every 10s: not any[0,2s](p) IMPLIES any[0,90s](p)\n"
        "policy chosen on rows where q: p IMPLIES NOT p\n"
        "policy all: p IMPLIES ONCE p\n",
    )
    done = command("--summary", "--verdicts", "none", rules, log)
    assert done.errors.splitlines()[-4:] == [
        "ticks: 1 triggered, 0 violated (0.0%), 0 open",
        "rest: 3 triggered, 0 violated (0.0%), 0 open",
        "warning: policy chosen was never triggered, so nothing was checked",
        "all: 3 triggered, 0 violated (0.0%), 0 open",
    ]
    assert command(rules, log).status == 0
