"""The command's arguments."""

from __future__ import annotations

from mtlmon.cli.plain_arguments import plain_arguments
from mtlmon.cli.policy_files import policy_files, refuse
from mtlmon.cli.terminal import TERMINAL
from mtlmon.run.option_rules import consistent
from mtlmon.run.spec import PLACES, RunSpec
from mtlmon.support.inputs import STANDARD_STREAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtlmon.cli.parser import Parser

__all__ = ["Arguments", "parse_arguments", "spec_of"]


USAGE = """\
mtlmon [options] FORMULA_FILE [LOG ...]
       mtlmon [options] -e FORMULA [LOG ...]
       mtlmon [options] --policy FILE [--policy FILE ...] [LOG ...]
       mtlmon resolve [options] [VERDICTS]
       mtlmon latest [options] [CHANGELOG]
       mtlmon check-policy [options] FILE [LOG]
       mtlmon streams [options] FILE LOG...
       mtlmon query [options] FILE RELATION [TABLE...] [NAME=TABLE...]
       mtlmon analyze [options] FILE [TABLE]
       mtlmon serve [options] [FILE [LOG]]"""

DESCRIPTION = """\
Check a log against a policy in metric temporal logic: one verdict for every time-point.

  FORMULA_FILE  the policy, or a file of named policies; - for standard input
  LOG           lines of the form '@TIME-STAMP ATOM ATOM ...'; - or nothing for standard input.
                Or tables: CSV, JSON lines, Parquet, Arrow; files, patterns, directories
"""

EPILOG = """\
verdicts, one a line:
  10:0 true       the policy holds at the first time-point of time-stamp 10
  10:1 false      it is violated at the second one
  10:2 = 10:1     not known yet, but the same as that of the earlier time-point 10:1
  10:3 false (u=ann, f=report)
                  a policy with variables is violated by these values
before the time-point, each followed by a tab: the policy's name, if it has one, and the key

examples:
  mtlmon policy.mtl events.log
      check a log
  tail -f events.log | mtlmon -e 'request IMPLIES EVENTUALLY[0,5] response'
      check a live stream
  mtlmon --verdicts first --end-time last policy.mtl events.log
      only the earliest violation; the log is complete up to its last time-stamp
  mtlmon --resolve --unit s -e 'publish IMPLIES ONCE[0,7d] approve' events.log
      the Boolean value of every time-point; bounds with units
  mtlmon resolve yesterday.verdicts
      the Boolean values behind equivalences (mtlmon resolve --help)
  mtlmon latest corrections.verdicts
      what holds after corrections of --lateness (mtlmon latest --help)
  mtlmon --verdicts none --unit s --report report.html policy.mtl events.log
      a web page with violations over time and explanations of the first ones
  mtlmon --checkpoint state --resume -o verdicts policy.mtl events.log
      a service: the same command for its first start and for restarting after a crash
  mtlmon --key user --event action --end-time last rules.mtl 'logs/*.csv.gz'
      tables, where each user's rows are a trace, and atoms are in the column 'action'
  kafka-console-consumer ... | mtlmon --format jsonl --key id --event type rules.mtl
      a live stream of JSON objects
  mtlmon --output-format parquet -o verdicts.parquet --time when rules.mtl events.parquet
      verdicts as a table
  mtlmon --policy web.mtl --policy login.mtl access.jsonl
      several policy files, in one pass over the log
  mtlmon check-policy rules.mtl events.csv
      check whether a policy file fits the columns of a table
      (mtlmon check-policy --help)
  mtlmon streams rules.mtl events.csv
      the values of the file's streams at every row (mtlmon streams --help)
  mtlmon analyze --limit 1GiB rules.mtl
      how much memory a file needs at most (mtlmon analyze --help)
  mtlmon serve --open rules.mtl events.csv
      a page on this computer, to write policies (mtlmon serve --help)
  mtlmon --signature F.sig --output-format monpoly F.mfotl F.log
      files of MonPoly, and verdicts as it writes them
  mtlmon --explain-formula -e 'p UNTIL[0,5] q'
      how a formula is parsed, and what monitoring it costs

exit status: 0 no violation, 1 a violation, 2 an error in usage, formula, log or writing
"""


class Arguments:
    """What the arguments say, by the words that `PLACES` has, and what is neither of its options.

    Attributes:
        files: the names of files.
        formulas: the formulas of -e.
        policies: the names of --policy.
        settings: the constants of --set.
    """

    files: list[str]
    formulas: list[str] | None
    policies: list[str]
    settings: list[tuple[str, str]]
    explain_formula: bool


def spec_of(parsed: object, **more: Any) -> RunSpec:
    """Return what arguments ask for.

    Args:
        parsed: the arguments; those that are no options of runs are ignored.
        more: other options, or other values, by their words.
    """
    given = {word: value for word, value in vars(parsed).items() if word in PLACES}
    return RunSpec(host=TERMINAL).having(**{**given, **more})


def parse_arguments(arguments: Sequence[str]) -> RunSpec:
    """Parse the arguments.

    Raises:
        RunError: an argument is invalid, or options contradict each other.
        SystemExit: after `-h`, `--help` and `--version`.
    """
    given = Arguments()
    plain = plain_arguments(arguments)
    if plain is None:
        make_parser().read(arguments, given)
    else:
        vars(given).update(plain)
    files = given.files
    if given.formulas and len(given.formulas) > 1:
        refuse("-e was given more than once: join the formulas with AND, or write a policy file")
    formula = given.formulas[0] if given.formulas else None
    if formula is not None and given.policies:
        refuse("-e and --policy: write the formula to a file, and name that with --policy")
    formula_files: list[str] = []
    if formula is None:
        if not files and not given.policies:
            refuse("no formula: name a FORMULA_FILE or give one with -e")
        formula_files = policy_files(files, given.policies)
    logs = files or [STANDARD_STREAM]
    options = spec_of(
        given,
        arguments=arguments,
        constants=dict(given.settings),
        formula=formula,
        formula_files=formula_files,
        logs=logs,
    )
    if options.log.follow is not None and files:
        refuse(f"--follow names the log: leave out {' '.join(files)}")
    options = consistent(refuse, options)
    if STANDARD_STREAM in formula_files and STANDARD_STREAM in logs and not given.explain_formula:
        refuse("formula and log cannot both come from standard input")
    return options


def make_parser() -> Parser:
    """Make the parser of the command's arguments."""
    import argparse

    from mtlmon.cli.option_groups import (
        add_checkpoint_options,
        add_explanation_options,
        add_formula_options,
        add_log_options,
        add_monpoly_options,
        add_other_options,
        add_table_options,
        add_verdict_options,
    )
    from mtlmon.cli.parser import Parser

    parser = Parser(
        prog="mtlmon",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    add_formula_options(parser.add_argument_group("formula"))
    add_log_options(parser.add_argument_group("log"))
    add_table_options(parser.add_argument_group("tables"))
    add_monpoly_options(parser.add_argument_group("files of MonPoly"))
    add_verdict_options(parser.add_argument_group("verdicts"))
    add_explanation_options(parser.add_argument_group("explanations and reports"))
    add_checkpoint_options(parser.add_argument_group("checkpoints"))
    add_other_options(parser.add_argument_group("other"))
    return parser
