"""Buckets whose verdicts late events correct, and monitors that see all events in order."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import SnapshotError
from tests.doors import DELETED, INSERTED, UPDATED, Past, change_type, check_settings
from tests.doors import pending_delay as decision_delay
from tests.spark.test_bucket_state import (
    WORKERS,
    Batch,
    Keeper,
    Sent,
    policies_of,
    settings_of,
    true_verdicts,
    values,
)
from tests.strategies import ATOMS, formulas
from tests.traces import MODES, Event, Mode
from tests.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtlmon import Formula
    from tests.doors import Policies

Points = dict[tuple[int, int], Verdict]


def known(points: Points) -> set[tuple[int, int, bool]]:
    """The time-points that have a value, equivalences followed."""
    found = set()
    for name in points:
        last: Verdict | None = points[name]
        while last is not None and last.reference is not None:
            last = points.get(last.reference)
        if last is not None:
            assert last.value is not None
            found.add((*name, last.value))
    return found


class Batches:
    """Past batches in a dictionary."""

    def __init__(self) -> None:
        self.contents: dict[tuple[int, int], bytes] = {}

    def names(self) -> Iterable[tuple[int, int]]:
        return self.contents.keys()

    def get(self, name: tuple[int, int]) -> bytes:
        return self.contents[name]

    def put(self, name: tuple[int, int], content: bytes) -> None:
        assert name not in self.contents
        self.contents[name] = content

    def remove(self, name: tuple[int, int]) -> None:
        del self.contents[name]


class LateKeeper(Keeper):
    """A bucket as a query with a lateness keeps it; `lateness` is that beyond the horizon."""

    is_corrected = True

    def __init__(
        self,
        policies: Policies,
        lateness: int,
        workers: Sequence[int] = (-1,),
        *,
        is_counted: bool = False,
    ) -> None:
        super().__init__(policies, workers, is_counted=is_counted)
        self.lateness = lateness
        self.past = Batches()
        self.number = 0
        self.latest: list[dict[int, Points]] = [defaultdict(dict) for _ in policies.policies]
        self.operations = [0, 0, 0]

    def go_on(self, batch: Batch) -> None:
        outcome = self.outcome(batch)
        if outcome is None:
            return
        for number, found in outcome.verdicts.items():
            keys = found.keys[0].to_pylist()
            changes = np.frombuffer(found.records, change_type())
            assert len(changes) == len(found.owners) > 0
            for owner, change in zip(found.owners.tolist(), changes.tolist(), strict=True):
                self._take(self.latest[number][keys[owner]], *change)

    def _past(self, batch: Batch) -> Past:
        self.number += 1
        return Past(self.past, self.number, max(0, batch.horizon - self.lateness))

    def _take(
        self,
        points: Points,
        time: int,
        offset: int,
        other_time: int,
        other_offset: int,
        kind: int,
        operation: int,
        former: int,
        _trace: int,
    ) -> None:
        """Take a change, which must be one."""
        self.operations[operation] += 1
        point = (time, offset)
        was = points.pop(point, None)
        assert (was is None) == (operation == INSERTED)
        kinds = {None: 2, False: 0, True: 1}
        assert former == (3 if was is None else kinds[was.value])
        if operation == DELETED:
            assert kind == 3
            return
        value = None if kind == 2 else bool(kind)
        reference = (other_time, other_offset) if kind == 2 else None
        points[point] = Verdict(point, value, reference)
        assert was is None or (operation == UPDATED and str(was) != str(points[point]))


@st.composite
def late_batches(draw: st.DrawFn) -> tuple[int, list[Batch]]:
    """A lateness, and events that jump to and fro, some of them too late."""
    lateness = draw(st.sampled_from([1, 3, 8, 30]))
    horizon = 0
    result = []
    for _ in range(draw(st.integers(2, 8))):
        horizon += draw(st.sampled_from([0, 0, 1, 2, 5, 20]))
        times = st.integers(max(0, horizon - lateness - 2), horizon + 6)
        events = st.builds(Event, times, st.frozensets(st.sampled_from(ATOMS)))
        sent = st.builds(Sent, st.integers(0, 2), events)
        result.append(Batch(horizon, tuple(draw(st.lists(sent, max_size=8)))))
    return lateness, result


@given(
    case=late_batches(),
    tested=st.lists(formulas(depth=2), min_size=1, max_size=2),
    mode=st.sampled_from(MODES),
    workers=WORKERS,
)
def test_latest_verdicts_are_those_of_monitors_that_see_all_in_order(
    case: tuple[int, list[Batch]], tested: list[Formula], mode: Mode, workers: list[int]
) -> None:
    lateness, batches = case
    policies = policies_of(tested, mode)
    keeper = LateKeeper(policies, lateness, workers, is_counted=True)
    admitted: dict[int, list[Event]] = {}
    refused: list[tuple[int, int]] = []
    final: dict[tuple[int, int, int, int], bool | None] = {}
    for batch in [*batches, Batch(batches[-1].horizon + 40, ())]:
        keeper.go_on(batch)
        bound = batch.horizon - lateness
        for key, event in batch.events:
            if event.time_stamp >= bound:
                admitted.setdefault(key, []).append(event)
            else:
                refused.append((key, event.time_stamp))
        for number, (formula, policy) in enumerate(zip(tested, policies.policies, strict=True)):
            delay = decision_delay(policy.program.rows, policy.program.root)
            for key, events in admitted.items():
                expected = values(true_verdicts(formula, mode, events, batch.horizon))
                found = known(keeper.latest[number][key])
                assert found == expected
                for time, offset, value in found:
                    name = (number, key, time, offset)
                    assert final.get(name, value) == value
                    if delay is not None and time < bound - delay:
                        final[name] = value
            assert keeper.latest[number].keys() <= admitted.keys()
    assert keeper.late == refused


def sent(key: int, time: int, *atoms: str) -> Sent:
    return Sent(key, Event(time, frozenset(atoms)))


def lines(keeper: LateKeeper, key: int) -> list[str]:
    return [str(verdict) for _, verdict in sorted(keeper.latest[0][key].items())]


def test_a_late_event_corrects_verdicts() -> None:
    """Another verdict, one that is open again, and a follower that needs no row."""
    keeper = LateKeeper(policies_of(["EVENTUALLY[0,8] (q AND PREVIOUS p)"]), 20)
    keeper.go_on(Batch(0, (sent(1, 10), sent(1, 10), sent(1, 15, "p"), sent(1, 16, "q"))))
    keeper.go_on(Batch(17, ()))
    assert lines(keeper, 1) == ["10:0 true", "10:1 = 10:0", "15:0 true", "16:0 true"]
    keeper.go_on(Batch(17, (sent(1, 15),)))
    assert lines(keeper, 1) == ["10:1 = 10:0", "15:1 = 15:0"]
    assert keeper.operations[DELETED] == 3
    keeper.go_on(Batch(40, ()))
    assert known(keeper.latest[0][1]) == {
        *((10, 0, False), (10, 1, False), (15, 0, False), (15, 1, False), (16, 0, False)),
    }


def test_what_is_remembered_is_bounded_by_the_lateness() -> None:
    keeper = LateKeeper(policies_of(["ONCE[0,5] p"]), 20)
    for now in range(0, 300, 5):
        keeper.go_on(Batch(max(0, now - 5), (sent(1, now), sent(2, max(0, now // 50 * 50 - 20)))))
        keeper.go_on(Batch(now, ()))
        assert all(horizon > now - 2 * 20 for _, horizon in keeper.past.contents)
        assert max(map(len, keeper.past.contents.values()), default=0) < 2000
    for now in range(1000, 1200, 5):
        keeper.go_on(Batch(now, (sent(3, now),)))
    assert keeper.keys == {3}


def test_a_late_event_does_not_let_all_keys_be_written_again() -> None:
    keeper = LateKeeper(policies_of(["ONCE p"]), 20)
    for now in (0, 9):
        keeper.go_on(Batch(now, tuple(sent(key, now) for key in range(1500))))
    keeper.go_on(Batch(12, ()))
    stored, past = list(keeper.stored), dict(keeper.past.contents)
    keeper.go_on(Batch(12, (sent(7, 0, "p"),)))
    assert keeper.stored[:-1] == stored
    (name,) = keeper.past.contents.keys() - past.keys()
    assert len(keeper.past.contents[name]) + len(keeper.stored[-1]) < 2000
    assert lines(keeper, 7) == ["0:0 false", "0:1 true", "9:0 true"]


def test_a_damaged_past_is_refused() -> None:
    keeper = LateKeeper(policies_of(["ONCE p"]), 20)
    keeper.go_on(Batch(0, (sent(1, 5), sent(1, 7))))
    keeper.go_on(Batch(8, ()))
    ((name, content),) = keeper.past.contents.items()
    for cut in (0, 7, 20, len(content) // 2, len(content) - 1):
        keeper.past.contents[name] = content[:cut]
        with pytest.raises(SnapshotError, match="damaged"):
            keeper.go_on(Batch(8, (sent(1, 6),)))
    keeper.past.contents.clear()
    with pytest.raises(SnapshotError, match="damaged"):
        keeper.go_on(Batch(8, (sent(1, 6),)))


def test_a_state_knows_the_lateness() -> None:
    one = settings_of(lateness=3)
    check_settings(one, settings_of(lateness=3))
    for before, after in ((settings_of(), 3), (one, None), (one, 4)):
        with pytest.raises(SnapshotError, match="was made with another delay or lateness: start"):
            check_settings(before, settings_of(lateness=after))
