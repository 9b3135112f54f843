"""Ranges of a trace in memory: what passes get from whoever places events."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon import compile_formula
from tests.doors import make_plan, verdict_passes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon import Formula, Program
    from tests.doors import CuttingPlan as Plan
    from tests.doors import Finding, SeekingPass, VerdictPass
    from tests.traces import EndTime, Event, Mode, TimePoint


class Neighbours:
    """Of a sequence of time-stamps in order."""

    def __init__(self, time_stamps: NDArray[np.int64]) -> None:
        self.time_stamps = time_stamps

    def before(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        places = np.searchsorted(self.time_stamps, time_stamps, side="left")
        return self.time_stamps[np.maximum(places - 1, 0)]

    def after(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        places = np.searchsorted(self.time_stamps, time_stamps, side="right")
        return self.time_stamps[np.minimum(places, len(self.time_stamps) - 1)]


class CutTrace(NamedTuple):
    """A trace as arrays; `batch` events are read at a time."""

    time_stamps: NDArray[np.int64]
    words: NDArray[np.uint64]
    batch: int

    def events(
        self, plan: Plan, place: int
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
        first, last = plan.needs.first[place], plan.needs.last[place]
        start = int(np.searchsorted(self.time_stamps, first, side="left"))
        stop = int(np.searchsorted(self.time_stamps, last, side="right"))
        for at in range(start, stop, self.batch):
            upto = min(stop, at + self.batch)
            yield self.time_stamps[at:upto], self.words[at:upto]

    def run(self, passes: Sequence[SeekingPass]) -> list[list[Finding]]:
        return [self.findings(one) for one in passes]

    def findings(self, one: SeekingPass) -> list[Finding]:
        found = []
        for place in range(one.plan.range_count):
            work = one.work(place)
            if work.is_needed:
                for time_stamps, words in self.events(one.plan, place):
                    work.feed(time_stamps, words)
                work.finish()
                found += work.findings
        return found

    def verdicts(self, one: VerdictPass) -> list[tuple[TimePoint, bool]]:
        given = []
        for place in range(one.plan.range_count):
            work = one.work(place)
            for time_stamps, words in self.events(one.plan, place):
                work.feed(time_stamps, words)
                given += work.take()
            work.finish()
            given += work.take()
        return sorted(
            ((int(record["time_stamp"]), int(record["offset"])), bool(record["kind"]))
            for records in given
            for record in records
        )


def cut_trace(program: Program, events: Sequence[Event], batch: int = 3) -> CutTrace:
    words = np.zeros((len(events), max(1, (len(program.atoms) + 63) // 64)), np.uint64)
    for number, event in enumerate(events):
        for place, name in enumerate(program.atoms):
            if name in event.atoms:
                words[number, place // 64] |= np.uint64(1 << place % 64)
    return CutTrace(np.array([event.time_stamp for event in events], np.int64), words, batch)


def verdicts_in_ranges(
    formula: Formula | str,
    events: Sequence[Event],
    cuts: Sequence[int],
    mode: Mode = "local",
    end_time: EndTime = None,
    batch: int = 3,
) -> tuple[Plan, list[tuple[TimePoint, bool]]]:
    """The Boolean verdicts of a cut trace, in order, and the ranges that gave them."""
    program = compile_formula(formula)
    trace = cut_trace(program, events, batch)
    ends = int(trace.time_stamps[0]), int(trace.time_stamps[-1])
    plan = make_plan(program, mode, end_time, ends, cuts, Neighbours(trace.time_stamps))
    (last,) = verdict_passes([plan], trace.run)
    return last.plan, trace.verdicts(last)
