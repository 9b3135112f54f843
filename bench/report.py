"""What is printed: a table of rows, and the facts of the machine they were measured on."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

from bench import ROOT

Row = dict[str, str | int | float]


def machine_facts() -> dict[str, str | int | float]:
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
    """The rows, which share their keys, as a table: numbers to the right, words to the left."""
    header = list(rows[0])
    cells = [[_cell(row[key]) for key in header] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    to_left = [isinstance(value, str) for value in rows[0].values()]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, to_left, strict=True)
        ).rstrip()
        for line in [header, *cells]
    )


def _cell(value: str | int | float) -> str:
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 100 else _plain(value)


def _plain(value: str | int | float) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)


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
