"""Files of MonPoly: signatures, formulas, logs, and its form of verdicts."""

from __future__ import annotations

from mtlmon.monpoly.policies import MonPolyPolicy, read_policy
from mtlmon.monpoly.signature import Signature, read_signature

__all__ = ["MonPolyPolicy", "Signature", "read_policy", "read_signature"]
