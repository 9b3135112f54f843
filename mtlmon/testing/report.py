"""Writes reports of violations: formula, time-point, events around it, expectation, explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.analysis.reach import decision_delay
from mtlmon.errors import MtlmonError, ViolationError
from mtlmon.support.guesses import nearest
from mtlmon.syntax.printer import atom_text
from mtlmon.testing.expectation import expectation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtlmon.testing.recording import Event, Recording

    TimePoint = tuple[int, int]

__all__ = ["undecided", "violation"]

# how many events are shown before and after the time-point in question, and at the end
BEFORE = 3
AFTER = 4
LAST = 2
ATOMS_LENGTH = 90
UNDECIDED_SHOWN = 5


def violation(recording: Recording, time_point: TimePoint) -> ViolationError:
    """Report a time-point that violates the formula, as the last event has shown.

    Args:
        recording: the events so far.
        time_point: the time-stamp and the offset of the time-point.
    """
    formula = recording.formula
    parts = [
        f"{_name(time_point)} violates {formula}",
        _events(recording, time_point),
        f"expected: {expectation(formula, time_point, recording.unit)}",
        *_misspelt(recording),
        *_explanation(recording, time_point),
    ]
    return ViolationError("\n\n".join(parts), formula=formula, time_point=time_point)


def undecided(recording: Recording) -> ViolationError:
    """Report the time-points that are undecided at the end of the stream."""
    formula = recording.formula
    count = recording.counts[2]
    points = recording.undecided
    shown = ", ".join(map(_name, points[:UNDECIDED_SHOWN]))
    if count > min(len(points), UNDECIDED_SHOWN):
        shown += ", ..."
    verb = "is" if count == 1 else "are"
    parts = [
        f"{_count(count, 'time-point')} {verb} undecided at the end: {shown}\nby {formula}",
        _events(recording, points[0]),
        _until_when(recording, points[0]),
        *_misspelt(recording),
        'Let the stream go on, or say what its end means: at_end="closed" if no event follows, '
        'at_end="undecided-ok" if open obligations are no failure.',
    ]
    return ViolationError(
        "\n\n".join(parts), formula=formula, time_point=points[0], is_undecided=True
    )


def _name(time_point: TimePoint) -> str:
    return f"{time_point[0]}:{time_point[1]}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _until_when(recording: Recording, time_point: TimePoint) -> str:
    delay = decision_delay(recording.formula)
    if delay is None:
        return (
            f"{_name(time_point)} may stay undecided for ever: the formula looks ahead without "
            "limit."
        )
    unit = "" if recording.unit is None else f" {recording.unit}"
    return (
        f"{_name(time_point)} may stay undecided until time has passed {time_point[0] + delay}"
        f"{unit}; the stream has come to {recording.clock}{unit}."
    )


def _misspelt(recording: Recording) -> Iterable[str]:
    """Hints about atoms that never occurred, if a similar name did."""
    for name in recording.seen.absent:
        if guess := nearest(name, recording.seen.names()):
            yield f"hint: no event has the atom {name}; did you mean {guess}?"


def _events(recording: Recording, time_point: TimePoint) -> str:
    """The events around a time-point and the last events, one on each line."""
    events = recording.recent()
    place = _place(events, time_point)
    if place is None:
        wanted: set[int] = set()
    else:
        wanted = set(range(max(0, place - BEFORE), min(len(events), place + AFTER + 1)))
    wanted |= set(range(max(0, len(events) - LAST), len(events)))
    names = {number: _name(events[number][:2]) for number in wanted}
    width = max(map(len, names.values()), default=0)
    known = set(recording.formula.atoms)
    lines = []
    # events before the kept ones count as left out
    following = len(events) - recording.event_count
    for number in sorted(wanted):
        if number > following:
            lines.append(f"    ... {_count(number - following, 'event')}")
        marker = ">" if number == place else " "
        text = f"  {marker} {names[number]:{width}}  {_atoms(events[number], known)}"
        lines.append(text.rstrip())
        following = number + 1
    if place is None:
        lines.insert(0, f"    ({_name(time_point)} itself is no longer kept)")
    return "\n".join(lines)


def _place(events: Sequence[Event], time_point: TimePoint) -> int | None:
    for number, event in enumerate(events):
        if (event.time_stamp, event.offset) == time_point:
            return number
    return None


def _atoms(event: Event, known: set[str]) -> str:
    """The atoms of an event, beginning with those of the formula, shortened."""
    names = [
        atom_text(name) for name in sorted(event.atoms, key=lambda name: (name not in known, name))
    ]
    text = ""
    for number, name in enumerate(names):
        if text and len(text) + len(name) >= ATOMS_LENGTH:
            return f"{text} and {len(names) - number} more"
        text += f" {name}" if text else name
    return text


def _explanation(recording: Recording, time_point: TimePoint) -> Iterable[str]:
    """The proof, if there is one from the events that are kept."""
    from mtlmon.explanation import explain

    events = [(event.time_stamp, event.atoms) for event in _relevant(recording, time_point)]
    if not events:
        yield f"no explanation: it needs more than the last {len(recording.pairs):,} events"
        return
    try:
        proof = explain(recording.formula, events, time_point, end_time=recording.end_time)
        # Leave out the heading, which the report has already.
        yield str(proof).partition("\n\n")[2]
    except (MtlmonError, MemoryError) as error:
        yield f"no explanation: {error}"


def _relevant(recording: Recording, time_point: TimePoint) -> Sequence[Event]:
    """The events that the value at the time-point can depend on; none if some are lost.

    They begin with a whole time-stamp, so that offsets are the same as in the stream.
    """
    events = recording.recent()
    past_reach = recording.formula.past_reach
    if past_reach is None:
        return events if recording.is_complete else []
    # One more time-stamp, as PREVIOUS depends on whether there was an earlier event.
    first = time_point[0] - past_reach - 1
    earlier = [
        n for n, event in enumerate(events) if event.offset == 0 and event.time_stamp <= first
    ]
    if earlier:
        return events[earlier[-1] :]
    return events if recording.is_complete else []
