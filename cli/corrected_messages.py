"""The messages of a report on a run that corrects verdicts: those of the rows in order."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.checking import LogCheck
from mtlmon.cli.corrected_reasons import in_order, what_forbids_reasons
from mtlmon.cli.parser import STANDARD_STREAM
from mtlmon.engine.native import MemoryLimit
from mtlmon.support.option_names import COMMAND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.cli.arguments import Options
    from mtlmon.policy import Policy, PolicyFile

__all__ = ["Named", "messages_in_order", "why_without_values"]

Named = tuple[int, int, str | None]
"""The time-stamp and offset of a violation, and its key."""


def why_without_values(options: Options, *, can_reread: bool) -> str | None:
    """Return why messages with values are not known, in words; None if they are."""
    if not can_reread or STANDARD_STREAM in options.logs:
        return "the log could not be read again"
    forbidden = what_forbids_reasons(options)
    return None if forbidden is None else f"rows in order are others with {forbidden}"


def messages_in_order(
    file: PolicyFile, policies: Sequence[Policy], options: Options
) -> list[dict[Named, str]]:
    """Check the rows that came in time once more, in order, for the messages of violations.

    Args:
        file: the policies.
        policies: those of its policies that have no variables.
        options: the options of the command line, with which the log can be read again.

    Returns:
        The messages of the first violations of each policy.

    Raises:
        Failure, MtlmonError: the log cannot be read.
    """
    from mtlmon.cli.findings import Findings
    from mtlmon.cli.policies import open_source, prepare_messages

    options = in_order(options)
    # for a program that reads messages
    options.output_format, options.verdicts = "jsonl", "false"
    check = LogCheck(
        policies,
        options.mode,
        key=options.key_columns,
        bdd=options.bdd,
        verdicts="none",
        collect=True,
        max_memory=MemoryLimit(options.max_memory, COMMAND),
    )
    prepare_messages(check, options)
    with closing(open_source(check, file, options)) as source:
        if check.repeats_ticks:
            source.only_due_ticks()
        findings = Findings(check, source, [], options, can_reread=False, file=file)
        for _ in check.run(source, options.end_time):
            findings.take()
        reports = [findings.keyed_report(number) for number in range(len(policies))]
    return [
        {
            (one.time_stamp, one.offset, one.key): one.message
            for one in report.violations
            if one.message is not None
        }
        for report in reports
    ]
