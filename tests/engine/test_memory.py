"""What a monitor keeps: bounded by formula and distinct time-stamps, whatever the log."""

from __future__ import annotations

import random

import pytest

from mtlmon import LimitError, Monitor, MonitorBrokenError, Program
from tests.doors import expressions_bdd as bdd
from tests.engines import with_expressions, with_network

FORMULAS = {
    "EVENTUALLY[0,5] p": 6,
    "p UNTIL[2,5] q": 12,
    "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)": 14 * 8,
    "ALWAYS[0,4] ((p AND NEXT q) IMPLIES EVENTUALLY[1,3] (q SINCE[0,2] p))": 8 * 64,
}


def program_of(formula: str, has_network: bool) -> Program:
    return with_network(formula) if has_network else with_expressions(formula)


def peak_pending(formula: str, mode: str, events: int, rate: int) -> int:
    source = random.Random(5)
    monitor = Monitor(formula, mode)  # type: ignore[arg-type]
    peak = 0
    for number in range(events):
        monitor.step(number // rate, {name for name in "pq" if source.random() < 0.3})
        if number % 50 == 0:
            peak = max(peak, len(monitor.pending))
    return peak


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("mode", ["local", "global"])
def test_pending_does_not_grow_with_the_event_rate(formula: str, mode: str) -> None:
    assert peak_pending(formula, mode, 20_000, 1000) <= FORMULAS[formula]
    assert peak_pending(formula, mode, 20_000, 1) <= FORMULAS[formula]


@pytest.mark.parametrize(
    "formula",
    [
        "EVENTUALLY q",
        "ALWAYS (p IMPLIES EVENTUALLY[0,3] q)",
        "p UNTIL[5,*) (q AND NEXT p)",
        "ALWAYS[3,*) (p OR ONCE EVENTUALLY[2,*) q)",
    ],
)
@pytest.mark.parametrize("mode", ["local", "global"])
def test_pending_is_bounded_with_unbounded_formulas(formula: str, mode: str) -> None:
    assert peak_pending(formula, mode, 10_000, 1) <= 64


@pytest.mark.parametrize("back_end", ["auto", "autoref"])
def test_thousands_of_obligations_in_cubes_and_clauses(back_end: str) -> None:
    monitor = Monitor("ONCE[0,9000] ALWAYS[3000,6000] p", bdd=back_end)  # type: ignore[arg-type]
    for time_stamp in range(2500):
        monitor.step(time_stamp)
    assert len(monitor.pending) == 2500
    assert [str(verdict) for verdict in monitor.advance(6001)][:1] == ["0:0 true"]


def wide(count: int) -> str:
    """A formula that is a BDD over twice as many obligations at the first event."""
    return " OR ".join(f"(EVENTUALLY[0,5] a{i}) AND (EVENTUALLY[0,5] b{i})" for i in range(count))


def test_a_bdd_of_thousands_of_obligations() -> None:
    monitor = Monitor(wide(600))
    assert monitor.step(0) == []
    assert monitor.step(1, {"a599"}) == []
    verdicts = [str(verdict) for verdict in monitor.step(2, {"b599"})]
    assert verdicts == ["0:0 true", "1:0 true"]


def test_beyond_the_limit_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bdd, "SUPPORT_LIMIT", 600)
    monitor = Monitor(wide(301))
    with pytest.raises(LimitError, match="too many for a BDD; use a smaller interval"):
        monitor.step(0)
    with pytest.raises(MonitorBrokenError, match="start a new one"):
        monitor.step(1)


def test_the_limit_holds_for_both_back_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bdd, "SUPPORT_LIMIT", 600)
    for back_end in ("auto", "autoref"):
        Monitor(wide(300), bdd=back_end).step(0)
        with pytest.raises(LimitError):
            Monitor(wide(301), bdd=back_end).step(0)


@pytest.mark.parametrize("back_end", ["auto", "autoref"])
@pytest.mark.parametrize(
    "formula",
    [
        # BDDs, and long clauses.
        "ALWAYS[0,20] ((EVENTUALLY[3,9] p) OR (EVENTUALLY[2,11] q))",
        "ONCE[0,200] ALWAYS[50,100] p",
    ],
)
def test_compaction_changes_no_verdict(formula: str, back_end: str) -> None:
    outputs = []
    program = with_expressions(formula)
    for mode in ("local", "naive"):
        source = random.Random(11)
        monitor = Monitor(program, mode, bdd=back_end)  # type: ignore[arg-type]
        values: dict[tuple[int, int], bool | None] = {}
        for time_stamp in range(600):
            atoms = {name for name in "pq" if source.random() < 0.08}
            for verdict in monitor.step(time_stamp, atoms):
                values[verdict.time_stamp, verdict.offset] = verdict.value
        assert monitor.counters["compactions"] > 1
        outputs.append(values)
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 500


@pytest.mark.parametrize("has_network", [False, True])
@pytest.mark.parametrize("upper", [10**6, 1 << 60])
@pytest.mark.parametrize("is_far", [False, True])
def test_obligations_that_nothing_mentions_are_forgotten(
    upper: int, is_far: bool, has_network: bool
) -> None:
    """Each event brings one more, of no interest as long as p does not hold.

    With the larger bound, states are not kept in the transition table.
    """
    interval = f"[{upper - 10 if is_far else 0},{upper}]"
    formula = f"ALWAYS[0,10] (p IMPLIES EVENTUALLY{interval} q)"
    monitor = Monitor(program_of(formula, has_network))
    for time_stamp in range(3000):
        monitor.step(time_stamp)
    # The network has room for 128 time-stamps at least once it has seen more than 64.
    assert monitor.counters["held_operators"] < (17_000 if has_network else 10_000)


def test_what_only_previous_asked_for_is_forgotten() -> None:
    """At each time-stamp, until the other operand is known to fail 3 later."""
    formula = "(PREVIOUS[0,9] EVENTUALLY[0,900] p) AND EVENTUALLY[0,3] q"
    monitor = Monitor(program_of(formula, True))
    for time_stamp in range(400):
        monitor.step(time_stamp)
    assert monitor.counters["pending"] == 4
    assert len(monitor.snapshot()) < 300


@pytest.mark.parametrize("has_network", [False, True])
def test_obligations_that_are_met_or_missed_at_once_take_no_place(has_network: bool) -> None:
    monitor = Monitor(program_of("ALWAYS[0,10] ((p UNTIL[0,100] q) OR NEXT[0,1] p)", has_network))
    if has_network:
        # It has room for 64 time-stamps from the first one on, and soon for 128.
        for time_stamp in range(65):
            monitor.step(time_stamp)
    held = monitor.counters["held_operators"]
    for time_stamp in range(66, 466, 2):
        monitor.step(time_stamp, {"q"} if time_stamp % 3 else ())
    assert monitor.counters["held_operators"] == held


def test_little_is_not_worth_compacting() -> None:
    monitor = Monitor("ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)")
    for time_stamp in range(100):
        monitor.step(time_stamp, {"pq"[time_stamp % 2]})
    assert monitor.counters["compactions"] == 0
