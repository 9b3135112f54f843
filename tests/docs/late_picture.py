"""The picture of the page on late events: what happens to rows that are more and more late."""

from __future__ import annotations

from typing import NamedTuple

WIDTH, HEIGHT = 720, 196
_LEFT, _NOW = 40, 660
# Where the time to wait and the lateness begin.
_WAIT, _LATENESS, _FINAL = 560, 250, 150
_AXIS = 112


class Row(NamedTuple):
    """A row that comes now: where its time is, and what is done with it."""

    x: int
    mark: str
    text: str


_ROWS = (
    Row(610, "true", "waits for rows before it"),
    Row(400, "true", "is put in, verdicts are corrected"),
    Row(200, "false", "is refused"),
)
_DESCRIPTION = (
    "A line of time that ends at now, the largest time-stamp so far. A row whose time is above now "
    "less the time to wait waits for rows before it. One that is later, but above now less the "
    "lateness, is put in, and verdicts are corrected. One that is later still is refused. Verdicts "
    "below now less the lateness, by as much as the formula looks ahead, are final."
)


def draw(style: str) -> str:
    """The picture as SVG, in the style of the others."""
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        'aria-labelledby="late-title late-text" '
        f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
        '<title id="late-title">Late rows, by how late they are</title>',
        f'<desc id="late-text">{_DESCRIPTION}</desc>',
        f"<style>{style}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" class="ground"/>',
        f'<rect x="{_LATENESS}" y="{_AXIS - 22}" width="{_NOW - _LATENESS}" height="22" '
        'class="window"/>',
        f'<line class="rule" x1="{_LEFT - 20}" x2="{_NOW + 40}" y1="{_AXIS}" y2="{_AXIS}"/>',
    ]
    for x, text in ((_FINAL, "final below"), (_LATENESS, ""), (_WAIT, ""), (_NOW, "now")):
        lines.append(f'<line class="anchor" x1="{x}" x2="{x}" y1="{_AXIS - 30}" y2="{_AXIS + 8}"/>')
        if text:
            lines.append(_text(x, _AXIS + 24, text))
    for x, y, text in ((_WAIT, 152, "wait"), (_LATENESS, 176, "lateness")):
        lines.append(f'<path class="anchor" fill="none" d="M{x} {y - 4}H{_NOW}"/>')
        lines.append(f'<text x="{x - 8}" y="{y}" text-anchor="end">{text}</text>')
    for number, row in enumerate(reversed(_ROWS)):
        y = 22 + 20 * number
        x = row.x
        if row.mark == "true":
            lines.append(f'<circle cx="{x}" cy="{_AXIS - 11}" r="6" class="true"/>')
        else:
            lines.append(f'<path class="false" d="M{x - 5} {_AXIS - 16}l10 10m0-10l-10 10"/>')
        lines.append(f'<line class="anchor" x1="{x}" x2="{x}" y1="{y + 5}" y2="{_AXIS - 18}"/>')
        lines.append(_text(x, y, row.text))
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def _text(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle">{text}</text>'
