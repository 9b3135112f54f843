"""Draws the values of streams, their windows and the violations of policies over time."""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mtlmon.errors import MtlmonError
from mtlmon.support.extras import load_extra
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "FORMATS",
    "MOST_KEYS",
    "PlottedPolicy",
    "PlottedStream",
    "chosen_keys",
    "draw",
    "own_points",
    "ticks_among",
]

FORMATS = ("svg", "png")
"""What pictures can be, by the ending of their name."""

MOST_KEYS = 6
"""The keys that are drawn: those with most violations, and of those with most values."""

_MOST_POINTS = 4_000
_COLOURS = ("#2563a8", "#d9822b", "#3a8f5c", "#8a5bb5", "#b0476b", "#6b7280")
_RED = "#c62828"
_GREY = "#6b7280"
_PANEL_INCHES = 1.75
_POLICY_INCHES = 0.34


class PlottedStream(NamedTuple):
    """The values of a stream.

    Attributes:
        name: its name.
        values: for each time-point its value as a float; NaN where it has none.
        labels: what the values 0, 1, ... stand for, if they are no numbers; else empty.
        window: the lower and upper bound of its window, or None.
        is_on_rows: whether its time-points are all rows.
        period: the time between its time-points if these are ticks, or None.
    """

    name: str
    values: NDArray[np.float64]
    labels: Sequence[str]
    window: tuple[int, int] | None
    is_on_rows: bool = True
    period: int | None = None


class PlottedPolicy(NamedTuple):
    """The violations of a policy.

    Attributes:
        name: its name.
        times: their time-stamps.
        keys: their keys; empty texts if the policy has none.
    """

    name: str
    times: NDArray[np.int64]
    keys: Sequence[str]


def draw(
    times: NDArray[np.int64],
    keys: Sequence[str],
    streams: Sequence[PlottedStream],
    policies: Sequence[PlottedPolicy],
    *,
    format: str,
    unit: str | None,
    is_date: bool,
    title: str,
) -> bytes:
    """Return the picture.

    Args:
        times: the time-stamps of all time-points.
        keys: the key of each time-point; empty texts if there are none.
        streams: the values at these time-points.
        policies: the violations.
        format: one of `FORMATS`.
        unit: the unit of time-stamps, or None if it is not known.
        is_date: whether time-stamps count from 1970, and are written as dates.
        title: what the picture shows.

    Raises:
        MtlmonError: matplotlib is not installed, or there is nothing to draw.
    """
    if not len(times):
        raise MtlmonError("there is nothing to draw: the log has no rows")
    load_extra("matplotlib", "plot")
    from matplotlib.figure import Figure

    violations = Counter(key for policy in policies for key in policy.keys)
    first, left_out = chosen_keys(keys, violations)
    chosen = sorted(first)
    colours = {key: _COLOURS[place % len(_COLOURS)] for place, key in enumerate(chosen)}
    rows = len(policies)
    heights = [_PANEL_INCHES] * len(streams) + ([0.25 + _POLICY_INCHES * rows] if rows else [])
    figure = Figure(figsize=(10, sum(heights) + 1.1), layout="constrained")
    panels = figure.subplots(
        len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    figure.suptitle(title, x=0.012, ha="left", fontsize=12, fontweight="bold")
    own = np.array(keys, dtype=object)
    is_tick = ticks_among(streams)
    for panel, stream in zip(panels, streams, strict=False):
        _draw_stream(panel, stream, times, is_tick, own, colours, unit, is_date=is_date)
        for policy in policies:
            marked = [key == "" or key in colours for key in policy.keys]
            for time in np.unique(policy.times[marked])[:200]:
                panel.axvline(_place(time, unit, is_date), color=_RED, alpha=0.25, lw=0.8, zorder=0)
    if rows:
        _draw_policies(panels[-1], policies, colours, unit, is_date=is_date)
    last = panels[-1]
    if not is_date:
        last.set_xlabel("time" if unit is None else f"time ({unit})", color=_GREY)
    if chosen != [""]:
        handles = [
            last.plot([], [], color=colours[key], lw=2, label=key if key else "(none)")[0]
            for key in chosen
        ]
        more = f"   and {left_out:,} more, not drawn" if left_out else ""
        legend = figure.legend(
            handles=handles, loc="outside upper right", ncols=len(chosen), frameon=False,
            fontsize=8, title=more.strip() or None, title_fontsize=7,
        )  # fmt: skip
        legend.get_title().set_color(_GREY)
    buffer = BytesIO()
    figure.savefig(buffer, format=format, dpi=144, metadata=_METADATA[format])
    return buffer.getvalue()


# Without dates, equal pictures are equal files.
_METADATA: Mapping[str, Mapping[str, Any]] = {"svg": {"Date": None}, "png": {"Software": None}}


def chosen_keys(
    keys: Sequence[str], violations: Mapping[str, int], most: int = MOST_KEYS
) -> tuple[list[str], int]:
    """Return the keys to draw, the most violated first, and the number of others.

    Args:
        keys: the key of each time-point.
        violations: the number of violations of each key that has any.
        most: how many keys are drawn at most.
    """
    counts = Counter(keys)
    order = sorted(counts, key=lambda key: (-violations.get(key, 0), -counts[key], key))
    return order[:most], max(0, len(order) - most)


def ticks_among(streams: Sequence[PlottedStream]) -> NDArray[np.bool_]:
    """Which time-points are ticks: those at which only streams on ticks have values."""
    found = np.zeros(len(streams[0].values) if streams else 0, np.bool_)
    for one in streams:
        if one.period is not None:
            found |= ~np.isnan(one.values)
    for one in streams:
        if one.period is None:
            found &= np.isnan(one.values)
    return found


def own_points(
    stream: PlottedStream, is_tick: NDArray[np.bool_], is_known: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """The places that are time-points of a stream, as far as that is known.

    A stream that has no value at one of them is not drawn from there on.
    """
    if not stream.is_on_rows:
        return np.flatnonzero(is_known)
    return np.flatnonzero(is_known | ~is_tick)


def _line(
    stream: PlottedStream, times: NDArray[np.int64], places: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The line of a stream: time-stamps, and the values from there on; NaN where there is none."""
    xs, ys = times[places], stream.values[places]
    if stream.period is not None:
        # a value of a tick holds until the next tick would be
        last = np.flatnonzero(np.diff(xs) > stream.period)
        xs = np.insert(xs, last + 1, xs[last] + stream.period)
        ys = np.insert(ys, last + 1, np.nan)
    if len(xs) <= _MOST_POINTS:
        return xs, ys
    is_known = ~np.isnan(ys)
    is_end = ~is_known & np.append(False, is_known[:-1])
    chosen = [
        some[np.linspace(0, len(some) - 1, min(len(some), _MOST_POINTS)).astype(int)]
        for some in (np.flatnonzero(is_known), np.flatnonzero(is_end))
    ]
    kept = np.sort(np.concatenate(chosen))
    return xs[kept], ys[kept]


def _draw_stream(
    panel: Any,
    stream: PlottedStream,
    times: NDArray[np.int64],
    is_tick: NDArray[np.bool_],
    keys: NDArray[np.object_],
    colours: Mapping[str, str],
    unit: str | None,
    *,
    is_date: bool,
) -> None:
    highest: tuple[float, int, str] | None = None
    is_known = ~np.isnan(stream.values)
    for key, colour in colours.items():
        own = np.flatnonzero(keys == key)
        places = own[is_known[own]]
        if not len(places):
            continue
        top = int(places[np.argmax(stream.values[places])])
        if highest is None or stream.values[top] > highest[0]:
            highest = float(stream.values[top]), top, colour
        xs, ys = _line(stream, times, own[own_points(stream, is_tick[own], is_known[own])])
        marker = "o" if len(times) <= 120 else None
        panel.step(
            _dates(xs, unit) if is_date else xs, ys, where="post", color=colour, lw=1.4, alpha=0.9,
            marker=marker, ms=3,
        )  # fmt: skip
    if stream.window is not None and highest is not None and stream.window[1] > 0:
        value, place, colour = highest
        lower, upper = stream.window
        ends = (times[place] - upper, times[place] - lower)
        panel.axvspan(
            *(_place(end, unit, is_date) for end in ends), color=colour, alpha=0.09, lw=0, zorder=0
        )
        panel.annotate(
            f"window of the highest value, {value:,.4g}",
            (_place(ends[0], unit, is_date), 1), xycoords=("data", "axes fraction"),
            xytext=(3, -3), textcoords="offset points", fontsize=7, color=_GREY, va="top",
            annotation_clip=False,
            bbox={"boxstyle": "square,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85},
        )  # fmt: skip
    panel.set_title(stream.name, loc="left", fontsize=9, color="#1f2937", family="monospace")
    if stream.labels:
        panel.set_yticks(range(len(stream.labels)), stream.labels)
    _quiet(panel)


def _draw_policies(
    panel: Any,
    policies: Sequence[PlottedPolicy],
    colours: Mapping[str, str],
    unit: str | None,
    *,
    is_date: bool,
) -> None:
    for row, policy in enumerate(reversed(policies)):
        panel.axhline(row, color="#e5e7eb", lw=6, zorder=0, solid_capstyle="butt")
        for key in dict.fromkeys(policy.keys):
            if key and key not in colours:
                continue
            own = policy.times[[one == key for one in policy.keys]]
            places = [_place(time, unit, is_date) for time in own]
            panel.plot(
                places, [row] * len(places), linestyle="none", marker="X", ms=7,
                color=colours.get(key, _RED), mec=_RED, mew=0.8,
            )  # fmt: skip
    names = [f"{policy.name} ({len(policy.times):,})" for policy in reversed(policies)]
    panel.set_yticks(range(len(policies)), names, fontsize=8)
    panel.set_ylim(-0.6, len(policies) - 0.4)
    panel.set_title("violations", loc="left", fontsize=9, color=_RED)
    _quiet(panel)


def _quiet(panel: Any) -> None:
    """Leave out what is not about the values."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color("#d1d5db")
    panel.tick_params(colors=_GREY, labelsize=8)
    panel.grid(axis="y", color="#eef0f3", lw=0.8)
    panel.set_axisbelow(True)
    panel.margins(x=0.01, y=0.15)


def _dates(times: NDArray[np.int64], unit: str | None) -> NDArray[Any]:
    nanoseconds = UNITS[unit or "s"]
    return (times * (nanoseconds / 1000)).astype("datetime64[us]")


def _place(time: int, unit: str | None, is_date: bool) -> Any:
    return _dates(np.array([time]), unit)[0] if is_date else int(time)
