"""The last row of a trace before a place, over batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import mtlmon
from tests.doors import LastRow, LastRows, Origins, RowFile, RowPlace

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tests.doors import EventBatch


LOG = RowFile("log.csv")


class Batch:
    def __init__(self, first: int, traces: list[int]) -> None:
        self.origins = Origins([LOG], None, np.arange(first, first + len(traces)))
        self.time_stamps = np.arange(first, first + len(traces)) // 2
        self._traces = np.array(traces, np.uint32)

    def numbers_of(self, partition: int) -> NDArray[np.uint32] | None:
        return self._traces


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=4))
def test_last_rows(batches: list[list[int]]) -> None:
    rows = LastRows(range(3))
    log: list[int] = []
    for traces in batches:
        batch = Batch(len(log), traces)
        rows.add(cast("EventBatch", batch), 0, len(traces))
        for place in range(len(traces) + 1):
            seen = log + traces[:place]
            for trace in range(3):
                last = max((row for row, one in enumerate(seen) if one == trace), default=None)
                wanted = None if last is None else LastRow(last // 2, RowPlace(LOG, last))
                assert rows.before(trace, place) == wanted
        log += traces


def test_explanations_of_ticks_name_the_last_row(tmp_path: Path) -> None:
    policies = tmp_path / "p.mtl"
    policies.write_text("key k\npolicy alive on every 2: count[0,3]() > 0\n")
    log = tmp_path / "log.csv"
    log.write_text("ts,k\n1,a\n3,a\n3,b\n12,a\n19,b\n")
    done = mtlmon(
        "--explain", "--explain-limit", "99", "--verdicts", "none", str(policies), str(log)
    )
    lines = done.errors.splitlines()
    found = [
        (lines[at - 2].removeprefix("policy alive, key "), line, lines[at + 1].split()[0])
        for at, line in enumerate(lines)
        if line.startswith("the last row")
    ]
    rows = {"a": [(3, 3), (5, 12)], "b": [(4, 3)]}
    times = {"a": [8, 10, 16, 18], "b": [8, 10, 12, 14, 16, 18]}
    assert sorted(found) == sorted(
        (key, f"the last row was {log}:{line}, {before(stamp, tick)}", f"{tick}:0")
        for key, ticks in times.items()
        for tick in ticks
        for line, stamp in [[one for one in rows[key] if one[1] <= tick][-1]]
    )


def before(row: int, tick: int) -> str:
    return (
        "at the same time"
        if row == tick
        else f"{tick - row} time unit{'' if tick - row == 1 else 's'} before"
    )
