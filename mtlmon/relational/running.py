"""Moves time-points through the engine of first-order policies, and its answers to an output."""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

from mtlmon.engine.native import MemoryLimit, clock_at_end, is_end_of_time
from mtlmon.errors import MtlmonError, RowError
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.relational.native import AnswerBlock, RelationalEngine
from mtlmon.relational.output.native import FirstAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.relational.slicing.engine import Engine

    class KeyPoints(Protocol):
        """Gives answers the names that time-points have among those of their key."""

        @property
        def held_bytes(self) -> int: ...
        def name(self, answers: AnswerBlock, *, has_holding: bool) -> None: ...
        def forget(self, count: int) -> None: ...

    EndTime = int | Literal["last", "inf"] | None
    Wanted = Literal["all", "boolean", "false", "first", "none"]

    class AnswerOutput(Protocol):
        """Takes answers."""

        def put(self, answers: AnswerBlock, /) -> None:
            """Take the answers out of the block."""


__all__ = ["HOLDS", "HOLDS_FOR", "VIOLATED", "RelationalRun"]

VIOLATED = 0
"""The kind of an answer with values that violate a policy."""
HOLDS = 1
"""The kind of an answer of a policy that nothing violates; it has no values."""
HOLDS_FOR = 3
"""The kind of an answer of a policy that nothing violates for a key, whose values come first."""


class RelationalRun:
    """The engine and the output of a run.

    A source adds time-points to `engine.points`; `advance` takes them in.

    Args:
        engine: a new engine.
        output: takes the answers.
        verdicts: which answers are wanted. With "first", those of the first time-point with a
            violation; `is_stopped` is set once it is known.
        memory: the memory limit of the run.
        has_others: whether there are other policies. With "first", the matches of a `find` count
            only if it is alone, and `emit_first` hands over the answers of the first violation, if
            that is the first of all.

    Attributes:
        is_stopped: whether no more answers are wanted.
        answered_points: for each policy, how many time-points of the log are answered.
        found_points: for each policy, how many have a violation or match.
        names: gives answers the names of time-points of keys; None if no policy has a key.
    """

    names: KeyPoints | None = None

    def __init__(
        self,
        engine: Engine,
        output: AnswerOutput,
        *,
        verdicts: Wanted = "false",
        memory: MemoryLimit | None = None,
        has_others: bool = False,
    ) -> None:
        self.engine = engine
        self.is_stopped = False
        self._has_others = has_others
        self._output = output
        self._memory = MemoryLimit() if memory is None else memory
        self._first: FirstAnswers | None = None
        # The number of a time-point whose answers are left out, and the policies that found some.
        self._added: int | None = None
        self._clock_before = 0
        self._found_at_added: set[int] = set()
        policies = engine.plan.named_policies
        self._widths = array("I", [len(one.variables) for one in policies])
        if verdicts == "first":
            finds = [one.is_find for one in policies]
            self._first = FirstAnswers(self._widths, finds, has_others=has_others)
            # counts are those up to the event that decides
            engine.pauses_at_found = True
        engine.wants_holding = verdicts in {"all", "boolean", "first"}

    def advance(self, *, keeps_texts: bool = False) -> None:
        """Take in the time-points, and hand over what they answer.

        Args:
            keeps_texts: whether texts keep their numbers, because answers or rows that are not
                among the time-points yet have some.

        Raises:
            MtlmonError: integers overflow, or an operator would remember too much. What was
                answered before has been handed over.
        """
        if self.engine.is_closed:
            return
        while not self.is_stopped:
            self._advance(keeps_texts=keeps_texts)
            if not len(self.engine.points):
                return
        self.engine.points.take()

    def _advance(self, *, keeps_texts: bool) -> None:
        """Take in time-points, at least one if there are any, and hand over the answers."""
        has_first = self._first is not None and self._first.has_candidate
        self.engine.pauses = has_first
        self.engine.keeps_texts = keeps_texts or has_first
        self._do(self.engine.advance)
        self._memory.note("operators", self.engine.held_bytes)
        of_names = 0 if self.names is None else self.names.held_bytes
        self._memory.note("keys", self.engine.texts.memory + of_names)
        self._memory.check()

    def settle(self) -> None:
        """Hand over what the time-points answer, where the engine has not taken in all of them.

        Raises:
            MtlmonError: as `advance`.
        """
        if not isinstance(self.engine, RelationalEngine):
            self._do(self.engine.settle)

    def _do(self, work: Callable[[], None]) -> None:
        """Let the engine work, and hand over the answers."""
        try:
            work()
        except RowError as error:
            place = f"{self.engine.clock}, time-point {self.engine.point_count - 1} of the log"
            raise MtlmonError(f"at time-stamp {place}: {error.reason}") from None
        finally:
            self._deliver()

    def pass_time(self, time_stamp: int) -> None:
        """Declare that no later time-point is below a time, after all time-points were taken in.

        Answers come in the order in which time decides them, and do not depend on how many calls
        it takes to get to a time.

        Args:
            time_stamp: the time, which is above the last time-point.
        """
        while self.engine.clock < time_stamp and not self.is_stopped:
            self._do(partial(self.engine.end, self.next_due(time_stamp), False))

    def next_due(self, limit: int) -> int:
        """Return a time before which time alone brings no answer, up to a limit.

        Args:
            limit: the limit, which is above the clock; so is the time.
        """
        self.settle()
        due = self.engine.next_due()
        return limit if due is None else min(max(due, self.engine.clock + 1), limit)

    def end(self, end_time: EndTime) -> None:
        """End the log.

        Args:
            end_time: what is known about the time after it.
        """
        self.settle()
        if not self.engine.point_count:
            return
        clock = self.engine.clock
        following = clock_at_end(clock, end_time)
        try:
            if is_end_of_time(following):
                self.engine.end(clock, True)
            elif following:
                self.engine.end(following, False)
        finally:
            self._deliver()

    def end_with_point(self) -> None:
        """End the log with a time-point that has no rows and the largest time-stamp.

        What it decides about others is handed over; its own answers are left out.
        """
        self.settle()
        self._added = self.engine.point_count
        self._clock_before = self.engine.clock
        self.engine.points.add(LARGEST, ())
        self.advance()

    @property
    def point_count(self) -> int:
        """The number of time-points of the log."""
        return self.engine.point_count if self._added is None else self._added

    @property
    def clock(self) -> int:
        """The last time-stamp of the log."""
        return self.engine.clock if self._added is None else self._clock_before

    @property
    def answered_points(self) -> list[int]:
        counts = self.engine.answered_points
        return counts if self._added is None else [min(one, self._added) for one in counts]

    @property
    def found_points(self) -> list[int]:
        counts = self.engine.found_points
        return [one - (number in self._found_at_added) for number, one in enumerate(counts)]

    @property
    def open_first(self) -> tuple[int, int] | None:
        """The first violation found, if one before it could still come; else None."""
        if self._first is None or self._first.is_decided:
            return None
        return self._first.time_point

    @property
    def first_point(self) -> tuple[int, int] | None:
        """Time-stamp and offset of the first violation found, if only that is wanted; or None."""
        return None if self._first is None else self._first.time_point

    def earliest_open(self) -> tuple[int, int] | None:
        """Return time-stamp and offset of the first time-point that may be the first violation.

        It is one that is undecided, or the first violation found. None if there is neither.
        """
        self.settle()
        policies = self.engine.plan.named_policies
        points = [
            point
            for number, one in enumerate(policies)
            if not one.is_find
            for point in self.engine.waiting_points(number, 1)
        ]
        if self.first_point is not None:
            points.append(self.first_point)
        return min(points, default=None)

    @property
    def settled_points(self) -> int:
        """How many of the first time-points no answer is about that is not handed over yet."""
        return 0 if self.first_point is not None else min(self.engine.answered_points, default=0)

    def snapshot(self) -> list[bytes]:
        """Return the state for `restore`; all time-points and answers have been taken."""
        first = b"" if self._first is None else self._first.snapshot()
        return [self.engine.snapshot(), first, b"stopped" if self.is_stopped else b""]

    def restore(self, snapshot: Sequence[bytes]) -> None:
        """Continue from a snapshot of a run with the same policies and wanted answers.

        Args:
            snapshot: what `snapshot` returned. This run must be new.

        Raises:
            SnapshotError: it is no such snapshot.
        """
        engine, first, stopped = snapshot
        self.engine.restore(engine)
        if self._first is not None:
            self._first.restore(first)
        self.is_stopped = stopped == b"stopped"

    @property
    def memory(self) -> MemoryLimit:
        """How much memory is held."""
        return self._memory

    def _deliver(self) -> None:
        answers = self.engine.answers
        if self._added is not None:
            answers = self._without_added(answers)
        if self._first is not None:
            if not self._first.put(answers) or self.is_stopped:
                return
            self.is_stopped = True
            if not self._has_others:
                self.emit_first()
            return
        self._emit(answers)
        if self.names is not None:
            self.names.forget(self.settled_points)

    def emit_first(self) -> None:
        """Hand over the answers of the first violation, once that is known."""
        assert self._first is not None
        self._emit(self._first.found)

    def _emit(self, answers: AnswerBlock) -> None:
        """Hand over answers."""
        if self.names is not None:
            has_holding = self.engine.wants_holding and self._first is None
            self.names.name(answers, has_holding=has_holding)
        self._output.put(answers)

    def _without_added(self, answers: AnswerBlock) -> AnswerBlock:
        """Leave out the answers of the time-point that was added."""
        kept = AnswerBlock(self._widths)
        for answer in answers.take():
            if answer[4] != self._added:
                kept.add(*answer)
            elif answer[1] != HOLDS:
                self._found_at_added.add(answer[0])
        return kept
