"""Read the policies of a run, and settle what they say about the log."""

from __future__ import annotations

from mtlmon.errors import FormulaError
from mtlmon.run.failure import RunError
from mtlmon.run.option_rules import check_text_options
from mtlmon.run.recognition import format_advice, format_of_input
from mtlmon.support.inputs import STANDARD_STREAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.run.spec import Policies, RunSpec, Times
    from mtlmon.syntax.formula import Formula

# the words that most declarations begin with
_DECLARING = frozenset(
    {
        *("unit", "let", "atom", "policy", "find", "const", "stream", "trigger"),
        *("time", "event", "pattern", "zone", "key", "assume"),
    }
)

__all__ = [
    "adopted",
    "declared_policies",
    "declared_unit",
    "formula_texts",
    "prepared",
    "with_contents",
]


def prepared(options: RunSpec) -> tuple[Formula | PolicyFile, RunSpec]:
    """Parse the policies, and check that the options fit them and the log.

    Returns:
        The policies, and the options with what the policies and the log say.

    Raises:
        RunError: a file cannot be read, or options contradict each other or what a file says.
        FormulaError: the text is not a formula or a policy file.
    """
    return fitting(*load_policies(options))


def adopted(file: Formula | PolicyFile, options: RunSpec) -> tuple[Formula | PolicyFile, RunSpec]:
    """Do the same for policies that have been parsed."""
    from mtlmon.syntax.formula import Formula

    options = options.having(unit=declared_unit(options.times) or options.log.time_unit)
    if not isinstance(file, Formula):
        is_given = bool(options.log.keys)
        options = with_settings(file, options)
        if is_given:
            file = file.without_keys_of_files()
    return fitting(file, options)


def declared_unit(times: Times) -> str | None:
    """Return the unit of time-stamps that an option gives, or None."""
    return times.unit or times.resolution


def fitting(file: Formula | PolicyFile, options: RunSpec) -> tuple[Formula | PolicyFile, RunSpec]:
    """Return the policies and the options, if the options fit them and the log.

    Raises:
        RunError: they do not.
    """
    options = with_format(options)
    if not options.log.is_table:
        check_text_options(options)
    if (
        options.log.is_table
        and options.log.event_separator is not None
        and options.log.event is None
    ):
        raise RunError(
            "--event-separator needs the column of event names: add --event COLUMN "
            "(see mtlmon --help)"
        )
    judging = options.judging
    of_slices = {
        "--slice-seed": judging.slice_seed,
        "--statistics": judging.statistics,
        "--write-statistics": judging.write_statistics,
    }
    for name, given in of_slices.items():
        if given is not None and judging.slices is None:
            raise RunError(f"{name} is for slices: add --slices N, or leave it out")
    return file, options


def with_format(options: RunSpec) -> RunSpec:
    """Recognise the format of a log on standard input, if nothing says it.

    Raises:
        RunError: standard input cannot be read, or is compressed and not a table.
    """
    if options.policies.explain_formula or list(options.log.paths) != [STANDARD_STREAM]:
        return options
    if options.log.format is None and options.log.pattern is None:
        return options.having(format=format_of_input(options.log.input))
    return options


def load_policies(options: RunSpec) -> tuple[Formula | PolicyFile, RunSpec]:
    """Parse the formula or the policy file; its settings become options that are not given.

    Returns:
        The policies, and these options.

    Raises:
        RunError: the file cannot be read, or its settings do not fit the log.
        FormulaError: the text is not a formula or a policy file.
    """
    from mtlmon.syntax.parser import parse

    # the unit of time-stamps, by either option
    declared = declared_unit(options.times)
    options = with_contents(options.having(unit=declared or options.log.time_unit))
    texts = formula_texts(options.policies)
    if len(texts) == 1 and not options.policies.constants and not may_declare(texts[0][0]):
        text, source = texts[0]
        try:
            return parse(text, unit=options.times.unit, source=source), options
        except FormulaError:
            # It may have conditions, which take longer to import.
            pass
    return declared_policies(texts, declared, options)


def declared_policies(
    texts: Sequence[tuple[str, str]],
    declared: str | None,
    options: RunSpec,
    *,
    needs_policy: bool = True,
) -> tuple[PolicyFile, RunSpec]:
    """Parse policy files; their settings become options that are not given.

    Args:
        texts: the contents of the files with their names in errors.
        declared: the unit of time-stamps that an option gives, or None.
        options: the options of the run; their unit is the one if the files say none.
        needs_policy: whether a file without a policy is an error.

    Returns:
        The policies, and these options.

    Raises:
        RunError: the settings of a file do not fit the log.
        FormulaError: a text is not a policy file, or files contradict each other.
    """
    from mtlmon.syntax.bounds import LATER

    file = parsed_policies(texts, declared or LATER, options, needs_policy=needs_policy)
    if file.unit == LATER:
        unit = options.times.unit or unit_of_pattern(options.log.pattern or file.pattern)
        if unit is None and not may_need_unit(file):
            file.unit = None
        else:
            file = parsed_policies(texts, unit, options, needs_policy=needs_policy)
    return file, with_settings(file, options)


def may_need_unit(file: PolicyFile) -> bool:
    """Whether a file may read otherwise if there is no unit of time-stamps, by a quick check.

    PERF: reading 1,000 policies a second time takes as long as the first time.
    """
    import re

    from mtlmon.syntax.bounds import UNIT_WORDS, UNITS

    if file.parts or file.constants or file.assumptions or file.intervals:
        return True
    units = "|".join([*UNITS, *UNIT_WORDS])
    unit = rf"[0-9](?=[\s#/a-z])(?:\s++|\#[^\n]*)*+(?:/\*|(?:{units})\b)"
    return re.search(unit, file.text) is not None


def parsed_policies(
    texts: Sequence[tuple[str, str]], unit: str | None, options: RunSpec, *, needs_policy: bool
) -> PolicyFile:
    """Parse policy files with a unit of time-stamps.

    Raises:
        FormulaError: a text is not a policy file, or files contradict each other.
    """
    constants = options.policies.constants
    if len(texts) == 1:
        from mtlmon.policy import parse_policies

        ((text, source),) = texts
        return parse_policies(
            text, source, unit=unit, constants=constants, needs_policy=needs_policy
        )
    from mtlmon.policy import check_files

    # --key replaces the keys of the files
    key = tuple(options.log.key_columns) if options.log.keys else None
    file, errors = check_files(
        texts, unit=unit, constants=constants, key=key, needs_policy=needs_policy
    )
    if errors:
        raise errors[0]
    return file


def unit_of_pattern(pattern: str | None) -> str | None:
    """Return the unit of time-stamps that a pattern implies: seconds, if times are of a calendar.

    Raises:
        MtlmonError: the pattern is for times without a year, and none is told.
    """
    if pattern is None:
        return None
    from mtlmon.support.ready_patterns import ready_pattern, split_patterns

    found = map(ready_pattern, split_patterns(pattern))
    return "s" if any(one is not None and one.time is not None for one in found) else None


def with_contents(options: RunSpec) -> RunSpec:
    """Read the policy files.

    Raises:
        RunError: one cannot be read.
    """
    if options.policies.formula is not None:
        return options
    from mtlmon.run.files import read_content

    return options.having(contents={name: read_content(name) for name in options.policies.files})


def formula_texts(policies: Policies) -> list[tuple[str, str]]:
    """Return the texts of the formula or the policy files, and their names in errors.

    Raises:
        RunError: one is not UTF-8.
    """
    if policies.formula is None:
        from mtlmon.run.files import text_of

        return [(text_of(content, name), name) for name, content in policies.contents.items()]
    try:
        policies.formula.encode()
    except UnicodeEncodeError:
        raise RunError("the formula of -e is not UTF-8") from None
    return [(policies.formula, "<formula>")]


def may_declare(text: str) -> bool:
    """Whether the text may be a policy file rather than a single formula, by a quick check."""
    # PERF: `re` takes 5 ms to import
    for line in text.split("\n"):
        word, blank, _ = line.replace("\t", " ").lstrip(" ").partition(" ")
        if blank and word in _DECLARING:
            return True
    return False


def with_settings(file: PolicyFile, options: RunSpec) -> RunSpec:
    """Use what the file says about the log where no option says it.

    Raises:
        RunError: the file describes a table, but the log is read as text.
    """
    options = options.having(unit=file.unit)
    if options.log.format is None:
        options = options.having(pattern=options.log.pattern or file.pattern)
    options = with_format(options)
    if not options.log.is_table:
        refuse_settings(file, options)
        return options
    log = options.log
    return options.having(
        time=log.time or file.time,
        event=log.event or file.event,
        keys=log.keys or ([file.key] if file.key else ()),
    )


def refuse_settings(file: PolicyFile, options: RunSpec) -> None:
    """Raise RunError if a file describes a table, since the log is read as text."""
    for part in file.files:
        source = part.source if file.parts else options.policies.name
        # with --key, that is what is wrong
        key = None if options.log.keys else part.key
        settings = {"key": key, "time": part.time, "event": part.event}
        for name, value in settings.items():
            if value and not options.policies.explain_formula:
                raise RunError(
                    f"{source} declares the {name} of a table, but the log is read as text: "
                    f"{format_advice(options.log)}"
                )
