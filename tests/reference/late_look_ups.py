"""What policies that look values up in relations of the log's rows say of late and corrected rows.

The history of `tests.reference.history` says which rows there are after every batch. A relation is
that of `tests.reference.relations` over all of these, whatever their keys are. More rows of the
largest time-stamp may still come without being late, and each of them changes what is valid then.
So the rows of this time-stamp are not judged until time has passed it, or the log has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mtlmon.policy import PolicyFile
from tests.doors import NOTHING, ROWS, Plans
from tests.reference import relations as reference
from tests.reference.history import Arrival, Insert, Judge, Said, State, state_after
from tests.traces import Advance, EndTime, Event, Step


class Looking(NamedTuple):
    """Looks values up in the relations of a history.

    Attributes:
        bags: the relations by name.
    """

    bags: Mapping[str, reference.Relation]

    def records(self, name: str, time: int, **keys: Any) -> list[dict[str, Any]]:
        """The records that are valid at a time and have some values."""
        bag = self.bags[name]
        found = (dict(zip(bag.names, row, strict=True)) for row in bag.snapshot(time).elements())
        return [one for one in found if all(one[key] == value for key, value in keys.items())]

    def value(self, name: str, column: str, time: int, **keys: Any) -> Any:
        """The value of a column of the only such record; None if there is none."""
        records = self.records(name, time, **keys)
        assert len(records) < 2
        return records[0][column] if records else None


Letters = Callable[[Looking, Sequence[Event]], Sequence[frozenset[str]]]
"""What holds at the events of a trace, given the relations."""


def states(
    batches: Sequence[Sequence[Arrival]],
    lateness: int,
    file: PolicyFile,
    schema: Any,
    row_of: Callable[[Event], tuple[Any, ...]],
    letters: Letters,
    judge: Judge,
    end_time: EndTime = None,
    *,
    equality: bool = False,
) -> list[State]:
    """The state after every batch, and one more after the end of the log if `end_time` is given.

    Args:
        batches: the arrivals.
        lateness: how late an event may be.
        file: declares relations.
        schema: the columns of rows, without their times.
        row_of: their values of an event.
        letters: what holds at the events of a trace.
        judge: what an ordered run says of events with these letters.
        end_time: as for `state_after`.
        equality: likewise.
    """
    plans = Plans(file, {ROWS: schema}, NOTHING)

    def state(arrivals: Sequence[Arrival], end: EndTime) -> State:
        traces: list[list[Event]] = []

        def recording(steps: Sequence[Step], _: EndTime) -> Sequence[Said]:
            traces.append([step for step in steps if isinstance(step, Event)])
            return [None] * len(traces[-1])

        found = state_after(arrivals, lateness, recording, "all", end, equality=equality)
        # the history of each key comes first, then what its bound is made of
        keys = {key for key, _ in [*found.verdicts, *found.withdrawn]}
        events = [event for trace in traces[: len(keys)] for event in trace]
        records = [(one.time_stamp, one.time_stamp + 1, row_of(one)) for one in events]
        rows = {ROWS: reference.relation(schema.names, records)}
        looking = Looking(
            {name: reference.evaluate(plans.of(name), rows) for name in file.intervals}
        )
        times = [one.time_stamp for one in arrivals if isinstance(one, Insert | Advance)]
        known_below = max(times, default=0)

        def judged(steps: Sequence[Step], end_of_log: EndTime) -> Sequence[Said]:
            own = [step for step in steps if isinstance(step, Event)]
            known = own
            if end is None:
                known = [event for event in own if event.time_stamp < known_below]
            rest = iter(letters(looking, known))
            emitted = [
                Event(step.time_stamp, next(rest)) if isinstance(step, Event) else step
                for step in steps
                if not isinstance(step, Event) or end is not None or step.time_stamp < known_below
            ]
            return [*judge(emitted, end_of_log), *[None] * (len(own) - len(known))]

        return state_after(arrivals, lateness, judged, "all", end, equality=equality)

    answer = []
    for k in range(len(batches)):
        answer.append(state([arrival for batch in batches[: k + 1] for arrival in batch], None))
    if end_time is not None:
        answer.append(state([arrival for batch in batches for arrival in batch], end_time))
    return answer
