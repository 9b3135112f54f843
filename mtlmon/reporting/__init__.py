"""Reports the results of a run as one self-contained page.

A `Collector` takes the verdicts on a policy, batch by batch, and keeps what a page can show of
millions of them: a timeline of violations, the keys with most violations, the first violations and
the first undecided time-points.

>>> import mtlmon
>>> from mtlmon.reporting import Collector, ReportData, Run, render
>>> policy = mtlmon.parse("request IMPLIES EVENTUALLY[0,5] response")
>>> monitor, collector = mtlmon.Monitor(policy), Collector(policy, "answered")
>>> verdicts = monitor.feed([1, 2, 9], {"request": [True] * 3, "response": [False] * 3})
>>> collector.add(mtlmon.resolve(verdicts))
>>> collector.add_pending(monitor.pending)
>>> report = collector.report()
>>> report.true, report.false, report.undecided
(0, 2, 1)
>>> [violation.time_point for violation in report.violations]
['1:0', '2:0']
>>> page = render(ReportData([report], Run(inputs=["service.log"], rows=3)))
>>> page.startswith("<!DOCTYPE html>")
True
"""

from mtlmon.policy.written import Definition
from mtlmon.reporting.collector import Collector
from mtlmon.reporting.data import (
    Explanation,
    KeyCount,
    KeyReport,
    PolicyFileName,
    PolicyReport,
    ReportData,
    Run,
    Timeline,
    UndecidedTimePoint,
    Violation,
)
from mtlmon.reporting.page import render
from mtlmon.reporting.writing import write_report

__all__ = [
    "Collector",
    "Definition",
    "Explanation",
    "KeyCount",
    "KeyReport",
    "PolicyFileName",
    "PolicyReport",
    "ReportData",
    "Run",
    "Timeline",
    "UndecidedTimePoint",
    "Violation",
    "render",
    "write_report",
]
