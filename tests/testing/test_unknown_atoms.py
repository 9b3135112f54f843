"""Atoms that no event of a trace has: misspelt ones passed silently, as they never hold."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mtlmon.errors import MtlmonError
from mtlmon.testing import (
    LiveMonitor,
    LogRule,
    TraceError,
    UnknownAtomWarning,
    ViolationError,
    assert_holds,
    check,
)

MISSPELT = "ALWAYS[0,5] NOT eror"
SETS = [(0, {"error"}), (1, {"request"}), (9, ["request"])]
MAPPINGS = [(0, {"error": True, "request": False}), (9, {"error": False, "request": True})]
TABLE = {"time_stamp": [0, 1, 9], "error": [1, 0, 0], "request": [0, 1, 1]}
STAMPS = np.array([0, 1, 9])
MASKS = np.array([1, 2, 2])
SUGGESTION = r"which the formula names; did you mean 'error'\? "


def assert_quiet(formula: str, trace: Any, **arguments: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_holds(formula, trace, **arguments)
        assert check(formula, trace, **arguments).holds


@pytest.mark.parametrize("run", [assert_holds, check])
@pytest.mark.parametrize(
    ("trace", "arguments", "names"),
    [
        (TABLE, {}, "The columns are 'error', 'request'$"),
        ((STAMPS, {"error": MASKS == 1}), {}, "The columns are 'error'$"),
        ((STAMPS, MASKS), {"atoms": ["error", "request"]}, "It names 'error', 'request'$"),
        (SETS, {"atoms": ["error", "request"]}, "It names 'error', 'request'$"),
        (MAPPINGS, {}, "Names seen: 'error', 'request'. "),
        (SETS, {"unknown": "error"}, "Names seen: 'error', 'request'. "),
    ],
    ids=["table", "columns", "masks", "atoms=", "mappings", "asked for"],
)
def test_it_is_an_error_where_the_trace_says_what_it_knows(
    run: Any, trace: Any, arguments: Any, names: str
) -> None:
    with pytest.raises(TraceError, match=SUGGESTION + names):
        run(MISSPELT, trace, at_end="closed", **arguments)


@pytest.mark.parametrize("run", [assert_holds, check])
def test_sets_of_names_bring_a_warning_at_the_line_of_the_test(run: Any) -> None:
    """`ALWAYS NOT error` on a good trace has to pass, so it cannot be an error."""
    with pytest.warns(UnknownAtomWarning, match=SUGGESTION) as caught:
        run(MISSPELT, SETS, at_end="closed")
    assert [one.filename for one in caught] == [__file__]


def test_the_warning_comes_where_nothing_is_like_the_atom_too() -> None:
    with pytest.warns(UnknownAtomWarning) as caught:
        assert_holds("NOT q", SETS)
    assert str(caught[0].message) == (
        "no event has the atom 'q', which the formula names. Names seen: 'error', 'request'. "
        "Pass unknown='ignore' if that is as it should be"
    )
    with pytest.warns(UnknownAtomWarning, match=r"names\. No event has any atoms\. Pass"):
        assert_holds("NOT q", [(0, ()), (1, {})])


def test_several_atoms_are_one_warning() -> None:
    with pytest.warns(UnknownAtomWarning, match=r"atoms 'q', 'eror'.*mean 'error' for 'eror'\?"):
        assert_holds("NOT q AND NOT eror", SETS)


@pytest.mark.parametrize("trace", [TABLE, (STAMPS, {"error": MASKS == 1}), MAPPINGS, SETS])
def test_unknown_decides(trace: Any) -> None:
    with pytest.warns(UnknownAtomWarning, match=SUGGESTION):
        assert_holds(MISSPELT, trace, at_end="closed", unknown="warn")
    with pytest.raises(TraceError, match=SUGGESTION):
        assert_holds(MISSPELT, trace, at_end="closed", unknown="error")
    assert_quiet(MISSPELT, trace, at_end="closed", unknown="ignore")


def test_unknown_is_one_of_these() -> None:
    wrong: Any = "never"
    with pytest.raises(MtlmonError, match="unknown is 'warn', 'error', 'ignore' or None"):
        assert_holds("p", SETS, unknown=wrong)


def test_what_the_trace_knows_need_not_occur() -> None:
    """Columns, and mappings that deny an atom, know it although it never holds."""
    assert_quiet("NOT quiet", {"time_stamp": [0], "quiet": [False]})
    assert_quiet("NOT quiet", [(0, {"quiet": False}), (1, {})])
    assert_quiet("NOT quiet", SETS, atoms=["error", "quiet"])


def test_mappings_without_false_values_say_no_more_than_sets() -> None:
    with pytest.warns(UnknownAtomWarning, match=SUGGESTION):
        assert_holds("NOT eror", [(0, {"error": True}), (1, {})])


def test_atoms_that_make_no_difference_are_not_asked_for() -> None:
    assert_quiet("error OR NOT error OR eror", SETS)


def test_no_events_say_nothing_about_names() -> None:
    assert_quiet("p", [])


def test_atoms_that_come_late_are_known() -> None:
    assert_quiet("NOT late OR request", [(0, ()), (1, {"late", "request"})])


def test_a_failure_is_hint_enough() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = check("eror", SETS)
        assert "hint: no event has the atom eror; did you mean error?" in str(result.failure)
        with pytest.raises(ViolationError, match=r"did you mean error\?") as caught:
            assert_holds("EVENTUALLY eror", SETS)
        assert caught.value.is_undecided


def test_many_names_take_little_memory() -> None:
    with pytest.warns(UnknownAtomWarning, match=r"\(1000 names\)"):
        assert_holds("NOT q", [(0, {f"name{number}"}) for number in range(5000)])


@pytest.mark.parametrize("run", [assert_holds, check])
def test_text_logs(tmp_path: Path, run: Any) -> None:
    """The scanner passes over names that it is not asked for; the head of the file has them."""
    path = tmp_path / "log"
    path.write_text('# day one\n@0 error "a b"\nnonsense\n@1 (request)\n@1 request()\n')
    with pytest.raises(MtlmonError, match="log:3"):
        run("NOT eror", path)
    path.write_text('# day one\n@0 error "a b"\n@1 (request)\n@1 request()\n')
    with pytest.warns(UnknownAtomWarning, match="Names seen: 'error', 'a b', 'request'"):
        run("NOT eror", path)
    with pytest.raises(TraceError, match=SUGGESTION):
        run("NOT eror", str(path), unknown="error")
    assert_quiet("NOT eror", path, unknown="ignore")
    assert_quiet('"a b" OR request', path)


def test_live_monitors_warn_when_they_are_closed() -> None:
    with (
        pytest.warns(UnknownAtomWarning, match=SUGGESTION) as caught,
        LiveMonitor(MISSPELT) as live,
    ):
        live.step(0, {"error"})
        live.step(9)
        live.advance(20)
    assert [one.filename for one in caught] == [__file__]
    monitor = LiveMonitor("NOT eror", unknown="error")
    monitor.step(0, {"error"})
    with pytest.raises(TraceError, match=SUGGESTION):
        monitor.close()
    monitor = LiveMonitor("NOT eror")
    monitor.step(0, {"error": False})
    with pytest.raises(TraceError, match=SUGGESTION):
        monitor.close()


def test_live_monitors_that_are_abandoned_say_nothing() -> None:
    monitor = LiveMonitor("NOT eror", unknown="error")
    monitor.step(0, {"error"})
    assert monitor.abandon() is None


def test_what_a_log_rule_may_give_is_known() -> None:
    """A program that logs no errors is what such a test wants to see."""
    logger = logging.getLogger("mtlmon-test.unknown")
    rules = LogRule("error", level="ERROR"), LogRule("login_{user}", message="(?P<user>x)")
    with LiveMonitor("NOT error AND NOT login_eve", clock="monotonic") as monitor:
        monitor.listen(*rules, logger=logger)
        monitor.event("request")
    with (
        pytest.warns(UnknownAtomWarning, match="the atom 'eror'"),
        LiveMonitor("NOT eror", clock="monotonic") as monitor,
    ):
        monitor.listen(*rules, logger=logger)
        monitor.event("error")


pytest_plugins = ["pytester"]


def test_the_fixture_warns_at_the_line_that_made_the_monitor(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_warned(mtl_monitor):
            monitor = mtl_monitor("NOT eror")
            monitor.step(0, {"error"})

        def test_refused(mtl_monitor):
            monitor = mtl_monitor("NOT eror", unknown="error")
            monitor.step(0, {"error"})

        def test_fine(mtl_monitor):
            monitor = mtl_monitor("NOT eror", unknown="ignore")
            monitor.step(0, {"error"})
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "default")
    result.assert_outcomes(passed=2, failed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [
            '>       monitor = mtl_monitor("NOT eror", unknown="error")',
            "E *mtlmon.errors.TraceError: no event has the atom 'eror'*did you mean 'error'?*",
            "*.py:2: UnknownAtomWarning: no event has the atom 'eror', which the formula names;*",
        ]
    )
