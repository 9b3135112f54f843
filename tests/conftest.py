"""Options and profiles of the test run."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow],
)
# for builds that are slow
settings.register_profile("brief", settings.get_profile("ci"), max_examples=100)
settings.register_profile("hunt", settings.get_profile("ci"), derandomize=False, max_examples=20000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive",
        type=int,
        default=int(os.environ.get("MTLMON_EXHAUSTIVE", "1")),
        metavar="LEVEL",
        help="how far the exhaustive run over small models goes, 0 to 3 (default: 1)",
    )
