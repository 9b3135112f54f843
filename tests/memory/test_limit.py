"""Limits on the memory that mtlmon's own structures hold."""

from __future__ import annotations

import copy
import pickle
import random
import re
from collections.abc import Callable

import pytest

from mtlmon import (
    LimitError,
    MemoryLimitError,
    Monitor,
    MonitorBrokenError,
    Monitors,
    MtlmonError,
    Program,
    Resolution,
    Verdict,
    resolve,
)
from tests.doors import CATEGORIES, MemoryLimit, TextMonitor, memory_size
from tests.engines import with_expressions, with_network

Events = list[tuple[int, frozenset[str]]]


def random_events(count: int, rate: int = 2, share: float = 0.4) -> Events:
    source = random.Random(7)
    return [
        (k // rate, frozenset(name for name in "pqr" if source.random() < share))
        for k in range(count)
    ]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1, 1), ("1", 1), ("4096", 4096), ("1B", 1), ("3K", 3 << 10), ("3k", 3 << 10),
        ("500M", 500 << 20), ("500m", 500 << 20), ("2G", 2 << 30), ("1T", 1 << 40),
        ("512MiB", 512 << 20), ("512mib", 512 << 20), ("2 GB", 2 * 10**9), ("5kB", 5000),
        ("1.5G", 3 << 29), (" 7M ", 7 << 20), ("0.5KiB", 512),
    ],
)  # fmt: skip
def test_sizes(text: int | str, size: int) -> None:
    """As GNU's tools read them: K is 1024, KB is 1000, KiB is 1024."""
    assert memory_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "M", "0", "0.1", "-5", "5X", "1e9", "50%", "1,5G", "5MM", "5 0", 0, -1, 2.5, b"5M"]
)
def test_what_is_no_size(text: object) -> None:
    with pytest.raises(MtlmonError, match=r"500M|at least one byte"):
        memory_size(text)  # type: ignore[arg-type]
    with pytest.raises(MtlmonError):
        Monitor("p", max_memory=text)  # type: ignore[arg-type]


def test_step_beyond_the_limit() -> None:
    """The event is done, its verdicts are in the error, and the state can be saved."""
    monitor = Monitor("q OR EVENTUALLY[0,5] p", "naive", max_memory="1M")
    assert monitor.max_memory == 1 << 20
    with pytest.raises(MemoryLimitError) as caught:
        while True:
            monitor.step(0)
    error = caught.value
    assert isinstance(error, LimitError)
    assert error.limit == 1 << 20
    assert max(error.held, key=lambda name: error.held[name]) == "pending"
    assert sum(error.held.values()) > error.limit
    assert "memory limit of 1 MiB is exceeded" in str(error)
    assert "by undecided time-points; allow more memory with max_memory=, or" in str(error)
    events = monitor.counters["events"]
    assert events == monitor.counters["pending"]
    # No further event is taken, so the memory does not grow.
    for _ in range(3):
        with pytest.raises(MemoryLimitError):
            monitor.step(0, {"q"})
    assert monitor.counters["events"] == events
    again = Monitor("q OR EVENTUALLY[0,5] p", "naive")
    again.restore(monitor.snapshot())
    assert again.step(0, {"q"}) == [verdict_of(f"0:{events} true")]
    monitor.max_memory = "50M"
    assert monitor.step(0, {"q"}) == [verdict_of(f"0:{events} true")]
    monitor.max_memory = None
    assert monitor.max_memory is None
    assert len(monitor.step(0, {"p"})) == events + 1


def verdict_of(text: str) -> Verdict:
    """The verdict of a line `TS:OFFSET true`."""
    place = text.split(maxsplit=1)[0]
    time_stamp, offset = map(int, place.split(":"))
    monitor = Monitor("p")
    for _ in range(offset):
        monitor.step(time_stamp)
    (verdict,) = monitor.step(time_stamp, {"p"})
    return verdict


def test_the_verdicts_of_the_event_are_in_the_error() -> None:
    """Where the last straw is an event that decides something, nothing of that is lost."""
    monitor = Monitor("p OR EVENTUALLY[0,5] q", "naive", max_memory="300K")
    verdicts: list[Verdict] = []
    with pytest.raises(MemoryLimitError) as caught:
        for k in range(20_000):
            verdicts += monitor.step(0, {"p"} if k % 2 else ())
    verdicts += caught.value.verdicts  # type: ignore[arg-type]
    counters = monitor.counters
    assert len(verdicts) == counters["true"] == counters["events"] - counters["pending"]


def test_feed_beyond_the_limit() -> None:
    np = pytest.importorskip("numpy", reason="numpy (mtlmon[arrays]) is not installed")
    monitor = Monitor("p OR EVENTUALLY[0,5] q", "naive", max_memory="300K")
    letters = np.arange(20_000) % 2
    with pytest.raises(MemoryLimitError) as caught:
        monitor.feed(np.zeros(len(letters), np.int64), letters.astype(np.uint64))
    done = monitor.counters["events"]
    assert 1000 < done < len(letters)
    assert len(caught.value.verdicts) == done // 2  # type: ignore[arg-type]
    monitor.max_memory = "100M"
    rest = letters[done:]
    verdicts = monitor.feed(np.zeros(len(rest), np.int64), rest.astype(np.uint64))
    assert len(verdicts) == len(letters) // 2 - done // 2


def test_a_stream_of_events_beyond_the_limit() -> None:
    events = [(0, ())] * 20_000
    with pytest.raises(MemoryLimitError):
        list(Monitor("EVENTUALLY[0,5] p", "naive", max_memory="300K")(events))


def test_a_formula_beyond_the_limit() -> None:
    with pytest.raises(MemoryLimitError, match="memory limit of 50 KiB"):
        Monitor(" AND ".join(f"(NEXT a{k})" for k in range(1000)), max_memory="50K")


def growing_formula() -> str:
    """One whose expressions take much memory at the first event.

    The variables of a BDD are in the order in which they first occur, here all x before all y; then
    the disjunction of the pairs of an x and a y takes 2^n nodes.
    """
    count = 16
    xs = [f"(EVENTUALLY[0,{k + 5}] x{k})" for k in range(count)]
    ys = [f"(EVENTUALLY[0,{k + 5}] y{k})" for k in range(count)]
    order = " AND ".join(f"({' EQUIV '.join(names)})" for names in (xs, ys))
    pairs = " OR ".join(f"({x} AND {y})" for x, y in zip(xs, ys, strict=True))
    return f"ONCE (({order}) AND ({pairs}))"


def test_a_single_event_that_grows_without_end() -> None:
    """The expressions of one event are looked at while they grow; that event breaks the monitor."""
    formula = growing_formula()
    free = Monitor(formula, "global")
    free.step(0)
    assert free.counters["held_expressions"] > 8_000_000
    monitor = Monitor(formula, "global", max_memory="2M")
    with pytest.raises(MemoryLimitError, match="by the expressions of undecided time-points"):
        monitor.step(0)
    assert monitor.counters["held_expressions"] < 8_000_000
    with pytest.raises(MonitorBrokenError):
        monitor.step(1)
    monitor.reset()
    assert monitor.counters["held_bytes"] < 2_000_000


def test_expressions_grow_less_where_others_hold_memory() -> None:
    formula = growing_formula()
    grown = []
    for share in (0.9, 0):
        limit = MemoryLimit(8 << 20)
        limit.note("streams", int(share * (8 << 20)))
        text = TextMonitor(Monitor(formula, "global"), memory=limit)
        text.load(b"@0\n")
        with pytest.raises(MemoryLimitError) as caught:
            text.run()
        found = re.search(r"([0-9.]+) MiB of them by the expressions", str(caught.value))
        assert found is not None
        grown.append(float(found[1]))
    assert grown[0] < grown[1]


FORMULAS = [
    "ALWAYS[0,30] (p IMPLIES EVENTUALLY[0,10] q)",
    "p UNTIL[3,40] (q SINCE[2,9] (EVENTUALLY[1,7] r))",
    "(EVENTUALLY[0,9] p) SINCE[0,20] ((NEXT q) OR NOT EVENTUALLY[2,12] (p AND q))",
]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("mode", ["local", "global", "naive"])
def test_tables_for_speed_give_way(formula: str, mode: str) -> None:
    """A small limit makes them small; the verdicts are the same."""
    events = random_events(6000)
    free = Monitor(formula, mode)  # type: ignore[arg-type]
    expected = [free.step(*event) for event in events]
    most = free.counters["held_bytes"]
    limits = [int(most * share) for share in (1.1, 0.8, 0.6)]
    finished = 0
    for limit in limits:
        monitor = Monitor(formula, mode, max_memory=limit)  # type: ignore[arg-type]
        try:
            assert [monitor.step(*event) for event in events] == expected
        except MemoryLimitError:
            continue
        finished += 1
        assert monitor.counters["held_bytes"] <= limit
    assert finished >= 2


def test_counters_show_what_is_held() -> None:
    counters = Monitor("EVENTUALLY[0,5] p").counters
    parts = {name: size for name, size in counters.items() if name.startswith("held_")}
    total = parts.pop("held_bytes")
    assert total == sum(parts.values()) > 0
    assert set(parts) <= {f"held_{name}" for name in CATEGORIES}


def test_copies_keep_the_limit() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p", max_memory="5M")
    monitor.step(0)
    for other in (copy.copy(monitor), pickle.loads(pickle.dumps(monitor))):
        assert other.max_memory == 5 << 20
    assert Monitor("p").max_memory is None


def test_reset_makes_room() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p", "naive", max_memory="1M")
    with pytest.raises(MemoryLimitError):
        while True:
            monitor.step(0)
    monitor.reset()
    assert monitor.step(0) == []


def test_errors_pickle() -> None:
    """As those of worker processes have to."""
    with pytest.raises(MemoryLimitError) as caught:
        Monitor("p", max_memory=1)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (str(error), error.limit, error.held) == (str(caught.value), 1, caught.value.held)


def test_monitors_beyond_the_limit() -> None:
    """The limit is common to all streams; forgetting some makes room."""
    monitors: Monitors[int] = Monitors("EVENTUALLY[0,5] p", max_memory="1M")
    with pytest.raises(MemoryLimitError) as caught:
        for key in range(100_000):
            monitors.step(key, 0)
    assert {"key_states", "keys"} <= caught.value.held.keys()
    assert "by the states of keys" in str(caught.value)
    count = len(monitors)
    assert 1000 < count < 100_000
    # Giving up the transition table has made a little room, which is soon used up.
    with pytest.raises(MemoryLimitError):
        for key in range(-100_000, 0):
            monitors.step(key, 0)
    assert len(monitors) < 2 * count


@pytest.mark.parametrize("make", [with_expressions, with_network])
def test_monitors_of_keys_give_up_what_they_can_do_without(
    make: Callable[[str], Program],
) -> None:
    """Transitions, and expressions that no stream needs any more; then they go on as before."""
    np = pytest.importorskip("numpy", reason="numpy (mtlmon[arrays]) is not installed")
    from mtlmon.tables import KeyedMonitors
    from tests.doors import EventColumns, MemoryLimit, PolicyMonitors

    source = random.Random(3)
    formula = "(EVENTUALLY[0,90] q) SINCE[0,200] (p OR PREVIOUS EVENTUALLY[30,150] r)"
    memory = MemoryLimit()
    monitors = KeyedMonitors(make(formula), "naive")
    policies = PolicyMonitors([monitors], memory=memory)
    apart = [Monitor(formula, "naive") for _ in range(4)]
    clock = 0
    expected = 0

    def resume(count: int) -> None:
        nonlocal clock, expected
        times, held = [], []
        numbers = [source.randrange(len(apart)) for _ in range(count)]
        for number in numbers:
            clock += source.choice([0, 0, 1, 1, 2])
            names = {name for name in "pqr" if source.random() < 0.1}
            expected += len(apart[number].step(clock, names))
            times.append(clock)
            held.append(names)
        events = EventColumns(np.array(times, np.int64), count)
        for place, name in enumerate(monitors.atoms):
            events.add_bytes(place, np.array([name in names for names in held]))
        policies.feed([events], np.array(numbers, np.uint32))

    resume(150)
    policies.check()
    before = memory.held
    counters = monitors.counters
    memory.limit = sum(before.values()) - 1
    policies.check()
    assert memory.held["transitions"] < before["transitions"] / 10
    if make is with_expressions:
        assert memory.held["expressions"] < before["expressions"] * 0.6
    assert monitors.counters["compactions"] == counters["compactions"] + 1
    assert monitors.counters["table_flushes"] == counters["table_flushes"] + 1
    memory.limit = None
    resume(150)
    assert len(policies.verdicts) == expected
    for number, monitor in enumerate(apart):
        assert monitors.pending(number) == monitor.pending
    assert monitors.counters["true"] == sum(one.counters["true"] for one in apart)


def test_resolution_beyond_the_limit() -> None:
    """All that the call has resolved is in the error."""
    monitor = Monitor("EVENTUALLY[0,100000] p", "global")
    resolution = Resolution(max_memory="100K")
    with pytest.raises(MemoryLimitError, match="equivalence is not resolved yet") as caught:
        for time_stamp in range(0, 100_000, 2):
            resolution.push(monitor.step(time_stamp) + monitor.step(time_stamp))
    assert caught.value.verdicts == []
    assert 500 < resolution.open_count < 20_000


def test_resolving_an_iterable_beyond_the_limit() -> None:
    events = [(time_stamp // 2, ()) for time_stamp in range(100_000)]
    stream = Monitor("EVENTUALLY[0,100000] p")(events)
    with pytest.raises(MemoryLimitError):
        list(resolve(stream, max_memory="100K"))


def test_verdicts_in_order_beyond_the_limit() -> None:
    """Without monitor or reach, everything waits for the end."""
    monitor = Monitor("p")
    resolution = Resolution(in_order=True, max_memory="100K")
    with pytest.raises(MemoryLimitError, match="wait for their turn"):
        for time_stamp in range(100_000):
            resolution.push(monitor.step(time_stamp))
