"""What a relation says of one time after another, and its changes, where the past can change."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tests.doors import (
    Records,
    SpannedChanges,
    Spans,
    changes_of,
    records_of,
    united,
    without_common,
)


def test_records_that_were_cut_are_whole_again() -> None:
    spans = Spans()
    rows = [(0, 50, "a"), (3, 9, "b"), (3, 9, "b"), (5, 7, "a")]
    for start, end in pairwise([-5, *range(0, 60, 2)]):
        spans.say([(start, cut(rows, start, end))], end)
    cut_bytes = spans.held_bytes
    spans.merge(-5, 58)
    assert len(spans) == 1
    assert spans.held_bytes < cut_bytes / 4
    # with what is said of the whole time, nothing changes
    assert spans.say([(-5, records(rows))], 58) is None


def random_records(source: random.Random) -> list[tuple[int, int, str]]:
    starts = [source.randrange(40) for _ in range(source.randrange(9))]
    return [(start, start + 1 + source.randrange(20), source.choice("ab")) for start in starts]


def records(rows: list[tuple[int, int, str]]) -> Records:
    columns = [pa.array([row[k] for row in rows], kind) for k, kind in enumerate(KINDS)]
    return records_of(pa.Table.from_arrays(columns, ["", " ", "door"]))


KINDS = (pa.int64(), pa.int64(), pa.large_string())


def cut(rows: list[tuple[int, int, str]], start: int, end: int) -> Records:
    """The part of some records between two times."""
    parts = [(max(first, start), min(last, end), door) for first, last, door in rows]
    return records([row for row in parts if row[0] < row[1]])


def test_changes_are_those_of_all_records() -> None:
    for seed in range(60):
        source = random.Random(seed)
        spans = Spans()
        changes = {keys: SpannedChanges(spans, keys) for keys in ((), ("door",))}
        marks = [-5, *sorted(source.sample(range(1, 60), 4)), 70]
        rows = random_records(source)
        for start, end in pairwise(marks):
            spans.say([(start, cut(rows, start, end))], end)
        oldest = -5
        for _ in range(6):
            step = source.randrange(4)
            first, last = sorted(source.sample(range(len(marks)), 2))
            if step == 0:
                # the past changes
                before, after = rows, random_records(source)
                rows = []
                for one, low, high in (
                    (before, -99, marks[first]),
                    (after, marks[first], marks[last]),
                    (before, marks[last], 99),
                ):
                    part = cut(one, low, high)
                    doors = part.columns[0].to_pylist()
                    rows += zip(part.starts.tolist(), part.ends.tolist(), doors, strict=True)
                pairs = list(pairwise(marks[first : last + 1]))
                spans.say([(start, cut(rows, start, end)) for start, end in pairs], marks[last])
            elif step == 1:
                spans.merge(marks[first], marks[last])
                del marks[first + 1 : last]
            elif step == 2 and len(marks) > 3:
                oldest = marks[1]
                spans.forget(oldest)
                del marks[0]
            for keys, known in changes.items():
                start = source.randrange(-9, 71)
                limit = source.randrange(start, 71)
                times, values = known.between(start, limit)
                wanted, wanted_values = changes_of(keys, records(rows), -99, 99)
                which = np.flatnonzero((wanted >= max(start, oldest + 1)) & (wanted < limit))
                found = [one.to_pylist() for one in (pa.array(times), *values)]
                chosen = [one.take(pa.array(which)) for one in (pa.array(wanted), *wanted_values)]
                in_order = sorted(zip(*(one.to_pylist() for one in chosen), strict=True))
                assert sorted(zip(*found, strict=len(times) > 0)) == in_order


def test_records_that_both_have_are_left_out() -> None:
    """No instant has other differences then, and equal records of both are gone."""
    values = (None, 0.0, 1.5, float("nan"))
    for seed in range(100):
        source = random.Random(seed)

        def some(source: random.Random = source) -> Records:
            rows = [(one, source.choice(values)) for one in random_records(source)]
            columns = [pa.array([row[k] for row, _ in rows], kind) for k, kind in enumerate(KINDS)]
            columns.append(pa.array([value for _, value in rows], pa.float64()))
            return records_of(pa.Table.from_arrays(columns, ["", " ", "door", "value"]))

        common, left, right = some(), some(), some()
        schema = common.schema
        left, right = united(common, left, schema), united(right, common, schema)
        fewer = without_common(left, right)
        assert len(fewer[0]) <= len(left)
        expected = _counted(left)
        expected.subtract(_counted(right))
        found = _counted(fewer[0])
        found.subtract(_counted(fewer[1]))
        assert {one: by for one, by in found.items() if by} == {
            one: by for one, by in expected.items() if by
        }
        if len(set(_rows(left))) == len(left) and len(set(_rows(right))) == len(right):
            assert not set(_rows(fewer[0])) & set(_rows(fewer[1]))


def _rows(some: Records) -> list[str]:
    columns = [some.starts.tolist(), some.ends.tolist(), *(one.to_pylist() for one in some.columns)]
    return list(map(repr, zip(*columns, strict=True)))


def _counted(some: Records) -> Counter[str]:
    return Counter(_rows(some))
