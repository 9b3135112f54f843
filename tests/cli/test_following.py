"""A log that is followed by its name, as it grows, is cut and is replaced."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import SECONDS, Ended, Live, mtlmon, wait_until
from tests.doors import Follower, cli_following


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def wait_until_read(live: Live, log: Path) -> None:
    """Wait until the command has come to the present end of the log."""
    folder = Path(f"/proc/{live.process.pid}")
    if not folder.exists():
        # other systems do not tell how far a process has read
        time.sleep(1)
        return

    def is_read() -> bool:
        for one in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(one) == str(log):
                    place = (folder / "fdinfo" / one.name).read_text().split()[1]
                    return int(place) == log.stat().st_size
        return False

    wait_until(is_read)


def ended(live: Live, number: int = signal.SIGTERM) -> Ended:
    live.process.send_signal(number)
    return live.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_log_that_is_replaced_and_cut(tmp_path: Path, number: int) -> None:
    log = tmp_path / "app.log"
    with Live("--end-time", "last", "--follow", str(log), "-e", "p IMPLIES NEXT q") as live:
        assert live.read_error() == f"mtlmon: {log} does not exist yet: waiting for it"
        append(log, "@1 p\n@2")
        assert live.read_line(0.3) is None
        append(log, " q\n@3 p")
        assert [live.read_line() for _ in range(2)] == ["1:0 true", "2:0 true"]
        log.rename(tmp_path / "app.log.1")
        # whoever writes to the old file may do so for a while
        append(tmp_path / "app.log.1", "\n@4 p\n")
        assert live.read_line() == "3:0 false"
        log.write_text("@5 q\n")
        assert live.read_error() == f"mtlmon: {log} has been replaced: going on with the new file"
        assert [live.read_line() for _ in range(2)] == ["4:0 true", "5:0 true"]
        os.truncate(log, 0)
        assert live.read_error() == f"mtlmon: {log} has been cut: going on from its beginning"
        append(log, "@6 q\n")
        assert live.read_line() == "6:0 true"
        # an incomplete line ends with the log
        append(log, "@7 q")
        wait_until_read(live, log)
        assert ended(live, number) == Ended(1, "7:0 true\n", "")


def test_the_header_of_a_new_file(tmp_path: Path) -> None:
    log = tmp_path / "app.csv"
    log.write_text("ts,p\n1,true\n")
    with Live("--follow", str(log), "-e", "p") as live:
        assert live.read_line() == "1:0 true"
        log.unlink()
        append(log, "ts,")
        wait_until_read(live, log)
        append(log, "p\n2,false\n")
        assert live.read_line() == "2:0 false"
        # without a header
        os.truncate(log, 0)
        assert "replaced" in live.read_error() and "cut" in live.read_error()
        append(log, "3,true\n")
        assert live.read_line() == "3:0 true"
        assert ended(live) == Ended(1, "", "")


@pytest.mark.parametrize("name", ["app.jsonl", "app"])
def test_other_formats(tmp_path: Path, name: str) -> None:
    """By the name or by the first line; the first line of a new file is no header."""
    log = tmp_path / name
    with Live("--follow", str(log), "-e", "p") as live:
        live.read_error()
        log.write_text('{"ts":1,"p":true}\n')
        assert live.read_line() == "1:0 true"
        log.unlink()
        log.write_text('{"ts":1,"p":true}\n')
        assert live.read_line() == "1:1 true"
        live.read_error()
        append(log, '{"ts":2,"p":"x"}\n')
        assert live.process.wait(SECONDS) == 2
        assert f"{log}:3: " in live.end().errors


def test_lines_with_a_pattern_and_time_that_passes(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("")
    asked = ["--pattern", r"(?P<ts>\d+) (?P<what>\w+)", "--event", "what", "--time-unit", "s"]
    formula = "p IMPLIES EVENTUALLY[0,1] q"
    with Live(*asked, "--idle", "1s", "--follow", str(log), "-e", formula) as live:
        now = int(time.time())
        append(log, f"{now - 9} q\n{now} p\n")
        assert live.read_line() == f"{now - 9}:0 true"
        assert live.read_line() == f"{now}:0 false"
        assert time.time() >= now + 3
        assert ended(live) == Ended(1, "", "")


def test_a_signal_that_comes_twice(tmp_path: Path) -> None:
    """`timeout` sends its signal to the process and to its group."""
    log = tmp_path / "app.log"
    log.write_text("@1 q\n@1 p\n")
    with Live("--follow", str(log), "--end-time", "inf", "-e", "p IMPLIES NEXT q") as live:
        assert live.read_line() == "1:0 true"
        live.process.send_signal(signal.SIGINT)
        live.process.send_signal(signal.SIGTERM)
        assert live.end() == Ended(1, "1:1 false\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--follow", "a.log", "-e", "p", "b.log"], "--follow names the log: leave out b.log"),
        (["--follow", "-", "-e", "p"], "--follow needs files"),
        (["--follow", "a.log", "-"], "--follow needs files"),
        (["--follow", "a.parquet", "-e", "p"], "and parquet has none"),
        (["--follow", "a.csv.gz", "-e", "p"], "and gzip has none"),
        (["--follow", "a", "--format", "arrow", "-e", "p"], "and arrow has none"),
        (
            ["--follow", "a.log", "--checkpoint", "s", "-o", "o", "-e", "p"],
            "--follow does not work with --checkpoint: the file may be replaced",
        ),
        (["--follow", "/", "-e", "p"], "--follow /: this is not a file"),
        (["--follow", "/dev/null/x", "-e", "p"], "cannot read /dev/null/x: Not a directory"),
    ],
)
def test_what_cannot_be_followed(arguments: list[str], message: str) -> None:
    done = mtlmon(*arguments)
    assert done.status == 2 and message in done.errors and done.errors.count("\n") == 1


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_headers_in_pieces(size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is written does not depend on how much is read at once."""
    monkeypatch.setattr(cli_following, "BLOCK_BYTES", size)
    reader, writer = os.pipe()
    path = tmp_path / "a.csv"
    follower = Follower(str(path), writer, lambda line: line.startswith(b"ts"))
    for text in ("", "ts,a\n1,2\n", "ts,a\n2,3", "ts,b\n3,4\n", "ts,", "", "ts,a\n"):
        path.unlink(missing_ok=True)
        path.write_text(text)
        follower.look()
    follower.end()
    follower.run()
    with open(reader, "rb") as file:
        assert file.read() == b"ts,a\n1,2\n2,3\nts,b\n3,4\nts,\n"
