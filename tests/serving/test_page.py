"""Parts of the page: the plot, lists of verdicts and problems."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.doors import (
    AGGREGATES,
    FUNCTIONS,
    Findings,
    PlottedStream,
    PolicyFindings,
    Problem,
    StreamFindings,
    Verdict,
    exported_page,
    help_of_operators,
    outcome_of,
    plot,
    plot_of,
    problems_of,
    reasons_of,
    result_of,
)
from tests.doors import syntax_operators as ops

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


def test_values_are_steps_with_gaps() -> None:
    nan = float("nan")
    (path,) = paths(StreamFindings([0, 1, 2, 3], [""] * 4, [stream(1, 2, nan, 4)]))
    # each value holds until the next one, or until there is none
    assert re.sub(r"[^MHVh]", "", path) == "MhHVHMh"
    begin, end, missing, again = (place(path, number) for number in (0, 1, 2, 3))
    assert begin < end < missing < again
    assert missing - end == pytest.approx(end - begin, abs=0.2)
    heights = [float(one) for one in re.findall(r"(?:V|M[\d.]+ )([\d.]+)", path)]
    assert heights == sorted(heights, reverse=True)


def place(path: str, number: int) -> float:
    """Where a part of a line begins."""
    return [float(one) for one in re.findall(r"[MH]([\d.]+)", path)][number]


def paths(streams: StreamFindings) -> list[str]:
    picture = ElementTree.fromstring(plot(Findings(streams=streams), 600))
    return [one.get("d") or "" for one in picture.iter() if one.get("d") is not None]


def test_ticks_are_no_gaps_in_values_of_rows_and_rows_none_in_those_of_ticks() -> None:
    nan = float("nan")
    rows = PlottedStream("rows", np.array([1, nan, 2, nan, nan, 3]), (), None)
    ticks = PlottedStream("ticks", np.array([nan, 5, nan, 6, nan, nan]), (), None, False, 10)
    others = PlottedStream("others", np.array([1, nan, nan, nan, nan, 7]), (), None, False)
    times = [0, 10, 15, 20, 25, 60]
    shown = paths(StreamFindings(times, [""] * 6, [rows, ticks, others]))
    # no value at the row 25, the last tick with a value, and the rows that some streams are on
    assert [re.sub(r"[^MHVh]", "", one) for one in shown] == ["MhHVHMh", "MhHV", "MhHV"]
    late = PlottedStream("ticks", np.array([5, nan, 6]), (), None, False, 10)
    (path,) = paths(StreamFindings([10, 20, 40], [""] * 3, [late]))
    assert re.sub(r"[^MHVh]", "", path) == "MhHMh"


def test_values_in_one_column_of_pixels_are_one_line() -> None:
    values = [0.0, 9.0, 1.0, 4.0]
    streams = StreamFindings([0, 1, 2, 3, 10**6], [""] * 5, [stream(*values, 2.0)])
    (path,) = paths(streams)
    steps = re.findall(r"[MV](?:[\d.]+ )?([\d.]+)|H", path)
    # up to the largest value, down to the last one, and from there to the next
    assert len(steps) == 5
    assert float(steps[1]) < float(steps[2]) < float(steps[0])
    assert float(steps[2]) < float(steps[4]) < float(steps[0])


def test_keys_with_violations_are_drawn_and_listed_first() -> None:
    keys = [f"k{number}" for number in range(20)]
    streams = StreamFindings(list(range(20)), keys, [stream(*map(float, range(20)))])
    violating = {"k7": 2, "k13": 5, "k2": 1} | {f"x{number}": 1 for number in range(20)}
    verdicts = [Verdict(0, 13, 4, 0, False, 5, "k13")]
    policy = PolicyFindings(
        "p", "p", "", None, verdicts, 100, 28, 0, True, violating_keys=violating, key_count=40
    )
    found = Findings([policy], streams)
    shown = plot_of(found, 600)
    legend = re.findall(r'<li class="s\d">([^<]*)', shown)
    assert legend[:3] == ["k13", "k7", "k2"]
    assert len(legend) == len(re.findall("<title>s, ", shown)) == 6
    assert "Not drawn: 14 more keys, of which 0 have violations." in shown
    left_out = "27 violations after the first 1, 100 other time-points after the first 0"
    assert f"Neither drawn nor marked in the log, of p: {left_out}." in shown
    result = result_of(found)
    assert "Keys with violations, 23 of 40:" in result
    listed = re.findall(r'<li><span class="key">([^<]*)</span> (\d+)</li>', result)
    assert listed[:3] == [("k13", "5"), ("k7", "2"), ("k2", "1")]
    assert len(listed) == 10
    assert "and 13 more keys" in result
    assert "These are the first 1; 27 more violations are not shown." in result


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


@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_each_of_a_few_texts_has_its_height(count: int) -> None:
    labels = tuple(f"text {number}" for number in range(count))
    values = stream(*map(float, range(count)), labels=labels)
    streams = StreamFindings(list(range(count)), [""] * count, [values])
    picture = ElementTree.fromstring(plot(Findings(streams=streams), 400))
    heights = {one.text: float(one.get("y", "0")) for one in picture.iter() if one.text in labels}
    # of many, the first and the last one
    assert list(heights) == [*(labels if count <= 5 else (labels[0], labels[-1]))]
    assert sorted(heights.values(), reverse=True) == [*heights.values()]


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
    text = result_of(findings(*[False] * 250, *[True] * 101))
    assert text.count("<li>") == 200
    assert "These are the first 100; 150 more violations are not shown." in text
    assert "These are the first 100; 1 more is not shown." in text
    assert "are not shown" not in result_of(findings(*[False] * 100))


def test_the_help_has_every_operator() -> None:
    text = help_of_operators()
    ElementTree.fromstring(f"<div>{text}</div>")
    codes = set(map(unescape, re.findall("<code>(.*?)</code>", text)))
    words = {word for code in codes for word in re.split(r"[ \[]", code)}
    for operator in ops.OPERATORS:
        if operator.arity > 0:
            assert {*operator.spellings} <= words
    assert {*FUNCTIONS, *AGGREGATES} <= codes
    assert "<td></td><td>" not in text
