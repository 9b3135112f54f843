"""Processes killed at any moment and started again write what an undisturbed one writes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.cli.kills import check_killed_runs, kill_somewhere
from tests.cli.process import mtlmon

EVENTS = 10_000
MIXED = "EVENTUALLY[0,6] ((EVENTUALLY[1,4] p) EQUIV (q UNTIL[0,5] NEXT[0,2] p))"

# options, events of the log, and one line in how many cannot be read
RUNS = {
    "local": (["-e", "ALWAYS[0,30] (p IMPLIES EVENTUALLY[0,20] q)"], EVENTS, 0),
    "global": (["--mode", "global", "-e", "p UNTIL[2,9] (q SINCE[0,4] NEXT p)"], EVENTS, 0),
    "naive": (["--mode", "naive", "--end-time", "inf", "-e", "EVENTUALLY[5,25] r"], EVENTS, 0),
    "unbounded": (["--mode", "global", "-e", "p IMPLIES EVENTUALLY r"], EVENTS, 0),
    "mixed": (["-e", MIXED], EVENTS, 0),
    "resolve": (["--resolve", "-e", "ALWAYS[0,50] (p IMPLIES EVENTUALLY[0,90] r)"], EVENTS, 0),
    "resolve-global": (["--resolve", "--mode", "global", "-e", "EVENTUALLY r"], EVENTS, 0),
    "first": (["--verdicts", "first", "-e", "EVENTUALLY[0,30] (last OR q)"], EVENTS, 0),
    "false": (["--verdicts", "false", "-e", "ONCE[0,10] p"], EVENTS, 0),
    "none": (["--verdicts", "none", "-e", "ONCE[0,10] p"], EVENTS, 0),
    "skip": (["--on-error", "skip", "-e", "p SINCE[2,8] q"], EVENTS, 7),
}


def make_log(source: random.Random, events: int, bad: int) -> bytes:
    """Atoms of which some are rare; `q` is not there for a while before the end."""
    time_stamp = 0
    lines = []
    for number in range(events):
        time_stamp += source.random() < 0.3
        line = f"@{time_stamp}"
        for name, chance in ("p", 0.3), ("q", 0.2), ("r", 0.001):
            if source.random() < chance and not (name == "q" and 0.85 < number / events < 0.95):
                line += f" {name}"
        if bad and source.randrange(bad) == 0:
            line = source.choice(["nothing", f"@{time_stamp} p,q", "@-1", "@0 p" if number else ""])
        lines.append(line)
    # a log that a writer left in the middle of a line
    return "\n".join(lines).encode()


@pytest.mark.parametrize("name", RUNS)
def test_killed_runs_write_what_an_undisturbed_one_does(name: str, tmp_path: Path) -> None:
    options, events, bad = RUNS[name]
    source = random.Random(name)
    log, output = tmp_path / "log", tmp_path / "output"
    log.write_bytes(make_log(source, events, bad))
    arguments = [*options, "--summary", "-o", str(output)]
    # once more, from the last checkpoint
    check_killed_runs(arguments, log, output, source, every=str(events // 20))


def test_a_log_that_grows_while_processes_are_killed(tmp_path: Path) -> None:
    source = random.Random(5)
    log = make_log(source, EVENTS, 0)
    whole, growing, output = (tmp_path / name for name in ("whole", "growing", "output"))
    whole.write_bytes(log)
    formula = ["-e", "ALWAYS[0,30] (p IMPLIES EVENTUALLY[0,20] q)", "--resolve"]
    mtlmon(*formula, str(whole), "-o", str(output))
    verdicts = output.read_bytes()
    checkpoint = tmp_path / "checkpoint"
    arguments = [*formula, "-o", str(output), "--resume", "--checkpoint", str(checkpoint)]
    arguments += ["--checkpoint-every", str(EVENTS // 100)]
    size, kills = 0, 0
    while size < len(log):
        size += source.randint(len(log) // 10, len(log) // 5)
        with growing.open("ab") as file:
            file.write(log[os.path.getsize(growing) : size])
        if source.random() < 0.7:
            kill_somewhere(arguments, growing, checkpoint, source, can_pipe=False)
            kills += 1
        else:
            # a line that is cut may be of another time
            assert mtlmon(*arguments, str(growing)).status in (0, 1, 2)
    assert kills > 2
    assert mtlmon(*arguments, str(growing)).status == 1
    assert output.read_bytes() == verdicts
