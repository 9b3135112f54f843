"""`python -m bench`: measure whole commands."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import catalogue, document
from bench.commands import BenchmarkError
from bench.contenders import CONTENDERS, binary
from bench.report import machine_facts, table
from bench.workloads import DENSITIES, WORKLOADS

if TYPE_CHECKING:
    from bench.report import Record
    from bench.settings import Settings

_EXAMPLES = """\
examples:
  python -m bench                                  throughput, every workload
  python -m bench --workloads f1,f3 --rates 1000   two workloads, one event rate
  python -m bench --contenders local,global --events 1e6 --repeats 3
  python -m bench --peer aerial='aerial -fmla {formula} -log {log}' --workloads f1,f3
  python -m bench families --contenders local,reelay,rtamt --events 1e5
  python -m bench piles --match alternation --rates 1,30
  python -m bench memory --record                  and keep table and plot in docs/
  python -m bench targets                          what was aimed at, and what is reached

A peer reads the files of formulas and logs that mtlmon reads, and writes verdicts as mtlmon does:
`5:0 true`, `5:1 = 5:0`. Verdicts are compared before anything is timed.

Logs are made once and kept in $MTLMON_BENCH_CACHE (~/.cache/mtlmon-bench).
"""


def _names(known: tuple[str, ...], text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
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


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


def _measures() -> str:
    lines = [f"  {name:14} {entry.summary}" for name, entry in catalogue.MEASURES.items()]
    return "\n".join(["measures:", *lines, "", _EXAMPLES])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure the mtlmon command, output to the null device.",
        epilog=_measures(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    known_measures = [*catalogue.MEASURES, "document"]
    add("measure", nargs="?", default="throughput", choices=known_measures, metavar="MEASURE",
        help="default throughput; document: write tables and plots in docs/ anew")  # fmt: skip
    for option, known in [
        ("--workloads", tuple(WORKLOADS)),
        ("--contenders", CONTENDERS),
        ("--densities", tuple(DENSITIES)),
    ]:
        add(option, type=partial(_names, known), metavar="A,B", help=f"of {', '.join(known)}")
    add("--rates", type=_counts, metavar="R,S", help="events per time-stamp")
    add("--events", type=_count, metavar="N", help="events per log, 1e6 understood")
    add("--repeats", type=_count, metavar="N", help="runs of each command")
    add("--seed", type=int, metavar="N", help="of random logs and formulas")
    add("--limit", type=_count, metavar="SECONDS", help="give a run up after that")
    add("--match", metavar="WORDS", help="only the piles or targets whose name contains WORDS")
    add("--peer", dest="peers", type=binary, action="append", metavar="NAME=COMMAND",
        help="another monitor; {formula} and {log} in COMMAND stand for files")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="also write settings, machine and rows there")
    add("--record", action="store_true", help="keep the result, its table and plot in docs/")
    return parser


def _settings(arguments: argparse.Namespace) -> Settings:
    given = {
        field.name: getattr(arguments, field.name)
        for field in fields(catalogue.MEASURES[arguments.measure].defaults)
        if getattr(arguments, field.name) is not None
    }
    if "peers" in given:
        given["peers"] = tuple(given["peers"])
    return replace(catalogue.MEASURES[arguments.measure].defaults, **given)


def _measure(arguments: argparse.Namespace) -> Record:
    settings = _settings(arguments)
    machine = machine_facts()
    result = catalogue.MEASURES[arguments.measure].function(settings)
    shown = {**asdict(settings), "peers": [f"{p.name}={p.template}" for p in settings.peers]}
    return {
        "measure": arguments.measure,
        "command": shlex.join(["python", "-m", "bench", *sys.argv[1:]]),
        "machine": machine,
        "settings": shown,
        **result,
    }


def main() -> int:
    arguments = _parser().parse_args()
    try:
        if arguments.measure == "document":
            document.write()
            return 0
        record = _measure(arguments)
    except BenchmarkError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if not record["rows"]:
        print("\n".join(record["notes"]), file=sys.stderr)
        print("bench: nothing is defined for these settings", file=sys.stderr)
        return 2
    print(", ".join(f"{name} {value}" for name, value in record["machine"].items()))
    print(table(record["rows"]))
    for note in dict.fromkeys(record["notes"]):
        print(f"note: {note}")
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    if arguments.record:
        document.keep(record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
