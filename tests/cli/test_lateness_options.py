"""Options that mean with --lateness what they mean elsewhere."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from tests.cli.process import Live
from tests.cli.test_lateness import Command, collapsed, late_events, line_of, text_of
from tests.reference.late import judged_and_refused

FORMULA = "ask IMPLIES EVENTUALLY[0,5] reply"
VARIABLES = "policy one: FORALL u. p(u) IMPLIES EVENTUALLY[0,2s] q(u)\n"


@pytest.mark.parametrize(
    "formula", [FORMULA, "ALWAYS[0,9] (ask IMPLIES EVENTUALLY[0,3] reply)", "ask UNTIL reply"]
)
def test_resolve_has_a_boolean_verdict_for_every_time_point(
    formula: str, tmp_path: Path, command: Command
) -> None:
    events = late_events(3)
    rows = [(event.time_stamp, line_of(event)) for event in events]
    judged, _ = judged_and_refused(rows, 6)
    ordered = tmp_path / "ordered"
    ordered.write_text("".join(f"{row}\n" for _, row in judged))
    wanted = command("--resolve", "--end-time", "last", "-e", formula, ordered)
    with Live("--lateness", "6", "--resolve", "--end-time", "last", "-e", formula) as live:
        for line in text_of(events).splitlines(keepends=True):
            live.send(line)
        done = live.end()
    assert "=" not in done.output
    assert collapsed(done.output) == sorted(f"\t{line}" for line in wanted.output.splitlines())


def with_rows(text: str, folder: Path) -> str:
    """A text with the rows in place of the files and lines that it names."""
    named = re.compile(rf"{re.escape(str(folder))}/(\w+):(\d+)")

    def row(found: re.Match[str]) -> str:
        lines = (folder / found[1]).read_text().splitlines()
        return f"<{lines[int(found[2]) - 1]}>"

    return named.sub(row, text)


def test_explanations_are_those_of_the_rows_in_order(tmp_path: Path, command: Command) -> None:
    log, ordered = tmp_path / "log", tmp_path / "ordered"
    for name, policies in (
        ("plain", "policy one: ask IMPLIES EVENTUALLY[0,2] reply\n"),
        ("variables", VARIABLES),
    ):
        file = tmp_path / f"{name}.mtl"
        file.write_text("unit s\n" + policies)
        if name == "plain":
            rows = [(event.time_stamp, line_of(event)) for event in late_events(4)]
        else:
            source = random.Random(4)
            stamps = [100 + k - source.randrange(9) for k in range(40)]
            rows = [(t, f"@{t} {source.choice('pq')}({source.choice('ab')})") for t in stamps]
        judged, _ = judged_and_refused(rows, 6)
        log.write_text("".join(f"{row}\n" for _, row in rows))
        ordered.write_text("".join(f"{row}\n" for _, row in judged))
        reasons = [tmp_path / "late.txt", tmp_path / "ordered.txt"]
        done = command("--lateness", 6, "--explain", "--explain-output", reasons[0], file, log)
        wanted = command("--explain", "--explain-output", reasons[1], file, ordered)
        assert (done.status, wanted.status) == (1, 1), done.errors
        emitted, expected = (with_rows(one.read_text(), tmp_path) for one in reasons)
        assert emitted == expected != ""
        # the changelog is written once
        assert done.output.count("!@") == 1
        assert done.errors.count("too late to be checked") == (name == "plain")


def test_time_passes_while_a_pipe_is_silent(tmp_path: Path) -> None:
    policies = tmp_path / "p.mtl"
    for text, words, lines in (
        ("policy one: a IMPLIES EVENTUALLY[0,2s] b\n", ("a", "b"), ["false", "true"]),
        (VARIABLES, ("p(x)", "q(x)"), [" false (u=x)", "!x"]),
        ("policy one: (count[0,2s](a) > 0) IMPLIES EVENTUALLY[0,2s] b\n", ("a", "b"), ["false"]),
    ):
        policies.write_text("unit s\n" + text)
        now = int(time.time()) - 5
        options = ["--lateness", "20s", "--idle", "300ms", "--time-stamps", "iso"]
        with Live("--verdicts", "false", *options[:4], str(policies)) as live:
            live.send(f"@{now} {words[0]}\n")
            while not (line := str(live.read_line())).startswith("one"):
                assert line.startswith("!@")
            assert f"{now}:0" in line
            assert lines[0] in line
            live.send(f"@{now + 1} {words[1]}\n")
            while not (line := str(live.read_line())).startswith("one"):
                assert line.startswith("!@")
            assert line.startswith(f"one\t!{'x' if text == VARIABLES else ''}{now}:0")
            assert live.end().status == 0
