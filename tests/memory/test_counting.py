"""The bytes that structures say they hold, against what malloc has given out for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="numpy (mtlmon[arrays]) is not installed")

from mtlmon import Monitor, Monitors, Resolution, parse  # noqa: E402
from mtlmon._arrays import EventColumns  # noqa: E402
from mtlmon._keyed import KeyedMonitors  # noqa: E402
from mtlmon.verdict_arrays import verdict_type  # noqa: E402
from tests.memory.allocated import allocated_bytes  # noqa: E402

COUNT = 200_000
EQUIVALENT = 2


@contextmanager
def counted(held: Any, share: float = 0.2) -> Iterator[None]:
    """What `held` returns grows within the block by what malloc has given out, about."""
    allocated_before, held_before = allocated_bytes(), held()
    yield
    allocated = allocated_bytes() - allocated_before
    grown = held() - held_before
    assert grown > 1_000_000
    assert abs(grown - allocated) <= share * allocated, (grown, allocated)


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
        ("ONCE[0,100] EVENTUALLY[0,5] (p AND ONCE[3,9] EVENTUALLY[3,4] NEXT p)", "naive"),
    ],
)
def test_states_of_keys(formula: str, mode: str) -> None:
    monitors = KeyedMonitors(formula, mode)  # type: ignore[arg-type]
    times = np.sort(np.tile(np.arange(100), COUNT // 100))
    events = EventColumns(times, COUNT)
    numbers = np.tile(np.arange(COUNT // 2, dtype=np.uint32), 2)
    with counted(lambda: monitors.held_bytes):
        monitors.feed(events, numbers)


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
    from mtlmon._keys import KeyTable
    from mtlmon.tables.keys import number_rows

    table = KeyTable(1)
    texts = pa.array([f"user-{number}@example.org" for number in range(COUNT)])
    with counted(lambda: table.held_bytes):
        number_rows(table, [texts])
    assert len(table) == COUNT


def test_events_that_are_sorted() -> None:
    from mtlmon.tables.sorting import EventSorter

    with EventSorter(1) as sorter:
        times = np.arange(COUNT)[::-1].copy()
        words = np.zeros((COUNT, 1), np.uint64)
        with counted(lambda: sorter.held_bytes):
            sorter.add(times, None, words)


def test_prefixes_of_verdicts() -> None:
    """The streams of a text of verdicts, each with an open time-point."""
    from mtlmon._text_resolver import TextResolver

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

    from mtlmon.memory_limit import formula_bytes

    parse("p UNTIL[0,5] q")
    text = " AND ".join(f"(a{k} IMPLIES EVENTUALLY[{k},{k + 400}] b{k})" for k in range(1000))
    tracemalloc.start()
    try:
        formula = parse(text)
        traced = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert traced / 2 < formula_bytes(formula) < 2 * traced
