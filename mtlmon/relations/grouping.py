"""Groups of records, with aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates.numbers import to_floats
from mtlmon.relations.multiplicity import timeline
from mtlmon.relations.native import (
    CountAggregate,
    Groups,
    LeastAggregate,
    Numbering,
    SumAggregate,
)
from mtlmon.relations.numbering import numbered, ranks
from mtlmon.relations.records import Records, cells, take_numbered
from mtlmon.relations.rowwise import computed, is_true

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.relations.algebra import Aggregation
    from mtlmon.relations.native import Aggregate

_LOWEST = -(2**63)
_SIGN = 2**63 - 1


def grouped(
    records: Records,
    keys: Sequence[str],
    aggregations: Sequence[Aggregation],
    schema: pa.Schema,
    environment: Environment,
) -> Records:
    """Return a record for each group and each time during which its aggregates do not change.

    Raises:
        MtlmonError: a sum of integers does not fit into 64 bits.
    """
    by_name = records.by_name
    key_columns = [by_name[name] for name in keys]
    numbers, limit = numbered(key_columns, len(records))
    kernels = [_Kernel(records, one, environment) for one in aggregations]
    found = Groups(
        timeline(records),
        Numbering(numbers, len(records)),
        [kernel.native for kernel in kernels],
    )
    if found.overflow is not None:
        sums = " or ".join(one.name for one in aggregations if one.word == "sum")
        raise MtlmonError(
            f"{sums} does not fit into 64 bits at time {found.overflow}: add floats, as in "
            "sum(x * 1.0)"
        )
    groups = np.frombuffer(found.groups, np.uint32)
    columns = take_numbered(key_columns, numbers, limit, groups)
    return Records(
        schema,
        (*columns, *(kernel.results() for kernel in kernels)),
        np.frombuffer(found.starts, np.int64),
        np.frombuffer(found.ends, np.int64),
        is_coalesced=True,
    )


class _Kernel:
    """One aggregate in native code, and how its results become a column."""

    def __init__(
        self, records: Records, aggregation: Aggregation, environment: Environment
    ) -> None:
        length = len(records)
        self.decode: Callable[[pa.Array], pa.Array] = lambda cells: cells
        self.native: Aggregate
        argument = aggregation.argument
        if aggregation.word == "count":
            mask = None if argument is None else is_true(records, argument, environment)
            self.native = CountAggregate(None, None if mask is None else _bytes(mask), length)
            return
        assert argument is not None
        column = computed(records, {"": argument}, environment)[""]
        validity = None
        if column.null_count:
            validity = _bytes(column.is_valid().to_numpy(zero_copy_only=False))
        if aggregation.word in {"sum", "avg"}:
            is_float = not pa.types.is_integer(column.type)
            is_average = aggregation.word == "avg"
            if is_float and not pa.types.is_null(column.type):
                column = to_floats(column)
            if pa.types.is_null(column.type):
                self.decode = lambda cells: pa.nulls(len(cells))
            elif is_float or is_average:
                self.decode = lambda cells: cells.view(pa.float64())
            self.native = SumAggregate(_cells(column), validity, length, is_float, is_average)
        else:
            sign = -1 if aggregation.word == "max" else 0
            cells = self.keys(column, is_max=sign == -1)
            self.native = LeastAggregate(cells ^ sign, validity, length)
            decode = self.decode
            self.decode = lambda cells: decode(pc.bit_wise_xor(cells, sign))

    def keys(self, column: pa.Array, *, is_max: bool) -> NDArray[np.int64]:
        """Integers in the order of values; where the least one is wanted, NaN is the least."""
        data_type = column.type
        if pa.types.is_float64(data_type):
            cells = _cells(column)
            keys = cells ^ ((cells >> 63) & _SIGN)
            if not is_max:
                keys[np.isnan(cells.view(np.float64))] = _LOWEST
            self.decode = _floats_of_keys
        elif pa.types.is_integer(data_type) or pa.types.is_timestamp(data_type):
            keys = _cells(column)
            self.decode = lambda cells: cells.view(data_type)
        elif pa.types.is_null(data_type):
            keys = np.zeros(len(column), np.int64)
            self.decode = lambda cells: pa.nulls(len(cells))
        else:
            keys, values = ranks(column)
            self.decode = values.take
        return keys

    def results(self) -> pa.Array:
        """Return the value of each record of the output."""
        cells = np.frombuffer(self.native.results, np.int64)
        validity = self.native.results_validity
        mask = None if validity is None else ~np.frombuffer(validity, np.bool_)
        return self.decode(pa.array(cells, mask=mask))


def _floats_of_keys(keys: pa.Array) -> pa.Array:
    found = pc.fill_null(keys, 0).to_numpy()
    floats = (found ^ ((found >> 63) & _SIGN)).view(np.float64).copy()
    floats[found == _LOWEST] = np.nan
    mask = None if not keys.null_count else keys.is_null().to_numpy(zero_copy_only=False)
    return pa.array(floats, mask=mask, from_pandas=False)


def _cells(column: pa.Array) -> NDArray[np.int64]:
    """The values of a column as 64-bit cells, whatever they are where it is null."""
    return np.zeros(len(column), np.int64) if pa.types.is_null(column.type) else cells(column)


def _bytes(mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return mask.astype(np.uint8)
