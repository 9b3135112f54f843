"""Policies with variables in tests: a monitor that remembers its last time-points."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlmon._relational import RelationalMonitor
from mtlmon.engine.native import clock_at_end, read_atoms
from mtlmon.errors import EventTypeError, MtlmonError, TraceError
from mtlmon.policy.first_order.instances import instance_of
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.policy.predicates.kinds import TEXT
from mtlmon.relational.analysis import parts_of
from mtlmon.relational.atoms import used_atoms
from mtlmon.relational.cells import value_text
from mtlmon.relational.keyed import refuse_keys
from mtlmon.relational.monitor import atom_numbers, engine_of, point_rows
from mtlmon.relational.planning import plan
from mtlmon.relational.preparation import left_sides
from mtlmon.relational.vacuity import uncounted
from mtlmon.syntax import operators as ops
from mtlmon.syntax.printer import to_text
from mtlmon.syntax.traversal import postorder
from mtlmon.testing.ordering import ordered
from mtlmon.testing.recording import Events
from mtlmon.testing.seen import SeenNames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from mtlmon.policy import PolicyFile
    from mtlmon.relational import Answer
    from mtlmon.relational.native import PointBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.vacuity import Matched
    from mtlmon.syntax.formula import Formula
    from mtlmon.testing.ordering import EventOrder
    from mtlmon.testing.recording import AtEnd, EndTime, Event
    from mtlmon.testing.seen import Unknown
    from mtlmon.testing.subject import Subject
    from mtlmon.testing.times import TimeReader

    Database = dict[str, list[tuple[object, ...]]]

__all__ = ["RelationalRecording", "read_database", "read_events"]


class _Places(NamedTuple):
    """Where the rows of time-points are.

    Attributes:
        place_of: returns it for the number of a time-point.
    """

    place_of: Callable[[int], str | None]


class RelationalRecording(Events):
    """A monitor of a policy with variables, and its last time-points.

    Args:
        subject: a policy with variables.
        at_end: what the end of the stream means.
        keep: how many time-points to remember for reports; None means all.
        unknown: what to do about atoms that no time-point has, as for `SeenNames`.
        counts_left_side: whether to count how often the left side of an implication is matched.

    Attributes:
        monitor: the monitor.
        answers: the violations of the first time-point that is known to have some.

    Raises:
        MtlmonError: the policy cannot be evaluated, or `at_end` or `keep` is invalid.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        at_end: AtEnd = "decided",
        keep: int | None,
        unknown: Unknown = None,
        counts_left_side: bool = False,
    ) -> None:
        __tracebackhide__ = True
        file = subject.file
        assert file is not None
        (policy,) = file.policies
        refuse_keys(file, file.key or (), "mtlmon.testing")
        try:
            self.monitor = RelationalMonitor(file, counts_left_sides=counts_left_side)
        except MtlmonError as error:
            raise error.with_traceback(None) from None
        seen = SeenNames(used_atoms(file), unknown)
        super().__init__(subject, seen, at_end=at_end, keep=keep)
        self.file = file
        self.body = parts_of(policy, policy.formula)[0]
        self.answers: list[Answer] = []
        # the names of the time-points that have no verdict
        self._open: deque[tuple[int, int]] = deque()
        self._last: tuple[int, int] | None = None

    @property
    def event_count(self) -> int:
        return engine_of(self.monitor).point_count

    @property
    def counts(self) -> tuple[int, int, int]:
        engine = engine_of(self.monitor)
        (answered,), (found,) = engine.answered_points, engine.found_points
        return answered - found, found, engine.point_count - answered

    @property
    def matched(self) -> dict[int, Matched]:
        """How often the left side has been matched; empty if that is not counted."""
        return self.monitor.matched

    def left_side(self, option: str | None) -> str | None:
        """Return the left side of the implication as text; None if the policy is none.

        Args:
            option: what asks for it, for the error; None if it may be left uncounted.

        Raises:
            MtlmonError: it cannot be evaluated by itself.
        """
        __tracebackhide__ = True
        analysis = self.monitor.analysis
        # not the plan of the monitor, which waits for the columns of a table
        words = uncounted(analysis, plan(self.file, analysis, counts_triggered=True))
        if words is not None:
            if option is None:
                return None
            raise MtlmonError(f"{option} {words}, or leave it out")
        return next((one.written for one in left_sides(analysis)), None)

    def step(self, time_stamp: int, database: Collection[str]) -> list[Answer]:
        """Process a time-point with the rows of atoms; return the new violations.

        Raises:
            TimeStampError: the time-stamp is negative, too large or decreasing.
            EventTypeError: a row does not have the arguments of its atom.
        """
        __tracebackhide__ = True
        assert isinstance(database, Mapping)
        try:
            answers = self.monitor.step(time_stamp, database)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, MtlmonError):
                raise
            raise EventTypeError(str(error)) from None
        offset = 0
        if self._last is not None and self._last[0] == time_stamp:
            offset = self._last[1] + 1
        self._last = time_stamp, offset
        self._open.append(self._last)
        self.pairs.append((time_stamp, database))
        if self.seen.missing:
            self.seen.note([name for name, rows in database.items() if rows])
        return self._noted(answers)

    def advance(self, time_stamp: int) -> list[Answer]:
        """Declare that no later time-point is below a time-stamp; return the new violations."""
        answers = self.monitor.advance(time_stamp)
        if self.pairs and time_stamp > self.clock:
            self.end_time = time_stamp - 1
        return self._noted(answers)

    def finish(self, end_time: EndTime = None) -> list[Answer]:
        """End the stream; return the new violations, and store in `undecided` what stays open.

        The arguments and errors are those of `Recording.finish`.
        """
        answers: list[Answer] = []
        if self.event_count:
            engine = engine_of(self.monitor)
            following = clock_at_end(engine.clock, self._note_end(end_time))
            if following is None:
                answers = self._noted(self.monitor.finish())
            elif following:
                answers = self._noted(self.monitor.advance(min(following, LARGEST)))
        self.undecided = list(self._open)
        return answers

    def letter(self, atoms: Collection[str]) -> frozenset[str]:
        """The rows of a time-point, as in a log."""
        assert isinstance(atoms, Mapping)
        kinds = {one.name: one.kinds for one in self.monitor.plan.named_atoms}
        words = []
        for name, rows in atoms.items():
            for row in rows:
                own = kinds.get(name)
                values = [
                    value_text(*one) for one in zip(row, own or [TEXT] * len(row), strict=False)
                ]
                words.append(f"{name}({', '.join(values)})" if row else name)
        return frozenset(words)

    def words(self, event: Event) -> list[str]:
        return sorted(event.atoms)

    def delay(self) -> int | None:
        return _delay(self.formula, self.file)

    def proof(self, time_point: tuple[int, int]) -> str | None:
        found = [one for one in self.answers if (one.time_stamp, one.offset) == time_point]
        if not found:
            return None
        if not self.is_complete:
            return f"no explanation: it needs more than the last {len(self.pairs):,} events"
        try:
            return self._reasons(found[0])
        except (MtlmonError, MemoryError) as error:
            return f"no explanation: {error}"

    def _reasons(self, answer: Answer) -> str:
        """The rows that say why values violate the policy."""
        from mtlmon.relational.reasons import Explainer, Violation, explanation_text
        from mtlmon.relational.reasons.evidence import Known

        places = None if self.place is None else _Places(self.place)

        def read(made: Plan, points: PointBlock) -> Iterator[Known]:
            numbers = atom_numbers(made)
            for time_stamp, database in self.pairs:
                assert isinstance(database, Mapping)
                points.add(time_stamp, point_rows(made, numbers, database))
                yield Known(places)

        analysis = self.monitor.analysis
        values = tuple(answer.valuation.values())
        violation = Violation(answer.time_stamp, answer.offset, 0, answer.point, values)
        (explained,) = Explainer(self.file, analysis, read, self.end_time).explain([violation])
        (policy,) = self.monitor.plan.named_policies
        text = explanation_text(
            explained,
            policy,
            to_text(self.formula, unit=self.unit),
            analysis.relations,
            unit=self.unit,
        )
        # Leave out what the report has already.
        heading, _, reasons = text.partition("\n\n")
        witnesses = [line.strip() for line in heading.split("\n") if line.startswith("  with ")]
        return "\n".join([*witnesses, reasons])

    def instance(self, time_point: tuple[int, int]) -> tuple[Formula, list[str]]:
        """What a time-point violates.

        Returns:
            The policy for the values of the first violation that is known there, and the values of
            all of them, as a line each.
        """
        found = [one for one in self.answers if (one.time_stamp, one.offset) == time_point]
        if not found or not found[0].valuation:
            return self.body, []
        (policy,) = self.monitor.plan.named_policies
        kinds = dict(zip(policy.variables, policy.kinds, strict=True))
        lines = [
            ", ".join(f"{name} = {value_text(one, kinds[name])}" for name, one in values.items())
            for values in (answer.valuation for answer in found)
        ]
        values = {
            name: value_text(one, kinds[name]) if kinds[name].name == "time" else one
            for name, one in found[0].valuation.items()
        }
        return instance_of(self.body, values), lines

    def _noted(self, answers: list[Answer]) -> list[Answer]:
        (answered,) = engine_of(self.monitor).answered_points
        while len(self._open) > self.event_count - answered:
            self._open.popleft()
        for answer in answers:
            if not self.answers or answer.point == self.answers[0].point:
                self.answers.append(answer)
        return answers


def read_database(atoms: object, known: Collection[str]) -> Database:
    """Read the rows of a time-point.

    Args:
        atoms: names of atoms without arguments, or a mapping of names to rows: lists of tuples with
            the arguments, or whether an atom without arguments holds. It may have other values,
            too, such as those that other policies are about.
        known: the atoms of the policy.

    Raises:
        EventTypeError: it is something else.
    """
    __tracebackhide__ = True
    if not isinstance(atoms, Mapping):
        return {name: [()] for name in read_atoms(atoms)}  # type: ignore[arg-type]
    database: Database = {}
    for name, rows in atoms.items():
        if not isinstance(name, str):
            raise EventTypeError(f"the name of an atom is a text, not {name!r}")
        if isinstance(rows, bool):
            database[name] = [()] if rows else []
            continue
        is_list = isinstance(rows, Iterable) and not isinstance(rows, (str, bytes, Mapping))
        found = list(rows) if is_list else [rows]
        if name not in known and not all(isinstance(row, (tuple, list)) for row in found):
            continue
        for row in found:
            if not isinstance(row, (tuple, list)):
                example = rows if isinstance(rows, tuple) else (row,)
                raise EventTypeError(
                    f"{name} has {rows!r}: its rows are a list of tuples with the arguments, as in "
                    f"{[example]!r}"
                )
        database[name] = [tuple(row) for row in found]
    return database


def read_events(
    recording: RelationalRecording,
    trace: Any,
    *,
    time: str | None,
    unit: str | None,
    times: TimeReader,
    order: EventOrder[Any] | None = None,
) -> Iterator[tuple[int, Database]]:
    """Return the time-points of a trace, with the rows of atoms.

    Args:
        recording: the policy; the first rows of a table say what types its variables have.
        trace: a trace as for `mtlmon.testing.check`.
        time: the name of the column of time-stamps.
        unit: the unit to which dates and times are rounded down.
        times: reads times that are no integers.
        order: puts the events into the order of time; None if they are in order.

    Raises:
        TraceError: the trace has an unknown form.
        LogError: a line of a log is invalid.
        MtlmonError: a table cannot be read.
    """
    __tracebackhide__ = True
    from mtlmon.testing.events import has_columns
    from mtlmon.testing.table_files import is_table_file

    is_file = is_table_file(trace, recording.subject)
    if isinstance(trace, (str, os.PathLike)) and not is_file:
        from mtlmon.testing.relation_sources import log_events

        return log_events(recording, trace, order)
    if is_file or has_columns(trace):
        from mtlmon.testing.relation_sources import table_events

        return table_events(recording, trace, time=time, unit=unit, order=order)
    if hasattr(trace, "dtype") or not isinstance(trace, Iterable) or _is_arrays(trace):
        raise TraceError(
            "arrays and other values without names have no arguments: pass pairs (time_stamp, "
            "rows), such as (3, {'publish': [('alice', 'report')]}), a table or the path of a log"
        )
    pairs = _pairs(recording, trace, times)
    return pairs if order is None else ordered(pairs, order, itemgetter(0))


def _is_arrays(trace: object) -> bool:
    return isinstance(trace, tuple) and len(trace) == 2 and hasattr(trace[0], "dtype")


def _pairs(
    recording: RelationalRecording, pairs: Iterable[Any], times: TimeReader
) -> Iterator[tuple[int, Database]]:
    __tracebackhide__ = True
    for position, pair in enumerate(pairs):
        try:
            time_stamp, atoms = pair
        except (TypeError, ValueError):
            raise TraceError(
                f"event {position} is {pair!r}: it should be a pair (time_stamp, rows)"
            ) from None
        try:
            database = read_database(atoms, recording.seen.atoms)
        except EventTypeError as error:
            raise EventTypeError(f"event {position}: {error}", index=position) from None
        if recording.seen.missing:
            recording.seen.note_mapping(atoms)
        yield times.at_event(time_stamp, position), database


def _delay(formula: Formula, file: PolicyFile) -> int | None:
    """How far a formula looks ahead, also by way of lets; None if there is no limit."""
    reach: dict[int, int] = {}
    for node in postorder(formula):
        ahead = max((reach[id(one)] for one in node.operands), default=0)
        if node.operator is ops.PREDICATE and node.name in file.parameters:
            inner = _delay(file.lets[node.name], file)
            if inner is None:
                return None
            ahead = max(ahead, inner)
        if node.operator.is_temporal and not node.operator.is_past:
            if node.interval is None or node.interval.upper is None:
                return None
            ahead += node.interval.upper
        reach[id(node)] = ahead
    return reach[id(formula)]
