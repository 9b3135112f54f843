"""Reads a signature and a formula as files of MonPoly into a policy file of ours.

All that comes after reading is shared. The language has a parser of its own, as its operators bind
differently and its formulas reach differently far, and types of its own, which decide what `/`
means before our types are found. Where our language lacks something, the translation expresses it
by other means if possible: an aggregate of nothing becomes an OR, groups of a pattern become
equalities, and different variables of one name get different names. Only functions are new: the
*conversions* of `policy/predicates/conversions`, which Python computes, row by row.
"""

from __future__ import annotations

from typing import NamedTuple

from mtlmon.monpoly.parser import parse_formula
from mtlmon.monpoly.resolving import resolve
from mtlmon.monpoly.signature import Signature, name_in_formulas
from mtlmon.monpoly.types import find_types
from mtlmon.policy.definitions import Argument, Policy, Relation
from mtlmon.policy.first_order.terms import quantified, terms_of, variables_of
from mtlmon.policy.policy_file import PolicyFile
from mtlmon.policy.predicates import operators as terms
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.traversal import postorder

_KINDS = {"int": "int", "float": "float", "string": "text", "regexp": "text"}
UNIT = "s"


class MonPolyPolicy(NamedTuple):
    """A policy that a signature and a formula of MonPoly define.

    Attributes:
        file: a policy file with one policy, which has no name: a `find`, or a policy whose
            violations are reported. The violations of a formula without any variables are those of
            a `find` of its negation.
        columns: the free variables of the formula in the order of MonPoly's rows, with their
            types: int, float, string or regexp. It is that of their first occurrence if the right
            operands of SINCE, UNTIL and `>` stood before the left ones.
        signature: the types of all relations that the log may have.
        relations: the name in the formula of each relation that occurs there.
    """

    file: PolicyFile
    columns: tuple[tuple[str, str], ...]
    signature: Signature
    relations: dict[str, str]


def read_policy(
    text: str, signature: Signature, source: str = "<formula>", *, negate: bool = False
) -> MonPolyPolicy:
    """Read a formula.

    Args:
        text: the formula.
        signature: the relations, from `read_signature`.
        source: the name of the text in errors.
        negate: whether the formula is a policy, whose violations are wanted.

    Raises:
        PolicyError: the text is not a formula, its types do not fit, or it uses what is not
            supported.

    >>> from mtlmon.monpoly import read_signature
    >>> signature = read_signature("p(x: int) q(x: int, y: int)")
    >>> policy = read_policy("p(x) AND NOT ONCE[0,1h) EXISTS y. q(x, y)", signature)
    >>> print(policy.file.policies[0].formula)
    p(x) AND NOT ONCE[0,3599] EXISTS y. q(x, y)
    >>> policy.columns
    (('x', 'int'),)
    """
    parsed = parse_formula(text, signature, source)
    types, slots = find_types(parsed, text, signature, source)
    formula = resolve(parsed.formula, types)
    file = PolicyFile(text, source, UNIT)
    for name, let in parsed.lets.items():
        if let.parameters or let.is_past:
            assert let.formula is not None
            file.lets[name] = resolve(let.formula, types)
            file.parameters[name] = let.parameters
    nodes = postorder(formula, *file.lets.values())
    used = {node.name for node in nodes if node.name}
    relations = {}
    for name, arguments in signature.items():
        inner = name_in_formulas(name)
        if inner not in used:
            continue
        relations[name] = inner
        if arguments:
            declared = [
                Argument(f"argument {number}", None, _KINDS[kind], 0)
                for number, kind in enumerate(arguments, 1)
            ]
            file.relations[inner] = Relation(inner, tuple(declared), None, 0)
    for name in ("point", "time"):
        if name in used:
            argument = Argument("argument 1", None, "int", 0)
            file.relations[name] = Relation(name, (argument,), None, 0, is_declared=False)
    is_find = not negate
    if negate and formula.is_first_order:
        formula = _without_leading_forall(formula)
    elif negate:
        # policies without variables are for other engines
        formula = Formula(ops.NOT, (formula,), None, None, formula.span)
        is_find = True
    file.policies = (Policy(None, formula, parsed.formula, is_find=is_find),)
    columns = tuple((name, types.of_slot(slots[name])) for name in _columns(parsed.formula))
    return MonPolyPolicy(file, columns, signature, relations)


def _columns(formula: Formula) -> tuple[str, ...]:
    """The free variables of a formula in the order of MonPoly's rows."""
    free: dict[int, dict[str, None]] = {}
    for node in postorder(formula):
        names: dict[str, None] = {}
        if terms_of(node):
            for term in terms_of(node):
                is_swapped = term.operator in (terms.GREATER, terms.GREATER_EQUAL)
                sides = term.operands[::-1] if is_swapped else (term,)
                for side in sides:
                    names |= dict.fromkeys(variables_of(side))
        else:
            is_swapped = node.operator in (ops.SINCE, ops.UNTIL)
            for operand in node.operands[::-1] if is_swapped else node.operands:
                names |= free[id(operand)]
            for name in quantified(node):
                names.pop(name, None)
        free[id(node)] = names
    return tuple(free[id(formula)])


def _without_leading_forall(formula: Formula) -> Formula:
    """Return an equivalent formula without a leading FORALL, whose variables would be reported."""
    if formula.operator is not ops.FORALL:
        return formula
    operand = Formula(ops.NOT, formula.operands, None, None, formula.span)
    names = quantified(formula)
    exists = Formula(ops.EXISTS, (operand,), None, None, formula.span, names)
    return Formula(ops.NOT, (exists,), None, None, formula.span)
