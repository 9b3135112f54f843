"""Snapshots: a state as bytes goes on as the state itself would, wherever it is read."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
from hashlib import blake2b
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Formula, Monitor, MtlmonError, SnapshotError
from tests.doors import expressions_bdd as bdd
from tests.engines import with_network
from tests.strategies import formulas, huge_intervals, sandwiches

MODES = ("naive", "local", "global")

MIXED = "EVENTUALLY[0,6] ((EVENTUALLY[1,4] p) EQUIV (q UNTIL[0,5] NEXT[0,2] p))"
FORMULAS = [
    "p",
    "EVENTUALLY[0,5] p",
    "p UNTIL[2,5] q",
    "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "p SINCE[2,8] (q AND NEXT[0,1] p)",
    "ONCE[1,*) EVENTUALLY[1,4] (p SINCE[0,2] PREVIOUS q)",
    "ALWAYS (p IMPLIES EVENTUALLY q)",
    MIXED,
]


def events(source: random.Random, count: int) -> list[tuple[int, list[str]]]:
    time_stamp = 0
    made = []
    for _ in range(count):
        time_stamp += source.choice([0, 0, 1, 2])
        made.append((time_stamp, [name for name in "pqr" if source.random() < 0.4]))
    return made


def resume(monitor: Monitor, rest: list[tuple[int, list[str]]]) -> list[str]:
    verdicts = [str(verdict) for verdict in monitor(rest)]
    counters = monitor.counters
    counted = [counters[name] for name in ("events", "true", "false", "pending", "peak_pending")]
    pending = monitor.pending
    return [*verdicts, *map(str, monitor.finish("inf")), str(counted), str(pending)]


@given(st.one_of(formulas(), sandwiches()), st.sampled_from(MODES), st.data())
def test_any_formula_at_any_event(formula: Formula, mode: Any, data: st.DataObject) -> None:
    log = events(random.Random(data.draw(st.integers(0, 2**32))), 40)
    cut = data.draw(st.integers(0, len(log)))
    monitor, other = Monitor(formula, mode), Monitor(formula, mode)
    list(monitor(log[:cut]))
    if data.draw(st.booleans()) and cut:
        monitor.advance(log[cut - 1][0] + 1)
        log = [(time_stamp + 1, atoms) for time_stamp, atoms in log]
    snapshot = monitor.snapshot()
    other.restore(snapshot)
    assert other.snapshot() == snapshot
    assert resume(monitor, log[cut:]) == resume(other, log[cut:])


@given(
    st.one_of(formulas(widths=huge_intervals()), sandwiches(widths=huge_intervals())),
    st.sampled_from(MODES),
    st.lists(
        st.tuples(st.sampled_from([0, 0, 1, 4, 2**62, 2**63 - 7, 2**63 - 1]), st.booleans()),
        max_size=6,
    ),
    st.data(),
)
def test_bounds_and_times_as_large_as_they_come(
    formula: Formula, mode: Any, steps: list[tuple[int, bool]], data: st.DataObject
) -> None:
    """At every point of a stream that leaps from 0 to the last time-stamp, or rests there."""
    monitor, clock = Monitor(formula, mode), 0
    for increment, is_event in steps:
        clock = min(clock + increment, 2**63 - 1)
        twin = Monitor(formula, mode)
        snapshot = monitor.snapshot()
        twin.restore(snapshot)
        assert twin.snapshot() == snapshot
        names = data.draw(st.sets(st.sampled_from("pqr")))
        verdicts = [
            other.step(clock, names) if is_event else other.advance(clock)
            for other in (monitor, twin)
        ]
        assert verdicts[0] == verdicts[1]
    twin = pickle.loads(pickle.dumps(monitor))
    end: Literal["inf", "last"] | int = data.draw(st.sampled_from(["inf", "last", 2**63 - 1]))
    assert monitor.finish(end) == twin.finish(end)


@pytest.mark.parametrize(
    ("formula", "steps"),
    [
        # A window from 5 to the last time-stamp ends 2^63 after 0, counted with both ends.
        ("ALWAYS[0,9] EVENTUALLY[5,9223372036854775807] q", [0]),
        ("ONCE[0,9] EVENTUALLY[0,9223372036854775807] q", [0]),
        # The window would end beyond the last time-stamp; it ends there.
        ("ONCE[0,9] EVENTUALLY[9223372036854775807,9223372036854775807] q", [0, 7]),
        ("ONCE[0,9] EVENTUALLY[9223372036854775800,*) q", [0, 7, 9]),
        ("p SINCE[9223372036854775807,9223372036854775807] q", [0, 2**63 - 1]),
        ("PREVIOUS[9223372036854775807,9223372036854775807] NEXT q", [0, 2**63 - 1]),
    ],
)
def test_the_largest_bounds_from_time_stamp_0(formula: str, steps: list[int]) -> None:
    monitor, twin = Monitor(formula), Monitor(formula)
    for time_stamp in steps:
        assert monitor.step(time_stamp, {"q"}) == twin.step(time_stamp, {"q"})
        snapshot = monitor.snapshot()
        twin = Monitor(formula)
        twin.restore(snapshot)
        assert twin.snapshot() == snapshot
    assert monitor.finish(2**63 - 1) == twin.finish(2**63 - 1)


def test_after_time_has_passed_its_end() -> None:
    """The clock is then one beyond the last time-stamp, as far from an event at 0 as can be."""
    monitor = Monitor("ONCE[0,9] NEXT q")
    monitor.step(0, {"p"})
    monitor.advance(2**63 - 1)
    twin = Monitor("ONCE[0,9] NEXT q")
    twin.restore(monitor.snapshot())
    assert str(twin) == str(monitor)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("mode", MODES)
def test_at_every_event(formula: str, mode: Any) -> None:
    log = events(random.Random(formula), 60)
    expected = resume(Monitor(formula, mode), log)
    snapshot = Monitor(formula, mode).snapshot()
    written = []
    for event in log:
        monitor = Monitor(formula, mode)
        monitor.restore(snapshot)
        written += [str(verdict) for verdict in monitor.step(*event)]
        snapshot = monitor.snapshot()
    monitor.restore(snapshot)
    assert written + resume(monitor, []) == expected


def test_the_same_bytes_from_both_back_ends() -> None:
    log = events(random.Random(4), 50)
    snapshots = []
    for back_end in ("cudd", "autoref"):
        try:
            monitor = Monitor(MIXED, "global", bdd=back_end)
        except bdd.BackEndError as error:
            pytest.skip(f"dd brings no {back_end} here: {error}")
        list(monitor(log))
        assert monitor.counters["bdd_operations"] > 0
        snapshots.append(monitor.snapshot())
    assert snapshots[0] == snapshots[1]


def test_another_process_goes_on() -> None:
    log = events(random.Random(8), 60)
    monitor = Monitor(MIXED)
    list(monitor(log[:30]))
    program = (
        "import sys, pickle\n"
        "monitor, log = pickle.load(sys.stdin.buffer)\n"
        "for verdict in monitor(log): print(verdict)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps((monitor, log[30:])),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().splitlines() == [str(verdict) for verdict in monitor(log[30:])]


def test_copies_are_independent() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p", "global")
    monitor.step(1, ())
    for twin in (copy.copy(monitor), copy.deepcopy(monitor), pickle.loads(pickle.dumps(monitor))):
        assert twin.mode == "global"
        assert [str(verdict) for verdict in twin.step(2, ("p",))] == ["1:0 true", "2:0 true"]
    assert monitor.pending == [(1, 0)]


def test_a_snapshot_is_small() -> None:
    for formula in FORMULAS[:5]:
        monitor = Monitor(formula)
        list(monitor(events(random.Random(1), 1000)))
        assert len(monitor.snapshot()) < 250, formula


def test_a_finished_monitor_starts_again() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    start = monitor.snapshot()
    monitor.step(1, ())
    monitor.finish("inf")
    with pytest.raises(MtlmonError, match="finished"):
        monitor.snapshot()
    monitor.restore(start)
    assert monitor.pending == []
    assert monitor.step(0, ()) == []


def snapshot_of(formula: str, mode: Any = "local") -> bytes:
    monitor = Monitor(formula, mode)
    list(monitor(events(random.Random(2), 30)))
    return monitor.snapshot()


def test_what_is_no_snapshot_of_this_monitor() -> None:
    snapshot = snapshot_of(MIXED)
    monitor = Monitor(MIXED)
    monitor.step(3, ("p",))
    before = monitor.snapshot()
    for wrong, reason in [
        (b"", "not a snapshot"),
        (b"something else altogether, and long enough", "not a snapshot"),
        (snapshot[:-1], "damaged"),
        (snapshot + b"\0", "damaged"),
        (snapshot[:6] + b"\x09" + snapshot[7:], "version 9"),
        (snapshot_of("p UNTIL[0,5] q"), "another formula or mode"),
        (snapshot_of(MIXED, "global"), "another formula or mode"),
    ]:
        with pytest.raises(SnapshotError, match=reason):
            monitor.restore(wrong)
        assert monitor.snapshot() == before
    for wrong_type in ["text", 40, None]:
        with pytest.raises(TypeError):
            monitor.restore(wrong_type)  # type: ignore[arg-type]
    assert monitor.snapshot() == before


def test_a_snapshot_may_come_in_any_buffer() -> None:
    snapshot = snapshot_of(MIXED)
    every_second = memoryview(bytes(byte for byte in snapshot for _ in range(2)))[::2]
    buffers: list[bytearray | memoryview] = [
        bytearray(snapshot),
        memoryview(snapshot),
        every_second,
    ]
    for buffer in buffers:
        monitor = Monitor(MIXED)
        monitor.restore(buffer)
        assert monitor.snapshot() == snapshot


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_damaged_byte_is_noticed(formula: str) -> None:
    snapshot = snapshot_of(formula)
    monitor = Monitor(formula)
    for place in range(len(snapshot)):
        with pytest.raises(SnapshotError):
            monitor.restore(
                snapshot[:place] + bytes([snapshot[place] ^ 0x15]) + snapshot[place + 1 :]
            )


def test_pending_time_points_out_of_order_are_noticed() -> None:
    program = with_network("EVENTUALLY[0,5] NEXT[0,3] p")
    monitor = Monitor(program, mode="naive")
    monitor.step(0)
    monitor.step(0)
    snapshot = monitor.snapshot()
    # Two of them, each with age, offset and weight; numbers are stored as the next larger ones.
    registers, exchanged = bytes((3, 1, 1, 2, 1, 2, 2)), bytes((3, 1, 2, 2, 1, 1, 2))
    body = snapshot[23:].replace(registers, exchanged)
    assert body != snapshot[23:]
    forged = snapshot[:15] + blake2b(body, digest_size=8).digest() + body
    with pytest.raises(SnapshotError):
        Monitor(program, mode="naive").restore(forged)


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_forged_snapshot_cannot_break_the_monitor(formula: str) -> None:
    """With digests that fit: it is refused, or it is the snapshot of some state."""
    from hashlib import blake2b

    source = random.Random(formula)
    snapshot = snapshot_of(formula)
    monitor = Monitor(formula)
    for _ in range(400):
        body = bytearray(snapshot[23:])
        for _ in range(source.randint(1, 3)):
            if body and source.random() < 0.8:
                body[source.randrange(len(body))] = source.randrange(256)
            else:
                del body[source.randrange(len(body) + 1) :]
        forged = snapshot[:15] + blake2b(body, digest_size=8).digest() + bytes(body)
        try:
            monitor.restore(forged)
        except (SnapshotError, MemoryError):
            continue
        accepted = monitor.snapshot()
        twin = Monitor(formula)
        twin.restore(accepted)
        assert twin.snapshot() == accepted
        try:
            assert resume(monitor, []) == resume(twin, [])
        except MtlmonError as error:
            # counts beyond 64 bits and the like, the same for both
            with pytest.raises(type(error)):
                resume(twin, [])
