"""Brings the formulas of policies into the form that is planned and sliced."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.analysis.antecedent import antecedent_of
from mtlmon.policy.first_order.terms import free_in, quantified, terms_of, variables_of
from mtlmon.policy.predicates.machine_code import constant_as
from mtlmon.relational.binding import BindingAnalysis, Unbound, conjuncts
from mtlmon.relational.expansion import Expansion
from mtlmon.relational.keyed import without_keys
from mtlmon.relational.normal import normal_form
from mtlmon.relational.outside import MOMENT, Outside
from mtlmon.relational.programs import is_mixed
from mtlmon.support.generators import run
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.printer import to_text
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.analysis import Analysis, PolicyAnalysis
    from mtlmon.relational.cells import Value

__all__ = [
    "LeftSide",
    "Prepared",
    "PreparedLet",
    "left_sides",
    "opened",
    "opened_policy",
    "prepared_lets",
    "prepared_policies",
    "readable",
    "value_of_constant",
]


class Prepared(NamedTuple):
    """A policy whose lets are expanded and whose bound variables are named apart.

    Attributes:
        analysis: what is known of the policy.
        formula: what is evaluated, in normal form: for a policy, its negation.
        names: the reported variables in the formula, in the order of `analysis.reported`.
        exposed: other variables whose values belong to the rows of the formula, behind those.
        written: the formula before what operands need from outside was taken out of them.
    """

    analysis: PolicyAnalysis
    formula: Formula
    names: tuple[str, ...]
    exposed: tuple[str, ...] = ()
    written: Formula | None = None


class PreparedLet(NamedTuple):
    """A let that uses itself, as `Prepared` has formulas.

    Attributes:
        formula: its formula in normal form, where it is an atom.
        names: its parameters in the formula.
        kinds: their kinds.
    """

    formula: Formula
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]


class LeftSide(NamedTuple):
    """The left side of a policy that is an implication, as `Prepared` has formulas.

    Attributes:
        policy: the number of the policy.
        formula: the left side, in normal form.
        names: its free variables.
        is_own: whether only its valuations can violate the policy: that is the implication itself,
            and these are the variables that it reports.
        written: the left side as text, as the file has it, or with its lets if the policy is a let.
    """

    policy: int
    formula: Formula
    names: tuple[str, ...]
    is_own: bool
    written: str


def prepared_policies(analysis: Analysis) -> list[Prepared]:
    """Return the first-order policies of a file in the form that is planned.

    Args:
        analysis: what `analyse` found, without errors.

    Raises:
        LimitError: a formula nests too deeply.
    """
    outside = Outside(BindingAnalysis({}))
    found = []
    for one, body, names in _expanded(analysis):
        written = normal_form(body, negated=not one.policy.is_find)
        found.append(Prepared(one, outside.turned(written), names, written=written))
    return found


def prepared_lets(analysis: Analysis) -> dict[str, PreparedLet]:
    """Return the lets that use themselves, by name; policies have other variables.

    Args:
        analysis: what `analyse` found, without errors.

    Raises:
        LimitError: a formula nests too deeply.
    """
    outside = Outside(BindingAnalysis({}))
    found = {}
    for name, body, names in _expanded_lets(analysis, Expansion(analysis.lets)):
        kinds = analysis.recursions[name].kinds
        found[name] = PreparedLet(outside.turned(normal_form(body)), names, kinds)
    return found


def left_sides(analysis: Analysis) -> list[LeftSide]:
    """Return the left sides of the first-order policies of a file that are implications.

    Args:
        analysis: what `analyse` found, without errors.

    Raises:
        LimitError: a formula nests too deeply.
    """
    found = []
    outside = Outside(BindingAnalysis({}))
    for number, (one, body, names) in enumerate(_expanded(analysis)):
        antecedent = None if one.policy.is_find else antecedent_of(body)
        if antecedent is None:
            continue
        left = antecedent.formula
        own = tuple(free_in(left))
        is_own = antecedent.is_own and set(own) == set(names)
        as_written = antecedent_of(one.policy.formula)
        written = readable(left if as_written is None else as_written.formula)
        normal = outside.turned(normal_form(left))
        found.append(LeftSide(number, normal, own, is_own, written))
    return found


def _expanded(analysis: Analysis) -> Iterator[tuple[PolicyAnalysis, Formula, tuple[str, ...]]]:
    """Yield each policy with its body, without lets, and the variables that it reports there."""
    expansion = Expansion(analysis.lets)
    # their variables come before those of policies, so that these have other names
    for _ in _expanded_lets(analysis, expansion):
        pass
    for one in analysis.policies:
        # policies can give one name to variables of different kinds
        names = {name: expansion.fresh(name) for name in one.reported}
        yield one, expansion.expanded(one.body, names), tuple(names.values())


def _expanded_lets(
    analysis: Analysis, expansion: Expansion
) -> Iterator[tuple[str, Formula, tuple[str, ...]]]:
    """Yield each let that uses itself with its formula, and the parameters there."""
    for name, one in analysis.recursions.items():
        names = {parameter: expansion.fresh(parameter) for parameter in one.parameters}
        yield name, expansion.expanded(one.formula, names), tuple(names.values())


def opened_policy(
    prepared: Prepared, kinds: Mapping[str, Kind], environment: Environment
) -> tuple[Formula, tuple[str, ...]]:
    """Take EXISTS at the top of a policy away; return the formula and their variables.

    If these are not all bound without it, as in an OR, it stays.

    Args:
        prepared: the policy.
        kinds: the kinds of its variables.
        environment: what the file says about times.
    """
    formula, hidden = opened(prepared.formula)
    if not hidden:
        return prepared.formula, ()
    mixed = {
        id(node)
        for node in postorder(formula)
        if node.operator is ops.COMPARISON and is_mixed(node, kinds, environment)
    }
    bound = run(BindingAnalysis({}, mixed).evaluated(formula, frozenset()))
    if isinstance(bound, Unbound) or not bound.issuperset(hidden):
        return prepared.formula, ()
    return formula, hidden


def opened(formula: Formula) -> tuple[Formula, tuple[str, ...]]:
    """Take away EXISTS at the top and in its conjuncts; return their variables, too."""
    names: list[str] = []
    parts = [formula]
    done: list[Formula] = []
    while parts:
        part = parts.pop(0)
        if part.operator is ops.EXISTS:
            names += quantified(part)
            part = part.operands[0]
            parts.insert(0, part)
        elif part.operator is ops.AND:
            parts[:0] = conjuncts(part)
        else:
            done.append(part)
    found = done[0]
    for one in done[1:]:
        found = Formula(ops.AND, (found, one), None, None, formula.span)
    return found, tuple(names)


def readable(formula: Formula, unit: str | None = None) -> str:
    """A formula as text, with the names of variables as they are written.

    Args:
        formula: the formula.
        unit: the unit of its bounds, to write them with units; None writes bare numbers.
    """
    formula = without_keys(formula)
    names: set[str] = set()
    for node in postorder(formula):
        names |= {*quantified(node)}
        for term in postorder(*terms_of(node)):
            names |= {*variables_of(term)}
    text = to_text(formula, unit=unit).replace(f'"{MOMENT}"', MOMENT.strip())
    for name in sorted(names, key=len, reverse=True):
        written = name.partition(" ")[0]
        text = text.replace(f"`{name}`", written).replace(name, written)
    return text


def value_of_constant(value: object, kind: Kind) -> Value:
    """A constant as a value of an argument."""
    if kind.name in {"text", "unknown"}:
        return str(value)
    found = constant_as(value, kind)  # type: ignore[arg-type]
    assert found is not None
    return found
