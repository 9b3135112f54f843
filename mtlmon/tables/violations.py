"""The rows of a table that violate policies, as a table of the same kind."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.checking.outputs import unique_columns
from mtlmon.errors import MtlmonError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mtlmon.policy import Policy
    from mtlmon.tables.valuations import ValuationTable

__all__ = ["Judged", "offending_rows", "reasons_of"]

_COLUMNS = ("policy", "time", "reason")
# The longest formula that is shown as a reason.
_LONGEST = 80


class Judged(NamedTuple):
    """What batches of verdicts are about.

    Attributes:
        policies: the policies.
        message: the name that a column of messages of triggers has; None if there is none.
        valuations: what has made the rows of policies with variables; None if there are none.
        keys: the names of the columns of keys.
    """

    policies: Sequence[Policy]
    message: str | None
    valuations: ValuationTable | None = None
    keys: Sequence[str] = ()


def offending_rows(
    frame: Any, batches: Iterable[pa.RecordBatch], judge: Callable[[], Judged]
) -> Any:
    """Return the rows of a table that violate policies, with columns that say which and why.

    Args:
        frame: a data frame of pandas or polars, or a table or record batch of pyarrow.
        batches: verdicts on its rows, with a column `row`.
        judge: says what a batch is about, once it has been read.

    Raises:
        MtlmonError: the table is of another kind.
    """
    rows: list[int] = []
    columns: list[list[Any]] = [[], [], []]
    for batch in batches:
        is_wanted = pc.and_(pc.is_valid(batch.column("row")), pc.invert(batch.column("verdict")))
        found = batch.filter(is_wanted)
        rows += found.column("row").to_pylist()
        columns[0] += found.column("policy").to_pylist()
        columns[1] += found.column("time").to_pylist()
        columns[2] += reasons_of(found, judge())
    kind = type(frame).__module__.partition(".")[0]
    names = unique_columns(_COLUMNS, _names_of(frame, kind), "violation_")
    if kind == "pandas":
        chosen = frame.iloc[rows]
        return chosen.assign(**dict(zip(names, columns, strict=True)))
    kinds = (pa.string(), pa.int64(), pa.string())
    arrays = [pa.array(one, kind) for one, kind in zip(columns, kinds, strict=True)]
    if kind == "polars":
        polars = sys.modules["polars"]
        added = [polars.from_arrow(one) for one in arrays]
        series = [one.alias(name) for one, name in zip(added, names, strict=True)]
        return frame[rows].with_columns(series)
    chosen = frame.take(pa.array(rows, pa.int64()))
    for name, array in zip(names, arrays, strict=True):
        chosen = chosen.append_column(name, array)
    return chosen


def reasons_of(found: pa.RecordBatch, judged: Judged) -> list[str]:
    """Return why each row of a batch of violations is one, in short."""
    reasons = {policy.name: _reason(policy) for policy in judged.policies}
    names = found.column("policy").to_pylist()
    messages: list[str | None] = [None] * len(names)
    if judged.message in found.schema.names:
        messages = found.column(judged.message).to_pylist()
    texts = [one or reasons[name] for one, name in zip(messages, names, strict=True)]
    if judged.valuations is not None:
        values = judged.valuations.texts(found)
        texts = [
            f"{text} ({one})" if one else text for text, one in zip(texts, values, strict=True)
        ]
    return texts


def _names_of(frame: Any, kind: str) -> list[str]:
    """Return the names of the columns of a table.

    Raises:
        MtlmonError: its rows cannot be chosen by number.
    """
    if kind == "pandas" and hasattr(frame, "iloc"):
        return list(map(str, frame.columns))
    if kind == "polars" and hasattr(frame, "with_columns") and hasattr(frame, "__arrow_c_stream__"):
        return list(frame.columns)
    if isinstance(frame, pa.Table | pa.RecordBatch):
        return list(frame.schema.names)
    raise MtlmonError(
        "violations() takes a data frame of pandas or polars, or a table of pyarrow; not "
        f"{type(frame).__name__}"
    )


def _reason(policy: Policy) -> str:
    """Return what a violation of a policy means, in short."""
    if policy.text:
        return policy.text
    formula = policy.demand(None)
    return f"violates {formula if len(formula) <= _LONGEST else f'{formula[:_LONGEST]}...'}"
