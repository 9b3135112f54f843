"""A second thread that scans a long log changes nothing that the command writes."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mtlmon import LimitError, LogError, Monitor
from tests.cli.kills import check_killed_runs, without_speed
from tests.cli.process import COMMAND, Live, environment, mtlmon, shell, wait_until
from tests.doors import (
    ALONE_BYTES,
    WORTH_BYTES,
    CheckpointedText,
    MonitoredText,
    TextMonitor,
    open_log,
)

FORMULAS = {
    "f0": "p",
    "f1": "EVENTUALLY[0,5] p",
    "f2": "p UNTIL[0,5] q",
    "f3": "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "f4a": "ONCE[0,10] p",
    "f4b": "p SINCE[2,8] q",
    "f5": "ALWAYS[0,4] (p IMPLIES ONCE[0,7] q)",
    "n1": "ALWAYS[0,60] (p IMPLIES EVENTUALLY[0,6] q)",
    "unbounded": "p IMPLIES EVENTUALLY q",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "all": {},
    "false": {"verdicts": "false"},
    "first": {"verdicts": "first"},
    "none": {"verdicts": "none"},
    "resolve": {"resolve": True},
    "jsonl": {"format": "jsonl", "label": b'{"policy":"x","time":'},
}
# violated for the first time when a second thread is scanning a long log
LATE = "NOT ONCE[60000,*] p"
BAD_LINES = (b"nothing\n", b"@0\n", b"@9 p,q\n", b"@\n")
EVENTS_OF_A_BLOCK = 256
BLOCK_SIZE = EVENTS_OF_A_BLOCK * 16

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc how many threads run")


def some_lines(count: int, rate: int, seed: int = 0) -> list[bytes]:
    source = random.Random(seed)
    atoms = [b"", b" p", b" q", b" p q", b" other", b" (p)\t q"]
    return [b"@%d%b\n" % (100 + k // rate, source.choice(atoms)) for k in range(count)]


class Run:
    """A text log that is monitored to its end, or to an error.

    Args:
        log: the file.
        scans_from: the number of bytes after which a second thread scans, or None.
        block: the number of bytes that are read at once.
        batch: the number of blocks of 256 events that are handed over at once.
    """

    def __init__(
        self,
        log: Path,
        formula: str,
        scans_from: int | None,
        block: int = 1 << 18,
        batch: int = 1,
        mode: Any = "local",
        **options: Any,
    ) -> None:
        self.monitor = TextMonitor(Monitor(formula, mode), path="log", **options)
        self.text = b""
        self.error = ""
        work = MonitoredText(self.monitor, open_log(str(log)), 1 if scans_from is None else 2)
        work.alone_bytes = scans_from or 0
        work.worth_bytes = 0
        work.block_bytes = block
        work.batch_bytes = batch * BLOCK_SIZE
        try:
            for _ in work.read():
                self.text += self.monitor.writer.take()
            if not work.is_stopped:
                for _ in work.end("last"):
                    self.text += self.monitor.writer.take()
        except (LogError, LimitError) as error:
            self.error = str(error)
        finally:
            self.text += self.monitor.writer.take()
            work.close()
            work.log.close()
        assert work.is_stopped or (work.scanner is not None) == (scans_from is not None)
        self.counts = (
            self.monitor.event_count,
            self.monitor.true_count,
            self.monitor.false_count,
            self.monitor.peak_pending,
            self.monitor.skipped_count,
            self.monitor.open_first,
            (work.head.names(), self.monitor.scanner.absent) if work.is_complete else (),
        )

    def emitted(self) -> tuple[Any, ...]:
        return self.text, self.error, self.counts


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that is long enough for a second thread."""
    path = tmp_path_factory.mktemp("scanning") / "long.log"
    source = random.Random(3)
    atoms = ["", " p", " q", " p q"]
    size = time_stamp = 0
    with path.open("w") as file:
        while size < ALONE_BYTES + 2 * WORTH_BYTES:
            time_stamp += source.random() < 0.3
            size += file.write(f"@{time_stamp}{source.choice(atoms)}\n")
    return path


# ---- the same verdicts ---------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", FORMULAS)
def test_same_lines_and_counts(name: str, options: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for rate, mode in (1, "local"), (40, "local"), (3, "global"):
        log.write_bytes(b"".join(some_lines(1500, rate)).rstrip(b"\n"))
        expected = Run(log, FORMULAS[name], None, mode=mode, **OPTIONS[options])
        for scans_from, block, batch in (0, 1 << 18, 1), (1, 3000, 3), (4000, 999, 64), (0, 7, 2):
            run = Run(log, FORMULAS[name], scans_from, block, batch, mode, **OPTIONS[options])
            assert run.emitted() == expected.emitted()


@pytest.mark.parametrize("atoms", [70, 9000])
def test_letters_of_several_words(atoms: int, tmp_path: Path) -> None:
    names = [f"a{k}" for k in range(atoms)]
    source = random.Random(1)
    log = tmp_path / "log"
    lines = [f"@{k} {' '.join(source.sample(names, 3))}\n" for k in range(900)]
    log.write_text("".join(lines))
    formula = " OR ".join(names)
    expected = Run(log, formula, None)
    assert Run(log, formula, 0, 5000, 2).emitted() == expected.emitted()


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("bad", BAD_LINES)
def test_errors_anywhere(bad: bytes, skips: bool, tmp_path: Path) -> None:
    """Whatever is handed over at once, the verdicts before a bad line are written."""
    lines = some_lines(3 * EVENTS_OF_A_BLOCK, 2)
    log = tmp_path / "log"
    edges = [k * EVENTS_OF_A_BLOCK + d for k in range(4) for d in (-1, 0, 1)]
    for place in [*edges[2:-1], 100, 700]:
        log.write_bytes(b"".join([*lines[:place], bad, *lines[place:]]))
        expected = Run(log, FORMULAS["f2"], None, skip_errors=skips)
        assert (expected.error == "") == skips
        for block, batch in (1 << 18, 1), (1 << 18, 2), (500, 1), (5, 1):
            run = Run(log, FORMULAS["f2"], 0, block, batch, skip_errors=skips)
            assert run.emitted() == expected.emitted()


def test_a_bad_last_line(tmp_path: Path) -> None:
    """It has no line feed, so the first thread reads it."""
    log = tmp_path / "log"
    log.write_bytes(b"".join(some_lines(300, 2)) + b"nothing")
    expected = Run(log, "p", None)
    assert expected.error.startswith("log:301:1: ")
    assert Run(log, "p", 0, 64).emitted() == expected.emitted()


@pytest.mark.parametrize("text", [b"", b"\n\n# nothing\n", b"@1 p", b"@1 p\n"])
def test_almost_no_log(text: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(text)
    assert Run(log, "p", 0).emitted() == Run(log, "p", None).emitted()


def test_long_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"@1 p\n@2 " + b"x" * 3_000_000 + b" p\n@3" + b" q" * 70_000 + b"\n@4 p\n")
    assert Run(log, "p", 0).emitted() == Run(log, "p", None).emitted()


def test_the_first_violation_ends_the_reading(long_log: Path) -> None:
    options = ["--verdicts", "first", "--summary", "-e"]
    for formula in "p", LATE:
        one = mtlmon("--threads", "1", *options, formula, str(long_log))
        two = mtlmon("--threads", "2", *options, formula, str(long_log))
        assert one.status == two.status
        assert one.output == two.output != ""
        assert without_speed(one.errors) == without_speed(two.errors)


@pytest.mark.parametrize("name", FORMULAS)
def test_the_command_writes_the_same(name: str, long_log: Path) -> None:
    options = ["--summary", "--end-time", "last", "-e", FORMULAS[name]]
    one = mtlmon("--threads", "1", *options, str(long_log))
    two = mtlmon("--threads", "2", *options, str(long_log))
    assert one.status == two.status
    assert one.output == two.output
    assert without_speed(one.errors) == without_speed(two.errors)
    script = '$M --threads 2 --end-time last -e "$1" < "$2"'
    redirected = shell(script, FORMULAS[name], str(long_log))
    assert redirected.output == one.output


# ---- snapshots -----------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("resolve", [False, True])
def test_snapshots_while_a_thread_scans_ahead(resolve: bool, batch: int, tmp_path: Path) -> None:
    """A snapshot covers what was monitored, however much more was scanned."""
    lines = some_lines(2500, 7)
    lines[900:900] = [b"nothing\n"] * 3
    text = b"".join(lines)
    log = tmp_path / "log"
    log.write_bytes(text)

    def make() -> TextMonitor:
        return TextMonitor(Monitor(FORMULAS["f3"]), resolve=resolve, skip_errors=True)

    expected = Run(log, FORMULAS["f3"], None, resolve=resolve, skip_errors=True)
    monitor = make()
    work = CheckpointedText(monitor, open_log(str(log)), 2)
    work.alone_bytes = work.worth_bytes = 0
    work.block_bytes, work.batch_bytes = 2000, batch * BLOCK_SIZE
    written = b""
    snapshots = 0
    for _ in work.read():
        while monitor.settle():
            written += monitor.writer.take()
        written += monitor.writer.take()
        assert monitor.is_settled
        before, snapshot, position = written, monitor.snapshot(), monitor.position
        assert text[:position].endswith(b"\n")
        assert work.log_mark().edges == edges_of(text[:position])
        snapshots += 1
        other = make()
        other.restore(snapshot)
        assert other.position == position
        assert other.skipped_count == monitor.skipped_count
        other.load(text[position:])
        for action in (lambda: None), other.load_end, (lambda other=other: other.end("last")):
            action()
            while other.run():
                before += other.writer.take()
            before += other.writer.take()
        assert before == expected.text
        assert other.skipped_count == 3
    work.close()
    work.log.close()
    assert snapshots > 5


def edges_of(text: bytes) -> tuple[int, str, str]:
    """The edges of a text whose two ends are one."""
    from hashlib import blake2b

    from tests.doors import DIGEST_BYTES

    head, tail = (blake2b(part, digest_size=DIGEST_BYTES).hexdigest() for part in (text, b""))
    return len(text), head, tail


@pytest.mark.parametrize("bad", [0, 1000])
def test_killed_runs(bad: int, long_log: Path, tmp_path: Path) -> None:
    source = random.Random(bad)
    log, output = tmp_path / "log", tmp_path / "output"
    lines = long_log.read_bytes().splitlines(keepends=True)
    if bad:
        for place in range(500, len(lines), bad):
            lines[place] = b"@ nothing\n"
    log.write_bytes(b"".join(lines))
    arguments = ["--on-error", "skip", "--summary", "-o", str(output), "-e", FORMULAS["f3"]]
    check_killed_runs(
        arguments,
        log,
        output,
        source,
        every="20000",
        kills=4,
        can_pipe=False,
        undisturbed=("--threads", "1"),
        killed=("--threads", "2"),
    )


# ---- ends ----------------------------------------------------------------------------------------


def thread_count(process: subprocess.Popen[bytes]) -> int:
    return len(os.listdir(f"/proc/{process.pid}/task"))


def wait_for_threads(process: subprocess.Popen[bytes], count: int) -> None:
    wait_until(lambda: thread_count(process) == count, process)


@linux_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(number: signal.Signals, long_log: Path) -> None:
    """The reader of the verdicts takes nothing until the signal has come."""
    options = ["--verdicts", "false", "-e", LATE, str(long_log)]
    every = mtlmon("--threads", "1", *options).output
    with Live("--threads", "2", *options) as live:
        first = live.read_line()
        wait_for_threads(live.process, 2)
        live.wait_until_blocked()
        live.process.send_signal(number)
        done = live.end()
    assert done.status in (128 + number, -number)
    assert done.errors == ""
    written = f"{first}\n{done.output}"
    assert every.startswith(written)
    assert written.endswith("\n")
    assert len(written) < len(every)


@linux_only
def test_a_signal_writes_a_checkpoint(long_log: Path, tmp_path: Path) -> None:
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    formula = ["-e", "(ONCE[0,9] p) EQUIV EVENTUALLY[0,9] q", "--mode", "global"]
    mtlmon(*formula, "--threads", "1", "-o", str(output), str(long_log))
    verdicts = output.read_bytes()
    output.unlink()
    options = [*formula, "--threads", "2", "-o", str(output), "--checkpoint", str(checkpoint)]
    with Live(*options, str(long_log)) as live:
        wait_for_threads(live.process, 2)
        live.process.send_signal(signal.SIGTERM)
        done = live.end()
    assert done.status in (128 + signal.SIGTERM, -signal.SIGTERM)
    written = output.read_bytes()
    assert verdicts.startswith(written)
    assert 0 < len(written) < len(verdicts)
    assert mtlmon(*options, "--resume", str(long_log)).status == 1
    assert output.read_bytes() == verdicts


def test_a_closed_pipe(long_log: Path) -> None:
    done = shell('$M --threads 2 -e p "$1" | head -n 1; echo ${PIPESTATUS[0]}', str(long_log))
    first, status = done.output.splitlines()
    assert first.endswith(("true", "false"))
    assert status == "141"
    assert done.errors == ""


def test_a_full_disk(long_log: Path) -> None:
    done = shell('$M --threads 2 -e p -o /dev/full "$1"', str(long_log))
    assert done.status == 2
    assert done.errors == "mtlmon: cannot write /dev/full: No space left on device\n"


def test_a_limit_on_memory(long_log: Path) -> None:
    """Verdicts are not lost; a second thread is asked for, although its batches take memory."""
    formula = ["--mode", "naive", "-e", "q OR EVENTUALLY[1000000,2000000] p"]
    limited = mtlmon("--threads", "2", *formula, "--max-memory", "20M", str(long_log))
    assert limited.status == 2
    assert limited.errors.startswith("mtlmon: the memory limit of 20 MiB is exceeded: ")
    every = mtlmon("--threads", "1", *formula, str(long_log)).output
    assert every.startswith(limited.output)
    assert limited.output.endswith("\n")
    assert len(every) > len(limited.output) > ALONE_BYTES
    assert mtlmon("--max-memory", "1M", "-e", "p", str(long_log)).status == 1


@linux_only
def test_no_room_for_a_thread(long_log: Path) -> None:
    """The stack of a thread does not fit into the address space; one thread does the work."""
    room = 1 << 31

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (room, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_AS, (room, room))

    done = subprocess.run(
        [*COMMAND, "--threads", "2", "-e", "p", str(long_log)],
        capture_output=True,
        check=False,
        env=environment(),
        preexec_fn=limit,
    )
    assert done.stderr == b""
    assert done.stdout.decode() == mtlmon("--threads", "1", "-e", "p", str(long_log)).output


@linux_only
def test_a_pipe_is_scanned_by_one_thread(long_log: Path) -> None:
    with Live("--threads", "2", "-e", "p") as live:
        text = long_log.read_text()
        assert live.process.stdin is not None
        taken = 0
        for start in range(0, len(text), 1 << 16):
            live.send(text[start : start + (1 << 16)])
            while (line := live.read_line(0.05)) is not None:
                taken += 1
                if not line:
                    break
            assert thread_count(live.process) == 1
            if taken > 1_000:
                break


@linux_only
def test_no_processor_is_idle(long_log: Path) -> None:
    """The only processor, or all of them, are at work."""
    script = "import os; from mtlmon.support.processors import *; print({})"
    first = min(os.sched_getaffinity(0))

    def emitted(what: str, setting: str = "") -> str:
        text = f"{setting}{script.format(what)}"
        return subprocess.run(
            [sys.executable, "-c", text], capture_output=True, check=True, env=environment()
        ).stdout.decode()

    alone = f"import os; os.sched_setaffinity(0, {{{first}}}); "
    assert emitted("processor_count()", alone) == "1\n"
    assert emitted("has_idle_processor()", alone) == "False\n"
    assert emitted("processor_count()") == f"{len(os.sched_getaffinity(0))}\n"
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * (os.cpu_count() or 1))
    ]
    try:
        wait_until(lambda: emitted("has_idle_processor()") == "False\n")
        done = mtlmon("--threads", "1", "-e", "p", str(long_log))
        assert mtlmon("-e", "p", str(long_log)) == done
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_how_many_threads() -> None:
    for text in "0", "-1", "two", "":
        ended = mtlmon("-e", "p", f"--threads={text}")
        assert ended.status == 2
        assert f"argument --threads: '{text}' is not an integer from 1 on" in ended.errors
