"""MonPoly's language by example: what the reference says of it is what was worked out."""

from __future__ import annotations

import pytest

from mtlmon.monpoly import LogReader, MonPolyPolicy, TimePoint, read_policy, read_signature
from mtlmon.relational import analyse
from tests.monpoly.oracle import expected_output
from tests.monpoly.own_cases import CASES, SIGNATURE, Case, written


def parsed(case: Case) -> tuple[MonPolyPolicy, list[TimePoint]]:
    signature = read_signature(SIGNATURE)
    policy = read_policy(case.formula, signature, negate=case.negate)
    reader = LogReader(signature, policy.relations)
    return policy, [*reader.feed(case.log.encode()), *reader.finish()]


@pytest.mark.parametrize("name", CASES)
def test_the_reference_gives_the_output(name: str) -> None:
    policy, points = parsed(CASES[name])
    assert expected_output(policy, points) == written(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_the_formula_can_be_evaluated(name: str) -> None:
    policy, _ = parsed(CASES[name])
    assert analyse(policy.file).errors == ()


def test_without_a_last_time_point_the_future_is_open() -> None:
    case = Case("EVENTUALLY[0,5] p(x)", "@0 p(1)\n@4\n@6\n", "")
    policy, points = parsed(case)
    assert expected_output(policy, points, adds_last=False) == "@0 (time point 0): (1)\n"
