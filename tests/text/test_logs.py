"""Text logs through the command, against a monitor that is fed with the same events."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mtlmon import Monitor
from tests.cli.process import mtlmon

FORMULAS = (
    "p IMPLIES EVENTUALLY[0,5] q",
    "ONCE[1,4] (p AND NOT q)",
    "(NOT q) UNTIL[0,6] r",
    "p SINCE[0,9] (PREVIOUS r)",
    "NEXT[0,2] p",
)
NAMES = ("p", "q", "r", "other_name", "x.y", "Z9")

Events = list[tuple[int, list[str]]]


def random_events(source: random.Random, count: int) -> Events:
    events, clock = [], source.choice([0, 7, 10**9])
    for _ in range(count):
        clock += source.choice([0, 0, 1, 1, 2, 30])
        events.append((clock, [name for name in NAMES if source.random() < 0.3]))
    return events


def written(events: Events, source: random.Random) -> str:
    """The events as lines, with all that may stand between."""
    lines = []
    for time_stamp, names in events:
        source.shuffle(names)
        blanks = source.choice([" ", " ", "  ", "\t"])
        lines.append(blanks.join([f"@{time_stamp}", *names]) + source.choice(["", "", " "]))
        if source.random() < 0.1:
            lines.append(source.choice(["", "# a remark", "   "]))
    return "\n".join(lines) + source.choice(["", "\n"])


def lines_of(formula: str, events: Events) -> list[str]:
    monitor = Monitor(formula)
    return [
        str(verdict) for time_stamp, names in events for verdict in monitor.step(time_stamp, names)
    ]


@pytest.mark.parametrize("formula", FORMULAS)
def test_lines_are_events(formula: str, tmp_path: Path) -> None:
    source = random.Random(formula)
    for number, count in enumerate([0, 1, 50, 5_000]):
        events = random_events(source, count)
        log = written(events, source)
        path = tmp_path / f"{number}.log"
        path.write_text(log)
        from_pipe = mtlmon("-e", formula, log=log)
        from_file = mtlmon("-e", formula, str(path))
        assert from_pipe == from_file
        assert from_pipe.errors == "" or count < 50
        assert from_pipe.output.splitlines() == lines_of(formula, events)
