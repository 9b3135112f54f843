"""The loop from log lines to verdict lines: filters, ends, blocks, numbers as they are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtlmon import LogError, Monitor, MtlmonError, SnapshotError
from tests.doors import TextEvents, TextMonitor, TextResolver, Writer

LARGEST = (1 << 63) - 1
UNTIL = "p UNTIL[0,5] q"
LOG = b"@1 p\n@1 p\n@1\n@2 p\n@3 q\n@4 p\n@4 p\n@5\n@11\n@12 p\n"


def run(text: TextMonitor) -> None:
    """Process all that is loaded; a call may end earlier, after some time, too."""
    while text.run():
        pass


def monitored(
    formula: str,
    log: bytes,
    *,
    mode: Any = "local",
    block: int = 1 << 20,
    end_time: Any = None,
    **options: Any,
) -> list[str]:
    text = TextMonitor(Monitor(formula, mode), **options)
    written = b""

    def work() -> None:
        nonlocal written
        more = True
        while more:
            more = text.run()
            written += text.writer.take()

    for start in range(0, len(log), block):
        text.load(log[start : start + block])
        work()
    text.load_end()
    work()
    text.end(end_time)
    work()
    return written.decode().splitlines()


def test_filters() -> None:
    every = monitored(UNTIL, LOG)
    assert every == [
        "1:1 = 1:0", "1:0 false", "1:2 false", "2:0 true", "3:0 true",
        "4:1 = 4:0", "4:0 false", "5:0 false", "11:0 false",
    ]  # fmt: skip
    assert monitored(UNTIL, LOG, verdicts="boolean") == [line for line in every if "=" not in line]
    assert monitored(UNTIL, LOG, verdicts="false") == [line for line in every if "false" in line]
    assert monitored(UNTIL, LOG, verdicts="none") == []
    assert monitored(UNTIL, LOG, verdicts="first") == ["1:0 false"]


def test_resolving() -> None:
    resolved = monitored(UNTIL, LOG, mode="global", resolve=True)
    assert resolved == monitored(UNTIL, LOG, mode="naive")
    for mode in "local", "global":
        for verdicts, wanted in ("boolean", resolved), ("none", []):
            assert monitored(UNTIL, LOG, mode=mode, verdicts=verdicts, resolve=True) == wanted
    assert monitored(UNTIL, LOG, verdicts="false", resolve=True) == [
        line for line in resolved if "false" in line
    ]
    assert monitored(UNTIL, LOG, verdicts="first", resolve=True) == ["1:0 false"]


@pytest.mark.parametrize("options", [{}, {"resolve": True}, {"verdicts": "first"}])
def test_block_sizes_change_nothing(options: dict[str, Any]) -> None:
    whole = monitored(UNTIL, LOG, **options)
    for block in range(1, 30):
        assert monitored(UNTIL, LOG, block=block, **options) == whole


def state(text: TextMonitor) -> tuple[bool, object]:
    return text.is_stopped, text.open_first


def test_first_waits_for_what_is_open_before_it() -> None:
    log = b"@1\n@1 bad\n@2\n"
    formula = "NOT bad AND EVENTUALLY[0,5] q"
    text = TextMonitor(Monitor(formula), verdicts="first")
    text.load(log)
    run(text)
    assert state(text) == (False, ((1, 1), (1, 0)))
    text.load(b"@3 q\n@4 bad\n")
    run(text)
    assert state(text) == (True, None)
    assert text.writer.take() == b"1:1 false\n"
    # what follows is not read
    assert text.event_count == 4


def test_first_finds_an_earlier_violation_later() -> None:
    log = b"@1\n@1 bad\n@2\n@9\n"
    assert monitored("NOT bad AND EVENTUALLY[0,5] q", log, verdicts="first") == ["1:0 false"]


@pytest.mark.parametrize(
    ("end_time", "lines"),
    [
        (None, []),
        (9, []),
        (14, []),
        ("last", []),
        (15, ["10:0 false"]),
        (16, ["10:0 false", "11:0 false"]),
        (LARGEST, ["10:0 false", "11:0 false"]),
        ("inf", ["10:0 false", "11:0 false"]),
    ],
)
def test_end_times(end_time: int | str | None, lines: list[str]) -> None:
    assert monitored("EVENTUALLY[0,5] q", b"@10\n@11", end_time=end_time) == lines


def test_last_time_stamp_as_end() -> None:
    assert monitored("EVENTUALLY[0,0] q", b"@10\n", end_time="last") == ["10:0 false"]
    assert monitored("EVENTUALLY[0,0] q", b"", end_time="last") == []


def test_resolved_output_of_many_events_at_once() -> None:
    count = 300_000
    log = b"@1\n" * count + b"@2 q\n"
    lines = monitored("EVENTUALLY[0,5] q", log, resolve=True)
    assert lines == [*(f"1:{offset} true" for offset in range(count)), "2:0 true"]


NUMBERS = [0, 9, 10, 99, 100, 999, 1000, 9999, 10**4, 12345, 10**7, 10**8 - 1, 10**8,
           123456789, 10**12, 10**15 + 1, 10**16 - 1, 10**16, 10**17, LARGEST]  # fmt: skip


def test_numbers() -> None:
    log = "".join(f"@{number} p\n" for number in NUMBERS).encode()
    assert monitored("p", log) == [f"{number}:0 true" for number in NUMBERS]


def test_offsets() -> None:
    count = 12_000
    assert monitored("p", b"@7\n" * count) == [f"7:{offset} false" for offset in range(count)]


def test_equivalences_across_time_stamps() -> None:
    log = "".join(f"@{number}\n" for number in NUMBERS).encode()
    lines = monitored("EVENTUALLY q", log, mode="global")
    assert lines == [f"{number}:0 = 0:0" for number in NUMBERS[1:]]


def test_what_was_earned_before_a_bad_line_is_there() -> None:
    text = TextMonitor(Monitor("p"), path="a.log")
    text.load(b"@1 p\n@2\n@x\n@3\n")
    with pytest.raises(LogError, match=r"^a.log:3:2: "):
        run(text)
    text.unload()
    assert text.writer.take() == b"1:0 true\n2:0 false\n"


@pytest.mark.parametrize("keeps_block", [False, True])
def test_nothing_is_read_after_a_bad_line(keeps_block: bool) -> None:
    """The error stays as it was, even where the block of its line is gone and written over."""
    text = TextMonitor(Monitor("p"))
    events = TextEvents(("p",))
    blocks = [b"@1 p\n%s\n" % (b"bad " * 12) for _ in range(2)]
    text.load(blocks[0])
    events.load(blocks[1])
    if not keeps_block:
        del blocks
    with pytest.raises(LogError) as first:
        run(text)
    assert text.writer.take() == b"1:0 true\n"
    assert len(events.read()[0]) == 8
    for end in (False, True):
        for reader in (text, events):
            if end:
                reader.load_end()
            else:
                reader.load(b"@2 p\n")
        overwriting = [bytes(size) for size in range(100) for _ in range(3)]
        for read in (text.run, events.read):
            with pytest.raises(LogError) as again:
                read()
            assert str(again.value) == str(first.value)
        assert text.writer.take() == b""
        del overwriting


@pytest.mark.parametrize(
    "make", [lambda: TextMonitor(Monitor("p")), lambda: TextEvents(("p",)), TextResolver]
)
@pytest.mark.parametrize("end", ["load_end", "load", "gone"])
def test_a_block_stays_as_it_is_until_it_has_been_read(make: Callable[[], Any], end: str) -> None:
    reader = make()
    block = bytearray(b"@1 p\n")
    reader.load(block)
    with pytest.raises(BufferError):
        block.clear()
    if end == "gone":
        del reader
    elif end == "load":
        reader.load(b"")
    else:
        reader.load_end()
    block.clear()


@pytest.mark.parametrize("resolve", [False, True])
def test_counts(resolve: bool) -> None:
    text = TextMonitor(Monitor(UNTIL), resolve=resolve)
    for line in LOG.splitlines(keepends=True):
        text.load(line)
        run(text)
        decided = text.true_count + text.false_count
        assert text.undecided_count == text.event_count - decided
    assert (text.event_count, text.undecided_count) == (10, 1)


def test_events_are_read_on_from_a_snapshot() -> None:
    first, second = TextEvents(("p", "q")), TextEvents(("p", "q"))
    first.load(b"@1 p\n@2 q\n")
    assert len(first.read()[0]) == 16
    second.restore(first.snapshot())
    found = []
    for reader in (first, second):
        reader.load(b"@3 p q\n@4\n")
        found.append(reader.read())
    assert found[0] == found[1]
    assert len(found[0][0]) == 16
    with pytest.raises(SnapshotError):
        TextEvents(tuple(map(str, range(65)))).restore(first.snapshot())


def test_run_returns_when_output_waits() -> None:
    text = TextMonitor(Monitor("p"))
    text.load(b"@1\n" * 100_000)
    assert text.run()
    assert 1 << 18 <= len(text.writer) < 1 << 19


def test_flush_writes_to_a_file(tmp_path: Path) -> None:
    text = TextMonitor(Monitor("p"))
    text.load(b"@1\n" * 50)
    run(text)
    assert len(text.writer) > 0
    with (tmp_path / "out").open("wb") as file:
        text.writer.flush(file.fileno())
        text.writer.flush(file.fileno())
    assert len(text.writer) == 0
    assert (tmp_path / "out").read_text().splitlines() == [f"1:{k} false" for k in range(50)]
    with pytest.raises(OSError, match="Bad file descriptor"):
        flush_to_nowhere(text)


def flush_to_nowhere(text: TextMonitor) -> None:
    text.load(b"@1\n")
    run(text)
    text.writer.flush(-1)


def test_empty_writer() -> None:
    writer = Writer()
    assert (len(writer), writer.take()) == (0, b"")


# ---- events that are scanned ahead ---------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 10_000, 1 << 18])
@pytest.mark.parametrize("block", [3, 1000, 1 << 20])
def test_events_are_scanned_ahead(block: int, size: int) -> None:
    """They come from two batches in turn, of one block at least; then from the text again."""
    log = b"".join(b"@%d %b\n" % (k // 3, b"p q"[k % 2 : k % 5]) for k in range(1200)) + b"@999 p"
    text = TextMonitor(Monitor(UNTIL))
    batches = [text.new_batch(size), text.new_batch(size)]
    held = 0
    written = b""
    turn = 0

    def work() -> None:
        nonlocal written
        while text.run():
            written += text.writer.take()
        written += text.writer.take()

    half = log.index(b"\n@200")
    for start in range(0, half, block):
        text.load_ahead(log[start : min(start + block, half)])
        more = True
        while more:
            more = text.scan_ahead(batches[turn])
            text.take(batches[turn])
            work()
            held = max(held, text.memory.peak)
            turn = 1 - turn
    del batches
    text.load(log[half:])
    work()
    text.load_end()
    work()
    text.end("last")
    work()
    assert written.decode().splitlines() == monitored(UNTIL, log, end_time="last")
    assert held >= 2 * size


def test_a_batch_is_used_up_before_the_next_one() -> None:
    text = TextMonitor(Monitor("p"), verdicts="first")
    first, second = text.new_batch(1), text.new_batch(1)
    text.load_ahead(b"@1 p\n@2\n@3\n@4\n")
    assert not text.scan_ahead(first)
    text.take(first)
    run(text)
    assert text.is_stopped
    with pytest.raises(MtlmonError, match="events are left in the last batch: run first"):
        text.take(second)
    del first, second
    assert not text.settle()
    assert text.position == 14
    text.unload()
    assert text.event_count == 2


def test_an_error_ahead() -> None:
    text = TextMonitor(Monitor("p"), path="log")
    batch = text.new_batch(1)
    text.load_ahead(b"@1 p\n@2\n@1\n@3\n")
    assert not text.scan_ahead(batch)
    assert text.scanner.failure is not None
    text.take(batch)
    with pytest.raises(LogError, match="log:3:2: time-stamp 1 is below the one before it, 2"):
        run(text)
    assert text.writer.take() == b"1:0 true\n2:0 false\n"
    assert not text.is_settled
