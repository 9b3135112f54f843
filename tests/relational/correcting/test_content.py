"""Sums of what engines hold, by which computing again ends where nothing differs any more."""

from __future__ import annotations

import pytest

from tests.doors import PointHistory, RelationalEngine, atom_numbers, point_rows
from tests.reference.history import Insert
from tests.reference.late_relations import database_of
from tests.relational.correcting.comparing import compare, file_of, history_of, push

Log = list[tuple[int, str]]

SINCE = "FORALL u. p(u) IMPLIES (NOT q(u)) SINCE r(u)"
BOUNDED_SINCE = "FORALL u. p(u) IMPLIES (NOT q(u)) SINCE[0,9] r(u)"
LATER_SINCE = "FORALL u. p(u) IMPLIES (NOT q(u)) SINCE[3,*] r(u)"
ONCE = "FORALL u. p(u) IMPLIES ONCE[0,9] q(u)"
EVER = "FORALL u. p(u) IMPLIES ONCE q(u)"
LATER_EVER = "FORALL u. p(u) IMPLIES ONCE[3,*] q(u)"
BEFORE = "FORALL u. p(u) IMPLIES PREVIOUS q(u)"
SO_FAR = "FORALL u. p(u) IMPLIES NOT HISTORICALLY[0,9] q(u)"
FOR_EVER = "FORALL u. p(u) IMPLIES NOT HISTORICALLY q(u)"
FROM_NOW = "FORALL u. p(u) IMPLIES NOT ALWAYS[0,9] q(u)"
AHEAD = "FORALL u. p(u) IMPLIES EVENTUALLY[0,9] q(u)"
UNTIL = "FORALL u. p(u) IMPLIES q(u) UNTIL[0,9] r(u)"
COUNT = "FORALL u. p(u) IMPLIES COUNT(ONCE[0,9] (q(u) AND r(v)) BY u) < 2"
MEET = "FORALL u. p(u) IMPLIES NOT ONCE[0,9] (q(u) AND EXISTS v. ((NOT q(v)) SINCE r(v)))"


def engine_of(history: PointHistory, log: Log) -> RelationalEngine:
    """An engine of a history's plan that has taken in a log."""
    engine = RelationalEngine(history.plan, history.plan.texts)
    engine.wants_holding = True
    numbers = atom_numbers(history.plan)
    for time_stamp, row in log:
        database = database_of(frozenset({row} if row else ()))
        engine.points.add(time_stamp, point_rows(history.plan, numbers, database))
        engine.advance()
    engine.answers.take()
    return engine


def contents(text: str, *logs: Log) -> list[bytes | None]:
    history = history_of(file_of(text), None)
    return [engine_of(history, log).content() for log in logs]


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        # what has been looked at, and so what is taken out of inboxes, is another
        (ONCE, [(5, "q(a)"), (5, "p(a)"), (9, "")], [(5, "q(a)"), (9, "")]),
        # of two rows at one time, one is enough
        (ONCE, [(5, "q(a)"), (5, "q(a)"), (9, "")], [(5, "q(a)"), (9, "")]),
        # entries have left the window
        (ONCE, [(1, "q(b)"), (5, "q(a)"), (12, "")], [(5, "q(a)"), (12, "")]),
        # rows came in another order, so that their slots are others
        (ONCE, [(5, "q(a)"), (5, "q(b)"), (9, "")], [(5, "q(b)"), (5, "q(a)"), (9, "")]),
        # how often, and when, does not matter without a bound
        (EVER, [(1, "q(a)"), (5, "q(a)"), (9, "")], [(3, "q(a)"), (9, "")]),
        # a broken row is no longer known
        (SINCE, [(1, "r(a)"), (2, "q(a)"), (9, "")], [(2, "q(a)"), (9, "")]),
        (SINCE, [(1, "r(a)"), (2, "r(a)"), (9, "")], [(2, "r(a)"), (9, "")]),
        # both are old enough
        (LATER_SINCE, [(1, "r(a)"), (9, "")], [(2, "r(a)"), (9, "")]),
        (BOUNDED_SINCE, [(1, "r(a)"), (2, "q(a)"), (9, "")], [(9, "")]),
        (BEFORE, [(1, "q(a)"), (5, ""), (9, "q(a)")], [(9, "q(a)")]),
        # nothing is undecided that an earlier row would decide
        (AHEAD, [(1, "q(a)"), (20, "")], [(20, "")]),
        (AHEAD, [(1, "q(a)"), (15, "p(a)"), (15, "")], [(15, "p(a)"), (15, "")]),
        (COUNT, [(5, "q(a)"), (5, "r(b)"), (9, "")], [(5, "r(b)"), (5, "q(a)"), (9, "")]),
        # what is missing at a time-point that has left the window
        (SO_FAR, [(1, ""), (5, "q(a)"), (12, "")], [(5, "q(a)"), (12, "")]),
        # what was missing once is missing for ever, however often
        (FOR_EVER, [(1, "q(a)"), (5, ""), (9, "")], [(5, "q(b)"), (9, "")]),
        (FOR_EVER, [(1, "q(a)"), (5, "q(a)"), (9, "q(a)")], [(9, "q(a)")]),
        (FROM_NOW, [(1, "q(a)"), (20, "")], [(20, "")]),
    ],
)
def test_states_that_answer_alike_have_one_sum(text: str, left: Log, right: Log) -> None:
    # the last time-point is of another time than those that differ, as its offset counts
    first, second = contents(text, left, right)
    assert first is not None
    assert first == second


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        # the row, its time, and the time of the last time-point
        (ONCE, [(5, "q(a)"), (9, "")], [(5, "q(b)"), (9, "")]),
        (ONCE, [(5, "q(a)"), (9, "")], [(6, "q(a)"), (9, "")]),
        (ONCE, [(5, "q(a)"), (9, "")], [(5, "q(a)"), (10, "")]),
        (EVER, [(5, "q(a)"), (9, "")], [(5, ""), (9, "")]),
        # not in the window yet
        (LATER_EVER, [(7, "q(a)"), (9, "")], [(8, "q(a)"), (9, "")]),
        (LATER_SINCE, [(7, "r(a)"), (9, "")], [(8, "r(a)"), (9, "")]),
        (SINCE, [(1, "r(a)"), (2, "q(a)"), (9, "")], [(1, "r(a)"), (2, "q(b)"), (9, "")]),
        (BOUNDED_SINCE, [(1, "r(a)"), (9, "")], [(2, "r(a)"), (9, "")]),
        (BEFORE, [(9, "q(a)")], [(9, "q(b)")]),
        # what is undecided, and its name
        (AHEAD, [(5, "p(a)"), (9, "")], [(5, "p(b)"), (9, "")]),
        (AHEAD, [(5, "p(a)"), (9, "")], [(6, "p(a)"), (9, "")]),
        (AHEAD, [(5, "p(a)"), (9, "")], [(5, ""), (5, "p(a)"), (9, "")]),
        (AHEAD, [(5, "p(a)"), (5, "")], [(5, ""), (5, "p(a)")]),
        (UNTIL, [(5, "p(a)"), (5, "q(a)")], [(5, "q(a)"), (5, "p(a)")]),
        (FROM_NOW, [(5, "p(a)"), (5, "")], [(5, ""), (5, "p(a)")]),
        # when it was missing, and whether it was
        (SO_FAR, [(5, ""), (9, "q(a)")], [(6, ""), (9, "q(a)")]),
        (SO_FAR, [(5, "q(b)"), (9, "q(a)")], [(5, "q(a)"), (9, "q(a)")]),
        (FOR_EVER, [(5, "q(b)"), (9, "q(a)")], [(5, "q(a)"), (9, "q(a)")]),
        # what may decide it
        (AHEAD, [(5, "p(a)"), (9, "q(b)")], [(5, "p(a)"), (9, "q(c)")]),
        (UNTIL, [(5, "p(a)"), (6, "q(a)")], [(5, "p(a)"), (6, "q(b)")]),
        # the same rows, at one time-point or at two
        (MEET, [(5, "r(b)"), (6, "q(a)"), (9, "")], [(5, "q(a)"), (6, "r(b)"), (9, "")]),
    ],
)
def test_states_that_answer_differently_have_other_sums(text: str, left: Log, right: Log) -> None:
    first, second = contents(text, left, right)
    assert first is not None
    assert first != second


@pytest.mark.parametrize(
    "text",
    [
        *(SINCE, BOUNDED_SINCE, ONCE, EVER, SO_FAR, FOR_EVER),
        *(AHEAD, FROM_NOW, COUNT, MEET, UNTIL),
    ],
)
def test_a_sum_is_that_of_the_state_that_was_restored(text: str) -> None:
    log: Log = [(time, f"{'pqrr'[time % 4]}({'abc'[time % 3]})") for time in range(30)]
    history = history_of(file_of(text), None)
    engine = engine_of(history, log)
    state = engine.snapshot(has_texts=False)
    again = RelationalEngine(history.plan, history.plan.texts)
    again.restore(state)
    assert again.content() == engine.content()
    # states may stand further on than before, and are sound
    again = RelationalEngine(history.plan, history.plan.texts)
    again.restore(engine.snapshot(has_texts=False))
    assert again.content() == engine.content()


@pytest.mark.parametrize(
    "text",
    [
        # the numbers of time-points are values
        "FORALL u. p(u) IMPLIES NOT COUNT(ONCE[0,6] (q(u) AND point(i)) BY u) >= 2",
        # a monitor of its own decides
        "ALWAYS ((EXISTS u. p(u)) IMPLIES EVENTUALLY EXISTS v. q(v))",
    ],
)
def test_where_there_is_no_sum(text: str) -> None:
    assert contents(text, [(1, "q(a)"), (2, "p(a)")]) == [None]


@pytest.mark.parametrize(
    "text",
    [
        *(SINCE, LATER_SINCE, BOUNDED_SINCE, ONCE, EVER, SO_FAR, FOR_EVER),
        *(AHEAD, FROM_NOW, UNTIL),
    ],
)
def test_computing_again_ends_where_states_answer_alike(text: str) -> None:
    """A late event at 3 is told over again within a few chunks, and with other ordinals."""
    log = [Insert(time, frozenset({f"{'rpq'[time % 3]}({'ab'[time % 2]})"})) for time in range(60)]
    history = history_of(file_of(text), None, spacing=2)
    push(history, log)
    push(history, [Insert(3, frozenset({"r(a)"}))])
    assert history.chunked.early_stops == 1
    assert history.chunked.replayed < 30
    # and what comes after that is answered as if all had come in order
    compare(file_of(text), [log, [Insert(3, frozenset({"r(a)"}))], [Insert(20, frozenset())]], None)
