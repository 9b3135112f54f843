"""`python -m bench`: measure whole commands."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from bench import measures
from bench.commands import CEILING, CONTENDERS, MODES, BenchmarkError
from bench.measures import Settings
from bench.report import machine_facts, table
from bench.workloads import DENSITIES, WORKLOADS

_EXAMPLES = """\
examples:
  python -m bench                                  throughput, every workload
  python -m bench --workloads f1,f3 --rates 1000   two workloads, one event rate
  python -m bench --contenders local,global --events 1e6 --repeats 3
  python -m bench memory                           peak memory by event rate and mode
  python -m bench first-verdict                    start of the command to its first verdict

Logs are made once and kept in $MTLMON_BENCH_CACHE (~/.cache/mtlmon-bench).
"""

_MEASURES = {
    "throughput": measures.throughput,
    "memory": measures.memory,
    "first-verdict": measures.first_verdict,
}

_THROUGHPUT = Settings(
    workloads=list(WORKLOADS),
    contenders=["local", CEILING],
    densities=list(DENSITIES),
    rates=[1, 1000],
    events=10_000_000,
    repeats=5,
    seed=1,
)
_DEFAULTS = {
    "throughput": _THROUGHPUT,
    "memory": replace(
        _THROUGHPUT,
        workloads=["f1", "f2", "f3"],
        contenders=list(MODES),
        rates=[100, 1000, 10_000, 100_000],
        events=5_000_000,
        repeats=1,
    ),
    "first-verdict": replace(_THROUGHPUT, contenders=["local"], repeats=20),
}


def _names(known: tuple[str, ...], text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
    return names


def _count(text: str) -> int:
    try:
        count = int(float(text))
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return count


def _counts(text: str) -> list[int]:
    return [_count(part) for part in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure the mtlmon command on random logs, output to the null device.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("measure", nargs="?", default="throughput", choices=_MEASURES, help="default throughput")
    for option, known in [
        ("--workloads", tuple(WORKLOADS)),
        ("--contenders", CONTENDERS),
        ("--densities", DENSITIES),
    ]:
        add(option, type=partial(_names, known), metavar="A,B", help=f"of {', '.join(known)}")
    add("--rates", type=_counts, metavar="R,S", help="events per time-stamp")
    add("--events", type=_count, metavar="N", help="events per log, 1e6 understood")
    add("--repeats", type=_count, metavar="N", help="runs of each command")
    add("--seed", type=int, metavar="N", help="of the random logs")
    add("--json", type=Path, metavar="FILE", help="also write settings, machine and rows there")
    return parser


def main() -> int:
    arguments = _parser().parse_args()
    defaults = _DEFAULTS[arguments.measure]
    settings = Settings(
        **{
            name: default if getattr(arguments, name) is None else getattr(arguments, name)
            for name, default in asdict(defaults).items()
        }
    )
    machine = machine_facts()
    try:
        rows = _MEASURES[arguments.measure](settings)
    except BenchmarkError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if not rows:
        print("bench: no workload is defined for these densities and rates", file=sys.stderr)
        return 2
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    print(table(rows))
    if arguments.json:
        record = {
            "measure": arguments.measure,
            "machine": machine,
            "settings": asdict(settings),
            "rows": rows,
        }
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
