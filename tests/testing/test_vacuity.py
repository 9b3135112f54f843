"""Assertions can fail, or warn, if the left side of an implication never holds."""

from __future__ import annotations

import re
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
    words = "vacuous='error' cannot tell how often the left side of the policy holds: by itself"
    with pytest.raises(MtlmonError, match=words):
        assert_holds("x > 1 IMPLIES NOT p(x)", [(0, {"p": [(1,)]})], vacuous="error")


APPROVED = "FORALL u, f. publish(u, f) IMPLIES ONCE[0,10] approve(f)"
ROWS: Any = [(3, {"approve": [("report",)]}), (5, {"publish": [("ann", "report")]})]


@pytest.mark.parametrize(
    "formula",
    [
        APPROVED,
        "ALWAYS[0,9] (FORALL u, f. publish(u, f) IMPLIES ONCE approve(f))",
        # known only at the end
        "(approve(f) AND NOT EVENTUALLY[0,50] login(f)) IMPLIES ONCE approve(f)",
        "(EXISTS f. approve(f)) IMPLIES EVENTUALLY EXISTS u, f. publish(u, f)",
        'NOT approve("plan")',
    ],
)
def test_left_sides_with_variables_that_hold(formula: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", VacuousWarning)
        for vacuous in "warn", "error", "ignore":
            options: Any = {"vacuous": vacuous, "unknown": "ignore", "at_end": "closed"}
            assert_holds(formula, ROWS, **options)
            with LiveMonitor(formula, **options) as monitor:
                for time_stamp, database in ROWS:
                    monitor.step(time_stamp, database)


def test_left_sides_with_variables_that_do_not_hold() -> None:
    words = "was never triggered: publish(u, f) holds at none of the 1 time-points"
    with pytest.raises(VacuousError, match=re.escape(words)) as caught:
        assert_holds(APPROVED, ROWS[:1], vacuous="error")
    assert str(caught.value.formula) == APPROVED
    with pytest.warns(VacuousWarning, match=re.escape(words)) as warned:
        assert_holds(APPROVED, ROWS[:1], vacuous="warn", unknown="ignore")
    assert warned[0].filename == __file__
    result = check(APPROVED, ROWS[:1], vacuous="error", unknown="ignore")
    assert isinstance(result.vacuity, VacuousError)
    assert not result.holds
    violated = check(APPROVED, ROWS[1:], vacuous="error")
    assert isinstance(violated.failure, ViolationError)
    assert violated.vacuity is None
    monitor = LiveMonitor(APPROVED, vacuous="error", unknown="ignore")
    monitor.step(*ROWS[0])
    with pytest.raises(VacuousError, match="none of the 1 time-points"):
        monitor.close()


def test_left_sides_with_variables_of_tables() -> None:
    """The types of variables are those of columns."""
    policy = """
        atom pay(o, a) = what = "pay"
        atom ship(o) = what = "ship"
        policy paid: ship(o) IMPLIES ONCE EXISTS a. pay(o, a) AND a > 0.5
    """
    columns: Any = {"ts": [1, 2], "what": ["pay", "ship"], "o": [7, 7], "a": [0.75, 0.0]}
    assert_holds(policy, columns, time="ts", vacuous="error")
    unpaid = {name: values[:1] for name, values in columns.items()}
    with pytest.raises(VacuousError, match="ship\\(o\\) holds at none of the 1 time-points"):
        assert_holds(policy, unpaid, time="ts", vacuous="error", unknown="ignore")


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
