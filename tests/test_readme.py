"""What the README shows is what happens."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

from mtlmon.syntax import operators as ops

_ROOT = Path(__file__).resolve().parent.parent
_README = (_ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", _README, re.MULTILINE | re.DOTALL)


def _table(heading: str) -> list[list[str]]:
    """The rows of the table whose first heading this is, cells as they are written."""
    lines = _README.partition(f"\n| {heading} |")[2].partition("\n\n")[0].splitlines()
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines[2:]]


def _mtlmon(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mtlmon", *arguments],
        capture_output=True,
        check=False,
        encoding="utf-8",
        cwd=_ROOT,
    )


def test_first_example() -> None:
    command = _blocks("sh")[0].splitlines()[-1].rpartition("&&")[2].split()
    assert command[0] == "mtlmon"
    done = _mtlmon(*command[1:])
    assert done.stderr == ""
    assert done.stdout == _blocks("text")[0]
    assert done.returncode == 1


def test_python_example() -> None:
    example = "\n".join(_blocks("python"))
    test = doctest.DocTestParser().get_doctest(example, {}, "README", "README.md", 0)
    report: list[str] = []
    result = doctest.DocTestRunner().run(test, out=report.append)
    assert result.attempted
    assert not result.failed, "".join(report)


def test_log_example(tmp_path: Path) -> None:
    log = tmp_path / "events.log"
    log.write_text(_blocks("text")[1], encoding="utf-8")
    done = _mtlmon("-e", 'approve AND "two words"', str(log))
    assert done.stdout == "1700000000:0 false\n1700000000:1 true\n1700000060:0 false\n"


def test_every_spelling_of_every_operator_is_listed() -> None:
    listed = [
        spelling.replace("\\|", "|")
        for row in _table("Meaning")
        for spelling in re.findall(r"`([^`]+)`", "".join(row[1:]))
    ]
    assert sorted(listed) == sorted(ops.BY_SPELLING)


def test_every_option_is_listed() -> None:
    listed = re.findall(r"`(--?[a-z-]+)", "".join(row[0] for row in _table("Option")))
    documented = _mtlmon("--help").stdout
    # An option stands at the start of its line of the help, after its short form if it has one.
    known = re.findall(r"^ +((?:--?[a-z-]+(?:[ ,/|]+)?)+)", documented, re.MULTILINE)
    assert set(listed) >= {"--mode", "-e"}
    for option in listed:
        assert option in documented
    for option in {word for line in known for word in re.findall(r"--[a-z-]+", line)}:
        assert option in listed
