"""The reference lists all there is."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.docs import pages
from tests.doors import syntax_operators as ops


def _table(page: str, heading: str) -> list[list[str]]:
    """The rows of the table whose first heading this is, cells as they are written."""
    text = (pages.DIRECTORY / page).read_text(encoding="utf-8")
    lines = text.partition(f"\n| {heading} |")[2].partition("\n\n")[0].splitlines()
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines[2:]]


def test_every_spelling_of_every_operator_is_listed() -> None:
    listed = [
        spelling.replace("\\|", "|")
        for row in _table("reference/syntax.md", "Meaning")
        for spelling in re.findall(r"`([^`]+)`", "".join(row[1:]))
    ]
    assert sorted(listed) == sorted(ops.BY_SPELLING)


def test_every_option_is_listed() -> None:
    rows = _table("reference/command.md", "Option")
    listed = re.findall(r"`(--?[a-z-]+)", "".join(row[0] for row in rows))
    documented = subprocess.run(
        [sys.executable, "-m", "mtlmon", "--help"], capture_output=True, check=True, text=True
    ).stdout
    # An option stands at the start of its line of the help, after its short form if it has one.
    known = re.findall(r"^ +((?:--?[a-z-]+(?:[ ,/|]+)?)+)", documented, re.MULTILINE)
    assert set(listed) >= {"--mode", "-e"}
    for option in listed:
        assert option in documented
    for option in {word for line in known for word in re.findall(r"--[a-z-]+", line)}:
        assert option in listed
