"""Relations over validity intervals: records that are valid from a start to an end.

A relation at a time is the bag of the records that are valid then, its snapshot. An operator of
relations applies an operator of the relational algebra to every snapshot.

This module builds relations as policy files declare them, for `mtlmon.query`.
"""

from mtlmon.policy.validity.building import (
    Aggregate,
    Relation,
    all_,
    any_,
    avg,
    count,
    distinct,
    first,
    last,
    mad,
    max_,
    median,
    min_,
    own,
    quantile,
    rows,
    stddev,
    sum_,
    table,
    var,
)

__all__ = [
    "Aggregate",
    "Relation",
    "all_",
    "any_",
    "avg",
    "count",
    "distinct",
    "first",
    "last",
    "mad",
    "max_",
    "median",
    "min_",
    "own",
    "quantile",
    "rows",
    "stddev",
    "sum_",
    "table",
    "var",
]
