"""Convert the answers of first-order policies to Arrow tables: a column for each variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mtlmon.checking.policy_facts import PolicyFacts
from mtlmon.policy.predicates.kinds import DECLARED, NUMBERS
from mtlmon.relational.atoms import cell_word
from mtlmon.relational.cells import value_text
from mtlmon.relational.native import AnswerBlock
from mtlmon.relational.running import HOLDS, HOLDS_FOR, VIOLATED
from mtlmon.tables.answer_columns import VARIABLE_TYPES, VariableColumns, answer_parts
from mtlmon.tables.answer_table import KEY, ROW_FIELDS, VARIABLE, AnswerTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal, Protocol

    from numpy.typing import NDArray

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.row_files import RowFiles
    from mtlmon.checking.row_tracking import FoundRows
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


class ValuationTable(AnswerTable):
    """Creates record batches of answers.

    The columns are `policy` (null for a policy without a name); a text column for each key column;
    `time`, the time-stamp; `time_text`, the time as the log writes it, if that is different;
    `offset`; `verdict`: false for a violation, true where there is none, and for the matches of a
    find; `reference`, always null, so that tables of all verdicts have the same columns; and a
    column for each variable, which is null for policies without it. If policies have variables of
    one name and different types, the column has floats for integers and floats, else the canonical
    texts of all. The columns `severity` and `text` follow if any policy has them, `text` for
    violations and matches only.

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
        super().__init__(names, times, facts, more)
        self._has_true = has_true
        self._point_rows = point_rows
        widths = key_widths or [0] * len(variables)
        roles = [
            [(f"{KEY if place < width else VARIABLE}{name}", kind)
             for place, (name, kind) in enumerate(own)]
            for own, width in zip(variables, widths, strict=True)
        ]  # fmt: skip
        self._kinds = kinds_of_columns(roles)
        self._variables = [[name for name, _ in own] for own in roles]
        own = [[kind for _, kind in one] for one in variables]
        self._values = VariableColumns(self._kinds, self._variables, texts, own, key_widths)

    def takes(self, rows: Any) -> bool:
        return isinstance(rows, AnswerBlock)

    def fields(self) -> list[pa.Field]:
        found = [pa.field(role, VARIABLE_TYPES[kind]) for role, kind in self._kinds.items()]
        return found if self._point_rows is None else [*found, *ROW_FIELDS]

    def columns(self, answers: AnswerBlock) -> Iterator[dict[str, pa.Array]]:
        has_points = self._point_rows is not None
        for part in answer_parts(answers, has_true=self._has_true, has_points=has_points):
            yield self._columns(part)

    def texts(self, batch: pa.RecordBatch) -> list[str]:
        """Return the values of each row of a batch of violations, as `u=bob, f="q1 report"`.

        Args:
            batch: rows of the whole table; those of policies without variables, which have none of
                these values, get empty texts.
        """
        known = dict(zip(self._policies.to_pylist(), self._variables, strict=True))
        roles = self._whole.roles
        values = {}
        for role, kind in self._kinds.items():
            column = batch.column(roles[role].name)
            # Python's times have no nanoseconds
            values[role] = (column.cast(pa.int64()) if kind == "time" else column).to_pylist()
        return [
            ", ".join(
                f"{role.removeprefix(KEY).removeprefix(VARIABLE)}="
                f"{value_text(values[role][row], _KINDS[self._kinds[role]])}"
                for role in known.get(policy, ())
            )
            for row, policy in enumerate(batch.column("policy").to_pylist())
        ]

    def _columns(self, answers: AnswerParts) -> dict[str, pa.Array]:
        kinds = answers.kinds
        is_found = (kinds != HOLDS) & (kinds != HOLDS_FOR)
        columns = self._common(answers.policies, answers.time_stamps, answers.offsets, is_found)
        columns |= zip(self._kinds, self._values.of(answers), strict=True)
        columns["verdict"] = pa.array(kinds != VIOLATED)
        if answers.points is not None:
            assert self._point_rows is not None
            found = self._point_rows.of(answers.points)
            names = pa.array(self._point_rows.files.names, pa.string())
            columns["file"] = names.take(pa.array(found.files))
            columns["row"] = pa.array(found.rows)
        return columns


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
