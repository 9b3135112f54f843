"""Compares our verdicts with those of MonPoly on a directory of cases.

    python -m tests.monpoly_cases [--reference] DIRECTORY [PART OF AN ID ...]

The directory has `cases.jsonl.gz`, with the signature, formula, log and output of each case, and
`refused.jsonl.gz`, with formulas that MonPoly refuses. Cases with features that are not supported
must be refused with an error. With `--reference`, the reference is compared in place of the engine.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mtlmon.errors import MtlmonError
from mtlmon.monpoly import (
    LogReader,
    MonPolyMonitor,
    MonPolyPolicy,
    TimePoint,
    read_policy,
    read_signature,
)
from mtlmon.relational import analyse
from tests.monpoly.oracle import expected_output

UNSUPPORTED = {"records", "regex", "letpast", "unbounded_future"}
SLOW = 5.0


def cases(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def read_case(case: dict[str, Any]) -> tuple[MonPolyPolicy, list[TimePoint]]:
    """The formula and the log of a case.

    Raises:
        MtlmonError: the formula or the log is invalid, or the formula cannot be evaluated.
    """
    signature = read_signature(case["signature"])
    policy = read_policy(case["formula"], signature, case["id"], negate=case["negate"])
    errors = analyse(policy.file).errors
    if errors:
        raise errors[0]
    reader = LogReader(signature, policy.relations, case["id"])
    return policy, [*reader.feed(case["log"].encode()), *reader.finish()]


def engine_output(policy: MonPolyPolicy, points: list[TimePoint]) -> str:
    """What the engine makes of a log."""
    monitor = MonPolyMonitor(policy)
    return "".join([*map(monitor.step, points), monitor.finish()])


def main(arguments: list[str]) -> int:
    is_reference = arguments[:1] == ["--reference"]
    output = expected_output if is_reference else engine_output
    directory, *parts = arguments[is_reference:]
    differing = agreeing = refused = 0
    for case in cases(Path(directory) / "cases.jsonl.gz"):
        name = case["id"]
        if parts and not any(part in name for part in parts):
            continue
        begun = time.perf_counter()
        is_supported = not UNSUPPORTED & set(case["features"])
        try:
            policy, points = read_case(case)
            found = output(policy, points)
        except MtlmonError as error:
            if is_supported:
                differing += 1
                print(f"{name}: refused: {error}")
            else:
                refused += 1
            continue
        seconds = time.perf_counter() - begun
        if seconds > SLOW:
            print(f"{name}: {seconds:.1f} s")
        if found == case["output"]:
            agreeing += 1
        else:
            differing += 1
            print(f"{name}: {case['formula'].strip()}")
            for ours, theirs in zip(
                [*found.splitlines(), ""], [*case["output"].splitlines(), ""], strict=False
            ):
                if ours != theirs:
                    print(f"  here    {ours[:200]}\n  MonPoly {theirs[:200]}")
                    break
    print(f"{agreeing} cases agree, {differing} do not, {refused} are of what is not supported")
    for case in cases(Path(directory) / "refused.jsonl.gz"):
        try:
            read_case({**case, "id": "refused", "log": ""})
        except MtlmonError:
            continue
        if case["reason"] != "not monitorable":
            differing += 1
            print(f"accepted, but MonPoly says {case['reason']}: {case['formula'].strip()}")
    return min(differing, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
