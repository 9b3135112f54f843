"""Convert changes of policies with variables and without to one Arrow table."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mtlmon.checking.changes import Bound, ChangedRows, PolicyChanges
from mtlmon.checking.policy_facts import PolicyFacts
from mtlmon.tables.change_tables import CHANGE_COLUMNS, ChangeTable
from mtlmon.tables.changed_valuations import ChangedValuations
from mtlmon.tables.valuations import valuation_table
from mtlmon.tables.verdicts import VerdictTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from mtlmon.checking.answer_rows import AnswerRows
    from mtlmon.checking.late_mixed import MixedChange
    from mtlmon.checking.late_origins import LateOrigins
    from mtlmon.checking.partitions import TraceKeys
    from mtlmon.policy import Policy
    from mtlmon.relational.output.changed_lines import KeyNames
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.running import Wanted
    from mtlmon.tables.columns.times import Times

__all__ = ["JoinedChanges"]


class JoinedChanges:
    """Creates record batches of changes, with those of a `ChangeTable`.

    Args:
        policies: the policies without variables.
        keys: the keys of their traces.
        times: the log's notation of times, or None if it has the time-stamps.
        selection: the verdicts to write of these policies, one of `KINDS_OF`.
        origins: finds the rows of their verdicts, which become columns; None for none.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        keys: TraceKeys,
        times: Times | None,
        selection: str,
        origins: LateOrigins | None,
    ) -> None:
        self._times = times
        names = [policy.name for policy in policies]
        facts = PolicyFacts(policies)
        self._joined = VerdictTable(names, keys, times, None, origins, facts, more=CHANGE_COLUMNS)
        self._verdicts = ChangeTable(self._joined, selection)
        self._answers: ChangedValuations | None = None
        self._rows: AnswerRows | None = None
        self._final: int | None = None

    def know_plan(
        self,
        made: Plan,
        wanted: Wanted,
        rows: AnswerRows | None,
        key_names: KeyNames | None = None,
    ) -> None:
        """Get to know the policies with variables, before anything is written.

        Args:
            made: their plan.
            wanted: which answers are wanted.
            rows: finds the rows of their answers; None if they are not wanted.
            key_names: as for `ChangedValuations`.
        """
        if self._answers is None:
            self._joined.add(valuation_table(made, self._times, wanted, rows, more=CHANGE_COLUMNS))
            self._answers = ChangedValuations(made, self._joined, self._final, key_names)
            self._rows = rows

    def know_bound(self, bound: int | None) -> None:
        """Know the bound that an earlier run has told last."""
        self._final = bound
        self._verdicts.know([] if bound is None else [Bound(bound)])

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches, once the plan is known and rows have been read."""
        assert self._answers is not None
        return self._answers.schema

    def batches(self, rows: list[MixedChange]) -> Iterator[pa.RecordBatch]:
        """The changes."""
        assert self._answers is not None
        for row in rows:
            if isinstance(row, PolicyChanges | Bound):
                some = ChangedRows()
                some.add(row)
                yield from self._verdicts.batches(some)
                if isinstance(row, Bound):
                    self._answers.know_bound(row.time_stamp)
            else:
                if self._rows is not None:
                    self._rows.find(row.changes)
                yield from self._answers.batches(row)
