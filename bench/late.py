"""Rows that come late: `--wait 5s` beside the same rows in the order of time without it.

The command reads a text log or CSV with a thousand rows a second. Some rows reach the log late:
*uniform*, each by a time of its own up to the largest delay, or in *bursts*, as when one of two
machines holds back its rows for that long and then writes them all. Those that are more than five
seconds late are refused. The log that is compared with has the other rows, sorted.
"""

from __future__ import annotations

import os
import statistics
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench.arrivals import arrivals
from bench.compare import in_turn
from bench.contenders import Mtlmon
from bench.logs import cache_directory

if TYPE_CHECKING:
    from pathlib import Path

    from bench.report import Result, Row
    from bench.settings import Settings

FORMULA = "p IMPLIES EVENTUALLY[0,5s] q"
WAIT = 5000
_SHARES = (0.001, 0.01, 0.1)
_DELAYS = {"1s": 1000, "5s": 5000, "1m": 60_000}
_KEYS = (1, 1000, 100_000)


class Case(NamedTuple):
    """How rows come.

    Attributes:
        share: how many of the rows are late.
        delay: by how many milliseconds at most.
        way: "uniform" or "bursts".
        keys: the number of keys.
    """

    share: float
    delay: str
    way: str
    keys: int


def cases(format: str) -> list[Case]:
    """Return how rows of a format come: one thing changes at a time, apart from share and delay."""
    found = [Case(0.0, "1s", "uniform", 1)]
    found += [Case(share, delay, "uniform", 1) for share, delay in product(_SHARES, _DELAYS)]
    found += [Case(share, "5s", "bursts", 1) for share in _SHARES[1:]]
    if format == "csv":
        found += [Case(0.01, "5s", "uniform", keys) for keys in _KEYS[1:]]
    return found


def late(settings: Settings) -> Result:
    """Processor seconds of the whole command, medians over the repeats, and their ratio."""
    rows: list[Row] = []
    notes: list[str] = []
    for format in ("text", "csv"):
        for case in cases(format):
            paths, refused = _files(format, case, settings)
            options = ["--unit", "ms", "-o", os.devnull]
            if case.keys > 1:
                options += ["--key", "key"]
            commands = {
                "ordered": Mtlmon("local", options=tuple(options)).command(FORMULA, paths[1]),
                "late": Mtlmon("local", options=(*options, "--wait", "5s")).command(
                    FORMULA, paths[0]
                ),
            }
            label = f"late, {format}, {case.share:.1%} by {case.delay}"
            runs = in_turn(commands, settings.repeats, settings.limit, notes, label)
            if runs.get("ordered") and runs.get("late"):
                before, after = (
                    statistics.median(run.cpu_seconds for run in runs[name])
                    for name in ("ordered", "late")
                )
                rows.append(
                    {
                        "format": format,
                        "keys": case.keys,
                        "late": f"{case.share:.1%}",
                        "by up to": case.delay if case.share else "",
                        "way": case.way if case.share else "",
                        "refused": f"{refused:.2%}",
                        "ordered, CPU s": before,
                        "--wait 5s, CPU s": after,
                        "ratio": after / before,
                    }
                )
    return {"rows": rows, "notes": notes}


def _files(format: str, case: Case, settings: Settings) -> tuple[tuple[Path, Path], float]:
    """Return the log as it comes, the one in order, and the share of rows that is refused."""
    stamps = np.arange(settings.events)
    order = arrivals(stamps, case.share, _DELAYS[case.delay], case.way, settings.seed)
    is_refused = np.maximum.accumulate(order) - order > WAIT
    source = np.random.default_rng(settings.seed)
    columns = {
        "ts": np.arange(settings.events),
        "key": source.integers(0, case.keys, settings.events),
        "p": source.random(settings.events) < 0.1,
        "q": source.random(settings.events) < 0.1,
    }
    found = []
    for name, places in ("late", order), ("ordered", np.sort(order[~is_refused])):
        words = [name, *map(str, case), settings.events, settings.seed]
        path = cache_directory() / f"{'-'.join(map(str, words))}.{format}"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f"{path.name}.{os.getpid()}")
            table = pa.table({name: column[places] for name, column in columns.items()})
            _write(table, unfinished, format)
            unfinished.replace(path)
        found.append(path)
    return (found[0], found[1]), float(is_refused.mean())


def _write(table: pa.Table, path: Path, format: str) -> None:
    if format == "csv":
        pyarrow.csv.write_csv(table, path)
        return
    letters = np.array(["", " p", " q", " p q"])
    chosen = letters[table["p"].to_numpy() + 2 * table["q"].to_numpy()]
    lines = zip(table["ts"].to_pylist(), chosen.tolist(), strict=True)
    path.write_text("".join(f"@{stamp}{names}\n" for stamp, names in lines))
