"""What the atoms of an event may be: names, or a mapping that says for each name whether it holds.

A mapping means the same wherever events are taken; it used to count as the collection of its keys
in some places, so that `{"q": False}` made q true.
"""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import mtlmon
from mtlmon import Monitor, Monitors
from mtlmon.errors import EventError, EventTypeError, ViolationError
from mtlmon.testing import LiveMonitor, check

Event = tuple[int, Any]


def by_step(formula: str, events: list[Event]) -> list[bool | None]:
    monitor = Monitor(formula)
    return [verdict.value for event in events for verdict in monitor.step(*event)]


def by_call(formula: str, events: list[Event]) -> list[bool | None]:
    return [verdict.value for verdict in Monitor(formula)(events)]


def by_astream(formula: str, events: list[Event]) -> list[bool | None]:
    async def stream() -> AsyncIterator[Event]:
        for event in events:
            yield event

    async def run() -> list[bool | None]:
        return [verdict.value async for verdict in Monitor(formula).astream(stream())]

    return asyncio.run(run())


def by_monitors(formula: str, events: list[Event]) -> list[bool | None]:
    monitors: Monitors[str] = Monitors(formula)
    return [verdict.value for event in events for verdict in monitors.step("key", *event)]


def by_check(formula: str, events: list[Event]) -> list[bool | None]:
    false = check(formula, events).violations
    return [(time_stamp, 0) not in false for time_stamp, _ in events]


def by_live_monitor(formula: str, events: list[Event]) -> list[bool | None]:
    values: list[bool | None] = []
    for event in events:
        monitor = LiveMonitor(formula)
        try:
            monitor.step(*event)
        except ViolationError:
            values.append(False)
        else:
            values.append(True)
    return values


def by_explain(formula: str, events: list[Event]) -> list[bool | None]:
    return [mtlmon.explain(formula, events, number).value for number in range(len(events))]


WAYS = [by_step, by_call, by_astream, by_monitors, by_check, by_live_monitor, by_explain]
ways = pytest.mark.parametrize("way", WAYS)
Way = Callable[[str, list[Event]], list[bool | None]]


@ways
@pytest.mark.parametrize(
    "make",
    [dict, MappingProxyType, lambda values: ChainMap({}, values)],
    ids=["dict", "proxy", "chain"],
)
def test_a_mapping_says_what_holds(
    way: Way, make: Callable[[dict[str, bool]], Mapping[str, bool]]
) -> None:
    letters = [{"q": False}, {"q": True}, {"p": True, "q": False}, {"p": False}, {}]
    events = [(time, make(letter)) for time, letter in enumerate(letters)]
    assert way("q", events) == [False, True, False, False, False]


@ways
def test_booleans_of_numpy_are_truth_values(way: Way) -> None:
    """The rows of arrays and data frames have them."""
    events = [(1, {"q": np.bool_(False)}), (2, {"q": np.True_})]
    assert way("q", events) == [False, True]


@ways
@pytest.mark.parametrize("value", [0, 1, "false", None, 1.0, np.int64(1)])
def test_other_values_of_a_mapping_are_refused(way: Way, value: object) -> None:
    """The text "false" would be true, and null is neither: nobody is to guess which was meant.

    In tests, events can have other values, as there may be other policies about them.
    """
    formula = "p AND q" if way in (by_check, by_live_monitor) else "p"
    with pytest.raises(
        EventTypeError, match=r"atom 'q' has the value .*each atom is True or False"
    ):
        way(formula, [(1, {"p": True, "q": value})])


@ways
@pytest.mark.parametrize("atoms", [[True, False], np.array([True]), [b"q"], [None], {1: True}])
def test_names_that_are_no_strings_are_refused(way: Way, atoms: object) -> None:
    """They were ignored, as names that the formula does not have."""
    with pytest.raises(EventTypeError, match="the name of an atom is a string, not"):
        way("q", [(1, atoms)])


@pytest.mark.parametrize("way", [by_step, by_check, by_live_monitor, by_explain])
@pytest.mark.parametrize("atoms", ["q", b"q"])
def test_a_string_is_no_collection_of_atoms(way: Way, atoms: object) -> None:
    with pytest.raises(EventTypeError, match="not the one string"):
        way("q", [(1, atoms)])


def test_a_name_that_a_mapping_denies_is_checked_too() -> None:
    """A misspelt name is one, whatever its value."""
    monitor = Monitor("error", unknown="error")
    with pytest.raises(EventError, match=r"no atom 'eror', only 'error'; did you mean 'error'\?"):
        monitor.step(1, {"eror": False})
    assert [str(verdict) for verdict in monitor.step(1, {"error": False})] == ["1:0 false"]


def test_an_event_of_a_live_monitor_has_names() -> None:
    monitor = LiveMonitor("NOT q", clock="monotonic")
    with pytest.raises(EventTypeError, match="a string, not list"):
        monitor.event(["q"])  # type: ignore[arg-type]
    # a dictionary says which atoms hold
    monitor.event({"q": False})
    monitor.close()


def test_errors_say_which_event_it_is() -> None:
    events: list[tuple[int, dict[str, object]]] = [(1, {"q": True}), (2, {"q": "no"})]
    for run in (lambda: check("q", events), lambda: mtlmon.explain("q", events, 0)):
        with pytest.raises(EventTypeError, match="event 1: ") as caught:
            run()
        assert caught.value.index == 1


@pytest.mark.parametrize("count", [1, 31, 32, 33, 63, 64, 65, 100, 128, 129])
def test_each_of_many_atoms_in_every_form(count: int) -> None:
    names = [f"a{number}" for number in range(count)]
    for present in {0, 1, 30, 31, 32, 33, 62, 63, 64, 65, 99, 127, 128} & {*range(count)}:
        formula = " AND ".join(f"{'' if k == present else 'NOT '}a{k}" for k in range(count))
        monitor = Monitor(formula)
        assert monitor.atoms == tuple(names)
        mapping = dict.fromkeys(names, False) | {names[present]: True}
        forms: list[Any] = [
            {names[present]},
            [names[present]],
            (names[present], "other"),
            frozenset([names[present]]),
            iter([names[present]]),
            mapping,
            {names[present]: True},
            MappingProxyType(mapping),
            1 << present,
        ]
        for time_stamp, atoms in enumerate(forms):
            assert [one.value for one in monitor.step(time_stamp, atoms)] == [True]
            (nothing,) = monitor.step(time_stamp, dict.fromkeys(names, False))
            assert nothing.value is False
