"""What happens to pages while the site is built."""

from __future__ import annotations

import re

_BLANK_LINE = re.compile("^<BLANKLINE>$", re.MULTILINE)
_CELL = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Show blank lines in what doctests print as such."""
    return _BLANK_LINE.sub("", markdown)


def on_page_content(html: str, **_: object) -> str:
    """Show a vertical bar in the code of a table's cell without the backslash before it.

    GitHub demands one in the source, and leaves it out; Python-Markdown shows it.
    """
    return _CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html)
