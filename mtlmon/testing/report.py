"""Writes reports of violations: formula, time-point, events around it, expectation, explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import ViolationError
from mtlmon.support.guesses import nearest
from mtlmon.testing.expectation import expectation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtlmon.testing.recording import Event, Events
    from mtlmon.testing.seen import SeenNames

    TimePoint = tuple[int, int]

__all__ = ["hints", "undecided", "violation"]

# how many events are shown before and after the time-point in question, and at the end
BEFORE = 3
AFTER = 4
LAST = 2
ATOMS_LENGTH = 90
UNDECIDED_SHOWN = 5
VALUES_SHOWN = 5


def violation(recording: Events, time_point: TimePoint) -> ViolationError:
    """Report a time-point that violates the formula, as the last event has shown.

    Args:
        recording: the events so far.
        time_point: the time-stamp and the offset of the time-point.
    """
    formula = recording.formula
    instance, values = recording.instance(time_point)
    proof = recording.proof(time_point)
    written = _formula(recording)
    what = f"{recording.title}\n{written}" if recording.title else written
    heading = [f"{_name(time_point)} violates {what}", *_row(recording, time_point)]
    parts = [
        "\n".join([*heading, *_key(recording), *_values(values)]),
        _events(recording, time_point),
        f"expected: {expectation(instance, time_point, recording.unit, recording.named_formulas)}",
        *hints(recording.seen),
        *([] if proof is None else [proof]),
    ]
    return ViolationError(
        "\n\n".join(parts), formula=formula, time_point=time_point, key=recording.key
    )


def undecided(recording: Events, others: int = 0) -> ViolationError:
    """Report the time-points that are undecided at the end of the stream.

    Args:
        recording: a trace that has such time-points.
        others: how many other traces have some.
    """
    formula = recording.formula
    written = _formula(recording)
    count = recording.counts[2]
    points = recording.undecided
    shown = ", ".join(map(_name, points[:UNDECIDED_SHOWN]))
    if count > min(len(points), UNDECIDED_SHOWN):
        shown += ", ..."
    verb = "is" if count == 1 else "are"
    heading = [f"{_count(count, 'time-point')} {verb} undecided at the end: {shown}"]
    heading += [f"by {line}" for line in (recording.title, written) if line]
    heading += _key(recording)
    if others:
        heading.append(f"and so are time-points of {_count(others, 'other key')}")
    parts = [
        "\n".join(heading),
        _events(recording, points[0]),
        _until_when(recording, points[0]),
        *hints(recording.seen),
        'Let the stream go on, or say what its end means: at_end="closed" if no event follows, '
        'at_end="undecided-ok" if open obligations are no failure.',
    ]
    return ViolationError(
        "\n\n".join(parts),
        formula=formula,
        time_point=points[0],
        is_undecided=True,
        key=recording.key,
    )


def _key(recording: Events) -> list[str]:
    """The key of the events, as a line."""
    values = ", ".join(f"{name} = {value}" for name, value in recording.key.items())
    return [f"for {values}"] if values else []


def _formula(recording: Events) -> str:
    # explanations are loaded for failures only
    from mtlmon.explanation.trace import Wording
    from mtlmon.explanation.words import whole_text

    return whole_text(recording.formula, Wording(recording.unit, recording.named_formulas))


def _row(recording: Events, time_point: TimePoint) -> list[str]:
    """Where an event comes from, as a line, if that is a table."""
    if recording.place is None:
        return []
    number = _place(events := recording.recent(), time_point)
    row = None if number is None else recording.place(events[number].number)
    return [] if row is None else [f"in {row}"]


def _values(lines: Sequence[str]) -> list[str]:
    """The values of variables that violate a policy."""
    shown = [f"for {line}" for line in lines[:VALUES_SHOWN]]
    if len(lines) > VALUES_SHOWN:
        shown.append(f"and {_count(len(lines) - VALUES_SHOWN, 'other violation')}")
    return shown


def _name(time_point: TimePoint) -> str:
    return f"{time_point[0]}:{time_point[1]}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _until_when(recording: Events, time_point: TimePoint) -> str:
    delay = recording.delay()
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


def hints(seen: SeenNames) -> Iterable[str]:
    """Hints about atoms that never occurred, if a similar name did."""
    for name in seen.absent:
        if guess := nearest(name, seen.names()):
            yield f"hint: no event has the atom {name}; did you mean {guess}?"


def _events(recording: Events, time_point: TimePoint) -> str:
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
    lines = []
    # events before the kept ones count as left out
    following = len(events) - recording.event_count
    for number in sorted(wanted):
        if number > following:
            lines.append(f"    ... {_count(number - following, 'event')}")
        marker = ">" if number == place else " "
        text = f"  {marker} {names[number]:{width}}  {_atoms(recording.words(events[number]))}"
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


def _atoms(names: Sequence[str]) -> str:
    """What holds at an event, shortened."""
    text = ""
    for number, name in enumerate(names):
        if text and len(text) + len(name) >= ATOMS_LENGTH:
            return f"{text} and {len(names) - number} more"
        text += f" {name}" if text else name
    return text
