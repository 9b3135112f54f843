"""How often policies with variables were triggered: summary, report, exit status, shares."""

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
policy paid: ship(o) IMPLIES ONCE[0,9] pay(o)
policy unused: FORALL o. refund(o) IMPLIES ONCE ship(o)
policy open: (EXISTS o. pay(o)) IMPLIES EVENTUALLY[0,99] EXISTS o. ship(o)
policy plain: NOT (pay(o) AND ship(o))
find found: ship(o)
"""
LOG = "@1 pay(a) pay(b)\n@2 ship(a) ship(c)\n@3 ship(b)\n@20 ship(a)\n"
WORDS = [
    "paid: 4 valuations triggered, 2 violated (50.0%)",
    "warning: policy unused was never triggered, so nothing was checked",
    "open: 1 time-point triggered, 0 violated (0.0%)",
]
DECLARED = "".join(f'atom {name}(o) = what = "{name}"\n' for name in ("pay", "ship", "refund"))
DECLARED += 'atom other = what = "other"\n'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "events.log"
    path.write_text(LOG)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [
        f"{line.split()[0][1:]},{name},{value}\n"
        for line in LOG.splitlines()
        for name, value in (row[:-1].split("(") for row in line.split()[1:])
    ]
    path = tmp_path / "events.csv"
    path.write_text("".join(["ts,what,o\n", *rows]))
    return path


def of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rules.mtl"
    path.write_text(text)
    return path


def test_summary(command: Command, tmp_path: Path, log: Path) -> None:
    rules = of(tmp_path, POLICIES)
    done = command("--summary", rules, log)
    assert done.errors.splitlines()[-4:] == ["", *WORDS]
    # the answers are the same, and nobody asks for the counts
    assert done.output == command(rules, log).output
    # the first violation ends the run
    done = command("--summary", "--verdicts", "first", rules, log)
    assert "triggered" not in done.errors


@pytest.mark.parametrize("points", ["row", "stamp"])
def test_summary_of_tables(command: Command, tmp_path: Path, table: Path, points: str) -> None:
    rules = of(tmp_path, DECLARED + POLICIES)
    done = command("--summary", "--time-points", points, rules, table)
    words = list(WORDS)
    if points == "row":
        words[2] = "open: 2 time-points triggered, 0 violated (0.0%)"
    assert done.errors.splitlines()[-4:] == ["", *words]


def test_summary_with_other_policies(
    command: Command, tmp_path: Path, log: Path, table: Path
) -> None:
    text = f"{POLICIES}policy other: other IMPLIES other\n"
    done = command("--summary", of(tmp_path, text), log)
    assert done.errors.splitlines()[-4:] == ["", *WORDS]
    assert "warning: policy other was never triggered" in done.errors
    text = f'{DECLARED}atom last = o = "z"\n{POLICIES}policy other: last IMPLIES last\n'
    done = command("--summary", "--time-points", "stamp", of(tmp_path, text), table)
    assert done.errors.splitlines()[-4:] == ["", *WORDS]
    done = command("--fail-on-vacuous", "--verdicts", "none", of(tmp_path, text), table)
    notes = [line for line in done.errors.splitlines() if "never triggered" in line]
    assert [line.split()[2] for line in notes] == ["other", "unused"]
    assert done.status == 1


def test_exit_status(command: Command, tmp_path: Path, log: Path, table: Path) -> None:
    used = "policy x: ship(o) IMPLIES NOT refund(o)\n"
    unused = "policy x: refund(o) IMPLIES ONCE ship(o)\n"
    for declared, read in ("", log), (DECLARED, table):
        assert command("--fail-on-vacuous", of(tmp_path, declared + used), read).status == 0
        rules = of(tmp_path, declared + unused)
        assert command(rules, read).status == 0
        done = command("--fail-on-vacuous", rules, read)
        assert done.status == 1
        note = "mtlmon: policy x was never triggered (--fail-on-vacuous)"
        assert done.errors.splitlines()[-1] == note
    # nothing is violated, so nothing is explained
    done = command("--fail-on-vacuous", "--explain", of(tmp_path, unused), log)
    assert done.status == 1
    assert done.errors.splitlines()[-1] == note
    done = command("--fail-on-vacuous", "-e", "refund(o) IMPLIES ONCE ship(o)", log)
    assert done.errors.splitlines()[-1] == (
        "mtlmon: the formula was never triggered (--fail-on-vacuous)"
    )


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            "policy x: o > 1 IMPLIES NOT p(o)",
            "--fail-on-vacuous cannot tell how often the left side of policy x holds: by itself, "
            "it does not bind its variables; add an atom that does, leave the option out, or",
        ),
        (
            "policy x: (EVENTUALLY p(1)) IMPLIES EVENTUALLY p(2)",
            "--fail-on-vacuous cannot tell how often the left side of policy x holds: it looks "
            "ahead without bound; give its operators bounds, leave the option out, or",
        ),
    ],
)
def test_left_sides_that_cannot_be_counted(
    command: Command, tmp_path: Path, log: Path, table: Path, policy: str, message: str
) -> None:
    declared = "atom p(o: int)"
    for text, read in (declared, log), (f'{declared} = what = "p"', table):
        rules = of(tmp_path, f"{text}\n{policy}\n")
        done = command("--fail-on-vacuous", rules, read)
        assert (done.status, done.output) == (2, "")
        assert message in done.errors
        assert "triggered" not in command("--summary", rules, read).errors


def test_slices_count(command: Command, tmp_path: Path, log: Path) -> None:
    rules = of(tmp_path, POLICIES)
    wanted = command("--summary", rules, log)
    lines = [line for line in wanted.errors.splitlines() if "triggered" in line]
    assert lines
    for slices in "1", "2", "5":
        done = command("--summary", "--slices", slices, rules, log)
        assert (done.status, done.output) == (wanted.status, wanted.output)
        assert [line for line in done.errors.splitlines() if "triggered" in line] == lines
        vacuous = command("--fail-on-vacuous", "--slices", slices, rules, log)
        assert vacuous.status == command("--fail-on-vacuous", rules, log).status
        assert "was never triggered (--fail-on-vacuous)" in vacuous.errors
    for share, status in (50, 0), (49, 1):
        shared = of(tmp_path, f"policy x at most {share}%: ship(o) IMPLIES ONCE[0,9] pay(o)\n")
        assert command(shared, log).status == status
        assert command("--slices", "2", shared, log).status == status
    unbound = of(tmp_path, "atom pay(o: int)\npolicy x: o > 1 IMPLIES NOT pay(o)\n")
    done = command("--fail-on-vacuous", "--slices", "2", unbound, log)
    assert done.status == 2
    assert "it does not bind its variables" in done.errors


@pytest.mark.parametrize(("first", "then"), [("1", "3"), ("3", "2"), ("2", "1")])
def test_slices_count_on_from_checkpoints(
    command: Command, tmp_path: Path, log: Path, first: str, then: str
) -> None:
    rules, half = of(tmp_path, POLICIES), tmp_path / "half.log"
    lines = log.read_text().splitlines(keepends=True)
    half.write_text("".join(lines[: len(lines) // 2]))
    given = ["--fail-on-vacuous", "--checkpoint", tmp_path / "state", "-o", tmp_path / "out"]
    command(*given, "--slices", first, rules, half)
    half.write_text("".join(lines))
    done = command(*given, "--slices", then, "--resume", rules, half)
    wanted = command("--fail-on-vacuous", "--summary", rules, log)
    assert (tmp_path / "out").read_text() == wanted.output
    assert done.status == wanted.status
    named = [line for line in wanted.errors.splitlines() if "(--fail-on-vacuous)" in line]
    assert [line for line in done.errors.splitlines() if "(--fail-on-vacuous)" in line] == named


def test_report(command: Command, tmp_path: Path, log: Path) -> None:
    page = tmp_path / "page.html"
    text = POLICIES.replace("paid:", "paid at most 50%:")
    assert command("--report", page, of(tmp_path, text), log).status == 0
    shown = page.read_text()
    assert '<dt>triggered</dt><dd>4 <span class="faint">50.0 % violated</span></dd>' in shown
    assert shown.count("<dt>triggered</dt>") == 3
    assert shown.count("the left side of the implication never held") == 1
    assert "tolerated" in shown


@pytest.mark.parametrize(
    ("clause", "status"),
    [
        ("at most 49%", 1),
        ("at most 50%", 0),
        ("at most 0%", 1),
        ("at most 1", 1),
        ("at most 2", 0),
    ],
)
def test_shares(
    command: Command, tmp_path: Path, log: Path, table: Path, clause: str, status: int
) -> None:
    """A share is one of the valuations of the left side: 2 of 4, not 2 of 4 time-points."""
    log.write_text(f"{LOG}@30\n@40\n@50\n")
    text = f"policy x {clause}: ship(o) IMPLIES ONCE[0,9] pay(o)\n"
    assert command(of(tmp_path, text), log).status == status
    done = command("--summary", of(tmp_path, text), log)
    remark = f"{clause}: too many" if status else clause
    assert f"x: 4 valuations triggered, 2 violated (50.0%, {remark})" in done.errors
    others = f"{text}policy y: NOT other\n"
    assert command(of(tmp_path, others), log).status == status
    assert command(of(tmp_path, DECLARED + text), table).status == status
    stamps = command("--time-points", "stamp", of(tmp_path, DECLARED + text), table)
    assert stamps.status == status


@pytest.mark.parametrize(
    "policy",
    [
        "NOT ship(o)",
        # for each order, there may be several payments
        "ship(o) IMPLIES NOT ONCE pay(p)",
        "HISTORICALLY[0,0] (ship(o) IMPLIES PREVIOUS ship(o))",
    ],
)
def test_shares_of_time_points(command: Command, tmp_path: Path, log: Path, policy: str) -> None:
    """All others are shares of time-points: 3 of 5."""
    log.write_text(f"{LOG}@30\n")
    for clause, status in ("at most 59%", 1), ("at most 60%", 0):
        assert command(of(tmp_path, f"policy x {clause}: {policy}\n"), log).status == status


def test_checkpoints_keep_the_counts(tmp_path: Path, log: Path, table: Path) -> None:
    """The left side is matched in the first part of the log only."""
    for declared, read in ("", log), (DECLARED, table):
        state, output = tmp_path / f"{read.name}.state", tmp_path / f"{read.name}.verdicts"
        for other in "", "policy y: NOT other\n":
            used = of(tmp_path, f"{declared}policy x: pay(o) IMPLIES NOT ship(o)\n{other}")
            options = ["--checkpoint", str(state), "--resume", "-o", str(output)]
            arguments = [*options, str(used), str(read)]
            whole = read.read_text()
            read.write_text("".join(whole.splitlines(keepends=True)[:3]))
            assert mtlmon("--fail-on-vacuous", *arguments).status == 0
            read.write_text(whole)
            done = mtlmon("--fail-on-vacuous", "--summary", *arguments)
            assert done.status == 0
            assert "x: 2 valuations triggered, 0 violated (0.0%)" in done.errors
            # a run that does not count cannot go on from there, nor the other way round
            done = mtlmon(*arguments)
            assert done.status == 2
            words = "counting how often left sides are matched (--fail-on-vacuous, --report)"
            assert f"it was made with {words}" in done.errors
            state.unlink()
            assert mtlmon("--summary", *arguments).status == 0
            done = mtlmon("--fail-on-vacuous", *arguments)
            assert done.status == 2
            assert f"it was made without {words}" in done.errors
            state.unlink()


def test_checkpoints_keep_shares(tmp_path: Path, log: Path) -> None:
    """What a policy allows makes it count in all runs."""
    rules = of(tmp_path, "policy x at most 50%: ship(o) IMPLIES ONCE[0,9] pay(o)\n")
    state, output = tmp_path / "state", tmp_path / "verdicts"
    arguments = ["--checkpoint", str(state), "--resume", "-o", str(output), str(rules), str(log)]
    log.write_text("".join(LOG.splitlines(keepends=True)[:2]))
    assert mtlmon(*arguments).status == 0
    log.write_text(LOG)
    assert mtlmon(*arguments).status == 0
    log.write_text(f"{LOG}@21 ship(x)\n")
    assert mtlmon(*arguments).status == 1
