"""Finite traces as the tests write them: events, and time passing without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

MAXIMUM_TIME_STAMP = 2**63 - 1

TimePoint = tuple[int, int]
"""A time-point's name: time-stamp, and offset among the time-points of that time-stamp."""

EndTime = int | Literal["last", "inf"] | None
"""How a log ends: None says nothing, an integer up to which time-stamp it is complete."""

Mode = Literal["naive", "local", "global"]
MODES: tuple[Mode, ...] = ("naive", "local", "global")


class Event(NamedTuple):
    """One time-point: its time-stamp and the atoms that hold there."""

    time_stamp: int
    atoms: frozenset[str]


class Advance(NamedTuple):
    """Time passes: no later event has a time-stamp below this one."""

    time_stamp: int


Step = Event | Advance
Trace = tuple[Step, ...]


class Prefix(NamedTuple):
    """What is known of a stream at some moment.

    Attributes:
        events: the time-points read.
        clock: no event after them has a time-stamp below this one.
        closed: no event comes after them at all.
    """

    events: tuple[Event, ...]
    clock: int
    closed: bool = False


def prefix_of(steps: Sequence[Step], *, closed: bool = False) -> Prefix:
    """What is known once these steps have been read."""
    events = tuple(step for step in steps if isinstance(step, Event))
    return Prefix(events, max((step.time_stamp for step in steps), default=0), closed)


def ended(prefix: Prefix, end_time: EndTime) -> Prefix:
    """What is known when the log ends there as well."""
    if end_time == "inf":
        return prefix._replace(closed=True)
    if end_time is None or not prefix.events:
        return prefix
    last = prefix.events[-1].time_stamp
    complete_up_to = last if end_time == "last" else end_time
    if complete_up_to < last:
        return prefix
    if complete_up_to == MAXIMUM_TIME_STAMP:
        return prefix._replace(closed=True)
    return prefix._replace(clock=max(prefix.clock, complete_up_to + 1))


def time_points(steps: Sequence[Step]) -> list[TimePoint]:
    """The names of the time-points, in stream order."""
    names: list[TimePoint] = []
    for step in steps:
        if isinstance(step, Event):
            repeated = bool(names) and names[-1][0] == step.time_stamp
            names.append((step.time_stamp, names[-1][1] + 1 if repeated else 0))
    return names


def parse_step(line: str) -> Step:
    """Reads `@TS atom atom ...` or `advance TS`."""
    head, *rest = line.split()
    if head == "advance":
        return Advance(int(rest[0]))
    return Event(int(head.removeprefix("@")), frozenset(rest))


def format_step(step: Step) -> str:
    """The line that `parse_step` reads; that of an event is a line of a text log."""
    if isinstance(step, Advance):
        return f"advance {step.time_stamp}"
    return " ".join([f"@{step.time_stamp}", *sorted(step.atoms)])
