"""What the files in the page on testing show is what happens."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
# Of each block: its title if it has one, and its text.
_BLOCKS = re.findall(
    r'^```\w+(?: title="([^"]*)")?\n(.*?)^```$',
    _PAGE.read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)


def test_the_files_in_the_page(pytester: pytest.Pytester) -> None:
    files = {title.removesuffix(".py"): text for title, text in _BLOCKS if title}
    # What a test that fails shows stands in a block right after it.
    shown = {
        title: text
        for (title, _), (following, text) in pairwise(_BLOCKS)
        if title and not following and not text.startswith(">>>")
    }
    pytester.makepyfile(**files)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *(f"{n}.py" for n in files))
    result.assert_outcomes(passed=len(files) - len(shown), failed=len(shown))
    for text in shown.values():
        # Only the square brackets of intervals are meant as they stand.
        result.stdout.fnmatch_lines(text.replace("[", "[[]").splitlines())
