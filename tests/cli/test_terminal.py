"""Names of files, policies and keys cannot do to a terminal what they like."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import termios
from pathlib import Path

import pytest

from tests.cli.process import COMMAND, SECONDS, environment, mtlmon
from tests.doors import escaped

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
x 3 violations of 2 of 2 policies in 6 events, first at LOG:3, 1 time-point undecided
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


def test_people_see_violations(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    status, shown = on_terminal(*given)
    assert (status, plain(shown)) == (1, SEEN)
    assert "\x1b[1mresponse\x1b[0m" in shown
    # those of equivalence classes, too
    assert plain(on_terminal("--mode", "global", *given)[1]) == SEEN
    status, shown = on_terminal("--no-summary", "-e", "p OR q OR r", given[-1])
    assert (status, plain(shown)) == (0, "+ no violation in 6 events\n")
    # as many as policies allow are no failure
    allowed = tmp_path / "allowed.mtl"
    allowed.write_text("policy rare at most 70%: NOT p\n")
    status, shown = on_terminal("--no-summary", str(allowed), given[-1])
    assert status == 0
    last = "+ 4 violations in 6 events, no more than allowed, first at LOG:1"
    assert plain(shown).splitlines()[-1] == last
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
        f"x  {log}:3  2024-05-01T10:00:01Z  big  x is 6",
        f"x  {log}:3  2024-05-01T10:00:01Z  own  {SHOWN}  no big x",
        f"x 2 violations of 2 of 2 policies in 2 events, first at {log}:3",
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


# ---- violations of policies with variables -------------------------------------------------------

FOR_VALUES = 'policy leak "nobody leaks": NOT leak(user, size)\nfind late: late(user)\n'
ROWS_LOG = f'# all\n@1 leak(ann, 3) p\n\n@1 late(bob)\n@4 leak("{BAD}", 4)'
VALUES_SEEN = [
    "x  LOG:2  1:0  leak  user=ann, size=3  nobody leaks",
    "*  LOG:4  1:1  late  user=bob  late(user)",
    f'x  LOG:5  4:0  leak  user="{SHOWN.replace(chr(92), chr(92))}", size=4  nobody leaks',
]


def marked(text: str) -> str:
    return plain(text).replace("•", "*")


@pytest.mark.parametrize("slices", [[], ["--slices", "2"]])
def test_people_see_values(tmp_path: Path, slices: list[str]) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "events.log"
    rules.write_text(FOR_VALUES)
    log.write_text(ROWS_LOG)
    arguments = ["--no-summary", *slices, str(rules), str(log)]
    status, shown = on_terminal(*arguments)
    assert (status, marked(shown).splitlines()) == (
        1,
        [*VALUES_SEEN, "x 2 violations in 3 events, first at LOG:2, 1 match"],
    )
    assert is_harmless(CODES.sub("", shown))
    # programs get lines as ever
    lines = mtlmon(*arguments).output
    assert lines.startswith("leak\t1:0 false (user=ann, size=3)\nlate\t1:1 match (user=bob)\n")
    for options in ["--verdicts", "false"], ["--output-format", "text"]:
        assert on_terminal(*options, *arguments)[1].splitlines()[:2] == lines.splitlines()[:2]
    assert marked(mtlmon("--color", "always", *arguments).output) == marked(shown)
    # all time-points without a match or violation, and finds alone
    rules.write_text("find late: late(user)\n")
    assert marked(on_terminal(*arguments)[1]).splitlines()[-1] == "* 1 match in 3 events"
    rules.write_text("policy p: late(u) IMPLIES EVENTUALLY[0,9] leak(u, 4)\n")
    assert (
        marked(on_terminal(*arguments)[1])
        == "+ no violation in 3 events, 3 time-points undecided\n"
    )


def test_people_see_policies_of_both_kinds(tmp_path: Path) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "events.log"
    rules.write_text(f"policy quiet: NOT p\n{FOR_VALUES}")
    log.write_text(ROWS_LOG)
    arguments = ["--no-summary", str(rules), str(log)]
    assert marked(on_terminal(*arguments)[1]).splitlines() == [
        "x  LOG:2  1:0  quiet  NOT p",
        *VALUES_SEEN,
        "x 3 violations of 2 of 2 policies in 3 events, first at LOG:2, 1 match",
    ]
    assert "quiet\t1:1 true\n" in mtlmon(*arguments).output
    assert "quiet\t1:1 true\n" in on_terminal("--verdicts", "all", *arguments)[1]


@pytest.mark.parametrize("others", ["", "policy small per user: size < 4\n"])
def test_people_see_values_of_tables(tmp_path: Path, others: str) -> None:
    rules, rest = tmp_path / "rules.mtl", tmp_path / "rest.csv"
    rules.write_text(
        f"{others}atom leak(user, size) = size > 2\npolicy leak: NOT leak(user, size)\n"
    )
    log = tmp_path / "log.csv"
    log.write_text(f"ts,user,size\n2024-05-01T10:00:00,ann,1\n2024-05-01T10:00:01,{BAD},3\n")
    rest.write_text("ts,user,size\n2024-05-01T10:00:02,bob,4\n2024-05-01T10:00:02,bob,5\n")
    arguments = ["--no-summary", str(rules), str(log), str(rest)]
    shown = on_terminal(*arguments)[1]
    assert is_harmless(CODES.sub("", shown))
    lines = [
        [f'x  {log}:3  2024-05-01T10:00:01Z  leak  user="{SHOWN}", size=3  NOT leak(user, size)'],
        [
            f"x  {rest}:2  2024-05-01T10:00:02Z  small  bob  size < 4",
            f"x  {rest}:2  2024-05-01T10:00:02Z  leak  user=bob, size=4  NOT leak(user, size)",
        ],
        [
            f"x  {rest}:3  2024-05-01T10:00:02Z  small  bob  size < 4",
            f"x  {rest}:3  2024-05-01T10:00:02Z  leak  user=bob, size=5  NOT leak(user, size)",
        ],
    ]
    wanted = [line for some in lines for line in some if others or "small" not in line]
    found = marked(shown).replace('"size < 4"', "size < 4").splitlines()
    assert sorted(found[:-1]) == sorted(wanted)
    count = f"{len(wanted)} violations" + (" of 2 of 2 policies" if others else "")
    assert found[-1] == f"x {count} in 4 events, first at {log}:3"
    if not others:
        # a time-stamp is not one row
        shown = marked(on_terminal("--time-points", "stamp", *arguments)[1])
        assert shown.startswith("x  2024-05-01T10:00:01Z  leak  ")


def test_rows_of_long_logs(tmp_path: Path) -> None:
    """Lines are right in later blocks, too."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "events.log"
    rules.write_text("policy v: NOT v(x)\n")
    lines = []
    for number in range(30_000):
        lines.append("# nothing" if number % 1000 == 7 else f"@{number} {'q' * (number % 30)}")
    wanted = [5, 8, 1023, 1024, 8200, 20_006, 20_008, 29_999]
    for number in wanted:
        lines[number] = f"@{number} v({number})"
    log.write_text("\n".join(lines))
    for extra in "", "policy p: NOT p\n":
        rules.write_text(f"policy v: NOT v(x)\n{extra}")
        shown = marked(mtlmon("--color", "never", str(rules), str(log)).output)
        assert shown.count("\n") == len(wanted) + (30_000 - 30 if extra else 0)
        shown = marked(mtlmon("--color", "always", str(rules), str(log)).output)
        assert shown.splitlines()[:-1] == [
            f"x  LOG:{number + 1}  {number}:0  v  x={number}  NOT v(x)" for number in wanted
        ]


@pytest.mark.parametrize("extra", ["", "policy p: NOT p\n"])
def test_rows_of_lines_that_were_sorted(tmp_path: Path, extra: str) -> None:
    rules, log = tmp_path / "rules.mtl", tmp_path / "events.log"
    rules.write_text(f"policy v: NOT v(x)\n{extra}")
    log.write_text("@9 v(1)\n# nothing\n@3 v(2)\n@7\n@5 v(3)\n")
    shown = marked(mtlmon("--color", "always", "--sort", str(rules), str(log)).output)
    assert shown.splitlines()[:-1] == [
        "x  LOG:3  3:0  v  x=2  NOT v(x)",
        "x  LOG:5  5:0  v  x=3  NOT v(x)",
        "x  LOG:1  9:0  v  x=1  NOT v(x)",
    ]


@pytest.mark.parametrize(
    "policy", ["p IMPLIES EVENTUALLY[0,5] q", "p(x) IMPLIES EVENTUALLY[0,5] q(x)"]
)
def test_the_first_violation(tmp_path: Path, policy: str) -> None:
    """It is the earliest one, also where another one is known before, and in both kinds."""
    rules, log = tmp_path / "rules.mtl", tmp_path / "events.log"
    p = "p(1)" if "(" in policy else "p"
    rules.write_text(f"policy waits: {policy}\npolicy now: NOT r\n")
    log.write_text(f"@1\n@2 r {p}\n@2 {p}\n@2 r\n@20\n")
    shown = marked(mtlmon("--color", "always", str(rules), str(log)).output)
    outcome = "x 4 violations of 2 of 2 policies in 5 events, first at LOG:2"
    assert shown.splitlines()[-1].startswith(outcome)
    log.write_text(f"@1\n@1 {p}\n@2 {p}\n@2 r\n@20\n")
    shown = marked(mtlmon("--color", "always", str(rules), str(log)).output)
    assert shown.splitlines()[0].startswith("x  LOG:4  2:1  now")
    outcome = "x 3 violations of 2 of 2 policies in 5 events, first at LOG:2"
    assert shown.splitlines()[-1].startswith(outcome)
