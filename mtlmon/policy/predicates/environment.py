"""The context of an expression: streams, parameters, and the time of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.policy.predicates.kinds import Kind

    class Changes(Protocol):
        """The times at which a relation changes."""

        def between(self, start: int, limit: int) -> tuple[NDArray[np.int64], tuple[pa.Array, ...]]:
            """Return the changes from one time on below another, with their keys."""

    class Relation(Protocol):
        """A relation in which expressions look values up."""

        @property
        def kinds(self) -> Mapping[str, Kind]:
            """The kinds of its columns by name."""

        def find(
            self, keys: Sequence[str], times: NDArray[np.int64], values: Sequence[pa.Array]
        ) -> NDArray[np.int64]:
            """Return the number of the record that is valid at each time and has some values.

            It is `NOTHING_VALID` where there is none, and `SEVERAL_VALID` where there are more.
            """

        def changes(self, keys: Sequence[str]) -> Changes:
            """Return the times at which it changes, for each value of some columns if any."""

        def column(self, name: str, records: NDArray[np.int64]) -> pa.Array:
            """Return the values of a column in records; null for negative ones."""


_NO_KINDS: Mapping[str, Kind] = {}
_NO_KEYS: Mapping[str, tuple[Kind, ...]] = {}
_NO_RELATIONS: Mapping[str, Relation] = {}

UTC = "UTC"

NOTHING_VALID = -1
"""The number of a record where none is valid."""
SEVERAL_VALID = -2
"""The number of a record where several are valid."""

TIME_STAMPS = "\0time-stamps"
"""The column of rows with their time-stamps, for what looks values up in relations."""


class Environment(NamedTuple):
    """The context of an expression of a policy file.

    Attributes:
        streams: the kind of each stream's values; a stream that is not in it has an unknown kind.
        keys: the kinds of the values after `per`, for each stream that has instances.
        parameters: the kinds of the parameters of the stream that the expression belongs to.
        time: the name of the time column, or None.
        unit: the unit of the time-stamps, one of `ns us ms s m h d`, or None.
        time_unit: the unit of whole numbers in the time column; None if it is `unit`.
        zone: the time zone of `hour` and the like, a name of IANA.
        has_columns: whether rows have other columns than the time.
        relations: the relations in which values can be looked up.
        is_open: whether there may be other relations, which are not known yet.
    """

    streams: Mapping[str, Kind] = _NO_KINDS
    keys: Mapping[str, tuple[Kind, ...]] = _NO_KEYS
    parameters: Mapping[str, Kind] = _NO_KINDS
    time: str | None = None
    unit: str | None = None
    time_unit: str | None = None
    zone: str = UTC
    has_columns: bool = True
    relations: Mapping[str, Relation] = _NO_RELATIONS
    is_open: bool = False


NOTHING = Environment()
"""The context of an expression if only columns are known."""
