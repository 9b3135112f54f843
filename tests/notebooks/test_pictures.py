"""What notebooks show: well-formed pictures and tables that say what the objects say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from mtlmon import Monitor, Summary, explain, parse
from mtlmon.explanation import Trace
from mtlmon.policy import parse_policies

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import mtlmon  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    """The texts of a picture, in order; it must be well-formed."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    return ["".join(one.itertext()) for one in root.iter(f"{SVG}text")]


def marks(svg: str) -> dict[str, int]:
    """How many marks of each kind a picture has."""
    kinds = [one.get("class") for one in ElementTree.fromstring(svg).iter()]
    return {kind: kinds.count(kind) for kind in ("atom", "true", "false")}


def cells(html: str | None) -> list[list[str]]:
    """The rows of a table of HTML; it must be well-formed."""
    root = ElementTree.fromstring(f"<div>{html}</div>")
    return [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]


def test_tree_of_a_formula() -> None:
    formula = parse("(ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)) AND NOT ONCE r")
    # the head, and the rows: an operator, how far it looks back, and ahead
    assert texts(formula._repr_svg_()) == [
        *("back", "ahead"),
        *("AND", "no limit", "13"),
        *("ALWAYS[0,10]", "", "13"),
        *("IMPLIES", "", "3"),
        *("p", "", ""),
        *("EVENTUALLY[0,3]", "", "3"),
        *("q", "", ""),
        *("NOT", "no limit", ""),
        *("ONCE", "no limit", ""),
        *("r", "", ""),
    ]


def test_tree_says_how_much_is_left_out() -> None:
    formula = parse(" AND ".join(f"p{number}" for number in range(200)))
    shown = texts(formula._repr_svg_())
    assert sum(text == "AND" or text.startswith("p") for text in shown) == 100
    (rest,) = (text for text in shown if "more" in text)
    assert re.fullmatch(r"[\d,]+ more subformulas", rest)


def test_tree_of_a_formula_with_variables() -> None:
    file = parse_policies(
        "unit s\natom p(u, f)\npolicy x: FORALL u, f. p(u, f) IMPLIES ONCE[0,7d] EXISTS m. p(m, f)"
    )
    shown = texts(file.policies[0].formula._repr_svg_())
    assert shown == ["FORALL u, f", "IMPLIES", "p(u, f)", "ONCE[0,604800]", "EXISTS m", "p(m, f)"]


def test_tree_of_strange_names() -> None:
    assert texts(parse('"<b>&amp;" AND q')._repr_svg_())[5] == '"<b>&amp;"'


def trace() -> Trace:
    return Trace.of([(1, ["p"]), (1, ["q"]), (4, []), (9, ["p"])])


def test_timeline() -> None:
    svg = trace().plot("p IMPLIES EVENTUALLY[0,5] q", parse("ONCE p"))._repr_svg_()
    shown = texts(svg)
    assert shown[:5] == ["time", "1", "1:1", "4", "9"]
    assert shown[5:] == ["p", "q", "p IMPLIES EVENTUALLY[0,5] q", "?", "ONCE p"]
    # p twice and q once; the first formula is true at 1, 1:1 and 4, the other one everywhere
    assert marks(svg) == {"atom": 3, "true": 7, "false": 0}


def test_timeline_knows_the_end() -> None:
    closed = Trace.of([(1, ["p"]), (9, ["p"])], "inf").plot("EVENTUALLY[0,5] q")
    assert marks(closed.to_svg())["false"] == 2
    until = Trace.of([(1, ["p"]), (9, ["p"])], 10).plot("EVENTUALLY[0,5] q")
    assert marks(until.to_svg())["false"] == 1
    assert "?" in texts(until.to_svg())


def test_timeline_of_a_part() -> None:
    events = [(number, ["p"] if number % 3 == 0 else []) for number in range(1000)]
    part = Trace.of(events).plot("ONCE[0,2] p", first=500, count=4)
    assert texts(part.to_svg()) == [
        *("time", "4 time-points, of 1,000", "500", "501", "502", "503"),
        *("p", "ONCE[0,2] p"),
    ]
    assert marks(part.to_svg()) == {"atom": 1, "true": 4, "false": 0}
    assert repr(part) == "<Timeline of 4 time-points, of 1,000>"


@pytest.mark.parametrize(
    ("first", "count", "title"),
    [
        (0, 60, "3 time-points"),
        (0, 2, "2 time-points, of 3"),
        (1, 1, "1 time-point, of 3"),
        (3, 1, "0 time-points, of 3"),
    ],
)
def test_timeline_counts_its_time_points(first: int, count: int, title: str) -> None:
    shown = Trace.of([(1, []), (4, []), (9, [])]).plot("p", first=first, count=count)
    assert repr(shown) == f"<Timeline of {title}>"


def test_timeline_of_all_atoms_or_some() -> None:
    assert texts(trace().plot().to_svg())[5:] == ["p", "q"]
    assert texts(trace().plot("p", atoms=["q"]).to_svg())[5:] == ["q", "p"]
    assert texts(Trace.of([]).plot("p").to_svg()) == ["time", "p", "p"]


def test_timeline_in_a_file(tmp_path: Path) -> None:
    trace().plot("p").save(tmp_path / "trace.svg")
    assert texts((tmp_path / "trace.svg").read_text(encoding="utf-8"))[0] == "time"


def test_verdicts_as_a_table() -> None:
    verdicts = Monitor("EVENTUALLY[0,5] p").feed([1, 1, 9], [[False], [False], [True]])
    assert cells(verdicts._repr_html_()) == [
        ["time-point", "verdict"],
        *(str(one).split(" ", 1) for one in verdicts),
    ]
    many = Monitor("p").feed(range(1000), [[True]] * 1000)._repr_html_()
    assert len(cells(many)) == 21
    assert "1,000 verdicts, of which 20 are shown</p>" in many
    wrong = Monitor("p").feed(range(100), [[time % 10 != 9] for time in range(100)])._repr_html_()
    assert "20 are shown; 10 violations: 9:0, 19:0, 29:0, 39:0, 49:0, 59:0, ...</p>" in wrong


def test_summary_as_a_table() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    summary = Summary(monitor([(0, []), (0, []), (9, ["p"]), (10, []), (10, [])]))
    html = summary._repr_html_()
    assert cells(html) == [
        ["5 time-points", "count", "part"],
        ["true", "1", "20.00%"],
        ["false", "2", "40.00%"],
        ["undecided", "2", "40.00%"],
        ["equivalent", "2", "40.00%"],
    ]
    assert "first violation: 0:0" in html
    assert cells(Summary()._repr_html_())[1] == ["true", "0", ""]


def test_proof_as_a_picture() -> None:
    violated = explain("NOT p", [(1, ["p"]), (9, [])], 1)
    assert violated._repr_svg_() == violated.to_svg()


def table() -> Any:
    return pa.table({"ts": [1, 2, 9], "p": [True, False, True], "q": [False, False, False]})


def test_check_as_a_table() -> None:
    check = mtlmon.check("p IMPLIES EVENTUALLY[0,5] q", table())
    for _ in check.batches():
        pass
    assert cells(check._repr_html_()) == [
        ["policy", "time-points", "violations", "part", "undecided"],
        ["", "3", "1", "33.3%", "1"],
        ["time-point", "violation"],
        ["1:0", "violates p IMPLIES EVENTUALLY[0,5] q"],
    ]


KEYS = """
key user
stream fails = count[0,9](not ok)
trigger burst: fails > 1 message "{user} failed {fails} times"
policy fine "rows are fine": ok
policy never: NOT (fails > 100)
"""


def test_check_shows_the_first_violations_of_each_policy() -> None:
    users = ["ann", "bob<b>", "cy"] * 4
    rows = pa.table({"ts": list(range(12)), "user": users, "ok": [False] * 12})
    check = mtlmon.check(KEYS, rows, rows=True)
    before = cells(check._repr_html_())
    assert before == [["policy", "time-points", "violations", "part", "undecided"]]
    next(check)
    for _ in check.batches():
        pass
    html = check._repr_html_()
    assert cells(html)[4:] == [
        ["policy", "time-point", "key", "row", "violation"],
        *(
            ["burst", f"{time}:0", user, str(time), f"{user} failed {count} times"]
            for time, user, count in [
                *((3, "ann", 2), (4, "bob<b>", 2), (5, "cy", 2)),
                *((6, "ann", 3), (7, "bob<b>", 3)),
            ]
        ),
        *(
            ["fine", f"{time}:0", user, str(time), "rows are fine"]
            for time, user in [(0, "ann"), (1, "bob<b>"), (2, "cy"), (3, "ann"), (4, "bob<b>")]
        ),
    ]
    assert "the first 5 of each policy; 11 more are not shown" in (html or "")


def test_check_shows_the_values_that_violate_policies_with_variables() -> None:
    rows = pa.table({"ts": [1, 2, 3], "event": ["pay", "open", "pay"], "u": ["ann", "bob", "cy"]})
    policies = (
        'atom pay(u) = event == "pay"\natom open(u) = event == "open"\n'
        "policy known: pay(u) IMPLIES ONCE open(u)"
    )
    for text in policies, f'{policies}\npolicy paid "payments": event == "pay"':
        check = mtlmon.check(text, rows)
        check.to_arrow()
        shown = cells(check._repr_html_())
        reason = "violates pay(u) IMPLIES ONCE open(u)"
        assert [f"{reason} (u={user})" for user in ("ann", "cy")] == [
            row[-1] for row in shown if row[-1].startswith(reason)
        ]
    assert shown[-1] == ["paid", "2:0", "payments"]


def test_verdicts_as_frames() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")
    rows = mtlmon.check("p", table()).to_arrow().to_pylist()
    frame = mtlmon.check("p", table()).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["verdict"].tolist() == [row["verdict"] for row in rows]
    other = mtlmon.check("p", table()).to_polars()
    assert isinstance(other, polars.DataFrame)
    assert other.to_dicts() == rows
    verdicts = Monitor("p").feed([1, 2], [[True], [False]])
    assert verdicts.to_polars()["kind"].to_list() == ["true", "false"]
