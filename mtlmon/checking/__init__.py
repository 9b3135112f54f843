"""Check policies on a log in one pass, on a single trace or on one trace per key."""

from __future__ import annotations

from mtlmon.checking.counts import PolicyCounts
from mtlmon.checking.log_check import LogCheck
from mtlmon.checking.partitions import Partitions, TraceKeys, partitions_of
from mtlmon.checking.sources import EventBatch, EventSource
from mtlmon.checking.text_logs import TextLog

__all__ = [
    "EventBatch",
    "EventSource",
    "LogCheck",
    "Partitions",
    "PolicyCounts",
    "TextLog",
    "TraceKeys",
    "partitions_of",
]
