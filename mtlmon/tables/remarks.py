"""Says how rows of a table were read, where something else may be meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.checking.row_files import RowFile, RowPlace
from mtlmon.syntax.bounds import UNITS
from mtlmon.text.plausible_times import implausible_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.errors import TableError
    from mtlmon.support.option_names import OptionNames
    from mtlmon.tables.columns.times import Times

__all__ = ["order_remarks", "quote_remarks", "time_remarks", "unit_remarks"]


def time_remarks(times: Times, options: OptionNames) -> Iterator[str]:
    """Yield a sentence for each kind of times that say less than they mean.

    Args:
        times: has read the times.
        options: how messages write options.
    """
    missing, steps = times.cycles
    if steps:
        count = "once" if steps == 1 else f"{steps:,} times"
        yield (
            f"times have no {missing}: rows stepped back by more than half a {missing} {count}, "
            f"and were taken to go on in the next {missing}"
        )
    zone, doubtful, second = times.repeated
    if doubtful:
        rows = "1 row is" if doubtful == 1 else f"{doubtful:,} rows are"
        which = options.written("time_zone", f"{zone} first") or f"{zone} first"
        yield (
            f"{rows} in an hour that occurs twice in {zone}; by the order of rows, {second:,} of "
            f"these {'is' if second == 1 else 'are'} in the second one (add {which} or second to "
            "say which one is meant)"
        )


def order_remarks(
    steps: int, first: TableError | None, times: Times, options: OptionNames
) -> Iterator[str]:
    """Yield a sentence if rows of one time-stamp are not in the order of their times.

    Args:
        steps: how many rows step back.
        first: says where the first one is.
        times: has read the times.
        options: how messages write options.
    """
    if not steps or first is None:
        return
    rows, keep = f"{steps:,} rows step back", "keep their places"
    if steps == 1:
        rows, keep = "1 row steps back", "keeps its place"
    file = RowFile(first.path, has_lines=first.line is not None)
    place = RowPlace(file, (first.line if file.has_lines else first.row) or 0)
    found = options.written("sort", True), options.written("resolution", times.finer_unit)
    mends = [one for one in found if one is not None]
    advice = f": {' or '.join(mends)} puts them in order" if mends else ""
    yield (f"{rows} within a time-stamp, the first one at {place}, and {keep}{advice}")


def quote_remarks(count: int) -> Iterator[str]:
    """Yield a sentence if some cells begin with a quote that ends no cell."""
    if count:
        cells = "cell begins" if count == 1 else "cells begin"
        yield f"{count} {cells} with a quote that was read as a character"


def unit_remarks(clock: int | None, times: Times) -> Iterator[str]:
    """Yield a sentence if numbers are probably not times in their unit.

    Args:
        clock: the largest time-stamp.
        times: has read the times.
    """
    unit = times.unit or times.known_unit
    resolution = times.known_unit
    if clock is None or not times.are_numbers or unit is None or resolution is None:
        return
    found = implausible_time(clock * UNITS[resolution] // UNITS[unit], unit)
    if found is not None:
        yield found
