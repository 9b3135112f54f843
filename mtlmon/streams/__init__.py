"""Streams: values over time that formulas and conditions use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates.own_aggregates import register_aggregate
from mtlmon.policy.predicates.own_functions import register_function
from mtlmon.policy.predicates.own_machines import Machine, register_machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from mtlmon.streams.compiled import CompiledStreams

__all__ = ["Machine", "compile", "register_aggregate", "register_function", "register_machine"]


def compile(
    text: str,
    schema: pa.Schema,
    *,
    key: str | Sequence[str] | None = None,
    time: str | None = None,
    unit: str | None = None,
    constants: Mapping[str, str] | None = None,
) -> CompiledStreams:
    """Compile the streams of a policy file for batches of rows with some columns.

    Args:
        text: the content of the file, which needs no policies. Names of atoms are Boolean columns.
        schema: the columns of the rows.
        key: one or more columns; rows with equal values there form a trace of their own. By
            default, what the file says, or one trace.
        time: the column of times: integers, which are time-stamps, or times of Arrow, which are
            rounded down to the unit. By default, what the file says, or `ts`.
        unit: the unit of the time-stamps, if the file does not declare it; "s" for times.
        constants: other values for constants of the file, as texts: `{"limit": "30"}`.

    Raises:
        FormulaError: the file is not valid, or does not fit the columns.
        MtlmonError: the file has no streams, or a column is missing.

    >>> import pyarrow as pa
    >>> rows = pa.record_batch({"ts": [0, 5, 9, 30], "failed": [True, True, False, True]})
    >>> streams = compile("stream fails = count[0,10](failed)", rows.schema)
    >>> streams.evaluate(rows).to_pydict()
    {'time': [0, 5, 9, 30], 'fails': [1, 2, 2, 1]}
    """
    from mtlmon.streams.compiled import CompiledStreams

    return CompiledStreams(text, schema, key=key, time=time, unit=unit, constants=constants)
