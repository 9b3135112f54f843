"""Snapshots of the loop from log lines to verdict lines, and of the resolver in it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import LogError, Monitor, MtlmonError, SnapshotError
from tests.doors import MAX_LINE_BYTES, Resolver, TextMonitor
from tests.strategies import formulas

HEAD = b"mtlmon text\x03"
DIGEST_END = len(HEAD) + 8
WINDOW = "ALWAYS[0,50] (p IMPLIES EVENTUALLY[0,90] r)"
OPTIONS: list[dict[str, Any]] = [
    {},
    {"resolve": True},
    {"verdicts": "first"},
    {"verdicts": "false"},
    {"skip_errors": True, "resolve": True},
    {"format": "jsonl", "label": b'{"policy":null,"time":'},
]


def make_log(source: random.Random, events: int, bad: float = 0.0) -> bytes:
    time_stamp = 0
    lines = []
    for _ in range(events):
        time_stamp += source.choice([0, 0, 0, 1, 3])
        atoms = [name for name, chance in (("p", 0.3), ("r", 0.02)) if source.random() < chance]
        lines.append(" ".join([f"@{time_stamp}", *atoms]))
        if source.random() < bad:
            lines.append("bad")
    return "\n".join(lines).encode() + b"\n"


class Run:
    """A text monitor that is fed in blocks and may go on in another."""

    def __init__(self, formula: Any, mode: Any = "local", **options: Any) -> None:
        self.make: Callable[[], TextMonitor] = lambda: TextMonitor(
            Monitor(formula, mode), **options
        )
        self.text = self.make()
        self.written = b""

    def feed(self, block: bytes) -> None:
        """Work on a block."""
        self.text.load(block)
        more = True
        while more:
            more = self.text.run()
            self.written += self.text.writer.take()

    def end(self) -> bytes:
        self.text.load_end()
        more = True
        while more:
            more = self.text.run()
            self.written += self.text.writer.take()
        return self.written

    def change_over(self) -> int:
        """Go on in a new text monitor; return where in the log."""
        while self.text.settle():
            self.written += self.text.writer.take()
        self.written += self.text.writer.take()
        before, self.text = self.text, self.make()
        self.text.restore(before.snapshot())
        assert self.text.scanner.absent == before.scanner.absent
        assert self.text.scanner.line_count == before.scanner.line_count
        assert self.text.scanner.skipped_count == before.scanner.skipped_count
        for count in "event_count", "true_count", "false_count", "peak_pending", "position":
            assert getattr(self.text, count) == getattr(before, count)
        return self.text.position


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("mode", ["local", "global", "naive"])
def test_going_on_anywhere(mode: Any, options: dict[str, Any]) -> None:
    source = random.Random(repr((mode, options)))
    log = make_log(source, 3000, 0.1 if options.get("skip_errors") else 0.0)
    whole = Run(WINDOW, mode, **options)
    whole.feed(log)
    expected = whole.end()
    run = Run(WINDOW, mode, **options)
    place = 0
    while place < len(log) and not run.text.is_stopped:
        size = source.choice([1, 5, 50, 5000])
        run.feed(log[place : place + size])
        place = run.change_over() if source.random() < 0.1 else place + size
    assert run.end() == expected


@given(formulas(), st.integers(0, 2**32), st.sampled_from(["local", "global", "naive"]))
def test_any_formula(formula: Any, seed: int, mode: Any) -> None:
    source = random.Random(seed)
    log = make_log(source, 30)
    for options in OPTIONS:
        whole = Run(formula, mode, **options)
        whole.feed(log)
        run = Run(formula, mode, **options)
        run.feed(log[: source.randrange(len(log) + 1)])
        run.feed(log[run.change_over() :])
        assert run.end() == whole.end()


def test_resolved_verdicts_do_not_depend_on_blocks() -> None:
    """Verdicts are resolved event by event, also when several events come at a time."""
    log = make_log(random.Random(3), 3000)
    one_by_one, at_once, plain = (
        Run(WINDOW, resolve=True),
        Run(WINDOW, resolve=True),
        Run(WINDOW, "naive"),
    )
    for line in log.splitlines(keepends=True):
        one_by_one.feed(line)
    at_once.feed(log)
    plain.feed(log)
    assert one_by_one.written == at_once.written == plain.written


def test_a_snapshot_covers_whole_lines() -> None:
    run = Run("p")
    run.feed(b"@1 p\n@2")
    assert run.text.position == 5
    run.feed(b" p\n\n@3")
    assert run.text.position == 11
    assert run.change_over() == 11
    run.feed(b"@3 p")
    assert run.end() == b"1:0 true\n2:0 true\n3:0 true\n"


def test_time_stamps_go_on_where_they_were() -> None:
    run = Run("p")
    run.feed(b"@0007 p\n")
    run.change_over()
    run.feed(b"@0007 p\n@8\n")
    assert run.written == b"7:0 true\n7:1 true\n8:0 false\n"
    run.change_over()
    with pytest.raises(LogError, match=r":5:2: time-stamp 7 is below the one before it, 8"):
        run.feed(b"@8\n@7\n")
    assert run.text.writer.take() == b"8:1 false\n"


def test_within_a_line_that_is_skipped_for_its_length() -> None:
    run = Run("p", skip_errors=True)
    run.feed(b"@1 p\n@2 ")
    for _ in range(5):
        run.feed(b"p" * (MAX_LINE_BYTES // 4))
    assert run.text.scanner.skipped_count == 1
    assert run.change_over() == 8 + 5 * (MAX_LINE_BYTES // 4)
    run.feed(b"p p\n@3 p\n")
    assert run.end() == b"1:0 true\n3:0 true\n"
    assert run.text.scanner.skipped_count == 1


def test_when_there_can_be_none() -> None:
    text = TextMonitor(Monitor("p"))
    text.load(b"@1 p\n@x\n")
    with pytest.raises(MtlmonError, match="not an integer"):
        text.run()
    assert not text.settle()
    assert not text.is_settled
    with pytest.raises(MtlmonError, match="settle first"):
        text.snapshot()
    ended = TextMonitor(Monitor("p"))
    ended.load_end()
    with pytest.raises(MtlmonError, match="settle first"):
        ended.snapshot()
    with pytest.raises(MtlmonError, match="before anything is loaded"):
        ended.restore(TextMonitor(Monitor("p")).snapshot())


def test_refusals() -> None:
    run = Run(WINDOW, resolve=True, skip_errors=True)
    run.feed(make_log(random.Random(1), 500, 0.1))
    good = run.text.snapshot()
    skips = {"skip_errors": True}
    cases: list[tuple[str, Any, dict[str, Any], str]] = [
        ("p", "local", {"resolve": True, **skips}, "another formula or mode"),
        (WINDOW, "global", {"resolve": True, **skips}, "another formula or mode"),
        (WINDOW, "local", skips, "another selection of verdicts"),
        (WINDOW, "local", {"verdicts": "false", "resolve": True}, "another selection"),
        (WINDOW, "local", {"resolve": True}, "were skipped"),
        (WINDOW, "local", {"resolve": True, "label": b"x\t", **skips}, "with another name"),
        (
            WINDOW,
            "local",
            {"resolve": True, "label": b'{"policy":null,"time":', "format": "jsonl", **skips},
            "in another format",
        ),
    ]
    for formula, mode, options, why in cases:
        other = Run(formula, mode, **options).text
        with pytest.raises(SnapshotError, match=why):
            other.restore(good)
    many = Run(" AND ".join(f"a{number}" for number in range(65)), resolve=True, **skips)
    with pytest.raises(SnapshotError, match="another formula"):
        many.text.restore(good)
    for bad, why in [
        (b"", "not a snapshot"),
        (b"something else, and longer than the head", "not a snapshot"),
        (good.replace(HEAD, HEAD[:-1] + b"\x07"), "version 7"),
        (good[:-1], "damaged"),
        (good[:40] + bytes([good[40] ^ 1]) + good[41:], "damaged"),
    ]:
        with pytest.raises(SnapshotError, match=why):
            run.make().restore(bad)
    with pytest.raises(TypeError):
        run.make().restore(40)  # type: ignore[arg-type]


def test_forged_snapshots_are_refused_or_harmless() -> None:
    source = random.Random(2)
    run = Run(WINDOW, resolve=True)
    run.feed(make_log(source, 400))
    body = run.text.snapshot()[DIGEST_END:]
    for _ in range(2000):
        forged = bytearray(body)
        for _ in range(source.randrange(1, 4)):
            forged[source.randrange(len(forged))] = source.randrange(256)
        del forged[source.choice([len(forged), source.randrange(len(forged))]) :]
        text = run.make()
        snapshot = HEAD + blake2b(forged, digest_size=8).digest() + forged
        with contextlib.suppress(SnapshotError, LogError):
            text.restore(snapshot)
            text.load(b"@9000 p\n")
            text.run()


@given(st.binary(max_size=60))
def test_any_bytes_for_a_resolver(data: bytes) -> None:
    resolver = Resolver()
    try:
        resolver.restore(data)
    except SnapshotError:
        return
    fresh = Resolver()
    fresh.restore(resolver.snapshot())
    assert fresh.open_count == resolver.open_count
