"""Writes formulas as text, with as few parentheses as possible or with all of them."""

from __future__ import annotations

from itertools import count

from mtlmon.syntax import operators as ops
from mtlmon.syntax.interval import Interval
from mtlmon.syntax.lexer import is_plain_atom
from mtlmon.syntax.traversal import number, postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.operators import Operator

WRITTEN_LIMIT = 10**6
"""Formulas with more subformulas are not written out for people; shared ones count each time."""

# Looser than any operator: a temporal operator at the right end, which only a parenthesis ends.
_NEVER_ENDED = 0
# Tighter than any operator: no operator is open at the right end.
_CLOSED = 9
# Before the number of the way in which policies read the columns of an atom with arguments.
_READING = "\0"
# Before the number of the types that policies give the arguments of an atom. No column of a key is
# without a name, so that this is nowhere else.
_TYPES = f"{_READING}{_READING}"
# Before the columns of a key, which are arguments, too.
_OF_KEY = f"{_READING}per "


def written_size(formula: Formula) -> int:
    """Return the number of subformulas in the text; shared ones count each time they occur."""
    sizes: dict[int, int] = {}
    for node in postorder(formula):
        sizes[id(node)] = 1 + sum(sizes[id(operand)] for operand in node.operands)
    return sizes[id(formula)]


def to_declarations(formula: Formula) -> str:
    """Write the formula as a policy file, in which each shared subformula is declared once by let.

    `parse_policies` parses it back. Its length is linear in the number of distinct subformulas.
    """
    subformulas, number_of = number(formula)
    uses = [0] * len(subformulas)
    for node in subformulas:
        for operand in node.operands:
            uses[number_of[id(operand)]] += 1
    taken = {node.name for node in subformulas}
    free = (name for i in count(1) if (name := f"part{i}") not in taken)
    written: list[Formula] = []
    lines: list[str] = []
    for node, times in zip(subformulas, uses, strict=True):
        operands = tuple(written[number_of[id(operand)]] for operand in node.operands)
        shown = type(node)(node.operator, operands, node.interval, node.name, None, node.value)
        if times > 1 and operands:
            name = next(free)
            lines.append(f"let {name} = {to_text(shown)}")
            shown = type(node)(ops.ATOM, name=name)
        written.append(shown)
    return "\n".join([*lines, to_text(written[-1])])


def to_text(
    formula: Formula,
    *,
    all_parentheses: bool = False,
    unit: str | None = None,
    atoms: Callable[[str], str] | None = None,
) -> str:
    """Write the formula as text that `parse` parses back; shared subformulas occur each time.

    Time and memory are linear in `written_size`, which can be exponential in the number of distinct
    subformulas.

    Args:
        formula: the formula to write.
        all_parentheses: put parentheses around every operand that has an operator, instead of
            only where they are necessary.
        unit: the unit of the bounds of intervals, a key of `mtlmon.syntax.bounds.UNITS`, to write
            them with units, as in `ONCE[0,7d] paid`; `parse` then needs it, too. None writes bare
            numbers.
        atoms: how names of atoms are written; None for a way that `parse` parses back.
    """
    written = atoms or atom_text
    right_end = {} if all_parentheses else _right_ends(formula)
    pieces: list[str] = []
    stack: list[Formula | str] = [formula]
    # The number of pieces where the last quantifier at the beginning of its part ended.
    begun = 0
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        parts: list[Formula | str] = []
        operator, operands = item.operator, item.operands
        if operator.is_first_order:
            begins = len(pieces) == begun or pieces[-1].endswith(("(", " OVER "))
            parts = _first_order_parts(item, begins=begins, all_parentheses=all_parentheses)
            if pieces and operator is ops.COMPARISON and _may_open_interval(parts, pieces[-1]):
                parts = ["(", *parts, ")"]
            if operator.is_prefix and begins:
                pieces.append(str(parts.pop(0)))
                begun = len(pieces)
            stack.extend(reversed(parts))
            continue
        for position, operand in enumerate(operands):
            if position == operator.arity - 1:
                parts.append(_written(item, unit, written))
                bare = not all_parentheses and _last_is_bare(operator, operand.operator)
            else:
                bare = not all_parentheses and _first_is_bare(
                    operator, operand.operator, right_end[id(operand)]
                )
            parts += (operand,) if bare or not operand.operands else ("(", operand, ")")
        stack.extend(reversed(parts or [_written(item, unit, written)]))
    return "".join(pieces)


def name_of_reading(name: str, number: int) -> str:
    """Return the name of an atom or let for policies that read its columns in another way.

    Args:
        name: the name.
        number: the number of this way, or 0 for the one that has the name itself.
    """
    return f"{name}{_READING}{number}" if number else name


def name_of_types(name: str, number: int) -> str:
    """Return the name of an atom or let for policies in which its arguments have other types.

    Args:
        name: the name, which can be one of `name_of_reading`.
        number: the number of these types, or 0 for those that have the name itself.
    """
    return f"{name}{_TYPES}{number}" if number else name


def name_of_rows(name: str) -> str:
    """Return the name of the atom whose rows an atom of `name_of_types` has."""
    return name.partition(_TYPES)[0]


def name_of_key_reading(name: str, columns: Sequence[str]) -> str:
    """Return the name of an atom or let for policies with a key, which has its columns, too."""
    return f"{name}{_OF_KEY}{_READING.join(columns)}"


def name_without_key(name: str) -> str:
    """Return the name that `name_of_key_reading` was given; any other name as it is."""
    return name.partition(_OF_KEY)[0]


def key_width(name: str) -> int:
    """Return how many columns of a key are the last arguments of an atom or let."""
    columns = name_of_rows(name).partition(_OF_KEY)[2]
    return 1 + columns.count(_READING) if columns else 0


def written_name(name: str) -> str:
    """Return the name of an atom or let with arguments as the policy file has it."""
    return name.partition(_READING)[0]


def atom_text(name: str) -> str:
    """Write the name of an atom, in double quotes if it would otherwise be parsed differently."""
    if is_plain_atom(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def operator_text(formula: Formula, unit: str | None = None) -> str:
    """Write the formula's operator as a word, with its interval unless that is `[0,*)`.

    Args:
        formula: the formula.
        unit: the unit of the interval's bounds, as for `to_text`.
    """
    word = formula.operator.word
    if formula.interval is None or formula.interval == Interval.FULL:
        return word
    if unit is None:
        return f"{word}{formula.interval}"
    from mtlmon.syntax.durations import interval_text

    return f"{word}{interval_text(formula.interval, unit)}"


def _written(formula: Formula, unit: str | None, atoms: Callable[[str], str]) -> str:
    if formula.name is not None:
        return atoms(formula.name)
    text = operator_text(formula, unit)
    return (text, f"{text} ", f" {text} ")[formula.operator.arity]


def _first_order_parts(
    formula: Formula, *, begins: bool, all_parentheses: bool
) -> list[Formula | str]:
    """The pieces of a quantifier, predicate or comparison.

    Args:
        formula: the formula.
        begins: whether a formula or a parenthesis begins with it; elsewhere, a quantifier needs
            parentheses around an implication.
        all_parentheses: whether every operand that has an operator gets parentheses.
    """
    if isinstance(formula.value, tuple):
        (body,) = formula.operands
        is_bare = not body.operands if all_parentheses else begins or not body.operator.groups_right
        is_bare = is_bare or body.operator.binding == ops.TRUE.binding
        operand: list[Formula | str] = [body] if is_bare else ["(", body, ")"]
        return [f"{formula.operator.word} {', '.join(formula.value)}. ", *operand]
    assert formula.value is not None
    assert not isinstance(formula.value, str)
    inner = formula.value.parts(formula.operands)
    if formula.name is None:
        return inner
    return [f"{atom_text(written_name(formula.name))}(", *inner, ")"]


def _may_open_interval(parts: list[Formula | str], before: str) -> bool:
    """Whether a comparison needs parentheses, as `ONCE (1 < x)` has an interval."""
    start = "".join(part for part in parts if isinstance(part, str))[:2]
    if before.endswith("("):
        return start[:1].isdigit()
    return start[:1] == "(" and start[1:].isdigit()


def _last_is_bare(operator: Operator, operand: Operator) -> bool:
    """Whether the last operand needs no parentheses, as its operator does not end this one."""
    if operand.arity < 2:
        return True
    if operator.is_temporal:
        return False
    if operand.binding == operator.binding:
        return operand.groups_right
    return operand.binding > operator.binding


def _first_is_bare(operator: Operator, operand: Operator, right_end: int) -> bool:
    """Whether a left operand needs no parentheses, as the operator ends all open ones in it."""
    if operator.is_temporal and operand.arity == 2:
        return False
    if right_end == operator.binding:
        return not operator.groups_right
    return right_end > operator.binding


def _right_ends(formula: Formula) -> dict[int, int]:
    """By `id`, the loosest binding of the operators that are open at the end of a node's text."""
    right_end: dict[int, int] = {}
    for node in postorder(formula):
        operator = node.operator
        loosest = _CLOSED
        if operator.arity > 0:
            loosest = _NEVER_ENDED if operator.is_temporal else operator.binding
            last = node.operands[-1]
            if _last_is_bare(operator, last.operator):
                loosest = min(loosest, right_end[id(last)])
        right_end[id(node)] = loosest
    return right_end
