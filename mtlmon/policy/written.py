"""Policies and what they use as their files write them, for people to read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mtlmon.policy.declarations import (
    ATOM,
    CHECKED,
    CONST,
    FORMULA,
    LET,
    RELATION,
    STREAM,
    TRIGGER,
)
from mtlmon.support.closures import closure
from mtlmon.syntax.lexer import comment_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from mtlmon.policy.declarations import Declaration
    from mtlmon.policy.policy_file import PolicyFile

__all__ = ["Definition", "WrittenPolicy", "written_formula", "written_policies"]

_DEFINITIONS = frozenset({CONST, ATOM, STREAM, RELATION, LET})
# Bodies in which double quotes are texts; elsewhere, they are names.
_EXPRESSIONS = frozenset({CONST, ATOM, STREAM, RELATION, TRIGGER})
# A comment, or something in quotes, which can contain the marks of comments.
_COMMENT_OR_QUOTED = re.compile(r"""/\*|\#[^\n]*|"(?:[^"\\]|\\.)*"|`[^`\n]*`""", re.DOTALL)
_NAME = re.compile(
    r""" "(?P<quoted>(?:[^"\\]|\\.)*)" | `[^`\n]*`
       | (?<![\w.]) (?P<name> [^\W\d][\w$']* (?:\.[^\W\d][\w$']*)* ) """,
    re.VERBOSE | re.DOTALL,
)
# what a text of a message replaces by a value
_INSERTED = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Definition:
    """A declaration that a policy uses.

    Attributes:
        kind: the word that it begins with: "const", "atom", "stream", "relation" or "let".
        name: the name that it defines.
        text: the declaration as written, without comments.
        remark: a fact that is not written there, for instance that an option has set a constant; or
            empty.
    """

    kind: str
    name: str
    text: str
    remark: str = ""


@dataclass(frozen=True)
class WrittenPolicy:
    """A policy as its file writes it.

    Attributes:
        text: what is behind its colon, without comments.
        definitions: what it uses, directly or by way of others, in the order of the file.
        source: the name of the file.
    """

    text: str
    definitions: tuple[Definition, ...]
    source: str


def written_formula(text: str) -> str:
    """Return a formula as written, without comments."""
    return _tidied(text, 0, len(text))


def written_policies(
    file: PolicyFile, constants: Mapping[str, str] | None = None
) -> list[WrittenPolicy]:
    """Return the policies of a file as written, in their order.

    Names are those of the file that a policy is in, also where several files are joined.

    Args:
        file: the file, which has been read without errors.
        constants: the values that options give to constants, as for `load_policies`.
    """
    overridden = frozenset(name.rpartition(":")[2] for name in constants or ())
    return [one for part in file.files for one in _policies_of(part, overridden)]


def _policies_of(file: PolicyFile, overridden: frozenset[str]) -> Iterator[WrittenPolicy]:
    checked = {
        None if one.kind == FORMULA else one.name: one
        for one in file.declarations
        if one.kind in CHECKED
    }
    definitions = [one for one in file.declarations if one.kind in _DEFINITIONS]
    names = {one.name for one in definitions}
    uses = {one.name: _used(file.text, one, names) for one in definitions}
    for policy in file.policies:
        declaration = checked.get(policy.name)
        if declaration is None:
            # the file is not one of policies, but a formula in another language
            yield WrittenPolicy(file.text.strip(), (), file.source)
            continue
        known = closure(_used(file.text, declaration, names), uses)
        yield WrittenPolicy(
            _tidied(file.text, declaration.start, declaration.end),
            tuple(_definition(file, one, overridden) for one in definitions if one.name in known),
            file.source,
        )


def _definition(
    file: PolicyFile, declaration: Declaration, overridden: frozenset[str]
) -> Definition:
    kind, name = declaration.kind, declaration.name
    start = file.text.rfind("\n", 0, declaration.place) + 1
    end = declaration.end
    remark = ""
    if kind == CONST and name in overridden and name in file.constants:
        from mtlmon.policy.messages import value_text

        remark = f"set to {value_text(file.constants[name])}"
    return Definition(kind, name, _tidied(file.text, start, end), remark)


def _used(text: str, declaration: Declaration, names: Collection[str]) -> set[str]:
    """The declared names that occur in a declaration, apart from its own."""
    header = text[slice(*declaration.header)]
    body = _tidied(text, declaration.start, declaration.end)
    arguments = "" if declaration.arguments is None else text[slice(*declaration.arguments)]
    found = _names(header, quotes_names=False) | _names(arguments, quotes_names=False)
    found |= _names(body, quotes_names=declaration.kind not in _EXPRESSIONS)
    if declaration.kind == TRIGGER:
        for inserted in _INSERTED.findall(body):
            found |= _names(inserted, quotes_names=False)
    return {name for name in found if name in names and name != declaration.name}


def _names(text: str, *, quotes_names: bool) -> set[str]:
    """The names in a part of a file that is free of comments."""
    found = set()
    for match in _NAME.finditer(text):
        name = match["name"]
        if name is None:
            if quotes_names and match["quoted"] is not None:
                found.add(match["quoted"])
            continue
        if name.startswith("row."):
            continue
        # `speed.last(2)` reads `speed`, but a name may have dots itself
        parts = name.split(".")
        found.update(".".join(parts[: count + 1]) for count in range(len(parts)))
    return found


def _tidied(text: str, start: int, end: int) -> str:
    """Part of a text without comments, blank lines, and spaces at the ends of lines."""
    pieces = []
    position = start
    while (mark := _COMMENT_OR_QUOTED.search(text, position, end)) is not None:
        behind = mark.end()
        pieces.append(text[position : mark.start()])
        if mark.group() == "/*":
            behind = comment_end(text, mark.end(), end)
            behind = end if behind < 0 else behind
        elif mark.group()[0] != "#":
            pieces.append(mark.group())
        position = behind
    pieces.append(text[position:end])
    lines = [line.rstrip() for line in "".join(pieces).split("\n")]
    return "\n".join(line for line in lines if line).strip()
