"""What the run of a policy with variables over a log has found."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict, deque
from contextlib import closing
from copy import copy
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mtlmon.relational.cells import from_cell
from mtlmon.relational.keyed import HERE
from mtlmon.relational.monitor import answer_of
from mtlmon.relational.native import PointBlock
from mtlmon.relational.running import HOLDS
from mtlmon.run.late_rows import table_order
from mtlmon.run.policies import open_table_source
from mtlmon.syntax.printer import written_name
from mtlmon.testing.judged import Judged, ReadAgain
from mtlmon.testing.relations import RelationalRecording

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.relational.plan import Plan
    from mtlmon.testing.judged import Name, Wanted
    from mtlmon.testing.log_runs import LogRun
    from mtlmon.testing.recording import Events
    from mtlmon.testing.relations import Database

__all__ = ["ValuationsJudged"]


class LogRows(ReadAgain, RelationalRecording):
    """The time-points of a trace of a log, for a policy with variables.

    Args:
        run: the run over the log.
    """

    def __init__(self, run: LogRun) -> None:
        asked = run.asked
        super().__init__(run.subject, key=run.key, at_end=asked.at_end, keep=asked.keep)
        if run.spec.log.is_table:
            self.schema = run.source.schema
            self.monitor.start(self.schema)

    def of_trace(self) -> LogRows:
        """Return the same without time-points."""
        found = copy(self)
        found._clear()
        found.numbers = deque(maxlen=self.pairs.maxlen)
        found.places = deque(maxlen=self.pairs.maxlen)
        return found

    def add(self, point: int, time_stamp: int, database: Database, place: object) -> None:
        """Add a time-point."""
        self.pairs.append((time_stamp, database))
        assert self.numbers is not None
        self.numbers.append(point)
        self._event_count += 1
        self.note(time_stamp, None, place)


class ValuationsJudged(Judged):
    """What the run of a policy with variables has found."""

    def __init__(self, run: LogRun) -> None:
        super().__init__(run)
        self._numbers: dict[tuple[str, ...], int] = {}
        self._judge = run.work.pace
        if run.key:
            self.partition = self._judge.partitions.index(run.key)

    @property
    def _check(self) -> Any:
        return self._judge.known()

    def take(self, found: Any) -> None:
        made = self._check.plan
        for policy, kind, stamp, offset, point, cells in found.take():
            if kind != HOLDS:
                answer = answer_of(made, policy, kind, stamp, offset, cells, point)
                own = self._number(answer.key), (answer.time_stamp, answer.offset)
                if not self.answers or own != self._own(self.answers[-1]):
                    self.violations.append(own)
                self.answers.append(answer)

    def _own(self, answer: Any) -> tuple[int, Name]:
        """The trace of an answer, and its time-point."""
        return self._number(answer.key), (answer.time_stamp, answer.offset)

    def _number(self, key: tuple[str, ...]) -> int:
        """The number of the trace of a key."""
        if not key:
            return 0
        table = self.run.source.key_tables[self.partition]
        for number in range(len(self._numbers), len(table)):
            self._numbers[table.key(number)] = number
        return self._numbers[key]

    @property
    def undecided(self) -> Mapping[int, Sequence[Name]]:
        return self._survey[1] if self.counts.undecided else {}

    @property
    def events(self) -> Mapping[int, int]:
        return self._survey[0]

    def counts_of(self, number: int, false: int) -> tuple[int, int, int]:
        undecided = len(self.undecided.get(number, ()))
        return self.events[number] - false - undecided, false, undecided

    @property
    def clock(self) -> int:
        return self._check.engine.clock  # type: ignore[no-any-return]

    @cached_property
    def _survey(self) -> tuple[Mapping[int, int], Mapping[int, Sequence[Name]]]:
        """How many time-points each trace has, and which are undecided."""
        (answered,) = self._check.run.answered_points
        events: Counter[int] = Counter()
        undecided: dict[int, list[Name]] = defaultdict(list)
        last: dict[int, Name] = {}
        for point, time_stamp, number in self._points():
            before = last.get(number, (-1, 0))
            last[number] = time_stamp, before[1] + 1 if before[0] == time_stamp else 0
            events[number] += 1
            if point >= answered:
                undecided[number].append(last[number])
        return events, undecided

    def _points(self) -> Iterator[tuple[int, int, int]]:
        """Read the log again: yield the number of each time-point, its time, and its trace."""
        spec, judge = self.run.spec, self._judge
        if not spec.log.is_table:
            yield from ((point, time_stamp, 0) for point, time_stamp, _, _ in self._rows())
            return
        order = table_order(spec, is_again=True)
        point, before = -1, None
        seen: set[int] = set()
        with closing(
            open_table_source(spec, (), judge.file, judge.partitions, judge.memory, order=order)
        ) as source:
            for batch in source:
                own = batch.numbers_of(self.partition) if self.run.key else None
                numbers = [0] * len(batch) if own is None else own.tolist()
                for time_stamp, number in zip(batch.time_stamps.tolist(), numbers, strict=True):
                    if time_stamp != before or spec.log.time_points == "row":
                        point += 1
                        seen.clear()
                    before = time_stamp
                    if number not in seen:
                        yield point, time_stamp, number
                    seen.add(number)

    def _rows(self) -> Iterator[tuple[int, int, Any, Any]]:
        """Read the log again: yield the time-points, their rows, and what knows their places."""
        made = self._check.plan
        points = PointBlock(array("I", made.atoms))
        point = 0
        for known in self._judge.reader()(made, points):
            for time_stamp, rows in points.take():
                yield point, time_stamp, rows, known
                point += 1

    def recordings(self, wanted: Wanted) -> dict[int, Events]:
        made = self._check.plan
        empty = LogRows(self.run)
        found = {number: empty.of_trace() for number in wanted}
        for number, recording in found.items():
            self.describe(recording, number)
            recording.wanted = wanted[number]
        for answer in self.answers:
            number, name = self._own(answer)
            if wanted.get(number) == name:
                found[number].answers.append(answer)
        traces = groupby(self._points(), lambda one: one[0]) if self.run.key else None
        for point, time_stamp, rows, known in self._rows() if self.run.can_reread else ():
            numbers = [0] if traces is None else [one[2] for one in next(traces)[1]]
            for number in numbers:
                if number in found and not found[number].is_done:
                    places = None if known is None else known.places
                    place = None if places is None else places.place_of(point)
                    found[number].add(point, time_stamp, _database(made, rows), place)
            if all(one.is_done for one in found.values()):
                break
        return dict(found)


def _database(made: Plan, rows: Any) -> Database:
    """The rows of a time-point, by the names of atoms, without the key, which is no argument."""
    found: Database = {}
    for number, cells in rows:
        atom = made.named_atoms[number]
        name = written_name(atom.name)
        if name != HERE and number not in {made.point, made.time}:
            kinds = atom.kinds[: len(atom.kinds) - len(atom.key)]
            own = zip(cells, kinds, strict=False)
            row = tuple(from_cell(*one, made.texts) for one in own)
            if row not in found.setdefault(name, []):
                found[name].append(row)
    return found
