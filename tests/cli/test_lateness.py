"""Verdicts that late lines correct: --lateness and --consistency on text logs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mtlmon.syntax.parser import parse
from tests.cli.process import Ended, Live
from tests.reference.changelog import holds
from tests.reference.history import Insert, evaluated, monitored, states_of
from tests.reference.late import judged_and_refused
from tests.traces import EndTime

Command = Callable[..., Ended]

FORMULAS = (
    "ask IMPLIES EVENTUALLY[0,5] (reply OR stop)",
    "ALWAYS[0,4] (ask IMPLIES EVENTUALLY[1,6] reply)",
    "stop IMPLIES ONCE[0,3] ask",
    "ask SINCE reply",
    "(PREVIOUS ask) OR EVENTUALLY reply",
)


def late_events(seed: int, count: int = 60) -> list[Insert]:
    """Events as they come: some are late, and some are more than 6 late."""
    source = random.Random(seed)
    now = 100
    events = []
    for _ in range(count):
        now += source.choice([0, 0, 1, 2])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        names = [name for name in ("ask", "reply", "stop") if source.random() < 0.3]
        events.append(Insert(stamp, frozenset(names)))
    return events


def line_of(event: Insert) -> str:
    return " ".join([f"@{event.time_stamp}", *sorted(event.letter)])


def text_of(events: list[Insert]) -> str:
    return "".join(f"{line_of(event)}\n" for event in events)


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_file(formula: str, tmp_path: Path, command: Command) -> None:
    log, late = tmp_path / "log", tmp_path / "late"
    ends: tuple[EndTime, ...] = (None, "last", "inf", 400)
    for seed, end in enumerate(ends):
        events = late_events(seed)
        log.write_text(text_of(events))
        options = [] if end is None else ["--end-time", end]
        done = command("--lateness", 6, "--late", late, *options, "-e", formula, log)
        states = states_of([events], 6, monitored(parse(formula)), end_time=end)
        # What is read at once and the end of the log are two batches.
        holds([done.output.splitlines()], [states[-1]], exactly=True)
        values = [states[-1].value(name) for name in states[-1].verdicts]
        assert done.status == (1 if False in values else 0), done.errors
        refused = [events[number] for number in states[-1].refused]
        assert late.read_text() == text_of(refused)
        lines = f"{len(refused)} line{'s' if len(refused) > 1 else ''}"
        if refused:
            assert f"{lines} came too late to be checked (see {late})" in done.errors


def test_a_live_pipe_tells_the_changes_of_each_line() -> None:
    with Live("--lateness", "60", "-e", "ask IMPLIES EVENTUALLY[0,5] reply") as live:
        for text, lines in (
            ("@100 ask\n", ["!@35"]),
            ("@107\n", ["100:0 false", "107:0 true", "!@42"]),
            ("@102 reply\n", ["!100:0 true", "102:0 true"]),
            ("@200\n", ["200:0 true", "!@135"]),
        ):
            live.send(text)
            assert [live.read_line() for _ in lines] == lines


def test_a_named_policy(tmp_path: Path, command: Command) -> None:
    policies = tmp_path / "p.mtl"
    policies.write_text("unit s\npolicy answered: ask IMPLIES EVENTUALLY[0,5s] reply\n")
    log = tmp_path / "log"
    log.write_text("@100 ask\n@107\n@102 reply\n")
    done = command("--lateness", "1m", "--wait", "2s", policies, log)
    assert done == (
        0,
        "answered\t100:0 true\nanswered\t102:0 true\n!@42\nanswered\t107:0 true\n",
        "",
    )


SELECTED = {
    "all": [
        ["!@35"],
        ["100:1 = 100:0"],
        ["100:0 false", "107:0 true", "!@42"],
        ["!100:0 true", "101:0 true"],
        ["!@135"],
    ],
    "boolean": [
        ["!@35"],
        [],
        ["100:0 false", "107:0 true", "!@42"],
        ["!100:0 true", "101:0 true"],
        ["!@135"],
    ],
    "false": [["!@35"], [], ["100:0 false", "!@42"], ["!100:0 true"], ["!@135"]],
}


@pytest.mark.parametrize("selection", SELECTED)
def test_selected_verdicts(selection: str) -> None:
    """A change is written if the old or the new verdict would be."""
    formula = "ask IMPLIES EVENTUALLY[0,5] reply"
    with Live("--lateness", "60", "--verdicts", selection, "-e", formula) as live:
        for line, wanted in zip(
            ("@100 ask", "@100 ask", "@107", "@101 reply", "@200 ask"),
            SELECTED[selection],
            strict=True,
        ):
            live.send(f"{line}\n")
            assert [live.read_line() for _ in wanted] == wanted


def test_strong_and_weak_are_orders(tmp_path: Path, command: Command) -> None:
    """Strong is `--wait`, and weak refuses all that is late."""
    events = late_events(1)
    rows = [(event.time_stamp, line_of(event)) for event in events]
    log, ordered = tmp_path / "log", tmp_path / "ordered"
    log.write_text(text_of(events))
    for consistency, wait in (("strong", 6), ("weak", 0)):
        judged, refused = judged_and_refused(rows, wait)
        ordered.write_text("".join(f"{row}\n" for _, row in judged))
        wanted = command("-e", FORMULAS[0], ordered)
        for options in (["--lateness", 6, "--consistency", consistency], ["--wait", wait]):
            done = command(*options, "-e", FORMULAS[0], log)
            assert (done.status, done.output) == wanted[:2], done.errors
            assert f"{len(refused)} line" in done.errors
    middle = command("--lateness", 6, "--consistency", "middle", "-e", FORMULAS[0], log)
    assert middle == command("--lateness", 6, "-e", FORMULAS[0], log)
    [state] = states_of([events], 6, evaluated(parse(FORMULAS[0])))
    holds([middle.output.splitlines()], [state])


def test_the_summary_counts_corrections(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log"
    log.write_text("@100 p\n@109\n@101 q\n@20\nbad\n")
    done = command(
        *("--lateness", 9, "--summary", "--verdicts", "none", "--on-error", "skip"),
        *("-e", "p IMPLIES EVENTUALLY[0,5] q", log),
    )
    assert (done.status, done.output) == (0, "")
    assert "1 line came too late to be checked" in done.errors
    assert "skipped 1 line that could not be read" in done.errors
    assert re.search(r"^too late +1  lines that were not checked$", done.errors, re.MULTILINE)


def test_bad_lines_have_places(tmp_path: Path, command: Command) -> None:
    log = tmp_path / "log"
    log.write_text("@100 p\n@99 p\n@x p\n")
    done = command("--lateness", 9, "-e", "p", log)
    assert done.status == 2
    assert done.output == "99:0 true\n100:0 true\n!@91\n"
    assert done.errors.startswith(f"mtlmon: {log}:3:2: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--consistency", "weak"], "--consistency is about rows that come late: say how late"),
        (
            ["--lateness", "5", "--wait", "2", "--consistency", "middle"],
            "--consistency says how long rows wait: leave it or --wait out",
        ),
        (["--lateness", "5", "--wait", "6"], "--wait 6 is longer than --lateness 5"),
        (["--lateness", "5s"], "--lateness 5s needs the unit of the time-stamps: add --unit s"),
        (["--lateness", "5", "--sort"], "--lateness does not work with --sort"),
        (["--lateness", "5", "--signature", "s"], "--lateness does not work yet with --signature"),
        (["--lateness", "5", "--resolve"], "--lateness does not work yet with --resolve: "),
        (
            ["--lateness", "5", "--verdicts", "first"],
            "--lateness does not work yet with --verdicts first: ",
        ),
        (
            ["--lateness", "5", "--output-format", "jsonl"],
            "--lateness does not work yet with --output-format jsonl: ",
        ),
        (["--lateness", "5", "--rows"], "--lateness does not work yet with --rows: "),
        (["--lateness", "5", "--explain"], "--lateness does not work yet with --explain: "),
        (
            ["--lateness", "5", "--format", "csv"],
            "--lateness does not work yet with tables: --consistency strong, which lets rows wait",
        ),
        (
            ["--lateness", "5", "--max-memory", "9M"],
            "--lateness does not work yet with --max-memory: ",
        ),
    ],
)
def test_refused_options(
    options: list[str], message: str, tmp_path: Path, command: Command
) -> None:
    log = tmp_path / "log"
    log.write_text("@1 p\n")
    done = command(*options, "-e", "p", log)
    assert (done.status, done.output) == (2, "")
    assert done.errors.startswith(f"mtlmon: {message}"), done.errors


def test_refused_policies(tmp_path: Path, command: Command) -> None:
    log, policies = tmp_path / "log", tmp_path / "p.mtl"
    log.write_text("@1 p\n")
    for text in (
        "policy one: p\npolicy two: q\n",
        "stream s = count[0,5](p)\npolicy one: s > 1\n",
        "atom p(x)\nfind one: p(x) AND NOT EVENTUALLY[0,5] p(x)\n",
    ):
        policies.write_text(text)
        done = command("--lateness", 5, policies, log)
        assert (done.status, done.output) == (2, "")
        assert done.errors.startswith("mtlmon: --lateness works with a single policy"), done.errors
