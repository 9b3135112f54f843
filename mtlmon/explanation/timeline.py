"""Draws a trace: its atoms, and the verdicts of formulas, over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.explanation.engine_values import engine_values
from mtlmon.explanation.words import whole_text
from mtlmon.support.drawing import CHARACTER, centred, label, picture
from mtlmon.syntax.parser import parse
from mtlmon.syntax.report import shorten, visible

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from mtlmon.explanation.trace import Trace
    from mtlmon.syntax.formula import Formula

__all__ = ["Timeline"]

_ROW = 30
_TOP = 46
_MOST_CHARACTERS = 60


class _Line(NamedTuple):
    """A row of the picture: the values at the time-points that are shown."""

    text: str
    is_formula: bool
    values: list[bool | None]


class Timeline:
    """A picture of a trace: a column for each time-point, a row for each atom and formula.

    A dot marks an atom that holds; a disc with a tick, a cross and a question mark tell whether a
    formula holds, fails, or is undecided. Notebooks show it; `save` writes it to a file.

    Args:
        trace: the trace; the formulas are monitored from its first time-point on.
        formulas: formulas, or their texts.
        atoms: the atoms to show; by default, those of the formulas, or all if there are none.
        first: the position of the first time-point that is shown.
        count: how many time-points are shown.
    """

    def __init__(
        self,
        trace: Trace,
        formulas: Sequence[Formula | str] = (),
        *,
        atoms: Sequence[str] | None = None,
        first: int = 0,
        count: int = 60,
    ) -> None:
        end = min(len(trace), first + count)
        self._positions = range(max(0, first), end)
        self._left_out = len(trace) - len(self._positions)
        self._trace = trace
        parsed = [parse(one, unit=trace.unit) if isinstance(one, str) else one for one in formulas]
        if atoms is None:
            found = {atom for formula in parsed for atom in formula.atoms}
            if not formulas:
                found = {atom for letter in trace.letters for atom in letter}
            atoms = sorted(found)
        self._lines = [
            _Line(atom, False, [atom in trace.letters[place] for place in self._positions])
            for atom in atoms
        ]
        self._lines += [
            _Line(
                whole_text(formula, trace.wording),
                True,
                engine_values(formula, trace)[self._positions.start : end],
            )
            for formula in parsed
        ]

    def to_svg(self) -> str:
        """The picture as SVG."""
        names = [self._name(place) for place in self._positions]
        texts = [shorten(visible(line.text), _MOST_CHARACTERS) for line in self._lines]
        left = 28 + CHARACTER * max(map(len, [*texts, "time"]))
        step = max(30.0, CHARACTER * max(map(len, names), default=1) + 14)
        width = left + step * len(names)
        height = _TOP + _ROW * len(texts) + 8
        return picture(width, height, self._title(), self._parts(names, texts, left, step, width))

    _repr_svg_ = to_svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file, FILE.svg."""
        Path(path).write_text(self.to_svg(), encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Timeline of {self._title()}>"

    def _title(self) -> str:
        count = len(self._positions)
        more = f", of {len(self._trace):,}" if self._left_out else ""
        return f"{count:,} time-point{'' if count == 1 else 's'}{more}"

    def _name(self, place: int) -> str:
        time_stamp, offset = self._trace.name(place)
        return f"{time_stamp}:{offset}" if offset else str(time_stamp)

    def _parts(
        self, names: list[str], texts: list[str], left: float, step: float, width: float
    ) -> Iterator[str]:
        yield label(10, 20, "time", faint=True)
        if self._left_out:
            yield label(10, 38, self._title(), faint=True)
        for column, name in enumerate(names):
            yield centred(left + step * (column + 0.5), 20, name)
        for row, (line, text) in enumerate(zip(self._lines, texts, strict=True)):
            top = _TOP + _ROW * row
            y = top + _ROW / 2
            yield f'<line class="rule" x1="0" x2="{width:.0f}" y1="{top}" y2="{top}"/>'
            yield label(10, y + 4, text)
            for column, value in enumerate(line.values):
                yield from _mark(left + step * (column + 0.5), y, value, line.is_formula)


def _mark(x: float, y: float, value: bool | None, is_formula: bool) -> Iterator[str]:
    if not is_formula:
        if value:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="atom"/>'
    elif value is None:
        yield centred(x, y + 4, "?", faint=True)
    elif value:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" class="true"/>'
        yield f'<path class="tick" d="M{x - 4:.1f} {y:.1f}l3 3 5-6"/>'
    else:
        yield f'<path class="false" d="M{x - 5:.1f} {y - 5:.1f}l10 10m0-10l-10 10"/>'
