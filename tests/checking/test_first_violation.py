"""The first violation, and counts that do not depend on how far ahead the log was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Monitor
from tests.checking.logs import Event, Log, expected_lines, lines_of, logs, policies
from tests.doors import LogCheck, TextMonitor
from tests.strategies import formulas

if TYPE_CHECKING:
    from mtlmon.policy import Policy

ASKED = ["p IMPLIES EVENTUALLY[0,5] (p OR q)", "q IMPLIES ONCE[0,9] (p OR r)"]
SIZES = [[1], [7, 2], [5000]]


def checked_as_it_comes(
    asked: list[Policy], events: list[Event], *, has_keys: bool, advance_every: int | None
) -> tuple[list[str], LogCheck]:
    """A check that gets one event at a time; it must stop at the very event that settles all."""
    check = LogCheck(asked, verdicts="first", advance_every=advance_every)
    return lines_of(check, Log(events, [1], has_keys=has_keys)), check


@pytest.mark.parametrize("advance_every", [None, 4])
@pytest.mark.parametrize("has_keys", [False, True])
@given(st.lists(formulas(depth=2), min_size=1, max_size=3), logs([0, 0, 1, 1, 2, 6]))
def test_counts_are_those_up_to_the_violation(
    has_keys: bool, advance_every: int | None, drawn: list[object], events: list[Event]
) -> None:
    """However many events are in a block, whatever policies and keys there are."""
    asked = policies(*drawn)  # type: ignore[arg-type]
    lines, single = checked_as_it_comes(
        asked, events, has_keys=has_keys, advance_every=advance_every
    )
    for sizes in SIZES[1:]:
        check = LogCheck(asked, verdicts="first", collect=True, advance_every=advance_every)
        assert lines_of(check, Log(events, sizes, has_keys=has_keys)) == lines
        assert check.is_stopped == single.is_stopped
        assert (check.counts, check.event_count) == (single.counts, single.event_count)
        assert check.key_counts == single.key_counts
    if not single.is_stopped or advance_every is not None:
        return
    # No event more than those, read in full: the engine's own counters.
    part = events[: single.event_count]
    plain = LogCheck(asked, verdicts="none", keep_keys=True)
    steps = plain.run(Log(part, [1], has_keys=has_keys))
    for _ in range(len(part)):
        next(steps)
    if single.event_count < len(events):
        assert [counts.events for counts in plain.counts] == [len(part)] * len(asked)
        assert plain.counts == single.counts


@given(formulas(), logs([0, 0, 1, 1, 2, 6]))
def test_a_table_counts_as_a_text_log_does(formula: object, events: list[Event]) -> None:
    """The text loop of a single policy stops at the event that settles the first violation."""
    (policy,) = policies(formula)  # type: ignore[arg-type]
    text = TextMonitor(Monitor(policy.formula), verdicts="first")
    text.load("".join(f"@{time} {' '.join(held)}\n" for time, _, held in events).encode())
    while text.run():
        pass
    text.load_end()
    while text.run():
        pass
    check = LogCheck([policy], verdicts="first")
    lines_of(check, Log(events, [5000], has_keys=False))
    if text.is_stopped:
        assert check.is_stopped
        assert check.counts[0] == (text.event_count, text.true_count, text.false_count)


def test_the_first_is_by_time_point_and_then_by_policy() -> None:
    """On one trace, an earlier time-point comes first although its policy is a later one."""
    events = [(3, "", frozenset("p")), (3, "", frozenset("q")), (9, "", frozenset("q"))]
    check = LogCheck(policies("p", "q"), verdicts="first")
    assert lines_of(check, Log(events, [9], has_keys=False)) == ["1\t3:0 false"]
    assert [tuple(counts) for counts in check.counts] == [(1, 1, 0), (1, 0, 1)]


def test_what_is_open_before_the_violation_is_waited_for() -> None:
    events = [
        (1, "", frozenset("p")),
        (2, "", frozenset("r")),
        (3, "", frozenset("q")),
        (4, "", frozenset("r")),
    ]
    check = LogCheck(policies("p IMPLIES EVENTUALLY[0,5] q", "NOT r"), verdicts="first")
    assert lines_of(check, Log(events, [9], has_keys=False)) == ["1\t2:0 false"]
    assert [tuple(counts) for counts in check.counts] == [(3, 3, 0), (3, 2, 1)]


def test_with_keys_all_events_of_the_time_stamp_are_read() -> None:
    """Keys say nothing of the order of events, so the first one is known when time goes on."""
    events = [(1, "b", frozenset("p")), (3, "b", frozenset()), (3, "a", frozenset("p"))]
    events += [(3, "c", frozenset("p")), (4, "d", frozenset("p")), (5, "e", frozenset())]
    check = LogCheck(policies("p"), verdicts="first", collect=True)
    assert lines_of(check, Log(events, [9], has_keys=True)) == ["0\tb\t3:0 false"]
    assert tuple(check.counts[0]) == (5, 4, 1)
    assert (check.event_count, check.key_counts) == (5, [4])


def test_a_violation_that_is_collected_is_the_first() -> None:
    """Explanations and reports take it from there; they had nothing to show."""
    events: list[Event] = [(time, "", frozenset()) for time in range(9)]
    check = LogCheck(policies("true", "p"), verdicts="first", collect=True)
    for _ in check.run(Log(events, [9], has_keys=False)):
        check.verdicts.taken()
    assert len(check.violations) == 1


def test_expected_lines_agree_on_the_first() -> None:
    asked = policies(*ASKED)
    events = [
        (n // 2, "", frozenset("pqr"[n % 3 :][:1]) if n < 40 else frozenset("q")) for n in range(80)
    ]
    false = [
        line
        for line in expected_lines(asked, events, "naive", has_keys=False)
        if line.endswith("false")
    ]
    order = {line: tuple(map(int, line.split("\t")[1].split()[0].split(":"))) for line in false}
    found = lines_of(LogCheck(asked, verdicts="first"), Log(events, [5000], has_keys=False))
    assert found == [min(false, key=lambda line: (order[line], line))]
