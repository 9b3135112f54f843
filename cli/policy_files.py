"""The policy files among arguments."""

from __future__ import annotations

from mtlmon.run.failure import RunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, Protocol

    class FileOptions(Protocol):
        """The options of a subcommand for policy files."""

        files: list[str]
        policies: list[str]


__all__ = ["policy_files", "refuse", "take_policy_files"]


def refuse(message: str, command: str = "mtlmon") -> NoReturn:
    """Raise RunError about the arguments of a command."""
    raise RunError(f"{message} (see {command} --help)")


def policy_files(files: list[str], policies: list[str], command: str = "mtlmon") -> list[str]:
    """Return the policy files: those of --policy, or else the first of the files, which is taken.

    Raises:
        RunError: a policy file is among the logs, or is given twice; or a table is in its place.
    """
    if not policies:
        from mtlmon.support.table_formats import table_format

        if table_format(files[0]):
            # no policy has such a name
            policy = next((name for name in files if name.endswith((".mtl", ".mfotl"))), "POLICY")
            refuse(
                f"{files[0]} is a table, and the policy comes first: {command} {policy} {files[0]}",
                command,
            )
        return [files.pop(0)]
    for name in files:
        if name.endswith((".mtl", ".mfotl")):
            refuse(f"{name} is a policy file: name each of them with --policy, or none", command)
    if len(policies) > 1:
        from mtlmon.policy.several import require_different

        require_different(policies)
    return policies


def take_policy_files(options: FileOptions, command: str) -> None:
    """Leave the policy files in `policies`, and the logs in `files`.

    Raises:
        RunError: there is no policy file, or one is among the logs or given twice.
    """
    if not options.files and not options.policies:
        refuse("no policy file: name one", command)
    options.policies = policy_files(options.files, options.policies, command)
