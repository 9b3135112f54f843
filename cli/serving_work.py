"""What the playground runs in a process of its own: policies on a log, both as texts.

The process reads a request from standard input, writes the answer to standard output, and ends.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from contextlib import contextmanager, redirect_stderr
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mtlmon.errors import FormulaError, LogError, MtlmonError, TableError
from mtlmon.run.failure import RunError
from mtlmon.serving.findings import Findings, Problem
from mtlmon.serving.fragments import explanation_of, outcome_of, plot_of, problems_of, result_of
from mtlmon.serving.page import exported_page
from mtlmon.support.inputs import STANDARD_STREAM, Input
from mtlmon.support.option_names import COMMAND_OF_PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.cli.serving import ServeOptions
    from mtlmon.policy import PolicyFile
    from mtlmon.run.spec import RunSpec

__all__ = ["answer", "exported", "held_log", "main"]

EXPLAINED = 30
"""The verdicts that an exported page explains."""

LEAST_WIDTH, MOST_WIDTH = 280, 2000
EXPORTED_WIDTH = 960
# of processor time, after which the system ends the process, whoever may have started it
MOST_SECONDS = 120


def main() -> int:
    """Answer the request on standard input."""
    import resource

    from mtlmon.cli.serving import parse_arguments

    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    options = parse_arguments(sys.argv[1:])
    warm_up()
    request = sys.stdin.buffer.read()
    if not request:
        return 0
    output = os.dup(1)
    found = answer(json.loads(request), options)
    with open(output, "wb") as file:
        file.write(json.dumps(found).encode("utf-8", "replace"))
    return 0


def warm_up() -> None:
    """Import what a run needs, before the request comes."""
    from contextlib import suppress
    from importlib import import_module

    for name in ("cli.serving_run", "policy", "run.formula_judge", "run.judging", "streams.atoms"):
        import_module(f"mtlmon.{name}")
    # a text log needs no tables
    with suppress(ImportError, MtlmonError):
        import_module("mtlmon.tables")


def answer(request: Mapping[str, Any], options: ServeOptions) -> dict[str, Any]:
    """Return the answer to a request.

    Args:
        request: the `action`: run, why or export; `policy` and `log`, the texts; `policy_name` and
            `log_name`, if they are other ones than on the command line; `is_example`, whether the
            options of the command line are for other texts; `width`, that of the plot in pixels;
            and `verdict`, the name of the one to explain.
        options: the options of the command line.
    """
    policy, log = str(request["policy"]), str(request["log"])
    options = options_of(request, options)
    if request["action"] == "export":
        return {"page": exported(policy, log, options)}
    with held_log(log, options.log_name) as held:
        if request["action"] == "why":
            return {"html": why(policy, held, str(request["verdict"]), options)}
        findings = findings_of(policy, held, options)
    width = max(LEAST_WIDTH, min(MOST_WIDTH, int(request.get("width", EXPORTED_WIDTH))))
    kind, outcome = outcome_of(findings)
    return {
        "kind": kind,
        "outcome": outcome,
        "problems": problems_of(findings.problems),
        "places": [
            {"pane": one.pane, "line": one.line, "column": one.column, "message": one.message}
            for one in findings.problems
            if one.line is not None
        ],
        "lines": findings.violated_lines,
        "plot": plot_of(findings, width),
        "result": result_of(findings),
    }


def options_of(request: Mapping[str, Any], options: ServeOptions) -> ServeOptions:
    """Return the options for the texts of a request."""
    from mtlmon.cli.serving import parse_arguments

    own = parse_arguments([]) if request.get("is_example") else copy(options)
    own.policy_name = str(request.get("policy_name") or options.policy_name)
    own.log_name = str(request.get("log_name") or options.log_name)
    return own


def exported(policy: str, log: str, options: ServeOptions) -> str:
    """Return a page with the policy, the log and what was found, which needs no server."""
    with held_log(log, options.log_name) as held:
        findings = findings_of(policy, held, options)
        reasons: dict[str, str] = {}
        if not findings.problems:
            chosen = [
                verdict.name
                for one in findings.policies
                if one.has_explanations
                for verdict in one.verdicts
                if verdict.value is False
            ][:EXPLAINED]
            if chosen:
                held.seek(0)
                reasons = explanations(policy, held, chosen, options)
    names = options.policy_name, options.log_name
    result = plot_of(findings, EXPORTED_WIDTH) + result_of(findings, reasons)
    return exported_page(findings, result, (policy, log), names)


@contextmanager
def held_log(text: str, name: str) -> Iterator[Input]:
    """Hold a log in memory, so that it can be read several times.

    Where the system has no files in memory, this is a file on disk that has no name.
    """
    from mtlmon.cli.serving_run import unnamed_file

    with unnamed_file() as file:
        file.write(text.encode("utf-8", "replace"))
        file.seek(0)
        yield Input(file.fileno(), name)


def command_options(options: ServeOptions, log: Input) -> RunSpec:
    """Return the options of the command for a log."""
    from mtlmon.cli.arguments import spec_of
    from mtlmon.support.table_formats import table_format

    known, format = table_format(options.log_name), options.format
    if format is None and options.pattern is None and known is not None:
        format = known[0]
    return spec_of(
        options,
        constants=dict(options.settings),
        formula_files=[options.policy_name],
        logs=[STANDARD_STREAM],
        input=log,
        format=format,
        output_format="batches",
        given_verdicts="all",
        resolve=True,
        summary=False,
    )


def findings_of(policy: str, log: Input, options: ServeOptions) -> Findings:
    """Run the policies on the log; what is wrong becomes problems."""
    from mtlmon.cli.serving_run import found_by

    # with an encoding, which says which characters there are
    content = io.BytesIO()
    notes = io.TextIOWrapper(content, "utf-8")
    settled = command_options(options, log)
    findings = Findings()
    problems: list[Problem] = []
    with redirect_stderr(notes):
        try:
            file, errors, settled = policies_of(policy, settled)
            problems += map(problem_of, errors)
            if file is not None:
                findings, error = found_by(file, settled)
                if error is not None:
                    problems.append(problem_of(error))
        except (MtlmonError, MemoryError, OSError) as error:
            problems.append(problem_of(error))
        except Exception as error:
            problems.append(fault(error))
        notes.flush()
    remarks = notes_in(content.getvalue().decode())
    return replace(findings, problems=problems, remarks=remarks)


def policies_of(
    text: str, options: RunSpec
) -> tuple[PolicyFile | None, Sequence[FormulaError], RunSpec]:
    """Parse the policies, and let the options be those for the log.

    Returns:
        The policies, or None if there are errors; all errors; and the options.
    """
    from mtlmon.policy import check_files
    from mtlmon.run.option_rules import check_text_options
    from mtlmon.run.preparing import declared_policies, declared_unit
    from mtlmon.syntax.bounds import LATER

    texts = [(text, options.policies.name)]
    declared, constants = declared_unit(options.times), options.policies.constants
    options = options.having(unit=declared or options.log.time_unit)
    _, errors = check_files(texts, unit=declared or LATER, constants=constants, needs_policy=False)
    if errors:
        return None, errors, options
    file, options = declared_policies(texts, declared, options, needs_policy=False)
    if not options.log.is_table:
        check_text_options(options)
    return file, (), options


def explanations(
    policy: str, log: Input, names: Sequence[str], options: ServeOptions
) -> dict[str, str]:
    """Return explanations as HTML by the names of verdicts.

    Raises:
        RunError, MtlmonError: the log cannot be read, or a name is not one of a verdict.
    """
    from mtlmon.checking.explaining import Violation
    from mtlmon.cli.serving_run import explained_by

    wanted = []
    for name in names:
        if not re.fullmatch(r"\d{1,6},\d{1,10},\d{1,19},\d{1,19}", name):
            raise RunError(f"there is no verdict {name}")
        wanted.append(Violation(*map(int, name.split(","))))
    settled = command_options(options, log)
    file, errors, settled = policies_of(policy, settled)
    if file is None:
        raise errors[0]
    if any(one.policy >= len(file.policies) for one in wanted):
        raise RunError("there is no such policy any more")
    with redirect_stderr(io.StringIO()):
        found = explained_by(file, wanted, settled)
    return {
        ",".join(map(str, violation)): explanation_of(proof, title, details, number)
        for number, (violation, proof, title, details) in enumerate(found, 1)
    }


def why(policy: str, log: Input, name: str, options: ServeOptions) -> str:
    """Return the explanation of a verdict as HTML, or why there is none."""
    try:
        return explanations(policy, log, [name], options).get(
            name, problems_of([Problem("the log has no such time-point any more")])
        )
    except (MtlmonError, MemoryError, OSError) as error:
        return problems_of([problem_of(error)])
    except Exception as error:
        return problems_of([fault(error)])


def problem_of(error: BaseException) -> Problem:
    """Return an error as the page shows it."""
    from mtlmon.run.recognition import line_advice

    if isinstance(error, FormulaError):
        return Problem(error.message, "policy", error.line, error.column, error.hint)
    if isinstance(error, LogError):
        message = str(error).removeprefix(f"{error.path}:{error.line}:{error.column}: ")
        message += line_advice(error, COMMAND_OF_PAGE)
        return Problem(message, "log", error.line, error.column)
    if isinstance(error, TableError):
        column = "" if error.column is None or repr(error.column) in error.message else "column "
        place = f"{column}{error.column!r}: " if column else ""
        row = "" if error.row is None or error.line is not None else f"row {error.row}: "
        return Problem(f"{row}{place}{error.message}", "log", error.line)
    if isinstance(error, MemoryError):
        return Problem("out of memory")
    return Problem(str(error))


def fault(error: Exception) -> Problem:
    """Return an error that should not have happened; write its traceback if that is wanted."""
    if os.environ.get("MTLMON_TRACEBACK", "") not in ("", "0"):
        import traceback

        traceback.print_exc(file=sys.__stderr__)
    words = " ".join(str(error).split())
    return Problem(f"internal fault, please report it: {type(error).__name__}: {words}")


def notes_in(text: str) -> list[str]:
    """Return the notes that the command has written."""
    lines = text.splitlines()
    return [line.removeprefix("mtlmon: ") for line in lines if line.startswith("mtlmon: ")]


if __name__ == "__main__":
    sys.exit(main())
