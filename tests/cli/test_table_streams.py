"""The command on tables that others still write: live pipes, signals, readers that go away."""

from __future__ import annotations

import fcntl
import gzip
import json
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import parquet

from tests.cli.process import SECONDS, Ended, Live, is_working, mtlmon, shell, wait_until

RESPONSE = "p IMPLIES EVENTUALLY[0,5] q"


def test_a_live_pipe_of_json_lines(tmp_path: Path) -> None:
    policies = tmp_path / "two.mtl"
    policies.write_text(f"policy a: {RESPONSE}\natom far = x > 10\npolicy b: NOT far\n")
    asked = ["--format", "jsonl", "--key", "k", "--event", "e"]
    with Live(*asked, "--advance-every", "10", str(policies)) as live:
        live.send('{"ts": 0, "k": "x", "e": [], "x": 1}\n')
        assert live.read_line() == "a\tx\t0:0 true"
        assert live.read_line() == "b\tx\t0:0 true"
        for number in range(20, 60, 10):
            live.send(json.dumps({"ts": number, "k": "x", "e": ["p"], "x": number}) + "\n")
            assert live.read_line() == f"b\tx\t{number}:0 false"
            # half a row is none yet
            live.send(f'{{"ts": {number + 1}, "k": "y", ')
            assert live.read_line(0.05) is None
            live.send('"e": ["q", "z"], "more": {"x": [1, 2]}}\n')
            assert live.read_line() == f"a\ty\t{number + 1}:0 true"
            assert live.read_line() == f"b\ty\t{number + 1}:0 true"
            # another key's event shows that time has passed
            live.send(json.dumps({"ts": number + 10, "k": "z", "e": []}) + "\n")
            assert live.read_line() == f"a\tx\t{number}:0 false"
            assert live.read_line() == f"a\tz\t{number + 10}:0 true"
            assert live.read_line() == f"b\tz\t{number + 10}:0 true"
        live.send("what?\n")
        ended = live.end()
        message = "<stdin>:14: not a JSON object; --on-error skip leaves such rows out"
        assert ended == Ended(2, "", f"mtlmon: {message}\n")


def test_a_column_that_no_row_of_a_live_pipe_has() -> None:
    """The end, where this is an error, may never come: it is said as soon as it is likely."""
    with Live("--format", "jsonl", "--event", "knid", "-e", "p") as live:
        live.send("".join(f'{{"ts": {number}, "kind": "p"}}\n' for number in range(100)))
        assert live.read_line() == "0:0 false"
        assert live.read_error() == (
            "mtlmon: so far no row has a column 'knid' for the names of events; did you mean "
            "'kind'?"
        )
        live.send('{"ts": 100, "kind": "p"}\n')
        ended = live.end()
        assert ended.status == 2
        assert ended.output.splitlines()[-1] == "100:0 false"
        assert ended.errors == (
            "mtlmon: <stdin>: no row has a column 'knid' for the names of events; did you mean "
            "'kind'?\n"
        )


@pytest.mark.parametrize("format", ["text", "jsonl", "csv"])
def test_a_live_pipe_of_csv(format: str) -> None:
    with Live("--format", "csv", "--output-format", format, "-e", RESPONSE) as live:
        live.send("ts,p,q\n0,,true\n")
        if format == "csv":
            assert live.read_line() == "policy,time,offset,verdict,reference"
        lines = {"text": "{}:0 true", "csv": ",{},0,true,"}
        row = '{{"policy":null,"time":{},"offset":0,"verdict":true,"reference":null}}'
        line = lines.get(format, row)
        assert live.read_line() == line.format(0)
        for number in range(10, 50, 10):
            live.send(f"{number},true,\n")
            assert live.read_line(0.02) is None
            live.send(f'{number + 1},,"true"\n')
            assert live.read_line() == line.format(number)
            assert live.read_line() == line.format(number + 1)
        live.send("50,,")
        ended = live.end()
        assert ended == Ended(0, line.format(50) + "\n", "")


def test_a_key_that_comes_back_is_waited_for_again() -> None:
    """What time alone decides comes before the rows behind it, each time."""
    rows = [(1, "a"), (10, "b"), (20, "a"), (30, "b"), (41, "b"), (50, "a"), (60, "b"), (70, "b")]
    log = "ts,k,p\n" + "".join(f"{time},{key},{key == 'b'}\n".lower() for time, key in rows)
    asked = ["--format", "csv", "--key", "k", "--advance-every", "1"]
    done = mtlmon(*asked, "-e", "EVENTUALLY[0,5] p", log=log)
    wanted = [f"{key}\t{time}:0 {'true' if key == 'b' else 'false'}" for time, key in rows]
    assert done.output.splitlines() == wanted


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(number: signal.Signals, status: int, tmp_path: Path) -> None:
    out, report = tmp_path / "verdicts.parquet", tmp_path / "report.html"
    asked = ["--output-format", "parquet", "-o", str(out), "--report", str(report)]
    with Live("--format", "jsonl", "--key", "k", *asked, "-e", "p") as live:
        for time_stamp in range(100):
            live.send(json.dumps({"ts": time_stamp, "k": time_stamp % 7, "p": True}) + "\n")
        # the rows have been read once the empty pipe is waited for
        wait_until(lambda: out.exists() and _is_waiting(live), live.process)
        live.process.send_signal(number)
        assert live.process.wait(SECONDS) == status
        assert live.end() == Ended(status, "", "")
    verdicts = parquet.read_table(out)
    assert verdicts["time"].to_pylist() == list(range(100))
    assert verdicts["k"].to_pylist() == [str(one % 7) for one in range(100)]
    assert "interrupted" in report.read_text()


def _is_waiting(live: Live) -> bool:
    """Whether a process has read all there is on its standard input, and has nothing to do."""
    assert live.process.stdin is not None
    for _ in range(10):
        unread = struct.unpack("i", fcntl.ioctl(live.process.stdin, termios.FIONREAD, bytes(4)))
        if unread != (0,) or is_working(live.process.pid):
            return False
        # a thread may sleep for a moment only
        time.sleep(0.05)
    return True


def test_readers_that_go_away(tmp_path: Path) -> None:
    log = tmp_path / "x.csv.gz"
    rows = "".join(f"{number},true,{number % 9}\n" for number in range(400_000))
    log.write_bytes(gzip.compress(f"ts,p,k\n{rows}".encode(), 1))
    script = '$M --key k -e p --output-format "$2" "$1" | head -n 2; echo ${PIPESTATUS[0]}'
    done = shell(script, str(log), "text")
    assert done == Ended(0, "0\t0:0 true\n1\t1:0 true\n141\n", "")
    done = shell(script, str(log), "csv")
    assert done == Ended(0, 'policy,k,time,offset,verdict,reference\n,"0",0,0,true,\n141\n', "")


def test_a_table_as_standard_input(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,p,q\n1,true,\n9,,\n12,true,\n")
    # it is read again from where it began
    script = "(read -r _; $M --format csv --explain -e 'NOT p' ) < \"$1\""
    done = shell(script, str(log))
    # the header is gone
    assert done.status == 2
    script = '$M --format csv --explain -e "$2" < "$1"; $M -e "$2" --summary --verdicts none "$1"'
    done = shell(script, str(log), RESPONSE)
    assert done.output == "1:0 false\n9:0 true\n"
    assert done.errors.startswith(f"at <stdin>:2\n1:0 violates {RESPONSE}\n")
    assert "rows                3\n" in done.errors


ARROW_AND_SIGTERM = """
import io, os, signal, sys, threading
from pyarrow import ArrowCancelled, csv
from mtlmon.run.policies import take_signals_from_arrow

# as a command with checkpoints does while it works
signal.signal(signal.SIGTERM, lambda *_: None)
if sys.argv[1:] == ["taken"]:
    take_signals_from_arrow()
text = b"a,b\\n" + b"12345,67890\\n" * 6_000_000
threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGTERM)).start()
try:
    csv.read_csv(io.BytesIO(text), csv.ReadOptions(use_threads=False, block_size=1 << 20))
except ArrowCancelled:
    print("cancelled")
else:
    print("read")
"""


@pytest.mark.parametrize(("arguments", "outcome"), [(["taken"], "read"), ([], "cancelled")])
def test_arrow_leaves_signals_to_the_command(arguments: list[str], outcome: str) -> None:
    """The second case shows what Arrow does otherwise."""
    done = subprocess.run(
        [sys.executable, "-c", ARROW_AND_SIGTERM, *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{outcome}\n"
