"""Signals: whatever the command is at, it ends soon, and what is earned is written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.kills import wait_for_checkpoint
from tests.cli.process import SECONDS, Live, environment, is_working, mtlmon, wait_until
from tests.verdicts import json_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# says when the interpreter has started, whose own start is not the command's
EMITTED = (
    "import os, sys; sys.argv[0] = 'mtlmon'; os.write(2, b'.'); "
    "from mtlmon.cli import main; sys.exit(main())"
)
EARNED = 100
PAIRS = 40


def ended_by(number: int) -> set[int]:
    """How a process may end that a signal ends; shells show both as the same status."""
    return {128 + number, -number}


# ---- the start ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [["-e", "p"], ["--key", "k", "--format", "csv", "-e", "p"]])
def test_a_signal_while_the_command_starts(options: list[str], number: signal.Signals) -> None:
    """SIGINT ended as status 1, which means a violation, or was lost among imports."""
    # when the signal comes is what differs, so that time must pass
    for delay in range(0, 150, 6):
        with started(*options) as process:
            time.sleep(delay / 1000)
            process.send_signal(number)
            # its standard input stays open: nothing else ends it
            assert process.wait(SECONDS) in ended_by(number), delay


@contextmanager
def started(*options: str, under: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """The command, with nothing to read yet, once the interpreter has started.

    under: a command that runs it.
    """
    with subprocess.Popen(
        [*under, sys.executable, "-c", EMITTED, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.read(1) == b"."
        yield process


def caught(process: int) -> set[int]:
    """The signals that a process has handlers for."""
    text = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"^SigCgt:\s*(\w+)", text, re.MULTILINE)
    assert found is not None
    return {number for number in range(1, 32) if int(found[1], 16) >> (number - 1) & 1}


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for a process's handlers")
def test_no_handler_waits_for_python_before_the_first_event() -> None:
    """A signal was lost once in thousands of starts, just before a read that waited.

    Handlers in Python run when the interpreter has control, which such a read does not give back.
    """
    with started("-e", "p") as process:
        wait_until(lambda: not caught(process.pid) & {signal.SIGINT, signal.SIGTERM}, process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_first_process_of_a_container(number: signal.Signals) -> None:
    """The system ignores signals to such a process that it has no handler for."""
    container = ["unshare", "--pid", "--fork", "--kill-child"]
    try:
        subprocess.run([*container, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("cannot make a container here")
    with started("-e", "p", under=container) as process:
        child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        # Python itself has a handler of the other one
        wait_until(lambda: signal.SIGTERM in caught(child) and not is_working(child), process)
        os.kill(child, number)
        assert process.wait(SECONDS) in ended_by(number)


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As SIGINT is in a process that a shell has started in the background."""
    with Live("-e", "p", ignored="INT") as live:
        live.send("@1 p\n")
        assert live.read_line() == "1:0 true"
        live.process.send_signal(signal.SIGINT)
        live.send("@2\n")
        assert live.read_line() == "2:0 false"
        assert live.end().status == 1


# ---- long work ---------------------------------------------------------------------------------


def long_formula() -> str:
    """The event after one with `go` takes a BDD of 2^PAIRS nodes, all others next to nothing."""
    first, second = ([f"(go AND EVENTUALLY[1,9] {x}{i})" for i in range(PAIRS)] for x in "ab")
    pairs = " OR ".join(f"({a} AND {b})" for a, b in zip(first, second, strict=True))
    # the order in which obligations appear is what makes it large
    return f"(({' OR '.join(first)}) AND x) OR (({' OR '.join(second)}) AND y) OR {pairs}"


LINES = [f"@{number}\n" for number in range(EARNED)]
VERDICTS = [f"{number}:0 false\n" for number in range(EARNED)]


def wait_for_work(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until a process has used so much of a processor since now."""

    def used() -> float:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    start, deadline = used(), time.monotonic() + 4 * SECONDS
    while used() - start < seconds:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc how far a process is")
@pytest.mark.parametrize("bdd", ["auto", "autoref"])
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--resolve"],
        ["--verdicts", "false"],
        ["--verdicts", "boolean", "--mode", "global"],
        ["--output-format", "jsonl"],
    ],
    ids=" ".join,
)
def test_a_long_event(options: list[str], bdd: str, tmp_path: Path) -> None:
    """Verdicts of events before it, which nothing has written yet, are written.

    An operation of cudd gives Python no control until it is done, one of autoref does.
    """
    output = tmp_path / "output"
    log = tmp_path / "log"
    log.write_text("".join([*LINES, "@100 go\n", "@101\n"]))
    policy = tmp_path / "policy.mtl"
    policy.write_text(long_formula())
    with Live("--bdd", bdd, "-o", str(output), *options, str(policy), str(log)) as live:
        wait_for_work(live.process, 2)
        live.process.send_signal(signal.SIGTERM)
        done = live.end()
    assert done.status == 128 + signal.SIGTERM
    assert "internal fault" not in done.errors
    written = VERDICTS
    if "jsonl" in options:
        written = [f"{json_line(line.strip(), None)}\n" for line in VERDICTS]
    assert output.read_text() == "".join(written)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc how far a process is")
@pytest.mark.parametrize("size", [1, 4000])
def test_json_lines_with_a_label_before_a_long_event(size: int, tmp_path: Path) -> None:
    """What is put together in a signal handler has room for few lines that are long."""
    output, log, policy = tmp_path / "output", tmp_path / "log", tmp_path / "policy.mtl"
    log.write_text("".join([*LINES, "@100 go\n", "@101\n"]))
    name = "n" * size
    policy.write_text(f"policy {name}: {long_formula()}")
    with Live("--output-format", "jsonl", "-o", str(output), str(policy), str(log)) as live:
        wait_for_work(live.process, 2)
        live.process.send_signal(signal.SIGTERM)
        assert live.end().status == 128 + signal.SIGTERM
    lines = [f"{json_line(line.strip(), name)}\n" for line in VERDICTS]
    assert output.read_text() == "".join(lines)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc how far a process is")
@pytest.mark.parametrize("policies", ["{}", "policy one: {0}\npolicy two: {0}\n"])
def test_a_long_event_of_a_table(policies: str, tmp_path: Path) -> None:
    """Threads that work on policies do not hold up the end."""
    output = tmp_path / "output"
    log = tmp_path / "log.csv"
    rows = [f"{number},{'go' if number == EARNED else 'none'}\n" for number in range(EARNED + 2)]
    log.write_text("".join(["ts,what\n", *rows]))
    policy = tmp_path / "policy.mtl"
    policy.write_text(policies.format(f"({long_formula()})"))
    options = ["--bdd", "autoref", "--event", "what", "-o", str(output)]
    with Live(*options, str(policy), str(log)) as live:
        wait_for_work(live.process, 3)
        live.process.send_signal(signal.SIGTERM)
        done = live.end()
    assert done.status == 128 + signal.SIGTERM
    lines = output.read_text().splitlines(keepends=True)
    if policies == "{}":
        assert lines == VERDICTS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_table_that_does_not_come(number: signal.Signals) -> None:
    """The thread that reads ahead waits for more; the process does not wait for it."""
    with Live("--format", "csv", "-e", "p") as live:
        live.send("ts,p\n1,true\n2,true\n3,true\n")
        assert live.read_line() == "1:0 true"
        live.process.send_signal(number)
        assert live.process.wait(SECONDS) == 128 + number


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc how far a process is")
@pytest.mark.parametrize("bdd", ["auto", "autoref"])
def test_a_long_event_and_a_checkpoint(bdd: str, tmp_path: Path) -> None:
    """Signals are held for a last checkpoint only so long; the one before stays good."""
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    policy = tmp_path / "policy.mtl"
    policy.write_text(long_formula())
    options = ["--bdd", bdd, "-o", str(output), "--checkpoint", str(checkpoint), "--resume"]
    options += ["--checkpoint-every", "0.01s", str(policy)]
    with Live(*options) as live:
        live.send("".join(LINES[:50]))
        wait_for_checkpoint(checkpoint)
        before = checkpoint.read_bytes()
        live.send("".join([*LINES[50:], "@100 go\n", "@101\n"]))
        wait_for_work(live.process, 2)
        after = checkpoint.read_bytes()
        live.process.send_signal(signal.SIGTERM)
        done = live.end()
    assert done.status == 128 + signal.SIGTERM
    assert checkpoint.read_bytes() in (before, after)
    assert output.read_text() == "".join(VERDICTS)
    # the log goes on otherwise where no checkpoint counts on it
    done = mtlmon(*options, log="".join([*LINES, "@100\n"]))
    assert done.status == 1
    assert output.read_text() == "".join([*VERDICTS, "100:0 false\n"])


def test_a_signal_that_comes_twice_at_once() -> None:
    """As from `timeout`, which sends it to the process and to its group.

    A second signal that was meant ends the command without writing.
    """
    with Live("-e", "EVENTUALLY[0,9] p") as live:
        # the lines are in the pipe when the signals come, or have been worked on
        live.send("@1 p\n")
        assert live.read_line() == "1:0 true"
        live.send("".join(f"@{number} p\n" for number in range(2, 2000)))
        for _ in range(2):
            live.process.send_signal(signal.SIGTERM)
        done = live.end()
    assert done.status == 128 + signal.SIGTERM
    assert done.output == "" or done.output.endswith(" true\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_parsing_and_compiling(number: signal.Signals, tmp_path: Path) -> None:
    policy = tmp_path / "policy.mtl"
    names = " AND ".join(f"(p{number} SINCE[0,{number}] q{number})" for number in range(100_000))
    policy.write_text(names)
    for seconds in 0.1, 0.2, 0.4:
        with started(str(policy)) as process:
            wait_for_work(process, seconds)
            process.send_signal(number)
            assert process.wait(SECONDS) in ended_by(number)
