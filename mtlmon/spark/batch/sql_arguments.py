"""The arguments of SQL functions: names, types, and rows with equal values."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError
from mtlmon.spark.common.end_times import time_stamp_of
from mtlmon.spark.common.events import event_source
from mtlmon.spark.common.policies import compile_policies
from mtlmon.support.option_names import SQL
from mtlmon.tables.columns.arrow_text import is_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from numpy.typing import NDArray

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.common.policies import Mode
    from mtlmon.spark.common.trace_monitors import EndTime

PLACE = "table"
"""The name of the rows in messages."""

TABLE_ARGUMENTS = (
    "events",
    "policy",
    "time",
    "key",
    "event",
    "separator",
    "mode",
    "resolve",
    "end_time",
    "time_unit",
    "resolution",
)
"""The arguments of the table function, in their order."""

ARRAY_ARGUMENTS = ("events", "policy", "time", "event", "end_time")
"""The arguments of the array function, in their order."""

_REQUIRED = ("events", "policy")


class Settings(NamedTuple):
    """The values of arguments for some rows."""

    policy: str
    time: str | None = None
    key: str | None = None
    event: str | None = None
    separator: str = "|"
    mode: Mode = "local"
    resolve: bool = True
    end_time: int | str | datetime | date | None = None
    time_unit: str | None = None
    resolution: str | None = None


class Group(NamedTuple):
    """Rows with the same settings.

    Attributes:
        settings: the settings.
        rows: the numbers of the rows, in ascending order.
    """

    settings: Settings
    rows: NDArray[np.int64]


def named_arguments(
    function: str, names: Sequence[str], arguments: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a function by name.

    Raises:
        MtlmonError: there are too many arguments, or one is missing, unknown or given twice.
    """
    if len(arguments) > len(names):
        raise MtlmonError(
            f"{function} takes up to {len(names)} arguments, not {len(arguments)}: "
            f"{', '.join(names)}"
        )
    given = dict(zip(names, arguments, strict=False))
    for name, value in named.items():
        if name not in names:
            raise MtlmonError(f"{function} has no argument {name!r}: it takes {', '.join(names)}")
        if name in given:
            raise MtlmonError(f"{function}: the argument {name!r} is given twice")
        given[name] = value
    for name in _REQUIRED:
        if name not in given:
            raise MtlmonError(
                f"{function}: the argument {name!r} is missing: it takes {', '.join(names)}"
            )
    return given


def groups_of_settings(function: str, given: Mapping[str, Any], count: int) -> list[Group]:
    """Group rows by the values of their arguments.

    Args:
        function: the name of the function, for errors.
        given: arrays by the names of arguments, each with a value for every row.
        count: the number of rows.

    Raises:
        MtlmonError: an argument has the wrong type, or a policy is null.
    """
    arrays = {name: value for name, value in given.items() if name != "events"}
    codes = np.zeros((count, len(arrays)), np.int64)
    values: dict[str, list[Any]] = {}
    for place, (name, array) in enumerate(arrays.items()):
        _check_type(function, name, array)
        found = array.dictionary_encode() if not pa.types.is_null(array.type) else None
        if found is None:
            codes[:, place] = -1
            values[name] = []
        else:
            codes[:, place] = np.asarray(found.indices.fill_null(-1))
            values[name] = found.dictionary.to_pylist()
    distinct, owners = np.unique(codes, axis=0, return_inverse=True)
    groups = []
    for number, row in enumerate(distinct.tolist()):
        settings = {
            # null means the default
            name: values[name][code]
            for name, code in zip(arrays, row, strict=True)
            if code >= 0
        }
        if "policy" not in settings:
            raise MtlmonError(
                f"{function}: the policy is null; leave out rows without one (WHERE policy IS NOT "
                "NULL)"
            )
        rows = np.flatnonzero(owners.reshape(-1) == number)
        groups.append(Group(Settings(**settings), rows))
    return groups


def constant_settings(function: str, given: Mapping[str, Any]) -> Settings:
    """Return the values of arguments that must be the same in every row.

    Raises:
        MtlmonError: an argument has the wrong type or differs between rows, or the policy is null.
    """
    first = {}
    for name, array in given.items():
        if name != "events":
            if len(array.unique()) > 1:
                raise MtlmonError(
                    f"{function}: {name} differs from row to row: all arguments but the table are "
                    "constants"
                )
            first[name] = array.slice(0, 1)
    return groups_of_settings(function, first, 1)[0].settings


def _check_type(function: str, name: str, array: pa.Array) -> None:
    """Check the type of an argument.

    Raises:
        MtlmonError: the type is wrong.
    """
    kind = array.type
    if pa.types.is_null(kind):
        return
    if name == "resolve":
        is_right, wanted = pa.types.is_boolean(kind), "true or false"
    elif name == "end_time":
        is_time = pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        is_right, wanted = is_time or is_text(kind), "a time-stamp, a timestamp, 'last' or 'inf'"
    else:
        is_right, wanted = is_text(kind), "a text"
    if not is_right:
        value = array[0].as_py()
        raise MtlmonError(f"{function}: {name} is {wanted}, not {value!r} of type {kind}")


def source_of(settings: Settings) -> EventSource:
    """Return how rows become events."""
    return _source(settings._replace(key=None, resolve=True, end_time=None))


@lru_cache(maxsize=64)
def _source(settings: Settings) -> EventSource:
    """How rows become events; cached, because every batch needs it."""
    resolution, time_unit = settings.resolution, settings.time_unit
    return event_source(
        compile_policies(settings.policy, settings.mode, resolution, time_unit),
        time=settings.time,
        event=settings.event,
        separator=settings.separator,
        time_unit=time_unit,
        resolution=resolution,
        place=PLACE,
        options=SQL,
    )


def end_time_of(settings: Settings, source: EventSource, schema: pa.Schema) -> EndTime:
    """Return the end time in the form for monitors."""
    value = settings.end_time
    if isinstance(value, str):
        # the monitor checks other values
        return int(value) if value.isdecimal() else cast("Literal['last', 'inf']", value)
    return time_stamp_of(value, source, schema)
