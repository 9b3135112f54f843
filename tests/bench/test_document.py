"""What docs/ shows is what was measured."""

from __future__ import annotations

import re

from bench import document
from bench.catalogue import MEASURES
from bench.report import markdown, pivot, table

_ROWS: list[dict[str, str | int | float]] = [
    {"workload": "f1", "rate": 1, "M events/s": 12.3456},
    {"workload": "f1", "rate": 1000, "M events/s": 123.456},
    {"workload": "f22", "rate": 1, "seconds": 0.5},
]


def test_table() -> None:
    assert table(_ROWS).splitlines() == [
        "workload   rate  M events/s  seconds",
        "f1            1        12.3        -",
        "f1        1,000         123        -",
        "f22           1           -      0.5",
    ]


def test_markdown() -> None:
    assert markdown(_ROWS[:2]).splitlines() == [
        "| workload | rate | M events/s |",
        "| :-- | --: | --: |",
        "| f1 | 1 | 12.3 |",
        "| f1 | 1,000 | 123 |",
    ]


def test_markdown_with_pipes() -> None:
    row: dict[str, str | int | float] = {"command": "cat log | mtlmon"}
    assert markdown([row]).splitlines()[-1] == "| cat log \\| mtlmon |"


def test_pivot() -> None:
    assert pivot(_ROWS[:2], ["workload"], "rate", "M events/s") == [
        {"workload": "f1", "1": 12.3456, "1000": 123.456}
    ]


def test_the_tables_are_those_of_the_results() -> None:
    text = document.DOCUMENT.read_text(encoding="utf-8")
    assert document.with_tables(text) == text


def test_every_result_is_shown() -> None:
    text = document.DOCUMENT.read_text(encoding="utf-8")
    shown = set(re.findall(r"<!-- table: ([a-z-]+) -->", text))
    assert shown <= set(MEASURES)
    assert {path.stem for path in document.RESULTS.glob("*.json")} <= shown


def test_every_plot_is_shown() -> None:
    text = document.DOCUMENT.read_text(encoding="utf-8")
    plots = [*document.RESULTS.glob("*.svg")]
    assert plots
    for path in plots:
        assert f"](benchmarks/{path.name})" in text
