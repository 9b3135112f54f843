"""reelay on a text log: `python -m bench.peers.reelay_monitor FORMULA LOG`.

Its discrete-time monitor with condensed output, the faster of the two that the Python package has,
takes one dictionary per event; the reader of JSON files, which is faster still, is not in the
package.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import reelay

from bench.peers import read_letters, write_verdicts
from bench.translate import to_reelay
from mtlmon import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mtlmon import Formula

    Record = dict[str, bool]


def updater(formula: Formula) -> Callable[[Record], dict[str, bool | int]]:
    """A fresh monitor: takes the value of every atom, returns the verdict when it changes."""
    monitor = reelay.discrete_timed_monitor(to_reelay(formula), condense=True)
    update: Callable[[Record], dict[str, bool | int]] = monitor.update
    return update


def record(formula: Formula) -> Callable[[set[str]], Record]:
    """Makes the dictionary of an event from the atoms that hold."""
    return lambda letter: {atom: atom in letter for atom in formula.atoms}


def _verdicts(changes: Iterable[dict[str, bool | int]]) -> Iterator[bool]:
    verdict = False
    for change in changes:
        if change:
            verdict = bool(change["value"])
        yield verdict


def main() -> None:
    formula, path = parse(sys.argv[1]), sys.argv[2]
    records = read_letters(path, record(formula))
    write_verdicts(_verdicts(map(updater(formula), records)))


if __name__ == "__main__":
    main()
