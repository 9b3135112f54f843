"""Logs of relations become time-points, in whatever pieces they come."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mtlmon.errors import LogError
from tests.relational.row_lines import Points, Relations, read_log, scanner, taken

RELATIONS: Relations = [
    ("publish", ("text", "text")),
    ("amount", ("integer",)),
    ("speed", ("float",)),
    ("on", ("boolean",)),
    ("at", ("time",)),
    ("tick", ()),
    ("a b", ("text",)),
]


def read(
    data: bytes, *, size: int = 1 << 20, most: int = 1000, skip_errors: bool = False
) -> tuple[Points, list[int]]:
    """What `read_log` returns, from the scanner, with blocks of some size."""
    rows = scanner(RELATIONS, skip_errors=skip_errors)
    found: Points = []
    try:
        for place in range(0, len(data) + 1, size):
            rows.load(data[place : place + size])
            while rows.read(most):
                found += taken(rows)
            found += taken(rows)
        rows.load_end()
        while rows.read(most):
            found += taken(rows)
        found += taken(rows)
    except LogError as error:
        assert rows.lines.skipped_count == 0
        return found, [error.line]
    assert rows.point_count == len(found)
    return found, [0] * rows.lines.skipped_count


def test_rows_of_all_types_are_read() -> None:
    log = (
        b'@5 publish(alice, "f 1")(eve, f2) "a b" ("x\\"y") tick;  # done\r\n'
        b"\n# nothing\n"
        b"  @7 amount(-9223372036854775808) speed(-0.0) (1e3) on(t)on(False) tick() tick\n"
        b'@7 at(1970-01-02) at("1970-01-01T00:00:02.5+00:00") publish("", a;b) unknown (1, "(")'
    )
    assert read(log) == (
        [
            (5, [("publish", ("alice", "f 1")), ("publish", ("eve", "f2")), ("a b", ('x"y',)),
                 ("tick", ())]),
            (7, [("amount", (-(1 << 63),)), ("speed", (0.0,)), ("speed", (1000.0,)),
                 ("on", (True,)), ("on", (False,)), ("tick", ()), ("tick", ())]),
            (7, [("at", (86400 * 10**9,)), ("at", (2500000000,)), ("publish", ("", "a;b"))]),
        ],
        [],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("publish(a)", 11, "publish has 2 arguments, not 1"),
        ("amount(1, 2)", 10, "amount has one argument, not 2"),
        ("publish", 11, "publish has 2 arguments, not none"),
        ("publish()", 11, "publish has 2 arguments, not none"),
        ("tick(1)", 8, "tick has no arguments, not 1"),
        ("amount(12x)", 11, "12x is not an integer from -2^63 to 2^63-1, as value 1 of amount"),
        ("amount(9223372036854775808)", 11, "9223372036854775808 is not an integer"),
        ('publish(a, b) speed("no w")', 24, '"no w" is not a number, as value 1 of speed'),
        ("speed(nan)", 10, "nan is not a number"),
        ("on(yes)", 7, "yes is not true or false"),
        ("at(noon)", 7, "noon is not a time, such as 2026-01-31T12:30:00Z"),
        ('"a b"(\udcff)', 10, "is not UTF-8, as value 1 of "),
        ("publish(a b)", 14, "expected ',' or ')' after a value, not 'b'"),
        ("publish(a,)", 14, "expected a value, not ')'"),
        ("publish(a,", 11, "expected ')' after the values"),
        ("unknown(a", 11, "expected ')' after the values"),
        ('publish("a, b)', 12, "quoted text without closing"),
        ('publish("\\a", b)', 13, "may follow '\\' in quoted text"),
        ("(a)", 4, "expected the name of an atom, not '('"),
        ('""', 4, "an atom cannot be empty text"),
        ("tick; tick", 10, "nothing may follow ';' on a line but a comment"),
    ],
)
def test_errors_have_a_place(line: str, column: int, message: str) -> None:
    log = f"@3 tick\n@4 {line}\n@5 tick\n".encode(errors="surrogateescape")
    rows = scanner(RELATIONS)
    rows.load(log)
    assert rows.read()
    assert taken(rows) == [(3, [("tick", ())])]
    with pytest.raises(LogError) as found:
        rows.read()
    assert (found.value.line, found.value.column) == (2, column)
    assert message in str(found.value)
    # and each is skipped on request
    points, bad = read(log, skip_errors=True)
    assert [time_stamp for time_stamp, _ in points] == [3, 5]
    assert len(bad) == 1


def test_a_semicolon_can_follow_a_time_stamp() -> None:
    assert read(b"@3;\n@3 ;\n@4; tick\n") == ([(3, []), (3, [])], [3])
    assert read(b"@3;\n@4;") == ([(3, []), (4, [])], [])


def test_a_time_stamp_that_decreases_is_an_error() -> None:
    assert read(b"@5 tick\n@4 tick\n@6 tick\n")[1] == [2]
    assert read(b"@5 tick\n@4 tick\n@6 tick\n", skip_errors=True)[1] == [0]
    # a line that is skipped does not move the clock
    assert read(b"@5 tick\n@9 amount(x)\n@6 tick\n", skip_errors=True)[1] == [0]


def test_relations_that_never_occur_are_known() -> None:
    rows = scanner([("p", ("text",)), ("q", ())])
    rows.load(b"@1 p(a) r\n")
    rows.read()
    assert rows.table.absent == ("q",)


def test_relations_of_one_name_have_the_same_rows() -> None:
    rows = scanner([("p", ("text",)), ("q", ("integer",)), ("p", ("integer",)), ("p", ("float",))])
    rows.load(b'@1 p(07)("8") q(1)\n')
    rows.read()
    ((time_stamp, found),) = taken(rows)
    assert time_stamp == 1
    expected = [("p", (value,)) for value in ("07", 7, 7.0, "8", 8, 8.0)]
    assert sorted(found, key=repr) == sorted([*expected, ("q", (1,))], key=repr)
    # a value must be of the types of all
    rows.load(b"@2 p(x)\n")
    with pytest.raises(LogError, match="x"):
        while rows.read():
            pass


def test_relations_of_one_name_have_as_many_arguments() -> None:
    with pytest.raises(ValueError, match="two relations are called p, with 0 and 1 arguments"):
        scanner([("p", ()), ("p", ("text",))])


# Random logs, most of whose lines can be read.
BLANKS = st.sampled_from(["", "", "", " ", "\t "])
VALUES = st.one_of(
    st.sampled_from(["alice", "f1", "0", "-1", "t", "é", '"x y"', '"\\"\\\\"', '""', "1970-01-03"]),
    st.integers(-(1 << 64), 1 << 64).map(str),
    st.floats(allow_nan=False).map(repr),
    st.from_regex(r"[0-9]{0,22}\.?[0-9]{0,22}(e[+-]?[0-9]{1,3})?", fullmatch=True),
    st.text('ab", ();\\#@é\x00', max_size=4),
)
NAMES = st.sampled_from([*(name for name, _ in RELATIONS), '"a b"', "unknown", "tick"])


@st.composite
def items(draw: st.DrawFn) -> str:
    name = draw(NAMES)
    widths = {"publish": 2, "tick": 0}
    parts = [name]
    for _ in range(draw(st.integers(0, 2) if name in {"tick", "unknown"} else st.integers(1, 2))):
        width = draw(st.sampled_from([widths.get(name, 1)] * 9 + [0, 1, 2, 3]))
        values = [f"{draw(BLANKS)}{draw(VALUES)}{draw(BLANKS)}" for _ in range(width)]
        parts.append(f"{draw(BLANKS)}({','.join(values)})")
    return "".join(parts)


@st.composite
def lines(draw: st.DrawFn) -> str:
    stamp = draw(st.sampled_from(["1", "2", "10", "007", "1307955600", "9" * 18, "x", ""]))
    end = draw(st.sampled_from(["", "", "", ";", " ; ", ";# x", "\r", "; x"]))
    return " ".join([f"@{stamp}", *draw(st.lists(items(), max_size=3))]) + end


LOGS = st.lists(
    st.one_of(lines(), lines(), lines(), st.sampled_from(["", "#", "x"])), max_size=8
).map(lambda found: "\n".join(found).encode())


@given(log=LOGS, size=st.integers(1, 40), most=st.integers(1, 3), skip_errors=st.booleans())
@example(log=b"@1 speed(0.10000000000000000000001)", size=1, most=1, skip_errors=False)
@example(log=b"@1 speed(00000000000000000000001.5e-3)", size=1, most=1, skip_errors=False)
@example(log=b"@1 speed(123456789012345678e22)", size=1, most=1, skip_errors=False)
@example(log=b"@1 speed(.)(-.5)(5.)(+1)(1e)(e5)(-Infinity)", size=1, most=1, skip_errors=True)
def test_any_log_in_any_pieces_is_read_as_by_the_reference(
    log: bytes, size: int, most: int, skip_errors: bool
) -> None:
    points, bad = read_log(log, RELATIONS, skip_errors=skip_errors)
    found, failed = read(log, size=size, most=most, skip_errors=skip_errors)
    assert found == points
    if skip_errors:
        assert len(failed) == len(bad)
    else:
        assert failed == bad


@given(values=st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_floats_are_the_nearest(values: list[float]) -> None:
    log = "".join(f"@1 speed({value!r})({value:.3f})({value:.17e})\n" for value in values)
    found = [row[0] for _, rows in read(log.encode())[0] for _, row in rows]
    forms = ("{!r}", "{:.3f}", "{:.17e}")
    assert found == [float(form.format(value)) + 0.0 for value in values for form in forms]
