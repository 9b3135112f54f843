"""Proofs as text, pictures and pages."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser
from xml.dom import minidom
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

import mtlmon
from mtlmon import Formula, atom
from mtlmon.explanation import Trace, explain_positions
from mtlmon.policy import parse_policies
from tests import strategies
from tests.doors import COMMAND, PYTHON, Interval, make, prove
from tests.doors import syntax_operators as ops
from tests.explanation.test_proofs import events_of
from tests.traces import EndTime, Step

Steps = tuple[Step, ...]
EVENTS: list[tuple[int, set[str]]] = [
    (18, {"tick"}),
    (20, {"request"}),
    (22, set()),
    (25, set()),
    (26, {"response"}),
    (30, {"p"}),
    (31, {"p", "q"}),
    (31, {"p"}),
    (35, {"p"}),
    (70, set()),
]


def shown(formula: str | Formula, position: int, **options: int) -> str:
    return mtlmon.explain(formula, EVENTS, position).to_text(**options)  # type: ignore[arg-type]


def test_witness_and_chain() -> None:
    assert shown("p SINCE[2,10] q", 8) == (
        "35:0 satisfies p SINCE[2,10] q\n"
        "\n"
        "  time-point       31:0  31:1  35:0\n"
        "  distance           -4    -4     0\n"
        "  p SINCE[2,10] q                 ✓\n"
        "  q                   ✓     ✗     ✗\n"
        "  p                   ✓     ✓     ✓\n"
        "\n"
        "✓ 35:0  p SINCE[2,10] q: q holds at 31:0 (4 back), and p ever since\n"
        "├─ ✓ 31:0  q\n"
        "└─ ✓ 31:1 to 35:0 (2 time-points)  p"
    )


def test_gaps_and_everywhere() -> None:
    text = shown("ALWAYS[0,20] NOT (response AND p)", 0)
    heads = "18:0  … 25:0  26:0  30:0  … 35:0  70:0"
    assert text.splitlines()[2].split(maxsplit=1) == ["time-point", heads]
    text = shown("PREVIOUS EVENTUALLY[0,5] (q AND false)", 8)
    assert text.splitlines()[2].split() == ["time-point", "31:1", "35:0", "everywhere"]
    assert text.splitlines()[-1].strip() == "└─ ✗ everywhere  false"


@pytest.mark.parametrize(
    ("formula", "position", "reason"),
    [
        ("NEXT[0,3] q", 7, "the next time-point, 35:0, is 4 ahead, not within [0,3]"),
        ("PREVIOUS q", 7, "q holds at the previous time-point, 31:0 (same time-stamp)"),
        ("PREVIOUS q", 0, "there is no time-point before"),
        ("PREVIOUS[5,9] q", 8, "the previous time-point, 31:1, is 4 back, not within [5,9]"),
        ("ONCE[100,*] q", 5, "there is no time-point 100 time units or more back"),
        ("ONCE[0,4] q", 8, "q holds at 31:0 (4 back)"),
        ("p SINCE q", 5, "p fails at 26:0, and q from then on"),
        ("p SINCE[0,2] q", 9, "q fails at every time-point up to 2 time units"),
        ("p UNTIL[1,9] tick", 1, "p fails at 20:0"),
        ("p UNTIL[0,9] q", 5, "q holds at 31:0 (1 ahead), and p until then"),
        ("q UNTIL p", 5, "p holds at 30:0 (same time-stamp)"),
        ("p TRIGGER[0,9] q", 5, "q fails at 30:0 (same time-stamp)"),
        (
            "q TRIGGER[1,9] NOT p",
            5,
            "NOT p holds at every time-point 1 to 9 time units back",
        ),
        ("q RELEASE p", 5, "q holds at 31:0, and p up to then"),
        ("q RELEASE p", 7, "p fails at 70:0 (39 ahead), and q did not hold before"),
        ("p WEAK_UNTIL q", 5, "q holds at 31:0, and p before"),
        ("p WEAK_UNTIL tick", 5, "p fails at 70:0 (40 ahead), and tick did not hold up"),
        ("request EQUIV response", 0, "neither request nor response holds"),
        ("request OR response", 1, "request holds"),
        ("request AND response", 1, "response does not hold"),
        ("request IMPLIES response", 1, "request holds, but response does not"),
        ("NOT request", 1, "request holds, so the negation fails"),
        ("NOT response", 1, "response fails, so the negation holds"),
        ("NOT (p AND q)", 6, "p and q hold, so the negation fails"),
        ("NOT (p OR q)", 5, "(p OR q) holds, so the negation fails"),
        ("p EQUIV q", 6, "p and q both hold"),
        ("response IMPLIES NOT tick", 0, "response does not hold"),
        (f"NOT ({' OR '.join(['request'] * 9)})", 1, "the negated formula holds, so"),
        (
            f"request IMPLIES {' OR '.join(['response'] * 9)}",
            1,
            "request holds, but the right side does",
        ),
    ],
)
def test_reasons(formula: str, position: int, reason: str) -> None:
    root = next(
        line for line in shown(formula, position).splitlines() if line.startswith(("✓", "✗"))
    )
    assert root.partition(": ")[2].startswith(reason)


def test_the_end_of_a_closed_stream() -> None:
    proof = mtlmon.explain("NEXT p", EVENTS, 9, end_time="inf")
    assert str(proof).endswith("NEXT p: no time-point follows")
    proof = mtlmon.explain("NEXT[0,5] p", EVENTS, 9, end_time=75)
    assert str(proof).endswith("NEXT[0,5] p: no time-point follows within [0,5]")


def test_what_is_left_out_is_counted() -> None:
    events = [(time, {"p"} if time % 2 else {"q"}) for time in range(100)]
    proof = mtlmon.explain("HISTORICALLY (p OR q)", events, 99)
    tree = proof.to_text().split("\n\n")[2].splitlines()
    assert "├─ … 95 more time-points" in tree
    few = proof.to_text(lines=3).split("\n\n")[2].splitlines()
    assert len(few) == 4
    assert few[-1].startswith("… ")


def test_repeated_parts_are_shown_once() -> None:
    formula = "((ONCE p) AND (ONCE p)) AND ONCE p"
    text = shown(formula, 9)
    assert text.count("ONCE p: p holds at 35:0 (35 back)") == 1
    assert text.count("ONCE p (as above)") == 2


def test_ascii() -> None:
    proof = mtlmon.explain("ALWAYS[0,20] NOT (response AND p)", EVENTS, 0)
    text = proof.to_text(ascii_only=True)
    assert text.isascii()
    assert [len(line) for line in text.splitlines()] == [
        len(line) for line in str(proof).splitlines()
    ]


@pytest.mark.parametrize("width", [1, 60, 80, 200])
def test_width(width: int) -> None:
    formula = "ALWAYS[0,20] NOT ((response AND p) OR (response AND NOT p AND q))"
    lines = shown(formula, 0, width=width).splitlines()
    timeline = lines[: lines.index("", 2)]
    assert max(map(len, timeline)) <= max(width, 40)


class Page(HTMLParser):
    """Checks that elements nest, and collects what a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        assert not {"src", "href"} & values.keys()
        if "id" in values:
            self.ids.append(values["id"])
        self.references += values.get("aria-labelledby", "").split()
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"rect", "circle", "path", "line"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(html: str) -> None:
    page = Page()
    page.feed(html)
    page.close()
    assert not page.open
    assert len(page.ids) == len(set(page.ids))
    assert set(page.references) <= set(page.ids)


@settings(max_examples=150)
@given(strategies.formulas(), strategies.traces(), strategies.end_times())
def test_everything_can_be_shown(formula: Formula, steps: Steps, end_time: EndTime) -> None:
    trace = Trace.of(events_of(steps), end_time)
    for position in range(len(trace)):
        proof = prove(formula, trace, position)
        if proof is not None:
            text = proof.to_text()
            mark = "✓" if proof.value else "✗"
            assert f"\n{mark} " in text
            minidom.parseString(proof.to_svg())
            check_page(proof.to_html())


def test_pictures_speak() -> None:
    proof = mtlmon.explain("request IMPLIES EVENTUALLY[0,5] response", EVENTS, 1)
    picture = minidom.parseString(proof.to_svg())
    (title,) = picture.getElementsByTagName("title")
    assert title.toxml().endswith("20:0 violates request IMPLIES EVENTUALLY[0,5] response</title>")
    (description,) = picture.getElementsByTagName("desc")
    assert "At 20:0 to 25:0 (3 time-points), response fails." in description.toxml()
    assert "prefers-color-scheme:dark" in proof.to_svg()
    assert 'role="img"' in proof.to_svg()


def test_marks_are_in_the_middle_of_their_row_and_column() -> None:
    """Whatever their form: circles and squares of a row are on one line."""
    picture = minidom.parseString(mtlmon.explain("p SINCE[2,10] q", EVENTS, 8).to_svg())
    places: dict[str, list[tuple[float, float]]] = {"true": [], "false": []}
    for mark in picture.getElementsByTagName("circle"):
        x, y = (float(mark.getAttribute(name)) for name in ("cx", "cy"))
        places[mark.getAttribute("class")].append((x, y))
    for mark in picture.getElementsByTagName("rect"):
        if mark.getAttribute("class") == "false":
            x, y, width, height = (
                float(mark.getAttribute(name)) for name in ("x", "y", "width", "height")
            )
            places["false"].append((x + width / 2, y + height / 2))
    columns, rows = ({place[k] for place in places["true"]} for k in (0, 1))
    assert (len(columns), len(rows)) == (3, 3)
    assert len(places["false"]) == 2
    assert all(x in columns and y in rows for x, y in places["false"])


def test_what_a_picture_leaves_out_is_marked_between_its_columns() -> None:
    """Where the text has dots, too."""
    proof = mtlmon.explain("ALWAYS[0,20] NOT (response AND p)", EVENTS, 0)
    heads = proof.to_text().splitlines()[2].split()[1:]
    places = [
        (float(text.get("x", "")), text.text)
        for text in ElementTree.fromstring(proof.to_svg()).iter("{http://www.w3.org/2000/svg}text")
        if text.get("y") == "18"
    ]
    columns = [x for x, text in places if text != "…"]
    assert [text for _, text in sorted(places)] == heads
    for gap in (x for x, text in places if text == "…"):
        left, right = (max(x for x in columns if x < gap), min(x for x in columns if x > gap))
        assert gap == (left + right) / 2


def test_names_are_escaped() -> None:
    name = '<script>&"\x1b[31m'
    proof = mtlmon.explain(make(ops.NOT, atom(name)), [(0, {name})], 0)
    for picture in proof.to_svg(), proof.to_html():
        assert "<script" not in picture
        assert "\x1b" not in picture
    assert "\x1b" not in str(proof)
    check_page(proof.to_html())
    assert re.search("&lt;script&gt;&amp;", proof.to_svg())


def test_distances_have_the_unit_of_the_trace() -> None:
    trace = Trace([100, 100 + 90_061, 300_000], [{"p"}, {"q"}, set()], unit="s")
    text = str(mtlmon.explain("p IMPLIES EVENTUALLY[0,2] q", trace, 0))
    assert "q fails at every time-point up to 2s ahead" in text
    text = str(mtlmon.explain("EVENTUALLY q", trace, 0))
    assert text.splitlines()[3].split() == ["distance", "0", "+1d", "1h", "1m", "1s"]
    assert "q holds at 90161:0 (1d 1h 1m 1s ahead)" in text
    text = str(mtlmon.explain("ONCE q", trace, 2))
    assert "q holds at 90161:0 (2d 10h 17m 19s back)" in text
    assert "-2d 10h 17m 19s" in text


def test_bounds_have_the_unit_of_the_trace() -> None:
    trace = Trace.of([(0, {"paid"}), (3600, set()), (700_000, {"sent"})], unit="s")
    proof = mtlmon.explain("paid IMPLIES EVENTUALLY[1h,7d] sent", trace, 0)
    assert str(proof).startswith("0:0 violates paid IMPLIES EVENTUALLY[1h,7d] sent\n")
    assert "sent fails at every time-point 1h to 7d ahead" in str(proof)
    for picture in proof.to_svg(), proof.to_html():
        assert "EVENTUALLY[1h,7d] sent" in picture
        assert "604800" not in picture
    assert str(proof.formula) == "paid IMPLIES EVENTUALLY[3600,604800] sent"
    assert "EVENTUALLY[1h,7d] sent" in trace.plot("EVENTUALLY[1h,7d] sent").to_svg()
    proof = mtlmon.explain("NEXT[0,60] paid", trace, 0)
    assert "the next time-point, 3600:0, is 1h ahead, not within [0,1m]" in str(proof)
    with pytest.raises(mtlmon.UnitError):
        Trace.of([], unit="fortnight")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("count[0,600](status >= 500) > 20", "count[0,10m](status >= 500) > 20"),
        ('path = "[0,600]" and max[5,60](x) > 1', '(path = "[0,600]" and max[5s,1m](x) > 1)'),
        ("x > 5", "x > 5"),
        ("x", "x"),
        ("x 5", '"x 5"'),
        ("count[0,600] of nothing (", '"count[0,600] of nothing ("'),
        ("max[0,600](x)>1", '"max[0,600](x)>1"'),
    ],
)
def test_conditions_are_as_in_a_policy_file(name: str, expected: str) -> None:
    """Their windows have units. Names of atoms that are no conditions remain as they are."""
    proof = mtlmon.explain(make(ops.ONCE, atom(name)), Trace.of([(0, {name})], unit="s"), 0)
    assert str(proof).splitlines()[0] == f"0:0 satisfies ONCE {expected}"
    assert proof.premises[0].formula.name == name


def test_undecided_errors_name_options_as_the_caller_writes_them() -> None:
    trace = Trace.of([(5, {"p"})])
    for formula, python, command in (
        ("EVENTUALLY[0,3] q", "end_time=8", "--end-time 8"),
        ("EVENTUALLY q", "end_time='inf'", "--end-time inf"),
    ):
        for options, written in (PYTHON, python), (COMMAND, command):
            (error,) = explain_positions(mtlmon.parse(formula), trace, [0], options)
            assert f": {written} says that" in str(error)


def test_formulas_whose_ends_are_alike_have_labels_of_their_own() -> None:
    """Labels leave out the middle, where these conditions differ, only if nothing is lost."""
    first, second = (
        f'`concept:name` = "{word}onfirmation of a receipt"' for word in ("C", "T02 c")
    )
    trace = Trace.of([(0, {first}), (9, {second})])
    formula = make(
        ops.IMPLIES, atom(first), make(ops.EVENTUALLY, atom(second), interval=Interval(0, 5))
    )
    proof = mtlmon.explain(formula, trace, 0)
    table = str(proof).split("\n\n")[1].splitlines()
    labels = [line[:60].rstrip(" ✓✗") for line in table]
    assert len(set(labels)) == len(labels) == 6
    assert max(map(len, str(proof).splitlines())) <= 100
    picture = proof.to_svg()
    for word in first, second:
        assert escape(word) in picture


def test_names_of_lets_stay() -> None:
    """Also where a let uses another one; what it stands for is below it."""
    file = parse_policies(
        """
        unit s
        let bad = fail AND n > 5
        let worse = ONCE[0,30] bad
        let same = login
        policy calm: NOT worse OR same
        """
    )
    trace = Trace.of([(0, {"fail", "n > 5"}), (9, set())], unit="s", names=file.named_formulas)
    proof = mtlmon.explain(file.policies[0].formula, trace, 1)
    assert str(proof).partition("\n\n")[0] == "9:0 violates NOT worse OR login"
    assert "worse: bad holds at 0:0 (9s back)" in str(proof)
    assert "bad: fail and n > 5 both hold" in str(proof)
    assert "fail AND" not in str(proof)
