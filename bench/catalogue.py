"""All measures with their defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench import measures
from bench.beside import RATES as BESIDE_RATES
from bench.beside import beside
from bench.clocks import clocks
from bench.contenders import CEILING, MODES
from bench.corrections import corrections
from bench.first_verdict import first_verdict
from bench.keyed import keyed
from bench.late import late
from bench.late_windows import late_windows
from bench.length import length
from bench.library import library
from bench.memory import memory
from bench.piles import RATES, piles
from bench.policies import policies
from bench.relational import relational
from bench.relations import relations
from bench.settings import Settings
from bench.slice_commands import slice_commands
from bench.slices import slices
from bench.spark import (
    spark,
    spark_memory,
    spark_relations,
    spark_slices,
    spark_steps,
    spark_stream,
    spark_trace,
)
from bench.stream_commands import stream_command, stream_rates
from bench.streams import streams
from bench.tables import tables
from bench.targets import targets
from bench.workloads import DENSITIES, PLAIN_DENSITIES, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.report import Result


@dataclass(frozen=True)
class Measure:
    """A measure by name, for the command line.

    Attributes:
        summary: a line of the help.
        defaults: the settings where the command line says nothing.
    """

    function: Callable[[Settings], Result]
    summary: str
    defaults: Settings


_THROUGHPUT = Settings(
    workloads=tuple(WORKLOADS),
    contenders=("local", CEILING),
    densities=tuple(DENSITIES),
    rates=(1, 10, 1000, 100_000),
    events=10_000_000,
    repeats=5,
    seed=1,
    limit=600,
)
_F_FORMULAS = ("f0", "f1", "f2", "f3", "f4a", "f4b", "f5")
_SMALLER = replace(_THROUGHPUT, events=2_000_000, repeats=3)

MEASURES = {
    "throughput": Measure(measures.throughput, "workloads by density and event rate", _THROUGHPUT),
    "rates": Measure(
        measures.throughput,
        "time per event against the event rate",
        replace(
            _THROUGHPUT,
            workloads=("f0", "f1", "f2", "f3", "f4b", "f5"),
            densities=("dense",),
            rates=(1, 10, 100, 1000, 10_000, 100_000),
        ),
    ),
    "constants": Measure(
        measures.constants, "time per event against the constants, 1 to 10^7", _SMALLER
    ),
    "beside": Measure(
        beside,
        "flat formulas, irregular clocks and deep nests, beside a monitor given as a peer",
        replace(
            _SMALLER,
            workloads=(*_F_FORMULAS, "n1"),
            contenders=("local",),
            rates=BESIDE_RATES,
            events=1_000_000,
            repeats=5,
            limit=60,
        ),
    ),
    "size": Measure(measures.size, "time per event against the formula's size", _SMALLER),
    "nesting": Measure(
        measures.nesting,
        "time per event against nested future operators",
        replace(_SMALLER, rates=(1, 1000)),
    ),
    "families": Measure(
        measures.families,
        "the property families of Timescales",
        replace(_THROUGHPUT, contenders=("local", CEILING, "reelay"), repeats=3),
    ),
    "clocks": Measure(
        clocks,
        "regular and irregular gaps of time, and the engine's share of the time",
        replace(
            _SMALLER,
            workloads=(*_F_FORMULAS, "n1"),
            contenders=("local",),
            densities=("dense",),
            rates=(1, 30),
            limit=10,
        ),
    ),
    "piles": Measure(
        piles,
        "formulas for which undecided time-points pile up",
        replace(_SMALLER, contenders=("local",), rates=RATES, limit=10),
    ),
    "formulas": Measure(
        measures.formulas,
        "60 random nested formulas",
        replace(_SMALLER, contenders=("local",), rates=(1, 10, 30, 1000), limit=10),
    ),
    "core": Measure(
        measures.core,
        "200 random formulas of the core operators, beside a monitor given as a peer",
        replace(_SMALLER, contenders=("local",), rates=(1,), events=1_000_000, repeats=1, limit=60),
    ),
    "wide": Measure(
        measures.wide,
        "lines of 100 and 1000 atoms",
        replace(_THROUGHPUT, densities=PLAIN_DENSITIES),
    ),
    "pipes": Measure(
        measures.pipes,
        "through two pipes against file to null device",
        replace(_THROUGHPUT, workloads=("f1", "f3"), rates=(1, 1000)),
    ),
    "outputs": Measure(
        measures.outputs,
        "--resolve against the default, -o FILE against > FILE",
        replace(
            _THROUGHPUT,
            workloads=_F_FORMULAS,
            densities=PLAIN_DENSITIES,
            rates=(1, 1000),
            events=5_000_000,
        ),
    ),
    "policies": Measure(
        policies,
        "1 to 1,000 policies on one text log, of which few concern an event",
        replace(_SMALLER, events=1_000_000),
    ),
    "keyed": Measure(
        keyed,
        "a table of 1,000 keys with irregular times, and a rule with a long window",
        replace(_THROUGHPUT, events=5_000_000),
    ),
    "memory": Measure(
        memory,
        "peak memory against the event rate, by mode",
        replace(
            _THROUGHPUT,
            contenders=MODES,
            rates=(100, 1000, 10_000, 100_000),
            repeats=10,
        ),
    ),
    "length": Measure(
        length,
        "memory and speed over a long log",
        replace(_THROUGHPUT, events=100_000_000, repeats=3),
    ),
    "streams": Measure(
        streams,
        "windows per key, beside Polars and DuckDB",
        replace(_THROUGHPUT, events=10_000_000, repeats=3),
    ),
    "stream-command": Measure(
        stream_command,
        "windows, a threshold and MTL on top, from Parquet to a table of verdicts",
        replace(_THROUGHPUT, events=10_000_000, repeats=5),
    ),
    "stream-rates": Measure(
        stream_rates,
        "peak memory of streams of a fixed rate against the rate of rows",
        replace(_THROUGHPUT, events=4_000_000, rates=(1000, 10_000, 100_000, 1_000_000), repeats=3),
    ),
    "relations": Measure(
        relations,
        "relations over validity intervals: groups, joins and look-ups, beside DuckDB",
        replace(_THROUGHPUT, events=2_000_000, repeats=3),
    ),
    "relational": Measure(
        relational,
        "policies with variables: joins over windows, beside MonPoly given as a peer",
        replace(_THROUGHPUT, events=300_000, repeats=3),
    ),
    "slices": Measure(
        slices,
        "policies with variables in slices: processor time of each part, and the fullest slice",
        replace(_THROUGHPUT, events=300_000, repeats=3),
    ),
    "slice-commands": Measure(
        slice_commands,
        "policies with variables: whole commands with one slice and with two, by the clock",
        replace(_THROUGHPUT, events=6_000_000, repeats=3),
    ),
    "first-verdict": Measure(
        first_verdict,
        "from the start to the first verdict, and to the end of an empty log",
        replace(_THROUGHPUT, workloads=("f0", "f1", "f3", "n1"), contenders=("local",), repeats=20),
    ),
    "library": Measure(
        library,
        "Monitor.step and Monitor.feed, and what peers offer",
        replace(
            _THROUGHPUT,
            workloads=("f1", "f2", "f3", "f4a", "f4b", "f5"),
            densities=PLAIN_DENSITIES,
            rates=(1, 1000),
            events=1_000_000,
        ),
    ),
    "tables": Measure(
        tables,
        "policies on CSV, JSON lines and Parquet, with keys, 20 at a time",
        replace(_THROUGHPUT, events=5_000_000),
    ),
    "late": Measure(
        late,
        "rows that come late: --wait 5s beside the sorted log, by how many and how late",
        replace(_SMALLER, repeats=3),
    ),
    "late-windows": Measure(
        late_windows,
        "windows over late rows: --lateness 5m beside the rows in order, by keys and how they come",
        replace(_SMALLER, events=1_000_000, repeats=3),
    ),
    "corrections": Measure(
        corrections,
        "histories that correct verdicts, beside monitors of the sorted log, by how much is late",
        replace(_THROUGHPUT, events=1_000_000, repeats=3),
    ),
    "spark": Measure(
        spark,
        "Spark: the monitor against a pass-through function",
        replace(_THROUGHPUT, workloads=("f1", "f3"), events=4_000_000, repeats=5),
    ),
    "spark-memory": Measure(
        spark_memory,
        "Spark: memory of a Python worker against rows in one key",
        replace(_THROUGHPUT, workloads=("f3",), repeats=3),
    ),
    "spark-relations": Measure(
        spark_relations,
        "Spark: policies with variables in slices, against a pass-through function",
        replace(_THROUGHPUT, workloads=("star", "linear", "triangle"), events=4_000_000, repeats=5),
    ),
    "spark-slices": Measure(
        spark_slices,
        "Spark: what a batch writes to the states of slices, by the rows in a window",
        replace(_THROUGHPUT, repeats=5),
    ),
    "spark-steps": Measure(
        spark_steps,
        "Spark: seconds a million rows for reading, sorting, Python and the monitor",
        replace(_THROUGHPUT, workloads=("f3",), events=4_000_000, repeats=3),
    ),
    "spark-stream": Measure(
        spark_stream,
        "Spark: a streaming query, by keys and buckets, against a pass-through function",
        replace(_THROUGHPUT, workloads=("f3",), repeats=3),
    ),
    "spark-trace": Measure(
        spark_trace,
        "Spark: one trace in one task, and cut into ranges",
        replace(_THROUGHPUT, events=4_000_000, repeats=3),
    ),
    "targets": Measure(
        targets,
        "every figure aimed at, and whether it is reached (an hour)",
        replace(_THROUGHPUT, repeats=3),
    ),
}
