"""Streams of traces that come one after the other, each against the reference by itself."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from mtlmon.errors import PolicyError
from tests.doors import SuccessiveStreams
from tests.streams.programs import (
    SCHEMA,
    Row,
    Texts,
    expected,
    programs,
    recursive_programs,
    rows,
)
from tests.streams.test_program import compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tests.doors import TickAtoms

LATEST = 2**63 - 1


class Found(NamedTuple):
    atoms: list[dict[str, pa.Array]]
    ticks: list[dict[int, TickAtoms]]
    shown: list[dict[str, pa.Array]]


class Values:
    """A program in the place of atoms, so that values of all types are compared."""

    has_ticks = has_many_points = False

    def __init__(self, texts: Texts) -> None:
        self.program = texts.program()

    def forget_all(self) -> None:
        self.program.forget_all()

    def prepared(self, batch: pa.RecordBatch, held: object) -> pa.RecordBatch:
        return batch

    def evaluate(
        self,
        batch: pa.RecordBatch,
        time_stamps: NDArray[np.int64],
        numbers: Sequence[NDArray[np.uint32] | None],
        until: int | None,
    ) -> Found:
        assert until is None
        return Found([self.program.evaluate(batch, time_stamps, numbers[0])], [{}], [{}])


def evaluated(
    texts: Texts, traces: Sequence[list[Row]], cuts: Sequence[int]
) -> list[dict[str, Any] | None]:
    """What is computed on each row, in batches; None for rows that are refused."""
    log = [(time, cells) for trace in traces for time, _, cells in trace]
    begins = np.cumsum([0, *map(len, traces)])
    streams = SuccessiveStreams(Values(texts))  # type: ignore[arg-type]
    result: list[dict[str, Any] | None] = [None] * len(log)
    for start, end in pairwise([0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]):
        batch = pa.RecordBatch.from_pylist([cells for _, cells in log[start:end]], SCHEMA)
        times = np.array([time for time, _ in log[start:end]], np.int64)
        starts = np.unique(begins[(begins >= start) & (begins < end)] - start)
        seen = []
        for found in streams.evaluate(batch, times, starts, {}):
            seen += [*found.rows.tolist(), *(row for row, _ in found.refused)]
            assert (np.diff(found.rows) > 0).all()
            numbers = np.searchsorted(starts, found.rows, "right")
            assert found.traces.tolist() == numbers.tolist()
            columns = {name: values.to_pylist() for name, values in found.atoms.items()}
            for index, row in enumerate(found.rows.tolist()):
                result[start + row] = {name: values[index] for name, values in columns.items()}
        assert sorted(seen) == [*range(end - start)]
    return result


def later(trace: list[Row], begin: int, step: int) -> list[Row]:
    """The same rows at other times, which may be as large as there are any."""
    return [(min(LATEST, begin + time * step), number, cells) for time, number, cells in trace]


TRACES = st.lists(
    st.builds(
        later, rows(8), st.sampled_from([0, 5, 2**61, LATEST - 3]), st.sampled_from([1, 1, 2**59])
    ),
    max_size=6,
)
CUTS = st.lists(st.integers(0, 40), max_size=4)


@given(st.one_of(programs(), recursive_programs()), TRACES, CUTS)
def test_each_trace_is_computed_as_if_it_were_alone(
    texts: Texts, traces: list[list[Row]], cuts: list[int]
) -> None:
    try:
        texts.program()
    except PolicyError:
        # types of streams that read themselves are not always found
        assume(False)
    wanted = [one for trace in traces for one in expected(texts, trace_alone(trace))]
    compare(evaluated(texts, traces, cuts), wanted, texts)


def trace_alone(trace: list[Row]) -> list[Row]:
    return [(time, 0, cells) for time, _, cells in trace]


def test_a_trace_goes_on_in_the_next_batch_and_another_begins_earlier() -> None:
    texts = Texts({}, ["count[0,5]()", "i.last()"])
    row = {"i": 7, "f": None, "b": None, "s": None}
    traces = [[(10, 0, row), (12, 0, row), (14, 0, row)], [(3, 0, row), (4, 0, row)]]
    for cuts in [], [1], [2], [3], [4], [1, 2, 3, 4]:
        found = evaluated(texts, traces, cuts)
        assert [tuple(one.values()) for one in found if one is not None] == [
            (1, None),
            (2, 7),
            (3, 7),
            (1, None),
            (2, 7),
        ]


def test_rows_that_overflow_are_as_if_they_had_never_been_there() -> None:
    texts = Texts({}, ["sum[0,9](i)"])
    large, small = ({"i": value, "f": None, "b": None, "s": None} for value in (2**63 - 1, 1))
    traces = [[(1, 0, large), (2, 0, small)], [(1, 0, small), (1, 0, large), (2, 0, small)]]
    for cuts in [], [1], [2], [3], [4]:
        found = evaluated(texts, traces, cuts)
        assert [None if one is None else one["sum[0,9](i)"] for one in found] == [
            2**63 - 1,
            None,
            1,
            None,
            2,
        ]
