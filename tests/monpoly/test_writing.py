"""Verdicts as MonPoly writes them, against the formats of Python."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.doors import FLOAT, INTEGER, TEXT, AnswerBlock, KeyTable, VerdictLines, to_cell
from tests.monpoly.oracle import line_of

_KINDS = {"int": INTEGER, "float": FLOAT, "string": TEXT, "regexp": TEXT}
_TEXTS = st.one_of(
    st.text(max_size=4), st.sampled_from(['"', '""', '"a"', "", 'a"', "é", "\U0001f600"])
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.one_of(
        st.floats(allow_nan=False),
        st.sampled_from([0.0, 1e5, 999999.0, 1e6, -1e6, 1234567.0, 0.1, 1e-5, 2.5e300]),
    ),
    "string": _TEXTS,
    "regexp": _TEXTS,
}


@st.composite
def _points(draw: st.DrawFn) -> tuple[list[str], list[int], list[set[tuple[Any, ...]]]]:
    """Types, the order of the variables in answers, and the rows of time-points."""
    types = draw(st.lists(st.sampled_from([*_VALUES]), max_size=3))
    order = draw(st.permutations(range(len(types))))
    rows = st.sets(st.tuples(*(_VALUES[kind] for kind in types)), max_size=4)
    return types, order, draw(st.lists(rows, max_size=4))


def written(types: list[str], order: list[int], points: list[set[tuple[Any, ...]]]) -> str:
    texts = KeyTable(1)
    kinds = {"int": "integer", "float": "float"}
    columns = [(order[k], kind, kinds.get(kind, "text")) for k, kind in enumerate(types)]
    lines = VerdictLines(columns, len(types), texts)
    answers = AnswerBlock(array("I", [len(types)]))
    for number, rows in enumerate(points):
        for row in rows:
            cells = [0] * len(types)
            for k, (value, kind) in enumerate(zip(row, types, strict=True)):
                cells[order[k]] = to_cell(value, _KINDS[kind], texts) or 0
            answers.add(0, 2, 3 * number, 0, number, tuple(cells))
        if not rows:
            answers.add(0, 1, 3 * number, 0, number)
    lines.put(answers)
    assert not len(answers)
    return lines.writer.take().decode()


@given(_points())
@example((["string", "float"], [1, 0], [{("b", 2.5), ("a", 1e8)}]))
@example(([], [], [{()}, set(), {()}]))
@example((["int"], [0], [{(number,) for number in range(-300, 300)}]))
def test_lines_are_those_of_python(
    given_points: tuple[list[str], list[int], list[set[tuple[Any, ...]]]],
) -> None:
    types, order, points = given_points
    # -0.0 has no cell
    rows = [
        {tuple(value or 0 if value == 0 else value for value in row) for row in own}
        for own in points
    ]
    expected = [line_of(3 * number, number, own, types) for number, own in enumerate(rows)]
    assert written(types, order, points) == "".join(expected)


def test_an_average_of_integers_is_written_as_a_float() -> None:
    lines = VerdictLines([(0, "float", "integer"), (1, "int", "float")], 2, KeyTable(1))
    answers = AnswerBlock(array("I", [2]))
    for number in (2.0, 1e17):
        answers.add(0, 2, 5, 0, 1, (10**7, to_cell(number, FLOAT, KeyTable(1)) or 0))
    lines.put(answers)
    assert lines.writer.take() == b"@5 (time point 1): (1e+07,2.0) (1e+07,1e+17)\n"


def test_columns_of_other_kinds_are_refused() -> None:
    texts = KeyTable(1)
    with pytest.raises(ValueError, match="no variable 1"):
        VerdictLines([(1, "int", "integer")], 1, texts)
    with pytest.raises(ValueError, match="text is no int"):
        VerdictLines([(0, "int", "text")], 1, texts)
    with pytest.raises(ValueError, match="another policy"):
        VerdictLines([], 0, texts).put(AnswerBlock(array("I", [1])))
