"""The examples in docstrings are what happens."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import mtlmon

_MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(mtlmon.__path__, "mtlmon.")
    if module.name != "mtlmon.__main__"
)


@pytest.mark.parametrize("name", ["mtlmon", *_MODULES])
def test_examples_of_a_module(name: str) -> None:
    report: list[str] = []
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder().find(module):
        runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)
