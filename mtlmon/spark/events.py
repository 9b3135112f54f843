"""Rows as events: which columns are wanted, checked on the driver and read on executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from mtlmon.errors import MtlmonError, TableError
from mtlmon.event_columns import listed
from mtlmon.option_names import SPARK
from mtlmon.policy import parse_predicate
from mtlmon.tables.blocks import Block
from mtlmon.tables.columns import Selection
from mtlmon.tables.letters import LetterReader
from mtlmon.tables.times import Times
from mtlmon.tables.usable import RowCheck

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon._arrays import EventColumns
    from mtlmon.spark.policies import Policies
    from mtlmon.tables.letters import Letters

_SHOWN = 300


class EventSource(NamedTuple):
    """How rows become events; picklable.

    Attributes:
        policies: what the events are for, with predicates over columns.
        selection: the columns, and what they are wanted for.
        separator: stands between the names in a text of the column of events.
        time_unit: as `mtlmon.tables.Times` takes them.
        resolution: as `mtlmon.tables.Times` takes them.
        place: what messages call the rows.
    """

    policies: Policies
    selection: Selection
    separator: str
    time_unit: str | None
    resolution: str | None
    place: str

    def times(self) -> Times:
        """What makes time-stamps of times."""
        return Times(self.time_unit, None, self.resolution)


def event_source(
    policies: Policies,
    *,
    time: str,
    keys: Sequence[str] = (),
    atoms: Mapping[str, str] | None = None,
    event: str | None = None,
    separator: str = "|",
    time_unit: str | None = None,
    resolution: str | None = None,
    place: str = "DataFrame",
) -> EventSource:
    """What columns are wanted for.

    Args:
        atoms: more predicates, by the name of the atom that each defines.
        event: the column of names of events; without it, atoms without predicate are columns.

    The others are those of `EventSource`. The resolution is the unit of the policies if it is not
    given.

    Raises:
        PolicyError: a predicate cannot be read.
        MtlmonError: a key comes twice, an atom has two predicates or is unknown; a unit is unknown.
    """
    if len(set(keys)) != len(keys):
        raise MtlmonError("a key column is given twice")
    if not separator:
        raise MtlmonError("the separator of names of events is empty")
    predicates = dict(policies.predicates)
    for name, text in (atoms or {}).items():
        if name in predicates:
            raise MtlmonError(f"the atom {name!r} has a predicate in the policy file already")
        if name not in policies.atoms:
            known = listed(policies.atoms)
            raise MtlmonError(f"no policy speaks of an atom {name!r}, only of {known}")
        predicates[name] = parse_predicate(text, f"<atom {name}>", name)
    policies = policies._replace(predicates=predicates)
    columns = [column for predicate in predicates.values() for column in predicate.columns]
    others = [name for name in policies.atoms if name not in predicates]
    booleans = () if event is not None else others
    selection = Selection(time, event, keys, booleans, columns, SPARK)
    source = EventSource(
        policies, selection, separator, time_unit, resolution or policies.unit, place
    )
    source.times()
    return source


class Events(NamedTuple):
    """The events of a batch of rows, one each.

    Attributes:
        time_stamps: of the events.
        letters: what is known of their atoms.
        atoms: their names; letters have them in this order.
    """

    time_stamps: NDArray[np.int64]
    letters: Letters
    atoms: tuple[str, ...]

    def of(self, atoms: Sequence[str]) -> EventColumns:
        """What monitors of a formula with these atoms take."""
        return self.letters.events(self.time_stamps, [self.atoms.index(name) for name in atoms])


class EventReader:
    """Reads batches of rows as events."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        policies, selection = source.policies, source.selection
        letters = LetterReader(policies.atoms, policies.predicates, selection, source.separator)
        self.times = source.times()
        self._check = RowCheck(selection, self.times, letters, "stop", False)

    def read(self, batch: pa.RecordBatch) -> Events:
        """The events of a batch, which has the columns wanted.

        Raises:
            TableError: a row has no time or key, or one that cannot be read; the message shows it.
                Or a column is of a type that cannot be what it is wanted for.
            PolicyError: a predicate does not fit the types of columns.
        """
        rows = self._check.usable(Block(batch, self._source.place, 0, None))
        if rows.error is not None:
            error = rows.error
            assert error.row is not None
            raise row_error(self._source, batch, error.row, error.message, error.column)
        return Events(rows.time_stamps, rows.letters, self._source.policies.atoms)


def row_error(
    source: EventSource, batch: pa.RecordBatch, row: int, message: str, column: str | None = None
) -> TableError:
    """What is wrong with a row of a batch, which the message shows."""
    shown = f"{message}; the row is {_shown(batch, row)}"
    return TableError(shown, path=source.place, column=column)


def check_schema(source: EventSource, schema: pa.Schema) -> None:
    """Whether columns of these types can be what they are wanted for.

    Raises:
        TableError, PolicyError: they cannot; the message names the column.
    """
    source.selection.require(schema.names, source.place)
    for name in (source.selection.time_name, *source.selection.keys):
        if pa.types.is_null(schema.field(name).type):
            raise TableError("all values are null", path=source.place, column=name)
    EventReader(source).read(pa.RecordBatch.from_pylist([], schema=schema))


def _shown(batch: pa.RecordBatch, row: int) -> str:
    """The values of a row, for a message of one line."""
    (values,) = batch.slice(row, 1).to_pylist()
    shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
    shown = " ".join(shown.split())
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
