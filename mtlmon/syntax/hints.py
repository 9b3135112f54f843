"""Hints at what was meant by an invalid formula."""

from __future__ import annotations

from mtlmon.syntax.lexer import ATOM, COMPARISON_HINT, END, INVALID, NUMBER, OPERATOR
from mtlmon.syntax.operators import BY_SPELLING, IMPLIES
from mtlmon.syntax.report import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.syntax.cursor import Cursor
    from mtlmon.syntax.lexer import Token
    from mtlmon.syntax.operators import Operator

_WIDTH = 40
_KEYWORDS = frozenset({"policy", "trigger", "find", "let", "atom", "stream", "unit", "key"})
_QUANTIFIERS = frozenset({"EXISTS", "FORALL"})
_BOUND_GLUED_ON = r"([^\W\d_](?:\w*[^\W\d_])?)_?([0-9]+)"


def where_operand_is_missing(cursor: Cursor) -> str | None:
    """Return a hint for a cursor where a formula should start but does not."""
    token, before = cursor.token, cursor.ahead(-1)
    operator = before.operator if cursor.index else None
    if operator and operator.is_temporal and token.kind == NUMBER:
        return f"write bounds in brackets: {before.value}{_bracketed(cursor)}"
    if operator and not operator.is_temporal and token.kind == "[":
        return f"only temporal operators take an interval, {operator.word} does not"
    if token.kind == "[":
        return "write an interval right after its operator, as in p UNTIL[0,5] q"
    if operator is IMPLIES and before.value == "=>" and token.kind == NUMBER:
        return "at least is written >=, and => is an implication"
    if token.kind == NUMBER and token.value in {"0", "1"}:
        return "the constants are written TRUE and FALSE"
    if token.operator and token.operator.arity == 2 and token.value[0].isalpha():
        return _as_atom(token)
    if operator and operator.is_prefix and before.value[0].isalpha():
        return _as_atom(before)
    return None


def where_operator_is_missing(cursor: Cursor) -> str | None:
    """Return a hint for a cursor after a complete formula, at a token that cannot follow it."""
    token, before = cursor.token, cursor.ahead(-1)
    following = cursor.ahead(1)
    if (token.value, following.kind, following.start) == ("!", INVALID, token.end):
        return COMPARISON_HINT
    if before.kind == ATOM and before.value.upper() in _QUANTIFIERS:
        quantifier = before.value.upper()
        if following.kind == "[":
            return (
                f"a quantifier has variables, as in {quantifier} x. {token.value}(x); the value "
                f"of an instance of a stream is looked up by {token.value}[...] is not null"
            )
        return f"a quantifier has a dot and a formula, in capitals: {quantifier} x. p(x)"
    if cursor.index == 1 and before.value in _KEYWORDS and token.kind == ATOM:
        return "policy files are for parse_policies, mtlmon.check and the command"
    for word in (token, before):
        if capital := _capital(word):
            return f"did you mean {capital}? operators are written in capitals"
    import re

    for word in (token, before):
        glued = re.fullmatch(_BOUND_GLUED_ON, word.value) if word.kind == ATOM else None
        if glued and glued[1] in BY_SPELLING and BY_SPELLING[glued[1]].is_temporal:
            return f"write bounds in brackets: {glued[1]}[0,{glued[2]}]"
    if other := _other_operator(cursor):
        return other
    if token.kind == "[":
        return "write an interval right after its operator, as in p UNTIL[0,5] q"
    if token.kind == "(" and before.kind == ATOM and before.end == token.start:
        return (
            "atoms take no arguments, except in policies (parse_policies, mtlmon check-policy); "
            "any text can be an atom's name in double quotes"
        )
    if token.kind in {ATOM, OPERATOR, "(", ","}:
        return "join two formulas with an operator such as AND"
    return None


def _other_operator(cursor: Cursor) -> str | None:
    """A hint for a word that is an operator elsewhere, or a misspelt one; None for others."""
    from mtlmon.support.other_words import SIGNS

    token, before = cursor.token, cursor.ahead(-1)
    if token.kind == ATOM and token.value in SIGNS:
        return SIGNS[token.value]
    if token.kind == ATOM and cursor.ahead(1).kind not in {END, ")"}:
        hint = operator_advice(token.value, is_prefix=False)
        if hint is not None:
            return hint
    if before.kind != ATOM or cursor.text_of(before).startswith('"'):
        return None
    return operator_advice(before.value, is_prefix=True)


def operator_advice(word: str, *, is_prefix: bool) -> str | None:
    """Return a hint for a word where an operator would make sense; None if it is like none.

    Args:
        word: the word.
        is_prefix: whether the operator would be one before a formula, not one between two.
    """
    from mtlmon.support.guesses import advice
    from mtlmon.support.other_words import BINARY_OPERATORS, PREFIX_OPERATORS

    arity = 1 if is_prefix else 2
    known = [
        spelling
        for spelling, operator in BY_SPELLING.items()
        if operator.arity == arity and len(spelling) > 1 and spelling.isidentifier()
    ]
    others = PREFIX_OPERATORS if is_prefix else BINARY_OPERATORS
    # words in capitals are meant as operators
    likeness = 0.6 if word.isupper() else 0.75
    bare = word.rstrip("_")
    return f"did you mean {bare}?" if bare in known else advice(bare, known, others, likeness)


def both_readings(
    cursor: Cursor, left: int, middle: int, incoming: Operator, *, outer_first: bool = False
) -> str:
    """Show the two ways to put parentheses around two operators and the operand between them.

    Args:
        cursor: the cursor at the second operator.
        left: the index of the first token of the first operator with its operands.
        middle: the index of the first token of the operand between them.
        incoming: the operator at the cursor.
        outer_first: whether the reading comes first in which the second operator takes the operand.
    """
    head = shorten(cursor.words(left, middle), _WIDTH)
    body = shorten(cursor.words(middle, cursor.index), _WIDTH)
    tail = shorten(cursor.words(cursor.index, _operand_end(cursor, incoming)), _WIDTH)
    readings = [f"({head} {body}) {tail}", f"{head} ({body} {tail})"]
    if outer_first:
        readings.reverse()
    return f"write {readings[0]} or {readings[1]}"


def _operand_end(cursor: Cursor, operator: Operator) -> int:
    """The index after the right operand of the operator at the cursor."""
    tokens = cursor.tokens
    depth, weakest = 0, operator.binding
    index = behind_interval(tokens, cursor.index + 1)
    while index < len(tokens) - 1:
        kind, found = tokens[index].kind, tokens[index].operator
        depth += (kind == "(") - (kind == ")")
        if depth < 0:
            break
        if found and depth == 0:
            if found.is_prefix:
                weakest = min(weakest, found.binding)
            elif found.arity and (found.binding, found.groups_right) <= (weakest, False):
                break
        index += 1
        if found and found.is_temporal:
            index = behind_interval(tokens, index)
    return index


def behind_interval(tokens: list[Token], index: int) -> int:
    """The index after the interval that starts at `index`, or `index` if there is none."""
    if tokens[index].kind == "[" or (
        tokens[index].kind == "(" and tokens[index + 1].kind == NUMBER
    ):
        while tokens[index].kind not in {"]", ")", INVALID, END}:
            index += 1
        return min(index + 1, len(tokens) - 1)
    return index


def _bracketed(cursor: Cursor) -> str:
    first, comma, second = cursor.token, cursor.ahead(1), cursor.ahead(2)
    if comma.kind == "," and second.kind in {NUMBER, "*", "∞"}:
        return f"[{first.value},{second.value}]"
    return f"[0,{first.value}]"


def _capital(token: Token) -> str | None:
    """The operator that an atom would be in capitals, or None."""
    if token.kind != ATOM or token.value == token.value.upper():
        return None
    operator = BY_SPELLING.get(token.value.upper())
    return token.value.upper() if operator else None


def _as_atom(token: Token) -> str:
    return f'{token.value} is an operator; an atom of that name is written "{token.value}"'
