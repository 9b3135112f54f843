"""The playground: a local page that checks a policy on a log while both are edited."""

from __future__ import annotations

from mtlmon.serving.findings import Findings, PolicyFindings, Problem, StreamFindings, Verdict
from mtlmon.serving.fragments import explanation_of, outcome_of, plot_of, problems_of, result_of
from mtlmon.serving.page import exported_page
from mtlmon.serving.server import Playground, Serving
from mtlmon.serving.workers import Workers

__all__ = [
    "Findings",
    "Playground",
    "PolicyFindings",
    "Problem",
    "Serving",
    "StreamFindings",
    "Verdict",
    "Workers",
    "explanation_of",
    "exported_page",
    "outcome_of",
    "plot_of",
    "problems_of",
    "result_of",
]
