"""The wanted columns of a table, and their purposes.

If expressions read a column as several types, readers of text and JSON return it once for each
type.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from mtlmon.errors import TableError
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.policy.predicates.expression import TypedColumn, column_in, column_of_schema
from mtlmon.policy.predicates.printer import column_text
from mtlmon.support.atom_names import listed
from mtlmon.support.guesses import nearest
from mtlmon.support.option_names import PYTHON
from mtlmon.support.time_columns import time_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from mtlmon.support.option_names import OptionNames

# what separates cells of text in formats other than CSV
_SEPARATOR = r"[,;|\t]"
# recognises a column of times if its name is not given
_TIME_NAME = r"(?i)time|date|stamp|(?:^|[^a-z])(?:ts|at|when|epoch)(?:$|[^a-z])"
_TEXT_MARK = "\0text"


class Selection:
    """Which columns are read.

    Attributes:
        time: the column of times, or several with commas between them, whose texts are joined by
            blanks; None until the first file has shown that there is a column `ts`.
        event: the column of names of events, or None if atoms are columns.
        keys: the key columns; each distinct combination of values is a trace.
        booleans: the atoms that are columns.
        predicates: the columns that predicates use, each listed once.
        time_columns: the columns of times, one or several.
        typed: those of the columns that predicates use that are read, so not the joined times.
        conversions: where cells have no types of their own, the columns that predicates read as
            values of types, by the names of the columns with these values.
        plain: those of the typed columns that predicates read as they are, and not as values of
            types.
        options: how messages write the options that choose columns.
        hints: for columns that predicates use, what may be meant if there is no such column.
        others: columns that are neither of these, of texts.
    """

    def __init__(
        self,
        time: str | None,
        event: str | None,
        keys: Sequence[str],
        booleans: Sequence[str],
        predicates: Sequence[str],
        options: OptionNames = PYTHON,
        hints: Mapping[str, str] | None = None,
        others: Sequence[str] = (),
        declared: Mapping[str, str] | None = None,
    ) -> None:
        self._read = tuple(predicates)
        self.declared = dict(declared or {})
        self.others = tuple(others)
        self.hints = dict(hints or {})
        self.time_columns = (DEFAULT_TIME,) if time is None else time_columns(time)
        self.time = None if time is None else ",".join(self.time_columns)
        self.event = event
        self.keys = tuple(keys)
        self.booleans = tuple(booleans)
        self.predicates = tuple(dict.fromkeys(map(str, predicates)))
        joined = self.time_name if len(self.time_columns) > 1 else None
        self.typed = tuple(name for name in self.predicates if name != joined)
        self.options = options
        self.conversions = {
            one.read_as: one
            for one in (*self._read, *self._typed_keys)
            if isinstance(one, TypedColumn) and one not in (*self.time_columns, joined)
        }
        self.plain = tuple(
            name
            for name in self.typed
            if any(one == name and column_in(self.conversions, one) == name for one in self._read)
        )

    def reading(self, names: Sequence[str]) -> Selection:
        """Return the same with more columns, which may be among those that are read already."""
        return Selection(
            self.time,
            self.event,
            self.keys,
            self.booleans,
            self._read,
            self.options,
            self.hints,
            (*self.others, *(name for name in names if name not in self.names)),
            self.declared,
        )

    @property
    def _typed_keys(self) -> list[TypedColumn]:
        """The key columns whose types are declared."""
        return [
            TypedColumn(name, self.declared[name]) for name in self.keys if name in self.declared
        ]

    @property
    def time_name(self) -> str:
        """The column of times, `ts` by default; the joined ones if there are several."""
        return DEFAULT_TIME if self.time is None else self.time

    @property
    def names(self) -> tuple[str, ...]:
        """All wanted columns, each listed once."""
        return tuple(dict.fromkeys([*self.texts, *self.booleans, *self.typed]))

    @property
    def cells_of_texts(self) -> tuple[str, ...]:
        """The columns of which text formats return the cells as they are, as texts."""
        of_time = set(self.time_columns)
        typed = {str(one) for one in self._typed_keys if one.type != "text"}
        texts = [name for name in self.texts if name not in typed]
        plain = [name for name in self.plain if name not in of_time]
        texts += [str(one) for one in self.conversions.values() if one.type == "text"]
        return tuple(dict.fromkeys([*texts, *plain]))

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of times, keys, names of events and others."""
        wanted = [*self.time_columns, *self.keys, *self.others]
        if self.event is not None:
            wanted.append(self.event)
        return tuple(dict.fromkeys(wanted))

    def typed_times(self) -> dict[str, str]:
        """The columns of times that a text format returns twice, as predicates read them, too.

        A column is returned under its own name, with the type of its values, and as text, so that
        times keep all their digits, under the name that it is mapped to.
        """
        return {name: name + _TEXT_MARK for name in self.time_columns if name in self.typed}

    def cells(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """The column of a batch with times, keys, names of events or atoms."""
        if name in self.keys and name in self.declared:
            name = column_of_schema(batch.schema, TypedColumn(name, self.declared[name]))
        if name in self.predicates:
            place = batch.schema.get_field_index(name + _TEXT_MARK)
            if place >= 0:
                return batch.column(place)
        return batch.column(name)

    def with_joined_times(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the column of joined times, if times have several columns; null if one of them is.

        Raises:
            TableError: a column cannot be written as text.
        """
        if len(self.time_columns) == 1:
            return batch
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = []
        for name in self.time_columns:
            try:
                texts.append(self.cells(batch, name).cast(pa.string()))
            except pa.ArrowException as error:
                reason = " ".join(str(error).split())
                message = f"cannot write this column of times as text: {reason}"
                raise TableError(message, path="", column=name) from None
        joined = pc.binary_join_element_wise(*texts, pa.scalar(" "))
        return batch.append_column(self.time_name, joined)

    def with_times(self, batch: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
        """Add a typed time column to rows whose times are texts, as `typed_times` has it."""
        name = self.time_name
        place = batch.schema.get_field_index(name)
        if batch.schema.get_field_index(name + _TEXT_MARK) < 0:
            batch = batch.append_column(name + _TEXT_MARK, batch.column(place))
        return batch.set_column(place, name, values)

    def require(self, present: Sequence[str], path: str) -> None:
        """Check that every wanted column occurs exactly once.

        Raises:
            TableError: a column does not; the message lists similar names.
        """
        known = Counter(present)
        for name in self.names:
            if not known[name]:
                raise TableError(self.missing(name, present), path=path)
            if known[name] > 1:
                raise TableError(
                    f"{known[name]} columns are called {name!r}: rename all but one", path=path
                )

    def missing(
        self,
        name: str,
        present: Sequence[str],
        subject: str = "no column",
        within: Sequence[str] = (),
    ) -> str:
        """The message that a column is not present, and what to do.

        Args:
            name: the column.
            present: the columns that are there.
            subject: the first words of the message.
            within: columns within objects, as `a.b`.
        """
        message = f"{subject} {name!r}"
        if name in self.keys:
            message += " for the key"
        elif name == self.event:
            message += " for the names of events"
        elif self.time is not None and name in self.time_columns:
            message += " for the times"
        elif name in self.booleans:
            message += f" for the atom {name}"
        elif name in self.predicates:
            message += " for the predicates"
        if len(present) == 1 and (found := re.search(_SEPARATOR, present[0])):
            option = self.options.written("delimiter", found[0])
            mend = "" if option is None else f"; {option} says that they end there"
            return (
                f"{message}, only {present[0]!r}: cells end at commas in CSV and at tabs in TSV, "
                f"not at {found[0]!r}{mend}"
            )
        is_default_time = name == self.time_name and self.time is None
        close = None if is_default_time else nearest(name, present)
        inner = next((one for one in within if one.rpartition(".")[2] == name), None)
        inner = inner or nearest(name, within)
        if is_default_time and present:
            guess = next(filter(re.compile(_TIME_NAME).search, present), present[0])
            option = self.options.written("time")
            example = self.options.written("time", guess)
            message += f": name the time column with {option}, for instance {example}"
        elif close is not None:
            return f"{message}; did you mean {close!r}?"
        elif inner is not None:
            meant = column_text(inner) if name in self.predicates else repr(inner)
            return f"{message}; did you mean {meant}?"
        elif name in self.hints:
            message += f"; {self.hints[name]}"
        elif name in self.booleans and (option := self.options.written("event")):
            message += f"; if one column names the events, say which with {option}"
        return f"{message}. Columns: {listed(present)}" if present else message


def joined_types(
    known: Mapping[str, pa.DataType], found: Mapping[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """Update types when more rows are seen: types become known, and integers become floats.

    A type that does not fit the known type changes nothing: the rows are at fault.
    """
    import pyarrow as pa

    joined = dict(known)
    for name, data_type in found.items():
        before = known.get(name)
        if (
            before is None
            or pa.types.is_null(before)
            or (
                pa.types.is_integer(before)
                and (pa.types.is_floating(data_type) or pa.types.is_decimal(data_type))
            )
            or (
                pa.types.is_timestamp(before)
                and pa.types.is_timestamp(data_type)
                and before.tz == data_type.tz
                and (before.unit, data_type.unit) == ("s", "ns")
            )
        ):
            joined[name] = data_type
    return joined
