"""rtamt on a text log: `python -m bench.peers.rtamt_monitor FORMULA LOG`.

Its offline discrete-time monitor takes a whole log as lists of numbers and returns a robustness
for each event; it is faster than the online one, and the C++ one is not in the package. An atom is
the signal 1 where it holds, else -1. At the end of the log rtamt takes what is open for false (in
an ALWAYS for true): its last verdicts are about the log, not about what may follow.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from bench.peers import read_letters, write_verdicts
from bench.translate import rtamt_signal, to_rtamt
from mtlmon import parse

with warnings.catch_warnings():
    # Its parser's runtime warns of the Python it runs on.
    warnings.simplefilter("ignore")
    import rtamt

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon import Formula

    Signals = dict[str, list[float] | range]


def evaluator(formula: Formula) -> Callable[[Signals], list[list[float]]]:
    """A fresh monitor: takes signals and `time`, returns pairs of time-stamp and robustness."""
    specification = rtamt.StlDiscreteTimeOfflineSpecification()
    for atom in formula.atoms:
        specification.declare_var(rtamt_signal(atom), "float")
    specification.spec = to_rtamt(formula)
    specification.parse()
    evaluate: Callable[[Signals], list[list[float]]] = specification.evaluate
    return evaluate


def signals(formula: Formula, letters: list[set[str]]) -> Signals:
    """The atoms of the events as signals."""
    values: Signals = {
        rtamt_signal(atom): [1.0 if atom in letter else -1.0 for letter in letters]
        for atom in formula.atoms
    }
    values["time"] = range(len(letters))
    return values


def main() -> None:
    formula, path = parse(sys.argv[1]), sys.argv[2]
    letters = list(read_letters(path, lambda letter: letter))
    evaluate = evaluator(formula)
    # It fails on a log without events.
    if letters:
        write_verdicts(value > 0 for _, value in evaluate(signals(formula, letters)))


if __name__ == "__main__":
    main()
