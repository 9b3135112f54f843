"""Conditions on the values of events: which of them hold, so that monitors see atoms only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, Any

from mtlmon.errors import MtlmonError, RowError, TraceError
from mtlmon.policy import parse_policies
from mtlmon.policy.needs import needs_of
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.policy.predicates.printer import column_text, constant_text
from mtlmon.policy.predicates.time_points import ROWS

if TYPE_CHECKING:
    import pyarrow as pa

    from mtlmon.policy import PolicyFile
    from mtlmon.syntax.formula import Formula
    from mtlmon.testing.recording import Pair
    from mtlmon.testing.seen import SeenNames

    Values = Mapping[str, object]
    ValuedEvent = tuple[int, frozenset[str], Values]

__all__ = ["Conditions", "read_policy"]

EVENTS_AT_ONCE = 1 << 12
_LARGEST_TIME_STAMP = (1 << 63) - 1
_NO_VALUES: dict[str, object] = {}


class Conditions:
    """The conditions of a policy: comparisons, windows and streams over the values of events.

    Args:
        file: a policy file with one policy, about the events of one trace.

    Attributes:
        formula: the formula of the policy, whose atoms are conditions and names of the trace.
        unit: the unit of the time-stamps that the file declares, or None.
        time: the name of a table's column of time-stamps that the file declares, or None.
        atoms: the atoms that events must say.
        columns: the values that events must have, besides the time.
        keep: of how many events to keep the values; None means all.

    Raises:
        MtlmonError: the file has streams at ticks, or pyarrow is missing.
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
        self.unit = file.unit
        self.time = file.time
        needs = needs_of(file, policy.formula.atoms)
        self._time_name = file.time or DEFAULT_TIME
        self.atoms = needs.log_atoms
        self.columns = tuple(name for name in needs.columns if name != self._time_name)
        self._computed = tuple(name for name in policy.formula.atoms if name in file.atoms)
        environment = Environment(time=self._time_name, unit=file.unit, zone=file.zone or UTC)
        inner = needs_of(file, self._computed).log_atoms
        self._streams = StreamAtoms(file, [{ROWS: self._computed}], inner, environment)
        if self._streams.has_ticks:
            raise MtlmonError("streams at ticks need a whole log: check_tables has them")
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
        return {name: value for name, value in event.items() if _is_truth(value)}, values

    def one(self, time_stamp: int, letter: frozenset[str], values: Values) -> frozenset[str]:
        """Return the atoms of the next event, with the conditions that hold.

        Raises:
            TraceError: an integer overflows, or values have types that do not fit.
        """
        times = [time_stamp]
        return self._letters(times, [letter], self._arrays([values]))[0]

    def events(self, events: Iterable[ValuedEvent], *, at_once: int) -> Iterator[Pair]:
        """Yield the next events with the conditions that hold.

        Args:
            events: time-stamps, names of the atoms that hold, and values.
            at_once: how many events to read ahead at most.
        """
        __tracebackhide__ = True
        source = iter(events)
        while part := list(islice(source, at_once)):
            valid = self._valid(part)
            arrays = self._arrays([event[2] for event in part[:valid]])
            yield from self._with_conditions(part, valid, arrays)

    def table(self, events: Iterable[Pair], columns: Mapping[str, pa.Array]) -> Iterator[Pair]:
        """Yield the events of a table with the conditions that hold.

        Args:
            events: the time-stamp of each row, and the names of the atoms that hold.
            columns: the values by the name of the column.
        """
        __tracebackhide__ = True
        source = ((int(time), frozenset(letter), _NO_VALUES) for time, letter in events)
        first = 0
        while part := list(islice(source, EVENTS_AT_ONCE)):
            valid = self._valid(part)
            arrays = {name: one.slice(first, valid) for name, one in columns.items()}
            yield from self._with_conditions(part, valid, arrays)
            first += len(part)

    def _with_conditions(
        self, part: Sequence[ValuedEvent], valid: int, arrays: Mapping[str, pa.Array]
    ) -> Iterator[Pair]:
        """Yield events, the first ones of which have valid time-stamps and these values."""
        __tracebackhide__ = True
        if valid:
            times = [event[0] for event in part[:valid]]
            letters = [event[1] for event in part[:valid]]
            yield from zip(times, self._letters(times, letters, arrays), strict=True)
        for time_stamp, letter, _ in part[valid:]:
            # The monitor says what is wrong with the time-stamp.
            yield time_stamp, letter

    def shown(self, number: int) -> list[str]:
        """Return the values of an event, as in `latency=0.2`; nothing if they are not kept.

        Args:
            number: the number of the event, from 0.
        """
        for first, count, columns in self._kept:
            if first <= number < first + count:
                values = [(name, columns[name][number - first].as_py()) for name in self.columns]
                return [f"{column_text(name)}={_shown(value)}" for name, value in values]
        return []

    def _keep(self, count: int, columns: Mapping[str, pa.Array]) -> None:
        """Keep the values of the next events, and forget those of old ones."""
        if self.columns:
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
        self, times: Sequence[int], letters: Sequence[frozenset[str]], columns: Mapping[str, Any]
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
            (found,) = self._streams.evaluate(rows, stamps, [None]).atoms
        except RowError as error:
            number = self._count + error.rows[0]
            raise TraceError(f"event {number}: {error.reason}") from None
        except MtlmonError as error:
            raise error.with_traceback(None) from None
        self._keep(len(times), columns)
        columns_found = [(name, found[name].to_pylist()) for name in self._computed]
        return [
            letter.union([name for name, values in columns_found if values[number]])
            for number, letter in enumerate(letters)
        ]


def _shown(value: object) -> str:
    """A value as in policies, if it is of a kind that they have."""
    if value is None or isinstance(value, bool | int | str):
        return constant_text(value)
    return str(value)


def _is_truth(value: object) -> bool:
    """Whether a value is true or false, also as numpy has them."""
    return isinstance(value, bool) or type(value).__name__ == "bool_"


def read_policy(text: str, unit: str | None) -> Conditions | Formula | PolicyFile:
    """Read a text with conditions or declarations, as in a policy file.

    Args:
        text: a formula with conditions, or a policy file with one policy.
        unit: the unit of the time-stamps, if the file does not declare it.

    Returns:
        The formula alone if the file has no conditions, and the file itself if the policy has
        variables.

    Raises:
        FormulaError: the text is not valid.
        MtlmonError: it has several policies, or needs more than one trace.
    """
    file = parse_policies(text, "<formula>", unit=unit)
    if len(file.policies) != 1:
        raise MtlmonError(
            f"the text has {len(file.policies)} policies, but a trace is checked against one: "
            "check_tables takes several"
        )
    _require_one_trace(file)
    if file.policies[0].formula.is_first_order:
        return file
    conditions = set(file.atoms) & set(file.policies[0].formula.atoms)
    return Conditions(file) if conditions else file.policies[0].formula


def _require_one_trace(file: PolicyFile) -> None:
    """Refuse what is about more than the events of one trace.

    Raises:
        MtlmonError: the policy has a key or a clock, or is about relations.
    """
    (policy,) = file.policies
    what = ""
    if policy.key or (file.key and not policy.formula.is_first_order):
        what = "divides the log by a key"
    elif policy.clock is not None:
        what = f"is on {policy.clock}"
    elif policy.is_find:
        raise MtlmonError(
            f"find {policy.name} says what is looked for, so no trace violates it: write a policy, "
            "or use RelationalMonitor"
        )
    if what:
        raise MtlmonError(f"the policy {what}, but a trace has events only: use check_tables")
