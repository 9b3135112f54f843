"""States of the queue network: one form each, whatever happened before; small, however long."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon import Formula, Monitor, resolve
from tests import strategies
from tests.comparison import compare_restored, shift
from tests.engines import fits_network, with_expressions, with_network
from tests.properties import Timeline
from tests.soak import GAPS, RATES, Generator
from tests.traces import Advance, Event, Mode, Step, Trace

# Times from here on have no place in the transition table, so that only the network runs.
BEYOND_THE_TABLE = 2**48

_by_mode = pytest.mark.parametrize("mode", ["naive", "local"])


def trace(source: random.Random, count: int, shares: dict[str, float]) -> Trace:
    clock = 0
    steps: list[Step] = []
    for _ in range(count):
        clock += source.choice([0, 1, 1, 2])
        if source.random() < 0.02:
            steps.append(Advance(clock))
        else:
            names = frozenset(name for name, share in shares.items() if source.random() < share)
            steps.append(Event(clock, names))
    return tuple(steps)


@settings(max_examples=200)
@given(
    st.one_of(strategies.bounded_formulas(), strategies.compounds(), strategies.sandwiches()),
    strategies.traces(maximum_length=14, advances=True),
    st.sampled_from([0, BEYOND_THE_TABLE]),
    st.sampled_from(["naive", "local"]),
)
def test_a_state_has_one_form(formula: Formula, steps: Trace, base: int, mode: Mode) -> None:
    assume(fits_network(formula))
    compare_restored(with_network(formula), shift(Timeline(steps), base).steps, mode)


@settings(max_examples=100)
@given(
    strategies.formulas(widths=strategies.huge_intervals()),
    strategies.huge_traces(),
    st.sampled_from(["naive", "local"]),
)
def test_a_state_has_one_form_at_huge_times(formula: Formula, steps: Trace, mode: Mode) -> None:
    assume(fits_network(formula))
    compare_restored(with_network(formula), steps, mode)


@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("rate", RATES)
def test_event_rates_and_gaps(rate: int, gaps: str) -> None:
    generator = Generator(900 * rate + len(gaps))
    for _ in range(8):
        formula, steps, _ = generator.rated_example(rate, gaps)
        if fits_network(formula):
            for mode in ("naive", "local"):
                for base in (0, BEYOND_THE_TABLE):
                    compare_restored(
                        with_network(formula), shift(Timeline(steps), base).steps, mode
                    )


# Found by hunting.


@_by_mode
@pytest.mark.parametrize(
    ("formula", "events"),
    [
        # What lies before the second time-stamp matters to nobody, as p does not hold there.
        ("p AND PREVIOUS[0,2] EVENTUALLY[1,3] p", [(0, ""), (1, ""), (2, "")]),
        # At 5 the window of 0 is over, but what follows up to 10 still decides it. So time alone
        # brings nothing before 9, where the window of 4 is over.
        ("ALWAYS[0,4] EVENTUALLY[4,6] q", [(0, ""), (4, "q"), (5, ""), (5, ""), (9, "")]),
    ],
)
def test_forms_that_differed(formula: str, events: list[tuple[int, str]], mode: Mode) -> None:
    for base in (0, BEYOND_THE_TABLE):
        steps = tuple(Event(base + time, frozenset(names)) for time, names in events)
        compare_restored(with_network(formula), steps, mode)


# Rings of more than 64 and of more than 4096 blocks, which are moved as time goes on.

WIDE = [
    "EVENTUALLY[0,300] p",
    "ALWAYS[0,90] (p IMPLIES EVENTUALLY[30,200] q)",
    "ONCE[0,300] ALWAYS[50,150] p",
    "(EVENTUALLY[50,300] p) SINCE[10,400] (EVENTUALLY[40,250] q)",
    "(ONCE[0,9] p) UNTIL[20,300] (PREVIOUS[0,2] EVENTUALLY[3,90] q)",
    "EVENTUALLY[0,200] (q AND NEXT[0,3] NEXT[1,2] NOT p)",
]


@pytest.mark.parametrize("base", [0, BEYOND_THE_TABLE])
@_by_mode
@pytest.mark.parametrize("formula", WIDE)
def test_more_than_64_blocks(formula: str, mode: Mode, base: int) -> None:
    for share in (0.004, 0.05, 0.996):
        source = random.Random(f"{formula}{share}")
        steps = trace(source, 800, {"p": share, "q": 0.01})
        steps = shift(Timeline(steps), base).steps
        compare_restored(with_network(formula), steps, mode, every=23)


@pytest.mark.parametrize("formula", WIDE)
def test_more_than_64_blocks_against_expressions(formula: str) -> None:
    source = random.Random(formula)
    network, expressions = (
        Monitor(program, "naive") for program in (with_network(formula), with_expressions(formula))
    )
    most = 0
    for step in trace(source, 300, {"p": 0.9, "q": 0.02}):
        if isinstance(step, Event):
            found = network.step(step.time_stamp, step.atoms)
            assert found == expressions.step(step.time_stamp, step.atoms)
            most = max(most, network.counters["pending"])
    assert network.finish("inf") == expressions.finish("inf")
    assert most > 0


@pytest.mark.parametrize("base", [0, BEYOND_THE_TABLE])
def test_more_than_4096_blocks(base: int) -> None:
    """Each verdict is right and comes when it is due, also from a monitor that was restored."""
    source = random.Random(7)
    always, lower, upper = 5000, 300, 9000
    clock = base
    log = []
    for _ in range(16_000):
        clock += source.choice([1, 1, 2])
        log.append((clock, source.random() < 0.0005, source.random() < 0.0005))
    program = with_network(f"ALWAYS[0,{always}] (p IMPLIES EVENTUALLY[{lower},{upper}] q)")
    monitor = Monitor(program, "naive")
    found = {}
    most = 0
    for number, (time, p, q) in enumerate(log):
        for verdict in monitor.step(time, ["p"] * p + ["q"] * q):
            found[verdict.time_stamp] = (verdict.value, number)
        if number % 3000 == 2999:
            most = max(most, len(monitor.pending))
            snapshot = monitor.snapshot()
            other = Monitor(program, "naive")
            other.restore(snapshot)
            assert other.snapshot() == snapshot
            monitor = other
    assert most > 4096
    assert found == due(log, always, lower, upper)


def due(
    log: list[tuple[int, bool, bool]], always: int, lower: int, upper: int
) -> dict[int, tuple[bool, int]]:
    """The verdicts of ALWAYS[0,always] (p IMPLIES EVENTUALLY[lower,upper] q), and their events."""
    never = len(log)
    times = [time for time, _, _ in log]
    of_q = [time for time, _, q in log if q]
    known_good, known_bad = [], []
    for number, (time, p, _) in enumerate(log):
        place = bisect_left(of_q, time + lower)
        witness = of_q[place] if place < len(of_q) else None
        is_over = bisect_right(times, time + upper)
        good, bad = number if not p else never, never
        if p and witness is not None and witness <= time + upper:
            good = bisect_left(times, witness)
        elif p:
            bad = is_over
        known_good.append(good)
        known_bad.append(bad)
    expected = {}
    for number, time in enumerate(times):
        end = bisect_right(times, time + always)
        violated = min(known_bad[number:end])
        holds = max(end, *known_good[number:end])
        if violated < never:
            expected[time] = (False, violated)
        elif holds < never:
            expected[time] = (True, holds)
    return expected


# The automaton of open blocks: also with more letters and states than it has room for.

LETTERS = tuple(f"a{k}" for k in range(13))
ANY_LETTER = (
    f"ALWAYS[0,6] (({' OR '.join(LETTERS[:10])}) IMPLIES"
    f" EVENTUALLY[1,4] ({' AND '.join(LETTERS[10:12])} AND NOT {LETTERS[12]}))"
)
# Each event of a time-stamp has a class of its own.
MANY_CLASSES = (
    "ALWAYS[0,9] ("
    + " AND ".join(f"(a{k} IMPLIES EVENTUALLY[{k + 1},{k + 9}] (b OR a{k + 1}))" for k in range(6))
    + ")"
)


@pytest.mark.parametrize("rate", [1, 40])
@pytest.mark.parametrize("formula", [ANY_LETTER, MANY_CLASSES])
@_by_mode
def test_more_letters_and_states_than_the_automaton_keeps(
    formula: str, mode: Mode, rate: int
) -> None:
    source = random.Random(rate)
    network = Monitor(with_network(formula), mode)
    others = Monitor(with_expressions(formula), "naive")
    found, expected = {}, {}
    equal = []
    for number in range(9000):
        time = BEYOND_THE_TABLE + number // rate
        letter = {name for name in (*LETTERS, "b") if source.random() < 0.4}
        for verdict in network.step(time, letter):
            if verdict.ref is None:
                found[verdict.time_stamp, verdict.offset] = (verdict.value, number)
            else:
                equal.append(((verdict.time_stamp, verdict.offset), verdict.ref))
        for verdict in others.step(time, letter):
            expected[verdict.time_stamp, verdict.offset] = (verdict.value, number)
    for later, earlier in equal:
        assert expected.get(later) == expected.get(earlier)
        found[later] = expected.get(later, (None, 0))
    assert {point: value for point, value in found.items() if value[0] is not None} == expected


# Sizes.


@_by_mode
@pytest.mark.parametrize(
    "formula",
    [
        "ONCE[0,2592000] p",
        "ONCE[0,2592000] EVENTUALLY[0,60] p",
        "HISTORICALLY (p IMPLIES EVENTUALLY[0,5] q)",
    ],
)
@pytest.mark.parametrize("gap", [0, 1, 7])
def test_a_state_with_nothing_undecided_is_small(formula: str, mode: Mode, gap: int) -> None:
    source = random.Random(formula)
    monitor = Monitor(with_network(formula), mode)
    clock = 1000
    for _ in range(20_000):
        clock += source.choice([0, gap])
        monitor.step(clock, [name for name in "pq" if source.random() < 0.4])
    monitor.step(clock, ["p", "q"])
    assert monitor.pending == []
    assert len(monitor.snapshot()) <= 64
    monitor.step(clock + 10, ["q"])
    assert monitor.advance(clock + 100) != [] or monitor.pending == []
    assert len(monitor.snapshot()) <= 64


def test_the_states_of_keys_have_one_form() -> None:
    """Policies that are restored after each batch have the same snapshots as undisturbed ones."""
    np = pytest.importorskip("numpy", reason="numpy (mtlmon[arrays]) is not installed")
    from mtlmon.tables import KeyedMonitors
    from tests.doors import EventColumns, PolicyMonitors, policies_snapshot, restore_policies

    formulas = [with_network(formula) for formula in WIDE]

    def make() -> PolicyMonitors:
        return PolicyMonitors([KeyedMonitors(formula, "local") for formula in formulas])

    source = random.Random(5)
    undisturbed, restored = make(), make()
    clock = 0
    for _ in range(40):
        numbers = np.array([source.randrange(3) for _ in range(source.randrange(60))], np.uint32)
        times = []
        for _ in numbers:
            clock += source.choice([0, 0, 1, 2])
            times.append(clock)
        columns = {
            name: np.array([source.random() < share for _ in numbers], bool)
            for name, share in (("p", 0.9), ("q", 0.05))
        }
        verdicts = []
        for policies in (undisturbed, restored):
            batches = []
            for formula in formulas:
                events = EventColumns(np.array(times, np.int64), len(times))
                for place, name in enumerate(formula.atoms):
                    events.add_bytes(place, columns[name])
                batches.append(events)
            policies.feed(batches, numbers)
            verdicts.append(policies.verdicts.taken())
        assert verdicts[0] == verdicts[1]
        assert policies_snapshot(undisturbed) == policies_snapshot(restored)
        snapshot = policies_snapshot(restored)
        restored = make()
        restore_policies(restored, snapshot)


def test_almost_as_many_blocks_as_three_levels_of_bits_take() -> None:
    count = 64**3 - 44
    monitor = Monitor(with_network("EVENTUALLY[0,300000] NEXT[0,1] p"))
    assert list(monitor((time_stamp, ()) for time_stamp in range(count))) == []
    verdicts = monitor.step(count, {"p"})
    assert [verdict.time_stamp for verdict in verdicts] == list(range(count))
    assert all(verdict.value for verdict in verdicts)


def test_blocks_that_matter_far_from_each_other() -> None:
    """Sets of blocks have summaries of summaries, which grow with them.

    Each stretch of blocks ends with one that decides those before it, at the very end: one stretch
    is true, the next one false.
    """
    count, distance = 300_000, 20_000
    time_stamps = np.arange(count)
    r, s, t, q = (np.zeros(count, np.bool_) for _ in range(4))
    r[distance - 1 :: distance] = True
    s[distance - 2 :: 2 * distance] = True
    t[2 * distance - 2 :: 2 * distance] = True
    q[-1] = True
    later = f"EVENTUALLY[0,{count}] q"
    formula = f"(NOT r) UNTIL[0,{count}] ((s AND {later}) OR (t AND NOT {later}))"
    monitor = Monitor(with_network(formula), "naive")
    found = monitor.feed(time_stamps, {"r": r, "s": s, "t": t, "q": q})
    assert monitor.pending == []
    order = np.argsort(found.time_stamp)
    assert np.array_equal(found.time_stamp[order], time_stamps)
    assert np.array_equal(found.kind[order] == 1, ~r & (time_stamps // distance % 2 == 0))


@settings(max_examples=200)
@given(
    st.one_of(strategies.bounded_formulas(), strategies.compounds(), strategies.sandwiches()),
    strategies.traces(maximum_length=8),
    st.sampled_from(["naive", "local"]),
)
def test_an_end_is_that_of_expressions(formula: Formula, steps: Trace, mode: Mode) -> None:
    assume(fits_network(formula))
    found = []
    for program in (with_network(formula), with_expressions(formula)):
        monitor = Monitor(program, "naive" if mode == "naive" else "local")
        verdicts = [
            verdict
            for step in steps
            if isinstance(step, Event)
            for verdict in monitor.step(step.time_stamp, step.atoms)
        ]
        verdicts += monitor.finish("inf")
        assert monitor.pending == []
        found.append(sorted(map(str, resolve(verdicts))))
    assert found[0] == found[1]
