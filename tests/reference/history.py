"""What a history of late and corrected events means, computed from the beginning after every batch.

Written for obviousness, not for speed. The rules:

1. *Lateness* of an event is the largest time-stamp so far less its own. "So far" means up to and
   including the event itself, in the order of arrival, whatever the batches are: an event of the
   same batch counts if it stands before, and does not if it stands behind. So which events are
   refused depends on the arrivals alone, as with `--wait`. An event is admitted up to and including
   a lateness of M. With one clock for all keys, time-stamps of all keys count, else those of the
   event's own key. An advance counts for every key. What is refused still counts, but cannot be the
   largest.
2. An admitted event is named `ts:offset`, the offset being the number of events of its key and
   time-stamp that were admitted before it. So no name ever changes or is given twice.
3. A retraction takes back the event with its id, or the last one without an id that equals it. It
   is refused if an event of that time-stamp would be. If the event has not come yet, the retraction
   waits until time has gone on by more than M. An event that it then meets has its name, which is
   withdrawn at once: the order in which the two come makes no difference. Afterwards, the id is
   free again, and so is that of an event that is more than twice M late.
4. An insert of an id that is there is passed over if time-stamp, letter and key are equal; else it
   first retracts what is there, and both are refused if that is too late.
5. The *history* of a key is the stable sort of its admitted events by time-stamp, without those
   that were retracted; advances are steps between them, also those to a time that an event had come
   to before: it may be retracted, and an advance is not. The state after a batch is what an ordered
   run says of this history, under the names of the events.
6. A *count* says that exactly so many admitted events, without retracted ones, lie in an interval.
   Events below a bound are known: below the largest time-stamp less M, as none is admitted there.
   If a count starts at or below the bound, and the events are there, all below its end are known:
   no event comes or goes there, and time passes to the end at once, as an advance lets it. That may
   be the start of another count. A count is late if its start is below the bound, and behind the
   first admitted event; it has nothing to say if its end is below the bound, so it is dropped once
   the bound has come to its end. What contradicts a count is left out: an event that is one too
   many, or comes below what is known by counts, and a count of fewer events than are there. At the
   end of the log, nothing more comes, so time passes to the ends of all counts that are reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mtlmon import Formula, Monitor
from tests.reference.evaluator import Truth, evaluate
from tests.traces import (
    MAXIMUM_TIME_STAMP,
    Advance,
    EndTime,
    Event,
    Mode,
    Step,
    TimePoint,
    ended,
    prefix_of,
)
from tests.verdicts import Verdict, parse_verdict


class Insert(NamedTuple):
    """An event arrives. The key is the text of its fields, with tabs between them."""

    time_stamp: int
    letter: frozenset[str]
    key: str = ""
    id: str | None = None


class Retraction(NamedTuple):
    """The event with this id has not happened."""

    id: str


class EqualRetraction(NamedTuple):
    """The last of these events has not happened."""

    time_stamp: int
    letter: frozenset[str]
    key: str = ""


class Count(NamedTuple):
    """Exactly so many events lie in an interval, from the start on and below the end."""

    start: int
    end: int
    events: int


Arrival = Insert | Retraction | EqualRetraction | Advance

AnyArrival = Arrival | Count

Clock = Literal["all", "key"]

Name = tuple[str, TimePoint]
"""A time-point of a key."""

Said = bool | int | None
"""Of an event of a history: a Boolean, the number of an earlier one that it equals, or open."""

Judge = Callable[[Sequence[Step], EndTime], Sequence[Said]]
"""What an ordered run says of the events among these steps."""


class State(NamedTuple):
    """What is known after a batch.

    Attributes:
        verdicts: for each time-point of the history, in order of keys and time: its verdict, or
            None if it is open.
        withdrawn: the names of events that were retracted.
        refused: the numbers of the arrivals that came too late, from 0.
        unmatched: the number of retractions that waited for their event in vain. At the end of the
            log, none waits any more.
        duplicates: the number of inserts that were passed over.
        rejected: the numbers of the arrivals that contradict counts, from 0.
        incomplete: the number of counts that were dropped before they were reached.
        final_below: for each key, and under "" for every key, the largest bound below which no
            event or retraction that would still be admitted changes anything.
    """

    verdicts: Mapping[Name, Verdict | None]
    withdrawn: frozenset[Name]
    refused: tuple[int, ...]
    unmatched: int
    duplicates: int
    final_below: Mapping[str, int]
    rejected: tuple[int, ...] = ()
    incomplete: int = 0

    def value(self, name: Name) -> Truth:
        """The Boolean value of a time-point, equivalences followed."""
        return followed(self.verdicts, name)


class _Admitted(NamedTuple):
    """An event with its place among the arrivals."""

    place: int
    insert: Insert
    point: TimePoint


def state_after(
    arrivals: Sequence[AnyArrival],
    lateness: int | None,
    judge: Judge,
    clock: Clock = "all",
    end_time: EndTime = None,
    *,
    equality: bool = False,
) -> State:
    """The state once these have arrived, and the log has ended if `end_time` is given.

    Args:
        arrivals: events, retractions and advances, in the order of arrival.
        lateness: how late an event may be; None if none comes too late.
        judge: what an ordered run says.
        clock: whether lateness is measured in all arrivals or in those of the event's key.
        end_time: up to when the log is complete; "last" is the largest time-stamp of any arrival.
        equality: whether events without ids can be retracted.
    """
    admitted: list[_Admitted] = []
    present: dict[str, _Admitted] = {}
    waiting: dict[str, tuple[int, int]] = {}
    waiting_rows: list[tuple[Insert, int]] = []
    removed: set[int] = set()
    refused: list[int] = []
    rejected: list[int] = []
    counts: list[Count] = []
    unmatched = duplicates = closed = incomplete = 0
    # what has arrived, and how far counts have let time pass
    so_far: list[AnyArrival] = []

    def found_in(count: Count) -> int:
        return sum(
            count.start <= e.insert.time_stamp < count.end
            for e in admitted
            if e.place not in removed
        )

    def admits_from() -> int:
        late = 0 if lateness is None else _now(so_far, None) - lateness
        return max(closed, late)

    def close() -> None:
        nonlocal closed, incomplete
        closed, incomplete = _closed(counts, found_in, admits_from, closed, incomplete, so_far)

    for place, arrival in enumerate(arrivals):
        # what is refused lets time pass, too
        close()
        so_far.append(arrival)
        for name, event in list(present.items()):
            if lateness is not None and _is_late(event.insert, so_far, 2 * lateness, clock):
                del present[name]
        if isinstance(arrival, Retraction):
            meant = present.get(arrival.id)
            if meant is None:
                waiting[arrival.id] = (place, _now(so_far, None))
            elif (
                _is_late(meant.insert, so_far, lateness, clock) or meant.insert.time_stamp < closed
            ):
                refused.append(place)
            else:
                removed.add(present.pop(arrival.id).place)
        if isinstance(arrival, EqualRetraction):
            wanted = Insert(*arrival)
            equal = [e.place for e in admitted if e.insert == wanted and e.place not in removed]
            if _is_late(wanted, so_far, lateness, clock) or wanted.time_stamp < closed:
                refused.append(place)
            elif equal:
                removed.add(equal[-1])
            else:
                waiting_rows.append((wanted, _now(so_far, None)))
        for name, (_, since) in list(waiting.items()):
            if lateness is not None and _now(so_far, None) - since > lateness:
                del waiting[name]
                unmatched += 1
        for row in list(waiting_rows):
            if lateness is not None and _now(so_far, None) - row[1] > lateness:
                waiting_rows.remove(row)
                unmatched += 1
        if isinstance(arrival, Count) and arrival.end > admits_from():
            first = min((e.insert.time_stamp for e in admitted), default=arrival.start)
            if first < arrival.start < admits_from():
                refused.append(place)
            elif found_in(arrival) > arrival.events:
                rejected.append(place)
            else:
                counts.append(arrival)
        if not isinstance(arrival, Insert):
            continue
        if _is_late(arrival, so_far, lateness, clock):
            refused.append(place)
            continue
        known = None if arrival.id is None else present.get(arrival.id)
        if known is not None and (
            _is_late(known.insert, so_far, lateness, clock) or known.insert.time_stamp < closed
        ):
            refused.append(place)
            continue
        if known is not None and known.insert == arrival:
            duplicates += 1
            continue
        is_awaited = (
            arrival.id in waiting
            if arrival.id is not None
            else any(row[0] == arrival for row in waiting_rows)
        )
        former = set() if known is None else {known.place}
        full = [
            count
            for count in counts
            if count.start <= arrival.time_stamp < count.end
            and sum(
                count.start <= e.insert.time_stamp < count.end
                for e in admitted
                if e.place not in removed | former
            )
            >= count.events
        ]
        if arrival.time_stamp < closed or (full and not is_awaited):
            rejected.append(place)
            continue
        removed |= former
        offset = sum(
            (e.insert.time_stamp, e.insert.key) == (arrival.time_stamp, arrival.key)
            for e in admitted
        )
        event = _Admitted(place, arrival, (arrival.time_stamp, offset))
        admitted.append(event)
        if arrival.id is not None:
            if waiting.pop(arrival.id, None) is not None:
                removed.add(place)
            else:
                present[arrival.id] = event
        else:
            for row in waiting_rows:
                if row[0] == arrival:
                    waiting_rows.remove(row)
                    removed.add(place)
                    break
    close()
    if end_time is not None:
        incomplete += sum(found_in(count) < count.events for count in counts)
        so_far += [Advance(c.end) for c in counts if found_in(c) == c.events]
    keys = sorted({event.insert.key for event in admitted})
    verdicts: dict[Name, Verdict | None] = {}
    end = _now(so_far, None) if end_time == "last" and so_far else end_time
    for key in keys:
        mine = [e for e in admitted if e.insert.key == key and e.place not in removed]
        verdicts |= _judged(key, mine, _advances(so_far), judge, end)
    if end_time is not None:
        unmatched += len(waiting) + len(waiting_rows)
    return State(
        verdicts,
        frozenset((e.insert.key, e.point) for e in admitted if e.place in removed),
        tuple(refused),
        unmatched,
        duplicates,
        _final_below(so_far, admitted, removed, lateness, judge, clock, end_time, equality, closed),
        tuple(rejected),
        incomplete,
    )


def _closed(
    counts: list[Count],
    found_in: Callable[[Count], int],
    admits_from: Callable[[], int],
    closed: int,
    incomplete: int,
    so_far: list[AnyArrival],
) -> tuple[int, int]:
    """How far counts are reached, and how many never will be; they are removed."""
    bound = admits_from()
    while reached := [c for c in counts if c.start <= bound < c.end and found_in(c) == c.events]:
        bound = closed = max(count.end for count in reached)
        so_far.append(Advance(bound))
    for count in [count for count in counts if count.end <= bound]:
        counts.remove(count)
        incomplete += found_in(count) < count.events
    return closed, incomplete


def states_of(
    batches: Sequence[Sequence[AnyArrival]],
    lateness: int | None,
    judge: Judge,
    clock: Clock = "all",
    end_time: EndTime = None,
    *,
    equality: bool = False,
) -> list[State]:
    """The state after every batch, and one more after the end of the log if `end_time` is given."""
    states = []
    for k in range(len(batches)):
        arrivals = [arrival for batch in batches[: k + 1] for arrival in batch]
        states.append(state_after(arrivals, lateness, judge, clock, equality=equality))
    if end_time is not None:
        arrivals = [arrival for batch in batches for arrival in batch]
        states.append(state_after(arrivals, lateness, judge, clock, end_time, equality=equality))
    return states


def _now(arrivals: Iterable[AnyArrival], key: str | None) -> int:
    """The largest time-stamp of these, or of these with a key."""
    return max(
        (
            arrival.time_stamp
            for arrival in arrivals
            if isinstance(arrival, Advance)
            or (isinstance(arrival, Insert) and key in (None, arrival.key))
        ),
        default=0,
    )


def _is_late(
    insert: Insert, so_far: Sequence[AnyArrival], lateness: int | None, clock: Clock
) -> bool:
    now = _now(so_far, insert.key if clock == "key" else None)
    return lateness is not None and now - insert.time_stamp > lateness


def _advances(arrivals: Sequence[AnyArrival]) -> list[tuple[int, Advance]]:
    """The advances that let more time pass than those before them, with their places."""
    found: list[tuple[int, Advance]] = []
    for place, arrival in enumerate(arrivals):
        if isinstance(arrival, Advance) and (not found or arrival > found[-1][1]):
            found.append((place, arrival))
    return found


def _final_below(
    arrivals: Sequence[AnyArrival],
    admitted: Sequence[_Admitted],
    removed: set[int],
    lateness: int | None,
    judge: Judge,
    clock: Clock,
    end_time: EndTime,
    equality: bool,
    closed: int,
) -> dict[str, int]:
    """The bounds below which nothing changes any more.

    What is certain of a key are the events that are too old to be retracted, or to have another one
    come before them, and that time has come as far as the events that stay: those without an id
    cannot be retracted, unless equality does. A time-point is final if that decides it.
    """
    keys = sorted({event.insert.key for event in admitted})
    if end_time is not None:
        return dict.fromkeys(["", *keys], MAXIMUM_TIME_STAMP)
    bounds = {}
    for key in keys:
        now = _now(arrivals, key if clock == "key" else None)
        admits_from = max(closed, 0 if lateness is None else now - lateness)
        mine = [e for e in admitted if e.insert.key == key and e.place not in removed]
        old = [e for e in mine if e.insert.time_stamp < admits_from]
        staying = [e.insert for e in mine if e in old or not (e.insert.id or equality)]
        times = [event.time_stamp for event in staying]
        times += [advance.time_stamp for _, advance in _advances(arrivals)]
        time = max(times, default=0)
        reached = (len(arrivals), Advance(min(time, admits_from)))
        known = _judged(key, old, [reached], judge, None)
        open_times = [point[0] for (_, point), verdict in known.items() if verdict is None]
        bounds[key] = min([admits_from, *open_times])
    # With clocks of their own, events of new keys may have any time-stamp.
    least = 0 if clock == "key" and keys != [""] else min(bounds.values(), default=0)
    return {**bounds, "": least}


def _judged(
    key: str,
    events: Sequence[_Admitted],
    advances: Sequence[tuple[int, Advance]],
    judge: Judge,
    end_time: EndTime,
) -> dict[Name, Verdict | None]:
    """The verdicts of the history of a key."""
    rows: list[tuple[int, int, Step]] = [
        (event.insert.time_stamp, event.place, Event(event.insert.time_stamp, event.insert.letter))
        for event in events
    ]
    # time passes before the events of its time-stamp
    rows += [(advance.time_stamp, -1, advance) for _, advance in advances]
    ordered = [step for _, _, step in sorted(rows, key=lambda row: row[:2])]
    points = [e.point for e in sorted(events, key=lambda e: (e.insert.time_stamp, e.place))]
    verdicts: dict[Name, Verdict | None] = {}
    for point, said in zip(points, judge(ordered, end_time), strict=True):
        if said is None:
            verdicts[key, point] = None
        elif isinstance(said, bool):
            verdicts[key, point] = Verdict(point, said, None)
        else:
            verdicts[key, point] = Verdict(point, None, points[said])
    return verdicts


def evaluated(formula: Formula) -> Judge:
    """The direct evaluator as a judge: Boolean values only, and Kleene's "not decided"."""

    def judge(steps: Sequence[Step], end_time: EndTime) -> Sequence[Said]:
        return evaluate(formula, ended(prefix_of(steps), end_time))

    return judge


def monitored(formula: Formula, mode: Mode = "local") -> Judge:
    """A monitor that reads the history in order as a judge: with equivalences.

    Other tests compare it with the evaluator; here it says which lines an ordered run has.
    """

    def judge(steps: Sequence[Step], end_time: EndTime) -> Sequence[Said]:
        monitor = Monitor(formula, mode=mode)
        lines: list[str] = []
        points: list[TimePoint] = []
        for step in steps:
            if isinstance(step, Event):
                count = sum(point[0] == step.time_stamp for point in points)
                points.append((step.time_stamp, count))
                lines += map(str, monitor.step(step.time_stamp, step.atoms))
            else:
                lines += map(str, monitor.advance(step.time_stamp))
        if end_time is not None:
            lines += map(str, monitor.finish(end_time))
        said: list[Said] = [None] * len(points)
        for verdict in map(parse_verdict, lines):
            reference = verdict.reference
            number = verdict.value if reference is None else points.index(reference)
            said[points.index(verdict.point)] = number
        return said

    return judge


def followed(verdicts: Mapping[Name, Verdict | None], name: Name) -> Truth:
    """The Boolean value of a time-point, equivalences followed."""
    seen: set[Name] = set()
    verdict = verdicts.get(name)
    while verdict is not None and verdict.reference is not None:
        assert name not in seen, f"{verdict}: equivalences in a circle"
        seen.add(name)
        name = (name[0], verdict.reference)
        verdict = verdicts.get(name)
    return None if verdict is None else verdict.value
