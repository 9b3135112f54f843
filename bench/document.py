"""Keeps results in docs/: JSON files and plots, and the tables of docs/measurements.md.

A table stands there between `<!-- table: NAME -->` and `<!-- end -->` and is written from
docs/benchmarks/NAME.json. All else in that file is written by hand.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from bench import ROOT
from bench.report import markdown, pivot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.report import Record, Row

DOCUMENT = ROOT / "docs" / "measurements.md"
RESULTS = ROOT / "docs" / "benchmarks"

_TABLE = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def keep(record: Record) -> None:
    """Store a result, and write its table and plot."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    _file(record["measure"]).write_text(packed(record), encoding="utf-8")
    write()


def write() -> None:
    """Write all tables and plots from the results that are kept."""
    from bench.plots import draw

    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    for path in sorted(RESULTS.glob("*.json")):
        draw(load(path.stem), path.with_suffix(".svg"))


def with_tables(text: str) -> str:
    """The text of the document with its tables written anew."""

    def table(match: re.Match[str]) -> str:
        name = match[2]
        body = section(load(name)) if _file(name).exists() else "Not measured yet."
        return f"{match[1]}\n{body}\n\n{match[3]}"

    return _TABLE.sub(table, text)


def load(name: str) -> Record:
    """A result that is kept."""
    return unpacked(_file(name).read_text(encoding="utf-8"))


def packed(record: Record) -> str:
    """A result as JSON with a line for each row, and no digits that say nothing.

    Rows are lists of values, in the order of the columns; null where a row has none.
    """
    fields = {
        name: _packed_rows(value)
        if name == "rows"
        else _packed_object({part: _packed_rows(rows) for part, rows in value.items()})
        if name == "details"
        else json.dumps(value, ensure_ascii=False)
        for name, value in cast("dict[str, Any]", record).items()
    }
    return _packed_object(fields) + "\n"


def unpacked(text: str) -> Record:
    """The result that was packed."""
    record = json.loads(text)
    record["rows"] = _rows(record["rows"])
    if "details" in record:
        record["details"] = {name: _rows(packed) for name, packed in record["details"].items()}
    return cast("Record", record)


def _packed_object(fields: dict[str, str]) -> str:
    """An object of values that are JSON already, a line for each."""
    lines = (f"{json.dumps(name)}: {value}" for name, value in fields.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def _packed_rows(rows: list[Row]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = (
        json.dumps([_short(row.get(key)) for key in columns], ensure_ascii=False) for row in rows
    )
    values = "[\n" + ",\n".join(lines) + "\n]"
    return _packed_object({"columns": json.dumps(columns, ensure_ascii=False), "values": values})


def _rows(packed: dict[str, list[Any]]) -> list[Row]:
    return [
        {
            key: value
            for key, value in zip(packed["columns"], values, strict=True)
            if value is not None
        }
        for values in packed["values"]
    ]


def _short(value: str | float | None) -> str | float | None:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def section(record: Record) -> str:
    """The table of a result, how and where it was measured."""
    machine = record["machine"]
    where = (
        f"`{record['command']}`: {machine['processor']}, {machine['cores']} cores, "
        f"{machine['python']}, revision {machine['revision']}, {str(machine['date'])[:10]}."
    )
    shape = _TABLES.get(record["measure"])
    rows = shape(record["rows"]) if shape else record["rows"]
    parts = [where, markdown(rows)]
    if record["notes"] and record["measure"] not in _WITHOUT_NOTES:
        parts.append("\n".join(f"- {note}" for note in dict.fromkeys(record["notes"])))
    return "\n\n".join(parts)


def _file(name: str) -> Path:
    return RESULTS / f"{name}.json"


def _by_contender(*labels: str, value: str = "M events/s") -> Callable[[list[Row]], list[Row]]:
    """One column for each contender."""
    return lambda rows: pivot(rows, list(labels), "contender", value)


def _throughput(rows: list[Row]) -> list[Row]:
    """The modes of mtlmon with the part of the ceiling that they reach."""
    return [
        {
            key: value
            for key, value in row.items()
            if key not in ("seconds", "time by local", "CPU ns per event")
        }
        for row in rows
    ]


def _summary_of_formulas(rows: list[Row]) -> list[Row]:
    """Quantiles, instead of sixty formulas."""
    summary: list[Row] = []
    for rate in dict.fromkeys(row["rate"] for row in rows):
        speeds = sorted(
            float(row["M events/s"]) for row in _by_processor(rows) if row["rate"] == rate
        )
        summary.append(
            {
                "rate": rate,
                "formulas": len(speeds),
                "slowest, M events/s": speeds[0],
                "lower quartile": speeds[len(speeds) // 4],
                "median": speeds[len(speeds) // 2],
                "upper quartile": speeds[len(speeds) * 3 // 4],
                "fastest": speeds[-1],
            }
        )
    return summary


def _by_processor(rows: list[Row]) -> list[Row]:
    """The throughput of a processor without the start, which is a good part of a short run.

    It depends less on what else the machine does than that by the clock. Rows that were made before
    they had this time stay as they are.
    """
    time = "CPU ns per event"
    return [
        {**row, "M events/s": 1e3 / float(row[time])} if float(row.get(time, 0)) > 0 else row
        for row in rows
    ]


# Their notes say how far each of many runs came; the speeds until then are in the tables.
_WITHOUT_NOTES = ("piles", "formulas")

_TABLES: dict[str, Callable[[list[Row]], list[Row]]] = {
    "throughput": _throughput,
    "rates": lambda rows: pivot(
        [row for row in rows if row["contender"] == "local"], ["workload"], "rate", "ns per event"
    ),
    "constants": lambda rows: pivot(
        [row for row in rows if row["contender"] == "local"], ["formula"], "c", "ns per event"
    ),
    "size": _by_contender("rules", "operators", value="ns per event"),
    "nesting": _by_contender("rate", "depth", value="CPU ns per event"),
    "families": lambda rows: pivot(
        _by_processor(rows), ["family", "form", "bound"], "contender", "M events/s"
    ),
    "clocks": lambda rows: pivot(rows, ["rate", "clock"], "workload", "CPU ns per event"),
    "piles": lambda rows: pivot(
        _by_processor(rows), ["pile", "size", "density"], "rate", "M events/s"
    ),
    "outputs": _by_contender("workload", "density", "rate", value="CPU ns per event"),
    "formulas": _summary_of_formulas,
    "wide": _by_contender("atoms", "density", "events"),
    "pipes": _by_contender("workload", "density", "rate"),
    "library": lambda rows: pivot(rows, ["workload", "density", "rate"], "call", "ns per event"),
}
