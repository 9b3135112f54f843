"""The native scanner against an obvious one, at all block boundaries, and its error messages."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mtlmon.errors import LogError
from tests.doors import MAX_LINE_BYTES, Scanner
from tests.text.scanning import Event, read_log

ATOMS = ("p", "q", "a b", "länger_1", 'say "hi"', "back\\slash", "it's", "P", "pp", "x.y$z")
LARGEST = (1 << 63) - 1


def scan(
    data: bytes, atoms: tuple[str, ...] = ATOMS, *, cuts: tuple[int, ...] = (), skip: bool = False
) -> tuple[list[Event], list[int]]:
    """The events of a log fed in blocks, and the number of its first bad line or of all."""
    scanner = Scanner(atoms, skip_errors=skip)
    events: list[Event] = []
    places = [0, *sorted(cuts), len(data)]
    try:
        for start, end in pairwise(places):
            events += scanner.feed(data[start:end])
        events += scanner.finish()
    except LogError as error:
        return events, [error.line]
    return events, [0] * scanner.skipped_count


PIECES = st.sampled_from(
    [
        b"@", b"@1", b"@1 ", b"@2", b"@007", b"@12345678901234567890", b"@9223372036854775807",
        b"@9223372036854775808", b"@18446744073709551620",
        b"0", b"5", b" ", b"  ", b"\t", b"\n", b"\n", b"\n@3 ", b"\r\n",
        b"\r", b"p", b"q", b"pp", b"(p)", b"p()", b"(", b")", b'"', b'"p"', b'"a b"', b'"p"()',
        b'("q")', b'"say \\"hi\\""', b'"back\\\\slash"', b"\\", b",", b"#", b"# p", b"it's",
        "länger_1".encode(), b"\xff", b"\x00", b"\x7f", b"\xef\xbb\xbf", b"x.y$z", b"-", b'""',
    ]
)  # fmt: skip
LOGS = st.lists(PIECES, max_size=30).map(b"".join)
LINES = st.builds(
    lambda stamp, items, end: b"@%d " % stamp + b" ".join(items) + end,
    st.integers(0, 4) | st.sampled_from([10**17, 10**18, LARGEST]),
    st.lists(st.sampled_from([b"p", b"(q)", b"pp()", b'"a b"', b"other", b"x.y$z"]), max_size=4),
    st.sampled_from([b"\n", b"\r\n", b" \n", b"\n\n", b"\n# p\n"]),
)


@given(LOGS | st.lists(LINES, max_size=8).map(b"".join), st.booleans(), st.data())
@example(b"@5 p\n@5 q", False, None)
def test_reads_what_the_obvious_scanner_reads(
    log: bytes, skip: bool, data: st.DataObject | None
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(log)), max_size=5)) if data else [3]
    events, bad = read_log(log, ATOMS, skip_errors=skip)
    got, got_bad = scan(log, cuts=tuple(cuts), skip=skip)
    assert got == events
    if skip:
        assert len(got_bad) == len(bad)
    else:
        assert got_bad == bad


LOG = (
    b"\xef\xbb\xbf# by hand\r\n@1 p q\r\n\n  @1 (p) \"a b\"\n@1\n@20 pp() p\n"
    b"@20 \"say \\\"hi\\\"\"\n@300 it's \xc3\xa9\n@300"
)  # fmt: skip


def test_block_boundaries_change_nothing() -> None:
    whole = scan(LOG)
    assert len(whole[0]) == 7
    for first in range(len(LOG) + 1):
        for second in range(first, len(LOG) + 1):
            assert scan(LOG, cuts=(first, second)) == whole


def test_one_byte_at_a_time() -> None:
    assert scan(LOG, cuts=tuple(range(len(LOG)))) == scan(LOG)


def test_many_atoms() -> None:
    atoms = tuple(f"atom_{k}" for k in range(1000)) + tuple(map(chr, range(ord("a"), ord("z"))))
    chosen = ["atom_0", "atom_63", "atom_64", "atom_999", "a", "y"]
    log = f"@1 {' '.join(chosen)}\n@1 atom_1000 z\n@2 {' '.join(atoms)}\n".encode()
    events, _ = scan(log, atoms)
    assert events == [
        (1, sum(1 << atoms.index(name) for name in chosen)),
        (1, 0),
        (2, (1 << len(atoms)) - 1),
    ]


@pytest.mark.parametrize("present", [0, 1, 62, 63, 64, 65, 127, 128, 129])
def test_each_atom_is_noted_in_its_own_word(present: int) -> None:
    atoms = tuple(f"atom_{k}" for k in range(130))
    scanner = Scanner(atoms)
    assert scanner.feed(f"@1 atom_{present}\n".encode()) == [(1, 1 << present)]
    assert scanner.absent == atoms[:present] + atoms[present + 1 :]


def test_names_that_differ_late() -> None:
    stem = "n" * 40
    atoms = tuple(f"{stem}{end}{stem}" for end in "abcdefgh")
    assert scan(f"@1 {atoms[5]} {stem}\n".encode(), atoms) == ([(1, 1 << 5)], [])


def test_line_of_a_megabyte() -> None:
    log = b"@1 " + b"other " * 180_000 + b"q\n@2 " + b"x" * 1_000_000 + b"\n@3 p\n"
    assert scan(log) == ([(1, 2), (2, 0), (3, 1)], [])
    assert scan(log, cuts=tuple(range(0, len(log), 65_536))) == scan(log)


@pytest.mark.parametrize("block", [MAX_LINE_BYTES * 2, 3_000_000])
def test_longest_line(block: int) -> None:
    fits = b"@1 ".ljust(MAX_LINE_BYTES, b"x") + b"\n@2 p\n"
    longer = b"@1 ".ljust(MAX_LINE_BYTES + 1, b"x") + b"\n@2 p\n"
    assert scan(fits, cuts=tuple(range(0, len(fits), block))) == ([(1, 0), (2, 1)], [])
    cuts = tuple(range(0, len(longer), block))
    assert scan(longer, cuts=cuts) == ([], [1])
    assert scan(longer, cuts=cuts, skip=True) == ([(2, 1)], [0])


def test_occurrences_and_counts() -> None:
    assert Scanner(ATOMS).last_time_stamp is None
    scanner = Scanner(ATOMS, skip_errors=True)
    assert scanner.feed(b"@7 p\n@6 q\n@8 q, pp\n") == [(7, 1)]
    assert scanner.absent == ATOMS[1:]
    assert (scanner.line_count, scanner.skipped_count, scanner.last_time_stamp) == (3, 2, 7)


def test_a_bad_line_takes_no_event_with_it() -> None:
    scanner = Scanner(("p",), path="a.log")
    assert scanner.feed(b"@1 p\n@2\nbad\n@3 p\n") == [(1, 1), (2, 0)]
    for _ in range(2):
        with pytest.raises(LogError) as caught:
            scanner.feed(b"@4\n")
        assert (caught.value.path, caught.value.line, caught.value.column) == ("a.log", 3, 1)
    with pytest.raises(LogError):
        scanner.finish()


NO_INTEGER = "is not an integer from 0 to 9223372036854775807"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("p", "1:1: expected '@' and a time-stamp, not 'p' (p)"),
        ("  p", "1:3: expected '@' and a time-stamp, not 'p' (  p)"),
        ("\x00", "1:1: expected '@' and a time-stamp, not control character 0x00 (\\x00)"),
        ("@ 5", "1:2: expected a time-stamp directly after '@' (@ 5)"),
        ("@", "1:2: expected a time-stamp directly after '@' (@)"),
        ("@x p", f"1:2: time-stamp 'x' {NO_INTEGER} (@x p)"),
        ("@-1", f"1:2: time-stamp '-1' {NO_INTEGER} (@-1)"),
        ("@+1", f"1:2: time-stamp '+1' {NO_INTEGER} (@+1)"),
        ("@1.5\tp", f"1:2: time-stamp '1.5' {NO_INTEGER} (@1.5\\tp)"),
        ("@5(p)", f"1:2: time-stamp '5(p)' {NO_INTEGER} (@5(p))"),
        (
            "@9223372036854775808 p",
            "1:2: time-stamp 9223372036854775808 is above 9223372036854775807 "
            "(@9223372036854775808 p)",
        ),
        # 2^64 + 4 and 2^65 + 4, which are 4 to whoever counts in words and does not look
        *(
            (
                f"@{number} p",
                f"1:2: time-stamp {number} is above 9223372036854775807 (@{number} p)",
            )
            for number in ("18446744073709551620", "36893488147419103236", "0" * 30 + "9" * 19)
        ),
        ("@5\n  @4 p", "2:4: time-stamp 4 is below the one before it, 5 (  @4 p)"),
        ("@5 p, q", "1:5: unexpected ',' (@5 p, q)"),
        ("@5 )", "1:4: unexpected ')' (@5 ))"),
        ("@5 p\x00q", "1:5: unexpected control character 0x00 (@5 p\\x00q)"),
        ("@5 p\rq", "1:5: unexpected control character 0x0D (@5 p\\rq)"),
        ("@5 p(x)", "1:5: atoms with arguments are reserved: only '()' may follow a name "
         "(@5 p(x))"),
        ("@5 ()", "1:4: expected an atom between '(' and ')' (@5 ())"),
        ("@5 (p", "1:6: expected ')' after the atom (@5 (p)"),
        ("@5 (a,b)", "1:6: expected ')' after the atom (@5 (a,b))"),
        ("@5 (", "1:4: expected an atom between '(' and ')' (@5 ()"),
        ('@5 p "q', "1:6: quoted text without closing '\"' (@5 p \"q)"),
        ('@5 ""', '1:4: an atom cannot be empty text (@5 "")'),
        ('@5 "a\\n"', "1:6: only '\"' and '\\' may follow '\\' in quoted text (@5 \"a\\n\")"),
        ('@5 "a""b"', "1:7: expected a blank before '\"' (@5 \"a\"\"b\")"),
        ("@5 (p)q", "1:7: expected a blank before 'q' (@5 (p)q)"),
        ("@5 p()q", "1:7: expected a blank before 'q' (@5 p()q)"),
        ("@5 étude über,x", "1:14: unexpected ',' (@5 étude über,x)"),
        (
            f"@5 {'x' * 100},{'y' * 100}",
            f"1:104: unexpected ',' (...{'x' * 30},{'y' * 29}...)",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_error_messages(line: str, message: str, end: str) -> None:
    scanner = Scanner(("p",), path="log")
    with pytest.raises(LogError) as caught:
        scanner.feed((line + end).encode())
        scanner.finish()
    assert str(caught.value) == f"log:{message}"


@given(st.integers(0, 150), st.integers(0, 150))
def test_messages_show_the_line_around_the_error(before: int, after: int) -> None:
    letters = [chr(0x4E00 + number) for number in range(300)]
    line = f"@5 {''.join(letters[:before])},{''.join(letters[before : before + after])}"
    scanner = Scanner(("p",))
    with pytest.raises(LogError) as caught:
        scanner.feed(f"{line}\n".encode())
        scanner.finish()
    shown = str(caught.value).partition(" (")[2].removesuffix(")")
    part = shown.removeprefix("...").removesuffix("...")
    assert part in line
    assert "," in part
    assert len(part) == min(len(line), 60)
    assert shown.startswith("...") is not line.startswith(part)
    assert shown.endswith("...") is not line.endswith(part)


def test_columns_do_not_count_a_byte_order_mark() -> None:
    with pytest.raises(LogError, match=r"^<log>:1:2: "):
        scan_or_raise(b"\xef\xbb\xbf@x")


def test_line_too_long_message() -> None:
    with pytest.raises(LogError, match=rf"^<log>:1:1: a line of more than {MAX_LINE_BYTES} bytes"):
        scan_or_raise(b"x" * (MAX_LINE_BYTES + 1))


def scan_or_raise(data: bytes) -> None:
    scanner = Scanner(())
    scanner.feed(data)
    scanner.finish()
