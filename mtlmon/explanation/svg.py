"""Draws proofs: time-points are columns, subformulas are rows, and lines lead to the reasons.

Colours follow the reader's preference for dark or light, marks differ in shape as well as in
colour, and a title and a description put the picture into words.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from mtlmon.explanation.outline import grid, outline
from mtlmon.explanation.words import (
    distinct_labels,
    entry_words,
    formula_text,
    point_text,
    signed_distance,
    verdict_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.explanation.outline import Entry
    from mtlmon.explanation.proof import Proof

__all__ = ["NARROW_STYLE", "STYLE", "to_svg"]

_COLUMNS = 24
_ROWS = 24
_LABEL_CHARACTERS = 56
_LINES = 80
_CHARACTER = 7.3
_ROW_HEIGHT = 34
_HEADER_HEIGHT = 48
_GAP = 26
_MARGIN = 8
_RADIUS = 9

STYLE = """\
.mtlmon{--ink:#1c1e21;--faint:#5f6670;--rule:#d5d9de;--ground:#ffffff;--true:#0b6e4f;--false:#b3261e;
--window:#eef1f5;background:var(--ground);font:12px ui-monospace,Menlo,Consolas,monospace}
@media (prefers-color-scheme:dark){.mtlmon{--ink:#e8eaed;--faint:#a3abb5;--rule:#3a4048;
--ground:#16181c;--true:#5fd3a5;--false:#ff8a80;--window:#23272e}}
.mtlmon text{fill:var(--ink)}.mtlmon .faint{fill:var(--faint)}.mtlmon .rule{stroke:var(--rule)}
.mtlmon .ground{fill:var(--ground)}
.mtlmon .window{fill:var(--window)}.mtlmon .link{stroke:var(--faint);fill:none;opacity:.7}
.mtlmon .true{fill:var(--true)}.mtlmon .false{fill:var(--ground);stroke:var(--false);stroke-width:2}
.mtlmon .tick{stroke:var(--ground);stroke-width:2;fill:none}
.mtlmon .cross{stroke:var(--false);stroke-width:2}"""

NARROW_STYLE = """\
@media (max-width:40rem){.picture .mtlmon .labels text{transform:translateY(-8px);font-size:11px}
.picture .mtlmon .heads{transform:none}.picture .mtlmon .marks{transform:translateY(7px)}}"""
"""What lets pages with pictures show the marks below the labels, where the screen is narrow."""


def to_svg(proof: Proof, name: str = "proof") -> str:
    """Implements `Proof.to_svg`.

    Args:
        proof: the proof to draw.
        name: a prefix for the identifiers in the picture, so that a page can hold several.
    """
    return "\n".join(_Picture(proof, name).lines())


class _Picture:
    """Computes the places of rows and columns, and draws the proof there."""

    def __init__(self, proof: Proof, name: str) -> None:
        self.proof = proof
        self.name = name
        self.entries = list(outline(proof, _LINES))
        self.table = grid(proof, self.entries, _COLUMNS, _ROWS)
        self.labels = distinct_labels(self.table.formulas, _LABEL_CHARACTERS, proof.trace.wording)
        self.names = [point_text(proof.trace, position) for position in self.table.positions]
        left = 24 + _CHARACTER * max(map(len, self.labels))
        step = max(48, _CHARACTER * max(map(len, self.names)) + 16)
        self.x_of: dict[int | None, float] = {}
        # places in the columns; the columns as a whole are beside the labels
        self.shift = left - _MARGIN
        x = _MARGIN - step / 2
        self.gaps: list[float] = []
        for position, gap in zip(self.table.positions, self.table.gaps(), strict=True):
            x += step
            if gap:
                self.gaps.append(x + _GAP / 2 - step / 2)
                x += _GAP
            self.x_of[position] = x
        self.width = self.shift + x + step / 2
        self.height = _HEADER_HEIGHT + _ROW_HEIGHT * len(self.labels) + 8

    def y(self, row: int) -> float:
        return _HEADER_HEIGHT + _ROW_HEIGHT * (row + 0.5)

    def lines(self) -> Iterator[str]:
        wording = self.proof.trace.wording
        heading = f"{verdict_text(self.proof)} {formula_text(self.proof.formula, 200, wording)}"
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="mtlmon" role="img" '
            f'aria-labelledby="{self.name}-title {self.name}-text" width="{self.width:.0f}" '
            f'height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}">'
        )
        yield f'<title id="{self.name}-title">{escape(heading)}</title>'
        yield f'<desc id="{self.name}-text">{escape(self.description())}</desc>'
        yield f"<style>{STYLE}</style>"
        yield f'<rect width="{self.width:.0f}" height="{self.height:.0f}" class="ground"/>'
        # pages move these groups on narrow screens: `NARROW_STYLE`
        yield from self.rules()
        for name, lines in (
            ("heads", self.heads()),
            ("marks", (*self.windows(), *self.links(), *self.marks())),
        ):
            yield f'<g class="{name}" transform="translate({self.shift:.1f} 0)">'
            yield from lines
            yield "</g>"
        yield '<g class="labels">'
        yield from self.row_labels()
        yield "</g>"
        yield "</svg>"

    def description(self) -> str:
        """Put the tree of reasons into sentences."""
        sentences = []
        for entry in self.entries:
            if not entry.proofs:
                sentences.append(f"{entry.remark}.")
                continue
            where, why = entry_words(entry)
            proof = entry.proofs[0]
            verb = "holds" if proof.value else "fails"
            text = formula_text(proof.formula, _LABEL_CHARACTERS, proof.trace.wording)
            sentences.append(f"At {where}, {text} {verb}{why}.")
        return " ".join(sentences).replace("At everywhere", "Everywhere")

    def heads(self) -> Iterator[str]:
        for position, name in zip(self.table.positions, self.names, strict=True):
            x = self.x_of[position]
            how_far = signed_distance(self.proof, position)
            yield f'<text x="{x:.1f}" y="18" text-anchor="middle">{name}</text>'
            yield f'<text x="{x:.1f}" y="36" text-anchor="middle" class="faint">{how_far}</text>'
        for x in self.gaps:
            yield f'<text x="{x:.1f}" y="18" text-anchor="middle" class="faint">…</text>'

    def rules(self) -> Iterator[str]:
        for row in range(len(self.labels)):
            top = _HEADER_HEIGHT + _ROW_HEIGHT * row
            yield f'<line class="rule" x1="0" x2="{self.width:.0f}" y1="{top}" y2="{top}"/>'

    def row_labels(self) -> Iterator[str]:
        for row, label in enumerate(self.labels):
            yield f'<text x="{_MARGIN}" y="{self.y(row) + 4:.1f}">{escape(label)}</text>'

    def windows(self) -> Iterator[str]:
        """Draw the extent of each run as a background in the row of its formula."""
        for entry in self.entries:
            if len(entry.proofs) != 1 or not entry.proofs[0].run:
                continue
            run = entry.proofs[0].run
            row = self.table.row_of.get(id(run[0].formula))
            first, last = (self.x_of.get(part.position) for part in (run[0], run[-1]))
            if row is not None and first is not None and last is not None:
                yield (
                    f'<rect class="window" x="{first - 20:.1f}" y="{self.y(row) - 14:.1f}" '
                    f'width="{last - first + 40:.1f}" height="28" rx="6"/>'
                )

    def place(self, proof: Proof) -> tuple[float, float] | None:
        row, x = self.table.row_of.get(id(proof.formula)), self.x_of.get(proof.position)
        return None if row is None or x is None else (x, self.y(row))

    def links(self) -> Iterator[str]:
        """Draw lines from each conclusion to the first and the last proof that it follows from."""
        above: list[Entry] = []
        for entry in self.entries:
            del above[len(entry.ancestry) :]
            above.append(entry)
            if len(above) < 2 or not entry.proofs or not above[-2].proofs:
                continue
            for parent, part in _ends(above[-2].proofs, entry.proofs):
                start, end = self.place(parent), self.place(part)
                if start is not None and end is not None:
                    (x1, y1), (x2, y2) = start, end
                    middle = (y1 + y2) / 2
                    # a straight line down past other rows would seem to end at their marks
                    aside = 2 * _RADIUS if x1 == x2 and y2 - y1 > _ROW_HEIGHT else 0
                    yield (
                        f'<path class="link" d="M{x1:.1f} {y1:.1f}C{x1 - aside:.1f} {middle:.1f} '
                        f'{x2 - aside:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"/>'
                    )

    def marks(self) -> Iterator[str]:
        for (row, position), value in self.table.values.items():
            x, y, r = self.x_of[position], self.y(row), _RADIUS
            if value:
                yield f'<circle class="true" cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>'
                yield (f'<path class="tick" d="M{x - 4:.1f} {y + 0.5:.1f}l3 3.5l5.5-7"/>')
            else:
                yield (
                    f'<rect class="false" x="{x - r + 1:.1f}" y="{y - r + 1:.1f}" '
                    f'width="{2 * r - 2}" height="{2 * r - 2}" rx="2"/>'
                )
                yield (
                    f'<path class="cross" d="M{x - 3.5:.1f} {y - 3.5:.1f}l7 7'
                    f'M{x + 3.5:.1f} {y - 3.5:.1f}l-7 7"/>'
                )


def _ends(parents: Sequence[Proof], parts: Sequence[Proof]) -> list[tuple[Proof, Proof]]:
    return [(parents[0], parts[0]), *([(parents[-1], parts[-1])] if len(parts) > 1 else [])]
