"""Tables of HTML, which notebooks show."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["html_table"]

_SIDES = (' style="text-align:left"', ' style="text-align:right"')


def html_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], note: str = "", *, texts: int = 1
) -> str:
    """A table; its first column is text, or as many as `texts` says; numbers follow."""
    lines = ['<table class="mtlmon">']
    cells = "".join(
        f"<th{_SIDES[place >= texts]}>{escape(title)}</th>" for place, title in enumerate(head)
    )
    lines.append(f"<thead><tr>{cells}</tr></thead>")
    lines.append("<tbody>")
    for row in rows:
        cells = "".join(
            f"<td{_SIDES[place >= texts]}>{escape(cell)}</td>" for place, cell in enumerate(row)
        )
        lines.append(f"<tr>{cells}</tr>")
    lines.append("</tbody></table>")
    if note:
        lines.append(f"<p>{escape(note)}</p>")
    return "\n".join(lines) + "\n"
