"""The subcommand `mtlmon streams`: writes the values of a policy file's streams as a table."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.checking.text_logs import TextLog
from mtlmon.cli.arguments import Arguments, spec_of
from mtlmon.cli.option_groups import (
    add_cell_options,
    add_column_options,
    add_csv_option,
    add_end_option,
    add_error_option,
    add_late_options,
    add_machines_option,
    add_memory_option,
    add_pattern_option,
    add_policy_option,
    add_unit_options,
)
from mtlmon.cli.parser import Parser, add_help_options
from mtlmon.cli.plain_arguments import LOG_FORMATS
from mtlmon.cli.policy_files import take_policy_files
from mtlmon.cli.signals import Signals
from mtlmon.cli.terminal import TERMINAL, note
from mtlmon.engine.native import MemoryLimit, clock_at_end, is_end_of_time
from mtlmon.run.endings import note_skipped, note_waiting
from mtlmon.run.failure import RunError
from mtlmon.run.files import open_log, open_verdicts, texts_of
from mtlmon.run.host import Progress
from mtlmon.run.late_rows import note_refused, table_order, text_order
from mtlmon.run.option_rules import (
    check_csv_safe,
    check_text_options,
    require_no_columns,
    with_lateness,
)
from mtlmon.run.policies import assumption_watch, open_table_source, statuses
from mtlmon.run.policy_work import LogWork
from mtlmon.run.preparing import declared_policies, declared_unit
from mtlmon.run.pump import Pump
from mtlmon.run.report import absent_atoms, streams_summary
from mtlmon.run.running import finished, run_to_end
from mtlmon.run.table_output import table_output
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.support.option_names import COMMAND, COMMAND_OF_VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.checking.assumptions import AssumptionWatch
    from mtlmon.checking.text_logs import TextBatch
    from mtlmon.cli.plotting import StreamCollector
    from mtlmon.policy import PolicyFile
    from mtlmon.run.policy_work import Source
    from mtlmon.run.pump import EndTime
    from mtlmon.run.spec import RunSpec
    from mtlmon.streams.atoms import Values
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.outputs import RowOutput

    StreamOutput = StreamCollector | RowOutput[Values]

__all__ = ["write_streams"]


class StreamArguments(Arguments):
    """The arguments, with the file of the picture."""

    plot: str | None


# Look for keys to forget when there are this many, and twice as many as after the last time.
IDLE_KEYS = 1 << 16
FORGOTTEN = 2**32 - 1

USAGE = """\
mtlmon streams [options] FILE LOG...
       mtlmon streams [options] --policy FILE [--policy FILE ...] LOG..."""

DESCRIPTION = """\
Write the values of the streams that a policy file declares: a row for each row of the log and for
each tick of streams with `every`, with its time-stamp, its key and the value of each stream.

  FILE   the streams; - for standard input. Its policies are not checked, and it needs none
  LOG    CSV, JSON lines, Parquet, Arrow; files, patterns, directories; - for standard input.
         Or lines '@TIME-STAMP ATOM ATOM ...': streams of atoms and the time ts
"""

EPILOG = """\
examples:
  mtlmon streams rules.mtl events.csv
  mtlmon streams --output-format parquet -o values.parquet --key user rules.mtl 'logs/*.csv.gz'
  kafka-console-consumer ... | mtlmon streams --format jsonl rules.mtl -
  mtlmon streams rules.mtl events.log

exit status: 0 no error, 2 an error in usage, streams, log or writing
"""


def write_streams(arguments: Sequence[str]) -> int:
    """Run the subcommand; return the exit status.

    Raises:
        RunError: an argument is invalid, or a file cannot be read or written.
        ClosedPipe: the reader of the values has closed the pipe.
        MtlmonError: the streams are invalid, or a row cannot be read.
        SystemExit: after -h and --help.
    """
    plot, options = parse_arguments(arguments)
    declared = declared_unit(options.times)
    file, options = declared_policies(
        texts_of(options.policies.files),
        declared,
        options.having(unit=declared or options.log.time_unit),
        needs_policy=False,
    )
    if not options.log.is_table:
        check_text_options(options)
    require_one_key(file, options)
    names = tuple(file.streams)
    if not names:
        declare = "declare" if file.parts else "declares"
        sources = " and ".join(one.source for one in file.files)
        raise RunError(f"{sources} {declare} no streams: write stream NAME = EXPRESSION")
    memory = MemoryLimit(options.limits.max_memory, COMMAND)
    if not options.log.is_table:
        require_no_columns(file, options, of_streams=True)
    with closing(open_streams(names, file, memory, options)) as log:
        output = make_output(log, names, file, memory, options, plot)
        target = open_verdicts(options.output.path, statuses(log), options.policies.files)
        watch = assumption_watch(file, log, options.times)
        work = StreamWork(log, output, memory, watch)
        signals = Signals(target)
        return finished(
            run_to_end(
                Pump(work, target, signals, Progress(0)),
                host=TERMINAL,
                has_violation=lambda: False,
                report=lambda _, __: report_end(log, options),
                summary=lambda seconds: streams_summary(
                    log, memory, seconds, watch, work.forgotten
                ),
                wants_summary=options.reporting.summary,
                end_time=options.times.end_time,
            )
        )


def open_streams(
    names: Sequence[str], file: PolicyFile, memory: MemoryLimit, options: RunSpec
) -> Source:
    """Open the log with the values of streams.

    Raises:
        RunError: the log cannot be read.
        MtlmonError: the options are contradictory or unknown.
    """
    if options.log.is_table:
        return open_table_source(
            options,
            (),
            file,
            [options.log.key_columns],
            memory,
            streams=names,
            order=table_order(options),
        )
    from mtlmon.tables.text_atoms import text_streams

    order = text_order(options)
    if order is not None:
        order.memory = memory
    log = open_log(options.log.path, options.log.input)
    streams = text_streams(
        file, (), file.unit, log.name, values=names, on_error=options.log.on_error, memory=memory
    )
    return TextLog(
        log,
        streams.atoms.log_atoms,
        skip_errors=options.log.on_error == "skip",
        memory=memory,
        streams=streams,
        order=order,
    )


def require_one_key(file: PolicyFile, options: RunSpec) -> None:
    """Raise RunError if policy files divide the log in different ways."""
    if not file.has_one_key and not options.log.keys:
        first, other = next(
            (file.parts[0], one) for one in file.parts if one.key != file.parts[0].key
        )
        keys = [
            f"{one.source} has {'the key ' + ', '.join(one.key) if one.key else 'no key'}"
            for one in (first, other)
        ]
        raise RunError(f"{' and '.join(keys)}: values have one key, add --key COLUMN")


def report_end(log: Source, options: RunSpec) -> None:
    """Mention what the values do not show."""
    note_skipped(log, TERMINAL)
    note_refused(log.refused, log.row_name, options)
    if isinstance(log, TextLog) and log.unseen_atoms:
        note(absent_atoms(log.unseen_atoms, log.rows, lambda: log.seen_names))
    note_waiting(log.waiting_rows, log.row_name, TERMINAL)


def make_output(
    source: Source,
    names: Sequence[str],
    file: PolicyFile,
    memory: MemoryLimit,
    options: RunSpec,
    plot: str | None,
) -> StreamOutput:
    """Return the converter of values to bytes, or to a picture.

    Raises:
        RunError: the output is binary, but would go to a terminal.
    """
    from mtlmon.tables.stream_values import StreamTable

    table, times = StreamTable(names), None
    if not isinstance(source, TextLog):
        times = source.times
        keys = source.partitions[0], source.keys
        table = StreamTable(names, *keys, times, lambda: source.guessed_streams)
    if plot is not None:
        from mtlmon.cli.plotting import PlotOutput
        from mtlmon.run.explaining import check_file
        from mtlmon.support.extras import load_extra

        load_extra("matplotlib", "plot")
        late = options.times.late
        assert not callable(late)
        others = [*options.log.paths, *options.policies.files, options.output.path, late]
        check_file(plot, "the picture", others, statuses(source).values())
        return PlotOutput(table, names, source, times, file, plot, options, memory)
    return table_output(table, options.output)


class StreamWork(LogWork["TextBatch | EventBatch"]):
    """Reads a log, and converts the values of streams to bytes.

    Args:
        source: the log, opened with the streams.
        output: converts their values to bytes.
        memory: the limit on the memory that streams and keys hold.
        assumptions: tells which assumptions the log breaks; None if there are none.
    """

    is_stopped = False

    def __init__(
        self,
        source: Source,
        output: StreamOutput,
        memory: MemoryLimit,
        assumptions: AssumptionWatch | None,
    ) -> None:
        super().__init__(source, iter(source), assumptions, TERMINAL)
        self.log = source
        self.memory = memory
        self.output = output
        self.writer = output.writer
        self.event_count = 0
        # how often keys were forgotten that streams do not remember any more
        self.forgotten = 0
        self._most_keys = IDLE_KEYS

    def feed(self, batch: TextBatch | EventBatch) -> Iterator[None]:
        """Convert the values at the rows of a batch."""
        has_many_keys = self.has_many_keys
        if not has_many_keys:
            self.source.prepare_next()
        self.memory.check()
        self.put(batch)
        self.event_count += len(batch.time_stamps)
        if has_many_keys:
            self.forget_keys()
        yield

    def put(self, batch: TextBatch | EventBatch) -> None:
        """Convert the values at the events of a batch and before them."""
        assert batch.values is not None
        self.output.put(batch.values)

    @property
    def has_many_keys(self) -> bool:
        """Whether there are so many keys that those to forget are looked for.

        Then the next batch must not be prepared yet, as it uses the numbers that keys have then.
        """
        keys = self.log.key_tables[0]
        return keys is not None and len(keys) >= self._most_keys and self.log.can_forget_keys

    def forget_keys(self) -> None:
        """Forget the keys that streams do not remember any more."""
        keys = self.log.key_tables[0]
        assert keys is not None
        count = len(keys)
        settled = self.log.settled_traces(0, count)
        assert settled is not None
        numbers = kept_numbers(settled)
        if numbers is not None:
            self.log.keep_traces(0, numbers)
            self.forgotten += count - len(keys)
        self._most_keys = max(IDLE_KEYS, 2 * len(keys))

    def end_check(self, end_time: EndTime) -> Iterator[None]:
        """Convert the values at what only the end of the log brings; yield now and then."""
        clock = self.log.clock
        if clock is not None and end_time is not None:
            following = clock_at_end(clock, end_time)
            for batch in self.log.ticks_until(clock + 1 if following is None else following):
                self.put(batch)
                yield
            if is_end_of_time(following):
                for batch in self.log.released():
                    self.put(batch)
                    yield
        yield

    def finish(self) -> None:
        """Write the end of the file to the writer."""
        self.output.close()

    def close(self) -> None:
        """Do nothing: the log is closed by those who have opened it."""


def kept_numbers(settled: bytes) -> bytes | None:
    """Return the new numbers of the traces that are not settled, for `TableEvents.keep_traces`.

    None if more than half of them are not: then it is not worth while.
    """
    import numpy as np

    is_kept = np.frombuffer(settled, np.uint8) == 0
    if 2 * np.count_nonzero(is_kept) > len(is_kept):
        return None
    return np.where(is_kept, np.cumsum(is_kept) - 1, FORGOTTEN).astype(np.uint32).tobytes()


def make_parser() -> Parser:
    """Make the parser of the arguments."""
    parser = Parser(
        prog="mtlmon streams",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    add_options(parser)
    return parser


def parse_arguments(arguments: Sequence[str]) -> tuple[str | None, RunSpec]:
    """Parse the arguments; return the file of the picture, if one is drawn, and the options."""
    parser = make_parser()
    given = parser.read(arguments, StreamArguments())
    take_policy_files(given, parser.prog)
    options = spec_of(
        given,
        constants=dict(given.settings),
        formula_files=given.policies,
        logs=given.files,
    ).replace(option_names=COMMAND_OF_VALUES)
    check_csv_safe(parser.error, options.output)
    if not given.files:
        parser.error("no log: name one, or - for standard input")
    options = with_lateness(parser.error, options)
    if STANDARD_STREAM in given.policies and STANDARD_STREAM in given.files:
        parser.error("streams and log cannot both come from standard input")
    if given.plot is not None:
        from mtlmon.cli.plotting import plot_format

        if plot_format(given.plot) is None:
            parser.error(f"--plot writes .svg and .png, not {given.plot}")
        if options.output.path is not None:
            parser.error("--plot and -o: write the picture or the values")
    return given.plot, options


def add_options(parser: Parser) -> None:
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw values, windows and violations over time into FILE.svg or FILE.png instead",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the values to FILE")
    parser.add_argument(
        "--output-format",
        choices=("jsonl", "csv", "parquet"),
        default="jsonl",
        help="the format of the values (default: jsonl)",
    )
    add_csv_option(parser)
    parser.add_argument(
        "--format",
        choices=LOG_FORMATS,
        help="the format of the log (default: from the name, as in log.csv.gz, or from the first "
        "bytes of standard input; or else text)",
    )
    add_policy_option(parser, "FILE")
    add_pattern_option(parser)
    add_cell_options(parser)
    add_column_options(parser)
    add_unit_options(parser)
    add_machines_option(parser)
    add_late_options(parser)
    parser.add_argument("--sort", action="store_true", help="sort rows by time first")
    add_end_option(parser)
    add_error_option(parser)
    add_memory_option(parser, "streams and keys")
    parser.add_argument(
        "--summary",
        action=argparse.BooleanOptionalAction,
        help="print counts and speed to standard error (default: only if it is a terminal)",
    )
    add_help_options(parser)
