"""Snapshots of a check: going on from one anywhere changes nothing, and others are refused."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mtlmon import MtlmonError, SnapshotError, parse
from mtlmon.policy import Policy
from tests.checking.logs import Event, Log, lines_of, logs, policies
from tests.checking.test_log_check import FORMULAS, some_events
from tests.doors import KeyTable, LogCheck, TextOutput, number_rows
from tests.doors import checking_idle_keys as idle_keys
from tests.strategies import formulas

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS: list[dict[str, Any]] = [
    {},
    {"resolve": True},
    {"verdicts": "first"},
    {"verdicts": "false"},
    {"verdicts": "none", "resolve": True},
    {"advance_every": 4, "resolve": True},
]


class Relay:
    """A check that goes on in a new one after every few events."""

    def __init__(
        self, make: Callable[[], LogCheck], events: list[Event], slices: list[int], has_keys: bool
    ) -> None:
        self.make = make
        self.log = Log(events, [5, 11], has_keys=has_keys)
        self.slices = slices
        self.check = make()
        self.lines = b""

    def take(self) -> None:
        names = [policy.name for policy in self.check.policies]
        output = TextOutput(names, self.log.trace_keys(len(names)))
        output.put(self.check.verdicts)
        self.lines += output.writer.take()

    def run(self, end_time: Any) -> list[str]:
        turn = 0
        while not self.check.is_stopped and self.check.position < len(self.log.events):
            # From here on, as after a restart: the keys are numbered again from a snapshot.
            position = self.check.position
            part = Log(self.log.events[position:], [7, 23], has_keys=False)
            part.keys = self.log.keys
            batch = next(iter(part))
            self.log.clock = part.clock
            self.check.slice_events = self.slices[turn % len(self.slices)]
            turn += 1
            for _ in self.check.feed(batch, self.log):
                self.take()
                snapshot = self.check.snapshot()
                keys = None if self.log.keys is None else self.log.keys.snapshot()
                break
            self.check.close()
            self.check = self.make()
            self.check.restore(snapshot)
            self.hold_snapshot(snapshot)
            if keys is not None:
                self.log.keys = KeyTable(1)
                self.log.keys.restore(keys)
                assert self.log.keys.snapshot() == keys
        if self.log.events:
            self.log.clock = self.log.events[self.check.position - 1][0]
        if not self.check.is_stopped:
            for _ in self.check.end(self.log, end_time):
                pass
            self.take()
        return self.lines.decode().splitlines()

    def hold_snapshot(self, snapshot: bytes) -> None:
        """Equal expressions may have been made twice; once restored, keys share them."""
        restored = self.check.snapshot()
        if restored != snapshot:
            assert len(restored) < len(snapshot)
            again = self.make()
            again.restore(restored)
            assert again.snapshot() == restored
            again.close()


def hold_counts(one: LogCheck, other: LogCheck) -> None:
    assert one.counts == other.counts
    assert one.event_count == other.event_count
    assert one.key_counts == other.key_counts
    assert one.first_time_stamp == other.first_time_stamp


@pytest.mark.parametrize("mode", ["naive", "local", "global"])
@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
def test_going_on_anywhere(mode: Any, has_keys: bool, options: dict[str, Any]) -> None:
    asked = policies(*FORMULAS)
    for end_time in ("last", "inf"):
        events = some_events((mode, end_time), 300, 40)
        check = LogCheck(asked, mode, **options)
        expected = lines_of(check, Log(events, [1, 300, 17], has_keys=has_keys), end_time)
        relay = Relay(lambda: LogCheck(asked, mode, **options), events, [1, 3, 2], has_keys)
        assert relay.run(end_time) == expected
        hold_counts(relay.check, check)


# An expression that was restored, and an equal one that another key has reached.
@example(
    [parse("(true UNTIL[1,*) r) OR EVENTUALLY r")],
    [(0, "a", frozenset()), (0, "b", frozenset())],
    "naive",
    {},
    [1],
)
# The witness of a trace lay back as far as that of another one, but a later one had joined it.
@example(
    [parse("p TRIGGER[2,*) p")],
    [(time, key, frozenset()) for time, key in ((0, "a"), (1, "c"), (1, "a"), (2, "c"))],
    "naive",
    {},
    [1],
)
@given(
    st.lists(formulas(depth=2), min_size=1, max_size=2),
    logs([0, 0, 1, 1, 2, 3, 9]),
    st.sampled_from(["naive", "local", "global"]),
    st.sampled_from(OPTIONS),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
)
def test_going_on_with_any_formulas(
    chosen: Any, events: list[Event], mode: Any, options: dict[str, Any], slices: list[int]
) -> None:
    asked = policies(*chosen)
    check = LogCheck(asked, mode, **options)
    expected = lines_of(check, Log(events, [4], has_keys=True), "last")
    relay = Relay(lambda: LogCheck(asked, mode, **options), events, slices, has_keys=True)
    assert relay.run("last") == expected
    hold_counts(relay.check, check)


def test_states_that_are_kept_whole() -> None:
    """More than 64 undecided time-points of a key have no configuration."""
    events: list[Event] = [
        (time, f"key {time % 3}", frozenset("p" if time % 5 else "")) for time in range(900)
    ]
    asked = policies("ALWAYS[0,700] (p IMPLIES EVENTUALLY[0,400] q)")
    check = LogCheck(asked)
    expected = lines_of(check, Log(events, [900], has_keys=True), "inf")
    relay = Relay(lambda: LogCheck(asked), events, [211], has_keys=True)
    assert relay.run("inf") == expected


def test_many_keys_of_one_configuration_take_few_bytes() -> None:
    events: list[Event] = [(time // 100, f"{time}", frozenset("p")) for time in range(20_000)]
    check = LogCheck(policies("p IMPLIES EVENTUALLY[0,500] q"))
    log = Log(events, [20_000], has_keys=True)
    for batch in log:
        for _ in check.feed(batch, log):
            check.verdicts.taken()
    size = len(check.snapshot())
    assert size < 9 * 20_000


def test_idle_keys_are_forgotten_as_without_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 100)
    events: list[Event] = [
        (time, f"session {time // 3}", frozenset({"p"} if time % 3 == 0 else {"q"}))
        for time in range(3000)
    ]
    asked = policies("p IMPLIES EVENTUALLY[0,5] q")
    check = LogCheck(asked)
    log = Log(events, [50], has_keys=True)
    for batch in log:
        for _ in check.feed(batch, log):
            check.verdicts.taken()
        snapshot = check.snapshot()
        forgotten = check.keys_forgotten
        count = check.key_counts
        check.close()
        check = LogCheck(asked)
        check.restore(snapshot)
        assert (check.keys_forgotten, check.key_counts) == (forgotten, count)
        assert len(log.keys or ()) == count[0]
        assert count[0] <= 250
    assert check.keys_forgotten[0] > 800


# ---- refusals ------------------------------------------------------------------------------------


def some_snapshot(**options: Any) -> bytes:
    check = LogCheck(policies(*FORMULAS), **options)
    log = Log(some_events("some", 100, 5), [100], has_keys=True)
    for batch in log:
        for _ in check.feed(batch, log):
            check.verdicts.taken()
    return check.snapshot()


@pytest.mark.parametrize(
    ("formulas", "options", "why"),
    [
        (FORMULAS[1:], {}, "of other policies or another mode"),
        (FORMULAS[::-1], {}, "of other policies or another mode"),
        (FORMULAS, {"mode": "global"}, "of other policies or another mode"),
        (FORMULAS, {"resolve": True}, "of another selection of verdicts"),
        (FORMULAS, {"verdicts": "first"}, "of another selection of verdicts"),
        (FORMULAS, {"advance_every": 5}, "of another period after which all keys advance"),
    ],
)
def test_snapshots_of_something_else(
    formulas: list[str], options: dict[str, Any], why: str
) -> None:
    snapshot = some_snapshot()
    with pytest.raises(SnapshotError, match=why):
        LogCheck(policies(*formulas), **options).restore(snapshot)


def test_policies_with_other_names() -> None:
    asked = [Policy("renamed", one.formula, one.formula) for one in policies(*FORMULAS)]
    with pytest.raises(SnapshotError, match="of other policies"):
        LogCheck(asked).restore(some_snapshot())


def test_snapshots_that_are_damaged() -> None:
    snapshot = some_snapshot()
    source = random.Random(7)
    for damaged, why in [
        (b"", "not a snapshot of this version: mtlmon check 8"),
        (snapshot[:13], "not a snapshot of this version: mtlmon check 8"),
        (b"x" + snapshot, "not a snapshot of this version: mtlmon check 8"),
        (snapshot[:13] + b"7" + snapshot[14:], "not a snapshot of this version: mtlmon check 8"),
        (snapshot[:20], "damaged"),
        (snapshot[:-1], "damaged"),
        (snapshot + b"\0", "damaged"),
    ]:
        with pytest.raises(SnapshotError, match=why):
            LogCheck(policies(*FORMULAS)).restore(damaged)
    for _ in range(200):
        changed = bytearray(snapshot)
        changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
        with pytest.raises(SnapshotError):
            LogCheck(policies(*FORMULAS)).restore(bytes(changed))


def test_when_there_is_no_snapshot() -> None:
    check = LogCheck(policies(*FORMULAS))
    log = Log(some_events("some", 100, 5), [100], has_keys=True)
    for batch in log:
        for _ in check.feed(batch, log):
            with pytest.raises(MtlmonError, match="take them out first"):
                check.snapshot()
            check.verdicts.taken()
    snapshot = check.snapshot()
    with pytest.raises(MtlmonError, match="before its first event"):
        check.restore(snapshot)
    for _ in check.end(log):
        pass
    check.verdicts.taken()
    with pytest.raises(MtlmonError, match="after the end"):
        check.snapshot()


# ---- keys ----------------------------------------------------------------------------------------


@given(st.lists(st.tuples(*[st.text(max_size=3)] * 2), max_size=30), st.sampled_from([1, 2]))
def test_keys_come_back_with_their_numbers(rows: list[tuple[str, str]], columns: int) -> None:
    texts = [pa.array([row[place] for row in rows], pa.string()) for place in range(columns)]
    keys = KeyTable(columns)
    numbers = number_rows(keys, texts)
    again = KeyTable(columns)
    again.restore(keys.snapshot())
    assert len(again) == len(keys)
    assert [again.key(k) for k in range(len(keys))] == [keys.key(k) for k in range(len(keys))]
    assert number_rows(again, texts).tolist() == numbers.tolist()
    assert len(again) == len(keys)
    with pytest.raises(SnapshotError):
        KeyTable(columns + 1).restore(keys.snapshot())
