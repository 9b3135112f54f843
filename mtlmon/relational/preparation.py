"""Brings the formulas of policies into the form that is planned and sliced."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.relational.binding import Definition
from mtlmon.relational.expansion import Expansion
from mtlmon.relational.normal import normal_form

if TYPE_CHECKING:
    from mtlmon.policy import PolicyFile
    from mtlmon.relational.analysis import Analysis, PolicyAnalysis
    from mtlmon.syntax.formula import Formula

__all__ = ["Prepared", "prepared_policies"]


class Prepared(NamedTuple):
    """A policy whose lets are expanded and whose bound variables are named apart.

    Attributes:
        analysis: what is known of the policy.
        formula: what is evaluated, in normal form: for a policy, its negation.
        names: the reported variables in the formula, in the order of `analysis.reported`.
        exposed: other variables whose values belong to the rows of the formula, behind those.
    """

    analysis: PolicyAnalysis
    formula: Formula
    names: tuple[str, ...]
    exposed: tuple[str, ...] = ()


def prepared_policies(file: PolicyFile, analysis: Analysis) -> list[Prepared]:
    """Return the first-order policies of a file in the form that is planned.

    Args:
        file: the policy file.
        analysis: what `analyse` found, without errors.

    Raises:
        LimitError: a formula nests too deeply.
    """
    lets = {name: Definition(names, file.lets[name]) for name, names in file.parameters.items()}
    expansion = Expansion(lets)
    found = []
    for one in analysis.policies:
        # policies can give one name to variables of different kinds
        names = {name: expansion.fresh(name) for name in one.reported}
        body = expansion.expanded(one.body, names)
        formula = normal_form(body, negated=not one.policy.is_find)
        found.append(Prepared(one, formula, tuple(names.values())))
    return found
