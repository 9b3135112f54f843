"""Checkpoints of runs over tables and several policies: refusals, signals, live logs."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.kills import wait_for_checkpoint
from tests.cli.process import Ended, Live, mtlmon, wait_until
from tests.doors import CheckpointFile

POLICIES = """\
policy a: p IMPLIES EVENTUALLY[0,5] q
policy b: q IMPLIES ONCE[0,90] p
"""
HEADER = "ts,user,host,e\n"
ROWS = [
    f"{number // 3},u{number % 11},h{number % 2},{'p' if number % 7 == 0 else 'q' * (number % 2)}\n"
    for number in range(6_000)
]
LOG = HEADER + "".join(ROWS)


class Files:
    """The files of a run, and the command that uses them."""

    def __init__(self, directory: Path) -> None:
        self.policies = directory / "rules.mtl"
        self.log = directory / "log.csv"
        self.output = directory / "output"
        self.checkpoint = directory / "checkpoint"
        self.policies.write_text(POLICIES)
        self.log.write_text(LOG)

    def options(self, *options: str, every: str = "500", key: str = "user") -> list[str]:
        return [
            "--event", "e", "--key", key, "-o", str(self.output), "--resume",
            "--checkpoint-every", every, "--checkpoint", str(self.checkpoint), *options,
            str(self.policies),
        ]  # fmt: skip

    def run(self, *options: str, key: str = "user") -> Ended:
        return mtlmon(*self.options(*options, key=key), str(self.log))

    def live(self, every: str, *options: str) -> Live:
        return Live(*self.options("--format", "csv", *options, every=every))

    def undisturbed(self, *options: str, log: str = LOG) -> Ended:
        asked = ["--event", "e", "--key", "user", "--format", "csv", *options, str(self.policies)]
        return mtlmon(*asked, log=log)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.mark.parametrize("every", ["1", "1000000", "0.5s"])
def test_intervals(files: Files, every: str) -> None:
    done = mtlmon(*files.options(every=every), str(files.log))
    assert (done.status, done.output) == (1, "")
    assert files.output.read_text() == files.undisturbed().output


def test_what_is_refused_changes_nothing(files: Files) -> None:
    assert files.run("--output-format", "csv").status == 1
    files.log.write_text(f"{LOG}9999,u1,h0,q\n")
    checkpoint = files.checkpoint.read_bytes()
    files.output.write_bytes(files.output.read_bytes() + b"left by a killed run")

    def refused(why: str, *options: str, key: str = "user", format: str = "csv") -> None:
        before = files.output.read_bytes(), files.checkpoint.read_bytes()
        done = files.run(*options, "--output-format", format, key=key)
        assert (done.status, done.output) == (2, "")
        assert why in done.errors
        assert done.errors.startswith("mtlmon: cannot resume from ")
        assert done.errors.count("\n") == 1
        assert before == (files.output.read_bytes(), files.checkpoint.read_bytes())

    refused("the snapshot is of other policies or another mode", "--mode", "global")
    refused("the snapshot is of another selection of verdicts", "--resolve")
    refused("the snapshot is of another selection of verdicts", "--verdicts", "false")
    refused("of another period after which all keys advance", "--advance-every", "7")
    refused("made with other keys", key="host")
    refused("made with other keys", key="user,host")
    refused("made with another --output-format", format="text")
    refused("made without --explain", "--explain")
    for text in (
        POLICIES.replace("[0,5]", "[0,6]"),
        POLICIES.replace("policy a", "policy c"),
        POLICIES.splitlines()[0],
    ):
        files.policies.write_text(text)
        refused("the snapshot is of other policies or another mode")
    files.policies.write_text(POLICIES)

    for changed in (
        LOG[: -len(ROWS[-1])] + ROWS[-1].replace("1999,", "2000,"),
        LOG.replace(",u4,", ",u14,", 1),
        LOG.replace(",h0,p\n", ",h0,q\n", 1),
        HEADER + "".join([*ROWS[:9], *ROWS[10:], ROWS[-1]]),
    ):
        files.log.write_text(changed)
        refused(f"the first 6,000 events of {files.log} differ from those that were read")
    files.log.write_text(HEADER + "".join(ROWS[:-1]))
    refused(f"{files.log} ends within the 6,000 events already read")
    files.log.write_text(LOG)

    damaged = bytearray(checkpoint)
    # in the first checkpoint of the file
    damaged[100] ^= 1
    files.checkpoint.write_bytes(damaged)
    refused("the checkpoint is damaged")
    files.checkpoint.write_bytes(checkpoint)
    assert files.run("--output-format", "csv").status == 1
    assert files.output.read_text() == files.undisturbed("--output-format", "csv").output


def test_a_table_and_a_text_log_are_not_mixed_up(files: Files, tmp_path: Path) -> None:
    text = tmp_path / "log"
    text.write_text("@0 p\n")
    options = ["-o", str(files.output), "--resume", "--checkpoint", str(files.checkpoint)]
    assert mtlmon(*options, "-e", "q", str(text)).status == 1
    before = files.output.read_bytes(), files.checkpoint.read_bytes()
    done = mtlmon(*options, "-e", "q", "--event", "e", str(files.log))
    assert "it was made by a run over a text log with a single policy" in done.errors
    done = mtlmon(*options, str(files.policies), str(text))
    assert "it was made by a run over a text log with a single policy" in done.errors
    assert before == (files.output.read_bytes(), files.checkpoint.read_bytes())
    files.checkpoint.unlink()
    assert mtlmon(*options, "-e", "q", "--event", "e", str(files.log)).status == 1
    done = mtlmon(*options, "-e", "q", str(text))
    assert (done.status, "not a snapshot of a text monitor" in done.errors) == (2, True)
    done = mtlmon(*options, str(files.policies), str(text))
    assert (done.status, "it was made from tables" in done.errors) == (2, True)


def test_a_log_of_several_files(files: Files, tmp_path: Path) -> None:
    """Files that come later continue the log."""
    expected = files.undisturbed("--resolve").output
    options = [*files.options("--resolve"), str(tmp_path / "part-*.csv")]
    for number in range(6):
        part = tmp_path / f"part-{number}.csv"
        # the last line of a file need not have a line feed
        part.write_text((HEADER + "".join(ROWS[number * 1000 : (number + 1) * 1000])).rstrip("\n"))
        assert mtlmon(*options).status == 1
    assert files.output.read_text() == expected
    (tmp_path / "part-0.csv").write_text(HEADER)
    done = mtlmon(*options)
    assert done.status == 2
    assert "the 6 logs ends within the" in done.errors or "of the 6 logs differ" in done.errors


def test_a_log_that_grows(files: Files) -> None:
    for start in range(0, len(LOG), 9_001):
        files.log.write_text(LOG[: start + 9_001])
        done = files.run("--end-time", "last", "--on-error", "skip")
        expected = files.undisturbed(
            "--end-time", "last", "--on-error", "skip", log=files.log.read_text()
        )
        assert files.output.read_text() == expected.output
        assert done.status == expected.status


def test_counts_and_skipped_rows(files: Files) -> None:
    log = HEADER + "".join([*ROWS[:40], "yesterday,u1,h1,p\n", *ROWS[40:]])
    files.log.write_text(log)
    options = ["--on-error", "skip", "--summary"]
    expected = files.undisturbed(*options, log=log)
    # with checkpoints, a summary alone is no reason to count how often left sides hold
    counts, _, triggered = expected.errors.partition("\n\na: ")
    assert "triggered" in triggered
    for _ in range(2):
        done = files.run(*options)
        assert done.status == expected.status == 1
        wanted = counts.replace("<stdin>", str(files.log)).splitlines()
        for one, other in zip(wanted, done.errors.splitlines(), strict=True):
            assert one == other or other.startswith(("seconds", "peak memory", "keys"))
    assert "skipped 1 row" in done.errors
    done = files.run()
    assert (done.status, "yesterday" in done.errors) == (2, True)


def test_a_bad_row_can_be_mended(files: Files) -> None:
    rows = ROWS[:]
    rows[5_000] = "yesterday,u1,h1,p\n"
    files.log.write_text(HEADER + "".join(rows))
    done = files.run()
    assert (done.status, f"{files.log}:5002: " in done.errors) == (2, True)
    earned = files.output.read_text()
    assert earned == files.undisturbed(log=HEADER + "".join(rows)).output
    assert files.run().errors == done.errors
    assert files.output.read_text() == earned
    files.log.write_text(LOG)
    assert files.run().status == 1
    assert files.output.read_text() == files.undisturbed().output


def test_the_first_violation_stays_the_last_line(files: Files) -> None:
    expected = files.undisturbed("--verdicts", "first", "--summary")
    for _ in range(2):
        done = files.run("--verdicts", "first", "--summary")
        assert (done.status, files.output.read_text()) == (1, expected.output)
        assert done.errors.splitlines()[-2:] == expected.errors.splitlines()[-2:]


def test_explanations_are_of_the_whole_log(files: Files) -> None:
    expected = mtlmon(
        "--event", "e", "--key", "user", "--explain", "-o", "/dev/null", str(files.policies),
        str(files.log),
    )  # fmt: skip
    files.log.write_text(HEADER + "".join(ROWS[:3_000]))
    assert files.run("--explain").status == 1
    files.log.write_text(LOG)
    for _ in range(2):
        done = files.run("--explain")
        assert (done.status, done.errors) == (1, expected.errors)
    assert "explained 10 violations; there are more" in expected.errors


# ---- signals and live logs -----------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_signals_write_a_last_checkpoint(files: Files, number: signal.Signals, format: str) -> None:
    lines = LOG.splitlines(keepends=True)
    if format == "jsonl":
        names = HEADER.strip().split(",")
        lines = [
            json.dumps({**dict(zip(names, row.strip().split(","), strict=True)), "ts": place})
            + "\n"
            for place, row in enumerate(ROWS)
        ]
    options = files.options("--format", format, every="3600s")
    with Live(*options) as live:
        live.send("".join(lines[:100]) + lines[100][:5])
        wait_until(lambda: files.output.exists() and files.output.read_bytes(), live.process)
        live.process.send_signal(number)
        assert live.end().status == 128 + number
    found = CheckpointFile(str(files.checkpoint)).read()
    assert found is not None
    assert found.verdicts.size == len(files.output.read_bytes()) > 0
    done = mtlmon(*options, log="".join(lines))
    assert done.status == 1
    assert (
        files.output.read_text() == files.undisturbed("--format", format, log="".join(lines)).output
    )


def test_time_passes_while_the_log_does_not(files: Files) -> None:
    """A checkpoint comes in time also when nothing else does."""
    log = HEADER + "1,a,h,p\n100,a,h,q\n"
    with files.live("0.01s") as live:
        live.send(log)
        wait_for_checkpoint(files.checkpoint)
        live.process.kill()
    log += "101,b,h,p\n"
    done = mtlmon(*files.options("--format", "csv"), log=log)
    assert done.status == 1
    assert files.output.read_text() == files.undisturbed(log=log).output


def test_a_log_that_is_not_ready_at_once(files: Files) -> None:
    """While what was read before comes, there is no checkpoint to be made."""
    for every in "500", "0.01s":
        files.checkpoint.unlink(missing_ok=True)
        assert files.run().status == 1
        with files.live(every) as live:
            for start in range(0, len(LOG), len(LOG) // 3):
                live.send(LOG[start : start + len(LOG) // 3])
                live.wait_until_read()
                # time must pass, more than the interval, in which no checkpoint may come
                time.sleep(0.03)
            assert live.end() == (1, "", files.undisturbed().errors)
        assert files.output.read_text() == files.undisturbed().output


def test_two_processes_do_not_use_the_same_files(files: Files) -> None:
    with files.live("1") as live:
        live.send(LOG)
        wait_for_checkpoint(files.checkpoint)
        done = files.run()
        assert (done.status, "another process is writing" in done.errors) == (2, True)
        assert live.end().status == 1
    assert files.output.read_text() == files.undisturbed().output
