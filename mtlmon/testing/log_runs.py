"""Checks files, tables and text logs: runs of policies, with the options of `mtlmon.check`.

A run finds what violates the policy. What reports show besides, the events around a time-point and
why it violates the policy, is found by reading the log again.
"""

from __future__ import annotations

import os
import warnings
from copy import copy
from typing import TYPE_CHECKING, Any

from mtlmon.checking.text_logs import TextLog
from mtlmon.errors import LogError, MtlmonError, VacuousError, VacuousWarning, ViolationError
from mtlmon.run.host import Host
from mtlmon.run.judges import Taker
from mtlmon.run.keywords import CheckOptions, LogOptions, in_python, require_consistent, spec_of
from mtlmon.run.library import advised
from mtlmon.run.preparing import adopted
from mtlmon.run.steps import require_runnable, steps_of
from mtlmon.support.extras import load_extra
from mtlmon.support.stack_levels import levels_inside
from mtlmon.testing import report
from mtlmon.testing.keys import Keys
from mtlmon.testing.limits import exceeded
from mtlmon.testing.ordering import wait_units
from mtlmon.testing.recording import require_valid
from mtlmon.testing.seen import SeenNames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from mtlmon.run.spec import RunSpec
    from mtlmon.testing.checking import Asked
    from mtlmon.testing.judged import Judged
    from mtlmon.testing.recording import Events
    from mtlmon.testing.subject import Subject

__all__ = ["LogRun"]


class _Host(Host):
    """Knows the work of a run."""

    work: Any = None
    judging: Any = None
    has_violation: Callable[[], bool]

    def note(self, message: str) -> None:
        super().note(in_python(message))

    def begin(
        self, work: Any, summary: Callable[[float], str], has_violation: Callable[[], bool]
    ) -> None:
        self.work, self.has_violation = work, has_violation

    def take_judging(self, judging: Any) -> None:
        self.judging = judging


class LogRun:
    """The run of a policy over a log.

    Args:
        subject: the policy.
        log: the path of the log, or a table.
        function: the function that is called, in errors.
        asked: what is asked of any trace.
        options: the options of logs.
        counts_keys: whether the time-points of each key are counted.

    Attributes:
        error: what has ended the run, or None.
        seen: the names that the log should have, and those that it has.
    """

    def __init__(
        self,
        subject: Subject,
        log: Any,
        function: str,
        asked: Asked,
        options: LogOptions,
        *,
        counts_keys: bool,
    ) -> None:
        __tracebackhide__ = True
        require_valid(asked.at_end, asked.keep)
        self.subject = subject
        self.asked = asked
        self.error: MtlmonError | None = None
        self._vacuity: VacuousError | None = None
        self._host = _Host()
        names = subject.key if asked.key is None else asked.key
        self.key = Keys(names).names if names else ()
        self._values: Mapping[str, Mapping[str, object]] = {}
        self._judged: Judged | None = None
        end_time = "inf" if asked.at_end == "closed" else asked.end_time
        wait = None if asked.wait is None else wait_units(asked.wait, subject.unit)
        given: dict[str, Any] = {
            "unit": subject.unit,
            "mode": asked.mode,
            "end_time": end_time,
            "wait": wait,
            "time": asked.time or subject.time,
            "vacuous": "ignore" if asked.vacuous == "ignore" else "error",
        }
        if options.get("lateness") is not None:
            # at the end of a log, corrected verdicts are those of rows that have waited
            given["consistency"] = "strong"
        spec_of(function, options, self._host, LogOptions)
        spec = spec_of(function, {**options, **given}, self._host, CheckOptions)
        self.seen = SeenNames(self._names(), asked.unknown)
        if asked.atoms is not None:
            self.seen.require(asked.atoms, "atoms= does not name", "It names")
        with advised(spec):
            self._begin(self._opened(spec, log), counts_keys)

    def _names(self) -> Sequence[str]:
        """The names that the log should have: atoms, and values of conditions."""
        subject = self.subject
        if subject.file is None:
            return subject.formula.atoms
        if subject.has_variables:
            from mtlmon.relational.atoms import used_atoms

            return used_atoms(subject.file)
        from mtlmon.testing.conditions import needed

        return needed(subject.file).names

    def _opened(self, spec: RunSpec, log: Any) -> RunSpec:
        """Let the log be that of the run."""
        if isinstance(log, (str, os.PathLike)):
            path = os.fspath(log)
            spec = spec.having(logs=[path])
            has_pattern = self.subject.file is not None and self.subject.file.pattern is not None
            if self.key and not (spec.log.is_table or has_pattern):
                raise Keys(self.key).missing_in("a text log")
            if not set(path) & set("*?["):
                # the error for a wrong path is that of the system
                os.stat(path)
            return require_consistent(spec)
        load_extra("pyarrow", "tables")
        from mtlmon.testing.columns import arrow_of, table_of, time_column

        if self.subject.has_variables:
            spec = spec.having(time=time_column(log, spec.log.time))
            table = arrow_of(log)
            self.seen.missing.clear()
        else:
            table, time = table_of(log, self.subject, self.key, spec, self.seen)
            spec = spec.having(time=time)
        self._values = {
            name: _values_of(table.column(name)) for name in self.key if name in table.column_names
        }
        return require_consistent(spec.having(tables=[table]))

    def _begin(self, spec: RunSpec, counts_keys: bool) -> None:
        """Get ready to read."""
        subject = self.subject
        policies: Any = subject.formula
        if subject.file is None:
            spec = spec.having(keys=[list(self.key)])
        else:
            policies = copy(subject.file)
            policy = copy(policies.policies[0])
            policy.key = self.key
            policies.policies = (policy,)
        file, spec = adopted(policies, spec)
        if spec.log.tables:
            (table,) = spec.log.tables
            has_event = spec.log.event in table.column_names
            spec = spec.having(pattern=None, event=spec.log.event if has_event else None)
        elif spec.log.is_table and spec.log.event is None:
            # a column that does not exist is an error
            self.seen.missing.clear()
        require_runnable(file, spec)
        verdicts = "all" if counts_keys and self.key and not subject.has_variables else "false"
        self.spec = spec.having(
            given_verdicts=verdicts,
            verdicts=verdicts,
            resolve=True,
            output_format="batches",
            taker=Taker(self._take),
        )
        self._file = file
        self._steps = steps_of(file, self.spec)

    # ---- reading -----------------------------------------------------------------------------

    def read(self, *, stops: bool) -> None:
        """Read the log.

        Args:
            stops: whether to stop once the policy has failed, whatever follows.
        """
        __tracebackhide__ = True
        stops = stops and not self.subject.has_share
        try:
            with advised(self.spec):
                while True:
                    next(self._steps)
                    if stops and self._host.has_violation():
                        break
        except StopIteration:
            self.error = self._refused()
        except VacuousError as error:
            self._vacuity = error
            self.error = self._refused()
        except MtlmonError as error:
            self.error = error.with_traceback(None)
        finally:
            self._steps.close()

    def _take(self, found: Any) -> None:
        """Take what has been found, once the work of the run is known."""
        self.judged.take(found)

    @property
    def judged(self) -> Judged:
        """What has been found."""
        if self._judged is None:
            if self.subject.has_variables:
                from mtlmon.testing.valuations import ValuationsJudged

                self._judged = ValuationsJudged(self)
            else:
                from mtlmon.testing.judged import FormulaJudged

                self._judged = FormulaJudged(self)
        return self._judged

    @property
    def work(self) -> Any:
        """What moves the log through the policy."""
        return self._host.work

    @property
    def judging(self) -> Any:
        """The policy, as the run knows it."""
        return self._host.judging

    @property
    def file(self) -> Any:
        """The policy file, or the formula."""
        return self._file

    @property
    def messages(self) -> list[str]:
        """What the run has remarked, a sentence each."""
        return list(self._host.messages)

    @property
    def source(self) -> Any:
        """The log."""
        return self.work.source

    @property
    def can_reread(self) -> bool:
        """Whether the log can be read again."""
        return not self.spec.log.has_pipe

    def _refused(self) -> MtlmonError | None:
        """The error of the first row that came too late; None if there is none."""
        if self.spec.times.late is not None:
            return None
        source = self.source
        if not isinstance(source, TextLog):
            first: MtlmonError | None = source.first_refused
            return first
        if source.order is not None and source.refused:
            return LogError(
                "this line comes too late: its time-stamp is more than the wait, "
                f"{self.asked.wait}, below the largest one so far",
                path=self.spec.log.path,
                line=source.order.lines.refused_line,
                column=1,
            )
        return None

    # ---- what comes of it --------------------------------------------------------------------

    def key_values(self, texts: Sequence[str]) -> dict[str, object]:
        """The values of a key, by the columns, of its texts."""
        return {
            name: self._values.get(name, {}).get(text, text)
            for name, text in zip(self.key, texts, strict=True)
        }

    @property
    def has_failed(self) -> bool:
        """Whether the policy is violated more often than it may be."""
        return self._host.has_violation()

    @property
    def open_numbers(self) -> list[int]:
        """The traces with time-points that must not be undecided, but are, by the first of them."""
        found = self.judged.undecided if self.asked.at_end == "decided" else {}
        return sorted(found, key=lambda number: found[number][0][0])

    def wanted(self, *, each_key: bool) -> dict[int, tuple[int, int] | None]:
        """The traces that are reported, each with its first violation; None if it has none."""
        first: dict[int, tuple[int, int]] = {}
        if self.has_failed:
            for number, name in self.judged.violations:
                first[number] = min(name, first.get(number, name))
        still_open = self.open_numbers
        if not each_key:
            earliest = sorted(first, key=lambda one: first[one])[:1]
            first = {number: first[number] for number in earliest}
            still_open = [] if first else still_open[:1]
        return {**dict.fromkeys(still_open), **first}

    def recordings(self, *, each_key: bool) -> dict[int, Events]:
        """The events of the traces of `wanted`."""
        self._note_names()
        wanted = self.wanted(each_key=each_key)
        return self.judged.recordings(wanted) if wanted else {}

    def report(self, events: Events, name: tuple[int, int] | None) -> ViolationError:
        """The report of a trace with its first violation; None if it has undecided time-points."""
        return report.undecided(events) if name is None else report.violation(events, name)

    def failure(self, events: Mapping[int, Events]) -> ViolationError | VacuousError | None:
        """Return the failure of the log, if any, and warn of what its end shows.

        Args:
            events: those of the traces of `wanted`.

        Raises:
            TraceError: an atom never occurred, and that is an error.
        """
        __tracebackhide__ = True
        wanted = self.wanted(each_key=False)
        is_vacuous = self._vacuity is not None and self.asked.vacuous == "error"
        count = self.judged.counts.events
        self.seen.finish(count, has_failed=bool(wanted) or is_vacuous)
        for number, name in wanted.items():
            if name is None:
                return report.undecided(events[number], len(self.open_numbers) - 1)
            found = self.report(events[number], name)
            policy = self.subject.policy
            if policy is None or not policy.has_tolerance:
                return found
            return exceeded(policy, *self.judged.share, found)
        if self._vacuity is None:
            return None
        message = str(self._vacuity)
        if is_vacuous:
            text = "\n\n".join([message, *report.hints(self.seen)])
            return VacuousError(text, formula=self.subject.formula)
        warnings.warn(message, VacuousWarning, stacklevel=levels_inside())
        return None

    def _note_names(self) -> None:
        """Note which names the log has had."""
        if not self.seen.missing:
            return
        self.seen.missing.intersection_update(self.source.unseen_atoms)
        self.seen.more = lambda: self.source.seen_names


def _values_of(column: pa.ChunkedArray) -> dict[str, object]:
    """The values of a key's column, by the texts that a run has for them."""
    import pyarrow as pa

    from mtlmon.arrays.canonical import canonical_texts

    try:
        values = column.unique()
        texts = canonical_texts(values)
    except pa.ArrowException:
        # the run says that such values are no keys
        return {}
    return dict(zip(texts.to_pylist(), values.to_pylist(), strict=True))
