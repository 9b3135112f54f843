"""Reports to test with: of a run with everything in it, names that mean mischief included."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

import mtlmon
from mtlmon.reporting import (
    Collector,
    Definition,
    PolicyFileName,
    PolicyReport,
    ReportData,
    Run,
)
from mtlmon.verdict_arrays import verdict_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOSTILE = [
    "<script>window.injected = 1</script>",
    '"><img src=x onerror="window.injected = 1">',
    "</table></main><h1>not a heading</h1>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "nothing\x00\x1b[31m\u202egnorts",
    "",
    "key " * 200,
    "unbroken" * 60,
    "half a pair \ud800",
]

POLICY = "request IMPLIES (NOT cancel UNTIL[0,30] response)"
START = 1_689_000_000
"""A time-stamp of July 2023, in seconds."""


def trace(count: int = 3000) -> list[tuple[int, set[str]]]:
    """Events of a service, the same ones each time."""
    source = random.Random(7)
    clock = START
    events: list[tuple[int, set[str]]] = []
    for _ in range(count):
        clock += source.choice([0, 0, 1, 2, 9, 40])
        chances = (("request", 0.5), ("cancel", 0.05), ("response", 0.1))
        events.append((clock, {name for name, chance in chances if source.random() < chance}))
    return events


def verdict_array(verdicts: list[mtlmon.Verdict]) -> NDArray[np.void]:
    """Boolean verdicts as an array."""
    records = np.zeros(len(verdicts), verdict_type())
    for index, verdict in enumerate(verdicts):
        records[index] = (verdict.time_stamp, verdict.offset, 0, 0, verdict.value)
    return records


def keyed_policy() -> PolicyReport:
    """Many violations with keys, the first ones explained."""
    events = trace()
    monitor = mtlmon.Monitor(POLICY)
    verdicts = list(mtlmon.resolve(monitor(events), in_order=True))
    collector = Collector(POLICY, "answered <in time> & kept", number=1, unit="s")
    source = random.Random(9)
    numbers = [min(int(source.expovariate(0.05)), 59) for _ in verdicts]
    collector.add(verdict_array(verdicts), numbers)
    collector.cover(events[0][0], events[-1][0])
    for pending in monitor.pending:
        collector.add_pending([pending], key=1)
    for time_stamp, offset, key in collector.first_violations(5):
        collector.explain(
            time_stamp, offset, key, mtlmon.explain(POLICY, events[:200], (time_stamp, offset))
        )
    report = collector.report(HOSTILE + [f"session-{number}" for number in range(50)])
    row = f"{HOSTILE[0]}{'very' * 30}.csv:7"
    values = [(HOSTILE[1], HOSTILE[2]), ("p99", "0.25"), ("unbroken" * 9, "unbroken" * 9)]
    violations = [
        replace(one, row=row, message=HOSTILE[3], values=values) for one in report.violations
    ]
    return replace(
        report,
        violations=tuple(violations),
        clauses=[("violations", "at most 5"), ("per", HOSTILE[0]), ("on", "unbroken" * 9)],
        definitions=[
            Definition("const", "limit", "const limit = 5", "set to 7"),
            Definition("atom", "request", f'atom request = path = "{HOSTILE[2]}"\n  or x\x00'),
            Definition("stream", "long", f"stream long = {'unbroken' * 40}"),
        ],
        file="<b>policies.mtl</b>",
    )


def plain_policy(formula: str, number: int, name: str | None = None) -> PolicyReport:
    """A policy on a single trace."""
    events = trace(400)
    monitor = mtlmon.Monitor(formula, "global")
    collector = Collector(formula, name, number=number, unit="s")
    collector.add(verdict_array(list(mtlmon.resolve(monitor(events)))))
    collector.add_pending(monitor.pending)
    return collector.report()


def everything(unit: str | None = "s") -> ReportData:
    """A report with something of everything."""
    policies = [
        keyed_policy(),
        plain_policy('"<b>bold</b>" OR ONCE[0,600] response', 2, HOSTILE[0]),
        plain_policy("ALWAYS (request IMPLIES EVENTUALLY response)", 3, "never known"),
        plain_policy("request IMPLIES request", 4, "sure"),
    ]
    events = trace()
    run = Run(
        inputs=["<i>service</i>.csv.gz", "more.csv"],
        rows=3000,
        skipped=2,
        seconds=1.25,
        peak_memory=52_000_000,
        mode="local",
        command="mtlmon --report '<b>.html' policies.mtl",
        started=datetime(2024, 1, 1, 12, tzinfo=UTC),
        end_time="last",
        unit=unit,
        first=events[0][0],
        last=events[-1][0],
        keys=60,
        key_columns=["session", "<u>host</u>"],
        remarks=["Skipped 2 rows that could <not> be used."],
        policy_files=[PolicyFileName("<b>policies.mtl</b>", "0123456789ab")],
        settings=[("Constants", "limit=<7>")],
    )
    return ReportData(policies, run, title="Service & <policies>")
