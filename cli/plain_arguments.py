"""Reads the arguments that most runs have, without the parser of all options.

Whatever is not among them is left to that parser: other options, `--option=value`, help, and all
that is wrong.

PERF: of 20 ms of a start, importing argparse and describing every option to it took 5 ms, and the
regular expressions that it imports took 6 ms.
"""

from __future__ import annotations

from mtlmon.run.option_values import OptionValueError, column_names, end_time, unit_name, wait_time
from mtlmon.support.table_formats import FORMAT_NAMES
from mtlmon.syntax.bounds import UNITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "LOG_FORMATS",
    "OUTPUT_FORMATS",
    "VERDICTS",
    "plain_arguments",
]

LOG_FORMATS = ("text", *FORMAT_NAMES)
OUTPUT_FORMATS = ("text", "jsonl", "csv", "parquet", "monpoly")
VERDICTS = ("all", "boolean", "false", "first", "none")


def plain_arguments(arguments: Sequence[str]) -> dict[str, object] | None:
    """Return what arguments say, by the names that the parser gives it.

    Returns:
        None if the arguments are for the parser. Options that are not given are left out, if
        `RunSpec` has them.
    """
    files: list[str] = []
    lists: dict[str, list[object]] = {"formulas": [], "policies": [], "keys": []}
    found: dict[str, object] = {"files": files, "settings": [], "explain_formula": False, **lists}
    words = iter(arguments)
    for word in words:
        if not word.startswith("-") or word == "-":
            files.append(word)
        elif word in _FLAGS:
            found[_FLAGS[word]] = True
        elif word in _VALUES:
            name, read = _VALUES[word]
            text = next(words, "--")
            if text.startswith("-") and text != "-":
                return None
            try:
                value = read(text)
            except OptionValueError:
                return None
            if name in lists:
                lists[name].append(value)
            else:
                found[name] = value
        else:
            return None
    return found


def _one_of(*choices: str) -> Callable[[str], str]:
    def choice(text: str) -> str:
        if text not in choices:
            raise OptionValueError
        return text

    return choice


def _unit(text: str) -> str:
    return _one_of(*UNITS)(unit_name(text))


_FLAGS = {
    "--explain": "explain",
    "--resolve": "resolve",
    "--rows": "rows",
    "--sort": "sort",
}
"""Options without a value, and what they are called."""

_VALUES: dict[str, tuple[str, Callable[[str], object]]] = {
    "-e": ("formulas", str),
    "-o": ("output", str),
    "--end-time": ("end_time", end_time),
    "--event": ("event", str),
    "--format": ("format", _one_of(*LOG_FORMATS)),
    "--key": ("keys", column_names),
    "--lateness": ("lateness", wait_time),
    "--output": ("output", str),
    "--output-format": ("given_format", _one_of(*OUTPUT_FORMATS)),
    "--pattern": ("pattern", str),
    "--policy": ("policies", str),
    "--time": ("time", str),
    "--unit": ("unit", _unit),
    "--verdicts": ("given_verdicts", _one_of(*VERDICTS)),
    "--wait": ("wait", wait_time),
}
"""Options with a value: what they are called, and what reads it."""
