"""The subcommand `mtlmon analyze`: how much memory a policy file needs at most."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from mtlmon.checking.bounds import bounds_of, guessed_schema
from mtlmon.cli.checking import log_schema
from mtlmon.cli.option_groups import (
    add_machines_option,
    add_pattern_option,
    add_policy_option,
    add_unit_options,
)
from mtlmon.cli.parser import Parser, add_help_options
from mtlmon.cli.policy_files import take_policy_files
from mtlmon.cli.terminal import show
from mtlmon.engine.memory_limit import size_text
from mtlmon.errors import FormulaError
from mtlmon.policy import check_files
from mtlmon.policy.needs import looked_up_in
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.types import with_times
from mtlmon.run.failure import VIOLATION, RunError
from mtlmon.run.files import texts_of
from mtlmon.run.late_rows import length_units
from mtlmon.run.option_values import column_names, memory, wait_time
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from mtlmon.checking.bounds import Bound, FileBounds
    from mtlmon.policy import PolicyFile
    from mtlmon.syntax.durations import Duration
    from mtlmon.tables.looking_up import LookedUpRelations

__all__ = ["analyze"]

USAGE = """\
mtlmon analyze [options] FILE [TABLE]
       mtlmon analyze [options] --policy FILE [--policy FILE ...] [TABLE]"""

DESCRIPTION = """\
Say how much memory the policies and streams of a file need at most, if the log is as the file
assumes: assume rate <= 1000/s, assume rate per key <= 10/s, assume keys <= 5000.

  FILE   the policies; - for standard input
  TABLE  a table (CSV, JSON lines, Parquet, Arrow) or lines with a pattern, with the types of the
         columns: only its beginning is read. Without it, they are guessed from the expressions
"""

EPILOG = """\
examples:
  mtlmon analyze rules.mtl
  mtlmon analyze --limit 1GiB rules.mtl events.csv
  mtlmon analyze --lateness 1h rules.mtl
  mtlmon analyze --format json rules.mtl

exit status: 0 there is a bound, 1 there is none or it is above --limit, 2 an error in usage,
policies, log or writing
"""

UNLIMITED = "no limit"


class Options(argparse.Namespace):
    """The options of the command line."""

    files: list[str]
    policies: list[str]
    unit: str | None
    settings: list[tuple[str, str]]
    keys: list[list[str]]
    limit: int | None
    lateness: int | Duration | None
    id: str | None
    format: str
    pattern: str | None


def analyze(arguments: Sequence[str]) -> int:
    """Run the subcommand; return the exit status.

    Raises:
        RunError: an argument is invalid, or a file cannot be read.
        ClosedPipe: the reader of standard output has closed it.
        MtlmonError: the policies are invalid, or the log is not a table.
        SystemExit: after -h and --help.
    """
    options = parse_arguments(arguments)
    key = tuple(name for names in options.keys for name in names)
    texts = texts_of(options.policies)
    file, errors = check_files(
        texts,
        unit=options.unit,
        constants=dict(options.settings),
        key=key or None,
        needs_policy=False,
    )
    if errors:
        raise errors[0]
    source = " and ".join(name for _, name in texts)
    for policy in file.policies:
        if policy.is_first_order:
            name = f"policy {visible(policy.name)}" if policy.name else f"the policy of {source}"
            raise RunError(
                f"{name} has variables, and memory is bounded without them only: mtlmon "
                "check-policy says what such policies remember"
            )
    if file.unit is None and any(one.unit is not None for one in file.assumptions):
        raise RunError(
            f"{source} assumes a rate, but the unit of the time-stamps is not known: write unit s, "
            "or add --unit s"
        )
    if options.files:
        schema = log_schema(file, options.files[0], options.pattern or file.pattern)
        schema = with_times(file, file.environment, schema)
    else:
        schema = guessed(file, source)
    lateness = None
    if options.lateness is not None:
        lateness = length_units(options.lateness, "--lateness", file.unit, "--unit")
    elif options.id is not None:
        raise RunError("--id is about late rows: say how late they may be, as in --lateness 5m")
    looked_up = looked_up_by(file, schema, is_guessed=not options.files)
    bounds = bounds_of(file, schema, looked_up, lateness, has_ids=options.id is not None)
    total = bounds.total
    is_fine = total is not None and (options.limit is None or total <= options.limit)
    show(as_json(bounds) if options.format == "json" else as_text(bounds, file, options.limit))
    return 0 if is_fine else VIOLATION


def looked_up_by(
    file: PolicyFile, schema: pa.Schema, *, is_guessed: bool
) -> LookedUpRelations | None:
    """Return the relations in which a file looks values up, or those of queries; or None.

    Raises:
        MtlmonError: a table of one cannot be read, or a relation does not fit the columns.
    """
    if not looked_up_in(file) and (file.policies or not file.intervals):
        return None
    from mtlmon.tables.looking_up import relations_with_columns

    return relations_with_columns(file, schema, is_guessed=is_guessed)


def guessed(file: PolicyFile, source: str) -> pa.Schema:
    """Guess the types of the columns.

    Raises:
        RunError: none fit.
    """
    try:
        return guessed_schema(file)
    except FormulaError as error:
        raise RunError(
            f"the types of the columns of {source} cannot be guessed: name a table "
            f"({error.message})"
        ) from None


def as_text(bounds: FileBounds, file: PolicyFile, limit: int | None) -> str:
    """Write the bounds for people."""
    blocks = []
    if bounds.assumptions:
        blocks.append(f"assumed: {', '.join(map(str, bounds.assumptions))}\n")
    blocks += bound_texts(bounds)
    blocks.append("".join(f"{line}\n" for line in ending(bounds, limit)))
    hints = dict.fromkeys(
        kept.reason for bound in bounds.bounds for kept in bound.kept if kept.reason
    )
    hints |= dict.fromkeys(map(visible, bounds.restless))
    if hints:
        blocks.append("".join(f"hint: {hint}\n" for hint in hints))
    return "\n".join(blocks)


def bound_texts(bounds: FileBounds) -> list[str]:
    """Write each bound as lines: what it is of, then what is kept."""
    return [f"{title(bound)}\n{''.join(rows(bound))}" for bound in bounds.bounds]


def title(bound: Bound) -> str:
    """Name a stream or policy and its clock."""
    key = ", ".join(map(column_text, bound.key))
    if bound.kind == "keys":
        return f"keys: {key}"
    name = "" if bound.name is None else f" {visible(bound.name)}"
    if bound.kind == "relation":
        return f"relation{name}"
    clock = f"{bound.clock} of each {key}" if key else f"{bound.clock} of the log"
    return f"{bound.kind}{name}: {clock}"


def rows(bound: Bound) -> list[str]:
    """Write what is kept as lines with aligned columns."""
    cells = []
    for kept in bound.kept:
        of_key = f"{size(kept.per_key)} a key" if bound.key else ""
        cells.append((visible(kept.expression), kept.words, of_key, f"{size(kept.total)} in all"))
    if not cells:
        return ["  nothing is kept\n"]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            if width
        ).rstrip()
        + "\n"
        for row in cells
    ]


def ending(bounds: FileBounds, limit: int | None) -> Iterable[str]:
    """Write the sum, and compare it with the limit."""
    total = bounds.total
    if total is None:
        yield "in all: no limit"
    elif limit is None:
        yield f"in all: at most {size(total)}"
    else:
        side = "above" if total > limit else "within"
        yield f"in all: at most {size(total)}, {side} the limit of {size(limit)}"


def size(count: int | None) -> str:
    """Write a number of bytes."""
    return UNLIMITED if count is None else size_text(count)


def as_json(bounds: FileBounds) -> str:
    """Write the bounds for programs; where there is no limit, the number of bytes is null."""
    entries = [
        {
            "kind": bound.kind,
            "name": bound.name,
            "key": list(bound.key),
            "clock": bound.clock,
            "bytes_per_key": bound.per_key,
            "bytes": bound.total,
            "kept": [
                {
                    "expression": kept.expression,
                    "words": kept.words,
                    "bytes_per_key": kept.per_key,
                    "bytes": kept.total,
                    "hint": kept.reason or None,
                }
                for kept in bound.kept
            ],
        }
        for bound in bounds.bounds
    ]
    assumptions = [
        {"subject": one.subject, "limit": one.limit, "unit": one.unit} for one in bounds.assumptions
    ]
    found = {
        "bytes": bounds.total,
        "assumptions": assumptions,
        "bounds": entries,
        "hints": list(bounds.restless),
    }
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


def make_parser() -> Parser:
    """Make the parser of the arguments."""
    parser = Parser(
        prog="mtlmon analyze",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "--limit",
        type=memory,
        metavar="SIZE",
        help="exit with status 1 if the file needs more memory than this, as in 500M or 1GiB",
    )
    parser.add_argument(
        "--lateness",
        type=wait_time,
        metavar="D",
        help="add the memory that mtlmon --lateness D needs to correct verdicts",
    )
    parser.add_argument(
        "--id",
        metavar="COLUMN",
        help="with --lateness: add the ids of rows, which mtlmon --id COLUMN remembers",
    )
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="how to write the bounds (default: text)",
    )
    parser.add_argument(
        "--key",
        dest="keys",
        action="append",
        type=column_names,
        default=[],
        metavar="COLUMN[,COLUMN...]",
        help="rows with equal values in these columns form a trace of their own",
    )
    add_policy_option(parser, "FILE")
    add_unit_options(parser)
    add_machines_option(parser)
    add_pattern_option(parser)
    add_help_options(parser)
    return parser


def parse_arguments(arguments: Sequence[str]) -> Options:
    """Parse the arguments."""
    parser = make_parser()
    options = parser.read(arguments, Options())
    take_policy_files(options, parser.prog)
    if len(options.files) > 1:
        tables = ", ".join(options.files)
        parser.error(f"several tables ({tables}): name one at a time")
    if options.files == [STANDARD_STREAM]:
        parser.error("the table must be a file, not standard input")
    return options
