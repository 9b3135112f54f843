"""How callers write the options that messages recommend.

The command, Python functions and Spark read tables with the same code, but an option can have
another spelling or another name there, or not exist. Messages take the spelling from here, so that
they never recommend an option that the caller does not have.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "COMMAND",
    "COMMAND_OF_PAGE",
    "COMMAND_OF_VALUES",
    "OF_LIVE",
    "OF_RUNS",
    "PYTHON",
    "SPARK",
    "SQL",
    "OptionNames",
    "order_advice",
]


class OptionNames:
    """The spelling of options for one kind of caller; picklable.

    Options are looked up by their names in `mtlmon.tables.open_tables`.

    Attributes:
        is_command: whether options are words of a command line rather than keywords in Python.
        others: the options whose names differ from those of `open_tables`; None for an option that
            this caller does not have.

    >>> COMMAND.written("time", "Time"), PYTHON.written("time", "Time")
    ('--time Time', "time='Time'")
    >>> COMMAND.written("sort"), PYTHON.written("sort", True)
    ('--sort', 'sort=True')
    >>> PYTHON.written("event"), SPARK.written("sort")
    ('event=', None)
    """

    def __init__(self, is_command: bool, others: Mapping[str, str | None]) -> None:
        self.is_command = is_command
        self.others = others

    def written(self, option: str, value: object = None) -> str | None:
        """Return an option as this caller writes it, or None if the caller does not have it.

        Args:
            option: the name of the option in `open_tables`.
            value: the value to show with the option; the command writes True as the option alone.
        """
        name = self.others.get(option, option)
        if name is None:
            return None
        if not self.is_command:
            return f"{name}=" if value is None else f"{name}={value!r}"
        word = f"--{name.replace('_', '-')}"
        return word if value is None or value is True else f"{word} {_quoted(str(value))}"


def _quoted(text: str) -> str:
    """Quote a word for the shell."""
    import shlex

    return shlex.quote(text)


COMMAND = OptionNames(True, {})
COMMAND_OF_VALUES = OptionNames(True, {"lateness": None})
"""Options of `mtlmon streams`, whose values are not corrected."""

COMMAND_OF_PAGE = OptionNames(True, {"lateness": None, "wait": None})
"""Options of `mtlmon serve`."""

PYTHON = OptionNames(False, {"lateness": None})
OF_RUNS = OptionNames(False, {})
"""Options of `mtlmon.check`."""

OF_LIVE = OptionNames(
    False,
    dict.fromkeys(
        ("sort", "sort_memory", "format", "pattern", "delimiter", "quote", "decimal", "null_values")
    ),
)
"""Options of `mtlmon.live`, to which rows are given."""

SPARK = OptionNames(
    False,
    dict.fromkeys(
        (
            *("sort", "wait", "lateness", "time_format", "time_zone", "null_values"),
            *("delimiter", "quote", "decimal"),
            "format",
        )
    ),
)
SQL = OptionNames(False, {**SPARK.others, "on_error": None, "event_separator": "separator"})


def order_advice(names: OptionNames) -> str:
    """Say behind a colon what to do about rows that are out of order; nothing without options."""
    ways = (
        (names.written("sort", True), "to sort all rows first"),
        (names.written("wait", "5s"), "if no row is more than that too late"),
        (names.written("lateness", "5s"), "to correct verdicts by rows that come late"),
    )
    found = [f"{option} {purpose}" for option, purpose in ways if option]
    return f": add {', or '.join(found)}" if found else ""
