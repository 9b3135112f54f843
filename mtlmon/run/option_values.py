"""Reads the values of options."""

from __future__ import annotations

from mtlmon.syntax.bounds import UNIT_WORDS, UNITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.syntax.durations import Duration


class OptionValueError(Exception):
    """The text is not a value of the option."""


LARGEST_TIME_STAMP = (1 << 63) - 1
LARGEST_DIGITS = 40
NATURAL_DIGITS = 9


def memory(text: str) -> int:
    """Parse a size of memory."""
    from mtlmon.engine.memory_limit import memory_size
    from mtlmon.errors import MtlmonError

    try:
        return memory_size(text)
    except MtlmonError as error:
        raise OptionValueError(str(error)) from None


def version_line() -> str:
    from mtlmon._version import __version__

    return f"mtlmon {__version__}"


def unit_name(text: str) -> str:
    """Parse the argument of --unit, which can be a word for minutes or seconds."""
    return UNIT_WORDS.get(text, text)


def constant_setting(text: str) -> tuple[str, str]:
    """Parse the argument of --set."""
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise OptionValueError(f"'{text}' is not of the form NAME=CONSTANT")
    return name, value


def machine_module(text: str) -> str:
    """Import the argument of --machines, so that policies can use its classes."""
    from mtlmon.errors import MtlmonError
    from mtlmon.policy.predicates.own_machines import register_module

    try:
        register_module(text)
    except MtlmonError as error:
        raise OptionValueError(str(error)) from error
    return text


def column_names(text: str) -> list[str]:
    """Parse the argument of --key."""
    names = text.split(",")
    if not all(names):
        raise OptionValueError(f"'{text}' has an empty name of a column")
    return names


def start_and_count(text: str) -> tuple[str | None, str]:
    """Parse the argument of --complete."""
    names = column_names(text)
    if len(names) > 2 or len(names) > len({*names}):
        raise OptionValueError(f"'{text}' is not one column or two: COUNT or START,COUNT")
    return None if len(names) == 1 else names[0], names[-1]


def null_values(text: str) -> list[str]:
    """Parse the argument of --null-values."""
    return text.split(",")


def positive(text: str) -> int:
    """Parse an argument that must be a positive number."""
    if text.isascii() and text.isdigit() and len(text) <= LARGEST_DIGITS and int(text) > 0:
        return int(text)
    raise OptionValueError(f"'{text}' is not an integer from 1 on")


def natural(text: str) -> int:
    """Parse an argument that must be a number from 0 on."""
    if text.isascii() and text.isdigit() and len(text) <= NATURAL_DIGITS:
        return int(text)
    raise OptionValueError(f"'{text}' is not an integer from 0 to 999999999")


def idle_time(text: str) -> Duration:
    """Parse the argument of --idle."""
    from mtlmon.syntax.durations import Duration

    found = Duration.parse(text)
    if found is not None and found.nanoseconds and found.nanoseconds % UNITS["ms"] == 0:
        return found
    raise OptionValueError(f"'{text}' is not a length of time, as 500ms, 10s or 5m")


def wait_time(text: str) -> int | Duration:
    """Parse the argument of --wait."""
    if text.isascii() and text.isdigit() and len(text) <= LARGEST_DIGITS:
        return min(int(text), LARGEST_TIME_STAMP)
    from mtlmon.syntax.durations import Duration

    found = Duration.parse(text)
    if found is not None:
        return found
    raise OptionValueError(
        f"'{text}' is not a length of time, as 500ms or 5s, nor a number of time units"
    )


def checkpoint_interval(text: str) -> tuple[str, float]:
    """Parse the argument of --checkpoint-every."""
    import re

    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)s|([0-9]{1,15})", text)
    if found is not None:
        unit = "seconds" if found[1] else "events"
        number = float(found[1] or found[2])
        if number > 0:
            return (unit, number)
    raise OptionValueError(
        f"'{text}' is neither a number of events, as 1000000, nor of seconds, as 30s"
    )


def end_time(text: str) -> int | str:
    """Parse the argument of --end-time."""
    return text if text in ("last", "inf") else time_stamp(text, "'last', 'inf' or ")


def time_stamp(text: str, others: str = "") -> int:
    """Parse an argument that must be a time-stamp or a length of time.

    Args:
        text: the argument.
        others: the other values that the argument can have, for errors.
    """
    if text.isascii() and text.isdigit() and len(text) <= LARGEST_DIGITS:
        value = int(text)
        if value <= LARGEST_TIME_STAMP:
            return value
    raise OptionValueError(f"'{text}' is not {others}an integer from 0 to {LARGEST_TIME_STAMP}")
