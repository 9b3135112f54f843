"""Explains why a formula holds or fails at a time-point of a recorded trace."""

from mtlmon.explanation.checker import ProofError, check
from mtlmon.explanation.explaining import explain, explain_position, explain_positions
from mtlmon.explanation.proof import Proof, Rule
from mtlmon.explanation.trace import EndTime, Trace

__all__ = [
    "EndTime",
    "Proof",
    "ProofError",
    "Rule",
    "Trace",
    "check",
    "explain",
    "explain_position",
    "explain_positions",
]
