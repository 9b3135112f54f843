"""Reads the conditions of triggers, and finds out which rows violate policies with messages."""

from __future__ import annotations

from mtlmon.errors import FormulaError
from mtlmon.policy.past_formulas import as_expression, future_operator
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.parser import parse_expression
from mtlmon.syntax.formula import atom
from mtlmon.syntax.operators import AND, ATOM, IMPLIES, NOT, OR
from mtlmon.syntax.rewrite import with_operands
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.policy.declarations import Declaration
    from mtlmon.policy.reading import FileReader
    from mtlmon.syntax.formula import Formula


def read_trigger(reader: FileReader, declaration: Declaration) -> Formula:
    """Read the condition of a trigger; return the formula that it is not true.

    What reads as an expression is one. Else it is a formula, in which each largest part that reads
    as an expression is an atom: so `not x > 1` is not true where x is null, as in an expression.

    Raises:
        FormulaError: it is neither.
    """
    place = reader.text, reader.source, declaration.start, declaration.end
    unit, constants = reader.file.unit, reader.file.constants
    condition: Expression | None = None
    try:
        condition = parse_expression(*place, unit, constants)
        future = set(reader.lets.future())
        if any(
            node.operator is ops.COLUMN and node.name in future for node in postorder(condition)
        ):
            return ~_with_conditions(reader, reader.formula_of(declaration))
    except FormulaError as error:
        if condition is not None or reader.is_first_order(declaration):
            raise reader.explained(error, declaration) from None
        try:
            return ~_with_conditions(reader, reader.formula_of(declaration))
        except FormulaError as other:
            # the one that has read more knows better what was meant
            known = max(error, other, key=reader.offset_of)
            raise reader.explained(known, declaration) from None
    return ~atom(reader.add_condition(condition))


def _with_conditions(reader: FileReader, formula: Formula) -> Formula:
    """Replace each largest part that reads as an expression by an atom."""
    future = set(reader.lets.future())
    # the parts that have operators of formulas, or names of what looks at later rows
    is_formula: dict[int, bool] = {}
    for node in postorder(formula):
        is_formula[id(node)] = (
            node.operator.is_temporal
            or node.name in future
            or any(is_formula[id(operand)] for operand in node.operands)
        )
    found: dict[int, Formula] = {}
    stack = [(formula, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            operands = tuple(found[id(operand)] for operand in node.operands)
            found[id(node)] = with_operands(node, operands)
        elif id(node) not in found:
            condition = None
            if not is_formula[id(node)] and node.operator is not ATOM:
                condition = _condition_at(reader, node)
            if condition is not None:
                found[id(node)] = atom(reader.add_condition(condition))
                continue
            stack.append((node, True))
            stack += [(operand, False) for operand in node.operands]
    return found[id(formula)]


def _condition_at(reader: FileReader, node: Formula) -> Expression | None:
    """What a part of a formula is as an expression; None if it does not read as one."""
    if node.span is None:
        return None
    place = reader.text, reader.source, node.span.start, node.span.end
    try:
        return parse_expression(*place, reader.file.unit, reader.file.constants)
    except FormulaError:
        return None


def violations_of(
    reader: FileReader,
    formula: Formula,
    demanded: Formula,
    place: int,
    *,
    has_clock: bool,
    has_values: bool,
) -> tuple[str | None, bool]:
    """Return what is true at the rows or ticks that violate a policy with a message.

    Args:
        reader: the reader of the file.
        formula: the formula, without lets.
        demanded: the formula that must have failed for some time where that one fails; without a
            clause `for` it is the same.
        place: the position of the message.
        has_clock: whether the policy has other time-points than all rows.
        has_values: whether the message has values, which are those of the row.

    Returns:
        Its name in `PolicyFile.shown`; None if the formula is the negation of an atom, which says
        so by itself, or if only its verdicts say so, and nothing of the row is needed. Then whether
        other rows decide which of these rows violate the policy; None is for all rows then.

    Raises:
        PolicyError: the formula looks ahead without bound, or at other time-points than rows.
    """
    if formula.operator is NOT and formula.operands[0].operator is ATOM:
        return None, False
    if formula.is_first_order:
        message = "policies with variables have no messages: their values are columns"
        raise reader.error(place, message, "leave the message out")
    hint = "leave the values out of the message; --explain shows the rows and values"
    is_ahead = future_operator(formula) is not None
    is_elsewhere = has_clock and _is_temporal(formula)
    if has_values and is_elsewhere and not _is_temporal(demanded):
        # it has failed wherever that is a violation, and the verdict says where it is one
        condition = _where_false(demanded)
        return None if condition is None else reader.file.show(condition), True
    if has_values and is_elsewhere:
        message = (
            "with 'on', the message of a formula with temporal operators cannot have values of rows"
        )
        raise reader.error(place, message, hint)
    if not has_values and (is_ahead or is_elsewhere):
        return None, False
    if is_ahead:
        _require_bound(reader, formula, place)
    condition = _where_false(formula)
    return None if condition is None else reader.file.show(condition), is_ahead


def _is_temporal(formula: Formula) -> bool:
    return any(node.operator.is_temporal for node in postorder(formula))


def _require_bound(reader: FileReader, formula: Formula, place: int) -> None:
    """Refuse values of rows whose verdicts may come at any time.

    Raises:
        PolicyError: an operator looks ahead without bound.
    """
    for node in postorder(formula):
        if node.operator.is_future and (node.interval is None or node.interval.upper is None):
            word = node.operator.word
            message = (
                "the values of a message are kept until its row is decided, and "
                f"{word} looks ahead without bound"
            )
            hint = f"give {word} an upper bound, or leave the values out of the message"
            raise reader.error(place, message, hint)


def _where_false(formula: Formula) -> Expression | None:
    """Return an expression that is true wherever a formula is false; None if there is none.

    If the formula does not look ahead, it is false wherever the formula is true.
    """
    is_ahead: dict[int, bool] = {}
    for node in postorder(formula):
        ahead = any(is_ahead[id(one)] for one in node.operands)
        is_ahead[id(node)] = ahead or node.operator.is_future
    found: Expression | None = None
    # parts that have a value where the formula is false
    parts = [(formula, False)]
    while parts:
        node, value = parts.pop()
        operator, operands = node.operator, node.operands
        if not is_ahead[id(node)]:
            own = as_expression(node, lambda name: Expression(ops.ATOM, (), name))
            own = own if value else Expression(ops.NOT, (own,))
            found = own if found is None else Expression(ops.AND, (own, found))
        elif operator is NOT:
            parts.append((operands[0], not value))
        elif operator is IMPLIES and not value:
            parts += [(operands[0], True), (operands[1], False)]
        elif operator in (AND, OR) and value is (operator is AND):
            parts += [(one, value) for one in operands]
    return found
