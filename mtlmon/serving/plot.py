"""Draws verdicts and values of streams over time, as SVG whose verdicts can be chosen.

`mtlmon.reporting.plot` draws pictures for print and needs matplotlib; this one is drawn again at
each edit, in the width of the page, and its marks lead to explanations.
"""

from __future__ import annotations

from collections import Counter
from html import escape
from math import inf, isnan
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.reporting.clock import Clock, counts_from_1970
from mtlmon.reporting.plot import chosen_keys, own_points, ticks_among
from mtlmon.syntax.report import shorten, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.reporting.plot import PlottedStream
    from mtlmon.serving.findings import Findings, PolicyFindings, StreamFindings, Verdict

__all__ = ["clock_of", "drawn_keys", "plot"]

_LANE = 26
_MARK = 16
_PANEL = 96
_AXIS = 36
_CHARACTER = 7.0
_TICK_PIXELS = 110
_LEAST_PIXELS = 6
# what is drawn as one vertical line
_COLUMN_PIXELS = 1.0
_MOST_DOTS = 150
_MOST_LABELS = 5
# The order in which verdicts at the same place hide each other.
_RANKS = {False: 2, None: 1, True: 0}
_KINDS = {False: "false", None: "open", True: "true"}
_WORDS = {False: "violated", None: "undecided", True: "holds"}


def clock_of(findings: Findings) -> Clock:
    """Return what formats the time-stamps of a run."""
    first, last = _range(findings)
    epoch = findings.has_dates or counts_from_1970(findings.unit, [first, last])
    return Clock(findings.unit, epoch=epoch, zone=findings.zone)


def drawn_keys(findings: Findings) -> tuple[list[str], int]:
    """Return the keys whose values are drawn, the most violated first, and how many are not."""
    if findings.streams is None:
        return [], 0
    violations: Counter[str] = Counter()
    for policy in findings.policies:
        violations.update(policy.violating_keys)
    return chosen_keys(findings.streams.keys, violations)


def plot(findings: Findings, width: int) -> str:
    """Return the picture, or an empty text if nothing happens over time.

    Args:
        findings: what a run has found.
        width: the width in pixels.
    """
    lanes = [one for one in findings.policies if one.verdicts]
    streams = findings.streams
    panels = [] if streams is None or not len(streams.times) else list(streams.streams)
    if not lanes and not panels:
        return ""
    return "\n".join(_Picture(findings, lanes, panels, width).lines())


def _range(findings: Findings) -> tuple[int, int]:
    times = [one.time_stamp for policy in findings.policies for one in policy.verdicts]
    if findings.streams is not None and len(findings.streams.times):
        times += [int(findings.streams.times[0]), int(findings.streams.times[-1])]
    return (min(times), max(times)) if times else (0, 0)


class _Picture:
    def __init__(
        self,
        findings: Findings,
        lanes: Sequence[PolicyFindings],
        panels: Sequence[PlottedStream],
        width: int,
    ) -> None:
        self.findings = findings
        self.lanes = lanes
        self.panels = panels
        self.width = width
        self.clock = clock_of(findings)
        self.first, self.last = _range(findings)
        names = [one.name or "policy" for one in lanes] + [one.name for one in panels]
        most = max(8, int(width * 0.25 / _CHARACTER))
        self.names = [shorten(visible(name), most) for name in names]
        self.left = 16 + _CHARACTER * max(map(len, [*self.names, "00000"]))
        self.span = max(40.0, width - self.left - 30)
        self.bottom = 8 + _LANE * len(lanes) + _PANEL * len(panels)
        self.keys, _ = drawn_keys(findings)
        if panels:
            assert findings.streams is not None
            self.is_tick = ticks_among(findings.streams.streams)
            self.xs = np.array([self.x(time) for time in map(int, findings.streams.times)])

    def x(self, time_stamp: int) -> float:
        """The place of a time-stamp."""
        if self.first == self.last:
            return self.left + self.span / 2
        share = (time_stamp - self.first) / (self.last - self.first)
        return self.left + share * self.span

    def lines(self) -> Iterator[str]:
        height = self.bottom + _AXIS
        what = [*(["verdicts"] if self.lanes else []), *(["streams"] if self.panels else [])]
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" width="{self.width}" '
            f'height="{height}" viewBox="0 0 {self.width} {height}" role="group" '
            f'aria-label="{" and ".join(what)} over time">'
        )
        yield from self.axis()
        names = iter(self.names)
        top = 8.0
        for lane in self.lanes:
            yield _text(4, top + _LANE / 2 + 4, next(names))
            yield from self.marks(lane, top)
            top += _LANE
        assert self.findings.streams is not None or not self.panels
        for panel in self.panels:
            yield _text(4, top + 14, next(names))
            assert self.findings.streams is not None
            yield from self.values(self.findings.streams, panel, top)
            top += _PANEL
        yield "</svg>"

    def axis(self) -> Iterator[str]:
        most = max(2, int(self.span / _TICK_PIXELS))
        for tick in self.clock.ticks(self.first, self.last, most):
            x = self.x(tick.time_stamp)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{self.bottom}"/>'
            for row, words in enumerate([tick.label, tick.date]):
                if words:
                    yield _text(x, self.bottom + 14 + 14 * row, words, "faint middle")

    def marks(self, lane: PolicyFindings, top: float) -> Iterator[str]:
        """One mark for each place: the worst verdict that is there, and how many there are."""
        found: dict[int, tuple[Verdict, int]] = {}
        for verdict in lane.verdicts:
            place = round(self.x(verdict.time_stamp) / _LEAST_PIXELS)
            worst, count = found.get(place, (verdict, 0))
            if _RANKS[verdict.value] > _RANKS[worst.value]:
                worst = verdict
            found[place] = worst, count + 1
        y = top + _LANE / 2
        yield f'<line class="rule" x1="{self.left:.1f}" x2="{self.width - 8}" y1="{y}" y2="{y}"/>'
        for worst, count in found.values():
            x = self.x(worst.time_stamp)
            key = f", {worst.key}" if worst.key else ""
            more = f" (and {count - 1:,} more here)" if count > 1 else ""
            words = f"{self.clock.text(worst.time_stamp)}{key}: {_WORDS[worst.value]}{more}"
            why = f' data-why="{worst.name}"' if lane.has_explanations else ""
            yield f'<g class="mark {_KINDS[worst.value]}"{why}><title>{_escaped(words)}</title>'
            yield from _shape(x, y, worst.value)
            yield "</g>"

    def values(self, streams: StreamFindings, panel: PlottedStream, top: float) -> Iterator[str]:
        """The values of a stream: a line of steps for each key, with gaps where it has none."""
        values = np.asarray(panel.values, np.float64)
        known = np.isfinite(values)
        low, high = 0.0, 1.0
        if panel.labels:
            high = max(1.0, len(panel.labels) - 1.0)
        elif known.any():
            low, high = float(values[known].min()), float(values[known].max())
        if low == high:
            low, high = low - 0.5, high + 0.5
        base, size = top + _PANEL - 12, _PANEL - 40.0
        right = self.width - 8
        ground = f'y1="{base:.1f}" y2="{base:.1f}"'
        yield f'<line class="rule" x1="{self.left:.1f}" x2="{right}" {ground}/>'
        yield from self.scale(panel, (low, high), base, size)
        heights = base - (values - low) / (high - low) * size
        heights[~known] = np.nan
        for number, (key, own) in enumerate(self.own_places(streams)):
            chosen = own[own_points(panel, self.is_tick[own], known[own])]
            points = list(zip(self.xs[chosen].tolist(), heights[chosen].tolist(), strict=True))
            name = f"{panel.name}, {key}" if key else panel.name
            yield f'<g class="series s{number}"><title>{_escaped(name)}</title>'
            yield from _steps(points, self.pixels(panel.period))
            yield "</g>"

    def scale(
        self, panel: PlottedStream, ends: tuple[float, float], base: float, size: float
    ) -> Iterator[str]:
        """What the heights of a panel stand for: the ends, or each of a few texts."""
        low, high = ends
        words: list[tuple[float, str]] = list(enumerate(panel.labels))
        if not words:
            words = [(low, _number(low)), (high, _number(high))]
        elif len(words) > _MOST_LABELS:
            words = [words[0], words[-1]]
        for value, text in words:
            y = base - (value - low) / (high - low) * size
            yield _text(self.left - 6, y + 4, shorten(visible(text), 12), "faint end")

    def own_places(self, streams: StreamFindings) -> Iterator[tuple[str, NDArray[np.intp]]]:
        """The keys that are drawn, each with the places of its values."""
        numbers = {key: number for number, key in enumerate(self.keys)}
        owners = np.array([numbers.get(key, -1) for key in streams.keys], np.int64)
        for key, number in numbers.items():
            yield key, np.flatnonzero(owners == number)

    def pixels(self, period: int | None) -> float:
        """How long a value holds at most, if it is one of ticks with this period."""
        if period is None or self.first == self.last:
            return inf
        return period / (self.last - self.first) * self.span


class _Column:
    """The values in a column of pixels.

    Attributes:
        x: where it is.
        first: the first value.
        last: the last value.
        low: the least value.
        high: the largest value.
        end: where the last value ends, if there is none for a while.
    """

    __slots__ = ("end", "first", "high", "last", "low", "x")

    def __init__(self, x: float, y: float) -> None:
        self.x = x
        self.first = self.last = self.low = self.high = y
        self.end: float | None = None

    def add(self, y: float) -> None:
        """Add a value; a gap before it is hidden by what is drawn here."""
        self.last, self.low, self.high = y, min(self.low, y), max(self.high, y)
        self.end = None

    def words(self) -> Iterator[str]:
        """The line from the first value to the last one, by way of the extremes."""
        places = [self.first]
        if self.low < min(self.first, self.last):
            places.append(self.low)
        if self.high > max(self.first, self.last):
            places.append(self.high)
        if self.last != places[-1]:
            places.append(self.last)
        yield from (f"V{y:.1f}" for y in places[1:])


def _columns(points: Sequence[tuple[float, float]]) -> list[_Column]:
    columns: list[_Column] = []
    for x, y in points:
        if isnan(y):
            if columns and columns[-1].end is None:
                columns[-1].end = x
        elif columns and x - columns[-1].x < _COLUMN_PIXELS:
            columns[-1].add(y)
        else:
            columns.append(_Column(x, y))
    return columns


def _steps(points: Sequence[tuple[float, float]], most: float) -> Iterator[str]:
    """A line of steps: each value holds until the next one, or until there is none.

    Args:
        points: the values in the order of time; NaN is none.
        most: how long a value holds at most, in pixels.
    """
    words: list[str] = []
    before: _Column | None = None
    columns = _columns(points)
    for column in columns:
        end = None if before is None else before.end
        if before is not None and column.x - before.x > most + _COLUMN_PIXELS:
            end = min(end or inf, before.x + most)
        if before is None or end is not None:
            words += [] if end is None else [f"H{end:.1f}"]
            # the line of no length is a dot
            words.append(f"M{column.x:.1f} {column.first:.1f}h0")
        else:
            words.append(f"H{column.x:.1f}V{column.first:.1f}")
        words += column.words()
        before = column
    if before is not None and before.end is not None:
        words.append(f"H{min(before.end, before.x + most):.1f}")
    yield f'<path d="{"".join(words)}"/>'
    if len(columns) <= _MOST_DOTS:
        known = [(x, y) for x, y in points if not isnan(y)][:_MOST_DOTS]
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in known)


def _shape(x: float, y: float, value: bool | None) -> Iterator[str]:
    """The mark of a verdict, which differs in shape as well as in colour."""
    half = _MARK / 2
    # what can be hit by a finger
    yield f'<rect class="hit" x="{x - 6:.1f}" y="{y - 12}" width="12" height="24"/>'
    if value is None:
        yield f'<circle cx="{x:.1f}" cy="{y}" r="4"/>'
    elif value:
        yield f'<rect x="{x - 1:.1f}" y="{y - 5}" width="2" height="10"/>'
    else:
        yield f'<path d="M{x - 4:.1f} {y - half}h8v{_MARK}h-8z"/>'


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{_escaped(text)}</text>'


def _number(value: float) -> str:
    return f"{value:.4g}"


def _escaped(text: str) -> str:
    return escape(visible(text))
