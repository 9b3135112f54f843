"""Plots of results, as SVG that can be read on light and on dark ground."""

from __future__ import annotations

import io
import re
import textwrap
from itertools import cycle
from typing import TYPE_CHECKING, Any

from bench.commands import BenchmarkError
from bench.contenders import CEILING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.report import Record, Row

# Mid tones: enough contrast with white and with black.
_INK = "#7d8590"
_COLOURS = ("#2f81f7", "#e5534b", "#3fa45b", "#c27c0e", "#a371f7", "#1b9aaa")
_MARKERS = "osD^vP"
# Less is noise, and has no place on a logarithmic axis.
_LEAST_MB = 0.1
_STYLE: dict[Any, Any] = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.facecolor": "none",
    "legend.edgecolor": "none",
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _INK,
    "grid.alpha": 0.25,
    "axes.grid": True,
    "font.size": 10,
    # Text stays text, and equal results make equal files.
    "svg.fonttype": "none",
    "svg.hashsalt": "mtlmon",
}

_Line = tuple[str, list[float], list[float]]


def draw(record: Record, path: Path) -> None:
    """Draw the plot of a result, if its measure has one.

    Raises BenchmarkError when matplotlib is not installed.
    """
    plot = _PLOTS.get(record["measure"])
    if plot is None:
        return
    try:
        import matplotlib as mpl
    except ImportError:
        raise BenchmarkError("plots need matplotlib: pip install '.[bench]'") from None
    mpl.use("svg")
    from matplotlib import pyplot

    with mpl.rc_context(_STYLE):
        figure = plot(pyplot, record["rows"])
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None}, bbox_inches="tight")
        pyplot.close(figure)
    path.write_text(_short(drawn.getvalue()), encoding="utf-8")


def _short(picture: str) -> str:
    """A picture with each path in one line, and a hundredth of a point for the finest detail."""
    picture = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", picture)
    return re.sub(r' d="[^"]*"', lambda path: " ".join(path[0].split()).join((" ", "")), picture)


def _memory(pyplot: Any, rows: list[Row]) -> Any:
    """One panel for each formula, one line for each mode."""
    names = list(dict.fromkeys(str(row["formula"]) for row in rows))
    figure, panels = pyplot.subplots(
        1, len(names), figsize=(2.6 * len(names), 3), sharey=True, layout="constrained"
    )
    for name, panel in zip(names, panels, strict=True):
        of_name = [row for row in rows if row["formula"] == name]
        lines = [
            (
                str(row["mode"]),
                [float(key[2:]) for key in row if key.startswith("r=")],
                [max(_LEAST_MB, float(row[key])) for key in row if key.startswith("r=")],
            )
            for row in of_name
        ]
        _lines(panel, lines)
        panel.set(xscale="log", yscale="log")
        panel.set_title("\n".join(textwrap.wrap(name, 24)), fontsize=8)
    _plain_ticks(panels[0])
    panels[0].set_ylabel("peak memory above an empty log, MB")
    panels[0].legend()
    figure.supxlabel("events per time-stamp", color=_INK)
    return figure


def _time_against(x: str, label: str, series: str) -> Callable[[Any, list[Row]], Any]:
    """Nanoseconds per event against a column, one line for each value of another.

    Processor time, where it was measured: less depends on what else the machine did.
    """

    def plot(pyplot: Any, rows: list[Row]) -> Any:
        figure, panel = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
        lines: dict[str, _Line] = {}
        for row in rows:
            if row["contender"] == CEILING or not row["M events/s"]:
                continue
            name = str(row[series])
            _, xs, ys = lines.setdefault(name, (name, [], []))
            xs.append(float(row[x]))
            ys.append(float(row.get("CPU ns per event", row["ns per event"])))
        _lines(panel, list(lines.values()))
        panel.set(xscale="log", yscale="log", xlabel=label, ylabel="time per event, ns")
        _plain_ticks(panel)
        panel.legend(loc="best", fontsize=8)
        return figure

    return plot


def _plain_ticks(panel: Any) -> None:
    """Numbers on the logarithmic axis at 1, 2, 5, 10, 20, ...."""
    from matplotlib.ticker import LogLocator, NullLocator

    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter("{x:g}")


def _lines(panel: Any, lines: list[_Line]) -> None:
    for (name, xs, ys), colour, marker in zip(
        lines, cycle(_COLOURS), cycle(_MARKERS), strict=False
    ):
        panel.plot(xs, ys, label=name, color=colour, marker=marker, markersize=4, linewidth=1.5)


_PLOTS: dict[str, Callable[[Any, list[Row]], Any]] = {
    "memory": _memory,
    "rates": _time_against("rate", "events per time-stamp", "workload"),
    "constants": _time_against("c", "constant c", "formula"),
    "size": _time_against("operators", "operators", "rules"),
    "nesting": _time_against("depth", "nested future operators", "rate"),
}
