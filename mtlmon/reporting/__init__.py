"""Reports on runs: what was found, as one page that needs nothing but itself.

A `Collector` takes the verdicts on a policy, batch by batch, and remembers of millions what a page
can show: how violations lie in time, which keys have most of them, the first ones, what is open.

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

from mtlmon.reporting.collector import Collector
from mtlmon.reporting.data import (
    Explanation,
    KeyCount,
    KeyReport,
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
    "Explanation",
    "KeyCount",
    "KeyReport",
    "PolicyReport",
    "ReportData",
    "Run",
    "Timeline",
    "UndecidedTimePoint",
    "Violation",
    "render",
    "write_report",
]
