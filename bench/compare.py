"""Contenders side by side on one formula and log at a time."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench import commands, pace
from bench.commands import Run, TookTooLong
from bench.contenders import CEILING, MODES, Mtlmon, reason_against
from bench.logs import empty_log
from bench.verdicts import read_verdicts, require_agreement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.contenders import Contender
    from bench.logs import Log
    from bench.report import Row

# Events of a log on which verdicts are compared before anything is timed: the most that mtlmon can
# do within the limit.
_CHECKED_EVENTS = (20_000, 2_000, 200)
# The least time of fewer runs of an empty log would depend on chance.
_LEAST_STARTS = 3
# Longer is of no use to find how fast a run was that was given up.
_MOST_SECONDS_OF_PACE = 10.0


@dataclass(frozen=True)
class Case:
    """A formula on a log.

    Attributes:
        labels: what the row of a table begins with.
    """

    labels: Row
    formula: str
    log: Log

    @property
    def title(self) -> str:
        """The labels in one line."""
        return " ".join(map(str, self.labels.values()))


@dataclass
class Comparison:
    """Runs contenders in turn, so that they share good and bad times of the machine.

    Attributes:
        contenders: in the order of the table; ratios are to the first mode of mtlmon among them.
        repeats: runs of each command.
        limit: seconds after which a run is given up.
        warm_up: so many first events count as part of the start, with all that is imported or
            made when it is first needed.
        notes: what is missing in the rows, and why.
    """

    contenders: list[Contender]
    repeats: int
    limit: float
    warm_up: int = 0
    notes: list[str] = field(default_factory=list)

    def rows(self, cases: list[Case]) -> list[Row]:
        """One row for each case and contender that can take it.

        `M events/s` is of the whole command; `ns per event` leaves out its start, `peak MB` what it
        takes without events. `CPU ns per event` counts the time of the processors instead of that
        of the clock. With a warm-up, `start ms` is what was left out. Where mtlmon reaches the
        limit, the row has the speed until it was stopped, and how many events it had done by then.
        Another contender that does has a throughput of 0, and no other figures.

        Raises BenchmarkError when a contender fails or its verdicts are not those of mtlmon.
        """
        return [row for case in cases for row in self._rows_of(case)]

    def _rows_of(self, case: Case) -> list[Row]:
        path = case.log.path()
        able = {who.name: who for who in self.contenders if self.is_able(who, case)}
        runs = in_turn(
            {name: who.command(case.formula, path) for name, who in able.items()},
            self.repeats,
            self.limit,
            self.notes,
            case.title,
        )
        medians = {name: statistics.median(run.seconds for run in runs[name]) for name in runs}
        ours = next((name for name in runs if name in MODES), None)
        rows: list[Row] = []
        for name, who in able.items():
            if name not in runs:
                rows.append({**case.labels, "contender": name, **self._pace(who, case)})
                continue
            empty = start_up(who, case.formula, self.repeats)
            warm_up = min(self.warm_up, case.log.events // 2)
            start = empty
            if warm_up:
                start = start_up(who, case.formula, self.repeats, case.log.head(warm_up))
            seconds = medians[name]
            cpu_seconds = statistics.median(run.cpu_seconds for run in runs[name])
            timed = case.log.events - warm_up
            row: Row = {
                **case.labels,
                "contender": name,
                "seconds": seconds,
                "M events/s": case.log.events / seconds / 1e6,
                "ns per event": 1e9 * (seconds - start.seconds) / timed,
                "CPU ns per event": 1e9 * (cpu_seconds - start.cpu_seconds) / timed,
            }
            if warm_up:
                row["start ms"] = 1e3 * start.seconds
            if CEILING in medians:
                row["of ceiling"] = medians[CEILING] / seconds
            if ours is not None and len(self.contenders) > 1:
                row[f"time by {ours}"] = seconds / medians[ours]
            peak = max(run.peak_bytes for run in runs[name])
            row["peak MB"] = (peak - empty.peak_bytes) / 1e6
            rows.append(row)
        return rows

    def cpu_seconds(self, case: Case) -> dict[str, float]:
        """The least time of the processors that each contender took, starts included.

        Those that cannot take the case, or reach the limit, are left out.
        """
        path = case.log.path()
        runs = in_turn(
            {
                who.name: who.command(case.formula, path)
                for who in self.contenders
                if self.is_able(who, case)
            },
            self.repeats,
            self.limit,
            self.notes,
            case.title,
        )
        return {name: min(run.cpu_seconds for run in runs[name]) for name in runs}

    def _pace(self, who: Contender, case: Case) -> Row:
        """How fast a contender was that was given up."""
        if not isinstance(who, Mtlmon):
            return {"M events/s": 0.0}
        seconds = min(self.limit, _MOST_SECONDS_OF_PACE)
        found = pace.measured(who.mode, case.formula, case.log.path(), seconds)
        self.notes.append(f"{case.title}: {who.name} {found}")
        return {
            "M events/s": found.events / found.seconds / 1e6,
            "ns per event": 1e9 * found.seconds / max(1, found.events),
            "CPU ns per event": 1e9 * found.cpu_seconds / max(1, found.events),
            "stopped after": found.events,
        }

    def is_able(self, who: Contender, case: Case) -> bool:
        """Whether the contender can monitor the formula; it must then say what mtlmon says."""
        reason = reason_against(who, case.formula, case.log)
        if reason is None:
            return not who.has_verdicts or who == Mtlmon("local") or self._agrees(who, case)
        self.notes.append(f"{who.name} left out of some rows: {reason}")
        return False

    def _agrees(self, who: Contender, case: Case) -> bool:
        """Compare verdicts on the beginning of the log; False if one is too slow even for that."""
        slow = "mtlmon"
        for events in _CHECKED_EVENTS:
            head = case.log.head(min(events, case.log.events))
            try:
                ours = commands.output(Mtlmon("local").command(case.formula, head), self.limit)
            except TookTooLong:
                continue
            try:
                theirs = commands.output(who.command(case.formula, head), self.limit)
            except TookTooLong:
                slow = who.name
                break
            require_agreement(
                read_verdicts(ours.splitlines()),
                read_verdicts(theirs.splitlines()),
                f"{who.name} on {case.formula}",
            )
            return True
        self.notes.append(f"{case.title}: {who.name} left out: {slow} is too slow for the check")
        return False


def start_up(who: Contender, formula: str, repeats: int, log: Path | None = None) -> Run:
    """What the command takes on an empty log, or on the one given, which is short.

    It is the least time of the repeats, of three at least, and the median of the peaks.
    """
    arguments = who.command(formula, log or empty_log())
    runs = [commands.run(arguments, limit=60) for _ in range(max(repeats, _LEAST_STARTS))]
    return Run(
        min(run.seconds for run in runs),
        min(run.cpu_seconds for run in runs),
        int(statistics.median(run.peak_bytes for run in runs)),
    )


def in_turn(
    commands_by_name: dict[str, list[str]],
    repeats: int,
    limit: float,
    notes: list[str],
    title: str,
) -> dict[str, list[Run]]:
    """Run the commands in turn, A B A B; those that reach the limit are left out, with a note."""
    runs: dict[str, list[Run]] = {name: [] for name in commands_by_name}
    for _ in progress(repeats, title):
        for name, arguments in commands_by_name.items():
            if name not in runs:
                continue
            try:
                runs[name].append(commands.run(arguments, limit))
            except TookTooLong:
                del runs[name]
                notes.append(f"{title}: {name} took more than {limit:g} s")
    return runs


def progress(repeats: int, what: str) -> Iterator[int]:
    """Count the repeats, and show them where someone watches."""
    for repeat in range(repeats):
        if sys.stderr.isatty():
            print(f"\r\033[K{what} {repeat + 1}/{repeats}", end="", file=sys.stderr, flush=True)
        yield repeat
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
