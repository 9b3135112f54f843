"""The options of a run as keywords of a function: the words of the command, with underscores."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    SupportsIndex,
    TypedDict,
    TypeGuard,
    get_args,
    get_type_hints,
)

from mtlmon.errors import RunError
from mtlmon.run.option_rules import consistent
from mtlmon.run.option_values import (
    OptionValueError,
    checkpoint_interval,
    end_time,
    idle_time,
    memory,
    positive,
    start_and_count,
    unit_name,
    wait_time,
)
from mtlmon.run.spec import Output, RunSpec
from mtlmon.support.guesses import did_you_mean
from mtlmon.support.option_names import OF_RUNS

if TYPE_CHECKING:
    from mtlmon.run.host import Host
    from mtlmon.support.option_names import OptionNames

__all__ = [
    "VALUES",
    "CheckOptions",
    "LiveOptions",
    "LogOptions",
    "QueryOptions",
    "choices_of",
    "constant_text",
    "in_python",
    "is_path",
    "refuse",
    "require_consistent",
    "require_file",
    "spec_of",
]

Path = str | os.PathLike[str]
Length = int | str
"""A number of time units, or a text such as "5s"."""


class ValueOptions(TypedDict, total=False):
    """How the values of rows are read."""

    # the log
    time_unit: Literal["s", "ms", "us", "ns"] | None
    time_format: str | None
    time_zone: str | None
    resolution: Literal["ns", "us", "ms", "s", "m", "h", "d"] | None
    on_error: Literal["stop", "skip"]
    # limits
    max_memory: int | str | None


class FileOptions(TypedDict, total=False):
    """How files are read."""

    # the log
    pattern: str | None
    null_values: str | Sequence[str]
    delimiter: str
    quote: str
    decimal: Literal[".", ","]
    sort: bool
    sort_memory: int | str | None


class GivenOptions(ValueOptions, total=False):
    """How rows are read, also those that are given one by one."""

    # policies
    unit: Literal["ns", "us", "ms", "s", "m", "h", "d"] | None
    set: Mapping[str, object]
    # the log
    time: str | Sequence[str] | None


class RowOptions(GivenOptions, FileOptions, total=False):
    """How rows are read and answers are written, for every function that reads files."""

    # the output
    output: Path | None
    csv_safe: bool


class QueryOptions(RowOptions, total=False):
    """What `mtlmon.query` can be told: the options of `mtlmon query`, by the same words."""

    format: Literal["csv", "tsv", "jsonl", "parquet", "arrow", "xes"] | None
    follow: bool
    op: str | None
    id: str | None
    complete: str | Sequence[str] | None
    new_end: str | None
    # the order of time
    wait: Length | None
    late: Path | Callable[[bytes], None] | None
    lateness: Length | None
    consistency: Literal["strong", "middle", "weak"] | None
    idle: str | None
    end_time: int | Literal["last", "inf"] | None
    # the output
    arrival: bool
    output_format: Literal["jsonl", "csv", "parquet"] | None
    # beside the records
    explain: bool
    # checkpoints
    checkpoint: Path | None
    checkpoint_every: int | str | None
    resume: bool


class EngineOptions(TypedDict, total=False):
    """How rows become time-points, and how these are checked."""

    # the log
    event: str | None
    event_separator: str | None
    time_points: Literal["row", "stamp"]
    # the order of time
    late: Path | Callable[[bytes], None] | None
    lateness: Length | None
    # verdicts
    bdd: Literal["auto", "cudd", "autoref"]
    slices: int | None
    slice_seed: int | None
    statistics: Path | None
    write_statistics: Path | None
    threads: int | None
    max_rows: int | None


class JudgingOptions(EngineOptions, total=False):
    """How policies are checked, on any log."""

    # the log
    key: str | Sequence[str]
    # the order of time
    wait: Length | None
    consistency: Literal["strong", "middle", "weak"] | None
    clock: Literal["all", "key"] | None
    op: str | None
    id: str | None
    complete: str | Sequence[str] | None
    new_end: str | None
    end_time: int | Literal["last", "inf"] | None
    advance_every: int | None
    # verdicts
    mode: Literal["local", "global", "naive"]
    verdicts: Literal["all", "boolean", "false", "first", "none"] | None
    resolve: bool
    # the output
    rows: bool
    arrival: bool
    # the exit status
    fail_on: Literal["info", "low", "medium", "high", "critical"] | None
    fail_on_vacuous: bool
    vacuous: Literal["ignore", "warn", "error"]


class MonPolyOptions(TypedDict, total=False):
    """What is said of files of MonPoly."""

    signature: Path | None
    negate: bool
    nonewlastts: bool


class LiveOptions(GivenOptions, JudgingOptions, MonPolyOptions, total=False):
    """What `mtlmon.live` can be told: the options of the command, by the same words."""


class LogOptions(ValueOptions, FileOptions, EngineOptions, total=False):
    """What assertions on files and tables can be told besides what they have for any trace."""

    # the log
    format: Literal["text", "csv", "tsv", "jsonl", "parquet", "arrow", "xes"] | None


class CheckOptions(RowOptions, JudgingOptions, MonPolyOptions, total=False):
    """What `mtlmon.check` can be told: the options of the command, by the same words."""

    # the log
    format: Literal["text", "csv", "tsv", "jsonl", "parquet", "arrow", "xes"] | None
    follow: bool
    # the order of time
    idle: str | None
    # the output
    output_format: Literal["text", "jsonl", "csv", "parquet", "monpoly"] | None
    time_stamps: Literal["raw", "iso"] | None
    # what is told beside verdicts
    summary: bool
    explain: bool
    explain_output: Path | None
    explain_limit: int
    report: Path | None
    # checkpoints
    checkpoint: Path | None
    checkpoint_every: int | str | None
    resume: bool


VALUES: dict[str, Callable[[str], object]] = {
    "unit": unit_name,
    "resolution": unit_name,
    "wait": wait_time,
    "lateness": wait_time,
    "idle": idle_time,
    "complete": start_and_count,
    "end_time": end_time,
    "advance_every": positive,
    "slices": positive,
    "slice_seed": positive,
    "threads": positive,
    "max_memory": memory,
    "sort_memory": memory,
    "max_rows": positive,
    "explain_limit": positive,
    "checkpoint_every": checkpoint_interval,
}
"""What reads the value of an option, from the text that the command has."""

_PATHS = (
    *("signature", "late", "output", "explain_output", "report", "checkpoint"),
    *("statistics", "write_statistics"),
)

_NAMES = {
    "key": "keys",
    "output_format": "given_format",
    "set": "constants",
    "verdicts": "given_verdicts",
}
"""The names that options have in `RunSpec`, where they differ."""

_OF_COMMAND = {
    **dict.fromkeys(("color", "progress"), "is for terminals"),
    **dict.fromkeys(
        ("context", "before_context", "after_context"),
        "is for people: add rows=True, and look the rows up",
    ),
    "explain_formula": "is the command's: see Formula.explain",
    "policy": "is the first argument",
    "machines": "is the command's: call mtlmon.streams.register_machine with each class",
}
"""Why an option of the command is not one of `mtlmon.check`."""


_OF_LIVE = {
    "idle": "call pass_time as time passes",
    "checkpoint": "take a snapshot(), and go on from it with snapshot=",
    "checkpoint_every": "take a snapshot() as often as you want",
    "resume": "go on from a snapshot with snapshot=",
    "format": "give rows, or text=True for lines of a text log",
    "follow": "give rows as they come",
    "output": "answers are returned by each call",
    "summary": "it is an attribute of what live() returns",
    "sort": "let rows wait, with wait=, or correct verdicts, with lateness=",
}
"""What programs do instead of some options of `mtlmon.check`."""


_PHRASES = {
    " (see mtlmon --help)": "",
    "-o FILE": "--output FILE",
    "; a formula itself follows -e": "; a formula itself is given as a text, not in a list",
    "the formula of -e": "the formula",
    "as in gzip -dc LOG | mtlmon ...": "as gzip -d does",
    "as in zstd -dc LOG | mtlmon ...": "as zstd -d does",
    "as in xz -dc LOG | mtlmon ...": "as xz -d does",
    "as in bzip2 -dc LOG | mtlmon ...": "as bzip2 -d does",
    "--explain-formula": "Formula.explain",
}
"""What messages say to users of the command, and to programs instead."""

_OPTION = re.compile(
    r"(?P<give>\b(?:add|use|with|as in) )?(?<![\w-])--(?P<word>[a-z]+(?:-[a-z]+)*)"
    r"(?: (?P<value>[0-9A-Za-z_|]+))?"
)


def in_python(message: str) -> str:
    """Return a message with its options as keywords: `--time-unit s` as `time_unit='s'`.

    >>> in_python("--idle needs the unit: add --time-unit s, for instance (see mtlmon --help)")
    "idle needs the unit: add time_unit='s', for instance"
    >>> in_python("--wait 5s does not work with --sort: add -o FILE")
    "wait='5s' does not work with sort: add output=PATH"
    >>> in_python("--new-end needs --lateness")
    'new_end needs lateness'
    """
    for ours, theirs in _PHRASES.items():
        message = message.replace(ours, theirs)
    return _OPTION.sub(_keyword, message)


def _keyword(found: re.Match[str]) -> str:
    """Return an option of the command as a keyword, with its value if a value follows it."""
    give, value = found["give"] or "", found["value"]
    word = found["word"].replace("-", "_")
    kinds = {**_kinds(QueryOptions), **_kinds()}
    if word not in kinds and word not in _OF_COMMAND:
        # it is none of the options, such as the name of a file
        return found[0]
    kind = kinds.get(word)
    rest = f" {value}" if value else ""
    if value is None or kind is None or kind is bool:
        is_advised = kind is bool and give.startswith(("add", "use"))
        return f"{give}{word}{'=True' if is_advised else ''}{rest}"
    if value.isupper():
        return f"{give}{word}={'PATH' if value == 'FILE' else value}"
    if value.isdigit():
        return f"{give}{word}={value}"
    # other words than values go on with the sentence
    is_value = value in choices_of(kind) or (word == "pattern" and give)
    return f"{give}{word}={value!r}" if is_value or value[0].isdigit() else f"{give}{word}{rest}"


@cache
def _kinds(options: type = CheckOptions) -> dict[str, Any]:
    """The types of the options of a function."""
    return get_type_hints(options)


def choices_of(kind: Any) -> list[str]:
    """Return the texts that an option can be, if these are listed."""
    choices = [one for part in (kind, *get_args(kind)) for one in get_args(part)]
    return [one for one in choices if isinstance(one, str)]


def spec_of(
    function: str,
    given: Mapping[str, Any],
    host: Host,
    known: type = CheckOptions,
    names: OptionNames = OF_RUNS,
) -> RunSpec:
    """Return what a run is asked to do, without its policies and its log.

    Args:
        function: the function that is called, in errors.
        given: the options.
        host: is told what happens.
        known: the options that the function has.
        names: how errors write options.

    Raises:
        TypeError: the function does not have an option, or not of this type.
        RunError: a value is not one that the option can have.
    """
    types = _kinds(known)
    options: dict[str, object] = {}
    for word, value in given.items():
        if word not in types:
            raise TypeError(_unknown(function, word, types))
        if value is not None:
            options[_NAMES.get(word, word)] = _taken(function, word, value, types[word])
    return RunSpec(host=host, option_names=names).having(**options)


def require_consistent(spec: RunSpec) -> RunSpec:
    """Return what the options ask for, where one means another; the log must be known.

    Raises:
        RunError: options contradict each other.
    """
    require_file(spec.output)
    return consistent(refuse, spec)


def require_file(output: Output) -> None:
    """Raise RunError if answers that are not written to a file are to be written somehow."""
    if output.path is None:
        for word in ("given_format", "csv_safe", "time_stamps"):
            if getattr(output, word):
                name = "output_format" if word == "given_format" else word
                raise RunError(f"{name} is for answers in a file: add output=PATH")


def refuse(message: str) -> NoReturn:
    raise RunError(message)


def _unknown(function: str, word: str, known: Mapping[str, object]) -> str:
    """Return the error of an option that the function does not have."""
    if word in _kinds() and known is not _kinds():
        mend = _OF_LIVE.get(word) if function == "live" else None
        advice = "" if mend is None else f": {mend}"
        return f"{function}() has no option {word}, which mtlmon.check has{advice}"
    if word in _OF_COMMAND:
        return f"{function}() has no option {word}, which {_OF_COMMAND[word]}"
    return f"{function}() has no option {word!r}{did_you_mean(word, known)}"


def _taken(function: str, word: str, value: Any, kind: Any) -> object:
    """Return what an option is, from the value of a keyword."""

    def refuse(wanted: str) -> NoReturn:
        raise TypeError(f"{function}({word}=...) takes {wanted}, not {value!r}")

    choices = choices_of(kind)
    if word == "set":
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            refuse("a dictionary of constants by their names")
        return {name: constant_text(one) for name, one in value.items()}
    if word in ("key", "null_values"):
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, Sequence) or not all(isinstance(one, str) for one in names):
            refuse("a text or a list of texts")
        if word == "null_values":
            return ["", *names]
        # no columns replace the key of a file, too
        return [list(names)]
    if word == "late" and callable(value):
        return value
    if word == "time" and not isinstance(value, str):
        if not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
            refuse("a text or a list of texts")
        return value
    if word == "complete" and not isinstance(value, str):
        if not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
            refuse("the name of a column, or of two")
        value = ",".join(value)
    if word in _PATHS:
        if not is_path(value):
            refuse("a path")
        return os.fspath(value)
    if kind is bool:
        if not isinstance(value, bool):
            refuse("True or False")
        return value
    if word in VALUES:
        if isinstance(value, bool) or not isinstance(value, SupportsIndex | str):
            refuse("a number or a text")
        text = value if isinstance(value, str) else str(operator.index(value))
        try:
            return VALUES[word](text)
        except OptionValueError as error:
            raise RunError(f"{word}={value!r}: {error}") from None
    if not isinstance(value, str):
        refuse("a text")
    if choices and value not in choices:
        wanted = ", ".join(map(repr, choices))
        raise RunError(f"{word}={value!r}: it is one of {wanted}{did_you_mean(value, choices)}")
    return value


def is_path(value: object) -> TypeGuard[Path]:
    """Whether a value is a path as a text, as `str` and `pathlib.Path` are."""
    return isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str)


def constant_text(value: object) -> str:
    """Return the text of a constant, as a policy file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
