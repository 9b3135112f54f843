"""Reads several policy files for one run: what their settings are, what sets their constants.

The files are read one by one, each with its own scope, and then joined (`joining`) into one
`PolicyFile`, which all later parts use like any other. If the keys of files differ, each policy
gets the key of its file; assumptions remember the keys that they are about.
"""

from __future__ import annotations

import os
from pathlib import PurePath

from mtlmon.errors import MtlmonError, PolicyError
from mtlmon.policy.declarations import CONST, EVENT, PATTERN, TIME, TIME_ZONE, UNIT
from mtlmon.policy.declared_text import DeclaredText
from mtlmon.policy.reading import check_policies, parse_policies
from mtlmon.support.encodings import decoded
from mtlmon.support.guesses import advice
from mtlmon.syntax.bounds import LATER, UNIT_WORDS, UNITS
from mtlmon.syntax.report import formula_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.errors import FormulaError
    from mtlmon.policy.policy_file import PolicyFile

_AGREED = (UNIT, TIME, TIME_ZONE, EVENT, PATTERN)
"""The declarations of which a run has one: files that have them must have the same."""

_SUFFIXES = (".mtl", ".policy", ".policies", ".txt")
"""The endings of names of policy files."""


def given_policies(
    policies: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    source: str,
    *,
    unit: str | None = None,
) -> PolicyFile:
    """Return the policies that an argument of a function gives.

    Args:
        policies: the text of a policy file or a formula, the path of a file, or a list of paths.
        source: the name of a text in errors.
        unit: the unit of the time-stamps, as for `parse_policies`.

    Raises:
        MtlmonError: a text looks like the path of a file; or as for `load_policies`.
        OSError: a file cannot be read.
    """
    if not isinstance(policies, str):
        return load_policies(policies, unit=unit)
    require_no_path(policies)
    return parse_policies(policies, source, unit=unit)


def require_no_path(policies: str) -> None:
    """Raise MtlmonError if the text of policies looks like the path of a file."""
    word = policies.strip()
    if len(word.split()) == 1 and (
        PurePath(word).suffix in _SUFFIXES or ("/" in word and os.path.isfile(word))
    ):
        raise MtlmonError(
            f"the policy {word!r} is a text that looks like a path: pass pathlib.Path({word!r}) "
            "for the content of the file"
        )


def load_policies(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    unit: str | None = None,
    constants: Mapping[str, str] | None = None,
    key: Sequence[str] | None = None,
    needs_policy: bool = True,
) -> PolicyFile:
    """Read policy files for one run.

    Each file has its own names, constants, zone and key. Where a name of one file is declared or
    used in another, it gets the name of its file before it, as in `web:failed`, and so do policies
    of one name. A formula without a name is called like its file. Files that say a unit, a time or
    event column, a time zone or a pattern must say the same; it holds for the others, too.

    Args:
        paths: a path, or a list with at least one.
        unit: the unit of the time-stamps, as for `parse_policies`.
        constants: other values for constants of the files, as texts: `{"limit": "30"}`, or
            `{"web:limit": "30"}` if several files have a constant `limit`.
        key: the key of policies that have none of their own, in place of that of their files.
        needs_policy: whether a file without a policy is an error.

    Raises:
        FormulaError: a formula is invalid.
        PolicyError: a declaration or a predicate is invalid, or files contradict each other.
        UnitError: the unit that is passed is unknown.
        MtlmonError: a file is given twice, or is not UTF-8.
        OSError: a file cannot be read.
        ValueError: no path is given.
    """
    several = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    names = [os.fspath(path) for path in several]
    require_different(names)
    texts = []
    for name in names:
        with open(name, "rb") as file:
            content = file.read()
        try:
            texts.append((decoded(content), name))
        except MtlmonError as error:
            raise MtlmonError(f"cannot read {name}: {error}") from None
    found, errors = check_files(
        texts,
        unit=unit,
        constants=constants,
        key=None if key is None else tuple(key),
        needs_policy=needs_policy,
    )
    if errors:
        raise errors[0]
    return found


def require_different(paths: Sequence[str]) -> None:
    """Require that no file is named twice.

    Raises:
        MtlmonError: one is.
    """
    seen: dict[str, str] = {}
    for path in paths:
        try:
            place = os.path.realpath(path)
        except ValueError:
            # a null byte, which opening the file tells
            place = path
        before = seen.get(place)
        if before == path:
            raise MtlmonError(f"the policy file {path} is given twice: name it once")
        if before is not None:
            raise MtlmonError(f"{before} and {path} are the same policy file: name it once")
        seen[place] = path


def check_files(
    texts: Sequence[tuple[str, str]],
    *,
    unit: str | None = None,
    constants: Mapping[str, str] | None = None,
    key: tuple[str, ...] | None = None,
    needs_policy: bool = True,
) -> tuple[PolicyFile, tuple[FormulaError, ...]]:
    """Parse policy files for one run, and collect all errors.

    Args:
        texts: the content of each file, and its name in errors.
        unit: the unit of the time-stamps, as for `parse_policies`.
        constants: other values for constants, as for `load_policies`.
        key: the key of policies that have none of their own, in place of that of their files; None
            to leave that to the files.
        needs_policy: whether a file without a policy is an error.

    Returns:
        The joined file, or the first one if there are errors; and the errors in the order of the
        files and their places.

    Raises:
        UnitError: the unit that is passed is unknown.
        ValueError: there are no files, or two of one name.
    """
    if not texts:
        raise ValueError("expected at least one policy file")
    if len({source for _, source in texts}) < len(texts):
        raise ValueError("expected policy files of different names")
    heads = [DeclaredText(text, source) for text, source in texts]
    prefixes = _prefixes([source for _, source in texts])
    errors = [] if len(texts) == 1 else _disagreements(heads)
    settings, errors_of_settings = _settings(heads, prefixes, constants or {})
    errors += errors_of_settings
    declared = next((one for one in map(_unit, heads) if one is not None), None)
    files = []
    for (text, source), own_constants, head in zip(texts, settings, heads, strict=True):
        own_unit = unit
        if unit in (None, LATER) and _unit(head) is None:
            own_unit = declared or unit
        file, found = check_policies(
            text, source, unit=own_unit, constants=own_constants, needs_policy=needs_policy
        )
        if key is not None:
            file.key = key
        files.append(file)
        errors += found
    if errors or len(files) == 1:
        return files[0], tuple(errors)
    from mtlmon.policy.joining import joined

    file, found_joined = joined(files, prefixes, files[0].unit)
    return file, tuple(found_joined)


def _unit(head: DeclaredText) -> str | None:
    """The unit that a file declares, if it is one."""
    for declaration in head.declarations:
        if declaration.kind == UNIT:
            name = UNIT_WORDS.get(declaration.name, declaration.name)
            return name if name in UNITS else None
    return None


def _disagreements(heads: Sequence[DeclaredText]) -> list[FormulaError]:
    """The errors that files say different things of the log."""
    errors = []
    for kind in _AGREED:
        first: tuple[DeclaredText, str, int] | None = None
        for head in heads:
            found = next((one for one in head.declarations if one.kind == kind), None)
            if found is None:
                continue
            value = found.name
            if kind == UNIT:
                value = UNIT_WORDS.get(value, value)
            if first is None:
                first = head, value, head.line_of(found)
            elif first[1] != value:
                before, other, line = first
                what = f"the {kind} is {value} here, but {other} in line {line} of {before.source}"
                hint = f"files of one run are about one log, which has one {kind}"
                errors.append(head.error(found.place, what, hint))
    return errors


def _settings(
    heads: Sequence[DeclaredText], prefixes: Sequence[str], constants: Mapping[str, str]
) -> tuple[list[dict[str, str]], list[FormulaError]]:
    """Return the values that constants of each file get, and the errors of their names."""
    if len(heads) == 1:
        return [dict(constants)], []
    known = [[one.name for one in head.declarations if one.kind == CONST] for head in heads]
    settings: list[dict[str, str]] = [{} for _ in heads]
    errors: list[FormulaError] = []
    for name, value in constants.items():
        owners = [(place, name) for place, own in enumerate(known) if name in own] or [
            (place, own)
            for place, (prefix, names) in enumerate(zip(prefixes, known, strict=True))
            if (own := name.removeprefix(f"{prefix}:")) != name and own in names
        ]
        if len(owners) == 1:
            ((place, own_name),) = owners
            settings[place][own_name] = value
            continue
        full = [
            f"{prefix}:{own}"
            for prefix, names in zip(prefixes, known, strict=True)
            for own in names
        ]
        if owners:
            message = f"{len(owners)} files have a constant {name}"
            hint = "write " + " or ".join(f"{prefixes[place]}:{name}" for place, _ in owners)
        else:
            message = f"there is no constant {name} to set"
            guess = advice(name, [*dict.fromkeys(one for own in known for one in own), *full])
            hint = guess or f"declare it: const {name} = ..."
        place = owners[0][0] if owners else 0
        errors.append(
            formula_error(
                heads[place].text,
                0 if not owners else _place_of(heads[place], name),
                message,
                source=heads[place].source,
                hint=hint,
                kind=PolicyError,
            )
        )
    return settings, errors


def _place_of(head: DeclaredText, constant: str) -> int:
    return next(
        one.place for one in head.declarations if one.kind == CONST and one.name == constant
    )


def _prefixes(sources: Sequence[str]) -> list[str]:
    """Return a short name for each file: its name without ending, if no other file has that.

    If another one has it, folders are added until they differ, or else the ending.
    """
    paths = [PurePath(source.strip("<>")) for source in sources]
    plain = [path.with_suffix("").parts if path.name else (str(path),) for path in paths]
    found = []
    for number, (path, parts) in enumerate(zip(paths, plain, strict=True)):
        others = plain[:number] + plain[number + 1 :]
        lengths = range(1, len(parts) + 1)
        fitting = [length for length in lengths if _differ(parts, others, length)]
        chosen = parts[-fitting[0] :] if fitting else path.parts[-1:]
        found.append("/".join(chosen))
    return found


def _differ(parts: Sequence[str], others: Sequence[Sequence[str]], length: int) -> bool:
    if length == len(parts):
        return parts not in others
    return all(other[-length:] != parts[-length:] for other in others)
