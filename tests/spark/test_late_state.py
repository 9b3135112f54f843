"""Buckets whose verdicts late events correct, and monitors that see all events in order."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import SnapshotError
from mtlmon.verdict_arrays import verdict_type
from tests.doors import (
    DELETED,
    INSERTED,
    UPDATED,
    Entry,
    Head,
    LiveBucket,
    change_type,
    check_settings,
    joined_parts,
    split_parts,
)
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
    from collections.abc import Sequence

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


class LateKeeper(Keeper):
    """A bucket as a query with a lateness keeps it; `lateness` is that beyond the horizon."""

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
        self.latest: list[dict[int, Points]] = [defaultdict(dict) for _ in policies.policies]
        self.operations = [0, 0, 0]

    def resume(self, batch: Batch) -> None:
        answers = self.answers(batch)
        if answers is None:
            return
        for number, found in answers.verdicts.items():
            keys = found.keys[0].to_pylist()
            changes = np.frombuffer(found.records, change_type())
            assert len(changes) == len(found.owners) > 0
            for owner, change in zip(found.owners.tolist(), changes.tolist(), strict=True):
                self._take(self.latest[number][keys[owner]], *change)

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
        keeper.resume(batch)
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
    keeper.resume(Batch(0, (sent(1, 10), sent(1, 10), sent(1, 15, "p"), sent(1, 16, "q"))))
    keeper.resume(Batch(17, ()))
    assert lines(keeper, 1) == ["10:0 true", "10:1 = 10:0", "15:0 true", "16:0 true"]
    keeper.resume(Batch(17, (sent(1, 15),)))
    assert lines(keeper, 1) == ["10:1 = 10:0", "15:1 = 15:0"]
    assert keeper.operations[DELETED] == 3
    keeper.resume(Batch(40, ()))
    assert known(keeper.latest[0][1]) == {
        *((10, 0, False), (10, 1, False), (15, 0, False), (15, 1, False), (16, 0, False)),
    }


def test_what_is_remembered_is_bounded_by_the_lateness() -> None:
    keeper = LateKeeper(policies_of(["ONCE[0,5] p"]), 20)
    for now in range(0, 300, 5):
        keeper.resume(Batch(max(0, now - 5), (sent(1, now), sent(2, max(0, now // 50 * 50 - 20)))))
        keeper.resume(Batch(now, ()))
        assert sum(map(len, keeper.stored)) < 4000
    for now in range(1000, 1200, 5):
        keeper.resume(Batch(now, (sent(3, now),)))
    assert keeper.keys == {3}


def test_a_late_event_does_not_let_all_keys_be_written_again() -> None:
    keeper = LateKeeper(policies_of(["ONCE p"]), 20)
    for now in (0, 9):
        keeper.resume(Batch(now, tuple(sent(key, now) for key in range(1500))))
    keeper.resume(Batch(12, ()))
    stored = list(keeper.stored)
    keeper.resume(Batch(12, (sent(7, 0, "p"),)))
    assert keeper.stored[:-1] == stored
    assert len(keeper.stored[-1]) < 1000
    assert lines(keeper, 7) == ["0:0 false", "0:1 true", "9:0 true"]


def test_what_was_before_all_late_events_is_not_judged_again() -> None:
    """The states of keys move on to what is too old to be late, also without a new first entry."""
    keeper = LateKeeper(policies_of(["ONCE p"]), 20, [0], is_counted=True)
    for now in range(0, 400, 5):
        keeper.resume(Batch(now, (sent(1, now), sent(1, max(0, now - 15), "p"))))
        ((name, kept),) = keeper.workers[0].holding._kept.items()
        assert name is None
        assert isinstance(kept.held, LiveBucket)
        assert len(kept.held.past.owners) <= 10


def test_a_damaged_past_is_refused() -> None:
    keeper = LateKeeper(policies_of(["ONCE p"]), 20)
    keeper.resume(Batch(0, (sent(1, 5), sent(1, 7))))
    keeper.resume(Batch(8, ()))
    (content,) = keeper.stored
    entry = Entry.decoded(content)
    *before, past = entry.parts
    advances, advanced, records, owners = split_parts(past)
    assert len(advances) == len(advanced) * 2 == 0
    assert len(records) == verdict_type().itemsize * len(owners) // 4 > 0
    no_number = b"\x01" + owners[1:]
    for parts in (
        [advances, advanced, records],
        [advances, advanced, records[:-1], owners],
        [advances, advanced, records[: -verdict_type().itemsize], owners],
        [advances, advanced, records, no_number],
        [advances, advanced, records, owners, records, owners],
        [advances + bytes(8), advanced, records, owners],
        [advances, advanced + bytes(4), records, owners],
        [advances + bytes(7), advanced, records, owners],
    ):
        damaged = entry._replace(parts=[*before, joined_parts(parts)]).encoded()
        keeper.journal.entries = [damaged]
        keeper.journal.head = Head.of(damaged, 9)
        with pytest.raises(SnapshotError, match="damaged"):
            keeper.resume(Batch(8, (sent(1, 6),)))


def test_a_state_knows_the_lateness() -> None:
    one = settings_of(lateness=3)
    check_settings(one, settings_of(lateness=3))
    for before, after in ((settings_of(), 3), (one, None), (one, 4)):
        with pytest.raises(SnapshotError, match="was made with another delay or lateness: start"):
            check_settings(before, settings_of(lateness=after))
