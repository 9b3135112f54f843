"""The subcommand resolve, seen from outside."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.process import SECONDS, Live, mtlmon, shell

LARGEST = 2**63 - 1
VALUE = "expected ' true', ' false' or ' = TIME-STAMP:OFFSET', found"
REFERENCE = "expected the time-point that this one is equivalent to, found"
HELP = " (see mtlmon resolve --help)\n"
LINES = "1:1 = 1:0\n3:0 true\n3:1 = 1:1\n1:0 false\n9:0 true\n"
STAY = "stay open: equivalent to ones without a Boolean verdict\n"


def test_files_and_pipes(tmp_path: Path) -> None:
    file, target = tmp_path / "x.verdicts", tmp_path / "resolved"
    file.write_text(LINES)
    resolved = "3:0 true\n1:0 false\n1:1 false\n3:1 false\n9:0 true\n"
    assert mtlmon("resolve", str(file)) == (1, resolved, "")
    assert mtlmon("resolve", "-", log=LINES) == (1, resolved, "")
    assert mtlmon("resolve", log=LINES) == (1, resolved, "")
    assert mtlmon("resolve", "-o", str(target), str(file)) == (1, "", "")
    assert target.read_text() == resolved
    assert mtlmon("resolve", "--verdicts", "none", str(file)) == (1, "", "")
    done = mtlmon("resolve", "--verdicts", "false", str(file))
    assert done == (1, "1:0 false\n1:1 false\n3:1 false\n", "")
    assert mtlmon("resolve", log="1:0 true\n") == (0, "1:0 true\n", "")
    assert mtlmon("resolve", log="") == (0, "", "")


@pytest.mark.parametrize("reach", [[], ["--reach", "5"], ["--reach", "2"]])
def test_order(reach: list[str]) -> None:
    ordered = "1:0 false\n1:1 false\n3:0 true\n3:1 false\n9:0 true\n"
    assert mtlmon("resolve", "--in-order", *reach, log=LINES) == (1, ordered, "")
    keys = "".join(f"a\\t\tb\t{line}\nc\t{line}\n" for line in LINES.splitlines())
    done = mtlmon("resolve", "--in-order", *reach, log=keys)
    for prefix in ("a\\t\tb\t", "c\t"):
        mine = [line for line in done.output.splitlines() if line.startswith(prefix)]
        assert mine == [prefix + line for line in ordered.splitlines()]


def test_a_reach_that_is_too_small() -> None:
    log = "1:1 = 1:0\n3:0 true\n4:1 = 4:0\n1:0 true\n"
    done = mtlmon("resolve", "--in-order", "--reach", "1", log=log)
    assert done == (
        2,
        "3:0 true\n",
        "mtlmon: <stdin>:4:1: later time-points have been written: the reach is too small "
        "(1:0 true)\n",
    )


def test_what_stays_open_is_said() -> None:
    done = mtlmon("resolve", log="5:0 true\n7:1 = 7:0\n")
    assert done == (
        0,
        "5:0 true\n",
        "mtlmon: 1 time-point stays open: equivalent to ones without a Boolean verdict\n",
    )
    done = mtlmon("resolve", "--in-order", log="7:1 = 7:0\nk\t7:2 = 7:0\n5:0 true\n")
    assert done == (0, "5:0 true\n", f"mtlmon: 2 time-points {STAY}")


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("1:0 tru", 4, f"{VALUE} ' '"),
        ("1:0", 4, f"{VALUE} the end of the line"),
        ("1:0 true ", 9, "expected the end of the line, found ' '"),
        ("1:0 = 1:0 ", 9, "a time-point is equivalent to an earlier one"),
        ("1:0 = 2:0", 9, "a time-point is equivalent to an earlier one"),
        ("1:1 = 1:0x", 10, "expected the end of the line, found 'x'"),
        ("1:1 = ", 7, f"{REFERENCE} the end of the line"),
        ("1:1 = 1.0", 8, "expected ':' between time-stamp and offset, found '.'"),
        ("1 true", 2, "expected ':' between time-stamp and offset, found ' '"),
        ("1: true", 3, "expected an offset, found ' '"),
        ("-1:0 true", 1, "expected a time-stamp, found '-'"),
        ("k\tkey 1:0 true", 3, "expected a time-stamp, found 'k'"),
        ("größe\t1:0 maybe", 10, f"{VALUE} ' '"),
        (f"{2**63}:0 true", 1, "a time-stamp is an integer from 0 to 2^63-1"),
        (f"{10**20}:0 true", 1, "a time-stamp is an integer from 0 to 2^63-1"),
        (f"0:{2**64} true", 3, "an offset is an integer from 0 to 2^64-1"),
        (f"0:{'0' * 21} true", 3, "an offset is an integer from 0 to 2^64-1"),
        ("!1:0 true", 1, "'!' changes what was said before: add --changelog"),
        ("a\t1:0 false (x=2)", 13, "a verdict of a policy with variables: add --changelog"),
        ("a\t1:0 match", 7, "a verdict of a policy with variables: add --changelog"),
        ("a\tb\t!x1:0", 5, "'!' changes what was said before: add --changelog"),
    ],
)
def test_bad_lines(line: str, column: int, message: str, tmp_path: Path) -> None:
    file = tmp_path / "x.verdicts"
    file.write_text(f"0:0 true\n\n{line}\n5:0 true\n", encoding="utf-8")
    done = mtlmon("resolve", str(file))
    assert (done.status, done.output) == (2, "0:0 true\n")
    assert done.errors.startswith(f"mtlmon: {file}:3:{column}: {message} (")
    assert done.errors.count("\n") == 1


def test_lines_that_are_too_long() -> None:
    done = mtlmon("resolve", log="0:0 true\n" + "x" * 3_000_000 + "\t1:0 true\n")
    assert (done.status, done.output) == (2, "0:0 true\n")
    assert done.errors.startswith("mtlmon: <stdin>:2:1: a line of more than 1 MiB (xxx")
    key = "x" * 1_000_000
    done = mtlmon("resolve", log=f"{key}\t1:1 = 1:0\n{key}\t1:0 true\n")
    assert done.output == f"{key}\t1:0 true\n{key}\t1:1 true\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "b"], "several files (a, b): name one at a time"),
        (["--reach", "5"], "--reach needs --in-order"),
        (
            ["--in-order", "--reach=-5"],
            f"argument --reach: '-5' is not an integer from 0 to {LARGEST}",
        ),
        (
            ["--in-order", "--reach=5s"],
            f"argument --reach: '5s' is not an integer from 0 to {LARGEST}",
        ),
        (["--in"], "unrecognized arguments: --in"),
        (["--in_order"], "unrecognized arguments: --in_order (did you mean --in-order?)"),
    ],
)
def test_usage(arguments: list[str], message: str) -> None:
    assert mtlmon("resolve", *arguments) == (2, "", f"mtlmon: {message}{HELP}")


def test_only_the_first_word_is_a_subcommand(tmp_path: Path) -> None:
    (tmp_path / "resolve").write_text("p")
    assert shell('cd "$1" && echo "@1 p" | $M ./resolve', str(tmp_path)).output == "1:0 true\n"
    assert shell('cd "$1" && echo "@1 p" | $M -- resolve', str(tmp_path)).output == "1:0 true\n"
    done = shell('cd "$1" && echo "1:0 true" > v && $M resolve resolve', str(tmp_path))
    assert done.errors.startswith("mtlmon: resolve:1:1: expected a time-stamp, found 'p'")
    assert mtlmon("-e", "p", "resolve").errors == (
        "mtlmon: cannot read resolve: No such file or directory\n"
    )


def test_help_and_summary() -> None:
    done = mtlmon("resolve", "--help")
    assert done.status == 0
    assert done.output.startswith("usage: mtlmon resolve [options] [VERDICTS]\n")
    done = mtlmon("resolve", "--summary", log=LINES)
    rows = {row.split()[0]: row.split()[1] for row in done.errors.splitlines()}
    assert (rows["time-points"], rows["true"], rows["false"], rows["open"]) == ("5", "2", "3", "0")


def test_a_live_pipe_sees_each_verdict_before_more_comes() -> None:
    with Live("resolve") as live:
        for time_stamp in range(1, 20):
            live.send(f"{time_stamp}:1 = {time_stamp}:0\n{time_stamp}:0 tr")
            live.send("ue\n")
            assert live.read_line() == f"{time_stamp}:0 true"
            assert live.read_line() == f"{time_stamp}:1 true"
        live.send("30:0 false")
        assert live.end() == (1, "30:0 false\n", "")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(number: signal.Signals, status: int) -> None:
    with Live("resolve", "--in-order", "--reach", "1") as live:
        live.send("1:0 true\n3:0 false\n")
        assert live.read_line() == "1:0 true"
        live.process.send_signal(number)
        assert live.process.wait(SECONDS) == status
        ended = live.end()
        assert ended.errors == "mtlmon: 1 verdict not written: verdicts before them are missing\n"


def test_closed_pipes(tmp_path: Path) -> None:
    file = tmp_path / "x.verdicts"
    file.write_text("".join(f"{k}:0 true\n" for k in range(200_000)))
    done = shell('$M resolve "$1" | head -n 1; echo ${PIPESTATUS[0]}', str(file))
    assert done == (0, "0:0 true\n141\n", "")
    done = shell('$M resolve "$1" > /dev/full', str(file))
    assert done.errors == "mtlmon: cannot write standard output: No space left on device\n"
    assert shell('$M resolve -o "$1" "$1"', str(file)).status == 2
    assert file.stat().st_size > 1_000_000


def test_resolving_a_pipe_gives_what_the_option_gives(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(f"@{k // 3} {'q' * (k % 7 == 0)}\n" for k in range(5000)))
    for mode in ("local", "global"):
        options = f"--mode {mode} --end-time last -e 'EVENTUALLY[2,5] q'"
        one = shell(f'$M {options} --resolve "$1" | sort', str(log))
        other = shell(f'$M {options} "$1" | $M resolve | sort', str(log))
        assert one.output == other.output
        ordered = shell(f'$M {options} "$1" | $M resolve --in-order --reach 5', str(log))
        points = [line.split()[0] for line in ordered.output.splitlines()]
        assert points == sorted(points, key=lambda point: [*map(int, point.split(":"))])
        assert sorted(ordered.output.splitlines()) == sorted(one.output.splitlines())
