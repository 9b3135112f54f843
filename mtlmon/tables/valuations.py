"""Convert the answers of first-order policies to Arrow tables: a column for each variable."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.checking.outputs import FIXED, ROW_COLUMNS, unique_columns
from mtlmon.checking.policy_facts import PolicyFacts
from mtlmon.policy.predicates.kinds import DECLARED, NUMBERS
from mtlmon.relational.atoms import cell_word
from mtlmon.relational.cells import value_text
from mtlmon.relational.running import HOLDS, HOLDS_FOR
from mtlmon.tables.answer_columns import VARIABLE_TYPES, VariableColumns, answer_parts
from mtlmon.tables.verdicts import ROW_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal, Protocol

    from numpy.typing import NDArray

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.row_files import RowFiles
    from mtlmon.checking.row_tracking import FoundRows
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.tables.answer_columns import AnswerParts
    from mtlmon.tables.columns.times import Times

    Wanted = Literal["all", "boolean", "false", "first", "none"]

    class KnownRows(Protocol):
        """The rows of time-points."""

        @property
        def files(self) -> RowFiles:
            """The files so far."""

        def of(self, points: NDArray[np.uint64]) -> FoundRows:
            """Return the rows of time-points, by their numbers."""


__all__ = ["ValuationTable", "valuation_table"]

_KINDS = {kind.name: kind for kind in DECLARED.values()}
_VIOLATED = 0
# before the name of a column of a key, which is none of the variables
_KEY = "\0key "


class ValuationTable:
    """Creates record batches of answers.

    The columns are `policy` (null for a policy without a name); a text column for each key column,
    which gets the prefix `key_` if it has the name of another column; `time`, the time-stamp;
    `time_text`, the time as the log writes it, if that is different; `offset`; `verdict`: false for
    a violation, true where there is none, and for the matches of a find; `reference`, always null,
    so that tables of all verdicts have the same columns; and a column for each variable, which is
    null for policies without it. A variable with the name of another column gets the prefix `var_`,
    repeated until the name is unique. If policies have variables of one name and different types,
    the column has floats for integers and floats, else the canonical texts of all. The columns
    `severity` and `text` follow if any policy has them, `text` for violations and matches only.

    Args:
        names: the names of the policies, in order.
        variables: for each policy, pairs of the name and the kind of each variable.
        texts: the texts by number.
        times: the log's notation of times, or None if it has the time-stamps.
        has_true: whether time-points without violations have a row.
        facts: what the file says of the policies, which becomes columns; None for no such columns.
        point_rows: the rows of time-points, which become columns `file` and `row` behind those of
            variables; None for no such columns.
        more: the names of columns that whoever takes the batches adds.
        key_widths: for each policy, how many of its first variables are its key.

    Attributes:
        key_columns: the columns of keys, with their names in the batches.
        fact_columns: what the file says of the policies, with the names of these columns.
    """

    def __init__(
        self,
        names: Sequence[str | None],
        variables: Sequence[Sequence[tuple[str, str]]],
        texts: KeyTable,
        times: Times | None = None,
        *,
        has_true: bool = False,
        facts: PolicyFacts | None = None,
        point_rows: KnownRows | None = None,
        more: Sequence[str] = (),
        key_widths: Sequence[int] | None = None,
    ) -> None:
        self._names = pa.array(names, pa.string())
        self._times = times
        self._has_true = has_true
        widths = key_widths or [0] * len(variables)
        variables = [
            [(f"{_KEY}{name}" if place < width else name, kind)
             for place, (name, kind) in enumerate(own)]
            for own, width in zip(variables, widths, strict=True)
        ]  # fmt: skip
        self._kinds = kinds_of_columns(variables)
        self._point_rows = point_rows
        fixed = (*FIXED, *(() if point_rows is None else ROW_COLUMNS), *more)
        keys = [name for name in self._kinds if name.startswith(_KEY)]
        written = [name.removeprefix(_KEY) for name in keys]
        others = [name for name in self._kinds if name not in keys]
        columns = unique_columns(others, fixed, "var_")
        key_columns = unique_columns(written, [*fixed, *columns], "key_")
        self.key_columns = dict(zip(written, key_columns, strict=True))
        self._columns = dict(zip([*keys, *others], [*key_columns, *columns], strict=True))
        self._variables = [[name for name, _ in own] for own in variables]
        own = [[kind for _, kind in one] for one in variables]
        self._values = VariableColumns(self._kinds, self._variables, texts, own, key_widths)
        self.fact_columns: dict[str, str] = {}
        if facts is not None:
            self.fact_columns = facts.columns([*fixed, *key_columns, *columns])
            self._severities = pa.array(facts.severities, pa.string())
            self._fact_texts = pa.array(facts.texts, pa.string())

    @cached_property
    def has_time_texts(self) -> bool:
        """Whether the log writes times differently from the time-stamps, once rows are read."""
        return self._times is not None and not self._times.is_plain

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches, once rows have been read."""
        return pa.schema(
            [
                pa.field("policy", pa.string()),
                *(pa.field(name, pa.string()) for name in self.key_columns.values()),
                pa.field("time", pa.int64(), nullable=False),
                *([pa.field("time_text", pa.string())] if self.has_time_texts else []),
                pa.field("offset", pa.int64(), nullable=False),
                pa.field("verdict", pa.bool_(), nullable=False),
                pa.field("reference", pa.string()),
                *(
                    pa.field(self._columns[name], VARIABLE_TYPES[kind])
                    for name, kind in self._kinds.items()
                    if not name.startswith(_KEY)
                ),
                *([] if self._point_rows is None else ROW_FIELDS),
                *(pa.field(name, pa.string()) for name in self.fact_columns.values()),
            ]
        )

    def batches(self, answers: AnswerBlock) -> Iterator[pa.RecordBatch]:
        """The answers, which are removed from the block."""
        has_points = self._point_rows is not None
        for part in answer_parts(answers, has_true=self._has_true, has_points=has_points):
            yield self._batch(part)

    def texts(self, batch: pa.RecordBatch) -> list[str]:
        """Return the values of each row of a batch of violations, as `u=bob, f="q1 report"`.

        Args:
            batch: rows with the columns of this table; those of policies without variables, which
                have none of these values, get empty texts.
        """
        known = dict(zip(self._names.to_pylist(), self._variables, strict=True))
        values = {}
        for name, kind in self._kinds.items():
            column = batch.column(self._columns[name])
            # Python's times have no nanoseconds
            values[name] = (column.cast(pa.int64()) if kind == "time" else column).to_pylist()
        return [
            ", ".join(
                f"{name.removeprefix(_KEY)}="
                f"{value_text(values[name][row], _KINDS[self._kinds[name]])}"
                for name in known.get(policy, ())
            )
            for row, policy in enumerate(batch.column("policy").to_pylist())
        ]

    def _batch(self, answers: AnswerParts) -> pa.RecordBatch:
        policies, time_stamps = answers.policies, answers.time_stamps
        values = dict(zip(self._kinds, self._values.of(answers), strict=True))
        columns = [self._names.take(pa.array(policies))]
        columns += [values.pop(f"{_KEY}{name}") for name in self.key_columns]
        columns.append(pa.array(time_stamps))
        if self._times is not None and self.has_time_texts:
            columns.append(self._times.text_array(time_stamps))
        columns += [
            pa.array(answers.offsets.astype(np.int64)),
            pa.array(answers.kinds != _VIOLATED),
            pa.nulls(len(answers), pa.string()),
            *values.values(),
        ]
        if answers.points is not None:
            assert self._point_rows is not None
            found = self._point_rows.of(answers.points)
            names = pa.array(self._point_rows.files.names, pa.string())
            columns += [names.take(pa.array(found.files)), pa.array(found.rows)]
        if "severity" in self.fact_columns:
            columns.append(self._severities.take(pa.array(policies)))
        if "text" in self.fact_columns:
            is_null = np.isin(answers.kinds, (HOLDS, HOLDS_FOR))
            columns.append(self._fact_texts.take(pa.array(policies, mask=is_null)))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def kinds_of_columns(variables: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str]:
    """Return the kind of the column of the variables of each name, in order."""
    found: dict[str, str] = {}
    for own in variables:
        for name, kind in own:
            known = found.setdefault(name, kind)
            if known != kind:
                found[name] = "float" if {known, kind} <= NUMBERS else "text"
    return found


def valuation_table(
    made: Plan,
    times: Times | None,
    wanted: Wanted,
    point_rows: KnownRows | None = None,
    *,
    more: Sequence[str] = (),
) -> ValuationTable:
    """Return what makes batches of the answers about the policies of a plan.

    Args:
        made: the plan.
        times: the log's notation of times, or None if it has the time-stamps.
        wanted: which answers are wanted.
        point_rows: the rows of time-points, if the batches tell them.
        more: the names of columns that whoever takes the batches adds.
    """
    return ValuationTable(
        [one.name for one in made.named_policies],
        [
            tuple(zip(one.variables, map(cell_word, one.kinds), strict=True))
            for one in made.named_policies
        ],
        made.texts,
        times,
        has_true=wanted in {"all", "boolean"},
        facts=PolicyFacts(made.named_policies),
        point_rows=point_rows,
        more=more,
        key_widths=[len(one.key) for one in made.named_policies],
    )
