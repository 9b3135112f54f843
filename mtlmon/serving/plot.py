"""Draws verdicts and values of streams over time, as SVG whose verdicts can be chosen.

`mtlmon.reporting.plot` draws pictures for print and needs matplotlib; this one is drawn again at
each edit, in the width of the page, and its marks lead to explanations.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.reporting.clock import Clock, counts_from_1970
from mtlmon.syntax.report import shorten, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.reporting.plot import PlottedStream
    from mtlmon.serving.findings import Findings, PolicyFindings, StreamFindings, Verdict

__all__ = ["MOST_KEYS", "clock_of", "plot"]

MOST_KEYS = 6
"""The keys whose values are drawn, those that come first."""

_LANE = 26
_MARK = 16
_PANEL = 96
_AXIS = 36
_CHARACTER = 7.0
_TICK_PIXELS = 110
_LEAST_PIXELS = 6
# The order in which verdicts at the same place hide each other.
_RANKS = {False: 2, None: 1, True: 0}
_KINDS = {False: "false", None: "open", True: "true"}
_WORDS = {False: "violated", None: "undecided", True: "holds"}


def clock_of(findings: Findings) -> Clock:
    """Return what formats the time-stamps of a run."""
    first, last = _range(findings)
    epoch = findings.has_dates or counts_from_1970(findings.unit, [first, last])
    return Clock(findings.unit, epoch=epoch)


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
        """The values of a stream: a line for each key."""
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
        ends = (
            (panel.labels[0], panel.labels[-1]) if panel.labels else (_number(low), _number(high))
        )
        least = shorten(visible(ends[0]), 12), shorten(visible(ends[1]), 12)
        yield _text(self.left - 6, base + 4, least[0], "faint end")
        yield _text(self.left - 6, base - size + 4, least[1], "faint end")
        keys = list(dict.fromkeys(streams.keys))
        owners = np.array([keys.index(key) for key in streams.keys], np.int64)
        for number, key in enumerate(keys[:MOST_KEYS]):
            own = np.flatnonzero(owners == number)
            points = [
                None
                if not known[place]
                else (
                    self.x(int(streams.times[place])),
                    base - (float(values[place]) - low) / (high - low) * size,
                )
                for place in own.tolist()
            ]
            name = f"{panel.name}, {key}" if key else panel.name
            yield f'<g class="series s{number}"><title>{_escaped(name)}</title>'
            yield from _path(points)
            yield "</g>"


def _path(points: Sequence[tuple[float, float] | None]) -> Iterator[str]:
    """A line through points, interrupted where there is none; dots if there is room for them."""
    words: list[str] = []
    last: tuple[float, float, float] | None = None
    for point in points:
        if point is None:
            last = None
            continue
        x, y = point
        if last is None:
            words.append(f"M{x:.1f} {y:.1f}")
            last = x, y, y
            continue
        if x - last[0] < 0.5 and min(last[1:]) <= y <= max(last[1:]):
            # hidden by what is drawn in this column of pixels already
            continue
        words.append(f"L{x:.1f} {y:.1f}")
        is_new = x - last[0] >= 0.5
        last = (x, y, y) if is_new else (last[0], min(last[1], y), max(last[2], y))
    yield f'<path d="{"".join(words)}"/>'
    found = [point for point in points if point is not None]
    if len(found) <= 150:
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in found)


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
