"""The beginning of a text log: the names in it, and whether all of it is UTF-8."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import LogError
from tests.doors import LogHead

ATOMS = ("é",)
LINES = st.lists(st.sampled_from(["@1 p", "@2 é \U0001f600", "", "@3 中"]), min_size=1, max_size=9)
CUTS = st.lists(st.integers(0, 80), max_size=5)
WRONG = [b"\xe9", b"\xff", b"\xc3(", b"\x80"]


def blocks_of(log: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    return [log[start:end] for start, end in pairwise(places)]


@given(LINES, CUTS, st.integers(0, 80))
def test_a_log_in_utf_8_is_kept(lines: list[str], cuts: list[int], done: int) -> None:
    log = "\n".join(lines).encode() + b"\n"
    head = LogHead("a.log", ATOMS)
    for block in blocks_of(log, cuts):
        head.add(block)
    assert head.kept() == (log, log.count(b"\n"))
    assert not head.is_full
    names = "".join(line.partition(" ")[2] + " " for line in lines).split()
    assert head.names() == list(dict.fromkeys(names))
    # or a part of it has been read before
    before, rest = log[: done % len(log)], log[done % len(log) :]
    head = LogHead("a.log", ATOMS)
    head.resume(before, before[-4:], before.count(b"\n"))
    head.add(rest)
    assert head.kept() == (log, log.count(b"\n"))


@given(LINES, st.sampled_from(WRONG), st.integers(0, 9), CUTS)
def test_a_line_that_is_not_utf_8(
    lines: list[str], wrong: bytes, place: int, cuts: list[int]
) -> None:
    place %= len(lines)
    texts = [line.encode() for line in lines]
    texts[place] += wrong
    blocks = blocks_of(b"\n".join(texts) + b"\n", cuts)
    head = LogHead("a.log", ATOMS)
    with pytest.raises(LogError, match=rf"^a\.log:{place + 1}:1: the line is not UTF-8") as caught:
        for block in blocks:
            head.add(block)
    assert caught.value.line == place + 1
    # names of ASCII letters are found whatever others there are
    head = LogHead("a.log", ("p",))
    for block in blocks:
        head.add(block)


def test_a_log_in_another_encoding() -> None:
    for atoms in (ATOMS, ("p",)):
        with pytest.raises(LogError, match="the log is UTF-16 instead of UTF-8"):
            LogHead(atoms=atoms).add("@1 p\n@2\n".encode("utf-16"))


def test_no_more_than_the_beginning_is_kept() -> None:
    line = b"@1 " + b"p" * 60 + b"\n"
    head = LogHead()
    for _ in range(1 << 11):
        head.add(line)
    assert head.is_full
    kept, _ = head.kept()
    assert len(kept) == 1 << 16
    assert head.names() == ["p" * 60]
