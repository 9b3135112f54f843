"""What the scanner knows from earlier lines changes nothing: lines recur, differ late, are cut.

Lines fed one byte at a time pass the scanner one by one, where it takes no short cut.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import LogError
from tests.doors import Scanner
from tests.text.scanning import Event, read_log

ATOMS = ("p", "q", "pp", "a b", "sixteen_bytes_xx", "seventeen_bytes_x", "pé")
# letters of two words
MANY_ATOMS = (*ATOMS, *(f"filler_{k}" for k in range(64)))
LARGEST = (1 << 63) - 1
# pushes a line away from the end of a block, where lines are read with more care
PADDING = b"# " + b"x" * 200 + b"\n"


def scan(
    data: bytes, atoms: tuple[str, ...] = ATOMS, cuts: tuple[int, ...] = (), skip: bool = False
) -> tuple[list[Event], str | int]:
    """The events, and the message of the error that ended the reading or the lines passed over."""
    scanner = Scanner(atoms, skip_errors=skip)
    events: list[Event] = []
    try:
        for start, end in pairwise([0, *cuts, len(data)]):
            events += scanner.feed(data[start:end])
        events += scanner.finish()
    except LogError as error:
        return events, str(error)
    return events, scanner.skipped_count


def check(log: bytes, cuts: tuple[int, ...] = ()) -> None:
    """All ways through the scanner, against each other and against the obvious scanner."""
    for skip in (False, True):
        plain = scan(log, ATOMS, tuple(range(len(log))), skip)
        assert plain[0] == read_log(log, ATOMS, skip_errors=skip)[0]
        assert scan(log, ATOMS, cuts, skip) == plain
        assert scan(log + PADDING, ATOMS, cuts, skip) == plain
        assert scan(log + PADDING, MANY_ATOMS, cuts, skip) == plain


TAILS = [
    b"", b" ", b" p", b" q", b" p q", b" pp", b"\tp", b"  p  ", b"\r", b" p\r", b" p \r", b"p",
    b"5", b"x", b"-", b" p()", b" (q)", b" ()", b" p(x)", b' "a b"', b' "p"', b' "a', b' "x p x"',
    b' "\x00"', b" p,q", b" p\x00", b" \x00 p", b" p\rq", b" p\x7f", b" \x1fp", b"\r\r",
    b" 123456", b" 1234567", b" 12345678", b" 12345678901234", b" 123456789012345",
    b" 12345678901234 p", b" sixteen_bytes_xx", b" seventeen_bytes_x q", b" p sixteen_bytes_xx pp",
    b" p" * 31 + b" q", b" other" * 12 + b" q p", b" " * 70 + b"p", b" " + b"y" * 80 + b" p",
    b" other other other other (p) q", b' other other other other "x p x" q',
    b" q other other other other ,p", " pé".encode(), b" p\xc3", b" @1", b" #", b"#",
]  # fmt: skip
STAMPS = [
    b"0", b"1", b"2", b"9", b"10", b"11", b"12", b"99", b"100", b"007", b"0000000012", b"12x",
    b"1.5", b"", b"-1", b"9999999", b"10000000", b"99999999", b"100000000", b"123456789",
    b"1234567890123", b"1234567890124", b"1234567890123456", b"12345678901234567",
    b"1700000000000000000", b"1700000000000000001", b"1700000000123456789", b"9223372036854775806",
    b"9223372036854775807", b"9223372036854775808", b"9999999999999999999",
    b"99999999999999999999", b"00000000000000000000012", b"1234567x", b"12345678:", b"1 3",
]  # fmt: skip
LINES = st.builds(
    lambda lead, stamp, tail, times: (lead + b"@" + stamp + tail + b"\n") * times,
    st.sampled_from([b"", b"", b"", b"", b" ", b"\n", b"# p\n", b"x"]),
    st.sampled_from(STAMPS),
    st.sampled_from(TAILS),
    st.sampled_from([1, 1, 2, 3, 12]),
)


@given(st.lists(LINES, max_size=12).map(b"".join), st.data())
def test_any_lines(log: bytes, data: st.DataObject) -> None:
    check(log, tuple(sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=3)))))


GOOD = st.builds(
    lambda start, lines: b"".join(
        b"@%d%s\n" % (start + step, tail) for step, tail in zip(range(1 << 20), lines, strict=False)
    ),
    st.sampled_from([0, 8, 95, 99_999_990, 10**12, 10**15 - 3, 10**16 - 3, 10**18, LARGEST - 40]),
    st.lists(st.sampled_from([b"", b" p", b" p q", b" other", b' "a b" q']), max_size=40),
)


@given(GOOD, st.sampled_from([1, 2, 10]), st.data())
def test_good_lines(log: bytes, times: int, data: st.DataObject) -> None:
    log = b"".join(line * times for line in log.splitlines(keepends=True))
    check(log, tuple(sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=2)))))


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_tails_after_known_ones(tail: bytes, end: bytes) -> None:
    known = b"".join(b"@5%s%s" % (t, end) for t in (b"", b" p", b" p q", b" other p"))
    check(known * 3 + (b"@5" + tail + end) * 2 + known)
    check(known * 3 + (b"@6" + tail + end) * 2 + b"@6 p" + end)


@pytest.mark.parametrize("first", STAMPS)
def test_pairs_of_time_stamps(first: bytes) -> None:
    for second in STAMPS:
        check(b"@%s p\n@%s p q\n@%s\n" % (first, second, second))


@pytest.mark.parametrize("digits", range(1, 20))
def test_every_byte_of_a_time_stamp(digits: int) -> None:
    stamp = b"1234567890123456789"[:digits]
    for place in range(digits):
        for byte in (b"/", b":", b"0", b"9", b" ", b"\n", b"x", b"\xb5", b"\x00"):
            other = stamp[:place] + byte + stamp[place + 1 :]
            check(b"@%s p\n@%s p\n@%s q\n" % (stamp, stamp, other))


@pytest.mark.parametrize(
    "byte", [b"x", b" ", b"#", b"5", b"\r", b"\x00", b"\xff", b"", b" @", b"@ "]
)
def test_what_is_not_an_at_sign_before_a_known_time_stamp(byte: bytes) -> None:
    check(b"@5 p\n%s5 p\n@5 q\n" % byte)
    check(b"@5 p\n@5 p\n%s5 q\n" % byte)


@pytest.mark.parametrize(
    "blank", [b"\r\n", b" \r\n", b"\t\n", b"\r\r\n", b"\r", b"#\r\n", b" # x\n"]
)
def test_lines_without_an_event(blank: bytes) -> None:
    check(b"%s@5 p\n%s%s@5 q\n%s\n" % (blank, blank, blank, blank))


@pytest.mark.parametrize("size", range(2, 40))
def test_repeated_lines(size: int) -> None:
    line = b"@1 " + b"p" * (size - 3) if size > 3 else b"@1"[:size]
    for times in (7, 8, 9, 10, 30):
        check((line + b"\n") * times)
        for place in range(1, len(line)):
            for byte in (b"x", b" ", b"\n", b"2"):
                changed = line[:place] + byte + line[place + 1 :]
                events = scan((line + b"\n") * times + changed + b"\n" + PADDING)
                assert events == scan(
                    (line + b"\n") * times + changed + b"\n" + PADDING, MANY_ATOMS
                )


def test_tails_that_differ_late() -> None:
    generator = random.Random(1)
    tails = [f" filler_{k:04}" + generator.choice([" p", " q", ""]) for k in range(3000)]
    log = "".join(f"@1{tail}\n" for tail in 3 * tails).encode()
    assert scan(log)[0] == read_log(log, ATOMS)[0]


def test_more_tails_than_are_kept() -> None:
    generator = random.Random(1)
    names = [f"n{k}" for k in range(3000)]
    lines = [[generator.choice(names), generator.choice("pqr")] for _ in range(20_000)]
    log = "".join(f"@{k // 100} {' '.join(line)}\n" for k, line in enumerate(lines)).encode()
    atoms = ("p", "q", *names[:60])
    assert scan(log, atoms)[0] == read_log(log, atoms)[0]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 33, 63, 64, 65, 200])
def test_tables_of_atoms(count: int) -> None:
    generator = random.Random(count)
    alphabet = "abcXYZ_09é"
    for _ in range(20):
        sizes = [generator.choice([1, 2, 7, 8, 9, 15, 16, 17]) for _ in range(2 * count)]
        names = list({"".join(generator.choices(alphabet, k=size)) for size in sizes})
        atoms = tuple(names[:count])
        lines = [generator.choices(names, k=generator.randrange(9)) for _ in range(50)]
        log = "".join(f"@1 {' '.join(line)}\n" for line in lines).encode()
        assert scan(log + PADDING, atoms)[0] == read_log(log, atoms)[0]


def test_names_with_a_zero_byte_are_no_short_ones() -> None:
    log = b'@1 p\n@1 "p\x00"\n@1 "p\x00\x00"\n'
    assert scan(log + PADDING, ("p", "p\0")) == ([(1, 1), (1, 2), (1, 0)], 0)


def test_atoms_of_recalled_lines_are_not_absent() -> None:
    scanner = Scanner(ATOMS, skip_errors=True)
    scanner.feed(b"@1 p\n@1 q,\n@1 p\n" * 20 + PADDING)
    assert scanner.absent == ATOMS[1:]
    assert (scanner.line_count, scanner.skipped_count) == (61, 20)
