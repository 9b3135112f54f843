"""Policies with variables in tests: a monitor that remembers its last time-points."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlmon._relational import RelationalMonitor
from mtlmon.engine.native import clock_at_end, is_end_of_time, read_atoms
from mtlmon.errors import EventTypeError, MtlmonError, TraceError
from mtlmon.policy.first_order.instances import instance_of
from mtlmon.policy.predicates.kinds import TEXT
from mtlmon.relational.analysis import parts_of, valid_analysis, valid_keyed_file
from mtlmon.relational.atoms import used_atoms
from mtlmon.relational.cells import value_text
from mtlmon.relational.monitor import atom_numbers, engine_of, point_rows
from mtlmon.relational.planning import plan
from mtlmon.relational.preparation import left_sides
from mtlmon.relational.vacuity import uncounted
from mtlmon.syntax.printer import to_text, written_name
from mtlmon.syntax.traversal import postorder
from mtlmon.testing.events import is_arrays
from mtlmon.testing.ordering import ordered
from mtlmon.testing.recording import Events
from mtlmon.testing.seen import SeenNames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import pyarrow as pa

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.limits import Triggered
    from mtlmon.relational import Answer
    from mtlmon.relational.native import PointBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.syntax.formula import Formula
    from mtlmon.testing.keys import Keys
    from mtlmon.testing.ordering import EventOrder
    from mtlmon.testing.recording import AtEnd, EndTime, Event
    from mtlmon.testing.seen import Unknown
    from mtlmon.testing.subject import Subject
    from mtlmon.testing.times import TimeReader

    Database = dict[str, list[tuple[object, ...]]]
    Found = list[tuple["RelationalRecording", Answer]]
    NumberedDatabase = tuple[int, tuple[int, Database]]

__all__ = ["RelationalRecording", "read_database", "read_events"]


class _Places(NamedTuple):
    """Where the rows of time-points are.

    Attributes:
        place_of: returns it for the number of a time-point.
    """

    place_of: Callable[[int], str | None]


class RelationalRecording(Events):
    """A monitor of a policy with variables, and its last time-points.

    With a key, one monitor is for all keys, and the recording of each has its time-points.

    Args:
        subject: a policy with variables.
        key: the names of the values that make a key; () for none.
        at_end: what the end of the stream means.
        keep: how many time-points to remember for reports; None means all.
        unknown: what to do about atoms that no time-point has, as for `SeenNames`.
        counts_left_side: whether to count how often the left side of an implication is matched.

    Attributes:
        monitor: the monitor.
        file: the policy, for one key.
        keyed_file: the policy, for all keys.
        schema: the columns of the table that the time-points are from, or None.
        answers: the violations of the first time-point that is known to have some.

    Raises:
        MtlmonError: the policy cannot be evaluated, or `at_end` or `keep` is invalid.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        key: tuple[str, ...] = (),
        at_end: AtEnd = "decided",
        keep: int | None,
        unknown: Unknown = None,
        counts_left_side: bool = False,
    ) -> None:
        __tracebackhide__ = True
        self.file = _with_key(subject, ())
        (policy,) = self.file.policies
        try:
            self.keyed_file = valid_keyed_file(_with_key(subject, key))
            self.monitor = RelationalMonitor(self.keyed_file, counts_left_sides=counts_left_side)
        except MtlmonError as error:
            raise error.with_traceback(None) from None
        seen = SeenNames(used_atoms(self.file), unknown)
        super().__init__(subject, seen, at_end=at_end, keep=keep)
        self.body = parts_of(policy, policy.formula)[0]
        self.schema: pa.Schema | None = None
        self._columns = key
        # the recordings of keys, by what the monitor calls the key
        self._of_keys: dict[str, RelationalRecording] = {}
        self._called = ""
        self._clear()

    def _clear(self) -> None:
        self.pairs = deque(maxlen=self.pairs.maxlen)
        self.answers: list[Answer] = []
        # the numbers and names of the time-points that have no verdict
        self._open: deque[tuple[int, tuple[int, int]]] = deque()
        self._last: tuple[int, int] | None = None
        self._event_count = 0
        self._violated_count = 0
        self._last_violated: int | None = None

    def of_key(self, key: Mapping[str, object]) -> RelationalRecording:
        """Return the recording of a new key, which shares the monitor.

        Args:
            key: the values of the key, by the columns.
        """
        found = copy(self)
        found._clear()
        found.key = key
        found.numbers = deque(maxlen=self.pairs.maxlen)
        # values that differ may have the same text
        found._called = str(len(self._of_keys))
        self._of_keys[found._called] = found
        return found

    @property
    def event_count(self) -> int:
        return self._event_count

    @property
    def clock(self) -> int:
        return max(super().clock, engine_of(self.monitor).clock)

    @property
    def counts(self) -> tuple[int, int, int]:
        undecided = len(self._waiting())
        true = self._event_count - self._violated_count - undecided
        return true, self._violated_count, undecided

    def _waiting(self) -> list[tuple[int, int]]:
        """The names of the time-points that have no verdict."""
        (answered,) = engine_of(self.monitor).answered_points
        while self._open and self._open[0][0] < answered:
            self._open.popleft()
        return [name for _, name in self._open]

    @property
    def matched(self) -> dict[int, Triggered]:
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
        words = uncounted(analysis, plan(self.keyed_file, analysis, counts_triggered=True))
        if words is not None:
            if option is None:
                return None
            raise MtlmonError(f"{option} {words}, or leave it out")
        return next((one.written for one in left_sides(analysis)), None)

    def step(self, time_stamp: int, database: Collection[str]) -> Found:
        """Process a time-point with the rows of atoms.

        Returns:
            The new violations, each with the recording of its key.

        Raises:
            TimeStampError: the time-stamp is negative, too large or decreasing.
            EventTypeError: a row does not have the arguments of its atom.
        """
        __tracebackhide__ = True
        assert isinstance(database, Mapping)
        key = dict.fromkeys(self._columns, self._called)
        try:
            answers = self.monitor.step(time_stamp, database, key)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, MtlmonError):
                raise
            raise EventTypeError(str(error)) from None
        offset = 0
        if self._last is not None and self._last[0] == time_stamp:
            offset = self._last[1] + 1
        self._last = time_stamp, offset
        number = engine_of(self.monitor).point_count - 1
        self._open.append((number, self._last))
        self._event_count += 1
        self.pairs.append((time_stamp, database))
        if self.numbers is not None:
            self.numbers.append(number)
        if self.seen.missing:
            self.seen.note([name for name, rows in database.items() if rows])
        return self._noted(answers)

    def advance(self, time_stamp: int) -> Found:
        """Declare that no later time-point is below a time-stamp; return the new violations."""
        is_later = time_stamp > self.clock
        answers = self.monitor.advance(time_stamp)
        if self.pairs and is_later:
            self.end_time = time_stamp - 1
        return self._noted(answers)

    def finish(self, end_time: EndTime = None) -> Found:
        """End the stream; return the new violations, and store in `undecided` what stays open.

        The arguments and errors are those of `Recording.finish`.
        """
        answers: list[Answer] = []
        engine = engine_of(self.monitor)
        if engine.point_count:
            following = clock_at_end(engine.clock, self._note_end(end_time))
            if is_end_of_time(following):
                answers = self.monitor.finish()
            elif following:
                answers = self.monitor.advance(following)
        found = self._noted(answers)
        for one in (self, *self._of_keys.values()):
            one.end_time = self.end_time
            one.undecided = one._waiting()
        return found

    def letter(self, atoms: Collection[str]) -> frozenset[str]:
        """The rows of a time-point, as in a log."""
        assert isinstance(atoms, Mapping)
        kinds = {written_name(one.name): one.kinds for one in self.monitor.plan.named_atoms}
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

        # this is the policy for one key, whose time-points have numbers of their own
        analysis = valid_analysis(self.file, self.schema)
        (policy,) = plan(self.file, analysis).named_policies
        numbers = range(self._event_count) if self.numbers is None else self.numbers
        place = self.place
        places = None if place is None else _Places(lambda number: place(numbers[number]))

        def read(made: Plan, points: PointBlock) -> Iterator[Known]:
            atoms = atom_numbers(made)
            for time_stamp, database in self.pairs:
                assert isinstance(database, Mapping)
                points.add(time_stamp, point_rows(made, atoms, database))
                yield Known(places)

        point = numbers.index(answer.point)
        values = tuple(answer.valuation.values())
        violation = Violation(answer.time_stamp, answer.offset, 0, point, values)
        explainer = Explainer(self.file, analysis, read, self._known_end())
        (explained,) = explainer.explain([violation])
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

    def _known_end(self) -> EndTime:
        """What is known about the time after the last time-point, as events of other keys come."""
        passed = self.clock - 1
        if self.end_time == "inf" or not self.pairs or passed < self.pairs[-1][0]:
            return self.end_time
        return passed

    def _noted(self, answers: list[Answer]) -> Found:
        found: Found = []
        for answer in answers:
            recording = self._of_keys[answer.key[0]] if self._columns else self
            named = answer._replace(key=tuple(map(str, recording.key.values())))
            recording._note(named)
            found.append((recording, named))
        return found

    def _note(self, answer: Answer) -> None:
        if answer.point != self._last_violated:
            self._last_violated = answer.point
            self._violated_count += 1
        if not self.answers or answer.point == self.answers[0].point:
            self.answers.append(answer)


def _with_key(subject: Subject, key: tuple[str, ...]) -> PolicyFile:
    """Return the file of a policy that has a key, and no other."""
    assert subject.file is not None
    found = copy(subject.file)
    (policy,) = found.policies
    policy = copy(policy)
    policy.key = key
    found.policies = (policy,)
    return found


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
    times: TimeReader,
    keys: Keys | None = None,
    order: EventOrder[Any] | None = None,
) -> Iterator[NumberedDatabase]:
    """Return the time-points of a trace, with the rows of atoms and the numbers of their keys.

    Args:
        recording: the policy.
        trace: pairs as for `mtlmon.testing.check`.
        times: reads times that are no integers.
        keys: the keys, which are given numbers; None if the number is always 0.
        order: puts the events into the order of time; None if they are in order.

    Raises:
        TraceError: the trace has another form.
    """
    __tracebackhide__ = True
    if hasattr(trace, "dtype") or not isinstance(trace, Iterable) or is_arrays(trace):
        raise TraceError(
            "arrays and other values without names have no arguments: pass pairs (time_stamp, "
            "rows), such as (3, {'publish': [('alice', 'report')]}), a table or the path of a log"
        )
    pairs = _pairs(recording, trace, times, keys)
    return pairs if order is None else ordered(pairs, order, lambda one: one[1][0])


def _pairs(
    recording: RelationalRecording, pairs: Iterable[Any], times: TimeReader, keys: Keys | None
) -> Iterator[NumberedDatabase]:
    __tracebackhide__ = True
    number = 0
    for position, pair in enumerate(pairs):
        try:
            time_stamp, atoms = pair
        except (TypeError, ValueError):
            raise TraceError(
                f"event {position} is {pair!r}: it should be a pair (time_stamp, rows)"
            ) from None
        try:
            if keys is not None:
                number, atoms = keys.split(atoms)
            database = read_database(atoms, recording.seen.atoms)
        except EventTypeError as error:
            raise EventTypeError(f"event {position}: {error}", index=position) from None
        if recording.seen.missing:
            recording.seen.note_mapping(atoms)
        yield number, (times.at_event(time_stamp, position), database)


def _delay(formula: Formula, file: PolicyFile, within: tuple[str, ...] = ()) -> int | None:
    """How far a formula looks ahead, also by way of lets; None if there is no limit.

    Args:
        formula: the formula.
        file: the policies.
        within: the lets that the formula is part of; they use themselves at earlier time-points.
    """
    reach: dict[int, int] = {}
    for node in postorder(formula):
        ahead = max((reach[id(one)] for one in node.operands), default=0)
        if node.name in file.parameters and node.name not in within:
            inner = _delay(file.lets[node.name], file, (*within, node.name))
            if inner is None:
                return None
            ahead = max(ahead, inner)
        if node.operator.is_temporal and not node.operator.is_past:
            if node.interval is None or node.interval.upper is None:
                return None
            ahead += node.interval.upper
        reach[id(node)] = ahead
    return reach[id(formula)]
