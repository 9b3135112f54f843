"""Files of MonPoly: signatures, formulas, logs, and its form of verdicts."""

from __future__ import annotations

from mtlmon.monpoly.logs import LogReader, TimePoint
from mtlmon.monpoly.monitoring import MonPolyMonitor
from mtlmon.monpoly.policies import MonPolyPolicy, read_policy
from mtlmon.monpoly.signature import Signature, read_signature

__all__ = [
    "LogReader",
    "MonPolyMonitor",
    "MonPolyPolicy",
    "Signature",
    "TimePoint",
    "read_policy",
    "read_signature",
]
