"""The monitors of a bucket that rests as bytes between batches, and monitors that never rest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Formula, Monitor, SnapshotError, Verdict, compile_formula, resolve
from mtlmon.verdict_arrays import VerdictArray, verdict_type
from tests.doors import (
    NO_SETTINGS,
    Answers,
    BucketMonitors,
    BucketRecords,
    CompiledPolicy,
    Entry,
    EventRecords,
    Head,
    Policies,
    Visit,
    check_settings,
    compile_policies,
    event_source,
    stream_settings,
)
from tests.doors import (
    Sent as SentBlocks,
)
from tests.doors import WaitingRecords as Waiting
from tests.spark.buckets import KeptJournal, Worker
from tests.strategies import ATOMS, formulas
from tests.traces import MODES, Event, Mode


class Sent(NamedTuple):
    """An event of a key."""

    key: int
    event: Event


class Batch(NamedTuple):
    """What comes in one batch, and the horizon that it comes under."""

    horizon: int
    events: tuple[Sent, ...]


@st.composite
def batches(draw: st.DrawFn) -> list[Batch]:
    """Events that jump to and fro in time, some of them too late; batches without events."""
    horizon = 0
    result = []
    for _ in range(draw(st.integers(1, 6))):
        horizon += draw(st.sampled_from([0, 0, 1, 2, 5, 20]))
        times = st.integers(max(0, horizon - 2), horizon + 6)
        events = st.builds(Event, times, st.frozensets(st.sampled_from(ATOMS)))
        sent = st.builds(Sent, st.integers(0, 3), events)
        result.append(Batch(horizon, tuple(draw(st.lists(sent, max_size=8)))))
    return result


def policies_of(formulas: Sequence[Formula | str], mode: Mode = "local") -> Policies:
    programs = [compile_formula(formula) for formula in formulas]
    atoms = tuple(dict.fromkeys(name for program in programs for name in program.atoms))
    compiled = tuple(CompiledPolicy(None, program) for program in programs)
    return Policies(compiled, atoms, {}, None, mode)


KEYS = pa.schema([("key", pa.int64())])
WORKERS = st.lists(st.integers(-1, 1), min_size=1, max_size=4)
"""Which worker visits a bucket; see `Keeper`."""


def records_of(policies: Policies, orders: int = 0, settings: bytes = NO_SETTINGS) -> BucketRecords:
    return BucketRecords(EventRecords(policies.atoms, orders), KEYS, settings)


def block_of(records: BucketRecords, keys: Sequence[int], rows: Sequence[Sequence[int]]) -> bytes:
    values = np.array(rows, np.int64).reshape(-1, records.events.width)
    return records.block([pa.array(keys, pa.int64())], Waiting(values, None))


def visited(
    policies: Policies,
    records: BucketRecords,
    entries: Sequence[bytes | None],
    blocks: Sequence[bytes],
    horizon: int,
) -> Visit[Answers]:
    """A visit of a bucket with at most one entry by a worker that has only begun."""
    kept = KeptJournal()
    kept.entries = [entry for entry in entries if entry is not None]
    if kept.entries:
        kept.head = Head.of(kept.entries[0], None)
    worker = Worker.of(policies)
    monitors = BucketMonitors(policies, records, worker.shared)
    visit = monitors.visit(kept.seen_by(worker), SentBlocks(blocks, horizon, key=(1,)))
    assert visit is not None
    return visit


class Keeper:
    """A bucket as a query keeps it: it is looked at when events come or when it wants to be.

    Args:
        policies: the policies.
        workers: which worker visits it, again and again; -1 for one that has only begun.
        is_counted: whether its journal is one that counts its entries.
    """

    lateness: int | None = None

    def __init__(
        self, policies: Policies, workers: Sequence[int] = (-1,), *, is_counted: bool = False
    ) -> None:
        self.policies = policies
        self.records = records_of(policies)
        self.journal = KeptJournal(is_counted=is_counted)
        self.workers: dict[int, Worker] = {}
        self.turns = itertools.cycle(workers)
        self.verdicts: list[dict[int, list[Verdict]]] = [{} for _ in policies.policies]
        self.late: list[tuple[int, int]] = []

    def resume(self, batch: Batch) -> None:
        answers = self.answers(batch)
        if answers is None:
            return
        for number, found in answers.verdicts.items():
            (keys,) = found.keys
            verdicts = VerdictArray(np.frombuffer(found.records, verdict_type()))
            for owner, verdict in zip(found.owners.tolist(), verdicts, strict=True):
                self.verdicts[number].setdefault(keys[owner].as_py(), []).append(verdict)

    def answers(self, batch: Batch) -> Answers | None:
        """What a visit brings, or None if there is none."""
        wakeup = self.journal.head and self.journal.head.wakeup
        if not batch.events and (wakeup is None or wakeup > batch.horizon):
            return None
        turn = next(self.turns)
        worker = self.workers.pop(turn, None) or Worker.of(self.policies)
        if turn >= 0:
            self.workers[turn] = worker
        monitors = BucketMonitors(self.policies, self.records, worker.shared, None, self.lateness)
        journal = self.journal.seen_by(worker)
        visit = monitors.visit(journal, SentBlocks(self._blocks(batch.events), batch.horizon))
        assert visit is not None
        assert visit.wakeup is None or visit.wakeup > batch.horizon
        self.journal.store(journal, visit)
        late = visit.answers.late
        if late is not None:
            rows = self.records.events.read(late.records)
            self.late += zip(late.keys[0].to_pylist(), rows[:, 0].tolist(), strict=True)
        return visit.answers

    @property
    def stored(self) -> list[bytes]:
        return self.journal.entries

    @property
    def keys(self) -> set[int]:
        """The keys that something is remembered of."""
        return self.journal.keys(self.records)

    def _blocks(self, events: Sequence[Sent]) -> list[bytes]:
        """The events in two blocks."""
        half = len(events) // 2
        return [self._block(part) for part in (events[:half], events[half:]) if part]

    def _block(self, sent: Sequence[Sent]) -> bytes:
        rows = [
            [
                event.time_stamp,
                sum(1 << i for i, name in enumerate(self.policies.atoms) if name in event.atoms),
            ]
            for _, event in sent
        ]
        return block_of(self.records, [key for key, _ in sent], rows)


def true_verdicts(
    formula: Formula, mode: Mode, events: Sequence[Event], horizon: int
) -> list[Verdict]:
    """Of all events below a horizon, ordered, and no event below it to come."""
    monitor = Monitor(formula, mode)
    verdicts: list[Verdict] = []
    for event in sorted(events, key=lambda event: event.time_stamp):
        if event.time_stamp < horizon:
            verdicts += monitor.step(event.time_stamp, event.atoms)
    return verdicts + monitor.advance(horizon)


def values(verdicts: Sequence[Verdict]) -> set[tuple[int, int, bool | None]]:
    """What is known, equivalences resolved."""
    return {(one.time_stamp, one.offset, one.value) for one in resolve(verdicts)}


@given(
    batches=batches(),
    tested=st.lists(formulas(depth=2), min_size=1, max_size=2),
    mode=st.sampled_from(MODES),
    workers=WORKERS,
)
def test_verdicts_are_those_of_monitors_that_never_rest(
    batches: list[Batch], tested: list[Formula], mode: Mode, workers: list[int]
) -> None:
    keeper = Keeper(policies_of(tested, mode), workers, is_counted=True)
    on_time: dict[int, list[Event]] = {}
    late: list[tuple[int, int]] = []
    for batch in batches:
        keeper.resume(batch)
        for key, event in batch.events:
            if event.time_stamp >= batch.horizon:
                on_time.setdefault(key, []).append(event)
            else:
                late.append((key, event.time_stamp))
        for formula, verdicts in zip(tested, keeper.verdicts, strict=True):
            for key, events in on_time.items():
                expected = true_verdicts(formula, mode, events, batch.horizon)
                assert values(verdicts.get(key, [])) == values(expected)
            assert verdicts.keys() <= on_time.keys()
    assert keeper.late == late


@given(batches=batches(), formula=formulas(depth=2), workers=WORKERS)
def test_no_time_point_has_two_verdicts(
    batches: list[Batch], formula: Formula, workers: list[int]
) -> None:
    keeper = Keeper(policies_of([formula]), workers, is_counted=True)
    for batch in batches:
        keeper.resume(batch)
    for verdicts in keeper.verdicts[0].values():
        names = [(one.time_stamp, one.offset) for one in verdicts]
        assert len(names) == len(set(names))


def test_events_of_one_time_stamp_are_ordered_by_what_tells_their_order() -> None:
    policies = policies_of(["PREVIOUS p"])
    records = records_of(policies, 1)
    rows = [[7, 0, 2], [7, 0, 3], [7, 1, 1], [3, 0, 9]]
    blocks = [block_of(records, [5, 5], rows[:2]), block_of(records, [5, 5], rows[2:])]
    outcome = visited(
        policies, records, [visited(policies, records, [], blocks, 0).replaced], [], 8
    )
    verdicts = VerdictArray(np.frombuffer(outcome.answers.verdicts[0].records, verdict_type()))
    assert [str(one) for one in verdicts] == ["3:0 false", "7:0 false", "7:1 true", "7:2 false"]


def test_small_changes_are_appended_and_folded_once_they_are_large() -> None:
    """A bucket with many keys is not written again for the events of a few."""
    keeper = Keeper(policies_of(["ONCE p"]))
    everyone = [Sent(key, Event(1, frozenset("p"))) for key in range(1500)]
    keeper.resume(Batch(0, tuple(everyone)))
    keeper.resume(Batch(2, ()))
    written = 0
    for now in range(2, 100):
        before = list(keeper.stored)
        keeper.resume(Batch(now, (Sent(now % 7, Event(now, frozenset())),)))
        written += sum(len(one) for one in keeper.stored if one not in before)
        first, *others = map(len, keeper.stored)
        assert sum(others) <= first and len(others) < 32
    assert keeper.journal.appended > 20
    assert written < 98 * first / 5
    assert keeper.keys == set(range(1500))
    keeper.resume(Batch(200, ()))
    assert {len(verdicts) for key, verdicts in keeper.verdicts[0].items() if key > 6} == {1}
    assert all(one.value for verdicts in keeper.verdicts[0].values() for one in verdicts)


def test_keys_with_late_events_only_leave_nothing() -> None:
    keeper = Keeper(policies_of(["p"]))
    keeper.resume(Batch(4, (Sent(1, Event(3, frozenset("p"))),)))
    assert (keeper.keys, keeper.late) == (set(), [(1, 3)])
    assert keeper.journal.head is not None
    assert keeper.journal.head.wakeup is None
    # but the settings are known from now on
    assert len(keeper.stored) == 1


@pytest.mark.parametrize(
    ("formulas", "horizon"),
    [(["p"], 4), (["ONCE[0,5] p"], 9), (["ONCE[0,5] p", "EVENTUALLY[0,7] q"], 11), (["ONCE p"], 0)],
)
def test_keys_are_forgotten_once_their_past_makes_no_difference(
    formulas: list[str], horizon: int
) -> None:
    for now in range(4, 30):
        keeper = Keeper(policies_of(formulas))
        keeper.resume(Batch(0, (Sent(1, Event(3, frozenset("p"))),)))
        # the events of another key let the segments be folded
        for _ in range(40):
            keeper.resume(Batch(now, (Sent(2, Event(now + 100, frozenset())),)))
        assert (1 not in keeper.keys) == (0 < horizon <= now)


def test_more_than_64_atoms() -> None:
    names = [f"a{number}" for number in range(130)]
    policies = policies_of([" OR ".join(names[:129]), "a129 AND a0"])
    records = records_of(policies)
    place = policies.atoms.index("a129")
    words = [1, 0, 0]
    words[place // 64] |= 1 << place % 64
    assert records.events.width == 4
    outcome = visited(policies, records, [], [block_of(records, [1], [[5, *words]])], 6 - 1)
    outcome = visited(policies, records, [outcome.replaced], [], 6)
    found = [
        np.frombuffer(one.records, verdict_type())["kind"]
        for one in outcome.answers.verdicts.values()
    ]
    assert [kind.tolist() for kind in found] == [[1], [1]]
    lists = records.events.atom_lists(np.array([[5, *words]], np.int64))
    assert lists.to_pylist() == [["a0", "a129"]]


def test_states_of_other_policies_are_refused() -> None:
    first, second = policies_of(["ONCE p"]), policies_of(["ONCE[0,5] p"])
    records = records_of(first)
    row = block_of(records, [1], [[3, 1]])
    folded = visited(first, records, [], [row], 0).replaced
    with pytest.raises(SnapshotError, match="a checkpointLocation of their own"):
        visited(second, records, [folded], [], 4)
    with pytest.raises(SnapshotError, match="there are 1 policies in it"):
        visited(policies_of(["ONCE p", "p"]), records, [folded], [], 4)


def test_damaged_segments_are_refused() -> None:
    policies = policies_of(["ONCE p"])
    records = records_of(policies)
    folded = visited(policies, records, [], [block_of(records, [1], [[3, 1]])], 0).replaced
    assert folded is not None
    for cut in (0, 1, 20, 40, len(folded) // 2, len(folded) - 1):
        with pytest.raises(SnapshotError):
            records.decode(Entry.decoded(folded[:cut]))
    with pytest.raises(SnapshotError, match="damaged"):
        records.decode(Entry.decoded(folded + b"x"))
    with pytest.raises(SnapshotError, match="version 9"):
        records.decode(Entry.decoded(b"\x09" + folded[1:]))


def settings_of(
    text: str = "atom fast = speed > 3\npolicy x: PREVIOUS fast",
    orders: Sequence[tuple[str, pa.DataType]] = (),
    buckets: int = 8,
    lateness: int | None = None,
    **arguments: Any,
) -> bytes:
    policies = compile_policies(text, "local", arguments.get("resolution"))
    columns = {"time": "ts", "keys": ("k",), **arguments}
    kinds = {"ts": pa.int64(), "at": pa.int64(), "k": pa.string(), "kk": pa.string()}
    source = event_source(policies, **columns)
    wanted = [(name, kinds.get(name, pa.string())) for name in source.selection.names]
    schema = pa.schema([*wanted, *orders])
    return stream_settings(source, [text for text, _ in orders], schema, buckets, lateness)


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"text": "atom fast = speed > 4\npolicy x: PREVIOUS fast"}, "atoms"),
        ({"text": "atom fast = speed > 3\npolicy y: PREVIOUS fast"}, "policy"),
        ({"resolution": "ms"}, "time"),
        ({"time_unit": "ms"}, "time"),
        ({"time": "at"}, "time"),
        ({"event": "what"}, "event"),
        ({"keys": ("kk",)}, "key"),
        ({"orders": [("n", pa.int64())]}, "order_within"),
        ({"buckets": 9}, "number of buckets"),
        ({"keys": (), "orders": [("n", pa.int64())]}, "key and another order_within"),
    ],
)
def test_a_state_knows_what_decides_its_meaning(changed: dict[str, Any], names: str) -> None:
    """Without its order, two events of 24 bytes were read as three of 16; a changed predicate or
    resolution was not noticed at all.
    """
    before, after = settings_of(), settings_of(**changed)
    check_settings(before, settings_of())
    message = f"was made with another {names}: start the query"
    with pytest.raises(SnapshotError, match=message) as caught:
        check_settings(before, after)
    assert "\n" not in str(caught.value)
    policies = policies_of(["ONCE p"])
    records = records_of(policies, settings=before)
    row = block_of(records, [1], [[3, 1]])
    folded = visited(policies, records, [], [row], 0).replaced
    with pytest.raises(SnapshotError, match=message):
        visited(policies, records_of(policies, settings=after), [folded], [], 4)
    assert visited(policies, records, [folded], [], 4).answers.verdicts


def test_expressions_have_one_text_in_all_processes() -> None:
    """pyspark counts the variables of lambdas up while a process lives."""
    one, other = ("transform(a, x_1 -> x_1 + 1)", "transform(a, x_7 -> x_7 + 1)")
    kinds = pa.int64()
    assert settings_of(orders=[(one, kinds)]) == settings_of(orders=[(other, kinds)])
