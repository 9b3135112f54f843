"""Reading logs of MonPoly, in blocks of any size, with errors in any place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import LogError
from mtlmon.monpoly import LogReader, TimePoint, read_signature
from tests.monpoly.own_cases import CASES, SIGNATURE

RELATIONS = {name: name for name in read_signature(SIGNATURE)}


def read(log: bytes, size: int = 1 << 20, *, skip_errors: bool = False) -> list[TimePoint]:
    reader = LogReader(read_signature(SIGNATURE), RELATIONS, "a.log", skip_errors=skip_errors)
    found: list[TimePoint] = []
    for place in range(0, len(log), size):
        found += reader.feed(log[place : place + size])
    return [*found, *reader.finish()]


@given(st.sampled_from([case.log for case in CASES.values()]), st.integers(1, 30))
def test_blocks_of_any_size_make_the_same_time_points(log: str, size: int) -> None:
    assert read(log.encode(), size) == read(log.encode())


def test_rows() -> None:
    log = b'@5 q(1,-2) p (3)\n(4) p(5) r s("a\nb")s(c);\n\n@7 ; @7 f(.5)(1e3) r()() w(r"a*")'
    assert read(log) == [
        (
            5,
            {"q": [(1, -2)], "p": [(3,), (4,), (5,)], "r": [()], "s": [("a\nb",), ("c",)]},
        ),
        (7, {}),
        (7, {"f": [(0.5,), (1000.0,)], "r": [(), ()], "w": [("a*",)]}),
    ]


def test_only_the_relations_of_the_formula_are_kept() -> None:
    reader = LogReader(read_signature(SIGNATURE), {"q": "other"})
    assert list(reader.feed(b"@1 p(1) q(1,2)\n@2\n")) == [(1, {"other": [(1, 2)]})]
    assert list(reader.finish()) == [(2, {})]


def test_a_time_point_is_complete_at_the_next_one_or_at_a_semicolon() -> None:
    reader = LogReader(read_signature(SIGNATURE), RELATIONS)
    assert list(reader.feed(b"@1 p(1)\n")) == []
    assert list(reader.feed(b"p(2)\n@")) == []
    assert list(reader.feed(b"3\n")) == [(1, {"p": [(1,), (2,)]})]
    assert list(reader.feed(b"p(4);\n")) == [(3, {"p": [(4,)]})]


BAD = [
    (b"p(1)", 1, 1, "expected '@' and a time-stamp, not 'p'"),
    (b"@", 1, 2, "the log ends within a time-point"),
    (b"@1 p(1", 1, 7, "the log ends within a time-point"),
    (b"@x", 1, 2, "'x' is not a time-stamp: it is an integer from 0 on"),
    (b"@-1", 1, 2, "'-1' is not a time-stamp: it is an integer from 0 on"),
    (b"@9223372036854775808", 1, 2, "the time-stamp 9223372036854775808 is above"),
    (b"@5\n\n @3", 3, 3, "the time-stamp 3 is below the one before, 5"),
    (b"@5 x(1)", 1, 4, "the signature has no relation x"),
    (b"@5 pp(1)", 1, 4, "the signature has no relation pp; did you mean 'p'?"),
    (b"@5 tp(1)", 1, 4, "tp is built in and has no rows in a log"),
    (b"@5 p(a)", 1, 6, "'a' is not an integer"),
    (b"@5 p(1.5)", 1, 6, "'1.5' is not an integer"),
    (b"@5 p(9223372036854775808)", 1, 6, "9223372036854775808 does not fit in 64 bits"),
    (b"@5 f(nan)", 1, 6, "'nan' is not a number"),
    (b"@5 f(a)", 1, 6, "'a' is not a number"),
    (b"@5 p(1,2)", 1, 9, "a row of p has one value, not 2"),
    (b"@5 q(1)", 1, 7, "a row of q has 2 values, not 1"),
    (b"@5 p()", 1, 6, "a row of p has one value, not none"),
    (b"@5 r(1)", 1, 7, "a row of r has no values, not 1"),
    (b"@5 p q(1,2)", 1, 6, "p has no row: expected '('"),
    (b"@5 p(1)) ", 1, 8, "expected the name of a relation or a row, not ')'"),
    (b"@5 p(1,)", 1, 8, "expected a value, not ')'"),
    (b"@5 p(1 2)", 1, 8, "expected ',' or ')', not '2'"),
    (b"@5 p(1\n@6", 2, 1, "expected ')' before the next time-point"),
    (b"@ @6", 1, 3, "expected a time-stamp, not '@'"),
    (b"@5 (1)", 1, 4, "expected the name of a relation, not '('"),
    (b'@5 "p"(1)', 1, 4, "expected the name of a relation, not 'p'"),
    (b"@5 ; p(1)", 1, 6, "expected '@' and a time-stamp, not 'p'"),
    (b'@5 s("a', 1, 6, "this text does not end"),
    (b"@5 s(a b)", 1, 8, "expected ',' or ')', not 'b'"),
    (b"@5 s(a&b)", 1, 7, "expected ',' or ')', not '&'; other values stand in quotes"),
    ("@5 s(\u00e4)".encode(), 1, 6, "expected a value or ')', not a byte beyond ASCII"),
    ('@5 s("\u00e4",b)'.encode(), 1, 11, "a row of s has one value, not 2"),
    (b'@5 s("\xff")', 1, 6, "this text is not UTF-8"),
    (b"@5 p(1)\n> set x <", 2, 1, "commands are not supported ('>')"),
]


@pytest.mark.parametrize(("log", "line", "column", "message"), BAD)
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_errors(log: bytes, line: int, column: int, message: str, size: int) -> None:
    with pytest.raises(LogError, match=r"^a\.log:") as caught:
        read(log, size)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(("log", "line", "column", "message"), BAD)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_what_cannot_be_read_is_skipped_up_to_the_next_time_point(
    log: bytes, line: int, column: int, message: str, size: int
) -> None:
    if message == "this text does not end" or log.startswith(b"p"):
        return  # it goes on to the end of the log, or is part of the time-point before
    before, behind = b"@0 p(0)\n", b"\n@9 p(9)\n@9\n"
    found = read(before + log + behind, size, skip_errors=True)
    assert found[0] == (0, {"p": [(0,)]})
    assert found[-2:] == [(9, {"p": [(9,)]}), (9, {})]


def test_the_number_of_skipped_time_points() -> None:
    reader = LogReader(read_signature(SIGNATURE), RELATIONS, skip_errors=True)
    found = [*reader.feed(b"@5 p(1)\n@6 p(a) p(b)\n@4\n@7 p(2)\n"), *reader.finish()]
    assert found == [(5, {"p": [(1,)]}), (7, {"p": [(2,)]})]
    assert reader.skipped == 2


@given(st.binary(max_size=40), st.integers(1, 5))
def test_any_bytes_are_read_or_refused_alike_in_blocks(data: bytes, size: int) -> None:
    def outcome(size: int) -> object:
        try:
            return read(b"@1 p(1) " + data, size)
        except LogError as error:
            return str(error)

    assert outcome(size) == outcome(1 << 20)
