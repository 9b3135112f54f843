"""An engine that monitors a log in slices, on threads, and answers what one engine does.

It has the interface of the engine. It splits a block of time-points (`splitter`), lets threads take
the rows into one engine for each slice, and joins their answers (`joiner`) in the order in which
one engine finds them: by the number of time-points read, the policy (closed ones last) and the
time-point. All engines share one timeline, and one table of texts, which only the reader adds to.
`Slicing.whole` says which slices need all time-points.

With `is_ahead`, the next block is read and split meanwhile, and answers are joined while the slices
take in the block behind them. The thread that is the last to end with a block starts the next one
(`running`), so that slices do not wait for the reader.
"""

from __future__ import annotations

from array import array
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakMethod

from mtlmon.errors import MonitorBrokenError, MtlmonError, SnapshotError
from mtlmon.relational.native import (
    AnswerBlock,
    Joiner,
    PointBlock,
    RelationalEngine,
    Router,
    SplitBlock,
    Splitter,
    Timeline,
    forget_texts,
)
from mtlmon.relational.plan import CountedPlan
from mtlmon.relational.planning import plan
from mtlmon.relational.slicing.balance import Balance
from mtlmon.relational.slicing.moving import joined, move, parted
from mtlmon.relational.slicing.routing import routing_of
from mtlmon.relational.slicing.running import BlockRunner
from mtlmon.relational.slicing.slicer import plan_slices
from mtlmon.relational.slicing.statistics import Statistics
from mtlmon.support.processors import processor_count
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.arrays.native import KeyTable
    from mtlmon.policy import PolicyFile
    from mtlmon.relational.analysis import Analysis
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.slicing.slices import PolicySlices, Slicing
    from mtlmon.relational.slicing.statistics import RowSample

__all__ = ["Engine", "SlicedEngine"]

_Result = TypeVar("_Result")

# The new number of a text that is forgotten.
_NONE = 2**32 - 1
# What the bytes for an engine with the same slices and texts begin with.
_ALIKE = b"mtlmon slices 0\n"


class SlicedEngine:
    """Evaluates the first-order policies of a file in slices. It is used as `RelationalEngine` is.

    Time-points are split block by block, and a thread takes them into some of the slices. Then the
    answers are joined, in the order in which one engine would have found them.

    PERF: it is found out which slices get a row when it is read, and each thread copies the rows of
    its slices.

    Args:
        file: the policy file.
        analysis: what `analyse` found, without errors.
        slicing: the plan of the slices.
        threads: how many threads take in time-points; by default, one for each processor.
        rebalances: whether the slices change where others spread rows more evenly.

    Attributes:
        plan: the plan, with the variables that the policies report.
        points: takes the time-points.
        answers: the answers.
        is_ahead: whether `advance` may return before the time-points have been taken in, so that
            the next ones can be read; their answers come with a later call, or with `settle`.
        balance: finds out when other slices would spread rows more evenly.
        sample: looks at some of the rows, for statistics; None if these are not wanted.
        pauses: has no effect, as all slices take in whole blocks.
        pauses_at_found: has no effect, likewise.

    Raises:
        PolicyError: a policy cannot be evaluated.
    """

    def __init__(
        self,
        file: PolicyFile,
        analysis: Analysis,
        slicing: Slicing,
        threads: int | None = None,
        *,
        rebalances: bool = True,
    ) -> None:
        self._file = file
        self._analysis = analysis
        self.balance = Balance(file, analysis, counts_triggered=bool(slicing.lefts))
        self._own = own = _plan_of(file, analysis, slicing)
        count = slicing.policy_count
        self._constants = len(own.texts)
        self.plan: Plan = own._replace(
            named_policies=[
                one._replace(
                    variables=one.variables[: len(sliced.reported)],
                    kinds=one.kinds[: len(sliced.reported)],
                )
                for one, sliced in zip(
                    own.named_policies[:count], slicing.policies[:count], strict=True
                )
            ]
        )
        self.texts: KeyTable = own.texts
        self.keeps_texts = False
        self.is_ahead = False
        self.pauses = self.pauses_at_found = False
        self._rebalances = rebalances
        self.sample: RowSample | None = None
        # what Python computes numbers texts, which only one thread may do
        self._threads = 1 if own.functions else threads or processor_count()
        self._pool: ThreadPoolExecutor | None = None
        self._wants_holding = False
        self.slicing = slicing
        self.engines: list[RelationalEngine] = []
        self._begin_new()

    def _begin_new(self) -> None:
        """Begin where nothing has been seen."""
        self.points = PointBlock(array("I", self._own.atoms))
        self.answers = AnswerBlock(array("I", [len(one) for one in self.plan.policies]))
        self.failure: BaseException | None = None
        self.held_bytes = 0
        self._found = [0] * self.slicing.policy_count
        # how many valuations violate each policy, and match each left side behind these
        self._valuations = [0] * len(self.slicing.policies)
        # the answers of blocks, and the engine that failed at one
        self._taken: deque[tuple[list[AnswerBlock], RelationalEngine | None]] = deque()
        self._timeline = Timeline(self._own)
        self._use(self.slicing, self._made(self.slicing))

    def alike(self) -> SlicedEngine:
        """Return an engine that has seen nothing, with the same slices, settings and texts.

        Both use the same threads, so only one of them may be at work.
        """
        other = copy(self)
        other._begin_new()
        return other

    def _made(self, slicing: Slicing) -> list[RelationalEngine]:
        """New engines for slices, with the settings of the present ones."""
        engines = [
            RelationalEngine(self._own, self.texts, self._timeline) for _ in range(slicing.slices)
        ]
        for engine in engines:
            engine.keeps_texts = True
            for one in self.engines[:1]:
                engine.skips_overflows = one.skips_overflows
                engine.most_rows = one.most_rows
                engine.limit_name = one.limit_name
        return engines

    def _use(self, slicing: Slicing, engines: list[RelationalEngine]) -> None:
        """Let engines be the slices."""
        self.slicing = slicing
        self.engines = engines
        if self._rebalances:
            self.balance.begin(slicing)
        self._route()
        numbered = list(enumerate(engines))
        self.threads = count = min(self._threads, slicing.slices)
        if self._pool is None:
            # a thread begins when there is work for it
            self._pool = ThreadPoolExecutor(self._threads, "mtlmon-slices")
        parts = [numbered[k :: self._threads] for k in range(count)]
        # the memory of an engine that nobody uses any more is free at once, without a cycle
        begin, end = _weak(self._begin), _weak(self._end)
        self._runner = BlockRunner(parts, begin, end, self._pool)

    def _route(self) -> None:
        """Find out what routes are. Texts among frequent values get numbers, which are not kept."""
        self.router = Router(routing_of(self.slicing, self._own), self.texts)
        whole = self.slicing.whole(holding=self._wants_holding)
        self._splitter = Splitter(self.router, self._timeline, whole)
        # the slices take in some blocks while others are split
        self._unused: list[SplitBlock] = []
        self._split = SplitBlock(self._splitter, array("I", self._own.atoms))
        self._joiner = Joiner(self.router, self.slicing.policy_count)
        self._joiner.wants_holding = self._wants_holding
        for policy in self._policies:
            self.engines[policy.home].wants_holding = self._wants_holding
        for engine, is_whole in zip(self.engines, whole, strict=True):
            if is_whole:
                # time-points before these may have been left out
                engine.take_all()

    @property
    def _policies(self) -> Sequence[PolicySlices]:
        """The policies of the file, without the left sides that are counted."""
        return self.slicing.policies[: self.slicing.policy_count]

    @property
    def wants_holding(self) -> bool:
        """Whether time-points without violations are answered."""
        return self._wants_holding

    @wants_holding.setter
    def wants_holding(self, value: bool) -> None:
        if value != self._wants_holding:
            self._wants_holding = value
            self._route()

    @property
    def spare_texts(self) -> int:
        """How many texts that nothing needs are kept at least."""
        return self.engines[0].spare_texts

    def know_constants(self, count: int) -> None:
        """Say how many of the texts are constants, as `RelationalEngine.know_constants` does."""
        for engine in self.engines:
            engine.know_constants(count)

    @property
    def skips_overflows(self) -> bool:
        """Whether a term that overflows has no value instead."""
        return self.engines[0].skips_overflows

    @skips_overflows.setter
    def skips_overflows(self, value: bool) -> None:
        for engine in self.engines:
            engine.skips_overflows = value

    @property
    def most_rows(self) -> int:
        """How many rows a step may make at a time-point, in each slice."""
        return self.engines[0].most_rows

    @most_rows.setter
    def most_rows(self, value: int) -> None:
        for engine in self.engines:
            engine.most_rows = value

    @property
    def limit_name(self) -> str:
        """How errors call this number."""
        return self.engines[0].limit_name

    @limit_name.setter
    def limit_name(self, value: str) -> None:
        for engine in self.engines:
            engine.limit_name = value

    @property
    def overflows(self) -> int:
        """How many overflows have been skipped, in all slices."""
        return sum(engine.overflows for engine in self.engines)

    @property
    def row_counts(self) -> list[int]:
        """How many rows each slice got of those that were taken in last."""
        return self._split.row_counts

    @property
    def point_count(self) -> int:
        """How many time-points have been taken in."""
        self._finish()
        return self._last.point_count

    @property
    def clock(self) -> int:
        """No later time-point has a time-stamp below it."""
        self._finish()
        return self._last.clock

    @property
    def is_closed(self) -> bool:
        """Whether no time-point comes any more."""
        return self._timeline.is_closed

    @property
    def answered_points(self) -> list[int]:
        """For each policy the number of time-points that have been answered."""
        self._finish()
        counts = [engine.answered_points for engine in self.engines]
        return [counts[one.home][number] for number, one in enumerate(self._policies)]

    @property
    def timeline(self) -> Timeline:
        """The time-points, and when late blocks can be run."""
        return self._timeline

    def next_due(self) -> int | None:
        """Return the least clock at which time alone may bring an answer, or None."""
        self._finish()
        dues = [self._timeline.next_due()]
        dues += (
            self.engines[one.home].closed_due(number) for number, one in enumerate(self._policies)
        )
        return min((due for due in dues if due is not None), default=None)

    def waiting_points(self, policy: int, most: int) -> list[tuple[int, int]]:
        """Return time-stamp and offset of the first time-points that a policy has no answer for."""
        self._finish()
        home = self.slicing.policies[policy].home
        return self.engines[home].waiting_points(policy, most)

    @property
    def found_points(self) -> list[int]:
        """For each policy the number of time-points that violate it, or match."""
        return list(self._found)

    def advance(self) -> None:
        """Take in all time-points of `points`; what is found is in `answers` then or later.

        Raises:
            RowError: integers overflow.
            LimitError: an operator would remember too much.
        """
        self._require_sound()
        if self.is_closed:
            raise MtlmonError("the log has ended: no time-point can follow")
        if len(self.points):
            if self.sample is not None:
                self.sample.look(self.points, self._own)
            if self._rebalances and self.balance.look(self.points, self._own):
                self._rebalance()
            if self._unused:
                self._split = self._unused.pop()
            else:
                self._split = SplitBlock(self._splitter, array("I", self._own.atoms))
            self._splitter.split(self.points, self._split)
            if self._rebalances:
                self.balance.note(self._split.row_counts)
            self._run()
            self._join()
        if not self.is_ahead or self._has_many_texts:
            self.settle()

    def settle(self) -> None:
        """Wait until all time-points have been taken in; what is found is in `answers` then.

        Raises:
            RowError, LimitError: as `advance`.
        """
        self._finish()
        if self.failure is None and self._has_many_texts:
            forget_texts(self.engines, self.answers)
            self._route()

    def end(self, clock: int, is_closed: bool) -> None:
        """Say that no time-point with a time-stamp below `clock` comes, or none at all."""
        self._finish()
        self._require_sound()
        self._timeline.advance(clock, is_closed)
        for engine in self.engines:
            with suppress(Exception):
                # the engine keeps the error
                engine.end(clock, is_closed)
        self._take()
        self._join()

    def reslice(self, slicing: Slicing) -> None:
        """Go on with other slices; what the present ones remember is moved to them.

        Args:
            slicing: a plan with the same exposed variables: `plan_slices(..., exposed=...)`. All
                answers have been taken.

        Raises:
            ValueError: it has other exposed variables.
            LimitError: a slice would remember too much.
        """
        self.settle()
        self._require_sound()
        if slicing.exposed != self.slicing.exposed:
            raise ValueError("a plan of slices with other exposed variables")
        engines = self._made(slicing)
        move(self._own, self.slicing, self.engines, slicing, engines)
        self._use(slicing, engines)
        self._weigh()

    def _rebalance(self) -> None:
        """Go on with other slices if rows are spread more evenly then."""
        self._finish()
        self._require_sound()
        found = self.balance.proposal(self.slicing, self._own)
        if found is not None:
            self.reslice(found)

    def snapshot(self, *, has_texts: bool = True) -> bytes:
        """Return the state as bytes for `restore`; all answers have been taken.

        Args:
            has_texts: whether the texts, the slices and what is counted are among the bytes. If
                not, only an engine that is `alike` can go on, and it counts from there.
        """
        self._finish()
        self._require_sound()
        engines = [one.snapshot(has_texts) for one in self.engines]
        timeline = self._timeline.snapshot()
        if not has_texts:
            return _ALIKE + joined_parts([timeline, *engines])
        return joined(self.slicing, self._found, self._valuations, timeline, engines)

    def content(self) -> bytes | None:
        """Return a sum of what the slices hold, as `RelationalEngine.content` does."""
        self._finish()
        sums = [one.content() for one in self.engines]
        known = [one for one in sums if one is not None]
        return b"".join(known) if len(known) == len(sums) else None

    def restore(self, snapshot: bytes) -> None:
        """Continue from the snapshot of an engine, in whatever slices; this one must be new.

        Raises:
            SnapshotError: the bytes are not a snapshot of the same policies. The engine must not be
                used after that.
        """
        try:
            if snapshot.startswith(_ALIKE):
                self._restore_alike(snapshot)
            else:
                self._restore(snapshot)
        except SnapshotError as error:
            self.failure = error
            raise

    def _restore_alike(self, snapshot: bytes) -> None:
        timeline, *engines = split_parts(snapshot[len(_ALIKE) :])
        if len(engines) != len(self.engines):
            raise damaged()
        self._timeline.restore(timeline)
        for engine, part in zip(self.engines, engines, strict=True):
            engine.restore(part)
        self._weigh()

    def _restore(self, snapshot: bytes) -> None:
        counts = bool(self.slicing.lefts)
        saved = parted(snapshot, self._file, self._analysis, counts_triggered=counts)
        # texts get the numbers that they had
        kept = [one if one < self._constants else _NONE for one in range(len(self.texts))]
        self.texts.keep(array("I", kept).tobytes())
        if saved.slicing.exposed != self.slicing.exposed:
            self._expose(saved.slicing)
        wanted, before = self.slicing, saved.slicing
        if (wanted.slices, wanted.seed) == (before.slices, before.seed) and (
            wanted.statistics == Statistics()
        ):
            # what has become known of the log stays known
            wanted = before
        if saved.timeline is not None:
            self._timeline.restore(saved.timeline)
        engines = self._made(saved.slicing)
        for engine, part in zip(engines, saved.engines, strict=True):
            engine.restore(part)
        self._found = saved.found or engines[0].found_points
        self._valuations = saved.counts or [0] * len(wanted.policies)
        if before.digest() != wanted.digest():
            targets = self._made(wanted)
            move(self._own, before, engines, wanted, targets)
            engines = targets
        self._use(wanted, engines)
        self._weigh()

    def _expose(self, saved: Slicing) -> None:
        """Plan the slices with the exposed variables of others, before the first time-point.

        Raises:
            SnapshotError: what reads the log would have other numbers of atoms or texts then.
        """
        now = self.slicing
        slicing = plan_slices(
            self._file,
            self._analysis,
            now.slices,
            statistics=now.statistics,
            seed=now.seed,
            exposed=saved.exposed,
            counts_triggered=bool(now.lefts),
        )
        own = _plan_of(self._file, self._analysis, slicing)
        # what reads the log has numbers of atoms and texts already
        if own.named_atoms != self._own.named_atoms or (
            own.texts.snapshot() != self._own.texts.snapshot()
        ):
            raise SnapshotError(
                f"the snapshot is one of {saved.slices} slices, which split rows by other variables"
            )
        self._own = own._replace(texts=self.texts)
        self._timeline = Timeline(self._own)
        self._use(slicing, self._made(slicing))

    @property
    def counted_valuations(self) -> dict[int, tuple[int, int]]:
        """For each policy with a left side that is counted, by its number, how many valuations have
        matched that, and how many have violated the policy."""
        self._finish()
        first = self.slicing.policy_count
        return {
            left.policy: (self._valuations[number], self._valuations[left.policy])
            for number, left in enumerate(self.slicing.lefts, first)
        }

    def close(self) -> None:
        """End the threads."""
        self._runner.close()
        self._pool = None

    @property
    def _last(self) -> RelationalEngine:
        """The engine that failed first, or any engine."""
        failed = [engine for engine in self.engines if engine.failure is not None]
        return min(failed, key=lambda one: one.point_count, default=self.engines[0])

    @property
    def _has_many_texts(self) -> bool:
        if self.keeps_texts or len(self.points):
            return False
        return self.engines[0].has_many_texts

    def _require_sound(self) -> None:
        if self.failure is not None:
            raise MonitorBrokenError("the monitor stopped at an error") from self.failure

    def _run(self) -> None:
        """Let all slices take in the time-points that were split last."""
        if self.threads == 1 and not self.is_ahead:
            self._runner.run(self._split)
            return
        if self.is_ahead:
            self.texts.read_beside(True)
        self._runner.put(self._split)

    def _finish(self) -> None:
        """Wait for the slices, and join their answers."""
        self._runner.settle()
        self._join()

    def _begin(self, block: SplitBlock) -> None:
        """The slices, none of which is at work, take in a block next."""
        self._splitter.commit(block)

    def _end(self, block: SplitBlock) -> bool:
        """The slices have taken in a block; return whether they can go on."""
        self._take()
        self._unused.append(block)
        return all(engine.failure is None for engine in self.engines)

    def _take(self) -> None:
        """Take the answers of the slices, which have stopped, and find out whether one failed."""
        last = self._last
        failed = None if last.failure is None else last
        self._taken.append((self._joiner.take(self.engines), failed))
        self._weigh()

    def _weigh(self) -> None:
        """Add up what is held."""
        held = [engine.held_bytes for engine in self.engines]
        self.held_bytes = self._timeline.held_bytes + sum(held)

    def _join(self) -> None:
        """Join the answers that were taken; raise the error at which the first slice stopped."""
        joiner = self._joiner
        while self._taken:
            taken, failed = self._taken.popleft()
            counts = joiner.join(
                self.answers, taken, None if failed is None else failed.point_count
            )
            self._found = [one + more for one, more in zip(self._found, counts, strict=True)]
            both = zip(self._valuations, joiner.valuations, strict=True)
            self._valuations = [one + more for one, more in both]
            if failed is not None and failed.failure is not None:
                self.failure = failed.failure
                raise failed.failure


def _weak(method: Callable[[SplitBlock], _Result]) -> Callable[[SplitBlock], _Result]:
    """Return a function that calls a method, and does not keep its object."""
    own = WeakMethod(method)

    def call(block: SplitBlock) -> _Result:
        found = own()
        assert found is not None
        return found(block)

    return call


def _plan_of(file: PolicyFile, analysis: Analysis, slicing: Slicing) -> Plan:
    """Return the plan of a slice, in which a left side that is counted is another policy."""
    made = plan(file, analysis, prepared=slicing.prepared)
    numbers = {one.policy: number for number, one in enumerate(made.queries)}
    return made._replace(
        counted=[
            CountedPlan(left.policy, numbers[number], left.is_own, bool(left.names), left.written)
            for number, left in enumerate(slicing.lefts, slicing.policy_count)
        ]
    )


Engine = RelationalEngine | SlicedEngine
