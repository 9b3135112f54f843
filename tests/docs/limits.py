"""Writes the tables of docs/limits.md from what the messages are made of."""

from __future__ import annotations

import re
from pathlib import Path

from tests.doors import REFUSALS

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
HEAD = "| What is refused | Why | What to do instead |\n|---|---|---|\n"
TABLE = re.compile(rf"{re.escape(HEAD)}(?:\|.*\n)*")
# what is written as code, unless it is already
CODE = re.compile(
    r"`[^`]*`|--[a-z][a-z-]*(?: (?:first|all|key|row|stamp|skip|parquet|strong|iso|[05]s?)\b)?"
    r"|\b(?:monitor_\w+|mtlmon\.[\w.]+\w|next\(\.\.\.\)|snapshot\(\)|pass_time|regexp_extract"
    r"|(?:wait|late)=|clock='key'|key none|x\.(?:next\(\)|at\(\+5s\))|on every 10s|@TS)|'key none'"
)


def as_code(text: str) -> str:
    """Mark what users write."""

    def marked(found: re.Match[str]) -> str:
        word = found.group().strip("`'") if found.group()[0] in "`'" else found.group()
        return f"`{word}`"

    return CODE.sub(marked, text)


def table(*, of_laws: bool) -> str:
    """Return the table of laws, or of gaps."""
    rows = [
        [part.format(**one.names) for part in (one.what, one.reason, one.instead)]
        for one in REFUSALS.values()
        if one.is_law == of_laws
    ]
    return HEAD + "".join(f"| {' | '.join(map(as_code, row))} |\n" for row in rows)


def written(text: str) -> str:
    """Return the text of the page with the tables as they are now."""
    tables = iter([table(of_laws=True), table(of_laws=False)])
    return TABLE.sub(lambda _: next(tables), text)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
