"""Explanations of violations for programs: objects that become lines of JSON."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from mtlmon.checking.row_files import RowPlace
from mtlmon.errors import UndecidedError
from mtlmon.relational.cells import value_text
from mtlmon.relational.reasons.words import pattern_text, region_words
from mtlmon.syntax.printer import key_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.checking.shown import Shown
    from mtlmon.explanation.proof import Proof
    from mtlmon.policy import Policy
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.cells import Value
    from mtlmon.relational.plan import PolicyPlan
    from mtlmon.relational.reasons.evidence import Evidence, Explanation

    Facts = dict[str, object]

__all__ = ["facts_of", "facts_of_explanation", "facts_of_proof"]


def facts_of(
    policy: Policy | PolicyPlan, time_stamp: int, offset: int, row: RowPlace | None, **key: str
) -> Facts:
    """Return which violation is explained: of what, when and where.

    Args:
        policy: the policy.
        time_stamp: the time-stamp of the time-point.
        offset: its number within the time-stamp.
        row: the row of the violation; None if it has none, or that is not known.
        key: the key of its trace, if the policy has no variables and there is one.
    """
    names = {"policy": policy.name, "text": policy.text or None}
    return {**names, **key, "time": time_stamp, "offset": offset, **_place(row)}


def facts_of_proof(proof: Proof | UndecidedError, shown: Shown | None, width: int) -> Facts:
    """Return what explains a violation of a policy without variables.

    Args:
        proof: the proof, or the error that says why there is none.
        shown: the message and the values at the violation; None if they are not known.
        width: the width of lines of the explanation.
    """
    facts: Facts = {}
    if shown is not None:
        facts["message"] = shown.message
        facts["values"] = [
            {"name": value.name, "value": value.text, "rows": list(map(_place, value.rows))}
            for value in shown.values
        ]
        if shown.last_row is not None:
            facts["last_row"] = _place(shown.last_place)
    if isinstance(proof, UndecidedError):
        return {**facts, "explanation": None, "remark": str(proof)}
    return {**facts, "explanation": proof.to_text(width=width)}


def facts_of_explanation(
    found: Explanation,
    variables: Iterable[tuple[str, Kind]],
    relations: Mapping[str, Sequence[Kind]],
    text: str,
    unit: str | None,
) -> Facts:
    """Return what explains a violation of a policy with variables.

    Args:
        found: what explains it.
        variables: the names and kinds of the policy's variables.
        relations: the kinds of the arguments of each atom.
        text: the explanation as text.
        unit: the unit of time-stamps; None if it is not known.
    """
    own = zip(variables, found.violation.values, strict=True)
    return {
        "valuation": {name: _value(value, kind) for (name, kind), value in own},
        "witnesses": {name: _value(value, kind) for name, kind, value in found.witnesses},
        "reasons": [
            {
                "formula": reason.formula,
                "holds": reason.holds,
                "found": [
                    _evidence(one, relations.get(one.pattern.atom, ()), unit)
                    for one in reason.evidence
                ],
            }
            for reason in found.reasons
        ],
        "explanation": text,
    }


def _evidence(evidence: Evidence, kinds: Sequence[Kind], unit: str | None) -> Facts:
    """The rows that match a pattern."""
    pattern = evidence.pattern
    # the columns of a key are no arguments to people
    shown = kinds[: len(kinds) - key_width(pattern.atom)]
    return {
        "atom": pattern_text(pattern.atom, pattern.arguments, kinds),
        "where": region_words(pattern.region, unit),
        "total": evidence.total,
        "rows": [
            {
                **_place(one.place if isinstance(one.place, RowPlace) else None),
                "time": one.time_stamp,
                "offset": one.offset,
                "arguments": [
                    _value(value, kind) for value, kind in zip(one.row, shown, strict=False)
                ],
            }
            for one in evidence.rows
        ],
    }


def _place(row: RowPlace | None) -> Facts:
    """The file and the row, as the columns of verdicts have them."""
    if row is None:
        return {"file": None, "row": None}
    return {"file": row.file.name, "row": row.row}


def _value(value: Value, kind: Kind) -> object:
    """A value of JSON, or a text."""
    is_plain = isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))
    return value if is_plain else value_text(value, kind)
