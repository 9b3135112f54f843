"""A monitor over its life: begun anew, left, interrupted, shared between threads."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mtlmon
from mtlmon import (
    EventError,
    EventTypeError,
    Formula,
    Monitor,
    MonitorBrokenError,
    MtlmonError,
    TimeStampError,
    parse,
)
from mtlmon.verdict_arrays import VerdictArray
from tests.doors import PendingTimePoint, decision_delay
from tests.strategies import formulas, traces
from tests.traces import MODES, Advance, Mode, Step

SLOW = "ALWAYS[0,3600] (p IMPLIES EVENTUALLY[0,60] q)"
SLOWER = "ALWAYS[0,3600] ((p IMPLIES EVENTUALLY[0,60] q) AND (q IMPLIES EVENTUALLY[5,70] p))"


def random_batch(count: int, rate: int, seed: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    return np.arange(count) // rate, generator.integers(0, 4, count, dtype=np.uint64)


# ---- atoms as bits -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [int, np.uint64, np.int8])
def test_integers_are_bits_of_atoms(kind: type) -> None:
    monitor = Monitor("p AND NOT q")
    assert monitor.atoms == ("p", "q")
    assert [monitor.step(1, kind(bits))[0].value for bits in range(4)] == [0, 1, 0, 0]


def test_bits_beyond_the_last_atom_are_ignored() -> None:
    for count in (1, 7, 64, 65, 128, 130):
        formula = " OR ".join(f"a{i}" for i in range(count))
        monitor = Monitor(formula)
        for bit in range(count + 70):
            assert monitor.step(1, 1 << bit)[0].value == (bit < count), bit
        assert monitor.step(1, (1 << 200) - 1)[0].value
    assert Monitor("NOT true").step(1, 7)[0].value is False


@pytest.mark.parametrize("bits", [-1, -(2**70)])
def test_negative_bits(bits: int) -> None:
    monitor = Monitor("p")
    with pytest.raises(EventError, match=f"as {bits} is"):
        monitor.step(1, bits)
    assert str(monitor.step(0, 1)[0]) == "0:0 true"


@pytest.mark.parametrize(
    "kind", [set, frozenset, tuple, list, lambda names: dict.fromkeys(names).keys(), iter]
)
def test_collections_of_names(kind: Any) -> None:
    assert Monitor("p AND NOT q").step(1, kind(["p", "other"]))[0].value


@pytest.mark.parametrize("atoms", [None, 1.5, "p", b"p"])
def test_what_is_neither_names_nor_bits(atoms: Any) -> None:
    with pytest.raises(EventTypeError, match="collection of names"):
        Monitor("p").step(1, atoms)


@pytest.mark.parametrize("names", [[["p"]], [{}], ({"q"}, {"p"})])
def test_names_that_are_no_strings(names: Any) -> None:
    monitor = Monitor("p")
    with pytest.raises(EventTypeError, match=r"a string, not (list|dict|set)"):
        monitor.step(1, names)
    assert str(monitor.step(0, ["p"])[0]) == "0:0 true"


def test_errors_of_names_that_are_not_about_names() -> None:
    class Name:
        def __hash__(self) -> int:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Monitor("p").step(1, [Name()])  # type: ignore[list-item]


@pytest.mark.parametrize("atoms", [{"r"}, ["p", "r"], ("q", "r"), iter(["r"]), frozenset("pqr")])
def test_unknown_names_as_errors(atoms: Any) -> None:
    monitor = Monitor("p AND q", unknown="error")
    monitor.step(3, {"p"})
    with pytest.raises(EventError, match=r"has no atom 'r', only 'p', 'q'; unknown='ignore'"):
        monitor.step(4, atoms)
    assert list(map(str, monitor.step(3, ["q", "p"]))) == ["3:1 true"]


@pytest.mark.parametrize(("formula", "bits"), [("p AND q", 4), ("p AND q", 2**64), ("true", 1)])
def test_unknown_bits_as_errors(formula: str, bits: int) -> None:
    monitor = Monitor(formula, unknown="error")
    with pytest.raises(EventError, match=f"{bits} has bits beyond the [02] atoms"):
        monitor.step(3, bits)
    assert len(monitor.step(0, (1 << len(monitor.atoms)) - 1)) == 1


def test_unknown_atoms_in_batches_and_copies() -> None:
    monitor = Monitor("p", unknown="error")
    assert monitor.unknown == "error"
    for strict in (monitor, pickle.loads(pickle.dumps(monitor)), copy.copy(monitor)):
        with pytest.raises(EventError, match="has no atom 'r'"):
            strict.feed([1], {"p": [True], "r": [True]})
        assert len(strict.feed([1], {"p": [True], "r": [True]}, unknown="ignore")) == 1
    lenient = Monitor("p")
    assert lenient.unknown == "ignore"
    with pytest.raises(EventError, match="has no atom 'r'"):
        lenient.feed([1], {"p": [True], "r": [True]}, unknown="error")
    with pytest.raises(MtlmonError, match="'ignore' or 'error', not 'raise'"):
        Monitor("p", unknown="raise")  # type: ignore[arg-type]


# ---- streams -----------------------------------------------------------------------------------

BAD_STREAMS = [
    ([(1, 1), (2, 1), (1, 1)], TimeStampError, "time-stamp 1 is below 2", 2),
    ([(1, 1), (2.0, 1)], EventTypeError, "integer, not float", 1),
    ([(1, -1)], EventError, "negative", 0),
    ([(1, "p")], EventTypeError, "one string", 0),
    ([(1, 1), 5], EventTypeError, "pair of a time-stamp and atoms, not 5", 1),
    ([(1, 1), (1, 2, 3)], EventTypeError, r"not \(1, 2, 3\)", 1),
]


@pytest.mark.parametrize(("events", "error", "message", "index"), BAD_STREAMS)
def test_errors_of_streams_say_which_event_it_was(
    events: list[Any], error: type[Any], message: str, index: int
) -> None:
    async def asynchronous() -> AsyncIterator[Any]:
        for event in events:
            yield event

    async def run(monitor: Monitor) -> None:
        async for _ in monitor.astream(asynchronous()):
            pass

    for call in (lambda m: list(m(events)), lambda m: asyncio.run(run(m))):
        monitor = Monitor("p")
        with pytest.raises(error, match=message) as caught:
            call(monitor)
        assert caught.value.index == index
        assert monitor.counters["events"] == index
        monitor.step(9)


# ---- what is pending ---------------------------------------------------------------------------


def test_pending_time_points_say_until_when() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    for time_stamp in (3, 3, 4):
        monitor.step(time_stamp)
    first, second = monitor.pending
    assert (first.time_stamp, first.offset, first.until, first.weight) == (3, 0, 8, 2)
    assert (second, second.until, second.weight) == ((4, 0), 9, 1)
    assert repr(first) == "<PendingTimePoint 3:0 until 8, for 2 time-points>"
    assert repr(second) == "<PendingTimePoint 4:0 until 9>"
    assert hash(first) == hash((3, 0))
    other = pickle.loads(pickle.dumps(first))
    assert (other, other.until, other.weight) == (first, 8, 2)
    assert type(other) is PendingTimePoint


@pytest.mark.parametrize("formula", ["EVENTUALLY q", "NEXT p", "p UNTIL[3,*] EVENTUALLY[0,5] q"])
def test_some_wait_without_limit(formula: str) -> None:
    monitor = Monitor(formula)
    monitor.step(3, {"p"})
    assert [pending.until for pending in monitor.pending] == [None]
    assert repr(monitor.pending) == "[<PendingTimePoint 3:0>]"


def test_pending_can_be_read_after_the_end() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    monitor.step(3)
    monitor.finish()
    assert monitor.pending == [(3, 0)]
    with pytest.raises(MtlmonError, match="finished"):
        monitor.step(4)


@settings(max_examples=150)
@given(formulas(), traces(advances=True), st.sampled_from(MODES))
def test_no_time_point_waits_longer_than_it_says(
    formula: Formula, steps: tuple[Step, ...], mode: Mode
) -> None:
    monitor = Monitor(formula, mode)
    delay = decision_delay(formula)
    waiting: dict[tuple[int, int], int | None] = {}
    for step in steps:
        if isinstance(step, Advance):
            monitor.advance(step.time_stamp)
        else:
            monitor.step(*step)
        for pending in monitor.pending:
            assert pending.until is None or pending.until >= step.time_stamp
            # Constants folded away can make the wait shorter than the formula's reach.
            if delay is not None:
                assert pending.until is not None
                assert pending.until <= pending.time_stamp + delay
            assert waiting.setdefault(pending, pending.until) == pending.until
    weight = sum(pending.weight for pending in monitor.pending)
    counters = monitor.counters
    assert weight == counters["events"] - counters["true"] - counters["false"]


# ---- one stream after the other ----------------------------------------------------------------


@settings(max_examples=150)
@given(formulas(), traces(advances=True), traces(advances=True), st.sampled_from(MODES))
def test_a_reset_monitor_is_like_a_new_one(
    formula: Formula, before: tuple[Step, ...], steps: tuple[Step, ...], mode: Mode
) -> None:
    def run(monitor: Monitor, steps: tuple[Step, ...]) -> list[Any]:
        output: list[Any] = []
        for step in steps:
            if isinstance(step, Advance):
                output.append(monitor.advance(step.time_stamp))
            else:
                output.append(monitor.step(*step))
        return [*output, monitor.pending, monitor.finish("inf")]

    monitor = Monitor(formula, mode)
    run(monitor, before)
    for _ in range(2):
        monitor.reset()
        assert monitor.counters["events"] == 0
        assert run(monitor, steps) == run(Monitor(formula, mode), steps)


def test_what_was_learnt_survives_a_reset() -> None:
    monitor = Monitor("ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)")
    batch = random_batch(3000, 100, seed=1)
    first = monitor.feed(*batch)
    hits = monitor.counters["table_hits"]
    monitor.reset()
    assert monitor.feed(*batch) == first
    assert monitor.counters["table_hits"] - hits >= hits
    assert monitor.counters["events"] == 3000


def test_as_context_manager() -> None:
    with Monitor("EVENTUALLY[0,5] p") as monitor:
        monitor.step(1)
    assert monitor.pending == [(1, 0)]
    with pytest.raises(MtlmonError, match="finished"):
        monitor.step(2)
    with Monitor("EVENTUALLY[0,5] p") as monitor:
        monitor.step(1)
        assert list(map(str, monitor.finish("inf"))) == ["1:0 false"]
    with pytest.raises(ZeroDivisionError), Monitor("p"):
        raise ZeroDivisionError


def test_asynchronous_streams() -> None:
    async def events() -> AsyncIterator[tuple[int, set[str]]]:
        for event in [(0, {"p"}), (1, set()), (2, {"p"})]:
            await asyncio.sleep(0)
            yield event

    async def run(monitor: Monitor, end_time: Literal["inf"] | None = None) -> list[str]:
        return [str(verdict) async for verdict in monitor.astream(events(), end_time)]

    assert asyncio.run(run(Monitor("PREVIOUS p"))) == ["0:0 false", "1:0 true", "2:0 false"]
    monitor = Monitor("EVENTUALLY[0,5] p")
    assert asyncio.run(run(monitor)) == ["0:0 true", "1:0 true", "2:0 true"]
    monitor.step(3)
    assert asyncio.run(run(Monitor("NEXT NEXT p"), "inf")) == ["0:0 true", "1:0 false", "2:0 false"]


def test_monitors_share_a_compiled_formula() -> None:
    program = mtlmon.compile_formula("p SINCE[0,5] q")
    assert program == mtlmon.compile_formula(parse("p SINCE[0,5] q"))
    monitors = [Monitor(program) for _ in range(3)]
    assert all(monitor.program is program for monitor in monitors)
    assert [str(monitor.step(1, {"q"})[0]) for monitor in monitors] == ["1:0 true"] * 3
    with pytest.raises(TypeError, match="a formula is a text"):
        mtlmon.compile_formula(5)  # type: ignore[arg-type]


# ---- threads and signals -----------------------------------------------------------------------


def test_monitors_of_one_program_in_many_threads() -> None:
    program = mtlmon.compile_formula("ALWAYS[0,9] (p IMPLIES EVENTUALLY[0,5] (q AND NEXT p))")
    batches = [random_batch(20_000, 50, seed) for seed in range(6)]
    expected = [Monitor(program).feed(*batch) for batch in batches]
    found: list[VerdictArray | None] = [None] * len(batches)
    start = threading.Barrier(len(batches))

    def work(number: int) -> None:
        monitor = Monitor(program)
        time_stamps, masks = batches[number]
        start.wait()
        parts = [
            monitor.feed(time_stamps[k : k + 700], masks[k : k + 700])
            for k in range(0, len(masks), 700)
        ]
        found[number] = VerdictArray(np.concatenate(parts))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_a_call_from_another_thread_in_the_middle_of_one_is_refused() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    refusals: list[str] = []

    def interfere() -> None:
        calls: list[Callable[[], object]] = [
            lambda: monitor.step(9),
            lambda: monitor.feed([9], [0]),
            lambda: monitor.advance(9),
            monitor.finish,
            monitor.reset,
            lambda: monitor.pending,
            monitor.snapshot,
            lambda: monitor.restore(b""),
        ]
        for call in calls:
            with pytest.raises(MtlmonError, match="in use") as caught:
                call()
            refusals.append(str(caught.value))

    def atoms() -> Iterator[str]:
        thread = threading.Thread(target=interfere)
        thread.start()
        thread.join()
        yield "p"

    assert list(map(str, monitor.step(3, atoms()))) == ["3:0 true"]
    assert len(refusals) == 8
    assert monitor.counters["events"] == 1
    assert list(map(str, monitor.feed([9], [1]))) == ["9:0 true"]


def test_other_threads_run_while_a_batch_is_fed() -> None:
    """Python hands the interpreter over on request only, and the request is years away."""
    time_stamps, masks = random_batch(1_000_000, 1, seed=1)
    interval = sys.getswitchinterval()
    counts: list[int] = []

    def watch(monitor: Monitor, begun: threading.Event) -> None:
        begun.wait()
        while len(counts) < 1000 and monitor.counters["events"] < len(masks):
            counts.append(monitor.counters["events"])
            time.sleep(0)

    for _ in range(5):
        monitor = Monitor(SLOW)
        begun = threading.Event()
        thread = threading.Thread(target=watch, args=(monitor, begun))
        thread.start()
        sys.setswitchinterval(1e6)
        try:
            begun.set()
            monitor.feed(time_stamps, masks)
        finally:
            sys.setswitchinterval(interval)
            thread.join()
        if any(0 < count < len(masks) for count in counts):
            return
        counts.clear()
    raise AssertionError("no other thread ran")


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, whatever was run in this process before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_a_batch_can_be_interrupted() -> None:
    time_stamps, masks = random_batch(4_000_000, 1, seed=1)
    monitor = Monitor(SLOWER)

    def interrupt() -> None:
        while not monitor.counters["events"]:
            time.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        monitor.feed(time_stamps, masks)
    thread.join()
    verdicts: VerdictArray = caught.value.verdicts  # type: ignore[attr-defined]
    count = monitor.counters["events"]
    assert 0 < count < len(masks)
    assert verdicts == Monitor(SLOWER).feed(time_stamps[:count], masks[:count])
    with pytest.raises(MonitorBrokenError):
        monitor.step(10**9)
    monitor.reset()
    assert verdicts == monitor.feed(time_stamps[:count], masks[:count])
