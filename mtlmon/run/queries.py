"""The records of a relation: what `mtlmon query` writes, and `mtlmon.query` returns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mtlmon.policy import PolicyFile
from mtlmon.policy.validity.building import Relation
from mtlmon.policy.validity.declared import TableOf, reads_rows
from mtlmon.relations.declared import declared_tables
from mtlmon.relations.plan_texts import found_plan_text
from mtlmon.run.failure import RunError
from mtlmon.run.files import texts_of, verdicts_of
from mtlmon.run.policies import take_signals_from_arrow
from mtlmon.run.policy_work import unreadable
from mtlmon.run.preparing import declared_unit, parsed_policies, with_format
from mtlmon.run.recognition import format_advice
from mtlmon.run.standing_queries import is_standing, standing_records
from mtlmon.run.table_output import answer_output
from mtlmon.support.guesses import did_you_mean
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.support.option_names import PYTHON
from mtlmon.syntax.bounds import LATER
from mtlmon.syntax.report import visible
from mtlmon.tables.formats.files import table_files
from mtlmon.tables.querying import ReadNotes, evaluated, path_of, require_relation

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from mtlmon.relations.evaluation import FoundPlan
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import Log, RunSpec

__all__ = ["declaring", "records_of", "settled_for_rows"]


def declaring(policies: PolicyFile | Relation | None, options: RunSpec) -> PolicyFile:
    """Return the policies that declare relations, with the unit that options or they say.

    Args:
        policies: the file or the relation; None if the options have a text or the name of a file.
        options: what is asked for.

    Raises:
        RunError: a file cannot be read.
        FormulaError: the text is not a policy file.
    """
    if isinstance(policies, PolicyFile):
        return policies
    if policies is None:
        text = options.policies.formula
        texts = texts_of(options.policies.files) if text is None else [(text, "<policy>")]
    declared = declared_unit(options.times)
    for unit in (declared or LATER, options.log.time_unit):
        if policies is None:
            file = parsed_policies(texts, unit, options, needs_policy=False)
        else:
            file = policies.file(unit)
        if file.unit != LATER:
            break
    return file


def settled_for_rows(file: PolicyFile, options: RunSpec) -> RunSpec:
    """Let what a file says of the log be options, where these say nothing.

    Raises:
        RunError: the log on standard input is no table.
    """
    log = options.log
    settled = options.having(
        pattern=None if log.format else log.pattern or file.pattern,
        time=log.time or file.time,
        time_zone=log.time_zone or file.time_zone,
        resolution=options.times.resolution or file.unit,
    )
    settled = with_format(settled)
    if settled.log.format == "text":
        raise RunError(
            f"relations read tables, but the log is read as text: {format_advice(settled.log)}"
        )
    return settled


class RecordTable:
    """Hands the records of a relation on as batches.

    Args:
        records: the records.
    """

    def __init__(self, records: pa.Table) -> None:
        self.schema = records.schema

    def batches(self, records: pa.Table) -> Iterator[pa.RecordBatch]:
        """Return the records as batches."""
        yield from records.to_batches()


def records_of(file: PolicyFile, relation: str, options: RunSpec) -> Steps:
    """Evaluate a relation and write its records; return the exit status.

    Args:
        file: the policies that declare it.
        relation: its name.
        options: what is asked for, as `settled_for_rows` returns it.

    Raises:
        RunError: a file cannot be read or written.
        MtlmonError: the relation is invalid, or a table cannot be read.
    """
    log, tables = options.log, options.log.sources
    if options.host.takes_signals:
        take_signals_from_arrow()
    require_relation(file, relation)
    require_tables(file, relation, options)
    if is_standing(file, relation, options):
        return (yield from standing_records(file, relation, options))
    notes = ReadNotes()

    def tell(found: FoundPlan) -> None:
        text = found_plan_text(found, options.times.resolution)
        options.host.note(f"relation {visible(relation)}, {text}")

    try:
        found = evaluated(
            file,
            relation,
            tables,
            format=log.format,
            pattern=log.pattern,
            time=log.time,
            time_unit=log.time_unit,
            time_format=log.time_format,
            time_zone=log.time_zone,
            resolution=options.times.resolution,
            null_values=list(log.null_values),
            delimiter=log.delimiter,
            quote=log.quote,
            decimal=log.decimal,
            on_error=log.on_error,
            sort=options.times.sort,
            sort_memory=options.limits.sort_memory,
            max_memory=options.limits.max_memory,
            end_time=options.times.end_time,
            option_names=options.option_names,
            notes=notes,
            tell=tell if options.reporting.explain else None,
            inputs=log.inputs,
        )
        read = [*files_of(log), *inputs_of(log)]
        declared = declared_tables(file, relation)
        read += [path_of(file, one) for one in declared if not one.is_named]
        known = {one: os.stat(one) for one in read}
    except OSError as error:
        raise unreadable(error) from None
    output = answer_output(RecordTable(found), options.output)
    target = verdicts_of(options, known)
    output.put(found)
    output.close()
    target.flush(output.writer)
    target.close()
    for sentence in notes.sentences:
        options.host.note(visible(sentence))
    yield
    return 0


def require_tables(file: PolicyFile, relation: str, options: RunSpec) -> None:
    """Require that there is a log if the relation reads its rows, and that tables have known names.

    Raises:
        RunError: there is none, or no relation of the file reads a table of that name.
    """
    is_command = options.option_names is not PYTHON
    log = options.log
    if not log.sources and log.given is None and reads_rows(file.intervals, relation):
        how = "name a table, or - for standard input" if is_command else "give a table"
        raise RunError(f"relation {visible(relation)} reads the rows of a log: {how}")
    if options.times.end_time == "last" and not reads_rows(file.intervals, relation):
        raise RunError(
            f"relation {visible(relation)} reads no log, which would have a last row: give a "
            f"time-stamp, as in {'--end-time ' if is_command else 'end_time='}1700000000"
        )
    sources = [one.source for one in file.intervals.values()]
    names = [one.path for one in sources if isinstance(one, TableOf) and one.is_named]
    for name, table in log.inputs.items():
        if name not in names:
            guess = did_you_mean(name, names) or f": write rows of {name} in a relation"
            raise RunError(f"no relation reads a table called {visible(name)}{guess}")
        if table == STANDARD_STREAM:
            raise RunError(f"standard input can only be the log: name a file for {visible(name)}")


def inputs_of(log: Log) -> list[str]:
    """Return the files that are given beside the log."""
    paths = [os.fspath(one) for one in log.inputs.values() if isinstance(one, str | os.PathLike)]
    return [one.path for one in table_files(paths)] if paths else []


def files_of(log: Log) -> list[str]:
    """Return the files of a log, not the tables among them."""
    format = "lines" if log.pattern else log.format
    paths = [one for one in log.paths if one != STANDARD_STREAM]
    return [one.path for one in table_files(paths, format)] if paths else []
