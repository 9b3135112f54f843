"""Names of files, policies and keys cannot do to a terminal what they like."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from mtlmon.syntax.report import escaped
from tests.cli.process import COMMAND, SECONDS, environment, mtlmon

# sets the title, clears the screen, goes up a line; as one control character; turns text around
BAD = "\x1b]0;title\x07\x1b[2J\x1b[A\x9b2J\u202e"
SHOWN = r"\x1b]0;title\x07\x1b[2J\x1b[A\x9b2J\u202e"
TABLE = f"ts,key,p\n1,{BAD},true\n2,ordinary \u00e9\u4e2d,false\n"


def on_terminal(*arguments: str) -> tuple[int, str]:
    """Run the command with a terminal as standard output and error; what it shows there."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        env=environment(),
    ) as process:
        os.close(follower)
        shown = b""
        try:
            while block := os.read(leader, 1 << 16):
                shown += block
        except OSError:
            # so Linux says that nobody has the terminal open any more
            pass
        status = process.wait(SECONDS)
    os.close(leader)
    return status, shown.decode().replace("\r\n", "\n")


def is_harmless(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable()


@pytest.mark.parametrize("output_format", ["text", "jsonl", "csv"])
def test_keys(output_format: str, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(TABLE)
    arguments = ["--output-format", output_format, "--key", "key", "-e", "p", str(log)]
    status, shown = on_terminal("--explain", *arguments)
    assert status == 1
    assert is_harmless(shown)
    assert "ordinary \u00e9\u4e2d" in shown
    assert SHOWN.replace("\\", "\\\\") in shown or SHOWN in shown or "\\u001b" in shown
    # files and pipes get what was there
    done = mtlmon(*arguments)
    assert BAD in done.output or (output_format == "jsonl" and "\\u001b" in done.output)


def test_names_of_policies(tmp_path: Path) -> None:
    policy = tmp_path / "policy.mtl"
    policy.write_text(f'policy "{BAD}": p\npolicy other: q\n')
    log = tmp_path / "log"
    log.write_text("@1 p\n")
    status, shown = on_terminal("--explain", str(policy), str(log))
    assert status == 1
    assert is_harmless(shown)
    assert f"{SHOWN}\t1:0 true\n" in shown
    assert mtlmon(str(policy), str(log)).output.startswith(f"{BAD}\t1:0 true\n")
    assert is_harmless(on_terminal("check-policy", str(policy))[1])


def test_names_of_files(tmp_path: Path) -> None:
    """Messages go to people, wherever standard error leads."""
    for name in f"{BAD}.log", f"{BAD}.csv":
        log = tmp_path / name
        done = mtlmon("-e", "p", str(log))
        assert done.status == 2
        assert is_harmless(done.errors)
        assert SHOWN in done.errors
        log.write_text("nothing\n")
        done = mtlmon("-e", "p", str(log))
        assert done.status == 2
        assert is_harmless(done.errors)
    done = mtlmon("--summary", "-e", "p", "--format", f"\x1b{BAD}")
    assert is_harmless(done.errors)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    verdicts = tmp_path / "verdicts"
    verdicts.write_bytes(b"k\x9b\xff\t1:0 false\n")
    status, shown = on_terminal("resolve", "--no-summary", str(verdicts))
    assert (status, shown) == (1, "k\\udc9b\\udcff\t1:0 false\n")


def test_what_is_escaped() -> None:
    assert escaped("plain \u00e9") == "plain \u00e9"
    assert escaped("a\tb\n\x1b", "\n") == "a\\tb\n\\x1b"
    assert escaped("\udc9b\u2028\U000e0001") == "\\udc9b\\u2028\\U000e0001"
