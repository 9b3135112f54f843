"""The policies of this directory over one Parquet table, in Spark.

The example logs become the rows of a table, each log a key of its own; every policy is monitored on
its own log, and what violates it is shown.

    pip install 'mtlmon[spark-java]' && python examples/spark.py
"""

from __future__ import annotations

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

import mtlmon.spark

HERE = Path(__file__).resolve().parent
NAMES = ("approval", "deployment", "response")


def write_events(path: Path) -> None:
    """The lines of the logs as rows: the log, the time-stamp, the line's number, the events."""
    rows = []
    for name in NAMES:
        text = (HERE / f"{name}.log").read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines()):
            if line.startswith("@"):
                time_stamp, *events = shlex.split(line)
                rows.append(
                    {"log": name, "ts": int(time_stamp[1:]), "line": number, "events": events}
                )
    pq.write_table(pa.Table.from_pylist(rows), path)


def main() -> None:
    formulas = {name: (HERE / f"{name}.mtl").read_text(encoding="utf-8") for name in NAMES}
    policies = "\n".join(f"policy {name}:\n{formula}" for name, formula in formulas.items())
    spark = mtlmon.spark.session({"spark.master": "local[2]", "spark.ui.enabled": "false"})
    with TemporaryDirectory() as directory:
        path = Path(directory, "events.parquet")
        write_events(path)
        verdicts = mtlmon.spark.monitor(
            spark.read.parquet(str(path)),
            policies,
            key="log",
            event="events",
            order_within="line",
            end_time="last",
        )
        violations = verdicts.where("policy = log AND NOT verdict").orderBy("log", "time", "offset")
        for row in violations.collect():
            print(f"{row.policy}: {row.time}:{row.offset} is violated")


if __name__ == "__main__":
    main()
