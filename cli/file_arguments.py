"""The files among the arguments: policies, logs, and a log that is followed."""

from __future__ import annotations

from mtlmon.support.standard_input import STANDARD_STREAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from mtlmon.cli.arguments import Options
    from mtlmon.cli.parser import Parser

    class FileOptions(Protocol):
        """The options of a subcommand for policy files."""

        files: list[str]
        policies: list[str]


__all__ = ["check_follow_options", "policy_files", "take_policy_files"]


def check_follow_options(parser: Parser, options: Options) -> None:
    """Raise RunError if --follow stands with what cannot follow a file."""
    if options.follow is None:
        return
    from mtlmon.support.table_formats import table_format

    if options.files:
        parser.error(f"--follow names the log: leave out {' '.join(options.files)}")
    if STANDARD_STREAM in (options.follow, *options.formula_files):
        parser.error("--follow needs files: standard input cannot be followed")
    if options.checkpoint is not None:
        parser.error(
            "--follow does not work with --checkpoint: the file may be replaced, and a later run "
            "needs the log from its beginning"
        )
    if options.signature is not None:
        parser.error("--follow does not work with --signature: write tail -F LOG | mtlmon ...")
    known = table_format(options.follow)
    format = options.format or (known and known[0])
    if (known and known[1]) or format in ("parquet", "arrow", "xes"):
        what = known[1] if known and known[1] else format
        parser.error(
            f"--follow reads lines as they are appended, and {what} has none: text logs, JSON "
            "lines, CSV and lines of a pattern can be followed"
        )


def policy_files(parser: Parser, files: list[str], policies: list[str]) -> list[str]:
    """Return the policy files: those of --policy, or else the first of the files, which is taken.

    Raises:
        RunError: a policy file is among the logs, or is given twice; or a table is in its place.
    """
    if not policies:
        from mtlmon.support.table_formats import table_format

        if table_format(files[0]):
            # no policy has such a name
            policy = next((name for name in files if name.endswith((".mtl", ".mfotl"))), "POLICY")
            parser.error(
                f"{files[0]} is a table, and the policy comes first: {parser.prog} {policy} "
                f"{files[0]}"
            )
        return [files.pop(0)]
    for name in files:
        if name.endswith((".mtl", ".mfotl")):
            parser.error(f"{name} is a policy file: name each of them with --policy, or none")
    if len(policies) > 1:
        from mtlmon.policy.several import require_different

        require_different(policies)
    return policies


def take_policy_files(parser: Parser, options: FileOptions) -> None:
    """Leave the policy files in `policies`, and the logs in `files`.

    Raises:
        RunError: there is no policy file, or one is among the logs or given twice.
    """
    if not options.files and not options.policies:
        parser.error("no policy file: name one")
    options.policies = policy_files(parser, options.files, options.policies)
