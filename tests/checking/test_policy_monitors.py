"""Monitors of several policies, at their edges: errors, keys that are forgotten, keys that wait."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import (
    LimitError,
    Monitor,
    MonitorBrokenError,
    SnapshotError,
    TimeStampError,
    Verdict,
    VerdictArray,
)
from mtlmon.tables import KeyedMonitors
from mtlmon.verdict_arrays import verdict_type
from tests.doors import (
    EventColumns,
    MemoryLimit,
    PolicyMonitors,
    policies_snapshot,
    restore_policies,
)
from tests.doors import expressions_bdd as bdd
from tests.sampling import thinned

Step = tuple[int, int, str]
"""A time-stamp, the number of a stream, the atoms that hold."""


def feed(policies: PolicyMonitors, *steps: Step, skipped: int | None = None) -> None:
    """Feed events, in bytes; or in bitmaps with so many bits before them."""
    time_stamps = np.array([step[0] for step in steps], np.int64)
    events = []
    for monitors in policies.monitors:
        columns = EventColumns(time_stamps, len(steps))
        for place, name in enumerate(monitors.atoms):
            held = np.array([name in step[2] for step in steps], bool)
            if skipped is None:
                columns.add_bytes(place, held)
            else:
                # what is before and behind does not count
                padded = np.concatenate(
                    [np.ones(skipped, bool), held, np.ones(-len(held) % 8, bool)]
                )
                columns.add_bitmap(place, np.packbits(padded, bitorder="little"), skipped)
        events.append(columns)
    policies.feed(events, np.array([step[1] for step in steps], np.uint32))


def taken(policies: PolicyMonitors, *, of_violations: bool = False) -> list[tuple[int, int, str]]:
    """The verdicts so far, each behind the numbers of its policy and its stream."""
    rows_of = policies.violations if of_violations else policies.verdicts
    records, streams, numbers = rows_of.taken()
    verdicts: list[Verdict] = list(VerdictArray(np.frombuffer(records, verdict_type())))
    rows = zip(
        np.frombuffer(numbers, np.uint32).tolist(),
        np.frombuffer(streams, np.uint32).tolist(),
        map(str, verdicts),
        strict=True,
    )
    return list(rows)


ATOMS = ("p", "q", "r")

# How many of the events have an atom, and how far they are apart.
SHARES = (0.02, 0.01, 0.03, 0.0, 0.3)
GAPS = ((0, 1), (0, 0, 0, 1), (0, 1, 2, 9), (0, 1, 40))


def any_formula(generator: random.Random, depth: int) -> str:
    if not depth or generator.random() < 0.2:
        return generator.choice(ATOMS)
    left, right = (any_formula(generator, depth - 1) for _ in range(2))
    window = f"[{generator.randrange(4)},{generator.choice(['4]', '9]', '20]', '*)'])}"
    return generator.choice(
        [
            f"NOT {left}",
            f"({left} AND {right})",
            f"({left} OR {right})",
            f"(ONCE{window} {right})",
            f"(EVENTUALLY{window} {right})",
            f"({left} SINCE{window} {right})",
            f"({left} UNTIL{window} {right})",
            f"(PREVIOUS {right})",
            f"(NEXT{window} {right})",
        ]
    )


def rule(generator: random.Random, depth: int) -> str:
    """A part of a formula to which events without atoms make no difference: what is on the right
    of an operator is false there, what is on the left is true.
    """
    atom, window = (
        generator.choice(ATOMS),
        f"[{generator.randrange(4)},{generator.choice([4, 9, 20])}]",
    )
    right = (
        f"({atom} AND {rule(generator, depth - 1)})" if depth and generator.random() < 0.5 else atom
    )
    left = f"(NOT {generator.choice(ATOMS)})"
    if depth and generator.random() < 0.3:
        left = f"({left} OR {rule(generator, depth - 1)})"
    found = generator.choice(
        [
            f"(ONCE{window} {right})",
            f"(EVENTUALLY{window} {right})",
            f"({left} SINCE{window} {right})",
            f"({left} UNTIL{window} {right})",
        ]
    )
    return f"(NOT {found})" if generator.random() < 0.4 else found


@pytest.mark.parametrize("seed", thinned(range(60)))
def test_events_without_atoms_are_events(seed: int) -> None:
    """In bitmaps of which most are empty, policies pass over those without their atoms.

    Each batch has another share of events with atoms, so that both ways take turns, and after some
    batches others go on from a snapshot, which is what it is without. The policy that no event
    fulfils shows at which of them the others are decided.
    """
    generator = random.Random(seed)
    was_passed = False
    for _ in range(40):
        formulas = [
            f"{generator.choice(ATOMS)} IMPLIES {make(generator, 2)}"
            for make in generator.choices([rule, any_formula], [3, 1], k=generator.randint(1, 3))
        ]
        verdicts = generator.choice(["false", "false", "none", "boolean", "all"])
        has_first = generator.random() < 0.3
        resolve = generator.random() < 0.2
        delays = generator.choices([None, 0, 3, 30], k=len(formulas) + 1)

        def monitors_of_all() -> PolicyMonitors:
            return PolicyMonitors(
                [KeyedMonitors(formula) for formula in [*formulas, "FALSE"]],  # noqa: B023
                verdicts=verdicts,  # type: ignore[arg-type]  # noqa: B023
                find_first=has_first,  # noqa: B023
                resolve=resolve,  # noqa: B023
                delays=delays,  # noqa: B023
            )

        plain, sparse = monitors_of_all(), monitors_of_all()
        gaps, clock = generator.choice(GAPS), generator.choice([0, 5])
        streams = generator.choice([1, 1, 2, 5, 60])
        numbers = list(range(streams))
        has_forgotten = False
        for _ in range(generator.randint(1, 4)):
            share, steps = generator.choice(SHARES), []
            for _ in range(generator.choice([150, 200, 250, 3])):
                clock += generator.choice(gaps)
                held = "".join(a for a in ATOMS if generator.random() < share)
                steps.append((clock, generator.randrange(streams), held))
            feed(plain, *steps)
            others = [(time, numbers[stream], held) for time, stream, held in steps]
            feed(sparse, *others, skipped=generator.randrange(10))
            assert taken(sparse) == [(one, numbers[k], text) for one, k, text in taken(plain)]
            if has_first:
                assert plain.first is not None and sparse.first is not None
                assert sparse.first.is_found == plain.first.is_found
                for policy in range(len(formulas)):
                    assert sparse.first.counts(policy) == plain.first.counts(policy)
                if plain.first.is_found:
                    for name in ("policy", "time_stamp", "offset", "event_count"):
                        assert getattr(sparse.first, name) == getattr(plain.first, name)
            for one, other in zip(plain.monitors, sparse.monitors, strict=True):
                for stream in range(streams):
                    assert other.pending(numbers[stream]) == one.pending(stream)
                for name in ("events", "true", "false"):
                    assert other.counters[name] == one.counters[name]
                was_passed |= other.counters["table_hits"] < one.counters["table_hits"] // 2
            if generator.random() < 0.3:
                # time passes, also for streams behind whose states events were passed over
                clock += generator.choice([1, 3, 50])
                plain.advance(clock)
                sparse.advance(clock)
                assert sorted(taken(sparse)) == sorted(
                    (one, numbers[k], text) for one, k, text in taken(plain)
                )
            if not has_forgotten and generator.random() < 0.3:
                snapshot = policies_snapshot(sparse, clock)
                assert snapshot == policies_snapshot(plain, clock)
                if generator.random() < 0.5:
                    plain, sparse = monitors_of_all(), monitors_of_all()
                    for policies in (plain, sparse):
                        restore_policies(policies, snapshot)
            forgotten = None
            if not has_first and not resolve and generator.random() < 0.3:
                forgotten = sparse.forget_idle(clock)
            if forgotten is not None:
                # others have these numbers now, and new streams the next ones
                has_forgotten = True
                kept = np.frombuffer(forgotten, np.uint32)
                left = sparse.stream_counts[0]
                for stream, number in enumerate(numbers):
                    if number < len(kept):
                        numbers[stream] = int(kept[number])
                    if number >= len(kept) or numbers[stream] == 2**32 - 1:
                        numbers[stream], left = left, left + 1
        for policies in (plain, sparse):
            policies.finish(clock, True)
        assert sorted(taken(sparse)) == sorted(
            (one, numbers[k], text) for one, k, text in taken(plain)
        )
    assert was_passed


@pytest.mark.parametrize(
    ("formula", "most"),
    [
        # what is false without r makes no difference without r
        ("p IMPLIES NOT ONCE[1,5] (q AND r)", 0),
        ("p IMPLIES ALWAYS[0,20] NOT (q AND r)", 3),
        # nothing waits for q but for a while behind p
        ("p IMPLIES EVENTUALLY[0,20] q", 3),
        ("p IMPLIES ALWAYS[5,20] NOT q", 5),
        # q is remembered, or violates
        ("p IMPLIES ONCE[0,20] q", 1000),
        ("NOT q", 1000),
    ],
)
def test_events_that_make_no_difference_are_passed_over(formula: str, most: int) -> None:
    """Rationale: of 10,000 events, q is at a hundred and p at one; r never comes."""
    policies = PolicyMonitors([KeyedMonitors(formula), KeyedMonitors("FALSE")], verdicts="false")
    feed(
        policies,
        *((k, 0, "q" * (k % 100 == 0) + "p" * (k == 5010)) for k in range(10_000)),
        skipped=0,
    )
    (one, _) = policies.monitors
    assert one.counters["events"] == 10_000
    hits = one.counters["table_hits"]
    assert hits <= most if most < 100 else hits > 80


@pytest.mark.parametrize("has_threads", [False, True])
@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_ends_all_policies_at_the_same_event(
    monkeypatch: pytest.MonkeyPatch, failing: int, has_threads: bool
) -> None:
    """A verdict on an event behind the error would be written again when the log is resumed."""
    wide = "(EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)"
    monkeypatch.setattr(bdd, "SUPPORT_LIMIT", 4)
    monitor = Monitor(wide)
    events = 0
    with pytest.raises(LimitError):
        while True:
            monitor.step(events)
            events += 1
    formulas = ["NOT p"]
    formulas.insert(failing, wide)
    policies = PolicyMonitors([KeyedMonitors(formula) for formula in formulas])
    with ThreadPoolExecutor(2) as executor:
        policies.executor = executor if has_threads else None
        with pytest.raises(LimitError):
            feed(policies, *((time_stamp, 0, "") for time_stamp in range(2 * events)))
    expected = [(1 - failing, 0, f"{time_stamp}:0 true") for time_stamp in range(events)]
    assert [verdict for verdict in taken(policies) if verdict[0] != failing] == expected


def test_a_broken_stream_ends_all_policies_before_its_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing that was done in a former batch counts for the batch that fails at once."""
    monkeypatch.setattr(bdd, "SUPPORT_LIMIT", 4)
    wide = "(EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)"
    policies = PolicyMonitors([KeyedMonitors(wide), KeyedMonitors("NOT p")])
    with pytest.raises(LimitError):
        feed(policies, *((time_stamp, 0, "") for time_stamp in range(20)))
    feed(policies, *((20, stream, "pq") for stream in range(1, 11)))
    taken(policies)
    with pytest.raises(MonitorBrokenError):
        feed(policies, *((21, stream, "") for stream in range(5)))
    assert taken(policies) == []


@pytest.mark.parametrize(
    ("formula", "atoms", "settling"),
    [
        ("ONCE[0,9] p", "p", 10),
        ("ONCE[3,9] p", "p", 10),
        ("PREVIOUS[0,4] p", "p", 5),
        ("p SINCE[2,8] q", "q", 9),
        ("ONCE[0,2] ONCE[0,3] p", "p", 4),
    ],
)
def test_a_stream_is_forgotten_once_nothing_can_tell_and_not_before(
    formula: str, atoms: str, settling: int
) -> None:
    """One time unit before, an event would still have had another verdict than in a new stream."""
    last = 20
    for clock in range(last, last + settling + 2):
        policies = PolicyMonitors([KeyedMonitors(formula)])
        feed(policies, (last, 0, atoms))
        forgotten = policies.forget_idle(clock) is not None
        assert forgotten == (clock >= last + settling)
        assert sum(policies.stream_counts) == (0 if forgotten else 1)
        # what the stream remembers, had it been kept
        taken(policies)
        feed(policies, (clock, 0, "p"))
        monitor = Monitor(formula)
        monitor.step(last, tuple(atoms))
        assert taken(policies) == [(0, 0, str(one)) for one in monitor.step(clock, ("p",))]


def test_a_stream_without_an_event_is_forgotten() -> None:
    policies = PolicyMonitors([KeyedMonitors("PREVIOUS p"), KeyedMonitors("ONCE[0,5] p")])
    feed(policies, (20, 7, "p"))
    assert policies.forget_idle(20) is not None
    assert sum(policies.stream_counts) == 1


@pytest.mark.parametrize(
    ("formula", "atoms"),
    [
        ("EVENTUALLY[0,9] p", ""),
        # More than a configuration has room for: nothing is pending, but it is remembered.
        (" OR ".join(f"(PREVIOUS[0,{bound}] p)" for bound in range(300)), "p"),
    ],
)
def test_streams_that_are_not_as_good_as_new(formula: str, atoms: str) -> None:
    """Long after all that could matter, if it had been looked at."""
    policies = PolicyMonitors([KeyedMonitors(formula)])
    feed(policies, (20, 0, atoms))
    assert policies.forget_idle(10**6) is None


def test_a_stream_that_broke_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not pass for a new one, though nothing was pending before the event that broke it."""
    wide = "p AND ((EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q))"
    policies = PolicyMonitors([KeyedMonitors(wide)])
    feed(policies, (20, 0, ""))
    with monkeypatch.context() as patch, pytest.raises(LimitError):
        patch.setattr(bdd, "SUPPORT_LIMIT", 1)
        feed(policies, (20, 0, "p"))
    assert policies.forget_idle(10**6) is None
    with pytest.raises(MonitorBrokenError):
        feed(policies, (10**6, 0, "p"))


@pytest.mark.parametrize(
    ("kept", "room"),
    [
        # room for no more than four times of what is left
        (5, 20),
        (4, 4),
        (1, 1),
        (0, 1),
    ],
)
def test_room_for_streams_that_are_forgotten(kept: int, room: int) -> None:
    monitors = KeyedMonitors("EVENTUALLY[0,5] p", "naive")
    policies = PolicyMonitors([monitors])
    feed(policies, *((0, stream, "" if 20 - kept <= stream else "p") for stream in range(20)))
    assert policies.forget_idle(5) is not None
    assert sum(policies.stream_counts) == kept
    assert monitors.pending_streams == list(range(kept))
    # 24 bytes for each pending time-point
    assert monitors.counters["bytes"] == 56 * room + 24 * kept
    feed(policies, *((5, stream, "p") for stream in range(30)))
    assert sorted(taken(policies)) == sorted(
        [
            *((0, stream, "0:0 true") for stream in range(20 - kept)),
            *((0, stream, "0:0 true") for stream in range(kept)),
            *((0, stream, "5:0 true") for stream in range(30)),
        ]
    )


def test_threads_change_nothing() -> None:
    formulas = ["p", "EVENTUALLY[0,9] q", "p SINCE[0,5] q", "NEXT (p UNTIL[0,3] q)"]
    source = random.Random(1)
    steps = [
        (k // 3, source.randrange(4), "".join(a for a in "pq" if source.random() < 0.4))
        for k in range(900)
    ]
    found = []
    for threads in (None, 1, 3):
        policies = PolicyMonitors(
            [KeyedMonitors(formula) for formula in formulas], collect=True, find_first=True
        )
        if threads is not None:
            policies.executor = ThreadPoolExecutor(threads)
        for start in range(0, 900, 300):
            feed(policies, *steps[start : start + 300])
        counters = [monitors.counters for monitors in policies.monitors]
        found.append((taken(policies), taken(policies, of_violations=True), counters))
        if policies.executor is not None:
            policies.executor.shutdown()
    assert found[1:] == [found[0]] * 2


def test_only_new_monitors_go_on_from_a_snapshot() -> None:
    policies, others = (
        PolicyMonitors([KeyedMonitors("EVENTUALLY[0,5] p"), KeyedMonitors("q")]) for _ in range(2)
    )
    feed(policies, (1, 0, "q"), (2, 1, ""))
    assert len(taken(policies)) == 2
    snapshot = policies_snapshot(policies)
    restore_policies(others, snapshot)
    assert policies_snapshot(others) == snapshot
    with pytest.raises(SnapshotError):
        restore_policies(others, snapshot)


def test_the_earliest_pending_time_point_of_all() -> None:
    """By time-stamp, then by offset; of a state that is kept whole too."""
    monitors = [KeyedMonitors("EVENTUALLY[0,900] p", "naive"), KeyedMonitors("NEXT q", "naive")]
    policies = PolicyMonitors(monitors)
    feed(policies, (3, 1, "p"), (3, 1, ""), *((time_stamp, 0, "") for time_stamp in range(4, 84)))
    assert monitors[0].counters["whole"] == 1
    assert policies.earliest_pending == (3, 1, 0)
    feed(policies, (84, 1, "p"))
    assert policies.earliest_pending == (4, 0, 0)
    feed(policies, (84, 0, "p"))
    assert policies.earliest_pending == (84, 0, 1)


def test_a_stream_that_got_further_waits_again() -> None:
    """It waits with the time-stamp of its first event; what that event waited for came, so only
    later ones are pending when its turn comes. It must come again."""
    policies = PolicyMonitors([KeyedMonitors("p IMPLIES EVENTUALLY[0,5] q")], delays=[5])
    feed(policies, (0, 0, "p"))
    feed(policies, (3, 0, "q"), (4, 0, "p"))
    assert taken(policies) == [(0, 0, "0:0 true"), (0, 0, "3:0 true")]
    policies.advance(7)
    assert taken(policies) == []
    policies.advance(9)
    assert taken(policies) == []
    policies.advance(10)
    assert taken(policies) == [(0, 0, "4:0 false")]


def test_streams_are_settled_when_their_time_is_over_and_not_before() -> None:
    count = 40
    policies = PolicyMonitors([KeyedMonitors("p IMPLIES EVENTUALLY[0,5] q")], delays=[5])
    # numbers against the order of time, so that the longest wait is not that of the first stream
    numbers = [(7 * k) % count for k in range(count)]
    feed(policies, *((k, number, "p") for k, number in enumerate(numbers)))
    assert taken(policies) == []
    for clock in range(count, count + 8):
        policies.advance(clock)
        over = [k for k in range(count) if clock - k > 5]
        emitted = [k for k in range(count) if clock > count and clock - 1 - k > 5]
        expected = sorted((numbers[k], f"{k}:0 false") for k in over if k not in emitted)
        assert [(stream, verdict) for _, stream, verdict in taken(policies)] == expected


def test_streams_that_wait_do_so_under_new_numbers() -> None:
    policies = PolicyMonitors([KeyedMonitors("p IMPLIES EVENTUALLY[0,5] q")], delays=[5])
    feed(policies, *((k, k, "p" if k in (3, 8) else "") for k in range(10)))
    taken(policies)
    numbers = policies.forget_idle(9)
    assert numbers is not None
    kept = [k for k, number in enumerate(np.frombuffer(numbers, np.uint32)) if number < 10]
    assert kept == [3, 8, 9]
    policies.advance(9)
    assert taken(policies) == [(0, 0, "3:0 false")]
    policies.advance(14)
    assert taken(policies) == [(0, 1, "8:0 false")]


@pytest.mark.parametrize(("count", "policy_count"), [(4, 1), (4, 2), (60, 2), (1000, 2)])
def test_open_equivalents_go_with_their_streams(count: int, policy_count: int) -> None:
    """They are found under the new numbers, for every policy those of its own."""
    formulas = ["p IMPLIES EVENTUALLY[0,5] q", "p IMPLIES EVENTUALLY[0,3] r"][:policy_count]
    policies = PolicyMonitors([KeyedMonitors(one) for one in formulas], resolve=True)
    waiting = range(1, count, 3)
    # Three time-points of one time-stamp, of which the first stands for the others.
    feed(policies, *((0, stream, "p" if stream in waiting else "") for stream in range(count)))
    for _ in range(2):
        feed(policies, *((0, stream, "p") for stream in waiting))
    taken(policies)
    assert policies.open_count == 2 * policy_count * len(waiting)
    assert policies.forget_idle(2) is not None
    assert sum(policies.stream_counts) == len(waiting)
    # Each stream is answered for another policy than its neighbours, the other by the end.
    answers = [(2, stream, "qr"[stream % 2]) for stream in range(len(waiting))]
    feed(policies, *answers)
    assert policies.open_count == 2 * (policy_count - 1) * len(waiting)
    points = ["0:0", "0:1", "0:2"]
    assert taken(policies) == [
        (policy, stream, f"{point} true")
        for stream in range(len(waiting))
        for policy in range(policy_count)
        for point in ([*points, "2:0"] if policy == stream % 2 else ["2:0"])
    ]
    policies.finish(9, False)
    assert policies.open_count == 0
    assert taken(policies) == [
        (policy, stream, f"{point} false")
        for stream in range(len(waiting))
        for policy in range(policy_count)
        for point in points
        if policy != stream % 2
    ]


@pytest.mark.parametrize("is_closed", [False, True])
def test_the_end_of_streams_that_are_whole_or_small(is_closed: bool) -> None:
    """What is pending then can be asked for, of each stream."""
    formula = "EVENTUALLY[0,1000] p"
    monitors = KeyedMonitors(formula, "naive")
    policies = PolicyMonitors([monitors])
    counts = [80, 3, 90, 1]
    apart = [Monitor(formula, "naive") for _ in counts]
    for time_stamp in range(max(counts)):
        for stream, count in enumerate(counts):
            if time_stamp < count:
                feed(policies, (time_stamp, stream, ""))
                apart[stream].step(time_stamp)
    assert monitors.counters["whole"] == 2
    policies.finish(1002, is_closed)
    expected = [
        (0, stream, str(verdict))
        for stream, monitor in enumerate(apart)
        for verdict in (monitor.finish("inf") if is_closed else monitor.advance(1002))
    ]
    assert taken(policies) == expected
    for stream, monitor in enumerate(apart):
        assert monitors.pending(stream, 1002) == monitor.pending
    counters = monitors.counters
    assert counters["events"] == sum(counts)
    assert (counters["true"], counters["false"]) == (0, len(expected))


def test_more_streams_than_are_settled_or_ended_at_a_time() -> None:
    """Verdicts are brought together by policy for some thousand streams at a time."""
    count = 20_000
    formulas = ["p IMPLIES EVENTUALLY[0,5] q", "EVENTUALLY[0,3] q"]
    for ends in (False, True):
        policies = PolicyMonitors([KeyedMonitors(one) for one in formulas], delays=[5, 3])
        feed(policies, *((0, stream, "p") for stream in range(count)))
        feed(policies, *((9, stream, "q") for stream in range(100, 200)))
        taken(policies)
        if ends:
            policies.finish(0, True)
        else:
            policies.advance(9)
        waiting = [stream for stream in range(count) if not 100 <= stream < 200]
        assert taken(policies) == [
            (policy, stream, "0:0 false") for stream in waiting for policy in (0, 1)
        ]
        assert policies.earliest_pending is None


# ---- events of their own -----------------------------------------------------------------------


Own = list[tuple[int, int, int, str]]
"""The events of a policy: of each the place, time-stamp, number of the stream, and atoms."""


def own_events(draw: st.DrawFn, rows: list[int], kind: str) -> Own:
    """Events of a policy beside rows with these time-stamps: rows, some of them, or ticks."""
    atoms = st.text("pq", max_size=2)
    streams = st.integers(0, 2)
    if kind != "ticks":
        events = [(place, stamp, draw(streams), draw(atoms)) for place, stamp in enumerate(rows)]
        return [one for one in events if kind == "rows" or draw(st.booleans())]
    events = []
    last = -1
    for place, stamp in enumerate([*rows, 10**6]):
        # a tick comes before the row that moves the time beyond it
        for tick in range(last + 1, min(stamp, last + 6)):
            events += [
                (place, tick, stream, draw(atoms)) for stream in range(draw(st.integers(0, 2)))
            ]
        last = stamp - 1
    return events


def columns_of(monitors: KeyedMonitors, events: Own) -> EventColumns:
    columns = EventColumns(np.array([one[1] for one in events], np.int64), len(events))
    for place, name in enumerate(monitors.atoms):
        columns.add_bytes(place, np.array([name in one[3] for one in events], bool))
    return columns


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], list[str], list[Own], list[str]]:
    """Time-stamps of rows, and for each policy its formula, its events and their kind."""
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 2, 9]), max_size=12))
    rows = [sum(gaps[: k + 1]) for k in range(len(gaps))]
    kinds = draw(st.lists(st.sampled_from(["rows", "some", "ticks"]), min_size=1, max_size=4))
    choices = ["p", "p IMPLIES EVENTUALLY[0,3] q", "q IMPLIES ONCE[0,4] p", "NOT q"]
    formulas = [draw(st.sampled_from(choices)) for _ in kinds]
    return rows, formulas, [own_events(draw, rows, kind) for kind in kinds], kinds


def expected_of(formulas: list[str], events: list[Own]) -> list[tuple[int, int, str]]:
    """By place, time-stamp, how many such events of the policy came before, and policy."""
    apart: dict[tuple[int, int], Monitor] = {}
    expected = []
    order = []
    for policy, own in enumerate(events):
        ranks: dict[tuple[int, int], int] = {}
        for event in own:
            rank = ranks[event[:2]] = ranks.get(event[:2], -1) + 1
            order.append((*event[:2], rank, policy, event[2], event[3]))
    for _, stamp, _, policy, stream, atoms in sorted(order):
        monitor = apart.setdefault((policy, stream), Monitor(formulas[policy]))
        verdicts = monitor.step(stamp, tuple(atoms))
        expected += [(policy, stream, str(verdict)) for verdict in verdicts]
    return expected


def found_in(
    policies: PolicyMonitors, events: list[Own], kinds: list[str], row_count: int, sizes: list[int]
) -> list[tuple[int, int, str]]:
    """The verdicts if the rows are fed in parts of these sizes."""
    columns = [columns_of(*one) for one in zip(policies.monitors, events, strict=True)]
    numbers = [np.array([one[2] for one in own], np.uint32) for own in events]
    places = [
        None if kind == "rows" else np.array([one[0] for one in own], np.uint32)
        for own, kind in zip(events, kinds, strict=True)
    ]
    first = 0
    found = []
    for size in cycle(sizes):
        policies.feed(columns, numbers, first, size, places=places, rows=row_count)
        found += taken(policies)
        first += size
        if first >= row_count:
            return found
    return found


@given(cases(), st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_policies_with_events_of_their_own(
    case: tuple[list[int], list[str], list[Own], list[str]], sizes: list[int]
) -> None:
    rows, formulas, events, kinds = case
    policies = PolicyMonitors(
        [KeyedMonitors(formula) for formula in formulas], partitions=list(range(len(formulas)))
    )
    found = found_in(policies, events, kinds, len(rows), sizes)
    assert found == expected_of(formulas, events)


def test_many_events_of_their_own() -> None:
    """More rows than policies process in turn, as the limit is low."""
    source = random.Random(5)
    formulas = ["p IMPLIES EVENTUALLY[0,3] q", "NOT q", "q IMPLIES ONCE[0,4] p"]
    rows = [(place, place // 3 + 1, source.randrange(4), "pq"[: source.randrange(3)])
            for place in range(6000)]  # fmt: skip
    ticks = [(3 * tick, tick, stream, "q") for tick in range(2000) for stream in range(tick % 7)]
    events = [rows, ticks, [row for row in rows if "q" not in row[3]]]
    kinds = ["rows", "ticks", "some"]
    limit = MemoryLimit(1 << 23)
    policies = PolicyMonitors(
        [KeyedMonitors(formula) for formula in formulas], partitions=[0, 1, 0], memory=limit
    )
    assert found_in(policies, events, kinds, 6000, [5000]) == expected_of(formulas, events)
    assert policies.stream_counts == [4, 6]


def test_events_of_their_own_that_do_not_fit() -> None:
    policies = PolicyMonitors([KeyedMonitors("p")])
    one = EventColumns(np.array([1, 2], np.int64), 2)
    one.add_bytes(0, np.array([True, False]))
    numbers = np.zeros(2, np.uint32)
    for places, rows in ([1, 0], 2), ([0, 3], 2), ([0], 2):
        with pytest.raises(ValueError, match=r"places|1 items|different|elements|size|items"):
            policies.feed([one], numbers, places=[np.array(places, np.uint32)], rows=rows)
    with pytest.raises(ValueError, match="number of rows"):
        policies.feed([one], numbers, places=[np.array([0, 1], np.uint32)])
    with pytest.raises(ValueError, match="different numbers of events"):
        policies.feed([one], numbers, places=[None], rows=3)
    with pytest.raises(ValueError, match="each of 1 policies"):
        policies.feed([one], [numbers, numbers])
    with pytest.raises(TimeStampError):
        late = EventColumns(np.array([2, 1], np.int64), 2)
        late.add_bytes(0, np.array([True, False]))
        policies.feed([late], numbers, places=[np.array([0, 1], np.uint32)], rows=2)
    assert taken(policies) == []
    policies.feed([one], numbers, places=[np.array([0, 2], np.uint32)], rows=2)
    assert taken(policies) == [(0, 0, "1:0 true"), (0, 0, "2:0 false")]


def test_partitions_that_do_not_fit() -> None:
    for partitions in [0], [0, 2], [1, 1]:
        with pytest.raises(ValueError, match="number of a partition"):
            PolicyMonitors([KeyedMonitors("p"), KeyedMonitors("q")], partitions=partitions)


def test_an_error_with_events_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of all policies end at the place of the failing event."""
    wide = "(EVENTUALLY[2,*) p) EQUIV (EVENTUALLY[3,8] EVENTUALLY[1,3] q)"
    monkeypatch.setattr(bdd, "SUPPORT_LIMIT", 4)
    monitor = Monitor(wide)
    events = 0
    with pytest.raises(LimitError):
        while True:
            monitor.step(events)
            events += 1
    # the first policy has an event at every other row
    keyed = [KeyedMonitors(wide), KeyedMonitors("NOT p")]
    policies = PolicyMonitors(keyed)
    own = [(2 * number, number, 0, "") for number in range(events + 5)]
    rows = [(number, number, 0, "") for number in range(2 * len(own))]
    with pytest.raises(LimitError):
        policies.feed(
            [columns_of(keyed[0], own), columns_of(keyed[1], rows)],
            [np.zeros(len(own), np.uint32), np.zeros(len(rows), np.uint32)],
            places=[np.array([one[0] for one in own], np.uint32), None],
            rows=len(rows),
        )
    found = [verdict for policy, _, verdict in taken(policies) if policy == 1]
    # At the place of the failing event, the row of the same place comes later in time.
    assert found == [f"{number}:0 true" for number in range(2 * events)]
