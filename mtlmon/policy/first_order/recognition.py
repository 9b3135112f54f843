"""Tells first-order formulas from others, before they are parsed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.keywords import KEYWORDS
from mtlmon.policy.predicates.own_functions import registered_function
from mtlmon.syntax.lexer import comment_end, skip_blanks
from mtlmon.syntax.operators import BY_SPELLING, SMALL_WORDS

if TYPE_CHECKING:
    from collections.abc import Container

NAMES_BEFORE_PARENTHESIS = frozenset({"S", "U", "R", "T", "W"})
"""Operators between operands that are names of atoms where an operand begins, before `(`."""

OPERATORS_BEFORE_PARENTHESIS = frozenset({"F", "G", "X", "Y", "H", "O"})
"""Operators of one letter before an operand; before `(` as well."""

QUANTIFIER = re.compile(
    r"(?P<quantifier>(?:FORALL|EXISTS)(?=\s)|[∀∃])(?=\s*(?:[^\W\d][^\s,.()]*)\s*[,.])"
)

_PIECE = re.compile(
    rf"""
      (?P<comment> /\* ) | (?P<blank> \s+ | \#[^\n]* )
    | {QUANTIFIER.pattern.replace(" ", "[ ]")}
    | (?P<interval> \[ [^])\n]* [])] )
    | (?P<name> (?: [^\W\d] | \$ ) [\w$.']* | "(?: [^"\\\n] | \\. )*" )
    | (?P<backquoted> `[^`\n]*` )
    | (?P<other> <-> | <=> | -> | => | && | \|\| | . )
    """,
    re.VERBOSE | re.DOTALL,
)
# What all first-order formulas have, and few others: a quantifier, or a name before a parenthesis.
# PERF: for 1,000 policies with windows, looking for it takes 6 ms, and at all pieces 15.
_SIGN = re.compile(
    r"""(?x) FORALL | EXISTS | [∀∃] | [FGXYHO] \s* [(\#/]
    | [\w$.'"] (?<! [\s(]NOT ) (?<! [\s(]AND ) (?<! [\s(]OR ) (?<! [\s(]IMPLIES ) [ \t]* \("""
)
_OPENING = re.compile(r"[ \t]*\(")
_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"|[][(),]')
_NEVER = frozenset({*ops.FUNCTIONS, *ops.RESERVED, *ops.OVER_WORDS, *SMALL_WORDS})


def is_first_order(text: str, start: int, end: int, relations: Container[str]) -> bool:
    """Whether text[start:end] has a quantifier, an aggregate, or an atom or let with arguments.

    Args:
        text: the whole text.
        start: where the formula begins.
        end: where it ends.
        relations: the names of atoms and lets with arguments that the file declares.
    """
    if not _SIGN.search(text, start, end):
        return False
    position = start
    wants_operand = True
    while piece := _PIECE.match(text, position, end):
        kind, position = piece.lastgroup, piece.end()
        if kind == "quantifier":
            return True
        if kind == "comment":
            position = comment_end(text, position, end)
            if position < 0:
                return False
        elif kind == "name":
            name = piece.group()
            if has_arguments(text, position, end) and (
                name in relations
                or name in ops.FORMULA_AGGREGATES
                or _is_atom(name, wants_operand=wants_operand)
            ):
                return True
            if name in OPERATORS_BEFORE_PARENTHESIS and wants_operand:
                opening = skip_blanks(text, position, end)
                if text.startswith("(", opening) and has_comma(text, opening + 1, end):
                    return True
            wants_operand = name in BY_SPELLING or name in SMALL_WORDS
        elif kind in {"other", "backquoted"}:
            wants_operand = piece.group() == "(" or piece.group() in BY_SPELLING
    return False


def has_arguments(text: str, position: int, end: int) -> bool:
    """Whether a parenthesis with something in it follows a position on its line."""
    opening = _OPENING.match(text, position, end)
    return opening is not None and not text.startswith(")", skip_blanks(text, opening.end(), end))


def has_comma(text: str, start: int, end: int) -> bool:
    """Whether a comma is in the parenthesis that begins before `start`, unless an interval does."""
    depth = 1
    if text[skip_blanks(text, start, end) : end][:1].isdigit():
        return False
    for mark in _COMMA.finditer(text, start, end):
        depth += (mark.group() in {"(", "["}) - (mark.group() in {")", "]"})
        if depth == 0:
            return False
        if mark.group() == "," and depth == 1:
            return True
    return False


def _is_atom(name: str, *, wants_operand: bool) -> bool:
    """Whether a name before arguments is that of an atom of the log."""
    if name in NAMES_BEFORE_PARENTHESIS:
        return wants_operand
    if registered_function(name) is not None:
        return False
    if name in BY_SPELLING or name in _NEVER or name.lower() in KEYWORDS or name.lower() == "if":
        return False
    return name.rpartition(".")[2] not in ops.OFFSETS
