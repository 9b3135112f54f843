"""The policies of a file are parameters of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtlmon.errors import FormulaError, MtlmonError
from mtlmon.policy import parse_policies
from mtlmon.testing import LiveMonitor, ViolationError, assert_holds, check, policies

pytest_plugins = ["pytester"]

FILE = """
unit s
const wait = 30s
policy confirmed "an order is confirmed soon" severity high:
    order IMPLIES EVENTUALLY[0,wait] confirm
policy once per customer: NOT (order AND PREVIOUS order)
policy cheap: price < 100
find open: p(x)
"""

TESTS = """
import pytest

from mtlmon.testing import assert_holds, policies

EVENTS = [
    (0, {"order": True, "price": 10, "customer": "ann"}),
    (1, {"order": True, "price": 10, "customer": "bob"}),
    (25, {"confirm": True, "price": 120, "customer": "ann"}),
    (99, {"other": True, "price": 1, "customer": "bob"}),
]


@pytest.mark.parametrize("policy", policies("shop.mtl"))
def test_shop(policy):
    assert_holds(policy, EVENTS, unknown="ignore", at_end="undecided-ok")


@pytest.mark.parametrize("policy", policies("shop.mtl", constants={"wait": "20s"}))
def test_shop_live(policy, mtl_monitor):
    monitor = mtl_monitor(policy, unknown="ignore", at_end="undecided-ok")
    for event in EVENTS:
        monitor.step(*event)
"""


def test_one_test_for_each_policy(pytester: pytest.Pytester) -> None:
    Path(pytester.path / "shop.mtl").write_text(FILE)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest("-p", "no:cacheprovider", "-rA")
    result.assert_outcomes(passed=3, failed=3)
    result.stdout.fnmatch_lines_random(
        [
            "PASSED *::test_shop[[]confirmed]",
            "PASSED *::test_shop[[]once]",
            "FAILED *::test_shop[[]cheap]*",
            "FAILED *::test_shop_live[[]confirmed]*",
            "PASSED *::test_shop_live[[]once]",
            "E   *ViolationError: 0:0 violates confirmed: an order is confirmed soon",
            "E *order IMPLIES EVENTUALLY[[]0,20s] confirm",
        ]
    )


def test_what_a_parameter_says(tmp_path: Path) -> None:
    path = tmp_path / "shop.mtl"
    path.write_text(FILE)
    found = policies(path)
    assert [str(one) for one in found] == ["confirmed", "once", "cheap"]
    assert (found[0].text, found[0].severity) == ("an order is confirmed soon", "high")
    (tmp_path / "alone.mtl").write_text("NOT p")
    assert [one.name for one in policies(tmp_path / "alone.mtl")] == ["alone"]


def test_files_that_have_been_read() -> None:
    file = parse_policies("policy a: NOT p")
    with pytest.raises(ViolationError, match="3:0 violates a\nNOT p"):
        assert_holds(file, [(3, {"p"})])
    assert LiveMonitor(file, unit="ms").formula == file.policies[0].formula
    with pytest.raises(MtlmonError, match="has 2 policies"):
        check(parse_policies("policy a: p\npolicy b: q"), [])
    with pytest.raises(MtlmonError, match="the policy file has the unit s, but unit='ms'"):
        check(parse_policies("unit s\npolicy a: p"), [], unit="ms")


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.mtl"
    path.write_text("policy a: p AND")
    with pytest.raises(FormulaError, match=r"shop\.mtl:1:16"):
        policies(path)
    path.write_text("find a: p(x)")
    with pytest.raises(MtlmonError, match="has no policy"):
        policies(path)
    path.write_text(FILE)
    with pytest.raises(MtlmonError, match="limit"):
        policies(path, constants={"limit": "3"})
    with pytest.raises(MtlmonError, match="at least one policy file"):
        policies()
    with pytest.raises(FileNotFoundError):
        policies(tmp_path / "none.mtl")
    with pytest.raises(TypeError, match="a formula is a text or a Formula, not int"):
        assert_holds(7, [])  # type: ignore[arg-type]
