"""One Spark, one workload: `python -m bench.spark_runs JSON`, a line of JSON as answer.

The events are made by Spark, so that nothing is read from a disk: each atom holds at half of the
rows, a thousand rows share a time-stamp unless it is said how many.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import mtlmon.spark
from bench.processes import descendants
from bench.relational import CASES
from mtlmon.policy import parse_policies
from mtlmon.spark.batch.frames import sorted_rows
from mtlmon.spark.batch.relations import prepared_relations, rows_of_slices
from mtlmon.spark.common.events import event_source
from mtlmon.spark.common.ordering import orders_of
from mtlmon.spark.common.policies import compile_policies
from mtlmon.spark.common.row_counts import reporter_of
from mtlmon.spark.common.slice_monitors import SliceSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

_RATE = 1000
_PAIR_RATE = 10_000
# Few rows of a time-stamp have the same device, and of those that do equal ones may change places.
_ORDER = ("device", "p", "q")


def pass_through(batches: Iterator[Any]) -> Iterator[Any]:
    """What stands in place of the monitor."""
    return batches


def main() -> None:
    asked = json.loads(sys.argv[1])
    spark = mtlmon.spark.session(
        {
            "spark.master": asked["master"],
            "spark.driver.memory": "4g",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "4",
        }
    )
    spark.sparkContext.setLogLevel("ERROR")
    if "case" in asked:
        plans = _relation_plans(_pairs(spark, asked["rows"]), asked["case"], asked["slices"])
    else:
        plans = _plans_of(spark, asked)
    found: dict[str, Any] = {}
    if asked["repeats"]:
        seconds: dict[str, list[float]] = {name: [] for name in plans}
        for turn in range(asked["repeats"] + 1):
            for name, plan in plans.items():
                taken = _seconds(plan())
                # the first time, Java compiles
                if turn:
                    seconds[name].append(taken)
        found["seconds"] = seconds
        if "steps" in asked:
            found["shuffled"] = _shuffled_by(spark, plans["monitored"]())
    else:
        _seconds(plans["monitor"]())
        found["peak"] = _peak_of_workers()
    print(json.dumps(found))


def _plans_of(spark: SparkSession, asked: dict[str, Any]) -> dict[str, Callable[[], DataFrame]]:
    """The plans for a policy without variables."""
    events = _events(spark, asked["rows"], asked["keys"], asked.get("rate", _RATE))
    if "steps" in asked:
        return _steps(events, asked["formula"])
    if "ranges" in asked:
        return _trace_plans(events, asked["formula"], asked["ranges"])
    return _plans(events, asked["formula"])


def _events(spark: SparkSession, rows: int, keys: int, rate: int) -> DataFrame:
    from pyspark.sql import functions as F

    number = F.col("id")
    return spark.range(rows).select(
        (number / rate).cast("bigint").alias("ts"),
        F.concat(F.lit("device "), F.pmod(F.hash(number), F.lit(keys))).alias("device"),
        (F.pmod(F.xxhash64(number), F.lit(2)) == 0).alias("p"),
        (F.pmod(F.xxhash64(number + 1), F.lit(2)) == 0).alias("q"),
    )


def _plans(events: DataFrame, formula: str) -> dict[str, Callable[[], DataFrame]]:
    """The same rows in the same order, to other functions."""
    source = event_source(compile_policies(formula, "local"), time="ts", keys=("device",))
    ordered = sorted_rows(events, source, orders_of(events, None, source), with_places=True)
    monitored = partial(mtlmon.spark.monitor, events, formula, key="device")
    return {
        "pass": lambda: ordered.mapInArrow(pass_through, ordered.schema),
        "monitor": monitored,
        "equivalences": lambda: monitored(resolve=False),
    }


def _pairs(spark: SparkSession, rows: int) -> DataFrame:
    """Pairs of integers in three relations, the first of them rare, as in `bench relational`."""
    from pyspark.sql import functions as F

    number = F.col("id")

    def drawn(salt: int, limit: int) -> Column:
        return F.pmod(F.xxhash64(number, F.lit(salt)), F.lit(limit))

    kind = drawn(1, 200)
    return spark.range(rows).select(
        (number / _PAIR_RATE).cast("bigint").alias("ts"),
        F.when(kind < 2, "A").when(kind < 101, "B").otherwise("C").alias("what"),
        drawn(2, 10**9).alias("x"),
        drawn(3, 10**9).alias("y"),
    )


def _relation_plans(pairs: DataFrame, name: str, slices: int) -> dict[str, Callable[[], DataFrame]]:
    """A policy with variables in slices, and the same rows in the same slices passed through."""
    atoms = [f'atom {atom}(first = x, second = y) = what = "{atom}"' for atom in "ABC"]
    text = "\n".join(["unit s", *atoms, f"find found: {CASES[name].formula}"])
    statistics = mtlmon.spark.relation_statistics(pairs, text, slices=slices, time="ts")
    source, rows = prepared_relations(
        pairs,
        parse_policies(text),
        time="ts",
        atoms=None,
        event=None,
        event_separator="|",
        time_unit=None,
        resolution=None,
        on_error="stop",
        function="monitor",
    )
    sliced = SliceSource(source, slices, statistics)
    ordered = rows_of_slices(rows, sliced, reporter_of(pairs.sparkSession, None))
    monitored = partial(mtlmon.spark.monitor, pairs, text, time="ts", slices=slices)
    return {
        "pass": lambda: ordered.mapInArrow(pass_through, ordered.schema),
        "monitor": partial(monitored, statistics=statistics),
    }


def _steps(events: DataFrame, formula: str) -> dict[str, Callable[[], DataFrame]]:
    """More and more of what a monitor needs; each has the steps before it."""
    source = event_source(compile_policies(formula, "local"), time="ts", keys=("device",))
    ordered = sorted_rows(events, source, orders_of(events, None, source), with_places=True)
    return {
        "rows": lambda: events,
        "by key, sorted": lambda: ordered,
        "to Python and back": lambda: ordered.mapInArrow(pass_through, ordered.schema),
        "monitored": partial(mtlmon.spark.monitor, events, formula, key="device", resolve=False),
    }


def _trace_plans(
    events: DataFrame, formula: str, ranges: int
) -> dict[str, Callable[[], DataFrame]]:
    """All rows as one trace: in one task, and cut into ranges."""
    cut = partial(mtlmon.spark.monitor_trace, events, formula, order_within=_ORDER)
    return {
        "one task": partial(mtlmon.spark.monitor, events, formula, order_within=_ORDER),
        "ranges": partial(cut, ranges=ranges),
    }


def _seconds(plan: DataFrame) -> float:
    start = time.perf_counter()
    plan.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def _shuffled_by(spark: SparkSession, plan: DataFrame) -> int:
    """How many bytes a plan writes for other tasks to read."""
    before = _shuffled(spark)
    _seconds(plan)
    return _shuffled(spark) - before


def _shuffled(spark: SparkSession) -> int:
    # pyspark has no name for this
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    return int(store.executorSummary("driver").totalShuffleWrite())


def _peak_of_workers() -> int:
    """The most memory that one of the Python workers of this process's Spark had, in bytes."""
    peaks = []
    for process in descendants():
        try:
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                status = (process / "status").read_text()
                line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
                peaks.append(int(line.split()[1]) * 1024)
        except OSError:
            # it has ended meanwhile
            continue
    return max(peaks)


if __name__ == "__main__":
    main()
