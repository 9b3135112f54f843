"""A log that is followed by its name, as it grows, is cut and is replaced."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.kills import wait_for_checkpoint
from tests.cli.process import SECONDS, Ended, Live, mtlmon, shell, wait_until
from tests.doors import Follower, followed_file


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
        (["--follow", "/", "-e", "p"], "--follow /: this is not a file"),
        (["--follow", "/dev/null/x", "-e", "p"], "cannot read /dev/null/x: Not a directory"),
    ],
)
def test_what_cannot_be_followed(arguments: list[str], message: str) -> None:
    done = mtlmon(*arguments)
    assert done.status == 2 and message in done.errors and done.errors.count("\n") == 1


def test_a_file_is_followed_without_standard_input(tmp_path: Path) -> None:
    """Also beside a file for late rows, which must not be the log."""
    log, late = tmp_path / "app.log", tmp_path / "late"
    log.write_text("@5 p\n@1 p\n")
    script = 'timeout -s TERM 2 $M --follow "$1" --wait 2 --late "$2" -e p <&-'
    done = shell(script, str(log), str(late))
    assert done.output == "5:0 true\n" and "standard input" not in done.errors
    assert late.read_text() == "@1 p\n"


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_headers_in_pieces(size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is written does not depend on how much is read at once."""
    monkeypatch.setattr(followed_file, "BLOCK_BYTES", size)
    path = tmp_path / "a.csv"
    follower = Follower(str(path), lambda line: line.startswith(b"ts"), print)
    for text in ("", "ts,a\n1,2\n", "ts,a\n2,3", "ts,b\n3,4\n", "ts,", "", "ts,a\n"):
        path.unlink(missing_ok=True)
        path.write_text(text)
        follower.look()
    follower.end()
    follower.run()
    with open(follower.input.descriptor, "rb") as file:
        assert file.read() == b"ts,a\n1,2\n2,3\nts,b\n3,4\nts,\n"


# ---- a run that goes on ------------------------------------------------------------------------

TEXT = [f"@{time} {'p' if time % 3 else 'q'}\n" for time in range(30)]
ROWS = [f"@{time} in({time % 4}) p\n" for time in range(30)]
CELLS = [f"{time},{'ab'[time % 2]},{'true' if time % 3 else 'false'}\n" for time in range(30)]
OBJECTS = [
    f'{{"ts":{time},"user":{time % 4},"p":{str(time % 3 > 0).lower()}}}\n' for time in range(30)
]
FORMULA = "policy late: p IMPLIES EVENTUALLY[1,2] q\npolicy never: ONCE[0,5] q\n"
KEYED = "key user\npolicy f: p IMPLIES ONCE[1,3] NOT p\n"
VARIABLES = "policy twice: FORALL x. in(x) IMPLIES NOT ONCE[1,4] in(x)\n"

# the suffix and header of the log, its lines, the policies, and whether events are read again
LOGS = {
    "one policy": ("log", "", TEXT, "policy late: p IMPLIES EVENTUALLY[1,2] q\n", False),
    "several policies": ("log", "", TEXT, FORMULA, True),
    "variables": ("log", "", ROWS, VARIABLES, False),
    "both": ("log", "", ROWS, f"{VARIABLES}policy p: ONCE[1,3] p\n", False),
    "CSV": ("csv", "ts,user,p\n", CELLS, KEYED, True),
    "a window": ("csv", "ts,user,p\n", CELLS, "key user\npolicy f: count[0,5]() < 3\n", True),
    "JSON lines": ("jsonl", "", OBJECTS, KEYED, True),
}


def append_and_keep(log: Path, lines: list[str], header: str) -> None:
    append(log, "".join(lines))


def replace(log: Path, lines: list[str], header: str) -> None:
    append(log, "".join(lines[:5]))
    log.rename(f"{log}.1")
    log.write_text(header + "".join(lines[5:]))


def copy_and_cut(log: Path, lines: list[str], header: str) -> None:
    append(log, "".join(lines[:5]))
    Path(f"{log}.1").write_bytes(log.read_bytes())
    os.truncate(log, 0)
    append(log, header + "".join(lines[5:]))


def remove(log: Path, lines: list[str], header: str) -> None:
    # the new file must not have the same inode
    old = log.rename(log.parent / "old")
    log.write_text(header + "".join(lines))
    old.unlink()


def end_when_read(live: Live, log: Path, checkpoint: Path) -> None:
    """End a run, which writes its last checkpoint once it handles signals."""
    wait_until_read(live, log)
    wait_for_checkpoint(checkpoint, 0)
    assert ended(live).status in (0, 1)


@pytest.mark.parametrize("change", [append_and_keep, replace, copy_and_cut])
@pytest.mark.parametrize("kind", LOGS)
def test_a_run_that_is_killed_goes_on(kind: str, change: object, tmp_path: Path) -> None:
    """The verdicts are those on all lines in one log, which is read once."""
    suffix, header, lines, policies, _ = LOGS[kind]
    log, whole = tmp_path / f"app.{suffix}", tmp_path / f"whole.{suffix}"
    policy, output, checkpoint = tmp_path / "p.mtl", tmp_path / "out", tmp_path / "state"
    policy.write_text(policies)
    whole.write_text(header + "".join(lines))
    wanted = mtlmon(str(policy), str(whole), "--verdicts", "all").output
    asked = ["--follow", str(log), "--verdicts", "all", "-o", str(output), "--resume"]
    asked += ["--checkpoint", str(checkpoint), "--checkpoint-every", "0.05s", str(policy)]
    log.write_text(header + "".join(lines[:9]))
    with Live(*asked) as live:
        wait_for_checkpoint(checkpoint)
        live.process.send_signal(signal.SIGKILL)
        live.end()
    assert callable(change)
    change(log, lines[9:20], header)
    with Live(*asked) as live:
        wait_until(lambda: output.read_text().count("\n") >= 15, live.process)
        append(log, "".join(lines[20:25]))
        wait_until_read(live, log)
        # the run has noticed what happened to the file, and goes on as ever
        replace(log, lines[25:], header)
        wait_until_read(live, log)
        done = ended(live)
    assert output.read_text() == wanted
    assert done.errors.count("replaced") == (1 if change is append_and_keep else 3)


@pytest.mark.parametrize("kind", LOGS)
def test_a_file_that_is_gone(kind: str, tmp_path: Path) -> None:
    """A run that needs no rows again says what is missing; another one cannot go on."""
    suffix, header, lines, policies, reads_again = LOGS[kind]
    log, whole = tmp_path / f"app.{suffix}", tmp_path / f"whole.{suffix}"
    policy, output, checkpoint = tmp_path / "p.mtl", tmp_path / "out", tmp_path / "state"
    policy.write_text(policies)
    whole.write_text(header + "".join(lines))
    wanted = mtlmon(str(policy), str(whole), "--verdicts", "all").output
    asked = ["--follow", str(log), "--verdicts", "all", "-o", str(output), "--resume"]
    asked += ["--checkpoint", str(checkpoint), "--checkpoint-every", "1", str(policy)]
    log.write_text(header + "".join(lines[:9]))
    with Live(*asked) as live:
        end_when_read(live, log, checkpoint)
    remove(log, lines[9:], header)
    with Live(*asked) as live:
        if reads_again:
            assert live.process.wait(SECONDS) == 2
            assert "and the file before is not beside it any more" in live.end().errors
            return
        said = live.read_error()
        assert f"{log} has been replaced or cut since the checkpoint: going on from its" in said
        wait_until_read(live, log)
        ended(live)
    assert output.read_text() == wanted


def test_a_checkpoint_of_another_file(tmp_path: Path) -> None:
    log, other = tmp_path / "app.log", tmp_path / "other" / "app.log"
    asked = ["-o", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "state"), "-e", "p"]
    log.write_text("@1 p\n")
    with Live("--follow", str(log), *asked) as live:
        end_when_read(live, log, tmp_path / "state")
    other.parent.mkdir()
    other.write_text("@2 p\n")
    done = mtlmon("--follow", str(other), "--resume", *asked)
    assert done.status == 2
    assert f"the checkpoint is of {log}, not of {other} (without --resume" in done.errors


def test_a_run_that_reads_all_of_a_log_again(tmp_path: Path) -> None:
    """Once its file was replaced, such a run cannot go on, and says so."""
    _, header, lines, policies, _ = LOGS["a window"]
    log, policy = tmp_path / "app.csv", tmp_path / "p.mtl"
    policy.write_text(policies)
    asked = ["--follow", str(log), "-o", str(tmp_path / "out"), "--resume"]
    asked += ["--checkpoint", str(tmp_path / "state"), str(policy)]
    log.write_text(header + "".join(lines[:9]))
    with Live(*asked) as live:
        wait_until_read(live, log)
        wait_for_checkpoint(tmp_path / "state", 0)
        replace(log, lines[9:20], header)
        assert "has been replaced" in live.read_error()
        wait_until_read(live, log)
        ended(live)
    done = mtlmon(*asked)
    assert done.status == 2
    assert f"has to read the log from its beginning, and {log} was replaced or cut" in done.errors


def test_files_that_were_between(tmp_path: Path) -> None:
    """What nobody reads is named."""
    log = tmp_path / "app.log"
    asked = ["--follow", str(log), "-o", str(tmp_path / "out"), "--resume"]
    asked += ["--checkpoint", str(tmp_path / "state"), "-e", "p"]
    log.write_text("@1 p\n")
    with Live(*asked) as live:
        end_when_read(live, log, tmp_path / "state")
    log.rename(tmp_path / "app.log.2")
    os.utime(tmp_path / "app.log.2", (1, 1))
    (tmp_path / "app.log.1").write_text("@2 p\n")
    log.write_text("@3 p\n")
    with Live(*asked) as live:
        assert live.read_error().endswith(f"reading the rest of {tmp_path / 'app.log.2'}")
        assert live.read_error().endswith(
            f"app.log.1 was written after {tmp_path / 'app.log.2'}, and is not read"
        )
        assert "going on with the new file" in live.read_error()
        wait_until_read(live, log)
        ended(live)
    assert (tmp_path / "out").read_text() == "1:0 true\n3:0 true\n"


def test_bytes_that_were_cut_off(tmp_path: Path) -> None:
    """A place in a piece of the file that was cut since is the beginning of the next piece."""
    path = tmp_path / "a.log"
    follower = Follower(str(path), lambda line: False, print, keeps=True)
    path.write_text("@1 p\n@2 p\n")
    follower.look()
    os.truncate(path, 0)
    follower.look()
    assert follower.piece_at(5).start == 10
    path.write_text("@3 p\n")
    follower.look()
    assert follower.piece_at(5).start == 10
    piece = follower.piece_at(10)
    assert (piece.start, piece.shift) == (10, 10)
    follower.close()


def test_a_log_of_monpoly(tmp_path: Path) -> None:
    log, output = tmp_path / "app.log", tmp_path / "out"
    (tmp_path / "sig").write_text("p(int)\n")
    (tmp_path / "f.mfotl").write_text("p(x) AND PREV p(x)\n")
    asked = ["--signature", str(tmp_path / "sig"), str(tmp_path / "f.mfotl"), "-o", str(output)]
    asked += ["--follow", str(log), "--checkpoint", str(tmp_path / "state"), "--resume"]
    log.write_text("@1 p(1)\n@2 p(1)\n")
    with Live(*asked) as live:
        end_when_read(live, log, tmp_path / "state")
    append(log, "@3 p(1) p(2)\n@4 p(2)\n")
    with Live(*asked) as live:
        wait_until(lambda: output.read_text().count("\n") == 2, live.process)
        append(log, "@5 p(1)\n")
        wait_until_read(live, log)
        ended(live)
    log.rename(tmp_path / "whole")
    done = mtlmon(*asked[:3], str(tmp_path / "whole"))
    assert output.read_text() == done.output
    assert done.output.count("\n") == 3
