"""Runs of policies with variables, killed at any moment, write what an undisturbed one does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.kills import KILLS, check_killed_runs, run_killed, without_speed
from tests.cli.process import mtlmon
from tests.cli.test_table_kills import write

if TYPE_CHECKING:
    from pathlib import Path

POINTS = 3_000
POLICIES = """\
policy approved: FORALL u, f. publish(u, f) IMPLIES ONCE[0,40] EXISTS m. approve(m, f)
policy answered: publish(u, f) IMPLIES EVENTUALLY[0,30] EXISTS m. approve(m, f)
find managed: publish(u, f) AND ((NOT ended(m, u)) SINCE[0,20] began(m, u)) AND NOT m = u
find often: COUNT(ONCE[0,20] (publish(u, f) AND point(i)) BY u) > 3 AND began(u, m)
find always: publish(u, f) AND HISTORICALLY[0,5] NOT approve(u, f)
"""
FIRST = "policy rare: NOT (rare(x) AND EVENTUALLY[5,60] began(x, y))\n"

# options, policies, one line in how many cannot be read
RUNS = {
    "all": (["--verdicts", "all", "--end-time", "inf"], POLICIES, 0),
    "first": (["--verdicts", "first"], FIRST, 0),
    "skip": (["--on-error", "skip"], POLICIES, 7),
    "as-csv": (["--output-format", "csv"], POLICIES, 0),
}


def make_log(source: random.Random, points: int, bad: int) -> bytes:
    """Rows with texts of which many come once only, so that texts are forgotten."""
    time_stamp = 0
    lines = []
    for number in range(points):
        time_stamp += source.random() < 0.4
        line = f"@{time_stamp}"
        for name, chance in ("publish", 0.5), ("approve", 0.4), ("began", 0.1), ("ended", 0.1):
            if source.random() < chance:
                user = f"user{source.randrange(12)}"
                file = f'"file {number // 6 + source.randrange(4)}"'
                other = file if name in ("publish", "approve") else f"user{source.randrange(12)}"
                line += f" {name}({user}, {other})"
        if number > 0.8 * points and source.random() < 0.01:
            line += f" rare(user{source.randrange(12)})"
        if bad and source.randrange(bad) == 0:
            line = source.choice(["nothing", f"@{time_stamp} publish(a)", f"@{time_stamp} began(a"])
        lines.append(line)
    return "\n".join(lines).encode()


@pytest.mark.parametrize("name", RUNS)
def test_killed_runs_write_what_an_undisturbed_one_does(name: str, tmp_path: Path) -> None:
    options, policies, bad = RUNS[name]
    source = random.Random(name)
    rules, log, output = (tmp_path / name for name in ("rules.mtl", "log", "output"))
    rules.write_text(policies)
    log.write_bytes(make_log(source, POINTS, bad))
    arguments = [*options, "--summary", "-o", str(output), str(rules)]
    _, answers = check_killed_runs(arguments, log, output, source, every=str(POINTS // 20))
    assert answers


def emitted(errors: str) -> list[str]:
    """What the command says but for which policies are not split."""
    return [line for line in without_speed(errors) if "runs in one slice" not in line]


@pytest.mark.parametrize("name", ["all", "first"])
def test_killed_runs_go_on_with_other_slices(name: str, tmp_path: Path) -> None:
    """Whatever the numbers of slices are, and how values are spread over them."""
    options, policies, _ = RUNS[name]
    source = random.Random(f"slices {name}")
    names = ("rules.mtl", "log", "output", "checkpoint")
    rules, log, output, checkpoint = (tmp_path / name for name in names)
    rules.write_text(policies)
    log.write_bytes(make_log(source, POINTS, 0))
    arguments = [*options, "--summary", "-o", str(output), str(rules)]
    expected = mtlmon(*arguments, str(log))
    answers = output.read_bytes()
    assert answers
    output.unlink()
    arguments += ["--resume", "--checkpoint", str(checkpoint)]
    arguments += ["--checkpoint-every", str(POINTS // 20)]
    # the first run has none
    slices = iter([0, *source.sample(range(1, 9), KILLS)])

    def more() -> list[str]:
        count = next(slices)
        seed = ["--slice-seed", str(source.randint(1, 3))]
        return ["--slices", str(count), *seed, "--threads", "2"] if count else []

    done = run_killed(arguments, log, checkpoint, KILLS, source, more=more)
    assert output.read_bytes() == answers
    assert done.status == expected.status
    if name != "first":
        # slices take in whole blocks, so counts may go on behind the first violation
        assert emitted(done.errors) == emitted(expected.errors)
    assert sorted(tmp_path.iterdir()) == [checkpoint, log, output, rules]


ON_TABLES = """\
atom publish(user, file) = what = "publish"
atom approve(user, file) = what = "approve"
atom paid(user, amount) = what = "paid"
policy approved: publish(u, f) IMPLIES ONCE[0,40] approve(_, f)
find dear: publish(u, f) AND EVENTUALLY[0,30] (paid(u, a) AND a > 95.5)
find paying: a = SUM(x OVER ONCE[0,60] paid(u, x) BY u) AND publish(u, f)
"""

# format of the log, options
TABLE_RUNS: dict[str, tuple[str, list[str]]] = {
    "csv": ("csv", ["--output-format", "csv"]),
    "jsonl": ("jsonl", ["--time-points", "stamp", "--output-format", "jsonl"]),
    "parquet": ("parquet", ["--verdicts", "all", "--end-time", "last"]),
}


def make_rows(source: random.Random, count: int) -> list[dict[str, Any]]:
    time_stamp = 0
    rows: list[dict[str, Any]] = []
    for number in range(count):
        time_stamp += source.random() < 0.4
        what = source.choice(["publish", "approve", "paid", "stop"])
        row: dict[str, Any] = {"ts": time_stamp, "what": what}
        row["user"] = None if source.random() < 0.02 else f"user {source.randrange(40)}"
        row["file"] = f"file {number // 6 + source.randrange(4)}"
        row["amount"] = None if what != "paid" else source.randrange(100) + 0.25
        rows.append(row)
    return rows


@pytest.mark.parametrize("name", TABLE_RUNS)
def test_killed_runs_over_tables(name: str, tmp_path: Path) -> None:
    kind, options = TABLE_RUNS[name]
    source = random.Random(name)
    rules, log, output = (tmp_path / name for name in ("rules.mtl", f"log.{kind}", "output"))
    rules.write_text(ON_TABLES)
    write(make_rows(source, 2 * POINTS), log)
    arguments = [*options, "--summary", "-o", str(output), str(rules)]
    expected, _ = check_killed_runs(
        arguments, log, output, source, every=str(POINTS // 20), can_pipe=False
    )
    assert expected.status == 1
    assert "left out" in expected.errors


def test_values_of_arguments_are_part_of_the_log(tmp_path: Path) -> None:
    rules, log, output, checkpoint = (
        str(tmp_path / name) for name in ("rules.mtl", "log.csv", "output", "checkpoint")
    )
    (tmp_path / "rules.mtl").write_text('atom a(x) = what = "a"\npolicy p: NOT a(x)\n')
    (tmp_path / "log.csv").write_text("ts,what,x\n1,a,one\n2,a,two\n")
    arguments = ["--checkpoint", checkpoint, "-o", output, "--resume", rules, log]
    assert mtlmon(*arguments).status == 1
    (tmp_path / "log.csv").write_text("ts,what,x\n1,a,one\n2,a,TWO\n")
    done = mtlmon(*arguments)
    assert done.status == 2
    assert "the first 2 rows of" in done.errors
    assert "differ from those that were read" in done.errors


def test_another_run_does_not_fit(tmp_path: Path) -> None:
    rules, log, output, checkpoint = (
        str(tmp_path / name) for name in ("rules.mtl", "log", "output", "checkpoint")
    )
    (tmp_path / "rules.mtl").write_text("policy p: NOT a(x)\n")
    (tmp_path / "log").write_text("@1 a(1)\n@2 b(2)\n")
    arguments = ["--checkpoint", checkpoint, "-o", output, "--resume"]
    assert mtlmon(*arguments, rules, log).status == 1
    for given, reason in [
        (["--verdicts", "all", rules], "it was made with another --verdicts"),
        (["--output-format", "csv", rules], "it was made with another --output-format"),
        (["-e", "NOT b(x)"], "the snapshot is of other policies"),
        (["-e", "NOT b"], "this is not a snapshot of a text monitor"),
    ]:
        done = mtlmon(*arguments, *given, log)
        assert done.status == 2
        assert f"cannot resume from {checkpoint}: " in done.errors
        assert reason in done.errors
    (tmp_path / "log").write_text("@1 a(2)\n@2 b(2)\n")
    assert "differ from those that were read" in mtlmon(*arguments, rules, log).errors
    (tmp_path / "log").write_text("@1 a(1)\n")
    assert "ends within the" in mtlmon(*arguments, rules, log).errors
