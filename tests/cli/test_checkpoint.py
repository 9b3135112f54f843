"""Checkpoints: when they are refused, what they carry over, and what signals do."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.kills import wait_for_checkpoint
from tests.cli.process import Ended, Live, mtlmon, shell, wait_until
from tests.doors import MAGIC, CheckpointFile, RunError
from tests.verdicts import json_line

FORMULA = "p IMPLIES EVENTUALLY[0,5] q"
LINES = [f"@{number // 3}{' p' if number % 7 == 0 else ''}\n" for number in range(6_000)]
LOG = "".join(LINES)


class Files:
    """The files of a run, and the command that uses them."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "log"
        self.output = directory / "output"
        self.checkpoint = directory / "checkpoint"
        self.log.write_text(LOG)

    def options(self, *options: str, formula: str = FORMULA, every: str = "500") -> list[str]:
        return [
            "-e", formula, "-o", str(self.output), "--resume", "--checkpoint-every", every,
            "--checkpoint", str(self.checkpoint), *options,
        ]  # fmt: skip

    def run(self, *options: str, formula: str = FORMULA) -> Ended:
        return mtlmon(*self.options(*options, formula=formula), str(self.log))

    def read(self) -> bytes:
        """The verdicts written so far."""
        return self.output.read_bytes() if self.output.exists() else b""


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def undisturbed(*options: str, log: str = LOG, formula: str = FORMULA) -> Ended:
    return mtlmon("-e", formula, *options, log=log)


# ---- usage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--checkpoint", "x"], "--checkpoint needs a file for the verdicts: add -o FILE"),
        (["--resume"], "--resume needs a checkpoint to go on from"),
        (["--checkpoint-every", "5"], "--checkpoint-every needs a checkpoint"),
        *(
            (["--checkpoint-every", text], f"'{text}' is neither a number of events")
            for text in ["0", "0.0s", ".5s", "1.5", "-1", "5m", "\u00b2", ""]
        ),
    ],
)
def test_usage(options: list[str], why: str) -> None:
    done = mtlmon("-e", "p", *options)
    assert done.status == 2
    assert why in done.errors


@pytest.mark.parametrize("every", ["1", "1000000", "0.5s"])
def test_intervals(files: Files, every: str) -> None:
    done = mtlmon(*files.options(every=every), str(files.log))
    assert (done.status, done.output) == (1, "")
    assert files.output.read_text() == undisturbed().output


# ---- refusals ----------------------------------------------------------------------------------


def test_what_is_refused_changes_nothing(files: Files) -> None:
    assert files.run("--resolve").status == 1
    files.log.write_text(LOG + "@9999 q\n")
    checkpoint = kept = files.checkpoint.read_bytes()
    files.output.write_bytes(files.output.read_bytes() + b"left by a killed run")

    def refused(why: str, *options: str, formula: str = FORMULA) -> None:
        before = files.output.read_bytes(), files.checkpoint.read_bytes()
        done = files.run(*options, formula=formula)
        assert (done.status, done.output) == (2, "")
        assert why in done.errors
        assert done.errors.startswith("mtlmon: ")
        assert done.errors.count("\n") == 1
        assert before == (files.output.read_bytes(), files.checkpoint.read_bytes())

    refused("another formula or mode", "--resolve", formula="p IMPLIES EVENTUALLY[0,6] q")
    refused("another formula or mode", "--resolve", "--mode", "global")
    refused("another selection of verdicts")
    refused("another selection of verdicts", "--resolve", "--verdicts", "false")

    files.log.write_text(LOG.replace("@1001 ", "@1001  ", 1))
    refused("differ from those that were read", "--resolve")
    files.log.write_text(LOG.replace("@7 p\n", "@7 r\n"))
    refused("differ from those that were read", "--resolve")
    files.log.write_text(LOG[:-1])
    refused("ends within the", "--resolve")
    files.log.write_text(LOG)

    # of several checkpoints the last one counts that is complete
    checkpoint = checkpoint[: first_end(checkpoint)]
    for damaged, why in [
        (b"", "not a checkpoint"),
        (b"a letter to a friend\n" * 10, "not a checkpoint"),
        (checkpoint[:18], "damaged"),
        (checkpoint[:100], "damaged"),
        (checkpoint[:-1], "damaged"),
        (checkpoint[:60] + bytes([checkpoint[60] ^ 4]) + checkpoint[61:], "damaged"),
        (checkpoint[:18] + b"\x09" + checkpoint[19:], "it has version 9"),
    ]:
        files.checkpoint.write_bytes(damaged)
        refused(why, "--resolve")
    files.checkpoint.write_bytes(kept)

    whole = files.output.read_bytes()
    files.output.write_bytes(whole[:100])
    refused("has only 100 of the", "--resolve")
    files.output.write_bytes(whole)
    assert files.run("--resolve").status == 1
    assert files.output.read_text() == undisturbed("--resolve").output


def first_end(checkpoints: bytes) -> int:
    """Where the first checkpoint of a file ends."""
    size = len(b"mtlmon checkpoint\n") + 1
    return size + 24 + int.from_bytes(checkpoints[size : size + 8], "big")


def test_a_checkpoint_that_was_not_written_to_its_end(files: Files) -> None:
    """The run goes on from the one before."""
    assert files.run().status == 1
    whole, output = files.checkpoint.read_bytes(), files.output.read_bytes()
    first = first_end(whole)
    assert len(whole) > 3 * first
    source = random.Random(7)
    for end in [first, first + 1, len(whole) - 1, *source.sample(range(first, len(whole)), 20)]:
        # a loss of power can leave zeros behind
        zeros = bytes(source.choice([0, len(whole) - end]))
        files.checkpoint.write_bytes(whole[:end] + zeros)
        files.output.write_bytes(output)
        assert files.run().status == 1
        assert files.output.read_bytes() == output


def test_a_checkpoint_that_is_removed_while_the_run_goes_on(files: Files) -> None:
    with Live(*files.options(every="1")) as live:
        live.send(LINES[0])
        wait_for_checkpoint(files.checkpoint, 0)
        files.checkpoint.unlink()
        live.send(LOG[len(LINES[0]) :])
        assert live.end().status == 1
    assert files.run().status == 1
    assert files.output.read_text() == undisturbed().output


def test_a_log_on_standard_input_is_compared_too(files: Files) -> None:
    assert files.run().status == 1
    done = mtlmon(*files.options(), log=LOG)
    assert (done.status, done.errors) == (1, undisturbed().errors)
    assert files.output.read_text() == undisturbed().output
    for log, why in [(LOG[:-5], "<stdin> ends within"), ("@0 q\n" + LOG[5:], "differ from those")]:
        done = mtlmon(*files.options(), log=log)
        assert done.status == 2
        assert why in done.errors


def test_files_of_another_use(files: Files, tmp_path: Path) -> None:
    policy = tmp_path / "policy"
    policy.write_text(FORMULA)
    link = tmp_path / "link"
    link.symlink_to(files.log)
    for path in files.log, link, files.output, policy:
        done = mtlmon(
            "-o", str(files.output), "--checkpoint", str(path), str(policy), str(files.log)
        )
        assert done.status == 2
        assert "cannot hold the checkpoint: this run uses it for something else" in done.errors
    assert files.log.read_text() == LOG
    assert policy.read_text() == FORMULA
    other = tmp_path / "other"
    other.write_text("of value")
    done = mtlmon("-e", "p", "-o", str(files.output), "--checkpoint", str(other), str(files.log))
    assert done.status == 2
    assert "not a checkpoint" in done.errors
    assert other.read_text() == "of value"
    done = mtlmon("-e", "p", "-o", "/dev/null", "--checkpoint", str(files.checkpoint), log=LOG)
    assert done.status == 2
    assert "is not a regular file, and --checkpoint" in done.errors


def test_files_that_are_not_regular(files: Files, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in pipe, tmp_path, Path("/dev/null"):
        done = mtlmon("-e", "p", "-o", str(files.output), "--checkpoint", str(path), log=LOG)
        assert (done.status, done.errors) == (
            2, f"mtlmon: {path} is not a regular file, as a checkpoint must be\n"
        )  # fmt: skip


def test_a_checkpoint_that_cannot_be_written(files: Files, tmp_path: Path) -> None:
    """That is known from the beginning, and nothing is lost."""
    path = tmp_path / "nowhere" / "checkpoint"
    files.output.write_text("of an earlier run")
    done = mtlmon("-e", "p", "-o", str(files.output), "--checkpoint", str(path), str(files.log))
    assert (done.status, done.errors) == (
        2, f"mtlmon: cannot write {path}: No such file or directory\n"
    )  # fmt: skip
    assert files.output.read_text() == "of an earlier run"


def test_a_disk_that_is_full(files: Files) -> None:
    """The verdicts are there, and the checkpoint before; when there is room again it goes on."""
    formula = "EVENTUALLY[0,5000] q"
    options = ["--resolve", "--on-error", "skip"]
    # shells count in 1024 bytes; open time-points make checkpoints larger than that
    limited = shell(
        'ulimit -f 1; $M "$@"', *files.options(*options, formula=formula), str(files.log)
    )
    assert limited.status == 2
    assert limited.errors == f"mtlmon: cannot write {files.checkpoint}: File too large\n"
    assert sorted(files.log.parent.iterdir()) == [files.checkpoint, files.log, files.output]
    expected = undisturbed(*options, formula=formula)
    assert files.run(*options, formula=formula).errors == expected.errors
    assert files.output.read_text() == expected.output


def test_a_directory_that_goes_away(files: Files, tmp_path: Path) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()
    files.checkpoint = directory / "checkpoint"
    with Live(*files.options()) as live:
        live.send(LINES[0])
        wait_for_checkpoint(files.checkpoint, 0)
        shutil.rmtree(directory)
        live.send(LOG[len(LINES[0]) :])
        done = live.end()
    assert done.status == 2
    assert done.errors == f"mtlmon: cannot write {files.checkpoint}: No such file or directory\n"
    whole, written = undisturbed().output, files.output.read_text()
    # what was decided before is written
    assert len(written) > 1000
    assert whole.startswith(written)


def test_two_processes_do_not_write_the_same_verdicts(files: Files) -> None:
    with Live(*files.options(every="1")) as live:
        live.send(LOG)
        wait_for_checkpoint(files.checkpoint)
        done = files.run()
        assert done.status == 2
        assert "another process is writing" in done.errors
        assert live.end().status == 1
    assert files.output.read_text() == undisturbed().output


def test_two_processes_do_not_use_the_same_checkpoint(files: Files, tmp_path: Path) -> None:
    """With outputs of their own they would otherwise overwrite each other's checkpoints."""
    with Live(*files.options(every="1")) as live:
        live.send(LOG)
        wait_for_checkpoint(files.checkpoint)
        for resume in ["--resume"], []:
            done = mtlmon(
                "-e", FORMULA, "-o", str(tmp_path / "other"), "--checkpoint",
                str(files.checkpoint), *resume, str(files.log),
            )  # fmt: skip
            assert (done.status, done.errors) == (
                2,
                f"mtlmon: another process is using {files.checkpoint}: give every run its own "
                "checkpoint\n",
            )
            assert not (tmp_path / "other").exists()
        assert live.end().status == 1
    assert files.output.read_text() == undisturbed().output
    assert files.run().status == 1


# ---- the output is that of the checkpoint ------------------------------------------------------


UNRELATED = "of another run\n" * 10_000


def test_an_output_of_something_else_is_refused(files: Files, tmp_path: Path) -> None:
    """A longer file that is not the output was cut to the output's length, with status 0."""
    assert files.run().status == 1
    written = files.output
    unrelated = tmp_path / "unrelated"
    unrelated.write_text(UNRELATED)
    same_beginning = tmp_path / "same"
    same_beginning.write_bytes(written.read_bytes() + b"7:0 true\n")
    for path, why in [
        (unrelated, f"bytes of {unrelated} are not the verdicts that were written"),
        (same_beginning, f"the verdicts were written to {written}, and {same_beginning} has 9"),
    ]:
        before, checkpoint = path.read_bytes(), files.checkpoint.read_bytes()
        files.output = path
        done = files.run()
        assert done.status == 2
        assert why in done.errors
        assert (path.read_bytes(), files.checkpoint.read_bytes()) == (before, checkpoint)


def test_an_output_is_refused_where_nothing_was_written_yet(files: Files, tmp_path: Path) -> None:
    """No bytes are the beginning of any file."""
    assert files.run("--verdicts", "false", formula="true").status == 0
    assert files.output.read_bytes() == b""
    files.output = tmp_path / "unrelated"
    files.output.write_text(UNRELATED)
    done = files.run("--verdicts", "false", formula="true")
    assert done.status == 2
    assert "150,000 bytes after the 0 that were written" in done.errors
    assert files.output.read_text() == UNRELATED


@pytest.mark.parametrize("place", [0, 1000, -2])
def test_text_that_was_changed_in_place_is_noticed(files: Files, place: int) -> None:
    assert files.run().status == 1
    changed = bytearray(files.output.read_bytes())
    changed[place] ^= 1
    files.output.write_bytes(changed)
    done = files.run()
    assert done.status == 2
    assert "are not the verdicts that were written" in done.errors
    assert files.output.read_bytes() == changed


def test_a_refused_run_leaves_no_new_file(files: Files, tmp_path: Path) -> None:
    assert files.run().status == 1
    files.output = tmp_path / "new"
    assert "has only 0 of the" in files.run().errors
    files.checkpoint = tmp_path / "text"
    files.checkpoint.write_text("a letter to a friend")
    assert "not a checkpoint" in files.run().errors
    files.checkpoint = files.log
    assert "cannot hold the checkpoint: this run uses it for something else" in files.run().errors
    assert not files.output.exists()


def test_an_output_that_was_moved_or_copied(files: Files, tmp_path: Path) -> None:
    """Where it is does not matter, as long as nothing but verdicts can be lost."""
    whole = undisturbed().output

    def goes_on() -> None:
        files.log.write_text(LOG)
        assert files.run().status == 1
        assert files.output.read_text() == whole

    files.log.write_text("".join(LINES[:3_000]))
    assert files.run().status == 1
    checkpoint = files.checkpoint.read_bytes()
    copy = tmp_path / "copy"
    shutil.copy(files.output, copy)
    # moved, with what no checkpoint counts on behind it
    moved = tmp_path / "moved"
    files.output.rename(moved)
    with moved.open("a") as output:
        output.write("7:0 tr")
    for files.output in moved, copy:
        files.checkpoint.write_bytes(checkpoint)
        goes_on()


# ---- what is carried over ----------------------------------------------------------------------


def test_without_resume_a_run_starts_afresh(files: Files) -> None:
    assert files.run(formula="q").status == 1
    options = [option for option in files.options(formula="true") if option != "--resume"]
    assert mtlmon(*options, str(files.log)).status == 0
    assert files.output.read_text() == undisturbed(formula="true").output


def test_a_policy_with_a_name(files: Files, tmp_path: Path) -> None:
    policy = tmp_path / "rules.mtl"
    policy.write_text(f"policy answered: {FORMULA}\n")
    options = files.options()[2:]
    files.log.write_text("".join(LINES[:3000]))
    mtlmon(str(policy), *options, str(files.log))
    files.log.write_text(LOG)
    done = mtlmon(str(policy), *options, str(files.log))
    assert done.status == 1
    lines = undisturbed().output.splitlines(keepends=True)
    assert files.read().decode() == "".join(f"answered\t{line}" for line in lines)
    policy.write_text(f"policy renamed: {FORMULA}\n")
    done = mtlmon(str(policy), *options, str(files.log))
    assert (done.status, "with another name" in done.errors) == (2, True)


@pytest.mark.parametrize("name", [None, 'an "answer"', "n" * 4000])
def test_json_lines(files: Files, tmp_path: Path, name: str | None) -> None:
    policy = tmp_path / "rules.mtl"
    quoted = "" if name is None else name.replace('"', '\\"')
    policy.write_text(FORMULA if name is None else f'policy "{quoted}": {FORMULA}\n')
    options = [str(policy), *files.options("--output-format", "jsonl")[2:], str(files.log)]
    files.log.write_text("".join(LINES[:3000]))
    assert mtlmon(*options).status == 1
    begun = files.read()
    files.log.write_text(LOG)
    assert mtlmon(*options).status == 1
    lines = [f"{json_line(line, name)}\n" for line in undisturbed().output.splitlines()]
    assert files.read().decode() == "".join(lines)
    assert 0 < len(begun) < len(files.read())
    assert files.read().startswith(begun)
    # to go on in another format is refused
    before = files.read(), files.checkpoint.read_bytes()
    done = mtlmon(*(option.replace("jsonl", "text") for option in options))
    assert (done.status, "verdicts in another format" in done.errors) == (2, True)
    assert (files.read(), files.checkpoint.read_bytes()) == before


def test_a_log_that_grows(files: Files) -> None:
    log = ""
    for start in range(0, len(LOG), 7_001):
        log = LOG[: start + 7_001]
        files.log.write_text(log)
        done = files.run("--end-time", "last")
        expected = mtlmon("-e", FORMULA, "--end-time", "last", str(files.log))
        assert files.output.read_text() == expected.output
        assert (done.status, done.errors) == (expected.status, expected.errors)
    assert log == LOG


def test_counts_and_atoms_and_skipped_lines(files: Files) -> None:
    log = "@0 q\nbad\n" + LOG
    options = ["--on-error", "skip", "--summary"]
    files.log.write_text(log)
    expected = undisturbed(*options, log=log)
    for _ in range(2):
        done = files.run(*options)
        assert done.status == expected.status == 1
        for wanted, line in zip(
            expected.errors.splitlines(), done.errors.splitlines(), strict=True
        ):
            assert wanted == line or line.startswith(("seconds", "peak memory"))
    assert "skipped 1 line" in done.errors
    assert "no event has" not in done.errors
    assert files.run("--on-error", "stop").status == 2


def test_a_bad_line_can_be_mended(files: Files) -> None:
    lines = LINES[:]
    lines[5_000] = "@1666 p,q\n"
    files.log.write_text("".join(lines))
    done = files.run()
    assert done.status == 2
    assert f"{files.log}:5001:8: " in done.errors
    # what came before the line is there, and a checkpoint before it
    expected = undisturbed(log="".join(lines[:5_000])).output
    assert files.output.read_text() == expected
    assert files.checkpoint.exists()
    assert files.run().errors == done.errors
    assert files.output.read_text() == expected
    files.log.write_text(LOG)
    assert files.run().status == 1
    assert files.output.read_text() == undisturbed().output
    # or be skipped from now on
    files.checkpoint.unlink()
    files.log.write_text("".join(lines))
    assert files.run().status == 2
    assert files.run("--on-error", "skip").status == 1
    lines[5_000] = ""
    assert files.output.read_text() == undisturbed(log="".join(lines)).output


def test_the_first_violation_stays_the_last_line(files: Files) -> None:
    for _ in range(2):
        done = files.run("--verdicts", "first")
        assert (done.status, files.output.read_text()) == (1, "0:0 false\n")


def test_explanations_are_of_the_whole_log(files: Files) -> None:
    expected = mtlmon("-e", FORMULA, "--explain", str(files.log), "-o", str(files.output))
    for _ in range(2):
        done = files.run("--explain")
        assert (done.status, done.errors) == (1, expected.errors)
    assert "0:0 violates" in expected.errors


# ---- signals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "is_line_open"), [(signal.SIGTERM, True), (signal.SIGINT, False)]
)
def test_signals_write_a_last_checkpoint(
    files: Files, number: signal.Signals, is_line_open: bool
) -> None:
    place = len("".join(LINES[:100])) + 4 * is_line_open
    with Live(*files.options(every="3600s")) as live:
        live.send(LOG[:place])
        # what is decided is written before the command waits for more
        wait_until(lambda: b"\n" in files.read(), live.process)
        live.process.send_signal(number)
        assert live.end().status == 128 + number
    assert files.checkpoint.exists()
    # the same bytes, without those that were not read yet
    copy = files.checkpoint.with_name("copy")
    shutil.copy(files.checkpoint, copy)
    for _ in range(2):
        done = mtlmon(*files.options(), log=LOG)
        assert (done.status, done.errors) == (1, undisturbed().errors)
        assert files.output.read_text() == undisturbed().output
        shutil.copy(copy, files.checkpoint)
    files.log.write_text("@0 r\n" + LOG[5:])
    assert files.run().status == 2


def test_time_passes_while_the_log_does_not(files: Files) -> None:
    """A checkpoint comes in time also when nothing else does."""
    with Live(*files.options(every="0.01s")) as live:
        live.send("@1 p\n@100\n")
        wait_for_checkpoint(files.checkpoint)
        live.process.kill()
    done = mtlmon(*files.options(), log="@1 p\n@100\n@101\n")
    assert done.status == 1
    assert files.output.read_text() == "1:0 false\n100:0 true\n101:0 true\n"


def test_a_log_that_is_not_ready_at_once(files: Files) -> None:
    """While what was read before comes, there is no checkpoint to be made."""
    for every in "500", "0.01s":
        files.checkpoint.unlink(missing_ok=True)
        assert files.run().status == 1
        with Live(*files.options(every=every)) as live:
            for start in range(0, len(LOG), len(LOG) // 3):
                live.send(LOG[start : start + len(LOG) // 3])
                live.wait_until_read()
                # time must pass, more than the interval, in which no checkpoint may come
                time.sleep(0.03)
            assert live.end() == (1, "", undisturbed().errors)
        assert files.output.read_text() == undisturbed().output


def test_what_a_killed_process_leaves_behind(files: Files) -> None:
    """A checkpoint half written, and verdicts that no checkpoint counts on."""
    half = files.checkpoint.with_name(f".checkpoint.{'0' * 16}.tmp")
    half.write_bytes(b"mtlmon check")
    files.output.write_text("never\n")
    assert files.run().status == 1
    assert files.output.read_text() == undisturbed().output
    with files.output.open("a") as output:
        output.write("7:0 tr")
    assert files.run().status == 1
    assert files.output.read_text() == undisturbed().output
    assert not half.exists()


def test_files_of_others_beside_the_checkpoint(files: Files) -> None:
    """A new checkpoint is written beside the one before, under a name that nobody else has."""
    others = [
        files.checkpoint.with_name(name)
        for name in (
            "checkpoint.new",
            "checkpoint.tmp",
            ".checkpoint.tmp",
            ".checkpoint.0123456789abcdef.tmp.bak",
            # a name as ours, but not what we write
            ".checkpoint.0123456789abcdef.tmp",
        )
    ]
    for other in others:
        other.write_text("of value")
    for _ in range(2):
        assert files.run().status == 1
    assert all(other.read_text() == "of value" for other in others)
    assert sorted(files.log.parent.iterdir()) == sorted(
        [*others, files.log, files.output, files.checkpoint]
    )


@pytest.mark.parametrize("policy", ["NOT p OR EVENTUALLY[1,5] p", "count[0,5](p) < 3"])
@pytest.mark.parametrize("form", ["text", "csv"])
def test_several_commands_in_one_process(
    command: Callable[..., Ended], tmp_path: Path, policy: str, form: str
) -> None:
    """A run unlocks its files at its end, also if that is an error."""
    log, output, checkpoint = (tmp_path / name for name in ("log", "output", "checkpoint"))
    good, bad = ("@1 p\n@9\n", "@x\n") if form == "text" else ("ts,p\n1,true\n9,\n", "x,true\n")
    arguments = [
        "--format", form, "-e", policy, "-o", output, "--checkpoint", checkpoint, "--resume", log
    ]  # fmt: skip
    gc.disable()
    try:
        for _ in range(2):
            log.write_text(good + bad)
            done = command(*arguments)
            assert done.status == 2
            assert "'x'" in done.errors or "@x" in done.errors
            log.write_text(good)
            done = command(*arguments)
            assert done.status in (0, 1)
            assert "another process" not in done.errors
            # what cannot be a checkpoint
            log.write_text("")
            assert command(*arguments).status == 2
        for option in ("--checkpoint", "-o"):
            refused = [*arguments]
            refused[refused.index(option) + 1] = log
            assert command(*refused).status == 2
        assert command(*arguments[:-2], log).status in (0, 1)
        assert output.exists()
    finally:
        gc.enable()


def test_a_file_that_is_replaced_before_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is locked in the end is the file of that name."""
    path, other = tmp_path / "checkpoint", tmp_path / "other"
    for file in path, other:
        file.write_bytes(MAGIC)
    claim = CheckpointFile.claim

    def replaced(self: CheckpointFile, descriptor: int) -> None:
        # another process gives the file of its own checkpoint the name
        if other.exists():
            other.rename(path)
        claim(self, descriptor)

    monkeypatch.setattr(CheckpointFile, "claim", replaced)
    found = CheckpointFile(str(path))
    found.lock()
    assert found.descriptor is not None
    assert os.path.samestat(os.fstat(found.descriptor), path.stat())
    with pytest.raises(RunError, match="another process is using"):
        CheckpointFile(str(path)).lock()
    found.close()
