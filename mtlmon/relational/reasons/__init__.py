"""Why values violate a policy with variables: which rows of the log its conjuncts find."""

from __future__ import annotations

from mtlmon.relational.reasons.evidence import Evidence, Explainer, Finding, Reason, Violation
from mtlmon.relational.reasons.patterns import Pattern, Region
from mtlmon.relational.reasons.words import explanation_text

__all__ = [
    "Evidence",
    "Explainer",
    "Finding",
    "Pattern",
    "Reason",
    "Region",
    "Violation",
    "explanation_text",
]
