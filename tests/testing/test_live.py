"""Live monitors: events from threads, tasks and signal handlers; what the owner is told."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given

from mtlmon import Formula, FormulaError, LimitError, MtlmonError, TimeStampError
from mtlmon.errors import ViolationError
from mtlmon.testing import LiveMonitor, check
from mtlmon.testing import strategies as mtl
from tests.testing import FEWER

ANSWERED = "request IMPLIES EVENTUALLY[0,5] response"


class Ticks:
    """A clock that is set by hand."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def in_thread(work: Callable[[], object]) -> None:
    """Run it in a thread, and raise what it raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


# ---- in one thread -------------------------------------------------------------------------------


def test_a_stream_without_violation() -> None:
    with LiveMonitor(ANSWERED) as monitor:
        monitor.step(1, {"request"})
        monitor.step(6, ["response"])
        monitor.step(8, {"request": False})
        monitor.check()
        assert monitor.violation is None
    assert "closed, 3 events" in repr(monitor)


def test_a_violation_is_raised_by_the_step_that_brings_it() -> None:
    monitor = LiveMonitor(ANSWERED)
    monitor.step(1, {"request"})
    monitor.step(6)
    with pytest.raises(ViolationError, match="1:0 violates") as caught:
        monitor.step(7)
    assert caught.value.time_point == (1, 0)
    assert monitor.violation is caught.value
    # Whoever caught it by accident is told again.
    with pytest.raises(ViolationError):
        monitor.step(8)
    for again in (monitor.check, monitor.close, monitor.close):
        with pytest.raises(ViolationError):
            again()


def test_time_that_passes_brings_violations() -> None:
    monitor = LiveMonitor(ANSWERED)
    monitor.step(1, {"request"})
    monitor.advance(6)
    with pytest.raises(ViolationError):
        monitor.advance(7)


def test_time_that_has_passed_already_changes_nothing() -> None:
    monitor = LiveMonitor(ANSWERED)
    monitor.step(4, {"request"})
    monitor.advance(3)
    monitor.step(4, {"response"})
    monitor.advance(9)
    with pytest.raises(TimeStampError, match="8 is below 9"):
        monitor.step(8)
    monitor.close()


def test_the_end() -> None:
    def ended(**arguments: Any) -> LiveMonitor:
        monitor = LiveMonitor(ANSWERED, **arguments)
        monitor.step(1, {"request"})
        return monitor

    with pytest.raises(ViolationError, match="undecided") as caught:
        ended().close()
    assert caught.value.is_undecided
    with pytest.raises(ViolationError, match="1:0 violates"):
        ended(at_end="closed").close()
    with pytest.raises(ViolationError, match="1:0 violates"):
        ended(end_time=6).close()
    ended(at_end="undecided-ok", unknown="ignore").close()
    assert ended().abandon() is None


def test_a_violation_that_is_taken_is_not_raised_any_more() -> None:
    monitor = LiveMonitor("p")
    assert monitor.take_violation() is None
    with pytest.raises(ViolationError):
        monitor.step(1)
    violation = monitor.take_violation()
    assert violation is not None
    assert violation.time_point == (1, 0)
    monitor.step(2)
    monitor.close()


def test_taking_a_violation_lets_time_pass() -> None:
    clock = Ticks()
    with LiveMonitor(ANSWERED, clock=clock) as monitor:
        monitor.event("request")
        clock.now = 5
        assert monitor.take_violation() is None
        clock.now = 6
        assert monitor.violation is None
        assert monitor.take_violation() is not None


def test_an_error_in_the_block_comes_first() -> None:
    with pytest.raises(KeyError) as caught, LiveMonitor("p OR EVENTUALLY[0,5] q") as monitor:
        monitor.step(1)
        raise KeyError
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(KeyError) as caught, LiveMonitor("p") as monitor:
        in_thread(lambda: monitor.step(1))
        raise KeyError
    (note,) = caught.value.__notes__
    assert note.startswith("1:0 violates p")


@pytest.mark.parametrize("time_stamp", [-1, 4, 2**63])
def test_bad_time_stamps_are_refused(time_stamp: int) -> None:
    monitor = LiveMonitor("p")
    monitor.step(5, {"p"})
    with pytest.raises(TimeStampError, match=str(time_stamp)):
        monitor.step(time_stamp, {"p"})
    for stamp in (5.0, True):
        with pytest.raises(TypeError, match=rf"integers?, not {stamp}"):
            monitor.step(stamp, {"p"})
        with pytest.raises(TypeError, match=rf"integers?, not {stamp}"):
            monitor.advance(stamp)
    with pytest.raises(TypeError, match="not the one string"):
        monitor.step(5, "p")
    monitor.step(5, {"p"})
    monitor.close()


def test_after_the_end() -> None:
    monitor = LiveMonitor("p", clock=Ticks())
    monitor.close()
    with pytest.raises(MtlmonError, match="closed"):
        monitor.event("p")
    with pytest.raises(MtlmonError, match="closed"):
        monitor.step(1)
    in_thread(monitor.event)
    monitor.check()
    monitor.close()
    assert monitor.violation is None


def test_bad_arguments() -> None:
    with pytest.raises(FormulaError):
        LiveMonitor("p AND")
    with pytest.raises(MtlmonError, match="the unit is one of"):
        LiveMonitor("p", unit="fortnight")
    with pytest.raises(MtlmonError, match="a clock is"):
        LiveMonitor("p", clock="sundial")  # type: ignore[arg-type]
    monitor = LiveMonitor("p")
    for call in (monitor.event, monitor.advance, monitor.listen):
        with pytest.raises(MtlmonError, match="no clock"):
            call()


@FEWER
@given(mtl.formulas(("p", "q")), mtl.traces(("p", "q"), max_size=10))
def test_it_says_what_check_says(formula: Formula, trace: list[tuple[int, frozenset[str]]]) -> None:
    # what is said of atoms that never occur is tested elsewhere
    monitor = LiveMonitor(formula, unknown="ignore")
    for time_stamp, atoms in trace:
        step = partial(monitor.step, time_stamp, atoms)
        try:
            if time_stamp % 5 == 4:
                in_thread(step)
            else:
                step()
        except ViolationError:
            break
    wanted = check(formula, trace, unknown="ignore").failure
    if wanted is None:
        monitor.close()
        return
    with pytest.raises(ViolationError) as caught:
        monitor.close()
    assert caught.value.time_point == wanted.time_point
    assert caught.value.is_undecided == wanted.is_undecided


# ---- clocks --------------------------------------------------------------------------------------


def test_a_clock_stamps_events() -> None:
    clock = Ticks(10)
    monitor = LiveMonitor(ANSWERED, clock=clock)
    monitor.event("request", "urgent")
    clock.now = 15
    monitor.check()
    monitor.event("response")
    clock.now = 12
    monitor.event("request")
    clock.now = 21
    with pytest.raises(ViolationError, match="15:1 violates") as caught:
        monitor.check()
    assert "10:0  request urgent" in str(caught.value)


def test_the_end_lets_time_pass() -> None:
    clock = Ticks()
    for end, words in ((5, "undecided"), (6, "0:0 violates")):
        clock.now = 0
        monitor = LiveMonitor(ANSWERED, clock=clock)
        monitor.event("request")
        clock.now = end
        with pytest.raises(ViolationError, match=words):
            monitor.close()


def test_clocks_by_name() -> None:
    with LiveMonitor("q IMPLIES ONCE[0,10m] p", clock="monotonic") as monitor:
        monitor.event("p")
        monitor.event("q")
    for unit, least in (("s", 10**9), ("ns", 10**18), ("d", 10**4)):
        monitor = LiveMonitor("false", clock="wall", unit=unit)
        in_thread(monitor.event)
        violation = monitor.violation
        assert violation is not None
        assert least < violation.time_point[0] < 1000 * least


def test_a_clock_must_tell_integers() -> None:
    monitor = LiveMonitor("p", clock=lambda: 1.5)
    with pytest.raises(TypeError):
        monitor.event("p")


# ---- threads -------------------------------------------------------------------------------------


def test_a_violation_is_not_raised_in_another_thread() -> None:
    monitor = LiveMonitor("NOT boom", clock="monotonic")
    in_thread(lambda: monitor.event("boom"))
    in_thread(lambda: monitor.event("later"))
    with pytest.raises(ViolationError, match="boom"):
        monitor.event("more")


def test_many_threads() -> None:
    threads, events = 8, 2000
    monitor = LiveMonitor("stop IMPLIES ONCE start", clock="monotonic", unit="us", keep=None)
    start = threading.Barrier(threads)

    def feed(name: str) -> None:
        start.wait()
        for _ in range(events):
            monitor.event("start", name)
            monitor.event("stop", name)

    workers = [threading.Thread(target=feed, args=(f"t{n}",)) for n in range(threads)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    monitor.close()
    assert f"{2 * threads * events} events" in repr(monitor)


def test_no_event_of_another_thread_is_lost_when_the_owner_looks() -> None:
    for _ in range(200):
        monitor = LiveMonitor("NOT boom", clock="monotonic")
        sent = threading.Event()

        def feed(monitor: LiveMonitor = monitor, sent: threading.Event = sent) -> None:
            monitor.event("fine")
            monitor.event("boom")
            sent.set()

        thread = threading.Thread(target=feed)
        thread.start()
        sent.wait()
        assert monitor.violation is not None
        thread.join()


def test_errors_of_the_engine_reach_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.doors import expressions_bdd as bdd

    monkeypatch.setattr(bdd, "SUPPORT_LIMIT", 60)
    wide = " OR ".join(f"(EVENTUALLY[0,5] a{i}) AND (EVENTUALLY[0,5] b{i})" for i in range(31))
    monitor = LiveMonitor(wide)
    in_thread(lambda: monitor.step(0))
    in_thread(lambda: monitor.step(1))
    with pytest.raises(LimitError):
        monitor.check()
    with pytest.raises(LimitError):
        monitor.close()


def test_a_signal_handler_may_bring_an_event_in_the_middle_of_another_one() -> None:
    monitor = LiveMonitor("p", clock="monotonic", unit="us")
    arrived = 0

    def handle(number: int, frame: object) -> None:
        nonlocal arrived
        arrived += 1
        monitor.event("p", "signal")

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        count = 0
        while arrived < 50:
            monitor.event("p")
            count += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    monitor.close()
    assert f" {count + arrived} events" in repr(monitor)


# ---- asyncio -------------------------------------------------------------------------------------


def test_tasks_of_asyncio() -> None:
    async def serve(monitor: LiveMonitor) -> None:
        await asyncio.sleep(0)
        monitor.event("boom")
        await asyncio.sleep(0)
        monitor.event("later")

    async def main() -> None:
        monitor = LiveMonitor("NOT boom", clock="monotonic")
        task = asyncio.create_task(serve(monitor))
        # The task ends well: the violation is told to the one that made the monitor.
        await task
        with pytest.raises(ViolationError, match="boom"):
            monitor.check()

    asyncio.run(main())


def test_tasks_and_callbacks_do_not_see_violations_of_a_monitor_made_outside_of_asyncio() -> None:
    for is_callback in False, True:
        monitor = LiveMonitor("NOT boom", clock="monotonic")
        ended: list[bool] = []

        def serve(monitor: LiveMonitor = monitor, ended: list[bool] = ended) -> None:
            monitor.event("boom")
            monitor.event({"later": True})
            ended.append(True)

        async def main(serve: Callable[[], None] = serve, on: bool = is_callback) -> None:
            if on:
                asyncio.get_running_loop().call_soon(serve)
                await asyncio.sleep(0)
            else:
                serve()

        asyncio.run(main())
        assert ended == [True]
        with pytest.raises(ViolationError, match="boom"):
            monitor.event("more")


def test_callbacks_do_not_see_violations_of_a_task_and_the_task_does() -> None:
    async def main() -> None:
        monitor = LiveMonitor("NOT boom", clock="monotonic")
        asyncio.get_running_loop().call_soon(monitor.event, "boom")
        await asyncio.sleep(0)
        with pytest.raises(ViolationError, match="boom"):
            monitor.event("more")

    asyncio.run(main())


WRONG: list[Callable[[LiveMonitor], None]] = [
    lambda monitor: monitor.event({"task": None}),
    lambda monitor: monitor.event("start", 7),  # type: ignore[arg-type]
    lambda monitor: monitor.event("start"),
    lambda monitor: monitor.step(3, {"task": 1}),
    lambda monitor: monitor.step("soon", {"task": 1}),  # type: ignore[arg-type]
    lambda monitor: monitor.advance("soon"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("wrong", WRONG)
def test_an_event_that_is_wrong_is_an_error_of_the_owner(
    wrong: Callable[[LiveMonitor], None],
) -> None:
    def make() -> LiveMonitor:
        monitor = LiveMonitor("start", key="task", clock=lambda: 5)
        monitor.event("start", task=1)
        return monitor

    with pytest.raises((MtlmonError, TypeError)) as own:
        wrong(make())
    monitor = make()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            wrong(monitor)
        except BaseException as error:
            failures.append(error)

    async def main() -> None:
        await asyncio.create_task(asyncio.to_thread(work))
        work()

    asyncio.run(main())
    assert not failures
    with pytest.raises(type(own.value)) as emitted:
        monitor.event("start", task=1)
    assert str(emitted.value) == str(own.value)


def test_executors() -> None:
    async def main() -> None:
        with LiveMonitor(ANSWERED, clock="monotonic", unit="s", at_end="closed") as monitor:
            monitor.event("request")
            await asyncio.to_thread(monitor.event, "response")

    asyncio.run(main())
