"""What the page on policy files shows is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from mtlmon.policy import operators as ops
from mtlmon.policy import parse_policies, parse_predicate
from mtlmon.policy.parser import parse_expression
from tests.cli.process import mtlmon

_PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
_TEXT = _PAGE.read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", _TEXT, re.MULTILINE | re.DOTALL)


def test_python_examples() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    code = "\n".join(_blocks("python"))
    test = doctest.DocTestParser().get_doctest(code, {}, "policies", str(_PAGE), 0)
    report: list[str] = []
    result = doctest.DocTestRunner().run(test, out=report.append)
    assert result.attempted
    assert not result.failed, "".join(report)


def test_the_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    policies, predicate = _blocks("text")
    file = parse_policies(policies)
    assert [policy.name for policy in file.policies] == ["warning", "response", "caught in the end"]
    parse_predicate(predicate)
    (tmp_path / "a9.mtl").write_text(policies, encoding="utf-8")
    (tmp_path / "a9.csv").write_text("ts,speed,lane,plate,kind,position\n1,99.5,1,AB,camera,7\n")
    name, *arguments = _blocks("console")[0].removeprefix("$ ").split()
    assert name == "mtlmon"
    files = [str(tmp_path / word) if "." in word else word for word in arguments]
    done = mtlmon(*files)
    assert done.status == 0, done.errors
    assert done.output.count("Formula, with all parentheses") == 3


def test_every_function_and_operator_is_there() -> None:
    section = _TEXT.partition("## Predicates\n")[2].partition("\n## ")[0]
    without_blocks = re.sub(r"^```.*?^```$", "", section, flags=re.MULTILINE | re.DOTALL)
    codes = re.findall(r"`` .*? ``|`([^`]+)`", without_blocks)
    words = {word for code in codes for word in re.findall(r"[a-z]+|[^\w\s,()]+", code)}
    rows = [row for row in vars(ops).values() if isinstance(row, ops.Operator)]
    for row in rows:
        assert set(row.word.split()) <= words, row
    for code in codes:
        if re.match(r"[a-z]+\(x", code):
            parse_expression(code)
