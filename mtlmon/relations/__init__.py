"""Relations over validity intervals: records that are valid from a start to an end.

A relation at a time is the bag of the records that are valid then, its snapshot. An operator of
relations applies an operator of the relational algebra to every snapshot.

This module builds relations as policy files declare them, for `mtlmon.query`.
"""

from mtlmon.policy.validity.building import (
    Aggregate,
    Relation,
    avg,
    count,
    max_,
    min_,
    rows,
    sum_,
    table,
)

__all__ = ["Aggregate", "Relation", "avg", "count", "max_", "min_", "rows", "sum_", "table"]
