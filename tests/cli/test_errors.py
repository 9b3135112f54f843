"""Usage, formulas and files that are wrong: exit status 2 and one line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.process import COMMAND, mtlmon, shell

HELP = " (see mtlmon --help)\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no formula: name a FORMULA_FILE or give one with -e"),
        (["-", "-"], "formula and log cannot both come from standard input"),
        (["-"], "formula and log cannot both come from standard input"),
        (
            ["-e", "p", "a.log", "b.log"],
            "several text logs (a.log, b.log): name one at a time",
        ),
        (
            ["-e", "p", "-e", "q"],
            "-e was given more than once: join the formulas with AND, or write a policy file",
        ),
        (["--mod", "local", "-e", "p"], "unrecognized arguments: --mod (did you mean --mode?)"),
        (["--gibberish", "-e", "p"], "unrecognized arguments: --gibberish"),
        (["--rules", "x"], "unrecognized arguments: --rules (did you mean --policy?)"),
        (
            ["--formula=p"],
            "unrecognized arguments: --formula (the formula is -e FORMULA, its file the first "
            "argument: mtlmon FILE LOG)",
        ),
        (["-e"], "argument -e: expected one argument"),
    ],
)
def test_usage(arguments: list[str], message: str) -> None:
    assert mtlmon(*arguments) == (2, "", f"mtlmon: {message}{HELP}")


def test_several_text_logs_are_an_error_once_the_policy_is_read(tmp_path: Path) -> None:
    policy = tmp_path / "f.mtl"
    policy.write_text("p")
    ended = mtlmon(str(policy), "a.log", "b.log")
    message = "several text logs (a.log, b.log): name one at a time"
    assert ended == (2, "", f"mtlmon: {message}{HELP}")
    # lines of text that a pattern divides are a table, whose rows can be in several files
    policy.write_text('pattern "(?P<ts>.*)"\npolicy x: p')
    assert "several text logs" not in mtlmon(str(policy), "a.log", "b.log").errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--verdict", "false", "-e", "p"],
            "unrecognized arguments: --verdict (did you mean --verdicts?)",
        ),
        (
            ["--end_time=5", "-e", "p"],
            "unrecognized arguments: --end_time (did you mean --end-time?)",
        ),
        (["resovle"], "cannot read resovle: no such file; did you mean 'mtlmon resolve'?"),
        (
            ["resovle", "--in-order"],
            "cannot read resovle: no such file; did you mean 'mtlmon resolve'?",
        ),
        (
            ["check_policy", "x"],
            "cannot read check_policy: no such file; did you mean 'mtlmon check-policy'?",
        ),
        (["police.mtl"], "cannot read police.mtl: No such file or directory"),
        (
            ["p IMPLIES q", "x.log"],
            "cannot read p IMPLIES q: No such file or directory; a formula itself follows -e",
        ),
        (["a < 2"], "cannot read a < 2: No such file or directory; a formula itself follows -e"),
    ],
)
def test_what_is_misspelt(arguments: list[str], message: str) -> None:
    done = mtlmon(*arguments)
    assert (done.status, done.output) == (2, "")
    assert (
        done.errors.removesuffix("\n").removesuffix(" (see mtlmon --help)") == f"mtlmon: {message}"
    )


def test_a_file_named_like_a_subcommand(tmp_path: Path) -> None:
    """Only what is no file is taken for misspelt."""
    (tmp_path / "resolv").write_text("p")
    done = subprocess.run(
        [*COMMAND, "resolv"], input=b"@1 p\n", capture_output=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, b"1:0 true\n")


@pytest.mark.parametrize("option", ["--mode", "--verdicts", "--unit", "--on-error", "--bdd"])
def test_choices(option: str) -> None:
    done = mtlmon(option, "other", "-e", "p")
    assert done.status == 2
    assert done.errors.startswith(f"mtlmon: argument {option}: invalid choice: 'other'")
    assert done.errors.count("\n") == 1


def test_formulas(tmp_path: Path) -> None:
    done = mtlmon("-e", "p UNTIL[5,2] q")
    assert (done.status, done.output) == (2, "")
    assert done.errors.startswith("mtlmon: <formula>:1:")
    assert "^" in done.errors
    file = tmp_path / "bad.mtl"
    file.write_text("# a comment\np AND AND q\n")
    done = mtlmon(str(file))
    assert (done.status, done.output) == (2, "")
    assert done.errors.startswith(f"mtlmon: {file}:2:7: ")


def test_formula_files(tmp_path: Path) -> None:
    missing = tmp_path / "no.mtl"
    assert mtlmon(str(missing)) == (
        2, "", f"mtlmon: cannot read {missing}: No such file or directory\n",
    )  # fmt: skip
    assert mtlmon(str(tmp_path)) == (2, "", f"mtlmon: cannot read {tmp_path}: Is a directory\n")
    latin = tmp_path / "latin.mtl"
    latin.write_bytes("caf\u00e9 OR p".encode("latin-1"))
    ended = mtlmon(str(latin))
    assert (ended.status, ended.output) == (2, "")
    assert f"cannot read {latin}: not UTF-8 at byte 3; if it is Latin-1" in ended.errors


def test_logs(tmp_path: Path) -> None:
    missing = str(tmp_path / "no.log")
    assert mtlmon("-e", "p", missing) == (
        2, "", f"mtlmon: cannot read {missing}: No such file or directory\n",
    )  # fmt: skip
    done = mtlmon("-e", "p", str(tmp_path))
    assert (done.status, done.output) == (2, "")
    assert done.errors.startswith(f"mtlmon: {tmp_path}: no table in this directory, whose name")
    assert done.errors.endswith("; --format names the format of files with other names\n")
    assert mtlmon("-e", "p", "--format", "text", str(tmp_path)) == (
        2, "", f"mtlmon: cannot read {tmp_path}: Is a directory\n",
    )  # fmt: skip


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_unreadable_log(tmp_path: Path) -> None:
    log = tmp_path / "secret.log"
    log.touch(0)
    assert mtlmon("-e", "p", str(log)) == (2, "", f"mtlmon: cannot read {log}: Permission denied\n")


def test_output_files(tmp_path: Path) -> None:
    target = str(tmp_path / "no" / "verdicts")
    assert mtlmon("-e", "p", "-o", target) == (
        2, "", f"mtlmon: cannot write {target}: No such file or directory\n",
    )  # fmt: skip
    assert mtlmon("-e", "p", "-o", str(tmp_path)) == (
        2, "", f"mtlmon: cannot write {tmp_path}: Is a directory\n",
    )  # fmt: skip


def test_the_log_is_never_written(tmp_path: Path) -> None:
    log, link, formula = tmp_path / "x.log", tmp_path / "link", tmp_path / "f.mtl"
    log.write_text("@1 p\n" * 1000)
    formula.write_text("p")
    link.hardlink_to(log)
    for script in (
        '$M -e p -o "$1" "$1"',
        '$M -e p -o "$2" "$1"',
        '$M -e p -o "$1" < "$1"',
        '$M -e p "$1" >> "$1"',
    ):
        done = shell(script, str(log), str(link))
        assert (done.status, done.output) == (2, "")
        assert done.errors.endswith(" is both the log and the file for the verdicts\n")
        assert log.read_text() == "@1 p\n" * 1000
    done = mtlmon(str(formula), str(log), "-o", str(formula))
    assert done.status == 2
    assert done.errors.endswith(" is both the formula and the file for the verdicts\n")
    assert formula.read_text() == "p"


def test_full_disk() -> None:
    for target in ("> /dev/full", "-o /dev/full"):
        done = shell(f"printf '@1 p\\n' | $M -e p {target}")
        assert done.status == 2
        assert done.errors.startswith("mtlmon: cannot write ")
        assert done.errors.endswith(": No space left on device\n")
        assert done.errors.count("\n") == 1
    for option in ("--help", "--version", "--explain-formula -e p"):
        done = shell(f"$M {option} > /dev/full")
        assert done == (2, "", "mtlmon: cannot write standard output: No space left on device\n")


def test_closed_streams() -> None:
    assert shell("$M -e p <&-") == (2, "", "mtlmon: cannot read standard input: it is closed\n")
    assert shell("$M - x.log <&-") == (2, "", "mtlmon: cannot read standard input: it is closed\n")
    assert shell("printf '@1 p\n' | $M -e p >&-") == (
        2, "", "mtlmon: cannot write standard output: it is closed\n",
    )  # fmt: skip
    assert shell("printf '@1 p\nbad\n' | $M -e p 2>&-") == (2, "1:0 true\n", "")


def test_internal_faults() -> None:
    script = "import sys; from mtlmon.cli import command; command.parse_arguments = None; "
    end = "sys.exit(command.main(['-e', 'p']))"
    done = shell(f'${{M% -m mtlmon}} -c "{script}{end}"')
    assert (done.status, done.output) == (70, "")
    assert done.errors.startswith("mtlmon: internal fault, please report it with the formula: ")
    assert "TypeError" in done.errors
    assert done.errors.count("\n") == 1
    done = shell(f'MTLMON_TRACEBACK=1 ${{M% -m mtlmon}} -c "{script}{end}"')
    assert "Traceback" in done.errors
    assert done.status == 70


def test_formula_that_is_not_utf8() -> None:
    done = shell("$M -e $'caf\\xe9' x.log")
    assert done == (2, "", "mtlmon: the formula of -e is not UTF-8\n")


def test_earned_verdicts_come_before_errors_of_reading(tmp_path: Path) -> None:
    script = tmp_path / "failing_disk.py"
    script.write_text(
        """
import sys
from mtlmon.cli import command
from mtlmon.run import failure, files

blocks = [b"@1 p\\n@2", b" p\\n@3"]

def read_into(log, block):
    if not blocks:
        raise failure.RunError("cannot read x.log: Input/output error")
    block[: len(blocks[0])] = blocks[0]
    return len(blocks.pop(0))

files.LogFile.read_into = read_into
sys.exit(command.main(["-e", "p", __file__]))
"""
    )
    done = shell(f'${{M% -m mtlmon}} "{script}"')
    assert done == (
        2,
        "1:0 true\n2:0 true\n",
        "mtlmon: cannot read x.log: Input/output error\n",
    )


def test_a_log_of_another_format(tmp_path: Path) -> None:
    """The command says which option reads it; Python, which has no options, does not."""
    log = tmp_path / "events.log"
    for text, remedy in [
        ('{"ts": 1}\n', "this looks like JSON: add --format jsonl\n"),
        ("ts,user\n", "this looks like the header of a CSV file: add --format csv\n"),
        ("Nov 22 10:00:01 host x\n", "or into a table, see docs/recipes.md\n"),
    ]:
        log.write_text(text)
        done = mtlmon("-e", "p", str(log))
        assert (done.status, done.output) == (2, "")
        assert done.errors.startswith(f"mtlmon: {log}:1:1: expected '@' and a time-stamp, not '")
        assert done.errors.endswith(remedy)
