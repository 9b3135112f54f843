"""Conditions on the values of events: which of them hold, so that monitors see atoms only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError, RowError, TraceError
from mtlmon.policy.needs import needs_of
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression, TypedColumn
from mtlmon.policy.predicates.printer import column_text, constant_text
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.testing.events import is_truth

if TYPE_CHECKING:
    import pyarrow as pa

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.syntax.formula import Formula
    from mtlmon.testing.recording import NumberedPair
    from mtlmon.testing.seen import SeenNames

    Values = Mapping[str, object]
    # time-stamp, names, values, and the number of the trace
    ValuedEvent = tuple[int, frozenset[str], Values, int]

__all__ = ["Conditions", "needed", "shown_values", "value_words"]

EVENTS_AT_ONCE = 1 << 12
_LARGEST_TIME_STAMP = (1 << 63) - 1
_NO_VALUES: dict[str, object] = {}


class Conditions:
    """The conditions of a policy: comparisons, windows and streams over the values of events.

    Args:
        file: a policy file with one policy, about events.

    Attributes:
        formula: the formula of the policy, whose atoms are conditions and names of the trace.
        atoms: the atoms that events must say.
        columns: the values that events must have, besides the time.
        shown_names: the names in `PolicyFile.shown` of what reports show of events.
        keep: of how many events to keep the values; None means all.

    Raises:
        MtlmonError: the file has streams at ticks, values are looked up in relations that read
            rows, a table of a relation cannot be read, or pyarrow is missing.
    """

    def __init__(self, file: PolicyFile) -> None:
        (policy,) = file.policies
        try:
            import pyarrow  # noqa: F401 (whether it is there)
        except ImportError:
            raise MtlmonError(
                "conditions on values need pyarrow: pip install 'mtlmon[tables]'"
            ) from None
        from mtlmon.policy.predicates.environment import UTC, Environment
        from mtlmon.streams.atoms import StreamAtoms

        self.formula: Formula = policy.formula
        needs = needs_of(file, policy.formula.atoms)
        self._time_name = file.time or DEFAULT_TIME
        wanted = needed(file)
        self.atoms, self.columns = wanted
        self._computed = tuple(name for name in policy.formula.atoms if name in file.atoms)
        environment = Environment(time=self._time_name, unit=file.unit, zone=file.zone or UTC)
        if needs.relations:
            from mtlmon.tables.looking_up import known_relations

            relations = known_relations(file, needs.relations, environment)
            environment = environment._replace(relations=relations)
        inner = needs_of(file, self._computed).log_atoms
        self._labels = shown_values(file)
        self.shown_names: dict[When, list[str]] = {ROWS: list(self._labels.values())}
        self._streams = StreamAtoms(
            file, [{ROWS: self._computed}], inner, environment, shown=[self.shown_names]
        )
        if self._streams.has_ticks:
            raise MtlmonError("streams at ticks need a whole log: mtlmon.check has them")
        self._count = 0
        self._clock = 0
        self.keep: int | None = 0
        # the number of the first event of a batch, the number of its events, and their values
        self._kept: deque[tuple[int, int, Mapping[str, pa.Array]]] = deque()

    def split(
        self, event: Mapping[str, object], seen: SeenNames
    ) -> tuple[dict[str, object], dict[str, object]]:
        """Divide an event into what it says of atoms, and the values that conditions are about.

        What is true or false can be both. The names of values are noted as seen.
        """
        values = {name: event[name] for name in self.columns if name in event}
        if seen.missing:
            seen.missing.difference_update(values)
        return {name: value for name, value in event.items() if is_truth(value)}, values

    def one(
        self, time_stamp: int, letter: frozenset[str], values: Values, number: int = 0
    ) -> frozenset[str]:
        """Return the atoms of the next event, with the conditions that hold.

        Args:
            time_stamp: the time-stamp of the event.
            letter: the names of the atoms that hold.
            values: the values of the event.
            number: the number of its trace.

        Raises:
            TraceError: an integer overflows, or values have types that do not fit.
        """
        times = [time_stamp]
        return self._letters(times, [letter], self._arrays([values]), [number])[0]

    def events(self, events: Iterable[ValuedEvent], *, at_once: int) -> Iterator[NumberedPair]:
        """Yield the next events, with the conditions that hold, and the numbers of their traces.

        Args:
            events: time-stamps, names of the atoms that hold, values, and numbers of traces.
            at_once: how many events to read ahead at most.
        """
        __tracebackhide__ = True
        source = iter(events)
        while part := list(islice(source, at_once)):
            valid = self._valid(part)
            arrays = self._arrays([event[2] for event in part[:valid]])
            yield from self._with_conditions(part, valid, arrays)

    def _with_conditions(
        self, part: Sequence[ValuedEvent], valid: int, arrays: Mapping[str, pa.Array]
    ) -> Iterator[NumberedPair]:
        """Yield events, the first ones of which have valid time-stamps and these values."""
        __tracebackhide__ = True
        if valid:
            times = [event[0] for event in part[:valid]]
            letters = [event[1] for event in part[:valid]]
            numbers = [event[3] for event in part[:valid]]
            found = self._letters(times, letters, arrays, numbers)
            yield from zip(numbers, zip(times, found, strict=True), strict=True)
        for time_stamp, letter, _, number in part[valid:]:
            # The monitor says what is wrong with the time-stamp.
            yield number, (time_stamp, letter)

    def shown(self, number: int) -> list[str]:
        """Return the values of an event, as in `latency=0.2`; nothing if they are not kept.

        These are the values that conditions name, and those of the streams and windows in them.

        Args:
            number: the number of the event, from 0.
        """
        for first, count, columns in self._kept:
            if first <= number < first + count:
                place = number - first
                return value_words(
                    {label: columns[name][place].as_py() for label, name in self._labels.items()}
                )
        return []

    def keep_values(self, count: int, columns: Mapping[str, pa.Array]) -> None:
        """Keep the values of the next events, by `shown_names`, and forget those of old ones."""
        if columns:
            self._kept.append((self._count, count, columns))
        self._count += count
        # the events that were read ahead are not among those that a recording keeps
        oldest = 0 if self.keep is None else self._count - self.keep - EVENTS_AT_ONCE
        while self._kept and sum(self._kept[0][:2]) <= oldest:
            self._kept.popleft()

    def _valid(self, events: Sequence[ValuedEvent]) -> int:
        """How many events come before the first whose time-stamp is not valid."""
        clock = self._clock
        for number, event in enumerate(events):
            try:
                time_stamp = index(event[0])
            except TypeError:
                return number
            if not clock <= time_stamp <= _LARGEST_TIME_STAMP:
                return number
            clock = time_stamp
        self._clock = clock
        return len(events)

    def _arrays(self, values: Sequence[Values]) -> dict[str, pa.Array]:
        import pyarrow as pa

        arrays: dict[str, pa.Array] = {}
        for name in self.columns:
            try:
                arrays[name] = pa.array([one.get(name) for one in values])
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                reason = " ".join(str(error).split())
                raise TraceError(f"the values of {name} have no common type: {reason}") from None
        return arrays

    def _letters(
        self,
        times: Sequence[int],
        letters: Sequence[frozenset[str]],
        columns: Mapping[str, pa.Array],
        numbers: Sequence[int],
    ) -> list[frozenset[str]]:
        """Return the letters with the conditions that hold; the events are remembered."""
        __tracebackhide__ = True
        import numpy as np
        import pyarrow as pa

        stamps = np.array(times, np.int64)
        arrays = {self._time_name: pa.array(stamps), **columns}
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        held = {
            name: pa.array([name in letter for letter in letters], pa.bool_())
            for name in self._streams.log_atoms
        }
        try:
            rows = self._streams.prepared(batch, held)
            computed = self._streams.evaluate(rows, stamps, [np.array(numbers, np.uint32)])
        except RowError as error:
            number = self._count + error.rows[0]
            raise TraceError(f"event {number}: {error.reason}") from error.__cause__
        except MtlmonError as error:
            raise error.with_traceback(None) from None
        (found,), (shown,) = computed.atoms, computed.shown
        self.keep_values(len(times), shown)
        columns_found = [(name, found[name].to_pylist()) for name in self._computed]
        return [
            letter.union([name for name, values in columns_found if values[number]])
            for number, letter in enumerate(letters)
        ]


class Needed(NamedTuple):
    """What a policy needs of events.

    Attributes:
        atoms: the atoms that they say.
        columns: the values that they have, besides the time.
    """

    atoms: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of both."""
        return tuple(dict.fromkeys([*self.atoms, *self.columns]))


def needed(file: PolicyFile) -> Needed:
    """Return what the policy of a file needs of events."""
    (policy,) = file.policies
    needs = needs_of(file, policy.formula.atoms)
    time = file.time or DEFAULT_TIME
    return Needed(needs.log_atoms, tuple(name for name in needs.columns if name != time))


def shown_values(file: PolicyFile) -> dict[str, str]:
    """Return what reports show of events: the names in `PolicyFile.shown` by their labels.

    These are the values in conditions, and the streams and windows that they read.
    """
    from mtlmon.checking.shown import items_of

    (policy,) = file.policies
    columns = needed(file).columns
    typed = needs_of(file, policy.formula.atoms).typed_columns
    read = sorted(typed, key=lambda name: isinstance(name, TypedColumn))
    as_read = {str(name): name for name in read if name in columns}
    found = {
        column_text(name): file.show(Expression(ops.COLUMN, (), as_read[name])) for name in columns
    }
    return found | {item.label: item.name for item in items_of(file, policy)}


def value_words(values: Mapping[str, object]) -> list[str]:
    """Return values by their labels, as in `latency=0.2`."""
    return [f"{label}={_shown(value)}" for label, value in values.items()]


def _shown(value: object) -> str:
    """A value as in policies, if it is of a kind that they have."""
    if value is None or isinstance(value, bool | int | str):
        return constant_text(value)
    return str(value)
