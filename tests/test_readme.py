"""What the README shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages

_ROOT = Path(__file__).resolve().parent.parent
_README = (_ROOT / "README.md").read_text(encoding="utf-8")
# for tests/docs/pages.py, which looks in docs/
_PAGE = "../README.md"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", _README, re.MULTILINE | re.DOTALL)


def test_first_example() -> None:
    command = _blocks("sh")[0].splitlines()[-1].rpartition("&&")[2].split()
    assert command[0] == "mtlmon"
    done = subprocess.run(
        [sys.executable, "-m", "mtlmon", *command[1:]],
        capture_output=True,
        check=False,
        encoding="utf-8",
        cwd=_ROOT,
    )
    assert done.stderr == ""
    assert done.stdout == _blocks("text")[0]
    assert done.returncode == 1


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    complaints = list(pages.run(_PAGE, without="spark"))
    assert not complaints, "\n".join(complaints)


@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
def test_examples_with_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block for Spark goes on with the data frame of the block before."""
    monkeypatch.chdir(tmp_path)
    complaints = list(pages.run(_PAGE))
    assert not complaints, "\n".join(complaints)


def test_it_is_short() -> None:
    """A reader finds out within minutes what mtlmon is; details are in docs/."""
    assert len(_README.splitlines()) <= 150
