"""What an expression stands among: streams, parameters, and the time of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.policy.predicates.kinds import Kind

_NO_KINDS: Mapping[str, Kind] = {}
_NO_KEYS: Mapping[str, tuple[Kind, ...]] = {}

UTC = "UTC"


class Environment(NamedTuple):
    """What an expression of a policy file stands among.

    Attributes:
        streams: the kind of each stream's values; a stream that is not in it has an unknown kind.
        keys: the kinds of the values after `per`, for each stream that has instances.
        parameters: the kinds of the parameters of the stream that the expression belongs to.
        time: the name of the time column, or None.
        unit: the unit of the time-stamps, one of `ns us ms s m h d`, or None.
        time_unit: the unit of whole numbers in the time column; None if it is `unit`.
        zone: the time zone of `hour` and the like, a name of IANA.
        has_columns: whether rows have other columns than the time.
    """

    streams: Mapping[str, Kind] = _NO_KINDS
    keys: Mapping[str, tuple[Kind, ...]] = _NO_KEYS
    parameters: Mapping[str, Kind] = _NO_KINDS
    time: str | None = None
    unit: str | None = None
    time_unit: str | None = None
    zone: str = UTC
    has_columns: bool = True


NOTHING = Environment()
"""What an expression stands among where nothing but columns is known."""
