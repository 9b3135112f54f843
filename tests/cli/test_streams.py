"""Logs of every kind, live pipes, closed pipes and signals."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.process import COMMAND, SECONDS, Live, environment, mtlmon, shell
from tests.doors import support_option_names as option_names


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        (b"", []),
        (b"\n\n# nothing\n  # here\n", []),
        (b"@1 p", ["1:0 true"]),
        (b"@1 p\r\n\r\n@2\r\n@2 p\r", ["1:0 true", "2:0 false", "2:1 true"]),
        (b"\xef\xbb\xbf@1 p\n", ["1:0 true"]),
        (b"\t @1\tp \n", ["1:0 true"]),
        (b'@1 (p)\n@1 p()\n@1 "p"\n', ["1:0 true", "1:1 true", "1:2 true"]),
        (b"@9223372036854775807 p\n" * 2, [f"{2**63 - 1}:{k} true" for k in (0, 1)]),
        (b"@1 " + b"x" * 1_000_000 + b" p\n@2 " + b"p " * 500_000, ["1:0 true", "2:0 true"]),
    ],
)
def test_logs(log: bytes, lines: list[str], tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_bytes(log)
    for done in mtlmon("-e", "p", log=log), mtlmon("-e", "p", str(file)):
        assert done.output.splitlines() == lines
        assert done.errors == ("" if lines else "mtlmon: the log has no events\n")


def test_unicode_atoms() -> None:
    done = mtlmon("-e", 'größe AND "日本 語"', log='@1 größe "日本 語"\n@2 grosse "日本 語"\n')
    assert done == (1, "1:0 true\n2:0 false\n", "")


def test_nul_bytes() -> None:
    done = mtlmon("-e", "p", log=b"@1 p\n@2 p\0\n@3 p\n")
    assert done == (
        2, "1:0 true\n", "mtlmon: <stdin>:2:5: unexpected control character 0x00 (@2 p\\x00)\n",
    )  # fmt: skip


def test_names_of_logs_in_errors(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("@5 p\n@4\n")
    assert mtlmon("-e", "p", str(log)) == (
        2,
        "5:0 true\n",
        f"mtlmon: {log}:2:2: time-stamp 4 is below the one before it, 5 (@4)"
        f"{option_names.order_advice(option_names.COMMAND)}\n",
    )


def test_a_live_pipe_sees_each_verdict_before_more_comes() -> None:
    with Live("-e", "p IMPLIES EVENTUALLY[0,5] q") as live:
        live.send("@0\n")
        assert live.read_line() == "0:0 true"
        for time_stamp in range(1, 20, 2):
            live.send(f"@{time_stamp} p\n@{time_stamp} p\n")
            assert live.read_line() == f"{time_stamp}:1 = {time_stamp}:0"
            live.send(f"@{time_stamp + 1} q\n")
            assert live.read_line() == f"{time_stamp}:0 true"
            assert live.read_line() == f"{time_stamp + 1}:0 true"
        # half a line is no event yet
        live.send("@30")
        assert live.read_line(0.3) is None
        live.send(" q\n")
        assert live.read_line() == "30:0 true"
        live.send("@31 p")
        ended = live.end()
        assert ended == (0, "", "")


def test_a_busy_pipe_is_no_reason_to_wait() -> None:
    # one line arrives every few milliseconds, far less than a block
    script = "for k in $(seq 300); do echo @$k p; sleep 0.01; done | $M -e p | head -n 1"
    assert shell(script).output == "1:0 true\n"
    with Live("-e", "p") as live:
        for k in range(50):
            live.send(f"@{k} p\n")
            assert live.read_line() == f"{k}:0 true"


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="pipes have one size here")
def test_pipes_hold_more() -> None:
    ends = os.pipe()
    try:
        widest = fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 1 << 20)
    except PermissionError:
        pytest.skip("pipes of this user hold all they may already")
    finally:
        for end in ends:
            os.close(end)
    with Live("-e", "p") as live:
        live.send("@1 p\n")
        assert live.read_line() == "1:0 true"
        assert live.process.stdin is not None
        assert live.process.stdout is not None
        for pipe in live.process.stdin, live.process.stdout:
            assert fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) == widest


def test_head_ends_the_command_silently(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("@1 p\n" * 500_000)
    done = shell('$M -e p "$1" | head -n 2; echo ${PIPESTATUS[0]}', str(log))
    assert done == (0, "1:0 true\n1:1 true\n141\n", "")
    done = shell("$M --help | true; echo ${PIPESTATUS[0]}")
    assert done.errors == ""
    assert done.output in ("0\n", "141\n")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_while_waiting(number: signal.Signals, status: int) -> None:
    with Live("-e", "p") as live:
        live.send("@1 p\n@2 p\n@3")
        assert live.read_line() == "1:0 true"
        assert live.read_line() == "2:0 true"
        live.process.send_signal(number)
        assert live.process.wait(SECONDS) == status
        assert live.end() == (status, "", "")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_while_working(number: signal.Signals, status: int, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    out = tmp_path / "verdicts"
    process = subprocess.Popen(
        [*COMMAND, "-e", "p", "-o", str(out), str(fifo)],
        stderr=subprocess.PIPE,
        env=environment(),
    )
    with fifo.open("wb", buffering=0) as pipe:
        line = 0
        until = time.monotonic() + 0.5
        # at least until there are verdicts
        while time.monotonic() < until or not out.exists() or not out.stat().st_size:
            assert time.monotonic() < until + SECONDS
            pipe.write(b"".join(b"@%d p\n" % k for k in range(line, line + 1000)))
            line += 1000
        process.send_signal(number)
        _, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (status, b"")
    lines = out.read_text().splitlines()
    assert lines == [f"{k}:0 true" for k in range(len(lines))]
    assert lines


def test_a_signal_ends_the_command_though_its_reader_sleeps(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("@1 p\n" * 500_000)
    with Live("-e", "p", str(log)) as live:
        assert live.read_line() == "1:0 true"
        live.wait_until_blocked()
        live.process.send_signal(signal.SIGTERM)
        assert live.process.wait(SECONDS) == 143


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    script = (
        'trap "" INT; mkfifo "$1"; $M -e p < "$1" > "$2" & exec 3> "$1"; printf "@1 p\n" >&3; '
        'until [ -s "$2" ]; do sleep 0.05; done; kill -INT $!; '
        'printf "@2 p\n" >&3; exec 3>&-; wait $!; echo $?; cat "$2"'
    )
    done = shell(script, str(tmp_path / "fifo"), str(tmp_path / "verdicts"))
    assert done == (0, "0\n1:0 true\n2:0 true\n", "")


def test_summary_and_progress_on_a_terminal(tmp_path: Path) -> None:
    log, out = tmp_path / "x.log", tmp_path / "verdicts"
    log.write_text("".join(f"@{k} p\n" for k in range(1_500_000)))
    # long enough for a bar to be drawn: so many time-points are pending that each is work
    formula = "ALWAYS[0,900] (p OR EVENTUALLY[0,30] (q AND ONCE[0,5] p))"
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "--progress", "-e", formula, "-o", str(out), str(log)],
        stdin=subprocess.DEVNULL,
        stderr=follower,
        env=environment(),
    )
    os.close(follower)
    shown = b""
    try:
        while block := os.read(leader, 1 << 16):
            shown += block
    except OSError:
        # how a terminal without processes reads
        pass
    os.close(leader)
    assert process.wait(SECONDS) == 0
    text = shown.decode()
    assert "events/s" in text
    assert "peak pending" in text
    bars = [line for line in text.split("\r") if line.startswith("[")]
    assert bars
    assert "% of" in bars[0]
    # the bar is erased before anything else is said
    last_bar = text.rindex(bars[-1])
    assert text[last_bar + len(bars[-1]) :].startswith("\r" + " " * len(bars[-1].rstrip()))
