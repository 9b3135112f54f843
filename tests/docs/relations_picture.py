"""The picture of the page on relations: sessions, and how many are open at the same time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mtlmon import query

WIDTH, HEIGHT = 720, 190
_LEFT, _UNIT, _FIRST, _LAST = 110, 26, 8, 30
_ROWS, _TOP = 26, 24
_LOG = pa.table(
    {
        "ts": [10, 12, 15, 18, 25],
        "door": ["a", "b", "a", "c", "b"],
        "kind": ["open", "open", "close", "open", "close"],
    }
)
_RULES = """
relation sessions = rows valid until kind = "close" per door where kind = "open" select door as door
relation at_once  = sessions group select count() as doors
"""
_DESCRIPTION = (
    "Three sessions as bars over time, each from the row that opens a door to the one that closes "
    "it, and the last one without end. Below, records that say how many doors are open: a new one "
    "begins where a session begins or ends."
)


def draw(style: str) -> str:
    """The picture as SVG, in the style of the others."""
    sessions = query(_RULES, "sessions", _LOG).to_pylist()
    counts = query(_RULES, "at_once", _LOG).to_pylist()
    axis = _TOP + _ROWS * (len(sessions) + 1) + 30
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        'aria-labelledby="relations-title relations-text" '
        f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
        '<title id="relations-title">Sessions, and how many are open</title>',
        f'<desc id="relations-text">{_DESCRIPTION}</desc>',
        f"<style>{style}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" class="ground"/>',
    ]
    for time in sorted({one["start"] for one in counts} | {one["end"] for one in counts} - {None}):
        lines.append(
            f'<line class="anchor" x1="{_x(time)}" x2="{_x(time)}" y1="{_TOP - 8}" y2="{axis}"/>'
        )
        lines.append(f'<text x="{_x(time)}" y="{axis + 18}" text-anchor="middle">{time}</text>')
    for number, one in enumerate(sessions):
        y = _TOP + _ROWS * number
        lines.append(f'<text x="16" y="{y + 10}">door {one["door"]}</text>')
        lines.append(_bar(one, y, 12))
    y = _TOP + _ROWS * len(sessions) + 14
    lines.append(f'<text x="16" y="{y + 16}">at_once</text>')
    for one in counts:
        lines.append(_bar(one, y, 24))
        middle = (_x(one["start"]) + _x(one["end"])) / 2
        lines.append(
            f'<text x="{middle:g}" y="{y + 16}" text-anchor="middle">{one["doors"]}</text>'
        )
    lines.append(
        f'<line class="rule" x1="{_LEFT - 20}" x2="{_x(None) + 6}" y1="{axis}" y2="{axis}"/>'
    )
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def _bar(record: dict[str, Any], y: int, height: int) -> str:
    """A record, with a gap before the next one; without an end, it goes on to the edge."""
    start, end = _x(record["start"]), _x(record["end"])
    width = end - start - 2
    return f'<rect x="{start}" y="{y}" width="{width}" height="{height}" rx="2" class="window"/>'


def _x(time: int | None) -> int:
    return _LEFT + _UNIT * ((_LAST if time is None else time) - _FIRST)
