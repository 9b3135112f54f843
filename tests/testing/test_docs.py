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
    files = {title: text for title, text in _BLOCKS if title}
    tests = [title for title in files if title.endswith(".py")]
    # What a test that fails shows stands in a block right after it.
    shown = {
        title: text
        for (title, _), (following, text) in pairwise(_BLOCKS)
        if title in tests and not following and not text.startswith(">>>")
    }
    for title, text in files.items():
        (pytester.path / title).write_text(text, encoding="utf-8")
    # Hypothesis reads the package at its first draw, which takes too long on a busy machine.
    pytester.makeconftest(
        "from hypothesis import HealthCheck, settings\n"
        "settings.register_profile('busy', suppress_health_check=[HealthCheck.too_slow])\n"
        "settings.load_profile('busy')\n"
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *tests)
    # of a file with several tests, one fails
    parametrized = {title: 2 for title in tests if "parametrize(" in files[title]}
    passed = len(tests) - len(shown) + sum(parametrized.values())
    result.assert_outcomes(passed=passed, failed=len(shown))
    for text in shown.values():
        # Only the square brackets of intervals are meant as they stand.
        result.stdout.fnmatch_lines(text.replace("[", "[[]").splitlines())
