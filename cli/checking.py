"""The subcommand `mtlmon check-policy`: checks a policy file and explains it."""

from __future__ import annotations

import argparse
import difflib
import os
from typing import TYPE_CHECKING

from mtlmon.analysis.describe import describe
from mtlmon.cli.option_groups import (
    add_cell_options,
    add_pattern_option,
    add_policy_option,
    add_set_option,
)
from mtlmon.cli.parser import Parser, add_help_options
from mtlmon.cli.policy_files import take_policy_files
from mtlmon.cli.terminal import note, show
from mtlmon.engine.choice import SLOW, engine_of, has_time_bound
from mtlmon.errors import FormulaError, PolicyError, TableError
from mtlmon.policy import check_files
from mtlmon.policy.needs import needs_of
from mtlmon.policy.predicates.expression import column_in, typed_columns
from mtlmon.policy.predicates.kinds import OPEN
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.predicates.time_points import MEMORY
from mtlmon.policy.reading import add_parentheses
from mtlmon.policy.remarks import remarks
from mtlmon.policy.types import errors_with_columns, with_streams, with_times
from mtlmon.run.failure import CANNOT, RunError
from mtlmon.run.files import texts_of
from mtlmon.run.option_values import positive
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.syntax.bounds import UNITS
from mtlmon.syntax.printer import atom_text, name_of_rows
from mtlmon.syntax.report import visible
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from mtlmon.engine.choice import Mode
    from mtlmon.policy import Policy, PolicyFile, Predicate
    from mtlmon.policy.definitions import Relation
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational import Analysis
    from mtlmon.relational.slicing import Statistics
    from mtlmon.tables.formats.dialect import Dialect

__all__ = ["check_policy"]

USAGE = """\
mtlmon check-policy [options] FILE [LOG]
       mtlmon check-policy [options] --policy FILE [--policy FILE ...] [LOG]"""

DESCRIPTION = """\
Check a policy file and explain how it is parsed: every policy, and the atoms defined by predicates.

  FILE  the policies; - for standard input
  LOG   a table (CSV, JSON lines, Parquet, Arrow) or lines with a pattern, to check the types of
        its columns: only its beginning is read
"""

EPILOG = """\
examples:
  mtlmon check-policy rules.mtl
  mtlmon check-policy rules.mtl events.parquet
  mtlmon check-policy --policy web.mtl --policy login.mtl access.jsonl
  mtlmon check-policy --parentheses old.mtl > new.mtl

exit status: 0 no error, 2 an error in usage, policies, log or writing
"""


class Options(argparse.Namespace):
    """The options of the command line."""

    files: list[str]
    policies: list[str]
    unit: str | None
    settings: list[tuple[str, str]]
    pattern: str | None
    delimiter: str
    quote: str
    decimal: str
    null_values: list[str]
    slices: int | None
    parentheses: bool


def check_policy(arguments: Sequence[str]) -> int:
    """Run the subcommand; return the exit status.

    Raises:
        RunError: an argument is invalid, or a file cannot be read.
        ClosedPipe: the reader of standard output has closed it.
        MtlmonError: the log is not a table.
        SystemExit: after -h and --help.
    """
    options = parse_arguments(arguments)
    constants = dict(options.settings)
    if options.parentheses:
        ((text, path),) = texts_of(options.policies)
        show(add_parentheses(text, path, unit=options.unit, constants=constants))
        return 0
    file, errors = check_files(texts_of(options.policies), unit=options.unit, constants=constants)
    found = list(errors)
    schema = None
    # where files cannot be joined, only the first one could be checked with the columns
    if options.files and not (found and len(options.policies) > 1):
        from mtlmon.tables.formats.dialect import Dialect

        path, pattern = options.files[0], options.pattern or file.pattern
        dialect = Dialect(options.null_values, options.delimiter, options.quote, options.decimal)
        schema = log_schema(file, path, pattern, dialect)
        schema = with_times(file, file.environment, schema)
        found += errors_with_columns(
            file, file.environment._replace(streams={}, is_open=True), schema
        )
        order = {part.source: number for number, part in enumerate(file.files)}
        found.sort(key=lambda error: (order.get(error.source, -1), error.line, error.column))
    if not found and (analysis := first_order_analysis(file, schema)) is not None:
        found += analysis.errors or errors_with_keys(file, schema)
    # errors that do not depend on columns are found again with the columns
    by_place = {(error.source, error.line, error.column): error for error in found}
    for error in by_place.values():
        note(str(error))
    if found:
        return CANNOT
    show(explanation(file, schema, slices=options.slices))
    if file.intervals and schema is not None:
        show(plans_text(file, *written_schema(path, pattern, dialect)))
    for text in remarks(file, nullable(schema)):
        note(visible(text))
    if schema is not None:
        remark(file, schema)
    return 0


def nullable(schema: pa.Schema | None) -> Callable[[str], bool]:
    """Return a function that tells whether a column can have nulls; all can that are not known."""
    known = {} if schema is None else {field.name: field.nullable for field in schema}
    return lambda name: known.get(name, True)


def log_schema(
    file: PolicyFile,
    path: str,
    pattern: str | None = None,
    dialect: Dialect | None = None,
) -> pa.Schema:
    """Return the columns of the log and their types; of text and JSON, as a file reads them.

    Args:
        file: the policy file.
        path: the log.
        pattern: the pattern of its lines; None for a table.
        dialect: how the cells of delimited text are written; None for the default.
    """
    from mtlmon.tables.formats.schemas import OF_TEXT, schema_as_read

    schema, format = written_schema(path, pattern, dialect)
    return schema_as_read(file, schema) if format in OF_TEXT else schema


def written_schema(
    path: str, pattern: str | None, dialect: Dialect | None
) -> tuple[pa.Schema, str | None]:
    """Return the columns of a log with the types that their cells have, and the log's format.

    Args:
        path: the log.
        pattern: the pattern of its lines; None for a table.
        dialect: how the cells of delimited text are written; None for the default.
    """
    from mtlmon.support.table_formats import LINES, table_format
    from mtlmon.tables.formats.schemas import read_line_schema, read_schema

    if dialect is not None:
        dialect.check()
    try:
        if pattern is not None:
            return read_line_schema(path, pattern, dialect), LINES
        found = table_format(path)
        return read_schema(path, dialect), None if found is None else found[0]
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise RunError(f"cannot read {path}: {reason}") from None


def first_order_analysis(file: PolicyFile, schema: pa.Schema | None) -> Analysis | None:
    """Analyse what has variables; return None if nothing has."""
    policies = file.policies
    if not (file.relations or file.parameters) and not any(
        policy.is_first_order for policy in policies
    ):
        return None
    from mtlmon.relational import analyse

    return analyse(file, schema, has_all_columns=True)


def errors_with_keys(file: PolicyFile, schema: pa.Schema | None) -> list[FormulaError]:
    """What is wrong with policies with variables for each key, beside what is wrong without."""
    from mtlmon.relational.keyed import keyed_file

    try:
        keyed = keyed_file(file, file.key or ())
    except PolicyError as error:
        return [error]
    analysis = None if keyed is file else first_order_analysis(keyed, schema)
    return [] if analysis is None else list(analysis.errors)


def explanation(
    file: PolicyFile,
    schema: pa.Schema | None,
    mode: Mode = "local",
    slices: int | None = None,
    slice_seed: int = 0,
    statistics: Statistics | None = None,
) -> str:
    """Explain the policies as --explain-formula does, and the atoms that predicates define.

    Args:
        file: the policies.
        schema: the columns of the log, or None.
        mode: the mode of the monitor.
        slices: the number of slices to explain, or None.
        slice_seed: the seed of their hash functions.
        statistics: what is known of the log for them, or None.

    Raises:
        PolicyError: a policy with variables cannot be evaluated.
        LimitError: there are too many slices.
    """
    blocks: list[str] = []
    analysis = first_order_analysis(file, schema)
    if analysis is not None and analysis.errors:
        raise analysis.errors[0]
    for policy in file.policies:
        if policy.name is not None:
            title = f"{'Find' if policy.is_find else 'Policy'} {visible(policy.name)}"
            blocks.append(f"{title}\n{'=' * len(title)}")
            blocks += header(policy, file.unit)
        if policy.is_first_order:
            blocks.append(first_order_block(file, analysis, policy))
            if slices is not None and analysis is not None:
                planned = slices, slice_seed, statistics
                blocks.append(slices_block(file, schema, policy, *planned))
            continue
        engine = engine_of(policy.formula, mode)
        time = None if has_time_bound(policy.formula, mode) else SLOW
        blocks.append(describe(policy.formula, file.unit, engine, time))
    if analysis is not None and analysis.relations:
        lines = ["Atoms with arguments"]
        described = [
            relation_lines(file.relations[name_of_rows(name)], kinds)
            for name, kinds in analysis.relations.items()
        ]
        # policies may read the columns of an atom in several ways, or as several types
        lines += [line for one in dict.fromkeys(map(tuple, described)) for line in one]
        blocks.append("\n".join(lines))
    conditions = file.conditions
    if len(file.atoms) > len(conditions):
        lines = ["Atoms defined by predicates"]
        messages = [name for one in file.policies if one.message for name in one.message.needed]
        used = needs_of(file, file.atoms_needed, messages).atoms
        for name, predicate in file.atoms.items():
            if name in conditions:
                continue
            unused = "" if name in used else "  (in no policy)"
            lines.append(f"  {visible(atom_text(name))} = {predicate}{unused}")
            lines.append(f"    {columns_line(predicate, schema)}")
        blocks.append("\n".join(lines))
    if conditions:
        lines = ["Conditions in formulas"]
        for name in conditions:
            predicate = file.atoms[name]
            lines += [f"  {predicate}", f"    {columns_line(predicate, schema)}"]
        blocks.append("\n".join(lines))
    if file.streams:
        environment = file.environment
        if schema is not None:
            environment, _ = with_streams(
                file, environment._replace(streams={}, is_open=True), schema
            )
        lines = ["Streams"]
        for name, stream in file.streams.items():
            lines.append(f"  {visible(name)} = {stream.expression}")
            words = [type_words(environment.streams[name])]
            words += [] if stream.clock is None else [stream.clock.in_words(file.unit)]
            words += [f"{word} {written}" for word, written in stream.instances]
            lines.append(f"    {', '.join(words)}")
        blocks.append("\n".join(lines))
    if file.intervals:
        lines = [
            f"  {visible(name)} = {one.text(file.unit)}" for name, one in file.intervals.items()
        ]
        blocks.append("\n".join(["Relations (see mtlmon query)", *lines]))
    blocks += memory_block(file, schema)
    return "\n\n".join(blocks) + "\n"


def plans_text(file: PolicyFile, schema: pa.Schema, format: str | None) -> str:
    """Say by which rules relations are evaluated in another way than they are declared.

    Args:
        file: the policy file.
        schema: the columns of the log with the types that their cells have.
        format: the format of the log.
    """
    from mtlmon.relations.plan_texts import found_plan_text
    from mtlmon.tables.querying import declared_plans

    lines = [
        f"  {visible(line)}\n"
        for name, found in declared_plans(file, schema, format).items()
        if found.rules
        for line in f"{name}, {found_plan_text(found, file.unit)}".splitlines()
    ]
    heading = "\nPlans of relations (see mtlmon query --explain)\n"
    return "".join([heading, *lines]) if lines else ""


def memory_block(file: PolicyFile, schema: pa.Schema | None) -> list[str]:
    """Say what windows and streams keep, if there are any and the types of columns are known."""
    if any(policy.is_first_order for policy in file.policies):
        return []
    expressions = (predicate.expression for predicate in file.atoms.values())
    if not file.streams and not any(
        node.operator in MEMORY for expression in expressions for node in postorder(expression)
    ):
        return []
    from mtlmon.checking.bounds import bounds_of, guessed_schema
    from mtlmon.cli.analyze import bound_texts, looked_up_by

    try:
        columns = guessed_schema(file) if schema is None else schema
        looked_up = looked_up_by(file, columns, is_guessed=schema is None)
        bounds = bounds_of(file, columns, looked_up)
    except (FormulaError, TableError):
        return []
    lines = [*"".join(bound_texts(bounds)).splitlines(), *map(visible, bounds.restless)]
    return ["\n".join(["Memory, at most (see mtlmon analyze)", *(f"  {one}" for one in lines)])]


def first_order_block(file: PolicyFile, analysis: Analysis | None, policy: Policy) -> str:
    """Explain a policy with variables."""
    from mtlmon.relational import describe as describe_first_order
    from mtlmon.relational.keyed import key_of

    assert analysis is not None
    (own,) = [one for one in analysis.policies if one.policy is policy]
    key = key_of(policy, file.key or ())
    return describe_first_order(own, analysis.lets, file.unit, key, analysis.recursions)


def slices_block(
    file: PolicyFile,
    schema: pa.Schema | None,
    policy: Policy,
    slices: int,
    seed: int,
    statistics: Statistics | None,
) -> str:
    """Explain how a policy with variables is sliced."""
    from mtlmon.relational.keyed import keyed_file
    from mtlmon.relational.slicing import plan_slices
    from mtlmon.relational.slicing.words import describe_slices

    number = [one for one in file.policies if one.is_first_order].index(policy)
    keyed = keyed_file(file, file.key or ())
    analysis = first_order_analysis(keyed, schema)
    assert analysis is not None
    planned = plan_slices(keyed, analysis, slices, seed=seed, statistics=statistics)
    found = planned.policies[number]
    return "\n".join(["Slices", *(f"  {line}" for line in describe_slices(found, slices))])


def relation_lines(relation: Relation, kinds: tuple[Kind, ...]) -> list[str]:
    """Describe an atom with arguments: their types, and which rows of a table it has."""
    arguments = []
    for argument, kind in zip(relation.arguments, kinds, strict=True):
        words = "of the type of its column" if kind.name in OPEN else kind.words
        arguments.append(f"{argument.name} ({words})" if relation.is_declared else words)
    name = visible(atom_text(relation.name))
    lines = [f"  {name}({', '.join(arguments)})"]
    if relation.condition is not None:
        lines.append(f"    the rows where {relation.condition}")
    return lines


def header(policy: Policy, unit: str | None) -> list[str]:
    """What a policy says before its colon, on lines of its own.

    Args:
        policy: the policy.
        unit: the unit of time-stamps, or None if it is not known.
    """
    lines = []
    if policy.text:
        lines.append(visible(policy.text))
    if policy.key is not None:
        lines.append(f"key: {', '.join(map(column_text, policy.key)) or 'none'}")
    if policy.clock is not None:
        lines.append(f"on {policy.clock.in_words(unit)}")
    if policy.lasting is not None:
        lines.append(policy.lasting_text(unit))
    if policy.has_tolerance:
        lines.append(f"{policy.tolerance_text} violation{'' if policy.most == 1 else 's'}")
    if policy.severity is not None:
        lines.append(f"severity {visible(policy.severity)}")
    return ["\n".join(lines)] if lines else []


def type_words(kind: Kind) -> str:
    """Describe the type of a stream's values."""
    return "its type depends on the columns" if kind.name in OPEN else kind.words


def columns_line(predicate: Predicate, schema: pa.Schema | None) -> str:
    """List the columns of a predicate, with the types that it reads if these are known."""
    if not predicate.columns:
        return "no columns"
    if schema is None:
        return f"columns: {', '.join(map(column_text, predicate.columns))}"
    read = [
        (name, schema.field(column_in(schema.names, name)).type)
        for name in typed_columns(predicate.expression)
    ]
    shown = dict.fromkeys(f"{column_text(name)} ({data_type})" for name, data_type in read)
    return f"columns: {', '.join(shown)}"


def remark(file: PolicyFile, schema: pa.Schema) -> None:
    """Report atoms that neither a predicate nor a Boolean column defines."""
    import pyarrow as pa

    if file.event is not None:
        return
    known = [field.name for field in schema if field.type == pa.bool_()]
    for name in file.log_atoms:
        if name not in known and name not in file.relations:
            guesses = difflib.get_close_matches(name, [*known, *file.atoms, *file.lets], 1)
            meant = f"; did you mean {visible(atom_text(guesses[0]))}?" if guesses else ""
            note(
                f"atom {visible(atom_text(name))} is neither defined in the file nor a column of "
                f"true and false: it has to be the name of an event{meant}"
            )


def make_parser() -> Parser:
    """Make the parser of the arguments."""
    parser = Parser(
        prog="mtlmon check-policy",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    add_policy_option(parser, "FILE")
    parser.add_argument(
        "--unit",
        choices=tuple(UNITS),
        help="the unit of the log's time-stamps, if the file does not declare it",
    )
    add_set_option(parser)
    add_pattern_option(parser)
    add_cell_options(parser)
    parser.add_argument(
        "--slices",
        type=positive,
        metavar="N",
        help="show how N slices get the rows of policies with variables, too",
    )
    parser.add_argument(
        "--parentheses",
        action="store_true",
        help="print the file as version 0.2 read it, with the parentheses that formulas need now",
    )
    add_help_options(parser)
    return parser


def parse_arguments(arguments: Sequence[str]) -> Options:
    """Parse the arguments."""
    parser = make_parser()
    options = parser.read(arguments, Options())
    take_policy_files(options, parser.prog)
    if options.parentheses and (options.files or len(options.policies) > 1):
        parser.error("--parentheses takes one policy file, and no log")
    if len(options.files) > 1:
        logs = ", ".join(options.files)
        parser.error(f"several logs ({logs}): name one at a time")
    if options.files == [STANDARD_STREAM]:
        parser.error("the log must be a file, not standard input")
    return options
