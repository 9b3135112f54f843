"""Which rows of a log are left in the end, and how far time is known to have passed.

The rules, for rows that come late, are taken back or corrected, or only let time pass:

1. A row comes too late if it is more than the lateness below the largest time of any row so far,
   whatever became of that one. Then it changes nothing.
2. A retraction removes the row with its id. A row whose id is there takes the place of that row.
3. What is left is in the order of time; rows of one time-stamp are in the order in which they came.
4. Time has passed to where the last row is that is left, and to where any `advance` said. A row
   that was taken back has never come, so it says nothing of the time.

How long rows wait for others makes no difference to any of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.reference.history import Arrival, Insert, Retraction
from tests.traces import Advance, Event, Step


class Kept(NamedTuple):
    """What arrivals come to.

    Attributes:
        rows: the rows that are left, in the order of time.
        passed: how far rows that only let time pass said that it has; 0 if there are none.
    """

    rows: list[Insert]
    passed: int

    def steps(self, key: str | None = None) -> list[Step]:
        """The rows, of one key or of all, and then how far time has passed with any row."""
        last = max([self.passed, *(row.time_stamp for row in self.rows)])
        own = [row for row in self.rows if key is None or row.key == key]
        return [*(Event(row.time_stamp, row.letter) for row in own), Advance(last)]


def kept_rows(arrivals: Sequence[Arrival], lateness: int) -> Kept:
    """Apply the rules. Retractions are of rows that are there, and come in time."""
    present: dict[object, tuple[int, Insert]] = {}
    now = passed = 0
    for place, arrival in enumerate(arrivals):
        if isinstance(arrival, Retraction):
            del present[arrival.id]
            continue
        now = max(now, arrival.time_stamp)
        if isinstance(arrival, Advance):
            passed = max(passed, arrival.time_stamp)
            continue
        assert isinstance(arrival, Insert)
        if now - arrival.time_stamp > lateness:
            continue
        known = present.get(arrival.id)
        if known is None or known[1] != arrival:
            present[place if arrival.id is None else arrival.id] = (place, arrival)
    order = sorted(present.values(), key=lambda one: (one[1].time_stamp, one[0]))
    return Kept([row for _, row in order], passed)
