"""Draws a formula as a tree, with how far each part looks ahead and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.analysis.reach import future_reach, past_reach
from mtlmon.errors import MtlmonError
from mtlmon.support.drawing import CHARACTER, label, picture
from mtlmon.syntax.interval import Interval
from mtlmon.syntax.report import shorten, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.syntax.formula import Formula

__all__ = ["formula_tree"]

_MOST_ROWS = 100
_MOST_CHARACTERS = 60
_ROW = 24
_INDENT = 22
_TOP = 30
_COLUMN = 90


class _Row(NamedTuple):
    formula: Formula
    depth: int
    # the row of the formula that this is an operand of
    parent: int | None


def formula_tree(formula: Formula) -> str:
    """The tree of a formula as SVG: a row for each subformula, with its reaches in two columns.

    Rows are in the order of the text, operands below their operator. What is more than 100 rows is
    left out, and the last row says how many there are.
    """
    rows, left_out = _rows(formula)
    labels = [_label(row.formula) for row in rows]
    shows_reaches = not formula.is_first_order
    width = 24 + max(
        _INDENT * row.depth + CHARACTER * len(text) for row, text in zip(rows, labels, strict=True)
    )
    right = width + (2 * _COLUMN if shows_reaches else 0)
    height = _TOP + _ROW * (len(rows) + (left_out > 0)) + 8

    def parts() -> Iterator[str]:
        if shows_reaches:
            yield label(width, 20, "back", faint=True)
            yield label(width + _COLUMN, 20, "ahead", faint=True)
        for number, (row, text) in enumerate(zip(rows, labels, strict=True)):
            x, y = _place(number, row)
            if row.parent is not None:
                above_x, above_y = _place(row.parent, rows[row.parent])
                bend = f"M{above_x + 6:.0f} {above_y + 6:.0f}V{y - 4:.0f}H{x - 4:.0f}"
                yield f'<path class="link" d="{bend}"/>'
            yield label(x, y, text)
            if shows_reaches:
                yield label(width, y, _reach(past_reach, row.formula), faint=True)
                yield label(width + _COLUMN, y, _reach(future_reach, row.formula), faint=True)
        if left_out:
            y = _TOP + _ROW * (len(rows) + 0.6)
            yield label(10, y, f"{left_out:,} more subformulas", faint=True)

    return picture(right, height, shorten(str(formula), 200), parts())


def _rows(formula: Formula) -> tuple[list[_Row], int]:
    """The rows, and how many subformulas are left out."""
    rows: list[_Row] = []
    waiting = [_Row(formula, 0, None)]
    while waiting and len(rows) < _MOST_ROWS:
        row = waiting.pop()
        waiting.extend(
            _Row(operand, row.depth + 1, len(rows)) for operand in reversed(row.formula.operands)
        )
        rows.append(row)
    return rows, len(waiting)


def _place(number: int, row: _Row) -> tuple[float, float]:
    return 10 + _INDENT * row.depth, _TOP + _ROW * (number + 0.6)


def _label(formula: Formula) -> str:
    """An atom, or an operator with its interval."""
    if not formula.operands:
        text = str(formula)
    else:
        interval = formula.interval
        bounds = "" if interval is None or interval == Interval.FULL else str(interval)
        variables = ""
        if isinstance(formula.value, tuple):
            variables = " " + ", ".join(map(str, formula.value))
        text = f"{formula.operator}{bounds}{variables}"
    return shorten(visible(text), _MOST_CHARACTERS)


def _reach(reach_of: object, formula: Formula) -> str:
    assert callable(reach_of)
    try:
        reach = reach_of(formula)
    except MtlmonError:
        # bounds with a unit that is not known yet
        return "?"
    if reach is None:
        return "no limit"
    return f"{reach:,}" if reach > 0 else ""
