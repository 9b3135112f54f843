"""Computes the layout of the picture of a timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtlmon.reporting.clock import Clock
    from mtlmon.reporting.data import Timeline

__all__ = ["Bar", "Chart"]

_MOST_TICKS = 8
# With labels longer than this, the axis gets half as many.
_LONG_LABEL = 12
# The least height of a bar in percent, so that a single violation next to a thousand is visible.
_LEAST_HEIGHT = 3.0
# Labels this close to an end, in percent of the width, are not centred, so as not to stick out.
_EDGE = 10.0


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval with violations.

    Attributes:
        index: the index of the interval in the timeline.
        count: the number of violations in it.
        when: the interval in words.
        height: the height of the bar, in percent of the picture's.
    """

    index: int
    count: int
    when: str
    height: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A label below the picture.

    Attributes:
        left: the place of the label, in percent of the width.
        label: its first line.
        date: its second line.
        side: "start" or "end" near the ends of the axis, otherwise "middle".
    """

    left: float
    label: str
    date: str
    side: str


class Chart:
    """A timeline as a picture with bars and labels.

    Attributes:
        size: the number of intervals.
        bars: the bars of intervals with violations.
        marks: the labels of the axis.
        peak: the highest bar.
        width: the width of an interval, in words.
        whole: the time that the timeline covers, in words.
    """

    def __init__(self, timeline: Timeline, clock: Clock) -> None:
        self.size = len(timeline.counts)
        most = max(timeline.counts)
        self.bars = [
            Bar(
                index,
                count,
                clock.interval(*timeline.interval(index)),
                max(_LEAST_HEIGHT, 100 * count / most),
            )
            for index, count in enumerate(timeline.counts)
            if count
        ]
        self.peak = max(self.bars, key=lambda bar: bar.count)
        self.width = clock.duration(timeline.width)
        first, last = timeline.start, timeline.interval(self.size - 1)[1]
        self.whole = clock.interval(first, last)
        self.marks = []
        ticks = clock.ticks(first, last, _MOST_TICKS)
        if max((len(tick.label) for tick in ticks), default=0) > _LONG_LABEL:
            ticks = clock.ticks(first, last, _MOST_TICKS // 2)
        for tick in ticks:
            # bars cover whole intervals, so a time-stamp is at the beginning of its time unit
            left = 100 * (tick.time_stamp - first) / (last + 1 - first)
            side = "start" if left < _EDGE else "end" if left > 100 - _EDGE else "middle"
            self.marks.append(Mark(left, tick.label, tick.date, side))
