"""Instances that begin at ticks of their trace, against the reference and in named cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import MtlmonError
from tests.streams.programs import Row
from tests.streams.test_instance_ticks import in_batches, wanted_of
from tests.streams.test_templates import CUTS, FOLDS, SCHEMA, TIMES, File, rows
from tests.streams.test_ticks import require_same

# What has values at ticks of the trace, all at the multiples of 2.
OF_TRACE = ["stream h = count[0,3]() every 2", "stream j = i.hold() every 1"]
OF_TRACE += ["stream u = count[0,5](row.b) every 2", "stream o = s.hold() every 2"]
WINDOWS = [
    "count[0,5]()",
    "sum[0,7](h)",
    "max[0,*)(j + h)",
    "h.last(or: 1)",
    "u.at(-2)",
    "h.hold()",
]
WINDOWS += ["count[1,6](u > 0)", "last[0,4](j)", "distinct[0,9](h)", "median[2,6](h)", "h.hold(1)"]
RECURSION = ["x.last(or: 0) + 1", "sum[1,9](x, or: 1) % 7 + 1", "x.last(or: 0) + sum[0,4](h)"]
OTHERS = ["x", "x.last(or: 2)", "sum[0,6](x)", "x.hold()", "x.hold(1)", "x.at(-3, or: 1)"]


@st.composite
def files(draw: st.DrawFn) -> File:
    def one(choices: list[str]) -> str:
        return draw(st.sampled_from(choices))

    per = one(["per h as p", "per h", "per j as p, u as q", "per o as p, h as q", "per 1 as p"])
    per = one([per, per, "per h % 2 as p", "per u > 0 as p, h"])
    is_const = per == "per 1 as p"
    starts = ["", "", " from u > 0", " from h > 1 or u = 1"]
    start = one(starts[2:] if is_const else starts)
    named = {"per h as p": "u = p", "per o as p, h as q": "h = q and o = p and u > 0"}
    ends = [*TIMES, *TIMES, "u > 1", named.get(per, "h > 2"), "x > 2", "x >= 1 or u > 1"]
    ends.append("y > 3 or age() >= 5")
    end = f" until {one(ends)}" if draw(st.booleans()) else ""
    every = (
        f"every {one(['1', '2', '2', '4', '5', '2 from its beginning', '3 from its beginning'])}"
    )
    can_read = "from its" not in every and not any(name in end for name in "xy")
    whole = ["h", "h + count[0,3]()"] if can_read and every in {"every 2", "every 4"} else []
    ended = any(name in end for name in "xy")
    windows = [one for one in WINDOWS if not (ended and ".last" in one)]
    lines = [
        *OF_TRACE,
        f"stream x = {one([*windows, *windows, *RECURSION, *whole])} {per} {every}{start}{end}",
        f"stream y = {one([*windows, *OTHERS, *whole])} {per} {every}{start}{end}",
    ]
    text = '"a"' if per.startswith("per o") else "1"
    key = {"per 1 as p": "1", "per h % 2 as p": "1", "per u > 0 as p, h": "true, 1"}.get(per)
    if key is None:
        key = text + (", 1" if ", " in per else "")
    lines.append(f"stream w = {one(FOLDS)}")
    lines.append(f"stream v = x[{key}]")
    lines.append(f"stream c = {one([*FOLDS, f'x[{key}]'])} every {one(['1', '2', '3'])}")
    if draw(st.booleans()):
        # instances of rows that read those, and the other way round
        called = " on k = r or m = r"
        on = one(["", "", called, f"{called} and count(true over x) > 1", " on row.b"])
        values = ["count[0,4]()", "i.last()", "n.last(or: 0) + coalesce(i, count(x > 1 over x))"]
        values += [fold for fold in FOLDS if not fold.startswith(("any", "all"))]
        lines.append(f"stream n = {one(values)} per k as r{on}")
        lines.append(f"stream z = {one(FOLDS)} per k as r every {one(['1', '2'])}")
        if "from its" not in every:
            lines.append("stream d = sum(n over n) per h as p every 2 until silence() > 3")
            lines.append("stream e = max(d over d) every 4")
    return File("\n".join(lines))


@given(files(), rows(10), CUTS, st.integers(0, 3), st.booleans())
def test_instances_that_begin_at_ticks_are_those_of_the_reference(
    file: File, log: list[Row], cuts: list[int], saved: int, only_due: bool
) -> None:
    until = log[-1][0] + 12 if log else 7
    wanted = wanted_of(file, log, until)
    found = in_batches(file, log, cuts, saved, until, only_due=only_due, can_leave_out=True)
    require_same(found, wanted, file)


def test_ticks_at_which_something_is_so_are_counted() -> None:
    """Rationale: the key is 1, 1, 2, 1 at 2, 4, 6, 8, and the instance of 1 goes on meanwhile.

    It ends behind the tick at which `until` holds, and begins again with an empty past.
    """
    file = File(
        "stream h = i.hold() every 2\n"
        "stream x = count[0,9]() per h as p every 2 until f > 0 and h = p\n"
        "stream d = sum(x over x) every 2\n"
        "stream f = count[0,0](row.b) every 2"
    )
    cells = dict.fromkeys(SCHEMA.names)
    points = [(1, 1, False), (5, 2, False), (7, 1, False), (10, 1, True), (11, 1, False)]
    log: list[Row] = [(time, 0, {**cells, "i": i, "b": b}) for time, i, b in points]
    for only_due in (False, True):
        found = in_batches(file, log, [2, 3], 1, 13, only_due=only_due)
        require_same(found, wanted_of(file, log, 13), file)
        values = [(time, value) for time, _, _, name, value in found[1] if name == "x"]
        assert values == [(2, 1), (4, 2), (6, 1), (8, 3), (10, 4), (12, 1)]
        sums = [(time, value) for time, _, _, name, value in found[1] if name == "d"]
        assert sums == [(2, 1), (4, 2), (6, 3), (8, 4), (10, 5), (12, 2)]


def test_instances_of_several_traces_end_behind_a_tick() -> None:
    """Rationale: the first trace ends its instance at the tick at which the second begins one."""
    file = File(
        "stream h = count[0,1]() every 2\nstream x = h per 1 as p every 2 from h > 0 until h = 1\n"
        "stream c = count(true over x) every 2\nstream w = count(true over x)"
    )
    cells = dict.fromkeys(SCHEMA.names)
    log: list[Row] = [
        (time, trace, dict(cells))
        for time, trace in [(0, 0), (0, 1), (3, 1), (3, 1), (4, 0), (5, 0), (5, 1), (9, 1)]
    ]
    for cuts in ([], [2], [4, 6]):
        found = in_batches(file, log, cuts, 1, 11, only_due=False)
        require_same(found, wanted_of(file, log, 11), file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stream x = 1 per h", "x is evaluated at rows, but h is every 2"),
        ("stream x = 1 per h, k every 2", "x is evaluated at rows, but h is every 2"),
        ("stream x = 1 per h as p on k = p or m = p", "x is evaluated at rows, but h is every 2"),
        ("stream x = 1 per h every 2 until row.b", "x is evaluated at rows, but h is every 2"),
        ("stream x = sum[0,5](i) per h every 2", "x begin at ticks, so they have no rows"),
        ("stream x = i per h every 2", "x is every 2, but i is of rows"),
        ("stream x = 1 per h, e every 2", "x is every 2, but e is every 3"),
        (
            "stream x = 1 per h every 2\nstream y = 1 per h every 2 from x > 1",
            "x has a value for each of its instances",
        ),
        ("stream x = h.last() per h every 2 until x > 1", "may be of the same tick"),
        ("stream x = 1 per h every 2\nstream y = rank(x over x)", "a rank is of an instance of x"),
        ("stream x = x[1] per h every 2", "stream x needs its own value at the same tick"),
        ("stream x = 1 per z every 2\nstream z = sum(x over x) every 2", "its own values to know"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        File(f"stream h = count[0,5]() every 2\nstream e = count[0,5]() every 3\n{text}").program()
