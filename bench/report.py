"""What is printed: a table of rows, and the facts of the machine they were measured on."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import NotRequired, TypedDict

from bench import ROOT

Row = dict[str, str | int | float]


class Result(TypedDict):
    """What a measure found.

    Rows of a table, notes on what is missing in them and why, and the rows they were made from.
    """

    rows: list[Row]
    notes: list[str]
    details: NotRequired[dict[str, list[Row]]]


class Record(Result):
    """A result with all that it takes to get it again."""

    measure: str
    command: str
    machine: Row
    settings: dict[str, object]


def machine_facts() -> Row:
    """The facts that a figure means nothing without."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "mtlmon": importlib.metadata.version("mtlmon"),
        "revision": _revision(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def table(rows: list[Row]) -> str:
    """The rows as a table: numbers to the right, words to the left, `-` where a row has none."""
    header = _header(rows)
    cells = [[cell(row.get(key, "-")) for key in header] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    to_left = _words(rows, header)
    return "\n".join(
        "  ".join(
            text.ljust(width) if left else text.rjust(width)
            for text, width, left in zip(line, widths, to_left, strict=True)
        ).rstrip()
        for line in [header, *cells]
    )


def markdown(rows: list[Row]) -> str:
    """The rows as a table in Markdown."""
    header = _header(rows)
    rules = [":--" if word else "--:" for word in _words(rows, header)]
    lines = [header, rules, *([cell(row.get(key, "")) for key in header] for row in rows)]
    escaped = ([text.replace("|", "\\|") for text in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def pivot(rows: list[Row], index: list[str], column: str, value: str) -> list[Row]:
    """One row for each value of the index, one column for each value of `column`."""
    table_rows: dict[tuple[str | int | float, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in index)
        found = table_rows.setdefault(key, {name: row[name] for name in index})
        if value in row:
            found[str(row[column])] = row[value]
    return list(table_rows.values())


def cell(value: str | int | float) -> str:
    """A cell: three significant digits where numbers are measured."""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return f"{value:,}" if isinstance(value, int) else value


def _header(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _words(rows: list[Row], header: list[str]) -> list[bool]:
    """Which columns hold words."""
    first = {key: next(row[key] for row in rows if key in row) for key in header}
    return [isinstance(first[key], str) for key in header]


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    text = information.read_text() if information.exists() else ""
    model = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    return model[1] if model else platform.processor() or "unknown"


def _revision() -> str:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
