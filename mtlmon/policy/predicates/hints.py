"""Hints at what was meant by an invalid policy file or predicate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates.lexer import COLUMN, FUNCTION, TEXT, is_temporal_word
from mtlmon.policy.predicates.operators import (
    AGGREGATES,
    AT,
    ATAN2,
    COALESCE,
    FUNCTIONS,
    GREATEST,
    HISTOGRAM_QUANTILE,
    HOLD,
    LAST,
    LEAST,
    NEXT,
    OVER_WORDS,
    POW,
    WINDOW_INTEGRAL,
)
from mtlmon.support.guesses import advice, with_advice
from mtlmon.support.other_words import AGGREGATES as OTHER_AGGREGATES
from mtlmon.support.other_words import FUNCTIONS as OTHER_FUNCTIONS
from mtlmon.syntax.lexer import NUMBER
from mtlmon.syntax.operators import SMALL_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.lexer import Token
    from mtlmon.policy.predicates.operators import Operator

_SHOWN = 8

WINDOWS_ARE = "a window is written avg[0,5m](x), of the last 5 minutes"
"""How a window is written, in hints."""

NO_FUNCTION = "there is no function"
"""How the message begins about a call of an unknown function."""

FUNCTIONS_ARE = "the functions are"
"""How the hint begins for it if no function is called alike."""

FORMULA_IN_EXPRESSION = (
    "use ONCE, SINCE and other operators of formulas in policies and lets; a let of the past can "
    "be named in an expression: let NAME = FORMULA"
)
"""The hint for an operator of formulas inside an expression."""

MACHINE_HINT = 'as in machine("module:Class", column)'
"""How a machine is written."""

OFFSET_HINTS = {
    LAST: "as in x.last(), x.last(2) or x.last(or: 0)",
    NEXT: "as in x.next(), x.next(2) or x.next(or: 0)",
    AT: "as in x.at(-5s), x.at(-5s, or: 0) or x.at(+5s); x.hold() is the value now",
    HOLD: "as in x.hold(), x.hold(1) or x.hold(or: 0)",
}
"""How an offset is written."""


def some(names: Iterable[str]) -> str:
    """List names on one line: at most eight, and how many more there are."""
    known = list(names)
    shown = ", ".join(known[:_SHOWN])
    return f"{shown} and {len(known) - _SHOWN:,} more" if len(known) > _SHOWN else shown


def comparison_hint(kind: Kind) -> str:
    """Say how a value of some kind becomes a condition."""
    example = 'status = "open"' if kind.name == "text" else "speed > 120"
    return f"compare it with something, as in {example}"


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
        return "write nothing between the parentheses to count all rows: count() or count[0,5]()"
    if token.kind == "*":
        return "a comment is written /* ... */ or after #"
    if token.kind in {"[", "]"}:
        return "parentheses are round"
    if before.kind == "=" and token.kind == "<":
        return "write <="
    if (before.kind in {"=", "=="} and token.kind == ">") or token.kind == "->":
        return "implication is written ->, => or IMPLIES"
    return None


def where_operator_is_missing(before: Token, token: Token, name: str = "") -> str | None:
    """Return a hint for a complete value that is followed by something that cannot follow it.

    Args:
        before: the last token of the value.
        token: the token that follows it.
        name: the word that the value begins with, if it does.
    """
    if token.kind == COLUMN and str(token.value).lower() in {"then", "else"}:
        return "a choice is written if ... then ... else; before a minus, if needs parentheses"
    if token.kind == "(" and before.kind == "]":
        found = aggregate_advice(name)
        if found is None:
            return aggregates_are()
        return f"{found}{'' if found.endswith('?') else ';'} {aggregates_are()}"
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


def count_message(function: Operator, count: int) -> str:
    """Say that a function does not take so many arguments."""
    arguments = "one argument" if function.arity == 1 else f"{function.arity} arguments"
    return f"{function.name} takes {arguments}, not {count}{' or more' if count > 1 else ''}"


def call_hint(function: Operator) -> str:
    """Return a hint at how a function is called."""
    if function in {LEAST, GREATEST}:
        name = function.word
        return f"as in {name}(x, y); of the values in a window it is {name}[0,5](x)"
    if function is COALESCE:
        return "as in coalesce(x, 0)"
    if function in {ATAN2, POW}:
        return f"as in {function.name}(x, y)"
    arguments = "column" if function.arity == 1 else 'column, "text"'
    return f"as in {function.name}({arguments})"


def window_hint(aggregate: Operator) -> str:
    """Return a hint at how an aggregate over a window is written."""
    if aggregate is HISTOGRAM_QUANTILE:
        return "as in histogram_quantile(x over x, 0.99)"
    if aggregate is WINDOW_INTEGRAL:
        return "as in integral[0,5](x), or integral[0,5](x, linear) for lines between values"
    return f"as in {aggregate.word}[0,5]({'x, 0.99' if aggregate.constants else 'x'})"


def function_hint(name: str) -> str:
    """Return a hint for a name that is no function."""
    if name in AGGREGATES:
        return without_window(name)
    if name.lower() not in FUNCTIONS and (found := aggregate_advice(name, is_sure=True)):
        return f"{found} {WINDOWS_ARE}" if found.endswith("?") else found
    return with_advice(name, FUNCTIONS, f"{FUNCTIONS_ARE} {', '.join(FUNCTIONS)}", OTHER_FUNCTIONS)


def aggregates_are() -> str:
    """List the aggregates of windows, as a hint."""
    return f"the aggregates of windows are {', '.join(AGGREGATES)}"


def aggregate_advice(name: str, *, is_sure: bool = False) -> str | None:
    """Return a hint for a name that is no aggregate; None if it is like none.

    Args:
        name: the name.
        is_sure: whether a name must be one of another language, or one in capitals.
    """
    bare = name.lower().removeprefix("rolling_").removesuffix("_over_time")
    if bare in AGGREGATES:
        return f"did you mean {bare}?"
    if is_sure and bare not in OTHER_AGGREGATES:
        return None
    return advice(bare, AGGREGATES, OTHER_AGGREGATES)
