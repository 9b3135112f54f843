"""Tables read to rows that tests can compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon import Monitor, VerdictArray
from mtlmon.tables import KeyedMonitors, open_tables
from mtlmon.verdict_arrays import verdict_type

if TYPE_CHECKING:
    from pathlib import Path

    from mtlmon.tables import EventBatch, TableEvents

Row = tuple[int, frozenset[str]]


def letters_of(batch: EventBatch, atoms: tuple[str, ...]) -> list[frozenset[str]]:
    """The atoms of every event, as an engine sees them: by formulas that are one atom each."""
    found: list[set[str]] = [set() for _ in range(len(batch))]
    for name in atoms:
        monitors = KeyedMonitors(f'"{name}"')
        events = batch.events_of([name])
        records, _ = monitors.feed(events, np.zeros(len(batch), np.uint32))
        verdicts = VerdictArray(np.frombuffer(records, verdict_type()))
        for place, verdict in enumerate(verdicts):
            if verdict.value:
                found[place].add(name)
    return [frozenset(names) for names in found]


def all_rows(tables: TableEvents, atoms: tuple[str, ...]) -> list[Row]:
    """Time-stamp and atoms of every event."""
    rows: list[Row] = []
    for batch in tables:
        stamps = batch.time_stamps.tolist()
        rows += zip(stamps, letters_of(batch, atoms), strict=True)
    return rows


def read(path: Path | str | list[Path], atoms: str = "p q", **options: Any) -> list[Row]:
    """Time-stamp and atoms of every event of tables."""
    names = tuple(atoms.split())
    with open_tables(path, names, **options) as tables:
        return all_rows(tables, names)


def keyed(path: Path | str, atoms: str = "p q", **options: Any) -> list[tuple[Any, ...]]:
    """Key, time-stamp and atoms of every event."""
    names = tuple(atoms.split())
    found: list[tuple[Any, ...]] = []
    with open_tables(path, names, **options) as tables:
        for batch in tables:
            assert batch.numbers is not None
            assert tables.keys is not None
            keys = [tables.keys.key(int(number)) for number in batch.numbers]
            stamps = batch.time_stamps.tolist()
            found += zip(keys, stamps, letters_of(batch, names), strict=True)
    return found


def monitored(path: Path | str, formula: str, **options: Any) -> list[str]:
    """What a monitor says of a table."""
    monitor = Monitor(formula)
    with open_tables(path, monitor.atoms, **options) as tables:
        monitors = KeyedMonitors(formula)
        found: list[str] = []
        for batch in tables:
            records, _ = monitors.feed(batch.events, np.zeros(len(batch), np.uint32))
            found += map(str, VerdictArray(np.frombuffer(records, verdict_type())))
    return found
