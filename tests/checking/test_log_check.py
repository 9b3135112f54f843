"""Each policy and key answers as a monitor of its own would, in the order of events."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.verdict_arrays import verdict_type
from tests.checking.logs import Event, Log, expected_lines, lines_of, logs, policies
from tests.doors import LogCheck
from tests.doors import checking_feeding as feeding
from tests.doors import checking_idle_keys as idle_keys
from tests.strategies import ATOMS, formulas

RESPONSE = "p IMPLIES EVENTUALLY[0,5] q"
FORMULAS = [
    RESPONSE,
    "q IMPLIES ONCE[0,9] p",
    "p SINCE[2,8] (q AND NEXT[0,1] p)",
    "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "PREVIOUS[0,4] p",
]


def some_events(seed: object, count: int, keys: int) -> list[Event]:
    source = random.Random(str(seed))
    clock = 0
    events: list[Event] = []
    for _ in range(count):
        clock += source.choice([0, 0, 0, 1, 1, 2, 7])
        held = frozenset(name for name in ATOMS if source.random() < 0.4)
        events.append((clock, f"key {source.randrange(keys)}", held))
    return events


@pytest.mark.parametrize("mode", ["naive", "local", "global"])
@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("resolve", [False, True])
def test_verdicts_are_those_of_monitors_of_their_own(
    mode: Any, has_keys: bool, resolve: bool
) -> None:
    asked = policies(*FORMULAS)
    for end_time in (None, 7, "last", "inf", 10**6):
        events = some_events((mode, end_time), 700, 40)
        check = LogCheck(asked, mode, resolve=resolve)
        found = lines_of(check, Log(events, [1, 300, 17], has_keys=has_keys), end_time)
        assert found == expected_lines(
            asked, events, mode, has_keys=has_keys, resolve=resolve, end_time=end_time
        )


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies that take long are shared by threads from the next events on."""
    events = some_events("threads", 700, 40)
    asked = policies(*FORMULAS)
    expected = expected_lines(asked, events, "local", has_keys=True, resolve=True, end_time="last")
    monkeypatch.setattr(feeding, "_SHARED_SECONDS", 0.0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    names = set()
    start = ThreadPoolExecutor.submit

    def submit(pool: ThreadPoolExecutor, *work: Any) -> Any:
        names.add(pool._thread_name_prefix)
        return start(pool, *work)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    for threads, used in (1, set()), (None, {"mtlmon-policies"}), (2, {"mtlmon-policies"}):
        names.clear()
        check = LogCheck(asked, "local", resolve=True, threads=threads)
        assert lines_of(check, Log(events, [1, 300, 17], has_keys=True), "last") == expected
        assert names == used


@given(
    st.lists(formulas(depth=2), min_size=1, max_size=3),
    logs([0, 0, 1, 1, 2, 3, 9]),
    st.sampled_from(["naive", "local", "global"]),
    st.booleans(),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.sampled_from([None, "last", "inf", 3]),
    st.sampled_from([None, None, 1, 4]),
)
def test_keys_are_forgotten_when_that_changes_nothing(
    chosen: Any,
    events: list[Event],
    mode: Any,
    resolve: bool,
    sizes: list[int],
    end_time: Any,
    advance_every: int | None,
) -> None:
    asked = policies(*chosen)
    check = LogCheck(asked, mode, resolve=resolve, advance_every=advance_every)
    check._idle.limits = [0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(idle_keys, "_IDLE_KEYS", 0)
        found = lines_of(check, Log(events, sizes, has_keys=True), end_time)
    settings = {"has_keys": True, "resolve": resolve, "end_time": end_time}
    expected = expected_lines(asked, events, mode, **settings)
    if advance_every is None:
        # a key that comes back after it was forgotten is a later one at the end
        assert sorted(found) == sorted(expected)
        assert found == expected or any(check.keys_forgotten)
    else:
        # advanced only as far as all is decided that waits for nothing else
        assert sorted(found) == sorted(expected) or not resolve
        assert len(found) == len(expected) or not resolve


@given(
    st.lists(formulas(depth=2), min_size=1, max_size=3),
    logs([0, 0, 1, 1, 2, 3, 9]),
    st.sampled_from(["naive", "local", "global"]),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.integers(1, 5),
)
def test_keys_advance_once_nothing_else_can_be_waited_for(
    chosen: Any, events: list[Event], mode: Any, sizes: list[int], every: int
) -> None:
    asked = policies(*chosen)
    check = LogCheck(asked, mode, advance_every=every, keep_keys=True)
    found = lines_of(check, Log(events, sizes, has_keys=True), "last")
    assert found == expected_lines(
        asked, events, mode, has_keys=True, end_time="last", advance_every=every
    )


def test_many_keys_that_wait() -> None:
    asked = policies(RESPONSE, "p IMPLIES EVENTUALLY[3,9] q", "ALWAYS[0,30] NOT q", "EVENTUALLY p")
    events = some_events("waiting", 20_000, 9_000)
    wanted = sorted(lines_of(LogCheck(asked, resolve=True), Log(events, [70], has_keys=True)))
    for every in (1, 100):
        check = LogCheck(asked, resolve=True, advance_every=every)
        found = lines_of(check, Log(events, [5000], has_keys=True))
        assert sorted(found) == wanted


def test_keys_that_come_and_go_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 100)
    events = [
        (time, f"session {time // 3}", frozenset({"p"} if time % 3 == 0 else {"q"}))
        for time in range(9000)
    ]
    log = Log(events, [50], has_keys=True)
    check = LogCheck(policies(RESPONSE, "q IMPLIES ONCE[0,9] p"))
    check._idle.limits = [100]
    assert lines_of(check, log) == expected_lines(check.policies, events, "local", has_keys=True)
    assert check.key_counts[0] + check.keys_forgotten[0] == 3000
    assert log.keys is not None
    assert len(log.keys) == check.key_counts[0] <= 200
    assert check.state_bytes[0] < 100_000


def test_keys_with_something_to_remember_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 1)
    events = [(time, f"{time % 50}", frozenset({"p"} if time < 50 else ())) for time in range(900)]
    check = LogCheck(policies("ONCE p"))
    check._idle.limits = [1]
    found = lines_of(check, Log(events, [10], has_keys=True))
    assert check.keys_forgotten == [0]
    assert all(line.endswith("true") for line in found)


def test_all_keys_advance_when_asked_to() -> None:
    events: list[Event] = [(0, "a", frozenset("p")), *((time, "b", frozenset()) for time in (3, 9))]
    log = Log(events, [1], has_keys=True)
    asked = policies("p IMPLIES EVENTUALLY[0,5] q")
    late = lines_of(LogCheck(asked), log)
    assert late == ["0\tb\t3:0 true", "0\tb\t9:0 true", "0\ta\t0:0 false"]
    early = lines_of(LogCheck(asked, advance_every=2), Log(events, [1], has_keys=True))
    assert early == ["0\tb\t3:0 true", "0\ta\t0:0 false", "0\tb\t9:0 true"]


@pytest.mark.parametrize("sizes", [[1], [7, 2], [5000]])
@pytest.mark.parametrize("seed", range(6))
def test_the_first_violation_is_the_earliest_of_all(sizes: list[int], seed: int) -> None:
    asked = policies("p IMPLIES EVENTUALLY[0,5] (p AND q)", "q IMPLIES ONCE[0,3] (p AND q AND r)")
    events = [
        (time, key, held | {"r"} if time < 9 * seed else held)
        for time, key, held in some_events(("first", seed), 400, 5)
    ]
    check = LogCheck(asked, verdicts="first")
    found = lines_of(check, Log(events, sizes, has_keys=True))
    names = list(dict.fromkeys(key for _, key, _ in events))
    false = [
        (int(stamp.split(":")[0]), int(policy), names.index(key), int(stamp.split(":")[1]), line)
        for line in expected_lines(asked, events, "naive", has_keys=True)
        for policy, key, verdict in [line.split("\t")]
        for stamp, value in [verdict.split(" ")]
        if value == "false"
    ]
    assert found == [min(false)[4]]
    assert check.is_stopped


def test_a_first_violation_behind_something_open_is_not_told() -> None:
    events: list[Event] = [(0, "a", frozenset("p")), (2, "b", frozenset("q"))]
    asked = policies("p IMPLIES EVENTUALLY[0,5] q", "NOT q")
    check = LogCheck(asked, verdicts="first")
    assert lines_of(check, Log(events, [9], has_keys=True)) == []
    assert check.open_first is not None
    first, earliest = check.open_first
    assert (first.time_stamp, first.policy, earliest) == (2, 1, 0)


def test_the_end_of_the_log_may_settle_what_was_open_before_the_first_violation() -> None:
    events: list[Event] = [
        (0, "a", frozenset("p")),
        (2, "a", frozenset("q")),
        (4, "a", frozenset("p")),
    ]
    asked = policies("p IMPLIES EVENTUALLY[3,5] q", "NOT q")
    check = LogCheck(asked, verdicts="first")
    assert lines_of(check, Log(events, [9], has_keys=True), 5) == ["0\ta\t0:0 false"]
    check = LogCheck(policies("p IMPLIES EVENTUALLY[0,3] q", "NOT q"), verdicts="first")
    assert lines_of(check, Log(events, [9], has_keys=True), "last") == ["1\ta\t2:0 false"]
    assert check.open_first is None


@pytest.mark.parametrize("verdicts", ["all", "false", "none"])
def test_violations_are_collected_whatever_is_wanted(verdicts: Any) -> None:
    asked = policies(*FORMULAS)
    events = some_events("collected", 800, 11)
    check = LogCheck(asked, verdicts=verdicts, collect=True)
    log = Log(events, [100], has_keys=True)
    found: dict[int, int] = {}
    for _ in check.run(log, "last"):
        check.verdicts.taken()
        records, _numbers, owners = check.violations.taken()
        assert (np.frombuffer(records, verdict_type())["kind"] == 0).all()
        for owner in np.frombuffer(owners, np.uint32).tolist():
            found[owner] = found.get(owner, 0) + 1
    counts = check.counts
    assert [found.get(number, 0) for number in range(len(asked))] == [one.false for one in counts]
    assert all(one.events == len(events) for one in counts)
    pending = sum(
        point.weight
        for number in range(len(asked))
        for key in range(check.key_counts[0])
        for point in check.pending(number, key)
    )
    assert pending == sum(one.undecided for one in counts)
