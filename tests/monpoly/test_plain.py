"""Plain lines of MonPoly's logs, read natively, against the reader that knows all forms."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import LogError
from mtlmon.monpoly import LogReader, read_policy, read_signature
from mtlmon.monpoly.monitoring import plan_of
from mtlmon.monpoly.plain import PlainLines
from mtlmon.monpoly.points import PointFeeder, PointReader
from mtlmon.relational.cells import Value, from_cell
from mtlmon.relational.native import RelationalEngine

SIGNATURE = read_signature("p(x: string)\nq(x: int, y: string)\nf(x: float)\nr()\nother(x: int)\n")
POLICY = read_policy("(q(x, y) AND p(y)) AND ((EXISTS z. f(z)) OR r())", SIGNATURE)

Point = tuple[int, list[tuple[str, tuple[Value, ...]]]]


def read(blocks: list[bytes], *, has_plain: bool, skips: bool) -> tuple[list[Point], str, int, int]:
    """The time-points of a log, the error at its end, and how many were read and skipped."""
    made = plan_of(POLICY)
    engine = RelationalEngine(made, made.texts)
    log = LogReader(SIGNATURE, POLICY.relations, "a.log", skip_errors=skips)
    plain = PlainLines(SIGNATURE, POLICY.relations, engine) if has_plain else None
    reader = PointReader(log, PointFeeder(engine), plain)
    found: list[Point] = []

    def take() -> None:
        more = True
        while more:
            try:
                more = reader.read(3)
            finally:
                for time_stamp, rows in engine.points.take():
                    named = []
                    for number, cells in rows:
                        atom = made.named_atoms[number]
                        pairs = zip(cells, atom.kinds, strict=True)
                        values = tuple(from_cell(*pair, made.texts) for pair in pairs)
                        named.append((atom.name, values))
                    found.append((time_stamp, sorted(named)))

    try:
        for block in blocks:
            reader.load(memoryview(block))
            take()
        reader.load_end()
        take()
    except LogError as error:
        return found, str(error), reader.point_count, log.skipped
    return found, "", reader.point_count, log.skipped


_PLAIN_ROWS = [
    "p(ann)", 'p("b c")(d)', "q(1,x)", 'q( -7 , "" )(2,y:z)', "f(1.50)", "f(-0)", "r()", "other(3)",
    "p(ann) q(3,ann)", "p(a)q(4,a)",
]  # fmt: skip
_ROWS = [
    *_PLAIN_ROWS, "r", "q(1)", "q(x,x)", "f(1e3)", "f(nan)", 'p("a\\"b")', 'p("@1 p(z)")', "s(1)",
    "q(99999999999999999999, a)", "p(ä)", 'p("ä")', "# p(z)", "p(a", "; p(b)", "@7 p(c)", "p(a)\n",
    "\n  p(c)", 'p("a\nb")', "p(a);;", ")", "\r",
    'p("a\\\\b")', 'p("x\\ny")',
]  # fmt: skip


@st.composite
def _blocks(draw: st.DrawFn) -> list[bytes]:
    """A log, mostly of plain lines, cut anywhere."""
    rows = st.sampled_from(draw(st.sampled_from([_PLAIN_ROWS, _PLAIN_ROWS + _ROWS])))
    text, time_stamp = "", 0
    for _ in range(draw(st.integers(0, 8))):
        time_stamp += draw(st.sampled_from([0, 1, 1, 5, -1]))
        words = [f"@{max(time_stamp, 0)}", *draw(st.lists(rows, max_size=2))]
        end = draw(st.sampled_from(["\n", "\n", ";\n", "; \n", "\r\n", "\n\n", " ", ""]))
        text += " ".join(words) + end
    data = text.encode()
    cuts = sorted(draw(st.sets(st.integers(0, len(data)), max_size=3)))
    edges = [0, *cuts, len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(_blocks(), st.booleans())
def test_plain_lines_are_read_like_others(blocks: list[bytes], skips: bool) -> None:
    fast = read(blocks, has_plain=True, skips=skips)
    assert fast == read(blocks, has_plain=False, skips=skips)


def test_plain_lines_are_read_natively() -> None:
    made = plan_of(POLICY)
    engine = RelationalEngine(made, made.texts)
    plain = PlainLines(SIGNATURE, POLICY.relations, engine)
    data = b'@1 p(a)\n@2\n@2 q(1, "a b") r();\r\n@3 p(b)\n'
    assert plain.load(data) == data.index(b"@3")
    assert not plain.read(10)
    assert plain.point_count == 3
    # a semicolon ends a time-point, and no time-stamp may be below one before
    assert plain.load(b"@3 p(b);\n") == len(b"@3 p(b);\n")
    assert plain.load(b"@2 p(b);\n") == 0
