"""Programs around the monitors that others publish on PyPI: a formula and a text log in, verdicts
out, one line per event. They read and write in the best way that Python offers without more
libraries, so that most of their time is the monitor's.

Both monitors count events instead of reading time-stamps. Logs must therefore have one event for
each time-stamp 0, 1, 2, ....
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_Letter = TypeVar("_Letter")

_BLOCK_LINES = 1 << 14


def read_letters(path: str, letter: Callable[[set[str]], _Letter]) -> Iterator[_Letter]:
    """What `letter` makes of the atoms of each line; called once for each set of them."""
    known: dict[str, _Letter] = {}
    count, stamp = 0, "@-1"
    with open(path, encoding="utf-8") as file:
        for count, line in enumerate(file, start=1):  # noqa: B007
            stamp, _, atoms = line.partition(" ")
            found = known.get(atoms)
            if found is None:
                found = known[atoms] = letter(set(atoms.split()))
            yield found
    if int(stamp[1:]) != count - 1:
        print(f"{path}: has not one event for each time-stamp from 0 on", file=sys.stderr)
        sys.exit(2)


def write_verdicts(verdicts: Iterable[bool]) -> None:
    """Write the verdict of each time-stamp, from 0 on."""
    lines: list[str] = []
    for time_stamp, verdict in enumerate(verdicts):
        lines.append(f"{time_stamp}:0 true\n" if verdict else f"{time_stamp}:0 false\n")
        if len(lines) == _BLOCK_LINES:
            sys.stdout.write("".join(lines))
            lines.clear()
    sys.stdout.write("".join(lines))
