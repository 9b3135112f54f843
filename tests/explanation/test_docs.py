"""What the page on explanations shows is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from mtlmon.explanation import explaining
from tests.cli.process import mtlmon as run

_PAGE = Path(__file__).parents[2] / "docs" / "explanations.md"


def _blocks(language: str) -> list[str]:
    text = _PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_python_examples() -> None:
    code = "\n".join(_blocks("python"))
    test = doctest.DocTestParser().get_doctest(code, {}, "explanations", str(_PAGE), 0)
    report: list[str] = []
    options = doctest.IGNORE_EXCEPTION_DETAIL
    result = doctest.DocTestRunner(optionflags=options).run(test, out=report.append)
    assert result.attempted
    assert not result.failed, "".join(report)


def test_the_example_of_the_function() -> None:
    result = doctest.testmod(explaining)
    assert result.attempted
    assert not result.failed


def test_command(tmp_path: Path) -> None:
    policy, log, heading = _blocks("text")
    (tmp_path / "shop.mtl").write_text(policy, encoding="utf-8")
    (tmp_path / "shop.log").write_text(log, encoding="utf-8")
    command, *output = _blocks("console")[0].splitlines()
    _dollar, name, *arguments = command.split()
    assert name == "mtlmon"
    files = [str(tmp_path / word) if "." in word else word for word in arguments]
    done = run(*files)
    assert (done.status, done.output.splitlines()) == (1, output)
    assert done.errors.startswith(heading)
