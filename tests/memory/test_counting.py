"""The bytes that structures say they hold, against what malloc has given out for them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="numpy (mtlmon[arrays]) is not installed")

from mtlmon import (  # noqa: E402
    LimitError,
    MemoryLimitError,
    Monitor,
    Monitors,
    Resolution,
    compile_formula,
    parse,
)
from mtlmon.tables import KeyedMonitors  # noqa: E402
from mtlmon.verdict_arrays import verdict_type  # noqa: E402
from tests.doors import (  # noqa: E402
    EventColumns,
    PolicyMonitors,
)
from tests.doors import expressions_bdd as bdd  # noqa: E402
from tests.memory.allocated import allocated_bytes  # noqa: E402

COUNT = 200_000
EQUIVALENT = 2
# Its bounds are too large for a configuration, so that all states are kept whole. Such a state is
# in many small blocks, for which malloc takes more than they hold.
WHOLE = f"EVENTUALLY[0,5] (p AND EVENTUALLY[0,{1 << 50}] q)"
WHOLE_SHARE = 0.25


@contextmanager
def counted(held: Any, share: float = 0.2) -> Iterator[None]:
    """What `held` returns grows within the block by what malloc has given out, about."""
    allocated_before, held_before = allocated_bytes(), held()
    yield
    allocated = allocated_bytes() - allocated_before
    grown = held() - held_before
    assert grown > 1_000_000
    assert abs(grown - allocated) <= share * allocated, (grown, allocated)


@contextmanager
def given_back(held: Any, share: float = 0.2) -> Iterator[None]:
    """What `held` returns falls within the block by what malloc gets back, about."""
    allocated_before, held_before = allocated_bytes(), held()
    yield
    freed = allocated_before - allocated_bytes()
    fallen = held_before - held()
    assert freed > 1_000_000
    assert abs(fallen - freed) <= share * freed, (fallen, freed)


@pytest.mark.parametrize(
    "operator",
    [
        "NEXT[0,{}] p",
        "PREVIOUS[0,{}] p",
        "ONCE[0,{}] p",
        "EVENTUALLY[1,{}] p",
        "PREVIOUS EVENTUALLY[1,{}] p",
    ],
)
def test_operators(operator: str) -> None:
    """Each has its place in several arrays; how large one is shows in what a thousand more take."""

    def measured(count: int) -> tuple[int, int]:
        text = " OR ".join(f"({operator.format(k)})" for k in range(1, count + 1))
        program = compile_formula(text)
        Monitor(program)
        before = allocated_bytes()
        monitor = Monitor(program)
        allocated = allocated_bytes() - before
        return allocated, monitor.counters["held_bytes"] - monitor.counters["held_formula"]

    (less, held_less), (more, held_more) = measured(500), measured(1500)
    assert held_more - held_less == pytest.approx(more - less, rel=0.1)


def test_where_expressions_are_stored() -> None:
    """They are all looked for when obligations may have become superfluous."""
    text = " OR ".join(f"(PREVIOUS[0,{k}] p)" for k in range(1, 1600))
    monitor = Monitor(f"{text} OR PREVIOUS EVENTUALLY[0,9] q")
    held_before, before = monitor.counters["held_bytes"], allocated_bytes()
    monitor.step(0)
    allocated = allocated_bytes() - before
    assert monitor.counters["held_bytes"] - held_before == pytest.approx(allocated, rel=0.1)


def run_at_random(monitor: Monitor, count: int) -> None:
    source = random.Random(3)
    time_stamp = 0
    for _ in range(count):
        time_stamp += source.choice([0, 1, 2, 5])
        monitor.step(time_stamp, [name for name in monitor.atoms if source.random() < 0.4])


SIX_ATOMS = "EVENTUALLY[0,3] (a AND b AND c AND d AND e AND f)"
SEVEN_ATOMS = "EVENTUALLY[0,3] (a AND b AND c AND d AND e AND f AND g)"
# What is kept for letters that are not columns themselves.
LETTERS = 64 * 8 + 256 * 4


@pytest.mark.parametrize(
    "formula", ["ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)", "EVENTUALLY[0,30] p", SEVEN_ATOMS]
)
def test_transitions(formula: str) -> None:
    monitor = Monitor(formula)
    held_before, before = monitor.counters["held_bytes"], allocated_bytes()
    run_at_random(monitor, 4000)
    allocated = allocated_bytes() - before
    assert monitor.counters["held_transitions"] > allocated / 3
    assert monitor.counters["held_bytes"] - held_before == pytest.approx(allocated, rel=0.1)


@pytest.mark.parametrize(
    ("formula", "letters"),
    [("EVENTUALLY[0,5] p", 0), (SIX_ATOMS, 0), (SEVEN_ATOMS, LETTERS)],
)
def test_transitions_that_are_given_up(formula: str, letters: int) -> None:
    """Nothing is left but where letters and configurations are looked up."""
    monitor = Monitor(formula)
    assert monitor.counters["held_transitions"] == letters
    run_at_random(monitor, 40)
    assert monitor.counters["held_transitions"] > letters + 1000
    monitor.max_memory = 1
    with pytest.raises(MemoryLimitError):
        monitor.step(1000)
    assert monitor.counters["held_transitions"] == letters + 4 * 64


def test_pending_time_points() -> None:
    """Without equivalences every time-point is an entry of the history."""
    monitor = Monitor("EVENTUALLY[0,5] p", "naive")
    times, letters = np.zeros(COUNT, np.int64), np.zeros(COUNT, np.uint64)
    with counted(lambda: monitor.counters["held_bytes"]):
        monitor.feed(times, letters)
    assert monitor.counters["pending"] == COUNT


def test_groups() -> None:
    """Entries of different expressions are groups, each with obligations and expressions."""
    monitor = Monitor("ALWAYS[0,1000000] (p IMPLIES EVENTUALLY[0,900000] q)", "global")
    times = np.arange(COUNT // 4)
    letters = np.ones(len(times), np.uint64)
    with counted(lambda: monitor.counters["held_bytes"]):
        monitor.feed(times, letters)


def test_open_equivalents() -> None:
    """Equivalents that are no neighbours are a run each."""
    records = np.zeros(COUNT, verdict_type())
    records["time_stamp"] = np.arange(COUNT) + 1
    records["kind"] = EQUIVALENT
    resolution = Resolution()
    with counted(lambda: resolution.held_bytes):
        resolution.push_array(records)
    assert resolution.open_count == COUNT


def test_verdicts_that_wait_for_their_turn() -> None:
    """Verdicts that are no neighbours are a node of the heap each."""
    records = np.zeros(COUNT, verdict_type())
    records["time_stamp"] = np.arange(COUNT)
    resolution = Resolution(in_order=True)
    with counted(lambda: resolution.held_bytes):
        resolution.push_array(records)


@pytest.mark.parametrize(
    ("formula", "mode"),
    [
        # A register, the number of a configuration, and a state kept whole.
        ("EVENTUALLY[0,5] p", "local"),
        ("ONCE[0,5] p", "local"),
        (WHOLE, "naive"),
    ],
)
def test_states_of_keys(formula: str, mode: str) -> None:
    is_whole = formula == WHOLE
    monitors = KeyedMonitors(formula, mode)  # type: ignore[arg-type]
    times = np.sort(np.tile(np.arange(100), COUNT // 100))
    events = EventColumns(times, COUNT)
    numbers = np.tile(np.arange(COUNT // 2, dtype=np.uint32), 2)
    with counted(lambda: monitors.held_bytes, WHOLE_SHARE if is_whole else 0.2):
        monitors.feed(events, numbers)
    assert monitors.counters["whole"] == is_whole * COUNT // 2


@pytest.mark.parametrize("formula", ["EVENTUALLY[0,5] p", WHOLE])
def test_states_of_keys_that_end(formula: str) -> None:
    count = COUNT // 10
    monitors = KeyedMonitors(formula, "naive")
    for time_stamp in range(3):
        events = EventColumns(np.full(count, time_stamp), count)
        monitors.feed(events, np.arange(count, dtype=np.uint32))
    is_whole = formula == WHOLE
    assert monitors.counters["whole"] == is_whole * count
    with given_back(lambda: monitors.held_bytes, WHOLE_SHARE if is_whole else 0.2):
        for number in range(count):
            monitors.finish(number, "inf")
    assert monitors.counters["whole"] == 0


def test_verdicts_of_one_call() -> None:
    """An event may decide more time-points than there are elsewhere: their records, and for each
    the number of its stream."""
    monitors = KeyedMonitors("EVENTUALLY[0,5] p", "naive")
    monitors.feed(EventColumns(np.zeros(COUNT, np.int64), COUNT), np.zeros(COUNT, np.uint32))
    last = EventColumns(np.zeros(1, np.int64), 1)
    last.add_letters(1, np.ones(1, np.uint64))
    with counted(lambda: monitors.held_bytes, 0.01):
        records, owners = monitors.feed(last, np.zeros(1, np.uint32))
        assert len(records) == verdict_type().itemsize * (COUNT + 1)
        del records, owners


def test_keys_that_wait_for_time() -> None:
    """A heap of them, and which are in it."""
    monitors = KeyedMonitors("EVENTUALLY[0,5] p")
    policies = PolicyMonitors([monitors], delays=[5])
    events = EventColumns(np.zeros(COUNT, np.int64), COUNT)
    with counted(lambda: monitors.held_bytes, 0.05):
        policies.feed([events], np.arange(COUNT, dtype=np.uint32))


@pytest.mark.parametrize(("atoms", "words"), [(3, 1), (64, 1), (65, 2)])
def test_events_on_their_way_to_monitors_of_keys(atoms: int, words: int) -> None:
    """Some hundred at a time, as time-stamps and letters."""
    monitors = KeyedMonitors(" AND ".join(f"a{number}" for number in range(atoms)))
    policies = PolicyMonitors([monitors])
    policies.check()
    assert policies.memory.held["buffers"] == 256 * (1 + words) * 8


def leaked_bytes(work: Callable[[], None]) -> float:
    """By how much malloc's memory grows each time, at least."""
    rounds = 20
    growths = []
    for _ in range(4):
        before = allocated_bytes()
        for _ in range(rounds):
            work()
        growths.append((allocated_bytes() - before) / rounds)
    # Some bytes are kept for the next time, some times more than at others; a leak is there always.
    return min(growths)


def feed(monitors: KeyedMonitors, time_stamp: int, numbers: range, letter: int = 0) -> None:
    """An event of each stream."""
    count = len(numbers)
    events = EventColumns(np.full(count, time_stamp, np.int64), count)
    events.add_letters(len(monitors.atoms), np.full(count, letter, np.uint64))
    monitors.feed(events, np.array(numbers, np.uint32))


STATES = [
    "EVENTUALLY[0,9] p",
    WHOLE,
    "(EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)",
    # Many time-points are pending, so that states of small streams become whole ones.
    "(EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,800] EVENTUALLY[1,300] q)",
]


@pytest.mark.parametrize("formula", STATES)
def test_monitors_of_keys_come_and_go(monkeypatch: pytest.MonkeyPatch, formula: str) -> None:
    """With streams that wait, that have ended, that were broken by an event or by their end."""

    def work() -> None:
        monitors = KeyedMonitors(formula, "naive")
        for time_stamp in range(70):
            feed(monitors, time_stamp, range(10))
        feed(monitors, 70, range(3), 3)
        feed(monitors, 80, range(10))
        for number in range(0, 10, 2):
            monitors.finish(number, 75)
        with monkeypatch.context() as patch:
            patch.setattr(bdd, "SUPPORT_LIMIT", 1)
            for number in (1, 3):
                with suppress(LimitError):
                    feed(monitors, 81, range(number, number + 1), 1)
            with suppress(LimitError):
                monitors.finish(5, 900)
        feed(monitors, 90, range(7, 10))

    assert leaked_bytes(work) < 48


@pytest.mark.parametrize("formula", STATES)
def test_streams_of_policies_come_and_go(formula: str) -> None:
    """With streams that time alone settles, that are forgotten, that the end of the log ends."""

    def work() -> None:
        monitors = [KeyedMonitors(one, "naive") for one in (formula, "p")]
        policies = PolicyMonitors(monitors, delays=[2000, 0])
        for first in (0, 5000):
            for time_stamp in range(first, first + 70):
                events = [EventColumns(np.full(20, time_stamp), 20) for _ in monitors]
                policies.feed(events, np.arange(20, dtype=np.uint32))
            if first == 0:
                policies.advance(4000)
                policies.forget_idle(4000)
        policies.finish(5100, False)

    assert leaked_bytes(work) < 600


def test_states_of_keys_of_python() -> None:
    monitors: Monitors[str] = Monitors("EVENTUALLY[0,5] p")
    keys = [str(number) for number in range(COUNT // 2)]
    held = monitors.counters["held_bytes"]
    for key in keys:
        monitors.step(key, 0)
    # The dictionary is counted, the keys are estimated.
    assert 80 * len(keys) < monitors.counters["held_bytes"] - held < 250 * len(keys)


def test_texts_of_keys() -> None:
    """An arena of texts, where each ends, and a table of numbers."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")
    from tests.doors import KeyTable, number_rows

    table = KeyTable(1)
    texts = pa.array([f"user-{number}@example.org" for number in range(COUNT)])
    with counted(lambda: table.held_bytes):
        number_rows(table, [texts])
    assert len(table) == COUNT


def test_events_that_are_sorted() -> None:
    from tests.doors import EventSorter

    with EventSorter(1) as sorter:
        times = np.arange(COUNT)[::-1].copy()
        words = np.zeros((COUNT, 1), np.uint64)
        with counted(lambda: sorter.held_bytes):
            sorter.add(times, [None], words)


def test_logs_that_are_read() -> None:
    """Each has a memo of lines that come again. The names of atoms are not counted."""
    from tests.doors import TextEvents

    readers: list[TextEvents] = []
    with counted(lambda: sum(one.held_bytes for one in readers), share=0.25):
        readers += [TextEvents(("p",)) for _ in range(100)]


def test_the_beginning_of_a_line() -> None:
    """It is kept until its end arrives."""
    from tests.doors import TextEvents

    events = TextEvents(("p",))
    beginning = b"@1 ".ljust(3_000_000, b"x")
    with counted(lambda: events.held_bytes):
        events.load(beginning)
        events.read()


def test_prefixes_of_verdicts() -> None:
    """The streams of a text of verdicts, each with an open time-point."""
    from tests.doors import TextResolver

    resolver = TextResolver()
    text = b"".join(b"stream-%d\t1:1 = 1:0\n" % number for number in range(COUNT // 2))

    def held() -> int:
        return sum(resolver.memory.held.values())

    resolver.run()
    with counted(held):
        resolver.load(text)
        while resolver.run():
            pass
        resolver.unload()


def test_the_formula_is_estimated() -> None:
    """The objects of Python are not looked into: a measured number of bytes for each node."""
    import tracemalloc

    from tests.doors import formula_bytes

    parse("p UNTIL[0,5] q")
    text = " AND ".join(f"(a{k} IMPLIES EVENTUALLY[{k},{k + 400}] b{k})" for k in range(1000))
    tracemalloc.start()
    try:
        formula = parse(text)
        traced = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert traced / 2 < formula_bytes(formula) < 2 * traced
