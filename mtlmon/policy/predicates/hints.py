"""Hints at what was meant by an invalid policy file or predicate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates.lexer import COLUMN, FUNCTION, TEXT, is_temporal_word
from mtlmon.policy.predicates.operators import AGGREGATES, OVER_WORDS
from mtlmon.syntax.lexer import NUMBER
from mtlmon.syntax.operators import SMALL_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtlmon.policy.predicates.lexer import Token

_SHOWN = 8

FORMULA_IN_EXPRESSION = (
    "ONCE, SINCE and other operators of formulas stand in policies and lets; a let of the past can "
    "be named in an expression: let NAME = FORMULA"
)
"""The hint for an operator of formulas inside an expression."""


def some(names: Iterable[str]) -> str:
    """List names on one line: at most eight, and how many more there are."""
    known = list(names)
    shown = ", ".join(known[:_SHOWN])
    return f"{shown} and {len(known) - _SHOWN:,} more" if len(known) > _SHOWN else shown


def without_window(aggregate: str) -> str:
    """Return a hint for an aggregate that has no window."""
    hint = f"write how far it looks back: {aggregate}[0,5m](...)"
    if aggregate in OVER_WORDS:
        hint += f", or over which stream's instances: {aggregate}(... over STREAM)"
    return hint


def where_operand_is_missing(before: Token, token: Token) -> str | None:
    """Return a hint for a place where a value should start but does not."""
    if token.kind == "=" and before.kind in {"=", "=="}:
        return "equality is written = or =="
    if token.kind in {"and", "or", "in", "is"}:
        return f"{token.kind} is a keyword; a column of that name is written `{token.kind}`"
    if token.kind == "*" and before.kind == "(":
        return "write nothing between the parentheses to count all rows, as in count[0,5]()"
    if token.kind == "*":
        return "a comment is written /* ... */ or after #"
    if token.kind in {"[", "]"}:
        return "parentheses are round"
    return None


def where_operator_is_missing(before: Token, token: Token) -> str | None:
    """Return a hint for a complete value that is followed by something that cannot follow it."""
    if token.kind == COLUMN and str(token.value).lower() in {"then", "else"}:
        return "a choice is written if ... then ... else; before a minus, if needs parentheses"
    if token.kind == "(" and before.kind == "]":
        return f"the aggregates are {', '.join(AGGREGATES)}"
    if token.kind == COLUMN and str(token.value).lower() in {"and", "or", "in", "is", "not"}:
        return f"did you mean {str(token.value).lower()}?"
    if token.kind == COLUMN and str(token.value).lower() in {"like", "between", "xor", "ilike"}:
        return "compare with < and >, or use the functions startswith, endswith, contains, matches"
    words = {str(one.value) for one in (before, token) if one.kind in {COLUMN, FUNCTION}}
    if any(is_temporal_word(word) or word in SMALL_WORDS for word in words):
        return FORMULA_IN_EXPRESSION
    if before.kind == COLUMN and token.kind in {COLUMN, FUNCTION}:
        return "join two predicates by and or or; write a name with blanks in backquotes"
    if token.kind == "(":
        return "a function's name has letters only; join two predicates by and or or"
    if token.kind in {COLUMN, FUNCTION, NUMBER, TEXT, "true", "false", "null"}:
        return "two values are joined by an operator such as =, two predicates by and"
    if token.kind in {"[", "]"}:
        return "parentheses are round"
    return None
