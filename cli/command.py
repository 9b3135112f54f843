"""Runs the command, from its arguments to its exit status."""

from __future__ import annotations

import os
import sys

from mtlmon.cli.arguments import Options, parse_arguments
from mtlmon.errors import FormulaError, LogError, MtlmonError
from mtlmon.run.failure import (
    CANNOT,
    CLOSED_PIPE,
    FAULT,
    SIGNALLED,
    ClosedPipe,
    Failure,
    Interrupted,
    note,
    show,
)
from mtlmon.run.option_rules import check_text_options
from mtlmon.run.recognition import format_advice, recognise_input
from mtlmon.run.report import is_for_people
from mtlmon.support.option_names import COMMAND, COMMAND_OF_VALUES, order_advice
from mtlmon.support.standard_input import STANDARD_STREAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.support.option_names import OptionNames
    from mtlmon.syntax.formula import Formula

__all__ = ["main"]

SUBCOMMANDS = ("resolve", "latest", "check-policy", "streams", "query", "analyze", "serve")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status.

    Args:
        arguments: the arguments without the command's name; by default those of the process.
    """
    try:
        return dispatch(sys.argv[1:] if arguments is None else arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except Interrupted as interrupted:
        return SIGNALLED + interrupted.number
    except KeyboardInterrupt:
        return SIGNALLED + 2
    except ClosedPipe:
        return CLOSED_PIPE
    except LogError as error:
        given = sys.argv[1:] if arguments is None else arguments
        names = COMMAND_OF_VALUES if given[:1] == ["streams"] else COMMAND
        note(f"{error}{advice(error, names)}")
        return CANNOT
    except (Failure, MtlmonError) as error:
        note(str(error))
        return CANNOT
    except MemoryError:
        note("out of memory")
        return CANNOT
    except Exception as error:
        if os.environ.get("MTLMON_TRACEBACK", "") not in ("", "0"):
            import traceback

            traceback.print_exc()
        note(
            f"internal fault, please report it with the formula: {type(error).__name__}: "
            f"{' '.join(str(error).split())} (MTLMON_TRACEBACK=1 shows where)"
        )
        return FAULT


def advice(error: LogError, names: OptionNames) -> str:
    """Advise what to do about a line that is not in the format of text logs, or out of order.

    Args:
        error: the error.
        names: how the options are written that the subcommand has.
    """
    if error.guess is None:
        return ""
    from mtlmon.text.formats import OUT_OF_ORDER

    if error.guess is OUT_OF_ORDER:
        return order_advice(names)
    if error.guess.format is not None:
        return f": add --format {error.guess.format}"
    return f": {error.guess.advice}"


def dispatch(arguments: Sequence[str]) -> int:
    """Run the subcommand that the first word names, or monitor; return the exit status."""
    first = arguments[0] if arguments else ""
    if first == "resolve":
        from mtlmon.cli.resolving import resolve

        return resolve(arguments[1:])
    if first == "latest":
        from mtlmon.cli.latest import latest

        return latest(arguments[1:])
    if first == "check-policy":
        from mtlmon.cli.checking import check_policy

        return check_policy(arguments[1:])
    if first == "streams":
        from mtlmon.cli.streams import write_streams

        return write_streams(arguments[1:])
    if first == "query":
        from mtlmon.cli.query import query

        return query(arguments[1:])
    if first == "analyze":
        from mtlmon.cli.analyze import analyze

        return analyze(arguments[1:])
    if first == "serve":
        from mtlmon.cli.serving import serve

        return serve(arguments[1:])
    if first and not first.startswith("-") and not os.path.lexists(first):
        refuse_misspelt(first)
    return run(parse_arguments(arguments))


def refuse_misspelt(word: str) -> None:
    """Raise Failure if the first word looks like a subcommand and is not a file."""
    from mtlmon.support.guesses import nearest
    from mtlmon.support.other_words import SUBCOMMANDS as OTHERS

    meant = OTHERS.get(word.lower())
    if meant is None:
        hyphened = word.replace("_", "-").lower()
        guess = hyphened if hyphened in SUBCOMMANDS else nearest(hyphened, SUBCOMMANDS, 0.75)
        meant = guess and f"did you mean 'mtlmon {guess}'?"
    if meant is not None:
        raise Failure(f"cannot read {word}: no such file; {meant}")


def run(options: Options) -> int:
    """Do what the options ask for; return the exit status."""
    options.verdicts = options.given_verdicts or "all"
    options.for_people = False
    if options.signature is not None:
        from mtlmon.cli.monpoly import check_monpoly

        options.verdicts = options.given_verdicts or "false"
        ((text, source),) = formula_texts(options)
        return check_monpoly(text, source, options)
    if options.follow is not None and not options.explain_formula:
        follow_log(options)
    file = load_policies(options)
    settle_format(options)
    if not options.is_table:
        check_text_options(options)
    if options.is_table and options.event_separator is not None and options.event is None:
        raise Failure(
            "--event-separator needs the column of event names: add --event COLUMN "
            "(see mtlmon --help)"
        )
    if options.slice_seed is not None and options.slices is None:
        raise Failure("--slice-seed is for slices: add --slices N, or leave it out")
    if options.explain_formula:
        explain(file, options)
        return 0
    if options.lateness is not None:
        from mtlmon.run.correcting import require_correctable

        require_correctable(file, options)
    from mtlmon.syntax.formula import Formula

    if options.fail_on is not None and not isinstance(file, Formula):
        require_severities(file)
    if not isinstance(file, Formula) and any(policy.is_first_order for policy in file.policies):
        from mtlmon.run.relations import check_relations

        options.verdicts = options.given_verdicts or "false"
        if options.lateness is not None:
            from mtlmon.run.correcting_relations import correct_relations

            return correct_relations(file, options)
        options.for_people = is_for_people(options)
        return check_relations(file, options)
    if options.time_points != "row":
        raise Failure("--time-points is for policies with variables: leave it out")
    if options.max_rows is not None:
        raise Failure("--max-rows is for policies with variables: leave it out")
    if options.slices is not None:
        raise Failure("--slices is for policies with variables: leave it out")
    if options.lateness is not None:
        from mtlmon.run.correcting import correct_logs

        return correct_logs(file, options)
    options.for_people = is_for_people(options)
    policy = None if options.is_table else sole_policy(file, options)
    if policy is not None and options.output_format in ("text", "jsonl") and options.idle is None:
        # importing the native modules takes longer than parsing the formula
        from mtlmon.cli.monitoring import can_monitor, monitor_log

        name, formula = policy
        if can_monitor(name, formula, options):
            return monitor_log(name, formula, options)
    from mtlmon.run.policies import check_logs

    return check_logs(file, options)


def settle_format(options: Options) -> None:
    """Recognise the format of a log on standard input, if nothing says it.

    Raises:
        Failure: standard input cannot be read, or is compressed and not a table.
    """
    if options.explain_formula or options.logs != [STANDARD_STREAM]:
        return
    if options.format is None and options.pattern is None:
        recognise_input(options)


def follow_log(options: Options) -> None:
    """Let standard input be the file that --follow names.

    Raises:
        Failure: this is not a file, or cannot be read.
    """
    from mtlmon.cli.following import follow
    from mtlmon.run.recognition import format_of
    from mtlmon.support.table_formats import table_format

    assert options.follow is not None
    known = table_format(options.follow)
    if options.format is None and known is not None and options.pattern is None:
        options.format = known[0]

    def is_header(line: bytes) -> bool:
        return (options.format or format_of(line)) in ("csv", "tsv")

    follow(options.follow, is_header)


def load_policies(options: Options) -> Formula | PolicyFile:
    """Parse the formula or the policy file; its settings become options that are not given.

    Raises:
        Failure: the file cannot be read, or its settings do not fit the log.
        FormulaError: the text is not a formula or a policy file.
    """
    from mtlmon.syntax.parser import parse

    # the unit of time-stamps, by either option
    declared = options.unit or options.resolution
    options.unit = declared or options.time_unit
    texts = formula_texts(options)
    if len(texts) == 1 and not options.constants and not may_declare(texts[0][0]):
        text, source = texts[0]
        try:
            return parse(text, unit=options.unit, source=source)
        except FormulaError:
            # It may have conditions, which take longer to import.
            pass
    return declared_policies(texts, declared, options)


def declared_policies(
    texts: Sequence[tuple[str, str]],
    declared: str | None,
    options: Options,
    *,
    needs_policy: bool = True,
) -> PolicyFile:
    """Parse policy files; their settings become options that are not given.

    Args:
        texts: the contents of the files with their names in errors.
        declared: the unit of time-stamps that an option gives, or None.
        options: the options of the command line; their unit is the one if the files say none.
        needs_policy: whether a file without a policy is an error.

    Raises:
        Failure: the settings of a file do not fit the log.
        FormulaError: a text is not a policy file, or files contradict each other.
    """
    from mtlmon.syntax.bounds import LATER

    file = parsed_policies(texts, declared or LATER, options, needs_policy=needs_policy)
    if file.unit == LATER:
        unit = options.unit or unit_of_pattern(options.pattern or file.pattern)
        file = parsed_policies(texts, unit, options, needs_policy=needs_policy)
    adopt_settings(file, options)
    return file


def parsed_policies(
    texts: Sequence[tuple[str, str]], unit: str | None, options: Options, *, needs_policy: bool
) -> PolicyFile:
    """Parse policy files with a unit of time-stamps.

    Raises:
        FormulaError: a text is not a policy file, or files contradict each other.
    """
    constants = options.constants
    if len(texts) == 1:
        from mtlmon.policy import parse_policies

        ((text, source),) = texts
        return parse_policies(
            text, source, unit=unit, constants=constants, needs_policy=needs_policy
        )
    from mtlmon.policy import check_files

    # --key replaces the keys of the files
    key = tuple(options.key_columns) or None
    file, errors = check_files(
        texts, unit=unit, constants=constants, key=key, needs_policy=needs_policy
    )
    if errors:
        raise errors[0]
    return file


def unit_of_pattern(pattern: str | None) -> str | None:
    """Return the unit of time-stamps that a pattern implies: seconds, if times are of a calendar.

    Raises:
        MtlmonError: the pattern is for times without a year, and none is told.
    """
    if pattern is None:
        return None
    from mtlmon.support.ready_patterns import ready_pattern, split_patterns

    found = map(ready_pattern, split_patterns(pattern))
    return "s" if any(one is not None and one.time is not None for one in found) else None


def formula_texts(options: Options) -> list[tuple[str, str]]:
    """Return the texts of the formula or the policy files, and their names in errors."""
    if options.formula is None:
        from mtlmon.run.files import read_content, text_of

        options.contents = {name: read_content(name) for name in options.formula_files}
        return [(text_of(content, name), name) for name, content in options.contents.items()]
    try:
        options.formula.encode()
    except UnicodeEncodeError:
        raise Failure("the formula of -e is not UTF-8") from None
    return [(options.formula, "<formula>")]


def may_declare(text: str) -> bool:
    """Whether the text may be a policy file rather than a single formula, by a quick check."""
    import re

    keywords = "unit|let|atom|policy|find|const|stream|trigger|time|event|pattern|zone|key|assume"
    return re.search(rf"^[ \t]*(?:{keywords})[ \t]", text, re.MULTILINE) is not None


def require_severities(file: PolicyFile) -> None:
    """Raise Failure if --fail-on cannot compare the severity of a policy."""
    from mtlmon.support.severities import SEVERITIES
    from mtlmon.syntax.report import visible

    for policy in file.policies:
        if policy.severity is not None and policy.severity not in SEVERITIES:
            raise Failure(
                f"policy {visible(policy.name or '')} has severity {visible(policy.severity)}, "
                f"which --fail-on cannot compare: write {', '.join(SEVERITIES[:-1])} or "
                f"{SEVERITIES[-1]}"
            )


def adopt_settings(file: PolicyFile, options: Options) -> None:
    """Use what the file says about the log where no option says it.

    Raises:
        Failure: the file describes a table, but the log is read as text.
    """
    options.unit = file.unit
    if options.format is None:
        options.pattern = options.pattern or file.pattern
    settle_format(options)
    if not options.is_table:
        for part in file.files:
            source = part.source if file.parts else options.formula_name
            # with --key, that is what is wrong
            key = None if options.keys else part.key
            settings = {"key": key, "time": part.time, "event": part.event}
            for name, value in settings.items():
                if value and not options.explain_formula:
                    raise Failure(
                        f"{source} declares the {name} of a table, but the log is read as text: "
                        f"{format_advice(options)}"
                    )
        return
    options.time = options.time or file.time
    options.event = options.event or file.event
    if not options.keys and file.key:
        options.keys = [list(file.key)]


def sole_policy(file: Formula | PolicyFile, options: Options) -> tuple[str | None, Formula] | None:
    """Return the name, or None, and the formula of the only policy of a text log.

    Returns:
        None if there are several policies, or the output shows more than a name and a formula.
    """
    from mtlmon.syntax.formula import Formula

    if isinstance(file, Formula):
        return None, file
    (policy, *others) = file.policies
    has_more = bool(file.predicates or file.assumptions or policy.key or policy.clock)
    has_more = has_more or policy.has_tolerance or policy.is_first_order
    if options.output_format == "jsonl":
        has_more = has_more or bool(policy.severity or policy.text or policy.message)
    return None if others or has_more else (policy.name, policy.formula)


def explain(file: Formula | PolicyFile, options: Options) -> None:
    """Explain to standard output how the formulas are parsed."""
    from mtlmon.syntax.formula import Formula

    if isinstance(file, Formula):
        from mtlmon.analysis.describe import describe
        from mtlmon.engine.choice import SLOW, engine_of, has_time_bound

        time = None if has_time_bound(file, options.mode) else SLOW
        show(f"{describe(file, options.unit, engine_of(file, options.mode), time)}\n")
        return
    from mtlmon.cli.checking import explanation

    seed = options.slice_seed or 0
    show(explanation(file, None, options.mode, options.slices, seed))
