"""Columns of integers that become floats: what streams remember goes on as if always floats."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import isnan
from typing import Any, Protocol

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtlmon.errors import SnapshotError
from tests.doors import StreamProgram, When
from tests.streams import programs as of_texts
from tests.streams import test_instance_ticks as of_instance_ticks
from tests.streams import test_templates as of_templates
from tests.streams.programs import LaterTexts, Row, Texts, Tick, evaluated
from tests.streams.test_due_ticks import due_programs, filled
from tests.streams.test_templates import File
from tests.streams.test_ticks import CUTS, require_same

# Beyond these, sums of integers would not be those of floats.
_LARGEST = 2**40


class Made(Protocol):
    """What has a program."""

    def program(self, schema: pa.Schema, *, only_due: bool = False) -> StreamProgram:
        """Return a new one."""


def wider(schema: pa.Schema) -> pa.Schema:
    """The schema with floats instead of integers."""
    return pa.schema(
        [(one.name, pa.float64() if pa.types.is_integer(one.type) else one.type) for one in schema]
    )


def with_fractions(log: list[Row], schema: pa.Schema, first: int) -> list[Row]:
    """The rows with small integers, and with a number with a point from one row on."""
    found = []
    for place, (time, trace, cells) in enumerate(log):
        own = dict(cells)
        for field in schema:
            value = own.get(field.name)
            if pa.types.is_integer(field.type) and value is not None:
                value = value if abs(value) < 100 else value % 7
                own[field.name] = value + (0.5 if place >= first and place % 3 != 1 else 0)
        found.append((time, trace, own))
    return found


Results = tuple[list[dict[str, Any] | None], list[Tick]]


def run(
    made: Made,
    log: list[Row],
    schema: pa.Schema,
    periods: Mapping[str, When],
    cuts: list[int],
    first: int,
    *,
    only_due: bool,
) -> Results:
    """What comes of rows, of which those before the first one with a point are integers."""
    program = made.program(wider(schema) if first == 0 else schema, only_due=only_due)
    ticks: list[Tick] = []
    found: list[dict[str, Any] | None] = []
    edges = sorted({0, len(log), *(min(cut, len(log)) for cut in [*cuts, first])})
    until = log[-1][0] + 9 if log else 7
    for start, end in pairwise([*edges, len(log)]):
        if start == first and first:
            snapshot = program.snapshot()
            program = made.program(wider(schema), only_due=only_due)
            program.restore(snapshot)
        found += evaluated(
            program,
            log[start:end],
            wider(schema) if start >= first else schema,
            periods=periods,
            ticks=ticks,
            first=len(found),
            until=until if start == end and program.has_ticks else None,
        )
    values = [value for row in found for value in (row or {"": None}).values()]
    values += [tick[-1] for tick in ticks]
    numbers = [one for one in values if type(one) in {int, float}]
    assume(None not in found and all(isnan(one) or abs(one) < _LARGEST for one in numbers))
    return found, ticks


def as_floats(results: Results) -> Results:
    def number(value: Any) -> Any:
        return value + 0.0 if type(value) in {int, float} else value

    rows = [{name: number(one) for name, one in (row or {}).items()} for row in results[0]]
    return list(rows), [(*tick[:4], number(tick[4])) for tick in results[1]]


def check(
    made: Made,
    log: list[Row],
    schema: pa.Schema,
    periods: Mapping[str, When],
    cuts: list[int],
    first: int,
    only_due: bool = False,
) -> None:
    log = with_fractions(log, schema, first)
    first = min(first, len(log))
    wanted = as_floats(run(made, log, schema, periods, [], 0, only_due=False))
    found = as_floats(run(made, log, schema, periods, cuts, first, only_due=only_due))
    if only_due:
        found = found[0], filled(found[1], wanted[1])
    require_same(found, wanted, made)


FIRST = st.integers(1, 20)


@given(st.one_of(of_texts.programs(), of_texts.recursive_programs()), of_texts.rows(), CUTS, FIRST)
def test_rows(texts: Texts, log: list[Row], cuts: list[int], first: int) -> None:
    check(texts, log, of_texts.SCHEMA, {}, cuts, first)


@given(
    st.one_of(of_texts.ticking_programs(), of_texts.recursive_ticking_programs()),
    of_texts.rows(),
    CUTS,
    FIRST,
)
def test_ticks(texts: Texts, log: list[Row], cuts: list[int], first: int) -> None:
    check(texts, log, of_texts.SCHEMA, texts.periods, cuts, first)


@given(due_programs(), of_texts.rows(), CUTS, FIRST)
def test_due_ticks(texts: Texts, log: list[Row], cuts: list[int], first: int) -> None:
    check(texts, log, of_texts.SCHEMA, texts.periods, cuts, first, only_due=True)


@given(of_texts.later_programs(), of_texts.rows(), CUTS, FIRST)
def test_rows_that_wait(texts: LaterTexts, log: list[Row], cuts: list[int], first: int) -> None:
    check(texts, log, of_texts.SCHEMA, texts.waiting, cuts, first)


@given(st.one_of(of_templates.files(), of_instance_ticks.files()), of_templates.rows(), CUTS, FIRST)
def test_instances(file: File, log: list[Row], cuts: list[int], first: int) -> None:
    check(file, log, of_templates.SCHEMA, file.periods, cuts, first)


def test_floats_do_not_become_integers() -> None:
    texts = Texts({}, ["sum[0,5](i)"])
    program = texts.program(wider(of_texts.SCHEMA))
    with pytest.raises(SnapshotError, match="other streams"):
        texts.program().restore(program.snapshot())
