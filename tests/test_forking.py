"""A forked run of the command is as one that is started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import environment
from tests.forking import COMMAND, Process, command_server

ROOT = Path(__file__).parents[1]
ARGUMENTS = [
    ["--version"],
    ["--help"],
    ["-e", "p"],
    ["-e", "p", "missing.log"],
    ["-e", "p AND"],
    ["--no-such-option"],
    ["-e", "policy x: a > 2", "log.csv"],
    ["--explain", "-e", "policy x: a > 2", "log.csv"],
    ["query", "-e", "relation r = rows | where a > 1", "r", "log.csv"],
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=" ".join)
def test_a_forked_run_is_as_one_that_is_started(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("ts,a\n1,2\n2,3\n")

    def run(kind: type[subprocess.Popen[bytes]]) -> tuple[int, bytes, bytes]:
        with kind(
            [*COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd=tmp_path,
        ) as started:
            output, errors = started.communicate("@1 p é\n@2 q\n".encode())
        return started.returncode, output, errors

    forked = run(Process)
    assert forked == run(subprocess.Popen)
    assert b"Traceback" not in forked[2]


@pytest.mark.skipif(sys.platform != "linux", reason="no process is forked on other systems")
@pytest.mark.parametrize("variables", [{}, {"PYTHONDEVMODE": "1"}])
def test_which_runs_are_forked(variables: dict[str, str]) -> None:
    """A forked process has the arguments of its server. Variables of Python need a start."""
    with Process(
        [*COMMAND, "-e", "p"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(**variables),
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"@1 p\n@2 p\n")
        running.stdin.flush()
        assert running.stdout.readline() == b"1:0 true\n"
        arguments = Path(f"/proc/{running.pid}/cmdline").read_bytes()
        running.send_signal(signal.SIGKILL)
    assert (b"fork_server" in arguments) == (not variables)
    assert running.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="no process is forked on other systems")
@pytest.mark.parametrize(
    "line",
    [
        "mtlmon -e 'policy x: a > 2' log.csv; echo $?",
        "mtlmon -e 'policy x: a > 2' < log.csv | head -n 1; echo ${PIPESTATUS[*]}",
        "yes '@1 p' | mtlmon -e p | head -n 1; echo ${PIPESTATUS[*]}",
        "rm -f f out; mkfifo f; mtlmon -e p < f > out & exec 3> f; echo @1 p >&3; "
        "until [ -s out ]; do sleep 0.05; done; kill -TERM $!; wait $!; echo $?",
        # told that the time is over; what job control does not start ignores SIGINT
        "rm -f f out; mkfifo f; set -m; timeout --signal INT 600 mtlmon -e p < f > out & "
        "exec 3> f; echo @1 p >&3; until [ -s out ]; do sleep 0.05; done; kill -ALRM $!; wait $!; "
        "echo $?",
        "cd / && mtlmon -e p log.csv; echo $?",
    ],
)
def test_in_a_shell(line: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("ts,a\n1,2\n2,3\n")
    server = command_server()
    assert server is not None

    def run(program: Path) -> str:
        return subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{line}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
            encoding="utf-8",
            cwd=tmp_path,
            env={**environment(), "PATH": f"{program.parent}:/usr/bin:/bin"},
        ).stdout

    forked = run(server.program)
    assert forked == run(Path(sys.executable).with_name("mtlmon"))
    assert forked.splitlines()[-1].split()[0].isdecimal()


@pytest.mark.skipif(sys.platform != "linux", reason="no process is forked on other systems")
def test_a_server_ends_with_the_process_that_has_started_it() -> None:
    """At its end Python would warn of a process that runs on, and of the pipe to it."""
    script = "from tests.forking import Server; print(Server('command')._process.pid)"
    line = [sys.executable, "-W", "always::ResourceWarning", "-c", script]
    safe = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(line, capture_output=True, check=True, cwd=ROOT, env=safe, text=True)
    assert not done.stderr
    assert not Path("/proc", done.stdout.strip()).exists()
