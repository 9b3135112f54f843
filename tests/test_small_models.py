"""All small formulas on all short traces, in all modes, compared with the references.

Pairs of formula and trace, each run in three modes (families in `tests.small_models`):

level 1 (default)   all 15 operators over p, q, true, false in 6 intervals on traces of 3 or 4
                    events, two nested operators on traces of 3, and three
                    whose intervals are missed:                              about 450 thousand
level 2             longer traces, and all pairs of nested operators:       another 5.6 million
level 3             three nested operators:                                  another 16 million

`--exhaustive=LEVEL` or the environment variable `MTLMON_EXHAUSTIVE` chooses. What the literal
algorithm answers is compared on every 97th pair, because it is slow.
"""

from __future__ import annotations

import pytest

from mtlmon import Formula
from tests.comparison import compare_literally
from tests.engines import Job, run_steps
from tests.properties import Output, Timeline, check_modes_agree, check_output, view_of
from tests.reference.folding import modes_are_alike
from tests.small_models import LEVELS, Family, formulas_of, traces_of
from tests.traces import MODES, Mode

_LITERAL_STRIDE = 97


def run_all_modes(formula: Formula, timeline: Timeline) -> dict[Mode, Output]:
    return {mode: run_steps(Job(formula, timeline.steps, mode)) for mode in MODES}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "family" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--exhaustive")
        families = {
            f"level{level}-{i}": family
            for level, families in LEVELS.items()
            for i, family in enumerate(families)
            if level <= chosen
        }
        metafunc.parametrize("family", families.values(), ids=families.keys())


def test_all_small_models(family: Family) -> None:
    formulas = list(formulas_of(family))
    count = 0
    for steps in traces_of(family):
        timeline = Timeline(steps)
        checked: set[object] = set()
        for formula in formulas:
            outputs = run_all_modes(formula, timeline)
            count += 1
            if count % _LITERAL_STRIDE == 0:
                compare_literally(formula, timeline, outputs)
            view = view_of(formula, timeline)
            # Many formulas mean the same on one short trace; alike are checked once.
            case = (view, *outputs.values())
            if case in checked:
                continue
            try:
                for mode in MODES:
                    check_output(view, timeline, mode, outputs[mode])
                check_modes_agree(outputs, view.bounded, alike=modes_are_alike(formula))
            except AssertionError as error:
                pytest.fail(f"{error}\n  {formula}\n  {timeline}\n  {outputs}")
            checked.add(case)
    assert count > 0
