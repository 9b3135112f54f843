"""Computed atoms of text logs in policies with variables, against logs that have them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.kills import check_killed_runs
from tests.doors import TextWork, checking_text_logs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.test_mixed_policies import Command

COMPUTED = """\
relation limits = table "limits.csv" valid [from, to) key what
relation ends = limits where most is null select what as what
stream asked = count[0,4](ask)
atom busy = asked > limits["asks"].most
atom late = exists ends
"""
LIMITS = "what,from,to,most\nasks,0,12,1\nasks,12,18,0\nasks,18,,1\nall,31,,\n"
WITH = """\
policy known: p(x) AND busy IMPLIES ONCE[0,9] q(x)
find strange: q(x) AND EVENTUALLY[0,3] (late AND NOT busy)
"""
WITHOUT = """\
policy calm: busy IMPLIES EVENTUALLY[0,3] reply
policy quiet: NOT (reply AND late)
"""


def lines_of(seed: int, count: int = 60) -> list[str]:
    source = random.Random(seed)
    now, lines = 0, []
    for _ in range(count):
        now += source.choice([0, 0, 1, 2])
        items = [name for name in ("ask", "reply") if source.random() < 0.4]
        items += [f"{name}({source.choice('ab')})" for name in "pq" if source.random() < 0.4]
        lines.append(f"@{now} {' '.join(items)}".strip())
    return lines


def with_atoms(lines: list[str]) -> list[str]:
    """The lines with the computed atoms, by what these mean."""
    found = []
    stamps = [int(line.split()[0][1:]) for line in lines]
    for place, (now, line) in enumerate(zip(stamps, lines, strict=True)):
        asked = [
            "ask" in other.split() and stamp >= now - 4
            for stamp, other in zip(stamps[: place + 1], lines, strict=False)
        ]
        most = 0 if 12 <= now < 18 else 1
        found.append(line + " busy" * (sum(asked) > most) + " late" * (now > 30))
    return found


@pytest.fixture(autouse=True)
def limits(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text(LIMITS)


RUNS: dict[str, list[str]] = {
    "lines": [],
    "slices": ["--slices", "2", "--verdicts", "all"],
    "rows": ["--rows", "--explain", "--end-time", "inf"],
    "first": ["--verdicts", "first"],
    "json": ["--output-format", "jsonl", "--verdicts", "all", "--summary"],
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("others", ["", WITHOUT], ids=["alone", "mixed"])
def test_output_is_that_of_a_log_with_the_atoms(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, others: str
) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    for seed in range(4):
        lines = lines_of(seed)
        rules.write_text(WITH + others)
        log.write_text("\n".join([*with_atoms(lines), ""]))
        wanted = command(*RUNS[name], rules, log)
        assert wanted.output
        # what the log says of them does not count
        lines[7] += " busy late"
        rules.write_text(COMPUTED + WITH + others)
        log.write_text("\n".join([*lines, ""]))
        done = command(*RUNS[name], rules, log)
        assert (done.status, done.output) == wanted[:2], done.errors
        if name == "rows" and not others:
            assert done.errors == wanted.errors
        with monkeypatch.context() as small:
            small.setattr(checking_text_logs, "_BLOCK_BYTES", 37)
            small.setattr(TextWork, "block_bytes", 37)
            assert command(*RUNS[name], rules, log)[:2] == wanted[:2]


@pytest.mark.parametrize("others", ["", WITHOUT], ids=["alone", "mixed"])
def test_lines_can_come_late(command: Command, tmp_path: Path, others: str) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text(COMPUTED + WITH + others)
    lines = lines_of(9)
    stamps = [int(line.split()[0][1:]) for line in lines]
    log.write_text("\n".join([*lines, ""]))
    wanted = command(rules, log)
    # all lines of a time come later
    time = stamps[20]
    apart = [line for line, stamp in zip(lines, stamps, strict=True) if stamp == time]
    before = [line for line, stamp in zip(lines, stamps, strict=True) if stamp <= time + 3]
    behind = [line for line, stamp in zip(lines, stamps, strict=True) if stamp > time + 3]
    assert len(before) > stamps.index(time) + len(apart)
    moved = [*(line for line in before if line not in apart), *apart, *behind]
    log.write_text("\n".join([*moved, ""]))
    assert command("--wait", "5", rules, log)[:2] == wanted[:2]


@pytest.mark.parametrize("others", ["", WITHOUT], ids=["alone", "mixed"])
def test_an_overflow_ends_the_run_behind_what_is_known(
    command: Command, tmp_path: Path, others: str
) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    text = "atom busy = 9223372036854775800 + ts > 0\npolicy known: p(x) AND busy IMPLIES q(x)\n"
    rules.write_text(text + others.replace("AND late", "AND reply"))
    log.write_text("@1 p(a)\n@2 p(b)\n@9 p(c)\n@10 p(d)\n")
    done = command("--verdicts", "false", rules, log)
    assert done.status == 2
    known = [line for line in done.output.splitlines() if line.startswith("known") or not others]
    assert [line.split("(")[-1] for line in known] == ["x=a)", "x=b)"]
    assert f"{log}: at time-stamp 9: " in done.errors
    log.write_text("@9 p(c)\n@10 p(d)\n")
    done = command(rules, log)
    assert (done.status, done.output) == (2, "")


def test_later_values_are_refused(command: Command, tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "log"
    rules.write_text(
        "stream asked = count[0,4](ask)\natom busy = asked.next(or: 0) > 1\nfind a: p(x) AND busy\n"
    )
    log.write_text("@1 p(a)\n")
    done = command(rules, log)
    assert done.status == 2
    assert "a policy with variables cannot look at later rows, as asked.next(or: 0)" in done.errors


@pytest.mark.parametrize("others", ["", WITHOUT], ids=["alone", "mixed"])
def test_a_run_goes_on_from_a_checkpoint(command: Command, tmp_path: Path, others: str) -> None:
    rules, log, output, kept = (tmp_path / name for name in ("rules", "log", "output", "kept"))
    rules.write_text(COMPUTED + WITH + others)
    for seed in range(3):
        text = "".join(f"{line}\n" for line in lines_of(seed, 90))
        log.write_text(text)
        expected = command("--verdicts", "all", rules, log)
        kept.unlink(missing_ok=True)
        resumed = ["--checkpoint", kept, "--checkpoint-every", "9", "--resume", "-o", output]
        source = random.Random(seed)
        for size in (*sorted(source.sample(range(len(text)), 4)), len(text)):
            log.write_text(text[: text.rfind("\n", 0, size) + 1])
            done = command(*resumed, "--verdicts", "all", rules, log)
            assert done.status in (0, 1), done.errors
        assert output.read_text() == expected.output
        assert done.status == expected.status


@pytest.mark.parametrize("others", ["", WITHOUT], ids=["alone", "mixed"])
def test_killed_runs_write_what_an_undisturbed_one_does(tmp_path: Path, others: str) -> None:
    source = random.Random(others)
    rules, log, output = (tmp_path / name for name in ("rules", "log", "output"))
    rules.write_text(COMPUTED + WITH + others)
    log.write_text("".join(f"{line}\n" for line in lines_of(5, 2_000)))
    arguments = ["--verdicts", "all", "-o", str(output), str(rules)]
    check_killed_runs(arguments, log, output, source, every="100", kills=2)
