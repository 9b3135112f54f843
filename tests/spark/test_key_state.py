"""The monitors of a key that rests as bytes between batches, against monitors that never rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import EventError, Monitor, SnapshotError, Verdict, resolve
from mtlmon.engine.compile import compile_formula
from mtlmon.spark.common.events import event_source
from mtlmon.spark.common.policies import CompiledPolicy, Policies, compile_policies
from mtlmon.spark.streaming.event_records import EventRecords
from mtlmon.spark.streaming.key_state import KeyMonitors, KeyState, Outcome
from mtlmon.spark.streaming.settings import NO_SETTINGS, check_settings, stream_settings
from mtlmon.syntax.formula import Formula
from mtlmon.verdict_arrays import VerdictArray, verdict_type
from tests.strategies import ATOMS, formulas
from tests.traces import MODES, Event, Mode


class Batch(NamedTuple):
    """What comes in one batch, and the horizon that it comes under."""

    horizon: int
    events: tuple[Event, ...]


@st.composite
def batches(draw: st.DrawFn) -> list[Batch]:
    """Events that jump to and fro in time, some of them too late; batches without events."""
    horizon = 0
    result = []
    for _ in range(draw(st.integers(1, 6))):
        horizon += draw(st.sampled_from([0, 0, 1, 2, 5, 20]))
        times = st.integers(max(0, horizon - 2), horizon + 6)
        events = st.builds(Event, times, st.frozensets(st.sampled_from(ATOMS)))
        result.append(Batch(horizon, tuple(draw(st.lists(events, max_size=5)))))
    return result


def policies_of(formulas: Sequence[Formula | str], mode: Mode = "local") -> Policies:
    programs = [compile_formula(formula) for formula in formulas]
    atoms = tuple(dict.fromkeys(name for program in programs for name in program.atoms))
    compiled = tuple(CompiledPolicy(None, program) for program in programs)
    return Policies(compiled, atoms, {}, None, mode)


class Keeper:
    """A key as a query keeps it: it is looked at when events come or when it wants to be."""

    def __init__(self, policies: Policies) -> None:
        self.policies = policies
        self.records = EventRecords(policies.atoms, 0)
        self.state: bytes | None = None
        self.verdicts: list[list[Verdict]] = [[] for _ in policies.policies]
        self.late: list[int] = []

    def go_on(self, batch: Batch) -> None:
        state = None if self.state is None else KeyState.decoded(self.state)
        is_due = (
            state is not None
            and state.next_wakeup is not None
            and state.next_wakeup <= batch.horizon
        )
        if not batch.events and not is_due:
            return
        # every time with monitors of its own, as another process has them
        outcome = KeyMonitors(self.policies, self.records).visit(
            state, self._blocks(batch.events), batch.horizon
        )
        self._take(outcome)
        self.state = None if outcome.state is None else outcome.state.encoded()
        if outcome.state is not None:
            assert outcome.state.next_wakeup is None or outcome.state.next_wakeup > batch.horizon

    def _take(self, outcome: Outcome) -> None:
        for number, records in outcome.verdicts:
            self.verdicts[number] += VerdictArray(np.frombuffer(records, verdict_type()))
        self.late += [int(row[0]) for row in self.records.read([outcome.late])]

    def _blocks(self, events: Sequence[Event]) -> list[bytes]:
        """The events in two blocks."""
        half = len(events) // 2
        return [self._block(part) for part in (events[:half], events[half:]) if part]

    def _block(self, events: Sequence[Event]) -> bytes:
        rows = np.zeros((len(events), self.records.width), np.int64)
        for row, event in zip(rows, events, strict=True):
            row[0] = event.time_stamp
            row[1] = sum(
                1 << i for i, name in enumerate(self.policies.atoms) if name in event.atoms
            )
        return rows.tobytes()


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
)
def test_verdicts_are_those_of_monitors_that_never_rest(
    batches: list[Batch], tested: list[Formula], mode: Mode
) -> None:
    keeper = Keeper(policies_of(tested, mode))
    on_time: list[Event] = []
    late: list[int] = []
    for batch in batches:
        keeper.go_on(batch)
        on_time += [event for event in batch.events if event.time_stamp >= batch.horizon]
        late += [event.time_stamp for event in batch.events if event.time_stamp < batch.horizon]
        for formula, verdicts in zip(tested, keeper.verdicts, strict=True):
            assert values(verdicts) == values(true_verdicts(formula, mode, on_time, batch.horizon))
    assert keeper.late == late


@given(batches=batches(), formula=formulas(depth=2))
def test_no_time_point_has_two_verdicts(batches: list[Batch], formula: Formula) -> None:
    keeper = Keeper(policies_of([formula]))
    for batch in batches:
        keeper.go_on(batch)
    names = [(one.time_stamp, one.offset) for one in keeper.verdicts[0]]
    assert len(names) == len(set(names))


def test_events_of_one_time_stamp_are_ordered_by_what_tells_their_order() -> None:
    policies = policies_of(["PREVIOUS p"])
    records = EventRecords(policies.atoms, 1)
    rows = np.array([[7, 0, 2], [7, 0, 3], [7, 1, 1], [3, 0, 9]], np.int64)
    monitors = KeyMonitors(policies, records)
    outcome = monitors.visit(None, [rows[:2].tobytes(), rows[2:].tobytes()], 0)
    outcome = monitors.visit(outcome.state, [], 8)
    ((_, content),) = outcome.verdicts
    verdicts = VerdictArray(np.frombuffer(content, verdict_type()))
    assert [str(one) for one in verdicts] == ["3:0 false", "7:0 false", "7:1 true", "7:2 false"]


def test_keys_with_late_events_only_leave_no_state() -> None:
    policies = policies_of(["p"])
    row = np.array([[3, 1]], np.int64).tobytes()
    outcome = KeyMonitors(policies, EventRecords(policies.atoms, 0)).visit(None, [row], 4)
    assert outcome == Outcome(None, [], row, {})


@pytest.mark.parametrize(
    ("formulas", "horizon"),
    [(["p"], 4), (["ONCE[0,5] p"], 9), (["ONCE[0,5] p", "EVENTUALLY[0,7] q"], 11), (["ONCE p"], 0)],
)
def test_keys_are_forgotten_once_their_past_makes_no_difference(
    formulas: list[str], horizon: int
) -> None:
    keeper = Keeper(policies_of(formulas))
    keeper.go_on(Batch(0, (Event(3, frozenset("p")),)))
    for now in range(1, 30):
        keeper.go_on(Batch(now, ()))
        assert (keeper.state is None) == (0 < horizon <= now)


def test_more_than_64_atoms() -> None:
    names = [f"a{number}" for number in range(130)]
    policies = policies_of([" OR ".join(names[:129]), "a129 AND a0"])
    records = EventRecords(policies.atoms, 0)
    place = policies.atoms.index("a129")
    words = [1, 0, 0]
    words[place // 64] |= 1 << place % 64
    row = np.array([[5, *words]], np.int64)
    assert records.width == 4
    outcome = KeyMonitors(policies, records).visit(None, [row.tobytes()], 5)
    outcome = KeyMonitors(policies, records).visit(outcome.state, [], 6)
    kinds = [np.frombuffer(content, verdict_type())["kind"] for _, content in outcome.verdicts]
    assert [kind.tolist() for kind in kinds] == [[1], [1]]
    assert records.atom_lists(row).to_pylist() == [["a0", "a129"]]


def test_states_of_other_policies_are_refused() -> None:
    first, second = policies_of(["ONCE p"]), policies_of(["ONCE[0,5] p"])
    records = EventRecords(("p",), 0)
    row = np.array([[3, 1]], np.int64).tobytes()
    state = KeyMonitors(first, records).visit(None, [row], 0).state
    with pytest.raises(SnapshotError, match="a checkpointLocation of their own"):
        KeyMonitors(second, records).visit(state, [], 4)
    with pytest.raises(SnapshotError, match="there are 1 policies in it"):
        KeyMonitors(policies_of(["ONCE p", "p"]), records).visit(state, [], 4)
    wide = EventRecords(("p",), 1)
    with pytest.raises(EventError, match="other atoms or another order"):
        KeyMonitors(first, wide).visit(state, [row], 4)


def settings_of(
    text: str = "atom fast = speed > 3\npolicy x: PREVIOUS fast",
    orders: Sequence[tuple[str, pa.DataType]] = (),
    **arguments: Any,
) -> bytes:
    policies = compile_policies(text, "local", arguments.get("resolution"))
    columns = {"time": "ts", "keys": ("k",), **arguments}
    kinds = {"ts": pa.int64(), "at": pa.int64(), "k": pa.string(), "kk": pa.string()}
    source = event_source(policies, **columns)
    wanted = [(name, kinds.get(name, pa.string())) for name in source.selection.names]
    return stream_settings(source, [text for text, _ in orders], pa.schema([*wanted, *orders]))


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
    records = EventRecords(("p",), 0)
    row = np.array([[3, 1]], np.int64).tobytes()
    state = KeyMonitors(policies, records, before).visit(None, [row], 0).state
    assert state is not None and KeyState.decoded(state.encoded()) == state
    with pytest.raises(SnapshotError, match=message):
        KeyMonitors(policies, records, after).visit(state, [], 4)
    assert KeyMonitors(policies, records, before).visit(state, [], 4).state is not None


def test_expressions_have_one_text_in_all_processes() -> None:
    """pyspark counts the variables of lambdas up while a process lives."""
    one, other = ("transform(a, x_1 -> x_1 + 1)", "transform(a, x_7 -> x_7 + 1)")
    kinds = pa.int64()
    assert settings_of(orders=[(one, kinds)]) == settings_of(orders=[(other, kinds)])


def test_states_as_bytes() -> None:
    state = KeyState(17, [b"one", b""], b"waiting.", bytes(range(len(NO_SETTINGS))))
    assert KeyState.decoded(state.encoded()) == state
    assert KeyState.decoded(KeyState(None, [], b"").encoded()) == KeyState(None, [], b"")
    with pytest.raises(SnapshotError, match="damaged"):
        KeyState.decoded(state.encoded()[:20])
    with pytest.raises(SnapshotError, match="version 9"):
        KeyState.decoded(b"\x09" + state.encoded()[1:])
