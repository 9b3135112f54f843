"""The corpus: named cases in data files, each with a reason to exist.

A file holds an array of tables `[[case]]` with these keys:

name        unique in the corpus
rationale   why the verdicts are what they are, and what would go wrong otherwise
formula     in any spelling that the parser reads
trace       one string for each step: `@TS atom atom ...` is an event, `advance TS` is time passing
end         optional: a time-stamp, "last" or "inf"; no end time when missing
verdicts    one string for each step with the lines it earns, separated by ", "; if `end` is given,
            one more for the lines that the end of the log earns
naive, local, global
            the same for one mode, where it differs from `verdicts`
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.traces import MODES, EndTime, Mode, Trace, parse_step

DIRECTORY = Path(__file__).parent
_KEYS = {"name", "rationale", "formula", "trace", "end", "verdicts", *MODES}


class Case(NamedTuple):
    """One case; `expected` has for each mode what a run's output must be."""

    name: str
    rationale: str
    formula: str
    trace: Trace
    end_time: EndTime
    expected: dict[Mode, tuple[tuple[str, ...], ...]]


def load_cases() -> list[Case]:
    """All cases of all files.

    Raises:
        ValueError: an entry is malformed or a name is not unique.
    """
    cases = [case for path in sorted(DIRECTORY.glob("*.toml")) for case in _load_file(path)]
    names = [case.name for case in cases]
    if len(set(names)) != len(names):
        raise ValueError(f"names used twice: {sorted({n for n in names if names.count(n) > 1})}")
    return cases


def _load_file(path: Path) -> Iterator[Case]:
    with path.open("rb") as file:
        entries = tomllib.load(file)["case"]
    for entry in entries:
        try:
            yield _read_entry(entry)
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path.name}: {entry.get('name')}: {error!r}") from error


def _read_entry(entry: dict[str, Any]) -> Case:
    unknown = set(entry) - _KEYS
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    if not entry["rationale"].strip():
        raise ValueError("no rationale")
    trace = tuple(parse_step(line) for line in entry["trace"])
    expected: dict[Mode, tuple[tuple[str, ...], ...]] = {}
    for mode in MODES:
        rows = entry[mode] if mode in entry else entry["verdicts"]
        if len(rows) != len(trace) + ("end" in entry):
            raise ValueError(f"{mode}: {len(rows)} rows of verdicts for {len(trace)} steps")
        lines = [tuple(filter(None, row.split(", "))) for row in rows]
        expected[mode] = (*lines, *([] if "end" in entry else [()]))
    return Case(
        entry["name"], entry["rationale"], entry["formula"], trace, entry.get("end"), expected
    )
