"""Groups of records, with aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.numbers import to_floats
from mtlmon.relations.folding import Folds
from mtlmon.relations.multiplicity import coalesced, timeline
from mtlmon.relations.native import (
    CountAggregate,
    DistinctAggregate,
    Groups,
    LeastAggregate,
    Numbering,
    OwnAggregate,
    QuantileAggregate,
    SumAggregate,
)
from mtlmon.relations.numbering import numbered, ranks
from mtlmon.relations.records import Records, cells, take, take_numbered, without_variants
from mtlmon.relations.rowwise import Expressions, computed, is_true
from mtlmon.streams.own_values import OwnError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from mtlmon.relations.algebra import Aggregation
    from mtlmon.relations.native import Aggregate

_LOWEST = -(2**63)
_LARGEST = 2**63 - 1
_SUMS: dict[str, Literal["sum", "avg", "var", "stddev"]] = {
    "sum": "sum",
    "avg": "avg",
    "var": "var",
    "stddev": "stddev",
}
_QUANTILES = frozenset({"median", "quantile", "mad"})


def grouped(
    records: Records,
    keys: Sequence[str],
    aggregations: Sequence[Aggregation],
    schema: pa.Schema,
    expressions: Expressions,
) -> Records:
    """Return a record for each group and each time during which its aggregates do not change.

    Raises:
        MtlmonError: a sum of integers does not fit into 64 bits.
    """
    by_name = records.by_name
    key_columns = [by_name[name] for name in keys]
    numbers, limit = numbered(key_columns, len(records))
    kernels = [_Kernel(records, one, key_columns, expressions) for one in aggregations]
    try:
        found = Groups(
            timeline(records),
            Numbering(numbers, len(records)),
            [kernel.native for kernel in kernels],
        )
    except OwnError as failure:
        raise MtlmonError(str(failure)) from failure.__cause__
    if found.overflow is not None:
        sums = " or ".join(one.name for one in aggregations if one.word == "sum")
        raise MtlmonError(
            f"{sums} does not fit into 64 bits at time {found.overflow}: add floats, as in "
            "sum(x * 1.0)"
        )
    groups = np.frombuffer(found.groups, np.uint32)
    columns = take_numbered(key_columns, numbers, limit, groups)
    # the last record can change, and have the value of the one before; any and all are of counts
    is_coalesced = not any(
        one.word in {"any", "all"} or (one.order and one.own is None) for one in aggregations
    )
    return coalesced(
        Records(
            schema,
            (*columns, *(kernel.results() for kernel in kernels)),
            np.frombuffer(found.starts, np.int64),
            np.frombuffer(found.ends, np.int64),
            is_coalesced,
        )
    )


def latest(records: Records, keys: Sequence[str], order: str, schema: pa.Schema) -> Records:
    """Return, of the records with equal values in some columns, the one that begins last.

    Args:
        records: the records.
        keys: the columns.
        order: the column with their starts.
        schema: the columns of the result.
    """
    by_name = records.by_name
    columns = [by_name[name] for name in schema.names]
    numbers, _ = numbered([by_name[name] for name in keys], len(records))
    comparable = {order: by_name[order]} | {
        name: column
        for name, column in zip(schema.names, columns, strict=True)
        if not pa.types.is_null(column.type)
    }
    in_order = pc.sort_indices(
        pa.table(comparable), sort_keys=[(name, "ascending") for name in comparable]
    ).to_numpy()
    places = np.empty(len(records), np.int64)
    places[in_order] = np.arange(len(records))
    # the largest place is the least complement
    kernel = LeastAggregate(~places, None, len(records))
    found = Groups(timeline(records), Numbering(numbers, len(records)), [kernel])
    rows = in_order[~np.frombuffer(kernel.results, np.int64)].astype(np.int64)
    return coalesced(
        Records(
            schema,
            take(columns, rows),
            np.frombuffer(found.starts, np.int64),
            np.frombuffer(found.ends, np.int64),
        )
    )


class _Kernel:
    """One aggregate in native code, and how its results become a column."""

    def __init__(
        self,
        records: Records,
        aggregation: Aggregation,
        key_columns: Sequence[pa.Array],
        expressions: Expressions,
    ) -> None:
        length, word = len(records), aggregation.word
        self.decode: Callable[[pa.Array], pa.Array] = lambda cells: cells
        self.native: Aggregate
        argument = aggregation.argument
        if word in {"count", "any", "all"}:
            # all of no values is true, and so is all of nulls
            mask = None
            if argument is not None:
                is_all = word == "all"
                mask = _bytes(is_true(records, argument, expressions, wanted=not is_all))
                if word != "count":
                    self.decode = lambda cells: pc.equal(pc.equal(cells, 0), is_all)
            self.native = CountAggregate(None, mask, length)
            return
        assert argument is not None
        column = computed(records, {"": argument}, expressions)[""]
        validity = None
        if column.null_count:
            validity = _bytes(column.is_valid().to_numpy(zero_copy_only=False))
        if word in _SUMS or word in _QUANTILES:
            self.native = self._of_numbers(aggregation, column, validity)
        elif word == "distinct":
            numbers, limit = numbered([*key_columns, column], length)
            self.native = DistinctAggregate(numbers.astype(np.int64), validity, length, limit)
        elif aggregation.order:
            self.native = self._in_order(records, aggregation, column, validity)
        else:
            sign = -1 if word == "max" else 0
            cells = self.keys(column, is_max=sign == -1)
            self.native = LeastAggregate(cells ^ sign, validity, length)
            decode = self.decode
            self.decode = lambda cells: decode(pc.bit_wise_xor(cells, sign))

    def _of_numbers(
        self, aggregation: Aggregation, column: pa.Array, validity: NDArray[np.uint8] | None
    ) -> Aggregate:
        word, length = aggregation.word, len(column)
        is_float = not pa.types.is_integer(column.type) or word in _QUANTILES
        if pa.types.is_null(column.type):
            self.decode = lambda cells: pa.nulls(len(cells))
        elif is_float or word != "sum":
            self.decode = lambda cells: cells.view(pa.float64())
        if is_float and not pa.types.is_null(column.type):
            column = to_floats(column)
        cells = _cells(column)
        if word in _SUMS:
            return SumAggregate(cells, validity, length, _SUMS[word], is_float)
        keys = _keys_of_floats(cells)
        keys[np.isnan(cells.view(np.float64))] = _LARGEST
        share = 0.5 if aggregation.share is None else aggregation.share
        return QuantileAggregate(keys, validity, length, share, word == "mad")

    def _in_order(
        self,
        records: Records,
        aggregation: Aggregation,
        column: pa.Array,
        validity: NDArray[np.uint8] | None,
    ) -> Aggregate:
        """An aggregate of values in the order of starts; of equal ones, in their own order."""
        length = len(records)
        starts = cells(records.by_name[aggregation.order])
        order = np.lexsort((self.keys(column, is_max=True), starts))
        places = np.empty(length, np.int64)
        places[order] = np.arange(length)
        values = column.take(pa.array(order))
        own = aggregation.own
        if own is None:
            sign = -1 if aggregation.word == "last" else 0
            self.decode = lambda found: values.take(pc.bit_wise_xor(found, sign))
            return LeastAggregate(places ^ sign, validity, length)
        if pa.types.is_floating(column.type):
            # NaN is no value of such aggregates, as in windows
            known = pc.fill_null(pc.invert(pc.is_nan(column)), False)
            validity = _bytes(known.to_numpy(zero_copy_only=False))
        folds = Folds(own, values.to_pylist(), places.tolist())
        data_type = column_type(own.kind)
        self.decode = lambda found: without_variants(pa.array(folds.results, data_type)).take(found)
        return OwnAggregate(None, validity, length, folds)

    def keys(self, column: pa.Array, *, is_max: bool) -> NDArray[np.int64]:
        """Integers in the order of values; where the least one is wanted, NaN is the least."""
        data_type = column.type
        if pa.types.is_float64(data_type):
            cells = _cells(column)
            keys = _keys_of_floats(cells)
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


def _keys_of_floats(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Integers in the order of floats, above all of them those of NaN."""
    return cells ^ ((cells >> 63) & _LARGEST)


def _floats_of_keys(keys: pa.Array) -> pa.Array:
    found = pc.fill_null(keys, 0).to_numpy()
    floats = (found ^ ((found >> 63) & _LARGEST)).view(np.float64).copy()
    floats[found == _LOWEST] = np.nan
    mask = None if not keys.null_count else keys.is_null().to_numpy(zero_copy_only=False)
    return pa.array(floats, mask=mask, from_pandas=False)


def _cells(column: pa.Array) -> NDArray[np.int64]:
    """The values of a column as 64-bit cells, whatever they are where it is null."""
    return np.zeros(len(column), np.int64) if pa.types.is_null(column.type) else cells(column)


def _bytes(mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return mask.astype(np.uint8)
