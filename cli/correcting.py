"""Monitor a text log whose lines may come late, and correct verdicts: a changelog."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.arrays.native import EventColumns
from mtlmon.cli.failure import Failure, note
from mtlmon.cli.files import open_log, open_verdicts
from mtlmon.cli.late_rows import late_file, length_units, note_refused
from mtlmon.cli.pump import Pump, TextWork
from mtlmon.cli.report import absent_atoms, name_list, plural, progress_for, table
from mtlmon.cli.running import run_to_end
from mtlmon.cli.signals import Signals
from mtlmon.drive.native import TextEvents, policy_label
from mtlmon.history.history import History
from mtlmon.text.byte_writer import ByteWriter
from mtlmon.text.native import LineOrder
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE

if TYPE_CHECKING:
    from mtlmon.cli.arguments import Options
    from mtlmon.cli.late_rows import LateFile
    from mtlmon.cli.pump import EndTime
    from mtlmon.history.changes import Changes
    from mtlmon.policy import PolicyFile
    from mtlmon.syntax.formula import Formula

__all__ = ["correct_log", "require_correctable"]

# the kinds of verdicts that --verdicts selects
KINDS_OF: dict[str, list[int]] = {
    "all": [FALSE, TRUE, EQUIVALENT],
    "boolean": [FALSE, TRUE],
    "false": [FALSE],
    "none": [],
}


class Bounds(NamedTuple):
    """How late lines may be, and how long they wait, in time units."""

    lateness: int
    wait: int


def require_correctable(file: Formula | PolicyFile, options: Options) -> None:
    """Raise Failure if verdicts cannot be corrected with these policies and options.

    Args:
        file: the formula or the policies.
        options: the options of the command line.
    """
    if options.resolve:
        raise Failure(
            "--lateness does not work yet with --resolve: mtlmon resolve --changelog gives "
            "equivalences their values afterwards"
        )
    refused = {
        "tables": options.is_table,
        "--verdicts first": options.given_verdicts == "first",
        f"--output-format {options.output_format}": options.output_format != "text",
        "--rows": options.rows,
        "--context": options.has_context,
        "--explain": options.explain,
        "--report": options.report is not None,
        "--checkpoint": options.checkpoint is not None,
        "--idle": options.idle is not None,
        "--advance-every": options.advance_every is not None,
        "--time-stamps iso": options.time_stamps == "iso",
        "--fail-on-vacuous": options.fail_on_vacuous,
        "--fail-on": options.fail_on is not None,
        "--max-memory": options.max_memory is not None,
    }
    for name, is_given in refused.items():
        if is_given:
            raise Failure(
                f"--lateness does not work yet with {name}: --consistency strong, which lets rows "
                "wait, works with it"
            )
    if sole_formula(file) is None:
        raise Failure(
            "--lateness works with a single policy about the atoms of a text log so far: "
            "--consistency strong, which lets rows wait, works with all policies"
        )


def sole_formula(file: Formula | PolicyFile) -> tuple[str | None, Formula] | None:
    """The only policy of the file, with its name or None; None if it needs more than its atoms."""
    from mtlmon.syntax.formula import Formula

    if isinstance(file, Formula):
        return None, file
    (policy, *others) = file.policies
    needs_more = bool(file.predicates or file.assumptions or policy.key or policy.clock)
    if others or needs_more or policy.has_tolerance or policy.is_first_order:
        return None
    return policy.name, policy.formula


class CorrectingLoop:
    """Reads blocks of text, and writes what their events change.

    A batch is what is read at once, so a live pipe tells the changes of each line.

    Args:
        history: takes the events.
        path: the name of the log in errors.
        skip_errors: whether lines that cannot be read are skipped.
        label: what comes before each line.
        selection: the verdicts to write, one of `KINDS_OF`; a change is written if the old or the
            new verdict would be.
        late: the file for lines that come too late; None if they are only counted.
        lateness: how late a line may be, in time units.
    """

    def __init__(
        self,
        history: History,
        path: str,
        *,
        skip_errors: bool,
        label: str,
        selection: str,
        late: LateFile | None,
        lateness: int,
    ) -> None:
        self.history = history
        self.events = TextEvents(history.atoms, path=path, skip_errors=skip_errors)
        self.events.scanner.takes_late = True
        self.writer = ByteWriter()
        self.label = label
        self.kinds = KINDS_OF[selection]
        self.is_stopped = False
        self.false_count = 0
        self.revisions = 0
        self.late = late
        # It finds the text of the lines that the history refuses, by the same rule.
        self.lines = None if late is None else LineOrder(lateness)
        self._scratch = bytearray(1 << 16)

    @property
    def event_count(self) -> int:
        return self.history.counters["events"]

    def load(self, block: memoryview) -> None:
        """Take a block of text."""
        self.events.load(block)
        if self.lines is not None:
            self.lines.push(block)
            self._write_late()

    def load_end(self) -> None:
        """End the log: a last line needs no line feed."""
        self.events.load_end()
        if self.lines is not None:
            self.lines.finish()
            self._write_late()

    def unload(self) -> None:
        """Do nothing: no block is held."""

    def run(self) -> bool:
        """Take the next events; return whether there may be more."""
        times, letters = self.events.read()
        stamps = np.frombuffer(times, np.int64)
        if not len(stamps):
            return False
        words = np.frombuffer(letters, np.uint64).reshape(len(stamps), -1)
        columns = EventColumns(stamps, len(stamps))
        for word in range((len(self.history.atoms) + 63) // 64):
            columns.add_letters(len(self.history.atoms), words[:, word], word)
        self._write(self.history.push_columns(columns))
        return True

    def end(self, end_time: EndTime = None) -> None:
        """End the log, with what is known about the time after it."""
        self._write(self.history.finish(end_time))

    def _write(self, changes: Changes) -> None:
        records = changes.records
        self.revisions += int((records["operation"] != 0).sum())
        self.false_count += int((records["kind"] == FALSE).sum())
        self.false_count -= int((records["former"] == FALSE).sum())
        if not self.kinds:
            return
        if len(self.kinds) < len(KINDS_OF["all"]):
            is_chosen = np.isin(records["kind"], self.kinds)
            changes.records = records[is_chosen | np.isin(records["former"], self.kinds)]
        # the `!` begins the last field
        lines = [line if line.startswith("!@") else f"{self.label}{line}" for line in changes]
        self.writer.write("".join(f"{line}\n" for line in lines).encode())

    def _write_late(self) -> None:
        assert self.lines is not None
        assert self.late is not None
        while self.lines.take_into(self._scratch):
            pass
        if refused := self.lines.take_refused():
            self.late.write(refused)


def correct_log(file: Formula | PolicyFile, options: Options) -> int:
    """Monitor the log, correct verdicts, and return the exit status.

    Args:
        file: what `require_correctable` accepts.
        options: likewise.

    Raises:
        Failure: a file cannot be read or written, or a length of time does not fit.
        MtlmonError: a line cannot be read, or the engine has reached a limit.
    """
    policy = sole_formula(file)
    assert policy is not None
    name, formula = policy
    bounds = bounds_of(options)
    history = History(
        formula, options.mode, lateness=bounds.lateness, wait=bounds.wait, bdd=options.bdd
    )
    if history.mode != options.mode:
        what = f"the future of {name_list((name,))}" if name is not None else "the formula's future"
        note(f"{what} is unbounded: mode {options.mode} works as {history.mode} here")
    log = open_log(options.log)
    verdicts = open_verdicts(options.output, {log.name: log.status}, options.formula_files)
    loop = CorrectingLoop(
        history,
        log.name,
        skip_errors=options.on_error == "skip",
        label=policy_label(name, "text").decode(),
        selection=options.verdicts,
        late=late_file(options),
        lateness=bounds.lateness,
    )
    work = TextWork(loop, log)
    signals = Signals(verdicts)
    pump = Pump(work, verdicts, signals, progress_for(log.size, verdicts, options))

    def report(_status: int, _seconds: float) -> None:
        note_refused(history.counters["refused"], "line", options)
        scanner = loop.events.scanner
        if scanner.skipped_count:
            note(f"skipped {plural(scanner.skipped_count, 'line')} that could not be read")
        if work.is_complete and scanner.absent:
            note(absent_atoms(scanner.absent, loop.event_count, work.head.names))
        log.close()

    def summary(seconds: float) -> str:
        counters = history.counters
        rows = [
            ("events", counters["events"], ""),
            ("late", counters["late"], "events that needed corrections"),
            ("judged again", counters["replayed_events"], "events"),
            ("revisions", loop.revisions, "of verdicts"),
        ]
        if counters["refused"]:
            rows.append(("too late", counters["refused"], "lines that were not checked"))
        return table(rows, counters["events"], "events", seconds)

    return run_to_end(
        pump,
        has_violation=lambda: loop.false_count > 0,
        report=report,
        summary=summary,
        wants_summary=options.summary,
        end_time=options.end_time,
    )


def bounds_of(options: Options) -> Bounds:
    """How late lines may be, and how long they wait.

    Raises:
        Failure: a length of time does not fit the unit, or lines would wait for refused ones.
    """
    assert options.lateness is not None
    lateness = length_units(options.lateness, "--lateness", options.unit, "--unit")
    wait = 0
    if options.wait is not None:
        wait = length_units(options.wait, "--wait", options.unit, "--unit")
    if wait > lateness:
        raise Failure(
            f"--wait {options.wait} is longer than --lateness {options.lateness}: rows would wait "
            "for others that are refused"
        )
    return Bounds(lateness, wait)
