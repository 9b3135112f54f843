"""Lines in the order of time, compared with its definition."""

from __future__ import annotations

import json
import random
import struct
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doors import LineOrder
from tests.reference.late import judged_and_refused, judged_and_refused_quickly


def taken(order: LineOrder, size: int = 1 << 16) -> bytes:
    """Take all released lines, in blocks of a size."""
    block = bytearray(size)
    found = b""
    while count := order.take_into(block):
        found += block[:count]
    return found


def ordered(text: bytes, wait: int | None, sizes: list[int]) -> LineOrder:
    """Push a text in blocks of these sizes, again and again, and end the log."""
    order = LineOrder(wait)
    place = turn = 0
    while place < len(text):
        size = sizes[turn % len(sizes)]
        order.push(text[place : place + size])
        place += size
        turn += 1
    order.finish()
    return order


STAMPS = st.one_of(
    st.lists(st.integers(0, 12), max_size=40),
    st.lists(st.integers(95, 105), max_size=40),
    st.lists(st.sampled_from([0, 7, 99999999, 100000000, 2**63 - 1]), max_size=12),
)
SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=4)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), max_size=30),
    st.none() | st.integers(0, 9),
    SIZES,
    st.integers(1, 40),
)
def test_lines_of_a_time_point_stay_together(
    points: list[tuple[int, int]], wait: int | None, sizes: list[int], out: int
) -> None:
    texts = [
        (stamp, b"@%d p%d\n" % (stamp, number) + b"".join(b" q%d\n" % one for one in range(more)))
        for number, (stamp, more) in enumerate(points)
    ]
    judged, refused = judged_and_refused(texts, wait)
    order = LineOrder(wait, joins_lines=True)
    # comments and empty lines are left out
    text = b"# begin\n" + b"".join(text.replace(b"\n q", b"\n\n#c\n q") for _, text in texts)
    found, place, turn = b"", 0, 0
    while place < len(text):
        size = sizes[turn % len(sizes)]
        order.push(text[place : place + size])
        found += taken(order, out)
        place += size
        turn += 1
    order.finish()
    found += taken(order, out)
    assert found == b"".join(one for _, one in judged)
    assert order.take_refused() == b"".join(one for _, one in refused)
    # the number of each line of the log
    lines = text.split(b"\n")
    for number, line in enumerate(found.splitlines(), 1):
        assert lines[order.line_of(number) - 1] == line


@given(STAMPS, st.none() | st.integers(0, 9), SIZES, st.integers(1, 40), st.booleans())
def test_released_lines_are_a_stable_sort_of_those_that_are_not_late(
    stamps: list[int], wait: int | None, sizes: list[int], out: int, has_end: bool
) -> None:
    lines = [b"@%d line%d" % (stamp, number) for number, stamp in enumerate(stamps)]
    text = b"".join(line + b"\n" for line in lines)
    judged, refused = judged_and_refused(list(zip(stamps, lines, strict=True)), wait)
    order = LineOrder(wait)
    found, late = b"", b""
    place = turn = 0
    text = text if has_end else text[:-1]
    while place < len(text):
        size = sizes[turn % len(sizes)]
        order.push(text[place : place + size])
        late += order.take_refused()
        found += taken(order, out)
        place += size
        turn += 1
    before_end = found
    order.finish()
    late += order.take_refused()
    found += taken(order, out)
    assert found == b"".join(line + b"\n" for _, line in judged)
    assert late == b"".join(line + b"\n" for _, line in refused)
    assert order.refused_count == len(refused)
    # As much is released before the end as can be.
    complete = stamps if has_end else stamps[:-1]
    latest = max(complete, default=0)
    frontier = 0 if wait is None else max(0, latest - wait)
    released = [line for stamp, line in judged if stamp <= frontier]
    if not has_end and lines and lines[-1] in released:
        released.remove(lines[-1])
    assert before_end == b"".join(line + b"\n" for line in released)


@given(
    # lines, and to what time time passes before them
    st.lists(st.tuples(st.none() | st.integers(0, 12), st.lists(st.integers(0, 12))), max_size=6),
    st.none() | st.integers(0, 9),
    SIZES,
)
def test_time_passes_while_nothing_comes(
    groups: list[tuple[int | None, list[int]]], wait: int | None, sizes: list[int]
) -> None:
    rows = [
        (stamp, b"@%d line%d.%d\n" % (stamp, number, place))
        for number, (_, stamps) in enumerate(groups)
        for place, stamp in enumerate(stamps)
    ]
    times = list(accumulate((time or 0 for time, _ in groups), max))
    passed = [time for time, (_, stamps) in zip(times, groups, strict=True) for _ in stamps]
    judged, refused = judged_and_refused(rows, wait, passed)
    order = LineOrder(wait)
    found, come, turn = b"", 0, 0
    for frontier, (time, stamps) in zip(times, groups, strict=True):
        if time is not None:
            order.pass_time(time)
            found += taken(order)
        text = b"".join(line for _, line in rows[come : come + len(stamps)])
        come += len(stamps)
        while text:
            size = sizes[turn % len(sizes)]
            order.push(text[:size])
            text, turn = text[size:], turn + 1
            if turn % 2:
                found += taken(order)
        found += taken(order)
        latest = max((stamp for stamp, _ in rows[:come]), default=0)
        until = max(frontier, 0 if wait is None else latest - wait)
        known = {line for _, line in rows[:come]}
        ready = [line for stamp, line in judged if stamp <= until and line in known]
        assert found == b"".join(ready)
        assert not order.is_ready
    order.finish()
    assert found + taken(order) == b"".join(line for _, line in judged)
    assert order.take_refused() == b"".join(line for _, line in refused)


@given(
    # lines, and to what time time passes before them
    st.lists(st.tuples(st.none() | st.integers(0, 12), st.lists(st.integers(0, 12))), max_size=6),
    st.none() | st.integers(0, 9),
    SIZES,
)
def test_time_passes_again_as_it_has_before(
    groups: list[tuple[int | None, list[int]]], wait: int | None, sizes: list[int]
) -> None:
    """An order that reads all lines again releases and refuses the same ones, and goes on so."""
    order = LineOrder(wait)
    text, found, late = b"", b"", b""
    for number, (time, stamps) in enumerate(groups):
        if time is not None:
            order.pass_time(time)
        lines = b"".join(
            b"@%d line%d.%d\n" % (one, number, place) for place, one in enumerate(stamps)
        )
        order.push(lines)
        text += lines
        found += taken(order)
        late += order.take_refused()
        passed = order.passed_time()
        order = LineOrder(wait)
        if passed is not None:
            order.pass_again(*passed)
        place = turn = 0
        while place < len(text):
            size = sizes[turn % len(sizes)]
            order.push(text[place : place + size])
            place, turn = place + size, turn + 1
        assert taken(order) == found
        assert order.take_refused() == late
        assert order.passed_time() == passed


@given(STAMPS, st.integers(0, 9), SIZES)
def test_lines_have_their_numbers_in_the_log(
    stamps: list[int], wait: int, sizes: list[int]
) -> None:
    numbered = []
    text = b""
    number = 0
    for stamp in stamps:
        if stamp % 3 == 0:
            text += b"# a comment\n\n"
            number += 2
        number += 1
        text += b"@%d x\n" % stamp
        numbered.append((stamp, number))
    judged, _ = judged_and_refused(numbered, wait)
    order = ordered(text, wait, sizes)
    taken(order)
    wanted = [number for _, number in judged]
    assert [order.line_of(place) for place in range(1, len(judged) + 1)] == wanted
    packed = struct.pack(f"={len(judged)}Q", *range(1, len(judged) + 1))
    assert order.lines_of(packed) == struct.pack(f"={len(judged)}Q", *wanted)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"\xef\xbb\xbf@5 a\n@4 b\n", b"@4 b\n@5 a\n"),
        (b" \t@5 a\r\n\t@4 b\r\n\r\n # x\n", b"\t@4 b\r\n \t@5 a\r\n"),
        (b"@5 a\noops\n@4 b\n@6 c", b"@4 b\n@5 a\noops\n@6 c\n"),
        (b"@5 a\n@7x b\n@4 c\n", b"@4 c\n@5 a\n@7x b\n"),
        (b"@5 a\n@9223372036854775808 b\n@4 c\n", b"@4 c\n@5 a\n@9223372036854775808 b\n"),
        (b"@005 a\n@4 b\n@0005 c\n", b"@4 b\n@005 a\n@0005 c\n"),
        (b"@5 a\n@4;\n", b"@4;\n@5 a\n"),
        (b"@\n@4", b"@\n@4\n"),
        (b"", b""),
        (b"\n", b""),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_unusual_lines(text: bytes, wanted: bytes, size: int) -> None:
    assert taken(ordered(text, None, [size])) == wanted


def test_time_that_passes_releases_lines_and_refuses_those_below() -> None:
    order = LineOrder(10)
    order.push(b"@5 a\n@8 b\n@9 c\n")
    ready = [order.is_ready]
    order.pass_time(8)
    assert [*ready, order.is_ready] == [False, True]
    assert taken(order) == b"@5 a\n@8 b\n"
    order.push(b"@7 d\n@8 e\nbad\n")
    assert order.take_refused() == b"@7 d\n"
    assert taken(order) == b"@8 e\n"
    order.pass_time(30)
    order.push(b"@9 f\n@30 g\n@29 h\n")
    assert taken(order) == b"@9 c\nbad\n@30 g\n"
    assert order.take_refused() == b"@9 f\n@29 h\n"
    assert order.refused_count == 3


def long_lines(*stamps: bytes) -> list[bytes]:
    """Lines that are long enough for several to be looked at together."""
    return [b"@%s %s\n" % (stamp, b"x" * 40) for stamp in stamps]


@pytest.mark.parametrize("size", [20, 1000])
def test_what_looks_like_the_time_before_it(size: int) -> None:
    lines = long_lines(b"100", b"200x", b"150", b"120", b"2000", b"160")
    wanted = [lines[place] for place in (0, 1, 3, 2, 5, 4)]
    assert taken(ordered(b"".join(lines), None, [size])) == b"".join(wanted)


@pytest.mark.parametrize("size", [20, 1000])
def test_long_lines_come_too_late_once_time_has_passed(size: int) -> None:
    before, *lines = long_lines(b"100", b"140", b"149", b"150", b"150", b"160", b"149", b"160")
    order = LineOrder(None)
    order.push(before)
    order.pass_time(150)
    order.pass_time(120)
    text = b"".join(lines)
    for place in range(0, len(text), size):
        order.push(text[place : place + size])
    assert taken(order) == before + 2 * lines[2]
    assert order.take_refused() == b"".join(lines[place] for place in (0, 1, 5))
    assert (order.refused_count, order.refused_line) == (3, 2)
    waiting = [order.has_lines]
    order.finish()
    assert taken(order) == 2 * lines[4]
    assert [*waiting, order.has_lines] == [True, False]
    assert order.take_refused() == b""


def test_numbers_are_known_of_the_last_lines() -> None:
    # pairs of lines that change places, so that each line has a number of its own
    count = 700_000
    order = LineOrder(1)
    block = bytearray(1 << 16)
    found = 0
    for first in range(0, count, 20_000):
        pairs = range(first, first + 20_000, 2)
        order.push(b"".join(b"@%d\n@%d\n" % (one + 1, one) for one in pairs))
        while size := order.take_into(block):
            found += block[:size].count(b"\n")
    assert order.refused_count == 0
    for released in range(found - 200_000, found, 997):
        # both count from 1
        assert order.line_of(released) == released + (1 if released % 2 else -1)
    assert order.held_bytes < 1 << 25


@pytest.mark.parametrize("wait", [3, 300])
@pytest.mark.parametrize("seed", range(3))
def test_lines_come_while_others_are_taken_in_pieces(wait: int, seed: int) -> None:
    source = random.Random(seed)
    rows = []
    for number in range(6_000):
        stamp = max(0, number // 2 - source.choice([0, 0, 1, 2]))
        rows.append((stamp, b"@%d %d %s\n" % (stamp, number, b"x" * source.randrange(90))))
    judged, refused = judged_and_refused_quickly(rows, wait)
    order = LineOrder(wait)
    found: list[bytes | bytearray] = []
    late = []
    for first in range(0, len(rows), 50):
        order.push(b"".join(line for _, line in rows[first : first + 50]))
        late.append(order.take_refused())
        for _ in range(50):
            piece = bytearray(source.randrange(1, 120))
            found.append(piece[: order.take_into(piece)])
    order.finish()
    found.append(taken(order))
    assert b"".join(found) == b"".join(line for _, line in judged)
    assert b"".join(late) == b"".join(line for _, line in refused)


def test_memory_is_that_of_lines_that_wait() -> None:
    order = LineOrder(10)
    block = bytearray(1 << 16)
    lines = 0
    for start in range(0, 200_000, 100):
        order.push(
            b"".join(b"@%d %s\n" % (start + k - 7 * (k % 3 == 0), b"x" * 50) for k in range(100))
        )
        while count := order.take_into(block):
            lines += block[:count].count(b"\n")
    order.finish()
    while count := order.take_into(block):
        lines += block[:count].count(b"\n")
    assert lines + order.refused_count == 200_000
    assert order.held_bytes < 1 << 23


def test_a_line_of_any_length_is_cut() -> None:
    from tests.doors import MAX_LINE_BYTES

    order = LineOrder(None)
    order.push(b"@1 a\n@2 ")
    piece = b"x" * (1 << 24)
    for _ in range(6):
        order.push(piece)
    order.push(b"yyy\n@0 b\n")
    order.finish()
    # It can still be seen that the line is too long.
    text = taken(order, 1 << 24)
    assert text[:10] == b"@0 b\n@1 a\n"
    assert MAX_LINE_BYTES < len(text) - 10 < MAX_LINE_BYTES + (1 << 25)


@given(
    STAMPS,
    st.none() | st.integers(0, 9),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.integers(0, 12),
    st.booleans(),
)
def test_another_order_goes_on(
    stamps: list[int], wait: int | None, counts: list[int], passed: int, joins: bool
) -> None:
    """After every few lines, an order goes on with what the one before it knew."""
    lines = [b"@%d line%d\n" % (stamp, number) for number, stamp in enumerate(stamps)]
    whole, order = (LineOrder(wait, joins_lines=joins) for _ in range(2))
    found, late, place, turn = [b"", b""], [b"", b""], 0, 0

    def take() -> None:
        first = found[0].count(b"\n") + 1
        for number, one in enumerate((whole, order)):
            found[number] += taken(one)
            late[number] += one.take_refused()
        for released in range(first, found[0].count(b"\n") + 1):
            assert order.line_of(released) == whole.line_of(released)

    while place < len(lines):
        count = counts[turn % len(counts)]
        if turn == 1:
            whole.pass_time(passed)
            order.pass_time(passed)
        for one in (whole, order):
            one.push(b"".join(lines[place : place + count]))
        take()
        place, turn = place + count, turn + 1
        before, order = order, LineOrder(wait, joins_lines=joins)
        *known, text = before.parts()
        facts, runs = json.loads(json.dumps(known))
        order.restore(facts, runs, text)
        # lines may be together now
        assert order.parts()[::2] == before.parts()[::2]
        assert order.has_lines == before.has_lines
        assert order.passed_time() == before.passed_time()
    whole.finish()
    order.finish()
    take()
    assert found[0] == found[1]
    assert late[0] == late[1]
    assert order.refused_count == whole.refused_count
    assert order.refused_line == whole.refused_line


def test_lines_that_are_not_taken_are_no_part() -> None:
    order = LineOrder(0)
    order.push(b"@5 p\n")
    with pytest.raises(ValueError, match="have not been taken"):
        order.parts()
    taken(order)
    order.push(b"@6")
    with pytest.raises(ValueError, match="have not been taken"):
        order.parts()
    facts = LineOrder(0).parts()[0]
    for runs in ([(1, 1, 1, 5)], [(7, 1, 1, 3), (5, 2, 1, 3)]):
        with pytest.raises(ValueError, match="these are no lines that wait"):
            LineOrder(0).restore(facts, runs, b"@5\n@7\n")
