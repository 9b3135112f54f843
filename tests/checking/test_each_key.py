"""Policies of a file on the rows of each key, against a monitor for each."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import mtlmon
from mtlmon import Monitor
from tests.traces import EndTime

POLICIES = {
    "answered": ("a IMPLIES EVENTUALLY[0,5] b", "user"),
    "recent": ("b IMPLIES ONCE[0,9] a", "user"),
    "calm": ("NOT (a AND PREVIOUS[0,1] a)", "host"),
    "whole": ("(NOT a) SINCE[0,20] b", None),
}
ENDS: tuple[EndTime, ...] = (None, "last", "inf")


@pytest.mark.parametrize("end_time", ENDS)
def test_policies_are_checked_for_each_key(end_time: EndTime) -> None:
    text = 'key user\natom a = what = "a"\natom b = what = "b"\n'
    for name, (formula, key) in POLICIES.items():
        clause = {"user": "", "host": " per host", None: " per none"}[key]
        text += f"policy {name}{clause}: {formula}\n"
    for seed in range(20):
        source = random.Random(seed)
        clock = 0
        rows: list[dict[str, Any]] = []
        for _ in range(source.choice([1, 10, 200])):
            clock += source.choice([0, 1, 1, 3])
            user, host = source.choice("uvw"), source.choice("xy")
            rows.append({"ts": clock, "user": user, "host": host, "what": source.choice("abc")})
        table = pa.Table.from_pylist(rows)
        cuts = sorted(source.sample(range(len(rows)), min(3, len(rows))))
        parts = [table.slice(first, last - first)
                 for first, last in zip([0, *cuts], [*cuts, len(rows)], strict=True)]  # fmt: skip
        found = mtlmon.check(text, parts, end_time=end_time, mode="naive").to_arrow().to_pylist()
        said = {
            name: sorted(
                (one["time"], one["offset"], one["verdict"], one["user"], one["host"])
                for one in found
                if one["policy"] == name
            )
            for name in POLICIES
        }
        for name, (formula, key) in POLICIES.items():
            expected: list[tuple[Any, ...]] = []
            for value in sorted({row[key] for row in rows}) if key else [None]:
                monitor, verdicts = Monitor(formula, "naive"), []
                own = [row for row in rows if key is None or row[key] == value]
                for row in own:
                    verdicts += monitor.step(row["ts"], {row["what"]})
                # time is that of the log
                verdicts += monitor.advance(rows[-1]["ts"])
                verdicts += monitor.finish(rows[-1]["ts"] if end_time == "last" else end_time)
                expected += [
                    (one.time_stamp, one.offset, one.value,
                     value if key == "user" else None, value if key == "host" else None)
                    for one in verdicts
                ]  # fmt: skip
            assert said[name] == sorted(expected), (seed, name)
