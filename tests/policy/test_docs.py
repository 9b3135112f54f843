"""The page on policy files is complete."""

from __future__ import annotations

import re
from pathlib import Path

from tests.doors import parse_expression
from tests.doors import predicates_operators as ops

_PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
_TEXT = _PAGE.read_text(encoding="utf-8")


def test_every_function_and_operator_is_there() -> None:
    section = _TEXT.partition("## Predicates\n")[2].partition("\n## ")[0]
    without_blocks = re.sub(r"^```.*?^```$", "", section, flags=re.MULTILINE | re.DOTALL)
    codes = re.findall(r"`` .*? ``|`([^`]+)`", without_blocks)
    words = {word for code in codes for word in re.findall(r"[a-z_][a-z_0-9]*|[^\w\s,()]+", code)}
    rows = [row for row in vars(ops).values() if isinstance(row, ops.Operator)]
    # what depends on other rows, and the functions of MonPoly, are not for predicates
    others = {
        ops.OVER,
        ops.OWN_FUNCTION,
        *ops.OF_INSTANCES_ONLY.values(),
        *ops.WINDOWS,
        *ops.OFFSETS.values(),
        *ops.CONVERSIONS.values(),
    }
    rows = [row for row in rows if row not in others]
    assert rows
    for row in rows:
        assert set(row.word.split()) <= words, row
    calls = [code for code in codes if re.match(r"[a-z_]+\(x", code)]
    assert calls
    for code in calls:
        parse_expression(code)
