"""Runs the command, from its arguments to its exit status."""

from __future__ import annotations

import os
import sys

from mtlmon.cli.arguments import parse_arguments
from mtlmon.cli.terminal import note, show
from mtlmon.errors import LogError, MtlmonError
from mtlmon.run.failure import (
    CANNOT,
    CLOSED_PIPE,
    FAULT,
    SIGNALLED,
    ClosedPipe,
    Interrupted,
    RunError,
)
from mtlmon.run.preparing import prepared
from mtlmon.run.running import finished
from mtlmon.run.steps import require_runnable, steps_of
from mtlmon.support.option_names import COMMAND, COMMAND_OF_VALUES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.run.spec import RunSpec
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
        from mtlmon.run.recognition import line_advice

        given = sys.argv[1:] if arguments is None else arguments
        names = COMMAND_OF_VALUES if given[:1] == ["streams"] else COMMAND
        note(f"{error}{line_advice(error, names)}")
        return CANNOT
    except MtlmonError as error:
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
    """Raise RunError if the first word looks like a subcommand and is not a file."""
    from mtlmon.support.guesses import nearest
    from mtlmon.support.other_words import SUBCOMMANDS as OTHERS

    meant = OTHERS.get(word.lower())
    if meant is None:
        hyphened = word.replace("_", "-").lower()
        guess = hyphened if hyphened in SUBCOMMANDS else nearest(hyphened, SUBCOMMANDS, 0.75)
        meant = guess and f"did you mean 'mtlmon {guess}'?"
    if meant is not None:
        raise RunError(f"cannot read {word}: no such file; {meant}")


def run(options: RunSpec) -> int:
    """Do what the options ask for; return the exit status."""
    if options.log.follow is not None and not options.policies.explain_formula:
        from mtlmon.cli.signals import Signals
        from mtlmon.run.followed_file import following

        options, follower = following(options)
        Signals.end_log = staticmethod(follower.end)
    if options.log.signature is not None:
        from mtlmon.run.monpoly_logs import check_monpoly, prepared_monpoly

        formula, options = prepared_monpoly(options)
        if options.policies.explain_formula:
            explain(formula.file, options)
            return 0
        return finished(check_monpoly(formula, options))
    file, options = prepared(options)
    if options.policies.explain_formula:
        explain(file, options)
        return 0
    require_runnable(file, options)
    return finished(steps_of(file, options))


def explain(file: Formula | PolicyFile, options: RunSpec) -> None:
    """Explain to standard output how the formulas are parsed."""
    from mtlmon.syntax.formula import Formula

    if isinstance(file, Formula):
        from mtlmon.analysis.describe import describe
        from mtlmon.engine.choice import SLOW, engine_of, has_time_bound

        time = None if has_time_bound(file, options.judging.mode) else SLOW
        show(f"{describe(file, options.times.unit, engine_of(file, options.judging.mode), time)}\n")
        return
    from mtlmon.cli.checking import explanation

    seed = options.judging.slice_seed or 0
    statistics = None
    if options.judging.statistics is not None:
        from mtlmon.run.relations import known_statistics

        statistics = known_statistics(options)
    judging = options.judging
    show(explanation(file, None, judging.mode, judging.slices, seed, statistics))
