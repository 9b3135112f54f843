"""The measures that run whole commands on whole logs: which formulas, which logs."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from bench.compare import Case, Comparison
from bench.contenders import Mtlmon
from bench.families import BOUNDS, FAMILIES, FORMS
from bench.formulas import (
    DEPTHS,
    SIZE_ATOMS,
    SIZES,
    nested,
    of_size,
    operator_count,
    random_core,
    random_nested,
)
from bench.logs import Log, random_log
from bench.workloads import PAIR, WIDE_FORMULA, WORKLOADS, wide_atoms
from mtlmon.syntax import operators as ops

if TYPE_CHECKING:
    from bench.report import Result, Row
    from bench.settings import Settings

CONSTANTS = tuple(10**exponent for exponent in range(8))
WIDTHS = (100, 1000)
RANDOM_FORMULAS = 60
CORE_FORMULAS = 200
CORE_ATOMS = ("a", "b", "c")

# A line of a wide log has some ten bytes per atom; longer logs would fill the disk.
_WIDE_ATOMS_IN_ALL = 50_000_000
# By then dd is imported, if a nested formula needs it, and little of a log is left out.
_WARM_UP = 20_000

RESOLVED = Mtlmon("local", options=("--resolve",))


def throughput(settings: Settings) -> Result:
    """Every workload at every density and rate."""
    return _compared(settings, workload_cases(settings))


def families(settings: Settings) -> Result:
    """The families of Timescales: past and future form, three bounds, one event per time-stamp.

    The time per event is to be read, as the start is a good part of a run.
    """
    return _compared(settings, family_cases(settings))


def formulas(settings: Settings) -> Result:
    """Random nested formulas, the first events left out of the time per event."""
    return _compared(settings, random_cases(settings), warm_up=_WARM_UP)


def core(settings: Settings) -> Result:
    """Random formulas of the core operators, beside the first peer: quantiles of how much faster.

    The time of the processors counts. A run that is given up counts as one that took the limit.
    """
    log = random_log(CORE_ATOMS, "dense", 1, settings.events, settings.seed, alphabet="core")
    cases = [
        Case({"formula": text}, text, log) for text in random_core(CORE_FORMULAS, settings.seed)
    ]
    comparison = Comparison(settings.all_contenders(), settings.repeats, settings.limit)
    names = [who.name for who in settings.all_contenders()]
    seconds: dict[str, dict[str, float]] = {}
    for case in cases:
        taken = comparison.cpu_seconds(case)
        seconds[case.formula] = {name: taken.get(name, settings.limit) for name in names}
    found = sorted(
        (taken[names[1]] / taken[names[0]], text)
        for text, taken in seconds.items()
        if len(names) > 1
    )
    rows: list[Row] = [
        {
            "formulas": part,
            f"{names[1]} by {names[0]}": found[place][0],
            "s": seconds[found[place][1]][names[0]],
            "formula": found[place][1],
        }
        for part, place in (
            ("least", 0),
            ("a twentieth", len(found) // 20),
            ("a quarter", len(found) // 4),
            ("median", len(found) // 2),
            ("three quarters", 3 * len(found) // 4),
            ("most", -1),
        )
        if found
    ]
    slower = sum(ratio < 1 for ratio, _ in found)
    notes = [f"{slower} of {len(found)} formulas take longer than with the peer", *comparison.notes]
    return {"rows": rows, "notes": notes}


def size(settings: Settings) -> Result:
    """Formulas of 10 to 1000 operators: conjunctions of rules that look back, or ahead."""
    cases = []
    log = _pair_free_log(settings)
    for operator, operators in product((ops.ONCE, ops.EVENTUALLY), SIZES):
        formula = of_size(operators, operator)
        labels: Row = {"rules": operator.word, "operators": operator_count(formula)}
        cases.append(Case(labels, str(formula), log))
    return _compared(settings, cases)


def nesting(settings: Settings) -> Result:
    """1 to 8 future operators within each other.

    The time per event leaves out the first events, and so the import of dd.
    """
    return _compared(
        settings,
        [
            Case({"depth": depth, "rate": rate}, str(nested(depth)), _pair_log(settings, rate))
            for depth, rate in product(DEPTHS, settings.rates)
        ],
        warm_up=_WARM_UP,
    )


def wide(settings: Settings) -> Result:
    """Lines with 100 and 1000 atoms, of which the formula names 2."""
    cases = []
    for width, density in product(WIDTHS, settings.densities):
        events = min(settings.events, _WIDE_ATOMS_IN_ALL // width)
        log = random_log(
            wide_atoms(width), density, 1, events, settings.seed, alphabet=f"wide{width}"
        )
        labels: Row = {"atoms": width, "density": density, "events": events}
        cases.append(Case(labels, WIDE_FORMULA, log))
    return _compared(settings, cases)


def constants(settings: Settings) -> Result:
    """Bounds from 1 to 10^7, one event per time-stamp."""
    return _compared(settings, constant_cases(settings))


def constant_cases(settings: Settings) -> list[Case]:
    """CONSTANT_FORMULAS with each of CONSTANTS."""
    log = _pair_log(settings, rate=1)
    return [
        Case({"formula": text.format("c"), "c": c}, text.format(c), log)
        for text, c in product(CONSTANT_FORMULAS, CONSTANTS)
    ]


RESPONSE = "p IMPLIES EVENTUALLY[0,{0}] q"
CONSTANT_FORMULAS = (
    "EVENTUALLY[0,{0}] p",
    "p UNTIL[0,{0}] q",
    "p SINCE[0,{0}] q",
    RESPONSE,
    "ALWAYS[0,{0}] (p IMPLIES EVENTUALLY[0,{0}] q)",
)


def pipes(settings: Settings) -> Result:
    """`cat LOG | mtlmon ... | cat` against file to null device."""
    modes = [Mtlmon("local"), Mtlmon("local", piped=True)]
    comparison = Comparison([*modes], settings.repeats, settings.limit)
    return {"rows": comparison.rows(workload_cases(settings)), "notes": comparison.notes}


def outputs(settings: Settings) -> Result:
    """The default against `--resolve`, and `> FILE` against `-o FILE`."""
    with tempfile.TemporaryDirectory(prefix="mtlmon-bench-") as directory:
        file = Path(directory, "verdicts")
        redirected = Mtlmon("local", has_verdicts=False, redirected=file)
        written = Mtlmon("local", has_verdicts=False, options=("-o", str(file)))
        comparison = Comparison(
            [Mtlmon("local"), RESOLVED, redirected, written, *settings.peers],
            settings.repeats,
            settings.limit,
        )
        rows = comparison.rows(workload_cases(settings))
    return {"rows": rows, "notes": comparison.notes}


def workload_cases(settings: Settings) -> list[Case]:
    """The workloads at the shapes that they are defined for."""
    cases = []
    for name, density, rate in product(settings.workloads, settings.densities, settings.rates):
        if WORKLOADS[name].has_shape(density, rate):
            labels: Row = {"workload": name, "density": density, "rate": rate}
            log = workload_log(name, density, rate, settings)
            cases.append(Case(labels, WORKLOADS[name].formula, log))
    return cases


def workload_log(name: str, density: str, rate: int, settings: Settings) -> Log:
    """The log of a workload."""
    workload = WORKLOADS[name]
    return random_log(
        workload.atoms,
        density,
        rate,
        settings.events,
        settings.seed,
        alphabet=workload.alphabet,
        time_scale=workload.time_scale,
    )


def family_cases(settings: Settings) -> list[Case]:
    """The families, each form with each bound."""
    return [
        Case(
            {"family": name, "form": form, "bound": bound},
            family.formula(form, bound),
            family.log(bound, settings.events, settings.seed),
        )
        for (name, family), form, bound in product(FAMILIES.items(), FORMS, BOUNDS)
    ]


def random_cases(settings: Settings) -> list[Case]:
    """The random formulas, at each rate."""
    return [
        Case({"rate": rate, "formula": str(formula)}, str(formula), _pair_log(settings, rate))
        for rate, formula in product(settings.rates, random_nested(RANDOM_FORMULAS, settings.seed))
    ]


def _pair_log(settings: Settings, rate: int) -> Log:
    return random_log(PAIR, "dense", rate, settings.events, settings.seed)


def _pair_free_log(settings: Settings) -> Log:
    return random_log(SIZE_ATOMS, "sparse", 1, settings.events, settings.seed, alphabet="size")


def _compared(settings: Settings, cases: list[Case], warm_up: int = 0) -> Result:
    comparison = Comparison(
        settings.all_contenders(), settings.repeats, settings.limit, warm_up=warm_up
    )
    return {"rows": comparison.rows(cases), "notes": comparison.notes}
