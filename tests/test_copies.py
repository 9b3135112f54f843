"""A copy of an object with a state has a state of its own, or is refused."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import mtlmon
from mtlmon import CopyError
from tests.public_objects import CASES, monitor, relational_monitor

WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
}

# Documented classes whose objects never change, or only as their users change them: what a copy of
# them shares makes no difference.
WITHOUT_STATE = {
    *("Formula", "Program", "Proof", "Verdict", "VerdictArray", "Rule", "Answer", "TimePoint"),
    *("Answers", "Machine"),
    *("PendingTimePoint", "Changes", "Policy", "PolicyFile", "Predicate", "CompiledPredicates"),
    *(
        "Environment",
        "EventBatch",
        "Times",
        "Result",
        "PolicyParameter",
        "LogRule",
        "MonPolyPolicy",
    ),
    *("Relation", "Records", "Aggregate", "Statistics"),
    # plain data of reports
    *("ReportData", "Run", "PolicyReport", "Definition", "PolicyFileName", "Violation"),
    *("Explanation", "UndecidedTimePoint", "Timeline", "KeyReport", "KeyCount"),
    # of logging and of Spark, with locks
    *("LogHandler", "RowCounts"),
}


def documented_classes() -> dict[str, type]:
    """The classes that the reference and `mtlmon.__all__` name."""
    names = {f"mtlmon.{name}" for name in mtlmon.__all__}
    for page in (Path(__file__).parents[1] / "docs" / "reference").glob("*.md"):
        names |= set(re.findall(r"^::: ([\w.]+)", page.read_text("utf-8"), re.MULTILINE))
    found = {}
    for name in names:
        module, _, attribute = name.rpartition(".")
        if module == "mtlmon.spark" or name.count(".") == 0:
            continue
        try:
            value = getattr(import_module(module), attribute, None)
        except ModuleNotFoundError as error:
            if str(error.name).startswith("mtlmon"):
                continue
            raise
        if inspect.isclass(value) and not issubclass(value, BaseException):
            found[attribute] = value
    return found


def test_all_documented_classes_are_known() -> None:
    found = documented_classes()
    assert len(found) > 30
    assert set(found) - set(CASES) - WITHOUT_STATE == set()


def _copy_or_refusal(way: str, made: Any) -> Any:
    """A copy, or None where it is refused."""
    try:
        return WAYS[way](made)
    except CopyError as error:
        assert str(error)
        return None
    except TypeError as error:
        # iterators, and native objects without a Python class
        assert re.search("pickle|copy|reduce", str(error))
        return None


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_has_a_state_of_its_own(way: str) -> None:
    """What is done to a copy makes no difference to the original, and the other way round."""
    for name, case in CASES.items():
        made = case.make()
        copied = _copy_or_refusal(way, made)
        assert (copied is not None) == (case.same is not None), name
        if case.same is None:
            # a refusal does no harm
            case.works(made, None, 100)  # type: ignore[arg-type]
            continue
        assert type(copied) is type(made)
        expected = case.same(case.make())
        other = _copy_or_refusal(way, made)
        assert case.same(copied) == expected, name
        assert case.same(made) == expected, name
        assert case.same(other) == expected, name


@pytest.mark.parametrize("way", WAYS)
def test_copies_of_slices_and_of_what_is_new(way: str) -> None:
    same = CASES["RelationalMonitor"].same
    assert same is not None
    sliced = relational_monitor(2)
    assert same(WAYS[way](sliced)) == same(sliced)
    new = mtlmon.RelationalMonitor("policy f: p(x) IMPLIES q(x)", verdicts="all")
    copied = WAYS[way](new)
    assert copied.step(1, {}) == new.step(1, {}) != []


def test_a_copy_while_a_call_is_active_is_refused() -> None:
    for name, case in CASES.items():
        if case.hold is None or case.same is None:
            continue

        def inside(made: Any, name: str = name) -> None:
            for way in WAYS.values():
                with pytest.raises(mtlmon.InUseError):
                    way(made)

        case.hold(inside)
    assert monitor()
