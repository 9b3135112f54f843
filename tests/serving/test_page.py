"""Parts of the page: the plot, lists of verdicts and problems."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from mtlmon.reporting.plot import PlottedStream
from mtlmon.serving import (
    Findings,
    PolicyFindings,
    Problem,
    StreamFindings,
    Verdict,
    exported_page,
    outcome_of,
    problems_of,
    result_of,
)
from mtlmon.serving.fragments import reasons_of
from mtlmon.serving.plot import plot

EVIL = '<img src=x onerror=alert(1)>"&\x1b'


def findings(*values: bool | None, step: int = 10) -> Findings:
    verdicts = [Verdict(0, 0, step * k, 0, value, k + 1) for k, value in enumerate(values)]
    false, true = values.count(False), values.count(True)
    counts = true, false, len(values) - false - true
    return Findings([PolicyFindings("p", "p", "", None, verdicts, *counts, bool(false))])


def stream(*values: float, labels: tuple[str, ...] = (), name: str = "s") -> PlottedStream:
    return PlottedStream(name, np.array(values, np.float64), labels, None)


@pytest.mark.parametrize("width", [280, 360, 1000])
def test_each_verdict_is_a_mark_in_the_picture(width: int) -> None:
    picture = ElementTree.fromstring(plot(findings(True, False, None, True), width))
    marks = [one for one in picture.iter() if one.get("data-why") is not None]
    assert [one.get("data-why") for one in marks] == ["0,0,0,0", "0,0,10,0", "0,0,20,0", "0,0,30,0"]
    kinds = ["mark true", "mark false", "mark open", "mark true"]
    assert [one.get("class") for one in marks] == kinds
    for one in picture.iter():
        for name in ("x", "x1", "x2", "cx"):
            assert 0 <= float(one.get(name, "0")) <= width


def test_the_worst_verdict_of_a_place_is_shown_and_the_picture_stays_small() -> None:
    values: list[bool | None] = [True] * 10_000
    values[5000], values[7000] = False, None
    picture = plot(findings(*values), 600)
    assert picture.count('class="mark false"') == 1
    assert picture.count('class="mark open"') == 1
    assert 'data-why="0,0,50000,0"' in picture
    assert len(picture) < 50_000


def test_values_are_lines_with_gaps() -> None:
    streams = StreamFindings([0, 1, 2, 3], [""] * 4, [stream(1, 2, float("nan"), 4)])
    picture = ElementTree.fromstring(plot(Findings(streams=streams), 600))
    (path,) = [one.get("d") for one in picture.iter() if one.get("d") is not None]
    assert path is not None
    assert re.sub(r"[^ML]", "", path) == "MLM"
    heights = [float(place.split(" ")[1]) for place in re.split("[ML]", path)[1:]]
    assert heights == sorted(heights, reverse=True)


def test_each_key_has_a_line_and_a_place_in_the_legend() -> None:
    streams = StreamFindings([0, 1, 2], ["a", "b", "a"], [stream(1, 2, 3)])
    shown = plot(Findings(streams=streams), 600)
    assert shown.count('class="series s0"') == shown.count('class="series s1"') == 1


@pytest.mark.parametrize(
    "values", [(), (5.0,), (float("inf"), 1.0), (float("nan"),) * 3, (0.0,) * 3]
)
def test_few_values(values: tuple[float, ...]) -> None:
    streams = StreamFindings(list(range(len(values))), [""] * len(values), [stream(*values)])
    picture = plot(Findings(streams=streams), 400)
    assert "nan" not in picture
    assert "inf" not in picture


def test_texts_are_labels() -> None:
    streams = StreamFindings([0, 1], ["", ""], [stream(0, 1, labels=("idle", "busy"))])
    picture = plot(Findings(streams=streams), 400)
    assert ">idle<" in picture
    assert ">busy<" in picture


def test_many_values_stay_a_small_picture() -> None:
    count = 100_000
    values = stream(*np.sin(np.arange(count)).tolist())
    streams = StreamFindings(list(range(count)), [""] * count, [values])
    assert len(plot(Findings(streams=streams), 800)) < 200_000


def test_nothing_is_markup() -> None:
    verdict = Verdict(0, 0, 1, 0, False, 1, EVIL, EVIL)
    policy = PolicyFindings(EVIL, EVIL, EVIL, EVIL, [verdict], 0, 1, 0, True)
    streams = StreamFindings([0], [EVIL], [stream(1, name=EVIL, labels=(EVIL,))])
    one = Findings([policy], streams, remarks=[EVIL], reasons=[(EVIL, reasons_of(EVIL, [EVIL]))])
    problem = Problem(EVIL, "policy", 1, 1, EVIL)
    page = exported_page(one, result_of(one, {verdict.name: "why"}), (EVIL, EVIL), (EVIL, EVIL))
    for text in page, problems_of([problem]), plot(one, 500), result_of(one):
        assert "<img" not in text
        assert "\x1b" not in text


def test_outcomes() -> None:
    assert outcome_of(Findings()) == ("none", "no policies, 0 events")
    assert outcome_of(findings(True, False)) == ("false", "1 violation, 0 events")
    assert outcome_of(findings(True, None)) == ("open", "no violation so far, 0 events")
    assert outcome_of(findings(True)) == ("true", "all hold, 0 events")
    problem = Findings(problems=[Problem("bad")])
    assert outcome_of(problem) == ("problem", "1 problem")


def test_long_lists_are_cut() -> None:
    text = result_of(findings(*[False] * 250))
    assert text.count("<li>") == 100
    assert "the first 100" in text
