"""Every option of every function of `mtlmon.spark` does something, or is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon.spark import (
    RowCounts,
    monitor,
    monitor_files,
    monitor_partitions,
    monitor_trace,
    plain_errors,
    query,
    relation_statistics,
    resolve_verdicts,
)
from tests.options import Examples, public_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

NO_OPTIONS = {
    "mtlmon.spark.RowCounts.reporter": "for the functions that count rows",
    "mtlmon.spark.session": "for Spark, and what session there is decides",
    "mtlmon.spark.monitor_stream": "a query runs for seconds: see the tests of streams",
}

EXAMPLES = Examples()

COLUMNS = "ts long, at long, day string, k string, what string, p boolean, n long"
ROWS: list[tuple[Any, ...]] = [
    (1, 60, "2024-01-01", "a", "p", True, 3),
    (1, 120, "2024-01-01", "a", "p|q", False, 2),
    (3, 180, "2024-01-02", "b", "p,q", True, 1),
    (9, 240, "2024-01-03", "b", "", False, 0),
]
BAD = [*ROWS, (None, 300, None, "b", "q", True, 0)]


class Place:
    """The session and the folder of the test that runs."""

    spark: SparkSession
    folder: Path


def frame(rows: list[tuple[Any, ...]] = ROWS, partitions: int = 1) -> DataFrame:
    return Place.spark.createDataFrame(rows, COLUMNS).coalesce(partitions)


def rows_of(found: Any) -> list[str]:
    rows = found.collect()
    return sorted(str(row.asDict() if hasattr(row, "asDict") else row) for row in rows)


def run(
    function: Callable[..., Any], policy: str, rows: list[tuple[Any, ...]] = ROWS
) -> Callable[..., object]:
    """A call of a function on rows."""

    def call(**options: Any) -> object:
        counts = options.get("counts")
        with plain_errors():
            if function is relation_statistics:
                return relation_statistics(frame(rows), policy, **options)
            events = frame(rows)
            given = events.rdd if function is monitor_partitions else events
            found = rows_of(function(given, policy, **options))
        return f"{found} {'' if counts is None else counts}"

    return call


OPEN = "policy x: p OR EVENTUALLY[0,9] n > 5"
NAMES = "policy x: p AND q"
VARIABLES = "atom e(k) = n > 0\npolicy x: FORALL u. e(u) IMPLIES NEXT e(u)"
EQUIVALENT = "policy x: EVENTUALLY[0,9] n > 5"

OF_EVENTS: dict[str, Any] = {
    "mtlmon.spark.monitor": monitor,
    "mtlmon.spark.monitor_trace": monitor_trace,
    "mtlmon.spark.monitor_partitions": monitor_partitions,
    "mtlmon.spark.relation_statistics": relation_statistics,
}
WITH_E = "atom e(k) = n > 0\npolicy x: FORALL u. e(u)"
FOUND = "atom e(k) = n > 0\nfind x: e(u)"
for _name, _function in OF_EVENTS.items():
    _has_values = _function is relation_statistics
    _simple = VARIABLES if _has_values else "policy x: p"
    _other = f"{WITH_E} IMPLIES other" if _has_values else "policy x: other"
    _named = f"{WITH_E} AND q IMPLIES q" if _has_values else NAMES
    # in a trace, the order of rows of one time must be known
    _order = {"order_within": "n"} if _function is monitor_trace else {}
    EXAMPLES.example(_name, run(_function, _simple), _order)(time="nothing")
    EXAMPLES.example(_name, run(_function, _simple), {**_order, "time_unit": "s"})(
        resolution="other" if _has_values else "m"
    )
    EXAMPLES.example(_name, run(_function, _simple), {**_order, "resolution": "m"})(
        time_unit="other" if _has_values else "s"
    )
    EXAMPLES.example(_name, run(_function, _other), _order)(atoms={"other": "n > 1"})
    EXAMPLES.example(_name, run(_function, _named), _order)(event="what")
    EXAMPLES.example(_name, run(_function, _named), {**_order, "event": "what"})(
        event_separator="-" if _has_values else ","
    )
    EXAMPLES.example(_name, run(_function, _simple, BAD), _order)(on_error="skip")
    if not _has_values:
        EXAMPLES.example(_name, run(_function, _simple, BAD), {**_order, "on_error": "skip"})(
            counts=RowCounts()
        )
        EXAMPLES.example(_name, run(_function, OPEN), _order)(end_time="inf", mode="other")
EXAMPLES.example("mtlmon.spark.relation_statistics", run(relation_statistics, VARIABLES))(slices=0)
EXAMPLES.example("mtlmon.spark.relation_statistics", run(relation_statistics, FOUND))(key="k")
for _function in (monitor, monitor_partitions):
    EXAMPLES.example(f"mtlmon.spark.{_function.__name__}", run(_function, EQUIVALENT))(
        resolve=False
    )
for _function in (monitor, monitor_trace):
    EXAMPLES.example(f"mtlmon.spark.{_function.__name__}", run(_function, "policy x: PREVIOUS p"))(
        order_within="n"
    )
EXAMPLES.example("mtlmon.spark.monitor_partitions", run(monitor_partitions, "policy x: p"))(
    time_zone="nowhere"
)
MONITOR = "mtlmon.spark.monitor"
EXAMPLES.example(MONITOR, run(monitor, "policy x: PREVIOUS p"))(
    key="k", ties="error", rows="n", keep="n"
)
EXAMPLES.example(MONITOR, run(monitor, VARIABLES))(slices=0, statistics="none")
EXAMPLES.example("mtlmon.spark.monitor_trace", run(monitor_trace, "policy x: p"))(ranges=0)
EXAMPLES.example("mtlmon.spark.query", lambda **o: asked("relation", **o))(relation="r")
EXAMPLES.example("mtlmon.spark.query", lambda **o: asked("r", **o))(time="at")
EXAMPLES.example("mtlmon.spark.query", lambda **o: asked("r", **o), {"time_unit": "s"})(
    resolution="m"
)
EXAMPLES.example("mtlmon.spark.query", lambda **o: asked("r", **o), {"resolution": "m"})(
    time_unit="s"
)
RELATION = "relation r = rows valid 1 select n as n"


def asked(name: str, **options: Any) -> list[str]:
    options.setdefault("relation", name)
    with plain_errors():
        return rows_of(query(frame(), RELATION, **options))


def resolved(**options: Any) -> list[str]:
    policy = "policy x: p OR EVENTUALLY[0,9] n > 5"
    verdicts = monitor(frame(), policy, key="k", resolve=False, end_time="inf", order_within="n")
    return rows_of(resolve_verdicts(verdicts, **options))


EXAMPLES.example("mtlmon.spark.resolve_verdicts", resolved)(key="k")


def of_files(policy: str, name: str, text: str) -> Callable[..., object]:
    def call(**options: Any) -> object:
        path = Place.folder / name
        path.write_text(text)
        with plain_errors():
            found = rows_of(monitor_files(Place.spark, str(path), policy, **options))
        return [re.sub(r"'file': '[^']*/", "'file': '", one) for one in found]

    return call


FILES = "mtlmon.spark.monitor_files"
CSV = "ts,at,p\n1,5,true\n1,6,false\n"
EXAMPLES.example(FILES, of_files("p", "log.data", CSV))(format="csv")
EXAMPLES.example(FILES, of_files("p", "log.csv", CSV))(options={"time": "at"})
EXAMPLES.example(FILES, of_files("EVENTUALLY[0,9] q", "log", "@1\n@1\n@2\n"))(
    end_time="inf", mode="other"
)
EXAMPLES.example(FILES, of_files("EVENTUALLY[0,9] q", "log", "@1\n@1\n@2 q\n"))(resolve=False)


# ---- the test ------------------------------------------------------------------------------------

PUBLIC = public_options(["mtlmon.spark"], {}, NO_OPTIONS)
WITHOUT: dict[tuple[int, str], str] = {}


def test_counts_show_themselves() -> None:
    assert repr(RowCounts()) == "RowCounts(ties=0, skipped=0)"


@pytest.mark.parametrize(("function", "option"), PUBLIC, ids=[".".join(one) for one in PUBLIC])
def test_an_option_is_obeyed_or_refused(
    function: str, option: str, spark: SparkSession, tmp_path: Path
) -> None:
    found = EXAMPLES.find(function, option)
    Place.spark, Place.folder = spark, tmp_path
    known = id(found.call), str(found.others)
    if known not in WITHOUT:
        WITHOUT[known] = found.outcome(with_option=False)
    without = WITHOUT[known]
    assert found.outcome(with_option=True) != without, f"{option} changes nothing:\n{without}"
