"""Named cases of late and corrected events, each with a reason to exist, in `late.toml`.

An entry `[[case]]` has these keys:

name, rationale, formula
            as in the corpus of formulas
lateness    how late an event may be; without a limit if missing
clock       optional: "key" if each key has a clock of its own
batches     one string for each batch, with its arrivals separated by "; ": `@TS atom atom ...` is
            an event, `retract ID` or `retract @TS atom atom ...`, `advance TS`. An event can have
            `key=KEY` and `id=ID` before it
end         optional: a time-stamp, "last" or "inf"
lines       the changelog with the fewest lines: one string for each batch, with lines separated
            by ", ", and one more for the end of the log if `end` is given
refused     optional: the numbers of the arrivals that come too late, from 0
unmatched, duplicates
            optional: how many retractions and inserts are
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from mtlmon import Formula, parse
from tests.reference.history import Arrival, Clock, EqualRetraction, Insert, Retraction
from tests.traces import Advance, EndTime, Event, parse_step

FILE = Path(__file__).parent / "late.toml"
_KEYS = {
    *("name", "rationale", "formula", "lateness", "clock", "batches", "end", "lines"),
    *("refused", "unmatched", "duplicates"),
}


class Case(NamedTuple):
    """One case."""

    name: str
    formula: Formula
    lateness: int | None
    clock: Clock
    batches: tuple[tuple[Arrival, ...], ...]
    end_time: EndTime
    lines: list[list[str]]
    refused: tuple[int, ...]
    unmatched: int
    duplicates: int

    @property
    def equality(self) -> bool:
        """Whether events are retracted by equality."""
        return any(isinstance(a, EqualRetraction) for batch in self.batches for a in batch)


def parse_arrival(text: str) -> Arrival:
    """Reads `key=KEY id=ID @TS atom atom ...`, the same after `retract`, and `advance TS`."""
    words = text.split()
    if words[0] == "retract":
        if len(words) == 2 and words[1][0] != "@":
            return Retraction(words[1])
        event = parse_arrival(text.removeprefix("retract "))
        assert isinstance(event, Insert)
        return EqualRetraction(event.time_stamp, event.letter, event.key)
    options = dict(word.split("=") for word in words if "=" in word)
    step = parse_step(" ".join(word for word in words if "=" not in word))
    if isinstance(step, Advance):
        return step
    assert isinstance(step, Event)
    return Insert(step.time_stamp, step.atoms, options.get("key", ""), options.get("id"))


def load_cases() -> list[Case]:
    """All cases.

    Raises:
        ValueError: an entry has no reason, or a key that nobody reads.
    """
    with FILE.open("rb") as file:
        entries: list[dict[str, Any]] = tomllib.load(file)["case"]
    return [_read(entry) for entry in entries]


def _read(entry: dict[str, Any]) -> Case:
    unknown = set(entry) - _KEYS
    if unknown or not entry["rationale"].strip():
        raise ValueError(f"{entry['name']}: unknown keys {sorted(unknown)}, or no rationale")
    return Case(
        entry["name"],
        parse(entry["formula"]),
        entry.get("lateness"),
        entry.get("clock", "all"),
        tuple(
            tuple(map(parse_arrival, filter(None, batch.split("; ")))) for batch in entry["batches"]
        ),
        entry.get("end"),
        [[line for line in batch.split(", ") if line] for batch in entry["lines"]],
        tuple(entry.get("refused", ())),
        entry.get("unmatched", 0),
        entry.get("duplicates", 0),
    )
