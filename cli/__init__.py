"""The command `mtlmon`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status.

    Args:
        arguments: the arguments without the command's name; by default those of the process, which
            this call can end.
    """
    # must come before all other imports
    from mtlmon import _start

    taken = _start.take_signals()
    if _start.IS_COMMAND:
        _start.leave_out_what_is_not_needed()
    try:
        from mtlmon.cli.command import main as run

        status = run(arguments)
    finally:
        _start.give_back_signals(taken)
    if _start.IS_COMMAND:
        # Do not wait for threads that still read or work. PERF: destroying all modules takes 5 ms.
        _start.leave(status)
    return status
