"""Convert the verdicts of policies without variables and the answers of others to one table."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from mtlmon.checking.outputs import unique_columns
from mtlmon.relational.native import AnswerBlock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.drive.native import VerdictRows
    from mtlmon.tables.valuations import ValuationTable
    from mtlmon.tables.verdicts import VerdictTable

__all__ = ["JoinedTable"]


class JoinedTable:
    """Creates record batches of verdicts and of answers, with the columns of a `ValuationTable`.

    Verdicts have null in the columns of variables, and answers in those of messages. The
    columns `severity` and `text` are the last ones.

    Args:
        verdicts: creates the batches of verdicts.

    Attributes:
        valuations: creates those of answers; set it before anything is written.
    """

    def __init__(self, verdicts: VerdictTable) -> None:
        self._verdicts = verdicts
        self.valuations: ValuationTable | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches, once rows have been read."""
        assert self.valuations is not None
        facts = self.valuations.fact_columns.values()
        left_out = {*facts, *self.valuations.key_columns.values()}
        policy, *others = (one for one in self.valuations.schema if one.name not in left_out)
        renamed = self._renamed
        keys = [pa.field(renamed[name], pa.string()) for name in self._verdicts.key_columns]
        messages = [pa.field(renamed[name], pa.string()) for name in self._message_columns]
        described = [pa.field(name, pa.string()) for name in self._fact_columns.values()]
        fields = (policy, *keys, *others, *messages, *described)
        return pa.schema([field.with_nullable(True) for field in fields])

    @property
    def _message_columns(self) -> list[str]:
        return ["message"] if self._verdicts.has_messages else []

    @property
    def message(self) -> str:
        """The column of messages, if there is one."""
        return self._renamed.get("message", "message")

    @property
    def keys(self) -> list[str]:
        """The columns of keys."""
        return [self._renamed[name] for name in self._verdicts.key_columns]

    @cached_property
    def _fact_columns(self) -> dict[str, str]:
        """The columns of what the file says of policies, under names that no other column has."""
        assert self.valuations is not None
        own, others = self._verdicts.fact_columns, self.valuations.fact_columns
        kinds = [kind for kind in ("severity", "text") if kind in own or kind in others]
        taken = {*self.valuations.schema.names, *self._renamed.values()} - {*others.values()}
        return dict(zip(kinds, unique_columns(kinds, taken, "policy_"), strict=True))

    @cached_property
    def _renamed(self) -> dict[str, str]:
        """The columns of keys and messages of verdicts, with their names here.

        One that is called like a variable gets a prefix.
        """
        assert self.valuations is not None
        known = self._verdicts.key_columns
        facts = self.valuations.fact_columns.values()
        left_out = {*facts, *self.valuations.key_columns.values()}
        taken = [name for name in self.valuations.schema.names if name not in left_out]
        names = unique_columns(known, [*taken, *self._message_columns], "key_")
        messages = unique_columns(self._message_columns, [*taken, *names], "trigger_")
        return dict(zip([*known, *self._message_columns], [*names, *messages], strict=True))

    def batches(self, rows: VerdictRows | AnswerBlock) -> Iterator[pa.RecordBatch]:
        """The verdicts or answers, which are removed from the rows."""
        if isinstance(rows, AnswerBlock):
            assert self.valuations is not None
            described = self._described(self.valuations.fact_columns) | self._keys
            for batch in self.valuations.batches(rows):
                yield self._completed(
                    batch, [described.get(name, name) for name in batch.schema.names]
                )
            return
        renamed = self._renamed | self._described(self._verdicts.fact_columns)
        for batch in self._verdicts.batches(rows):
            names = [renamed.get(name, name) for name in batch.schema.names]
            yield self._completed(batch, names)

    @cached_property
    def _keys(self) -> dict[str, str]:
        """The columns of keys of answers, with their names here."""
        assert self.valuations is not None
        own = dict(zip(self._verdicts.all_key_columns, self._verdicts.key_columns, strict=True))
        return {
            name: self._renamed[own[column]] for column, name in self.valuations.key_columns.items()
        }

    def _described(self, columns: Mapping[str, str]) -> dict[str, str]:
        """The names here of the columns of what the file says of some policies."""
        return {name: self._fact_columns[kind] for kind, name in columns.items()}

    def _completed(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Add the columns that are missing, as nulls."""
        known = dict(zip(names, batch.columns, strict=True))
        columns = [
            known[field.name] if field.name in known else pa.nulls(len(batch), field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
