"""One table for all answers: verdicts, and the valuations of policies with variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mtlmon.checking.outputs import FIXED, ROW_COLUMNS, unique_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.checking.policy_facts import PolicyFacts
    from mtlmon.tables.columns.times import Times

__all__ = ["KEY", "ROW_FIELDS", "VARIABLE", "AnswerTable"]

KEY, VARIABLE = "\0key ", "\0variable "
"""What the roles of columns of keys and of variables begin with, before their names."""

ROW_FIELDS = [
    pa.field(name, kind) for name, kind in zip(ROW_COLUMNS, (pa.string(), pa.int64()), strict=True)
]


class AnswerTable(ABC):
    """Creates record batches of what some policies answer.

    Each column has a *role*: one of `FIXED`, a key, a variable, the message, one of `ROW_COLUMNS`,
    or "severity" or "text", the facts of policies. Columns have unique names: that of a key with
    the name of another column gets the prefix `key_`, that of a variable `var_`, that of the
    message `trigger_`, and that of a fact `policy_`, repeated until the name is unique.

    Policies of several kinds have one table, to which the others are added. Answers of one kind
    have null in the columns that only others have.

    Args:
        policies: the names of the policies, in order.
        times: the log's notation of times, or None if it has the time-stamps.
        facts: what the file says of the policies, which becomes columns; None for no such columns.
        more: the names of columns that whoever takes the batches adds.
    """

    # whether a verdict may be neither true nor false
    has_equivalences = False

    def __init__(
        self,
        policies: Sequence[str | None],
        times: Times | None,
        facts: PolicyFacts | None,
        more: Sequence[str],
    ) -> None:
        self._parts = [self]
        self._whole = self
        self._policies = pa.array(policies, pa.string())
        self._times = times
        self._facts = {}
        if facts is not None:
            known = {"severity": facts.severities, "text": facts.texts}
            self._facts = {kind: pa.array(known[kind], pa.string()) for kind in facts.kinds}
        self._more = more

    def add(self, other: AnswerTable) -> None:
        """Take what other policies answer as well; call this before any batch."""
        self._parts.append(other)
        other._whole = self

    @abstractmethod
    def takes(self, rows: Any) -> bool:
        """Whether these are answers of the own policies."""

    @abstractmethod
    def fields(self) -> list[pa.Field]:
        """The columns of the own policies that are not the same for all, by their roles."""

    @abstractmethod
    def columns(self, rows: Any) -> Iterator[dict[str, pa.Array]]:
        """Yield the columns of answers of the own policies by role; the rows are removed."""

    @cached_property
    def has_time_texts(self) -> bool:
        """Whether the log writes times differently from the time-stamps.

        Use this only once rows have been read, as they determine the answer.
        """
        return self._times is not None and not self._times.is_plain

    @cached_property
    def roles(self) -> dict[str, pa.Field]:
        """The columns between the fixed ones and facts, by role, with their names."""
        keys = [one for part in self._parts for one in part.fields() if one.name.startswith(KEY)]
        others = [one for part in reversed(self._parts) for one in part.fields()]
        known = {field.name: field for field in (*keys, *others)}
        keys_of, variables = (
            [role for role in known if role.startswith(prefix)] for prefix in (KEY, VARIABLE)
        )
        messages = [role for role in known if role == "message"]
        taken = [*FIXED, *(role for role in known if role in ROW_COLUMNS), *self._more]
        names = {role: role for role in known}
        for roles, prefix, beside in (
            (variables, "var_", []),
            (keys_of, "key_", messages),
            (messages, "trigger_", []),
        ):
            own = [role.removeprefix(KEY).removeprefix(VARIABLE) for role in roles]
            unique = unique_columns(own, [*taken, *beside], prefix)
            names.update(zip(roles, unique, strict=True))
            taken += unique
        return {role: field.with_name(names[role]) for role, field in known.items()}

    @property
    def key_columns(self) -> list[str]:
        """The names of the columns of keys."""
        return [field.name for role, field in self.roles.items() if role.startswith(KEY)]

    @property
    def message(self) -> str | None:
        """The name of the column of messages; None if there is none."""
        return self.roles["message"].name if "message" in self.roles else None

    @cached_property
    def _fields(self) -> dict[str, pa.Field]:
        """All columns by role, once rows have been read."""
        own, is_whole = self.roles, len(self._parts) == 1
        kinds = [
            one for one in ("severity", "text") if any(one in part._facts for part in self._parts)
        ]
        taken = [*FIXED, *self._more, *(field.name for field in own.values())]
        facts = unique_columns(kinds, taken, "policy_")
        fields = {
            "policy": pa.field("policy", pa.string()),
            **{role: field for role, field in own.items() if role.startswith(KEY)},
            "time": pa.field("time", pa.int64(), nullable=False),
            "time_text": pa.field("time_text", pa.string()),
            "offset": pa.field("offset", pa.int64(), nullable=False),
            "verdict": pa.field("verdict", pa.bool_(), nullable=self.has_equivalences),
            "reference": pa.field("reference", pa.string()),
            **{role: field for role, field in own.items() if not role.startswith(KEY)},
            **{kind: pa.field(name, pa.string()) for kind, name in zip(kinds, facts, strict=True)},
        }
        if not self.has_time_texts:
            del fields["time_text"]
        return {role: one if is_whole else one.with_nullable(True) for role, one in fields.items()}

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches, once rows have been read."""
        return pa.schema(self._fields.values())

    def batches(self, rows: Any) -> Iterator[pa.RecordBatch]:
        """The answers, which are removed from the rows."""
        part = next(one for one in self._parts if one.takes(rows))
        for known in part.columns(rows):
            size = len(known["policy"])
            columns = [
                known[role] if role in known else pa.nulls(size, field.type)
                for role, field in self._fields.items()
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _common(
        self,
        policies: NDArray[np.uint32],
        times: NDArray[np.int64],
        offsets: NDArray[np.uint64],
        is_found: NDArray[np.bool_],
    ) -> dict[str, pa.Array]:
        """The columns that all answers have; only what is found has a text."""
        # PERF: a call of Arrow takes longer than all else for an answer that comes alone
        of_one = len(policies) == 1
        names = self._policies
        found = {
            "policy": names.slice(policies[0], 1) if of_one else names.take(pa.array(policies)),
            "time": pa.array(times),
            "offset": pa.array(offsets.astype("int64")),
        }
        if self._times is not None and self.has_time_texts:
            found["time_text"] = self._times.text_array(times)
        for kind, values in self._facts.items():
            mask = ~is_found if kind == "text" else None
            found[kind] = values.take(pa.array(policies, mask=mask))
        return found
