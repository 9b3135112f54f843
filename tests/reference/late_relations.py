"""What policies with variables say of late and corrected events, after every batch.

Which events there are, and what they are called, is said by `tests.reference.history`, to which an
event is its rows as texts. When a time-point is answered, a monitor says that takes the events in
order; with what, the direct evaluator says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mtlmon import RelationalMonitor
from mtlmon.policy import PolicyFile
from tests.doors import engine_of
from tests.reference.first_order import Let, Log, Row, violations
from tests.reference.history import Arrival, Said, state_after
from tests.traces import Advance, EndTime, Event, Step

Database = dict[str, list[Row]]
Answer = tuple[str | None, int, int, bool, Row]
"""The policy, time-stamp and offset, whether it is a violation, and the values of variables."""


class Known(NamedTuple):
    """What is known after a batch.

    Attributes:
        answers: all answers, with those of time-points that nothing violates.
        refused: the numbers of the arrivals that came too late.
        unmatched: how many retractions found no event.
        final_below: what is below it stays; None as long as there are no events.
    """

    answers: frozenset[Answer]
    refused: tuple[int, ...]
    unmatched: int
    final_below: int | None


def database_of(letter: frozenset[str]) -> Database:
    """The rows of an event, given as texts: `p(a, 1)`."""
    found: Database = {}
    for text in sorted(letter):
        name, _, rest = text.partition("(")
        values = [value.strip() for value in rest.removesuffix(")").split(",")] if rest else []
        found.setdefault(name, []).append(tuple(values))
    return found


class Judge:
    """What a monitor answers that takes the events in order; remembers what it was first asked."""

    def __init__(self, file: PolicyFile, *, by_stamp: bool = False) -> None:
        self.file = file
        self.by_stamp = by_stamp
        self.steps: list[Step] | None = None
        self.end_time: EndTime = None
        self.points: list[set[str | None]] = []

    def __call__(self, steps: Sequence[Step], end_time: EndTime) -> Sequence[Said]:
        monitor = RelationalMonitor(self.file, verdicts="all")
        given = [step for step in steps if isinstance(step, Event)]
        if self.by_stamp:
            steps = merged(steps)
        events = [step for step in steps if isinstance(step, Event)]
        found = []
        for step in steps:
            if isinstance(step, Event):
                found += monitor.step(step.time_stamp, database_of(step.atoms))
            else:
                found += monitor.advance(step.time_stamp)
        if end_time == "inf":
            found += monitor.finish()
        elif isinstance(end_time, int):
            found += monitor.advance(max(end_time + 1, engine_of(monitor).clock))
        names: list[set[str | None]] = [set() for _ in events]
        for answer in found:
            names[answer.point].add(answer.policy)
        if self.steps is None:
            self.steps, self.end_time, self.points = list(steps), end_time, names
        said = [True if len(own) == len(self.file.policies) else None for own in names]
        if not self.by_stamp:
            return said
        of_stamp = {event.time_stamp: one for event, one in zip(events, said, strict=True)}
        return [of_stamp[event.time_stamp] for event in given]


def merged(steps: Sequence[Step]) -> list[Step]:
    """The same with one event for each time-stamp, which has the rows of all."""
    found: list[Step] = []
    # where the event of a time-stamp is: time may have passed to it between two of them
    places: dict[int, int] = {}
    for step in steps:
        place = places.get(step.time_stamp)
        if isinstance(step, Event) and place is not None:
            before = found[place]
            assert isinstance(before, Event)
            found[place] = Event(step.time_stamp, before.atoms | step.atoms)
            continue
        if isinstance(step, Event):
            places[step.time_stamp] = len(found)
        found.append(step)
    return found


def known_after(
    file: PolicyFile,
    arrivals: Sequence[Arrival],
    lateness: int | None,
    end_time: EndTime = None,
    *,
    equality: bool = False,
    by_stamp: bool = False,
) -> Known:
    """What is known once these have arrived, and the log has ended if `end_time` is given."""
    judge = Judge(file, by_stamp=by_stamp)
    state = state_after(arrivals, lateness, judge, end_time=end_time, equality=equality)
    steps = judge.steps or []
    events = [step for step in steps if isinstance(step, Event)]
    clock = max([0, *(step.time_stamp for step in steps if isinstance(step, Advance))])
    if isinstance(judge.end_time, int):
        clock = max(clock, judge.end_time + 1)
    points: list[tuple[int, Mapping[str, Sequence[Row]]]] = [
        (event.time_stamp, database_of(event.atoms)) for event in events
    ]
    log = Log(tuple(points), clock, judge.end_time == "inf")
    names = [name for _, name in state.verdicts]
    if by_stamp:
        names = sorted({(time_stamp, 0) for time_stamp, _ in names})
    found: set[Answer] = set()
    lets = {name: Let(own, file.lets[name]) for name, own in file.parameters.items()}
    for policy in file.policies:
        said = violations(policy.formula, log, lets=lets)
        for name, answered, values in zip(names, judge.points, said, strict=True):
            if policy.name not in answered:
                continue
            assert not values.undecided
            found |= {(policy.name, *name, True, row) for row in values.satisfying}
            if not values.satisfying:
                found.add((policy.name, *name, False, ()))
    has_events = bool(state.verdicts or state.withdrawn)
    final = state.final_below[""] if has_events else None
    return Known(frozenset(found), state.refused, state.unmatched, final)
