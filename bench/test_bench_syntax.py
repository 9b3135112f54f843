"""Reading, printing and desugaring formulas: `pytest bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.workloads import WORKLOADS
from mtlmon.analysis import desugar
from mtlmon.syntax import parse

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

_CONJUNCTS = 10_000
_DEPTH = 10_000

FORMULAS = {
    "f3": WORKLOADS["f3"].formula,
    "wide": " AND ".join(f"(p{i} IMPLIES ONCE[0,{i}] q{i})" for i in range(_CONJUNCTS)),
    "deep": "NOT ONCE[0,5] " * _DEPTH + "p",
}


@pytest.fixture(params=FORMULAS)
def text(request: pytest.FixtureRequest) -> str:
    return FORMULAS[request.param]


def test_parse(benchmark: BenchmarkFixture, text: str) -> None:
    assert benchmark(parse, text).operands


def test_print(benchmark: BenchmarkFixture, text: str) -> None:
    assert benchmark(str, parse(text))


def test_desugar(benchmark: BenchmarkFixture, text: str) -> None:
    assert benchmark(desugar, parse(text)).operands
