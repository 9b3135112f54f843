"""Assertions can fail, or warn, if the left side of an implication never holds."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from mtlmon import MtlmonError
from mtlmon.testing import (
    LiveMonitor,
    TraceError,
    VacuousError,
    VacuousWarning,
    ViolationError,
    assert_holds,
    check,
)

pytest_plugins = ["pytester"]

RESPONSE = "request IMPLIES EVENTUALLY[0,5] response"
EMPTY: Any = [(0, {"response"}), (3, {"other"})]


@pytest.mark.parametrize(
    ("formula", "trace"),
    [
        (RESPONSE, [(0, {"request", "response"})]),
        (f"ALWAYS[0,2] ({RESPONSE})", [(0, set()), (9, {"request", "response"}), (20, set())]),
        # known only at the end
        ("(request AND NOT EVENTUALLY[0,5] request2) IMPLIES other", [(0, {"request", "other"})]),
        ("latency > 5 IMPLIES slow", [(0, {"latency": 6, "slow": True})]),
    ],
)
def test_a_left_side_that_holds(formula: str, trace: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", VacuousWarning)
        for vacuous in "warn", "error", "ignore":
            assert_holds(
                formula,
                trace,
                vacuous=vacuous,
                unknown="ignore",
                at_end="closed",
            )


@pytest.mark.parametrize("formula", [RESPONSE, f"HISTORICALLY ({RESPONSE})"])
def test_a_left_side_that_does_not_hold(formula: str) -> None:
    assert_holds(formula, EMPTY, unknown="ignore")
    words = "was never triggered: request holds at none of the 2 time-points"
    with pytest.raises(VacuousError, match=words) as caught:
        assert_holds(formula, EMPTY, vacuous="error")
    assert isinstance(caught.value, MtlmonError)
    assert isinstance(caught.value, AssertionError)
    assert str(caught.value.formula) == str(formula)
    with pytest.warns(VacuousWarning, match=words) as warned:
        assert_holds(formula, EMPTY, vacuous="warn", unknown="ignore")
    assert warned[0].filename == __file__


def test_hints_and_other_failures_come_first() -> None:
    with pytest.raises(VacuousError, match="hint: no event has the atom request; did you mean"):
        assert_holds(RESPONSE, [(0, {"requests"})], vacuous="error")
    with pytest.raises(TraceError, match="did you mean 'requests'"):
        assert_holds(RESPONSE, [(0, {"requests"})], vacuous="error", unknown="error")
    with pytest.raises(ViolationError):
        assert_holds(RESPONSE, [(0, {"request"}), (9, {"other"})], vacuous="error")


def test_formulas_without_a_left_side() -> None:
    assert_holds("NOT request OR response", EMPTY, vacuous="error", unknown="ignore")


def test_what_is_refused() -> None:
    with pytest.raises(MtlmonError, match="vacuous is one of 'ignore', 'warn', 'error'"):
        assert_holds(RESPONSE, EMPTY, vacuous="fail")  # type: ignore[arg-type]
    with pytest.raises(MtlmonError, match="vacuous='error' does not work yet for policies with"):
        assert_holds("p(x) IMPLIES ONCE q(x)", [(0, {"q": [(1,)]})], vacuous="error")


def test_results_of_whole_traces() -> None:
    result = check(RESPONSE, EMPTY, vacuous="error")
    assert result.failure is None
    assert isinstance(result.vacuity, VacuousError)
    assert not result.holds
    assert "was never triggered" in str(result)
    with pytest.raises(VacuousError):
        result.raise_failure()
    with pytest.warns(VacuousWarning) as warned:
        assert check(RESPONSE, EMPTY, vacuous="warn", unknown="ignore").holds
    assert warned[0].filename == __file__
    violated = check(RESPONSE, [(0, {"request"}), (9, {"other"})], vacuous="error")
    assert isinstance(violated.failure, ViolationError)
    assert violated.vacuity is None


def test_live_monitors() -> None:
    monitor = LiveMonitor(RESPONSE, vacuous="error")
    monitor.step(0, {"response"})
    with pytest.raises(VacuousError, match="none of the 1 time-points"):
        monitor.close()
    with pytest.warns(VacuousWarning) as warned, LiveMonitor(RESPONSE, vacuous="warn") as monitor:
        monitor.step(0, {"response": True, "request": False})
    assert warned[0].filename == __file__
    with LiveMonitor(RESPONSE, vacuous="error") as monitor:
        monitor.step(0, {"request", "response"})


def test_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_error(mtl_monitor):
            mtl_monitor("a IMPLIES ONCE b", vacuous="error").step(0, {"a": False, "b": True})

        def test_warning(mtl_monitor):
            mtl_monitor("a IMPLIES ONCE b", vacuous="warn").step(0, {"a": False, "b": True})
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [
            '>*mtl_monitor("a IMPLIES ONCE b", vacuous="error")*',
            "E *VacuousError: a IMPLIES ONCE b was never triggered: a holds at none of the 1 *",
            "*test_the_fixture.py:5: VacuousWarning: *",
        ]
    )
