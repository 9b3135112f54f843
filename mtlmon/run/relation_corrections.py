"""The run of policies with variables on a log whose rows may come late, with its checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from mtlmon.analysis.antecedent import antecedent_of
from mtlmon.checking.late_valuations import ChangedAnswers
from mtlmon.relational.vacuity import matched_by_policy
from mtlmon.run.changed_answers import TableOfAnswers
from mtlmon.run.endings import tell_untriggered
from mtlmon.run.late_work import LateWork
from mtlmon.run.relation_vacuity import never_matched
from mtlmon.run.report import plural
from mtlmon.run.snapshot_parts import damaged
from mtlmon.tables.relations import RelationRows

_Change = TypeVar("_Change")
_Change_contra = TypeVar("_Change_contra", contravariant=True)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Protocol

    from mtlmon.checking.late_valuations import ValuationCheck
    from mtlmon.relational.input.native import RowEvents
    from mtlmon.run.changed_answers import AnswerOutput
    from mtlmon.run.checkpoint import LogMark
    from mtlmon.run.endings import Untriggered
    from mtlmon.run.late_rows import LateFile
    from mtlmon.run.late_work import LateCheck, LateLines, LateOutput, RevisedOutput
    from mtlmon.run.policy_work import Source
    from mtlmon.run.revised_relation_report import RevisedRelationReport
    from mtlmon.run.spec import RunSpec

    class AnswerCheck(LateCheck, Protocol[_Change]):
        """Checks policies with variables, and perhaps others, and keeps what has changed."""

        @property
        def is_stopped(self) -> bool:
            """Whether the first violation is known, if only that is wanted."""

        @property
        def open_first(self) -> tuple[int, int] | None:
            """The first violation at the end of the log, if one before it is undecided."""

        def taken(self) -> list[_Change]:
            """Remove the changes that have not been taken out yet, and return them."""

        def all_taken(self) -> list[_Change]:
            """Remove and return all changes, although only the first violation may be wanted."""

    class AnswerOutputs(LateOutput, Protocol[_Change_contra]):
        """Writes changes."""

        def put(self, changes: Sequence[_Change_contra], /) -> None:
            """Write changes."""

    class RevisedAnswers(RevisedOutput, Protocol[_Change_contra]):
        """Takes changes for a report."""

        def take(self, changes: Sequence[_Change_contra], /) -> None:
            """Take changes."""


__all__ = ["CorrectedRelations", "RelationWork"]


class RelationWork(LateWork, Generic[_Change]):
    """Checks policies with variables, and perhaps others.

    The other arguments are those of `LateWork`.

    Args:
        answers: checks those with variables.
        events: what reads a text log; None for tables.
    """

    check: AnswerCheck[_Change]
    output: AnswerOutputs[_Change] | None
    revised: RevisedAnswers[_Change] | None

    def __init__(
        self,
        check: AnswerCheck[_Change],
        answers: ValuationCheck,
        source: Source,
        events: RowEvents | None,
        output: AnswerOutputs[_Change] | None,
        late: LateLines | LateFile | None,
        logs: Mapping[str, os.stat_result],
        options: RunSpec,
    ) -> None:
        super().__init__(check, source, output, late, logs, options)
        self.answers = answers
        self.events = events

    def fails(self) -> bool:
        if self.options.judging.fail_on_vacuous and self.never_matched():
            return True
        least = self.options.judging.fail_on
        return any(
            has_failed and policy.is_at_least(least)
            for policy, has_failed in zip(self.answers.policies, self.answers.failed, strict=True)
        )

    def never_matched(self) -> list[str]:
        """The names of the policies whose left side was never matched."""
        return never_matched(self.answers.history)

    def report_end(self) -> None:
        """Mention what the changes do not show."""
        super().report_end()
        made = self.answers.rows
        if isinstance(made, RelationRows) and made.left_out:
            rows = plural(made.left_out, "row")
            self.options.host.note(
                f"left out {rows} of atoms, because an argument is null or not a number"
            )
        if self.options.judging.fail_on_vacuous and self.is_complete:
            for name in self.never_matched():
                self.options.host.note(f"{name} was never triggered (--fail-on-vacuous)")
        if self.is_complete:
            tell_untriggered(self.untriggered(), self.options)

    def untriggered(self) -> Iterator[Untriggered]:
        """Yield the policies whose left side was never matched."""
        for number, matched in matched_by_policy(self.answers.history).items():
            policy = self.answers.policies[number]
            antecedent = antecedent_of(policy.formula)
            if not matched.times:
                left = "its left side" if antecedent is None else antecedent.formula
                yield policy, left, self.check.position

    def take(self) -> None:
        """Take the changes out of the check."""
        changes = self.check.taken()
        if self.revised is not None:
            self.revised.take(self.check.all_taken())
        if self.output is not None and changes:
            self.output.put(changes)

    @property
    def is_stopped(self) -> bool:
        return self.check.is_stopped

    def open_first(self) -> tuple[str, str] | None:
        if self.check.open_first is None:
            return None
        time_stamp, offset = self.check.open_first
        return f"{time_stamp}:{offset} is violated", "a time-point before it"

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether `snapshot` can be called: not within a batch, nor at the end."""
        return not (self.has_ended or self.check.is_within_row) and self.is_at_event

    def skip(self, mark: LogMark) -> Iterator[None]:
        if self.rows_read is not None:
            # the last event may be a late one
            largest = self.answers.history.leader.now()
            yield from self.rows_read.skip(mark, clock=largest)
            return
        yield from super().skip(mark)
        # what is wrong with the snapshot is said before anything is written
        _ = self.answers.history

    def own_parts(self) -> Sequence[bytes]:
        return [b"" if self.events is None else self.events.snapshot()]

    def restore_own(self, parts: Sequence[bytes]) -> None:
        if len(parts) != 1:
            raise damaged()
        if self.events is not None:
            self.events.restore(parts[0])

    def settings(self) -> list[tuple[str, object]]:
        return [
            *super().settings(),
            ("with other --time-points", self.options.log.time_points),
            ("with another --verdicts", self.options.judging.given_verdicts),
            (f"with{'out' if self.options.output.rows else ''} --rows", self.options.output.rows),
        ]


class CorrectedRelations(RelationWork[ChangedAnswers]):
    """Checks policies with variables only; the arguments are those of `RelationWork`."""

    check: ValuationCheck
    output: AnswerOutput | TableOfAnswers | None
    revised: RevisedRelationReport | None

    def restore_output(self, size: int) -> None:
        if isinstance(self.output, TableOfAnswers):
            self.output.size = size
            self.output.final = self.check.bounds
