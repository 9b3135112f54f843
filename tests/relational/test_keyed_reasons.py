"""Why a key's rows violate policies: the same as in the key's part of the log alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import assume, given, settings

from mtlmon.errors import FormulaError, MtlmonError
from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from tests.doors import HERE, Explainer, Violation, keyed_file, number_texts, written_name
from tests.reference.first_order import Log, Row, answers
from tests.relational.formulas import safe_formulas
from tests.relational.test_keyed import KeyedLog, keyed_logs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.policy import PolicyFile
    from tests.doors import Plan, PointBlock

_DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"
_TYPES = dict.fromkeys("xyzn", int)


class Emitted(NamedTuple):
    """What an explanation says of a conjunct: each row with the number of its time-point."""

    formula: str
    holds: bool
    rows: tuple[tuple[tuple[int, str, Row], ...], ...]


def explained(
    file: PolicyFile, log: Log, violations: list[Violation], keys: tuple[int, ...]
) -> list[list[Emitted]]:
    """Explain violations; the keys are those of the time-points, if the file's policy has one."""

    def read(plan: Plan, points: PointBlock) -> Iterator[None]:
        texts = number_texts(plan.texts, ["0", "1", "2"])
        for number, (time_stamp, database) in enumerate(log.points):
            rows = []
            for place, atom in enumerate(plan.named_atoms):
                name = written_name(atom.name)
                extra = [texts[keys[number]]] if atom.name != name else []
                own = [()] if name == HERE else database.get(name, ())
                rows += [(place, [*map(int, row), *extra]) for row in own]
            points.add(time_stamp, rows)
            yield

    stamps = [time for time, _ in log.points]
    numbers = {}
    for number, stamp in enumerate(stamps):
        numbers[stamp, stamps[:number].count(stamp)] = number
    found = []
    explainer = Explainer(file, analyse(file), read, "inf", most_rows=None)
    for one in explainer.explain(violations):
        emitted = []
        for reason in one.reasons:
            rows = []
            for evidence in reason.evidence:
                name = written_name(evidence.pattern.atom)
                width = {"p": 1, "q": 2}.get(name, 0)
                rows.append(
                    tuple(
                        (numbers[row.time_stamp, row.offset], name, row.row[:width])
                        for row in evidence.rows
                    )
                )
            emitted.append(Emitted(reason.formula, reason.holds, tuple(rows)))
        found.append(emitted)
    return found


def agree(text: str, given_log: KeyedLog) -> None:
    """Explanations of the log of all keys say of each key what those of its part say."""
    log = given_log.log._replace(closed=True)
    file = parse_policies(f"{_DECLARED}policy f: {text}\n")
    analysis = analyse(file)
    assume(not analysis.errors and analysis.policies)
    try:
        keyed = keyed_file(file, ("k",))
    except MtlmonError:
        assume(False)
    reported = analysis.policies[0].reported
    body = parse_policies(f"{_DECLARED}find f: {text}\n").policies[0].formula
    for key in sorted(set(given_log.keys)):
        part = given_log._replace(log=log).of(key)
        points = [number for number, one in enumerate(given_log.keys) if one == key]
        alone, together = [], []
        for number, answer in enumerate(answers(body.operands[0], part, reported, types=_TYPES)):
            stamp = part.points[number][0]
            for row in sorted(answer.satisfying):
                alone.append(Violation(stamp, 0, 0, number, row))
                together.append(Violation(stamp, 0, 0, points[number], (str(key), *row)))
        if not alone:
            continue
        expected = [
            [
                emitted._replace(
                    rows=tuple(
                        tuple((points[number], name, row) for number, name, row in own)
                        for own in emitted.rows
                    )
                )
                for emitted in one
            ]
            for one in explained(file, part, alone, ())
        ]
        assert explained(keyed, log, together, given_log.keys) == expected


_SHAPES = [
    "p(x) AND PREVIOUS p(x)",
    "p(x) AND NOT PREVIOUS[0,2] q(x, _)",
    "p(x) AND PREVIOUS[1,2] NOT q(x, x)",
    "p(x) AND PREVIOUS (r AND PREVIOUS p(x))",
    "p(x) AND PREVIOUS (PREVIOUS (p(x) AND NOT NEXT[0,3] q(x, _)))",
    "p(x) AND NEXT[0,2] NOT p(x)",
    "p(x) AND NEXT[0,3] ONCE[0,2] r",
    "p(x) AND ONCE[0,3] r",
    "p(x) AND NOT r",
    "p(x) AND NOT (NOT r SINCE q(x, _))",
    "p(x) AND (p(y) SINCE q(x, y))",
    "p(x) AND (r UNTIL[0,2] PREVIOUS q(x, _))",
    "p(x) AND COUNT(ONCE[0,2] q(x, _) BY x) < 2",
    "p(x) AND n = COUNT(PREVIOUS p(y))",
    "NOT COUNT(r) < 1",
    "p(x) AND NOT COUNT(q(_, _)) < 2",
    "p(x) AND NOT COUNT(r) > 3",
]


@pytest.mark.parametrize("text", _SHAPES)
@settings(max_examples=30)
@given(log=keyed_logs(9))
def test_shapes(text: str, log: KeyedLog) -> None:
    agree(f"NOT ({text})", log)


@settings(max_examples=50)
@given(safe_formulas(aggregates=True), keyed_logs())
def test_formulas(formula: object, log: KeyedLog) -> None:
    try:
        agree(f"NOT ({formula})", log)
    except FormulaError:
        assume(False)
