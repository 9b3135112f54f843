"""Names of files, policies and keys cannot do to a terminal what they like."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import termios
from pathlib import Path

import pytest

from mtlmon.syntax.report import escaped
from tests.cli.process import COMMAND, SECONDS, environment, mtlmon

# sets the title, clears the screen, goes up a line; as one control character; turns text around
BAD = "\x1b]0;title\x07\x1b[2J\x1b[A\x9b2J\u202e"
SHOWN = r"\x1b]0;title\x07\x1b[2J\x1b[A\x9b2J\u202e"
TABLE = f"ts,key,p\n1,{BAD},true\n2,ordinary \u00e9\u4e2d,false\n"


def on_terminal(*arguments: str, width: int = 0) -> tuple[int, str]:
    """Run the command with a terminal as standard output and error; what it shows there."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, width))
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
    every = ["--verdicts", "all"]
    log = tmp_path / "log"
    log.write_text("@1 p\n")
    status, shown = on_terminal("--explain", *every, str(policy), str(log))
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


# ---- violations for people -----------------------------------------------------------------------

POLICIES = """\
policy response "answered in time": p IMPLIES EVENTUALLY[0,5] q
policy plain: NOT r
"""
LOG = "@1 p\n@2 q\n@9 p\n@9 p\n@40 r\n@41 p\n"
SEEN = """\
x  LOG:3  9:0  response  answered in time
x  LOG:4  9:1  response  answered in time
x  LOG:5  40:0  plain  NOT r
x 3 violations of 2 of 2 policies in 6 events, 1 time-point undecided
"""
CODES = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """The arguments for a policy file and a text log."""
    policies, log = tmp_path / "rules.mtl", tmp_path / "events.log"
    policies.write_text(POLICIES)
    log.write_text(LOG)
    return ["--no-summary", str(policies), str(log)]


def plain(text: str) -> str:
    """The text without colours, with plain marks, and with a short name of the log."""
    text = re.sub(r"[^ \n]*/events.log:", "LOG:", CODES.sub("", text))
    return text.replace("✗", "x").replace("✓", "+")


def test_people_see_violations(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    status, shown = on_terminal(*given)
    assert (status, plain(shown)) == (1, SEEN)
    assert "\x1b[1mresponse\x1b[0m" in shown
    # those of equivalence classes, too
    assert plain(on_terminal("--mode", "global", *given)[1]) == SEEN
    status, shown = on_terminal("--no-summary", "-e", "p OR q OR r", given[-1])
    assert (status, plain(shown)) == (0, "+ no violation in 6 events\n")
    # the summary follows on standard error
    shown = plain(on_terminal(*given[1:])[1])
    assert shown.startswith(SEEN)
    assert "response: 4 triggered, 2 violated (50.0%), 1 open" in shown


@pytest.mark.parametrize(
    ("variables", "options", "has_colours"),
    [
        ({"TERM": "xterm"}, [], True),
        ({"TERM": "dumb"}, [], False),
        ({"NO_COLOR": "1"}, [], False),
        ({"NO_COLOR": ""}, [], True),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
        ({}, ["--color", "never"], False),
    ],
)
def test_colours(
    given: list[str],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    options: list[str],
    has_colours: bool,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    shown = on_terminal(*options, *given)[1]
    assert (CODES.search(shown) is not None) == has_colours
    assert plain(shown) == SEEN


def test_programs_get_verdicts(given: list[str], tmp_path: Path) -> None:
    """Pipes, files, and terminals of those who ask for something."""
    verdicts = mtlmon(*given).output
    assert verdicts.startswith("plain\t1:0 true\n")
    assert mtlmon("--color", "never", *given).output == verdicts
    for options in ["--verdicts", "all"], ["--output-format", "text"]:
        status, shown = on_terminal(*options, *given)
        assert (status, shown) == (1, verdicts)
    status, shown = on_terminal("--verdicts", "false", *given)
    assert shown == mtlmon("--verdicts", "false", *given).output
    resolved = mtlmon("--resolve", *given)
    assert on_terminal("--resolve", *given)[1] == resolved.output + resolved.errors
    output = tmp_path / "output"
    assert on_terminal("-o", str(output), *given) == (1, "")
    assert output.read_text() == verdicts


def test_colours_for_another_program(given: list[str]) -> None:
    done = mtlmon("--color", "always", *given)
    assert plain(done.output) == SEEN
    assert done.output != SEEN


def test_violations_of_tables(tmp_path: Path) -> None:
    policies, log = tmp_path / "rules.mtl", tmp_path / "log.csv"
    policies.write_text(
        'trigger big: x > 3 message "x is {x}"\npolicy own "no big x" per user: x < 5\n'
    )
    log.write_text(f"ts,user,x\n2024-05-01T10:00:00,a,1\n2024-05-01T10:00:01,{BAD},6\n")
    status, shown = on_terminal("--no-summary", str(policies), str(log))
    assert status == 1
    assert plain(shown).splitlines() == [
        f"x  {log}:2  2024-05-01T10:00:01Z  big  x is 6",
        f"x  {log}:2  2024-05-01T10:00:01Z  own  {SHOWN}  no big x",
        "x 2 violations of 2 of 2 policies in 2 events",
    ]
    assert is_harmless(CODES.sub("", shown))


def test_long_lines_are_shortened(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("@1 p\n")
    formula = " AND ".join(f"atom_{number}" for number in range(40))
    for width in 0, 300, 100:
        line = plain(on_terminal("--no-summary", "-e", formula, str(log), width=width)[1])
        line = line.splitlines()[0]
        assert (line.endswith(formula), " ... " in line) == (not width, bool(width))
        assert not width or len(line) <= max(width, len(f"x  {log}:1  1:0  ") + 20)


def test_a_log_that_cannot_be_read_has_no_outcome(given: list[str]) -> None:
    Path(given[-1]).write_text(LOG + "nothing\n@50 r\n")
    status, shown = on_terminal(*given)
    assert status == 2
    lines = plain(shown).splitlines()
    assert lines[:3] == SEEN.splitlines()[:3]
    assert len(lines) == 4
    assert lines[3].startswith("mtlmon: ")
