"""Docstrings have the form that the reference pages are made from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = sorted(
    path
    for folder in ("mtlmon", "cli")
    for path in (_ROOT / folder).rglob("*")
    if path.suffix in (".py", ".pyx", ".pyi")
)
_SECTION = re.compile(r"^( *)(?:Args|Attributes):\n((?:\1    .*\n)+)", re.MULTILINE)


def test_there_are_sections() -> None:
    texts = [path.read_text(encoding="utf-8") for path in _SOURCES]
    assert sum(len(_SECTION.findall(text)) for text in texts) > 100


@pytest.mark.parametrize("path", _SOURCES, ids=str)
def test_each_parameter_has_a_line_of_its_own(path: Path) -> None:
    """Of `first, last: text`, the reference makes one parameter with the name `first, last`: it has
    no type and no default, and `mkdocs build --strict` fails.
    """
    for indent, lines in _SECTION.findall(path.read_text(encoding="utf-8")):
        assert re.findall(rf"^{indent}    \w+(?:, \w+)+:.*", lines, re.MULTILINE) == []
