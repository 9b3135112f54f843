"""Relations built in Python are those that the file syntax declares."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import mtlmon
from mtlmon.errors import FormulaError, MtlmonError
from mtlmon.policy import parse_policies
from mtlmon.policy.values import column, value
from mtlmon.relations import Relation, avg, count, max_, min_, rows, sum_, table

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = table("limits.csv", "from", "to", key=["road", "lane no"]).named("limits")
OTHER = rows().select("a").named("other")
BUILT = {
    'table "limits.csv" valid [from, to) key road, `lane no`': LIMITS,
    "rows valid 15m": rows().valid("15m"),
    "rows valid 7": rows().valid(7),
    "rows valid 90s": rows().valid(timedelta(seconds=90)),
    "rows valid until next 1h": rows().valid(until_next="1h"),
    "rows valid until p": rows().valid(until="p"),
    'rows valid until k = "stop" per a, b': rows().valid(
        until=column("k") == "stop", per=["a", "b"]
    ),
    "rows where a > 5 and b < a": rows().where((column("a") > 5) & (column("b") < column("a"))),
    "rows select a as a, a + 1 as b": rows().select("a", b=column("a") + 1),
    "rows select a as a, hour(ts) as h": rows().select("a", h=value("hour(ts)")),
    "rows group a, b select avg(c) as v": rows().group("a", "b", v=avg("c")),
    "rows group select count() as n, count(p) as m, sum(a) as s, min(a) as l, max(a) as h": (
        rows().group(n=count(), m=count("p"), s=sum_("a"), l=min_("a"), h=max_(column("a")))
    ),
    "rows join limits on road = limits_road": rows().join(LIMITS, on="road = limits_road"),
    "rows semijoin other on x = a": rows().semijoin(OTHER, column("x") == column("a")),
    "rows union other": rows().union(OTHER),
    "rows unionmax other": rows().union_max(OTHER),
    "rows minus other": rows().minus(OTHER),
    "rows minus all other": rows().minus(OTHER, all=True),
    "rows intersect other": rows().intersect(OTHER),
    "rows valid 1h coalesce coalesce max 10m": rows().valid("1h").coalesce().coalesce("10m"),
    "rows valid 1h split 1m distinct": rows().valid("1h").split("1m").distinct(),
}


@pytest.mark.parametrize("text", BUILT)
def test_what_is_built_is_what_a_file_declares(text: str) -> None:
    built = BUILT[text]
    declared = f"relation r = {text}\nrelation other = rows select a as a\n"
    if "limits" not in text or text.startswith("table"):
        declared += "relation limits = rows\n"
    else:
        declared += f"relation limits = {LIMITS}\n"
    file = parse_policies(declared, unit="s", needs_policy=False)
    assert file.intervals["r"].text("s") == built.file("s").intervals[built.shown_name].text("s")
    assert built == eval(f"Relation({str(built)!r}, built._others, built._name)")
    assert pickle.loads(pickle.dumps(built)) == built
    assert hash(pickle.loads(pickle.dumps(built))) == hash(built)


def test_relations_are_immutable() -> None:
    recent = rows().valid("15m")
    slow = recent.where("v < 15")
    assert str(recent) == "rows valid 15m"
    assert slow != recent
    assert slow.named("slow") != slow
    assert repr(slow) == "<relation result = rows valid 15m where v < 15>"


def test_relations_of_relations_are_declared_once() -> None:
    slow = rows().where("v < 5").named("slow")
    both = slow.union(OTHER).named("both")
    last = rows().semijoin(both, on="x = v").minus(slow)
    assert last.declarations == (
        "relation other = rows select a as a\n"
        "relation both = rows where v < 5 union other\n"
        "relation slow = rows where v < 5\n"
        "relation result = rows semijoin both on x = v minus slow\n"
    )
    result = rows().minus(slow.named("result"))
    assert result.declarations.endswith("relation result_ = rows minus result\n")


def test_records_of_built_relations(tmp_path: Path) -> None:
    path = tmp_path / "limits.csv"
    path.write_text("road,from,to,max\na,0,100,50\na,100,,70\n")
    limits = table(str(path), "from", "to", key="road").named("limits")
    fast = rows().join(limits, on="road = limits_road").where("speed > max").select("speed")
    log = pa.table({"ts": [10, 150], "road": ["a", "a"], "speed": [60, 60]})
    assert mtlmon.query(fast, log).to_pylist() == [{"start": 10, "end": 11, "speed": 60}]
    assert mtlmon.query(limits).num_rows == 2
    recent = rows().valid("1m").group(n=count())
    found = mtlmon.query(recent, log, time_unit="s")
    assert found == mtlmon.query(f"relation r = {recent}", "r", log, time_unit="s")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: rows().where("x >"), "expected a value"),
        (lambda: rows().union(rows()), "name it with .named"),
        (lambda: rows().valid(), "valid takes either a length"),
        (lambda: rows().valid(5, until="p"), "valid takes either a length"),
        (lambda: rows().valid(5, per="a"), "per= says which records end"),
        (lambda: rows().select(), "expected a predicate"),
        (lambda: rows().group("a", n=avg("a, b")), "takes one argument, not 2"),
        (lambda: rows().union(OTHER).minus(rows().named("other")), "two relations are called"),
        (lambda: rows().named("rows"), "rows is a word of relations"),
        (lambda: Relation("rows union missing"), "there is no relation missing"),
    ],
)
def test_what_is_refused(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises((MtlmonError, FormulaError), match=message):
        build()
