"""What one machine says of keyed traces: the truth that verdicts of Spark are compared with."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlmon import Monitor, resolve
from mtlmon.policy import parse_policies

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from tests.traces import EndTime, Mode


class Row(NamedTuple):
    """An event: its key, time, place among those of its time, and names."""

    k: str
    ts: int
    n: int
    what: str


VERDICT_COLUMNS = "time, offset, verdict, reference_time, reference_offset"


def random_rows(seed: int, keys: int, events: int, *, skew: int = 0) -> list[Row]:
    """Events of some keys, by time within each; `skew` more for one of them."""
    source = random.Random(seed)
    rows = []
    for key in range(keys):
        time = 0
        for number in range(source.randint(1, events) + (skew if key == 0 else 0)):
            time += source.choice([0, 0, 0, 1, 2, 5, 30])
            names = [name for name in ("p", "q", "r") if source.random() < 0.4]
            rows.append(Row(f"key {key}", time, number, "|".join(names)))
    return rows


def expected(
    rows: Iterable[Row],
    policies: str,
    mode: Mode = "local",
    *,
    resolves: bool = True,
    end_time: EndTime = None,
) -> list[tuple[Any, ...]]:
    """The rows of verdicts, sorted: policy, key and `VERDICT_COLUMNS`."""
    traces: dict[str, list[Row]] = {}
    for row in rows:
        traces.setdefault(row.k, []).append(row)
    if end_time == "last":
        end_time = max(row.ts for row in rows)
    found = []
    for policy in parse_policies(policies).policies:
        for key, trace in traces.items():
            trace.sort(key=lambda row: (row.ts, row.n))
            monitor = Monitor(policy.formula, mode)
            events = [(row.ts, row.what.split("|")) for row in trace]
            verdicts = monitor(events, end_time="inf" if end_time == "inf" else None)
            given = list(verdicts)
            if end_time not in (None, "inf"):
                given += monitor.finish(end_time)
            for verdict in resolve(given) if resolves else given:
                reference = verdict.ref or (None, None)
                found.append(
                    (
                        policy.name,
                        key,
                        verdict.time_stamp,
                        verdict.offset,
                        verdict.value,
                        *reference,
                    )
                )
    return sorted(found, key=repr)


def collected(verdicts: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a data frame, sorted in the same way."""
    return sorted((tuple(row) for row in verdicts.collect()), key=repr)


def shuffled(rows: Sequence[Row], seed: int) -> list[Row]:
    """The same rows in another order."""
    return random.Random(seed).sample(rows, len(rows))
