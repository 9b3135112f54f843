"""Mutants of Cython, made from its tokens: there is no library that reads .pyx files.

A change that is no Cython, or does not compile, is no mutant, so the rules here may be generous
where types are concerned.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<comment> \#[^\n]*)
    | (?P<string> [rRbBuUfFcC]{0,2} (?: \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3}
                                    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ))
    | (?P<number> (?: 0[xX][\da-fA-F_]+ | 0[bB][01_]+
                    | \d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)? )[uUlL]*)
    | (?P<name> [^\W\d]\w*)
    | (?P<newline> \n)
    | (?P<space> [ \t\r\f]+ | \\\n)
    | (?P<operator> \*\*=? | //=? | <<=? | >>=? | <= | >= | == | != | -> | := | [-+*/%&|^@]= | .)
    """,
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = frozenset(keyword.kwlist) - {"None", "True", "False"}

# Each of the second is a mutant of the first; between two operands only, where it says so.
_SWAPPED = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "<<": ">>",
    ">>": "<<",
    "&": "|",
    "|": "&",
    "+=": "-=",
    "-=": "+=",
    "|=": "&=",
    "&=": "|=",
}
_SWAPPED_NAMES = {
    "and": "or",
    "or": "and",
    "True": "False",
    "False": "True",
    "min": "max",
    "max": "min",
    "break": "continue",
    "continue": "break",
}
_CONDITIONAL = ("if", "elif", "while", "assert")
# Statements that have no effect that a test could see, or that do not compile without.
_KEPT = ("pass", "import", "from", "cimport", "include", "global", "nonlocal", "cdef", "ctypedef")
_NO_CODE = ("import", "from", "cimport", "include", "ctypedef", "@")


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class _Change:
    operator: str
    start: int
    end: int
    text: str


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """The name of an operator and the whole text after it, for every mutant of a module."""
    seen = {source}
    lines = list(lines_with_roles(source))
    unused = _lines_of_checks(source, lines)
    for number, (line, role) in enumerate(lines):
        is_last = number + 1 == len(lines) or lines[number + 1][1] != "code"
        if number in unused or (role == "code" and _says_nothing(line, is_last)):
            continue
        for change in _changes(source, line, role):
            text = source[: change.start] + change.text + source[change.end :]
            if text not in seen:
                seen.add(text)
                yield change.operator, text


def _logical_lines(source: str) -> Iterator[list[Token]]:
    line: list[Token] = []
    depth = 0
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or ""
        if kind in ("comment", "space"):
            continue
        if kind == "newline":
            if line and not depth:
                yield line
                line = []
            continue
        if kind == "operator":
            depth += (match[0] in "([{") - (match[0] in ")]}")
        line.append(Token(kind, match[0], match.start()))
    if line:
        yield line


def lines_with_roles(source: str, *, every: bool = False) -> Iterator[tuple[list[Token], str]]:
    """Each line with what it is: "header" of a function, its "code", a "constant".

    With `every`, others too, which have no role.
    """
    blocks: list[tuple[int, str]] = []
    for line in _logical_lines(source):
        column = column_of(source, line)
        while blocks and blocks[-1][0] >= column:
            blocks.pop()
        inside = blocks[-1][1] if blocks else "module"
        words = [token.text for token in line]
        opens = words[-1] == ":"
        if inside == "function":
            yield line, "code"
        elif opens and ("def" in words[:2] or words[0] in ("cdef", "cpdef")) and "(" in words:
            blocks.append((column, "function"))
            yield line, "header"
        elif opens and words[0] in ("cdef", "class"):
            kinds = {"enum": "enum", "class": "class"}
            kind = next((kinds[word] for word in words if word in kinds), "declaration")
            if "extern" in words:
                kind = "declaration"
            blocks.append((column, kind))
            if every:
                yield line, ""
        elif inside in ("enum", "module") and words[0] not in _NO_CODE:
            yield line, "constant"
        elif every:
            yield line, ""


def _lines_of_checks(source: str, lines: list[tuple[list[Token], str]]) -> set[int]:
    """What only builds that check themselves run: functions that assert, and who calls them."""
    found: set[int] = set()
    function: list[int] = []
    outside = -1
    for number, (line, role) in enumerate(lines):
        if role != "code":
            function, outside = [number], -1
            continue
        function.append(number)
        column = column_of(source, line)
        if column <= outside:
            outside = -1
        if outside < 0 and [token.text for token in line] == ["if", "MTLMON_CHECKS", ":"]:
            outside = column
        if outside >= 0:
            found.add(number)
        if line[0].text == "assert":
            found.update(function)
        elif function[0] in found:
            found.add(number)
    return found


def column_of(source: str, line: list[Token]) -> int:
    return line[0].start - (source.rfind("\n", 0, line[0].start) + 1)


def _says_nothing(line: list[Token], is_last: bool) -> bool:
    """What no test could miss: a text, a success that C would return anyway, and the exception
    for which memory would have to run out."""
    words = [token.text for token in line]
    return (
        (len(line) == 1 and line[0].kind == "string")
        or (is_last and words == ["return", "0"])
        or words[:2] == ["raise", "MemoryError"]
    )


def _changes(source: str, line: list[Token], role: str) -> Iterator[_Change]:
    yield from _changed_tokens(line, role)
    if role == "code":
        yield from _negated(source, line)
        yield from _dropped(line)


def _changed_tokens(line: list[Token], role: str) -> Iterator[_Change]:
    casts = _casts(line)
    first = 0
    if line[0].text == "cdef" and role == "code":
        # What stands before the first value declares.
        first = next((i for i, token in enumerate(line) if token.text == "="), len(line))
    for place in range(first, len(line)):
        token = line[place]
        previous = line[place - 1] if place else None
        if role == "header" and (previous is None or previous.text != "="):
            continue
        if token.kind == "number":
            if [other.text for other in line] == ["return", "0"]:
                continue  # of a function that returns nothing but whether it raises
            yield from _other_numbers(token)
        elif role == "constant":
            continue
        elif token.kind == "operator" and token.text in _SWAPPED:
            is_binary = previous is not None and _is_operand(previous) and place - 1 not in casts
            if place not in casts and (is_binary or token.text.endswith("=")):
                yield _Change("operator", token.start, token.end, _SWAPPED[token.text])
        elif token.kind == "name":
            yield from _changed_name(line, place)


def _changed_name(line: list[Token], place: int) -> Iterator[_Change]:
    token = line[place]
    following = line[place + 1].text if place + 1 < len(line) else ""
    previous = line[place - 1].text if place else ""
    if token.text in _SWAPPED_NAMES and previous != ".":
        yield _Change("word", token.start, token.end, _SWAPPED_NAMES[token.text])
    elif token.text == "is" and following != "not":
        yield _Change("word", token.start, token.end, "is not")
    elif token.text == "not":
        yield _Change("word", token.start, token.end, "")
    elif token.text == "in" and previous != "not" and line[0].text != "for":
        yield _Change("word", token.start, token.end, "not in")


def _other_numbers(token: Token) -> Iterator[_Change]:
    digits = token.text.rstrip("uUlL")
    suffix = token.text[len(digits) :]
    try:
        value = int(digits, 0)
    except ValueError:
        return
    for other in (value + 1, value - 1):
        if other >= 0:
            yield _Change("number", token.start, token.end, f"{other}{suffix}")


def _negated(source: str, line: list[Token]) -> Iterator[_Change]:
    if line[0].text in _CONDITIONAL and len(line) > 2:
        stop = line[-1].start if line[-1].text == ":" else line[-1].end
        condition = source[line[1].start : stop]
        yield _Change("negate", line[1].start, stop, f"not ({condition})")


def _dropped(line: list[Token]) -> Iterator[_Change]:
    if line[-1].text != ":" and line[0].text not in _KEPT:
        yield _Change("drop", line[0].start, line[-1].end, "pass")


def _is_operand(token: Token) -> bool:
    if token.kind == "name":
        return token.text not in _KEYWORDS
    return token.kind in ("number", "string") or token.text in (")", "]", "}")


def _casts(line: list[Token]) -> set[int]:
    """The places of `<` and `>` that enclose a type."""
    found: set[int] = set()
    for place, token in enumerate(line):
        if token.text != "<" or (place and _is_operand(line[place - 1])):
            continue
        for stop in range(place + 1, len(line)):
            if line[stop].text == ">":
                found.update((place, stop))
                break
    return found
