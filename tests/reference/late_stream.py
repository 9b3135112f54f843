"""What a streaming query with a lateness takes in, and in what order it has it in the end.

The rules:

1. The *horizon* of a batch is the largest time of all earlier batches less the delay, at least 0.
2. A row is taken in if it is at most `lateness` below that largest time.
3. A row is judged in the first batch whose horizon is above its time: its own or a later one.
4. The history of a key is its rows by time; of those of one time, what is judged earlier is first.
   Rows that are judged together are ordered by their numbers.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mtlmon import parse
from tests.reference.evaluator import evaluate
from tests.traces import Event, Prefix, time_points

if TYPE_CHECKING:
    from collections.abc import Sequence


class Row(NamedTuple):
    """A row of a stream."""

    key: str
    time: int
    number: int
    names: str


class History(NamedTuple):
    """What has been taken in.

    Attributes:
        rows: the rows of each key that are judged, in order.
        refused: the keys and times of those that came too late, in order.
        horizon: the time that has passed.
    """

    rows: dict[str, list[Row]]
    refused: list[tuple[str, int]]
    horizon: int

    def values(self, formula: str) -> set[tuple[str, int, int, bool]]:
        """The value of each time-point of each key that is decided."""
        found = set()
        for key, rows in self.rows.items():
            events = tuple(Event(row.time, frozenset(row.names.split("|"))) for row in rows)
            last = max([self.horizon, *(row.time for row in rows)])
            values = evaluate(parse(formula), Prefix(events, last))
            for (time, offset), value in zip(time_points(events), values, strict=True):
                if value is not None:
                    found.add((key, time, offset, value))
        return found


def history_of(
    batches: Sequence[Sequence[Row]], delay: int, lateness: int, *, is_quiet: bool
) -> History:
    """Apply the rules; after each batch, or after the last one only, is a batch without rows."""
    steps = [part for batch in batches for part in ((batch, ()) if is_quiet else (batch,))]
    if not is_quiet:
        steps.append(())
    latest = 0
    waiting: list[Row] = []
    judged: dict[str, list[tuple[int, int, int, Row]]] = defaultdict(list)
    refused = []
    for step, rows in enumerate(steps):
        horizon = max(0, latest - delay)
        refused += [(row.key, row.time) for row in rows if row.time < latest - lateness]
        waiting += [row for row in rows if row.time >= latest - lateness]
        for row in waiting:
            if row.time < horizon:
                judged[row.key].append((row.time, step, row.number, row))
        waiting = [row for row in waiting if row.time >= horizon]
        latest = max([latest, *(row.time for row in rows)])
    ordered = {key: [row for *_, row in sorted(rows)] for key, rows in judged.items()}
    return History(ordered, sorted(refused), horizon)
