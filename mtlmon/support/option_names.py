"""How callers write the options that messages recommend.

The same table is read by the command, by Python functions and by Spark, where an option has another
spelling, another name, or does not exist. Messages ask here, so that nobody is told to use an
option that he does not have.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COMMAND", "PYTHON", "SPARK", "SQL", "OptionNames"]


class OptionNames:
    """The spelling of options for one kind of caller; picklable.

    Options are asked for by the names that `mtlmon.tables.open_tables` has.

    Attributes:
        is_command: options are words of a command line, not keywords of Python.
        others: names that differ from those of `open_tables`; None for an option that this caller
            does not have.

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
        """An option, with a value if one is given, as this caller writes it; None: it has none.

        A value of True is one that the command writes as the option alone.
        """
        name = self.others.get(option, option)
        if name is None:
            return None
        if not self.is_command:
            return f"{name}=" if value is None else f"{name}={value!r}"
        word = f"--{name.replace('_', '-')}"
        return word if value is None or value is True else f"{word} {_quoted(str(value))}"


def _quoted(text: str) -> str:
    """A word of a command line as a shell reads it."""
    import shlex

    return shlex.quote(text)


COMMAND = OptionNames(True, {})
PYTHON = OptionNames(False, {})
SPARK = OptionNames(False, {"sort": None, "time_format": None, "format": None})
SQL = OptionNames(False, {**SPARK.others, "on_error": None, "event_separator": "separator"})
