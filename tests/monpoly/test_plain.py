"""Plain lines of MonPoly's logs, read natively, against the reader that knows all forms."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import LogError, SnapshotError
from mtlmon.monpoly import LogReader, read_policy, read_signature
from tests.doors import (
    PlainLines,
    PointFeeder,
    PointReader,
    RelationalEngine,
    Value,
    from_cell,
    plan_of,
)

SIGNATURE = read_signature("p(x: string)\nq(x: int, y: string)\nf(x: float)\nr()\nother(x: int)\n")
POLICY = read_policy("(q(x, y) AND p(y)) AND ((EXISTS z. f(z)) OR r())", SIGNATURE)

Point = tuple[int, list[tuple[str, tuple[Value, ...]]]]


class Run:
    """Reads a log, with or without what reads plain lines."""

    def __init__(self, *, has_plain: bool, skips: bool) -> None:
        self.made = plan_of(POLICY)
        self.engine = RelationalEngine(self.made, self.made.texts)
        self.log = LogReader(SIGNATURE, POLICY.relations, "a.log", skip_errors=skips)
        points = self.engine.points
        plain = PlainLines(SIGNATURE, POLICY.relations, self.made, points) if has_plain else None
        self.reader = PointReader(self.log, PointFeeder(self.made, points), plain)

    def step(self, most: int, found: list[Point]) -> bool:
        """Add the next time-points; return whether there may be more."""
        try:
            return self.reader.read(most)
        finally:
            for time_stamp, rows in self.engine.points.take():
                named = []
                for number, cells in rows:
                    atom = self.made.named_atoms[number]
                    pairs = zip(cells, atom.kinds, strict=True)
                    values = tuple(from_cell(*pair, self.made.texts) for pair in pairs)
                    named.append((atom.name, values))
                found.append((time_stamp, sorted(named)))


def read(blocks: list[bytes], *, has_plain: bool, skips: bool) -> tuple[list[Point], str, int, int]:
    """The time-points of a log, the error at its end, and how many were read and skipped."""
    run = Run(has_plain=has_plain, skips=skips)
    found: list[Point] = []
    try:
        for block in blocks:
            run.reader.load(memoryview(block))
            while run.step(3, found):
                pass
        run.reader.load_end()
        while run.step(3, found):
            pass
    except LogError as error:
        return found, str(error), run.reader.point_count, run.log.skipped
    return found, "", run.reader.point_count, run.log.skipped


def read_in_runs(
    blocks: list[bytes], most: int, *, skips: bool
) -> tuple[list[Point], str, int, int]:
    """The same, where another reader goes on after each step."""
    whole = b"".join(blocks)
    ends = [*accumulate(map(len, blocks))]
    run = Run(has_plain=True, skips=skips)
    found: list[Point] = []

    def renewed() -> Run:
        if not run.reader.is_settled:
            return run
        other = Run(has_plain=True, skips=skips)
        other.reader.restore(run.reader.snapshot())
        assert other.reader.position == run.reader.position
        return other

    try:
        for end in ends:
            done = False
            while not done:
                run = renewed()
                run.reader.load(memoryview(whole[run.reader.position : end]))
                done = not run.step(most, found)
        while run.step(most, found):
            pass
        run = renewed()
        run.reader.load(memoryview(whole[run.reader.position :]))
        while run.step(most, found):
            pass
        run.reader.load_end()
        while run.step(most, found):
            pass
    except LogError as error:
        return found, str(error), run.reader.point_count, run.log.skipped
    return found, "", run.reader.point_count, run.log.skipped


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


@given(_blocks(), st.integers(1, 3), st.booleans())
def test_another_reader_can_go_on(blocks: list[bytes], most: int, skips: bool) -> None:
    assert read_in_runs(blocks, most, skips=skips) == read(blocks, has_plain=False, skips=skips)


def test_a_snapshot_of_another_log_is_refused() -> None:
    run = Run(has_plain=True, skips=False)
    for other in (b"", b"\x01\x02", b"[true]", b"3"):
        with pytest.raises(SnapshotError, match="not one of MonPoly"):
            run.reader.restore(other)


def test_plain_lines_are_read_natively() -> None:
    made = plan_of(POLICY)
    engine = RelationalEngine(made, made.texts)
    plain = PlainLines(SIGNATURE, POLICY.relations, engine.plan, engine.points)
    data = b'@1 p(a)\n@2\n@2 q(1, "a b") r();\r\n@3 p(b)\n'
    assert plain.load(data) == data.index(b"@3")
    assert not plain.read(10)
    assert plain.point_count == 3
    # a semicolon ends a time-point, and no time-stamp may be below one before
    assert plain.load(b"@3 p(b);\n") == len(b"@3 p(b);\n")
    assert plain.load(b"@2 p(b);\n") == 0
