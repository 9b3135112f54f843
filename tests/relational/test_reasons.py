"""Why values violate policies: the reference agrees with what explanations say of the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon import Formula
from mtlmon.errors import FormulaError
from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from tests.doors import (
    Evidence,
    Explainer,
    Plan,
    PointBlock,
    Region,
    Violation,
    explanation_text,
    region_words,
)
from tests.doors import ReasonFinding as Finding
from tests.doors import predicates_kinds as kinds
from tests.reference.first_order import (
    Database,
    FirstOrder,
    Let,
    Log,
    Row,
    active_domain,
    answers,
)
from tests.relational.formulas import logs, safe_formulas

_DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"
_TYPES = dict.fromkeys("xyz", int)


class Run:
    """The explanations of all valuations that satisfy a formula, as violations of its negation."""

    def __init__(
        self,
        formula: Formula,
        log: Log,
        sizes: list[int],
        text: str = "",
        lets: Mapping[str, Let] | None = None,
    ) -> None:
        text = f"{text}policy f: NOT ({formula})\n"
        self.file = parse_policies(_DECLARED + text)
        self.analysis = analyse(self.file)
        if self.analysis.errors:
            raise self.analysis.errors[0]
        # a comparison by itself is one of columns, not of variables
        self.is_first_order = bool(self.analysis.policies)
        if not self.is_first_order:
            return
        self.log = log
        self.sizes = sizes
        self.explainer = Explainer(self.file, self.analysis, self.read, "inf", most_rows=None)
        (self.policy,) = self.explainer._prepared
        self.names = (*self.policy.names, *self.policy.exposed)
        reported = self.analysis.policies[0].reported
        self.violations = []
        offsets = offsets_of(log)
        types = _TYPES | dict.fromkeys(re.findall(r"\b[wxyz]\d*\b", text), int)
        for point, found in enumerate(answers(formula, log, reported, types=types, lets=lets)):
            time_stamp = log.points[point][0]
            for row in sorted(found.satisfying):
                self.violations.append(Violation(time_stamp, offsets[point], 0, point, row))

    def read(self, plan: Plan, points: PointBlock) -> Iterator[None]:
        numbers = {atom.name: number for number, atom in enumerate(plan.named_atoms)}
        for number, (time_stamp, database) in enumerate(self.log.points):
            rows = [
                (numbers[name], [int(value) for value in row])
                for name, own in database.items()
                if name in numbers
                for row in own
            ]
            points.add(time_stamp, rows)
            if number in self.sizes:
                yield
        yield


def offsets_of(log: Log) -> list[int]:
    stamps = [time_stamp for time_stamp, _ in log.points]
    return [stamps[:point].count(stamp) for point, stamp in enumerate(stamps)]


def matching(log: Log, found: Evidence, violation: Violation) -> list[tuple[int, Row]]:
    """The rows that a pattern asks for, each with the number of its time-point."""
    pattern, region = found.pattern, found.pattern.region
    rows: list[tuple[int, Row]] = []
    for point, (time_stamp, database) in enumerate(log.points):
        distance, number = time_stamp - violation.time_stamp, point - violation.point
        is_within = all(
            (least is None or value >= least) and (most is None or value <= most)
            for value, least, most in [
                (distance, region.earliest, region.latest),
                (number, region.first, region.last),
            ]
        )
        if not is_within:
            continue
        for row in database.get(pattern.atom, ()):
            fits = all(w is None or w == v for w, v in zip(pattern.arguments, row, strict=True))
            if fits and all(row[one] == row[other] for one, other in pattern.equal):
                rows.append((point, row))
    return rows


def check_explanations(
    formula: Formula,
    log: Log,
    sizes: list[int],
    *,
    text: str = "",
    lets: Mapping[str, Let] | None = None,
) -> None:
    """Compare explanations with the reference; `text` has the lets of the file."""
    log = log._replace(closed=True)
    try:
        run = Run(formula, log, sizes, text, lets)
    except FormulaError:
        assume(False)
    assume(run.is_first_order)
    domain = active_domain(formula, log, lets=lets)
    if lets:
        domain = [value for value in domain if isinstance(value, int)]
    offsets = offsets_of(log)
    for explanation in run.explainer.explain(run.violations):
        violation = explanation.violation
        values = (*violation.values, *(value for _, _, value in explanation.witnesses))
        valuation = dict(zip(run.names, values, strict=True))
        conjuncts = run.explainer._conjuncts(0)
        for conjunct, reason in zip(conjuncts, explanation.reasons, strict=True):
            seen: list[dict[str, set[Row]]] = [{} for _ in log.points]
            for found in reason.evidence:
                rows = matching(log, found, violation)
                listed = [Finding(log.points[point][0], offsets[point], row) for point, row in rows]
                assert set(found.rows) == set(listed)
                assert found.total == len(listed)
                for point, row in rows:
                    seen[point].setdefault(found.pattern.atom, set()).add(row)
            # these rows are all that the conjunct depends on
            stamps = [time_stamp for time_stamp, _ in log.points]
            rest = log._replace(points=tuple(zip(stamps, seen, strict=True)))
            for some in (log, rest):
                reference = FirstOrder(some, domain, lets)
                truth = reference.under(conjunct, valuation).at[violation.point]
                assert truth is True


_SIZES = st.lists(st.integers(0, 3), max_size=2)


@settings(max_examples=50)
@given(safe_formulas(), logs(), _SIZES)
def test_reasons_are_those_of_the_reference(formula: Formula, log: Log, sizes: list[int]) -> None:
    check_explanations(formula, log, sizes)


@settings(max_examples=50)
@given(safe_formulas(aggregates=True), logs(), _SIZES)
def test_reasons_with_aggregates(formula: Formula, log: Log, sizes: list[int]) -> None:
    check_explanations(formula, log, sizes)


@pytest.mark.parametrize(
    ("region", "words"),
    [
        (Region(0, 0, 0, 0), "at this time-point"),
        (Region(-604800, 0, None, 0), "in the 7d before"),
        (Region(-20, -5, None, 0), "5s to 20s before"),
        (Region(None, 0, None, 0), "at this time-point or any before"),
        (Region(None, -5, None, 0), "5s or more before"),
        (Region(0, 0, None, 0), "at this time-stamp"),
        (Region(0, 60, 0, None), "in the 1m after"),
        (Region(7, 7, 0, None), "exactly 7s after"),
        (Region(None, 0, -1, -1), "at the previous time-point"),
        (Region(2, 5, 1, 1), "at the next time-point, if that is 2s to 5s away"),
        (Region(-5, 3, None, None), "from 5s before to 3s after"),
        (Region(None, 3, None, None), "from the beginning to 3s after"),
    ],
)
def test_words_for_regions(region: Region, words: str) -> None:
    assert region_words(region, "s") == words


def test_many_rows_are_counted() -> None:
    formula = (
        parse_policies(f"{_DECLARED}find f: q(x, y) AND (NOT EVENTUALLY[1,9] p(y)) AND ONCE p(x)\n")
        .policies[0]
        .formula
    )
    points: list[tuple[int, Database]] = [
        (time, {"p": [(1,)], "q": [(1, 7)] if time == 4 else []}) for time in range(9)
    ]
    run = Run(formula, Log(tuple(points)), [])
    few = Explainer(run.file, run.analysis, run.read, "inf", most_rows=2)
    (found,) = few.explain(run.violations)
    relations = {"p": (kinds.INTEGER,), "q": (kinds.INTEGER,) * 2}
    policy = run.explainer._plan.named_policies[0]
    text = explanation_text(found, policy, "WRITTEN", relations, ascii_only=True)
    assert text.splitlines() == [
        "4:0 violates WRITTEN",
        "  x = 1, y = 7",
        "",
        "+ q(x, y)",
        "  `- 4:0 q(1, 7)",
        "- EVENTUALLY[1,9] p(y)",
        "  `- no p(7) 1 to 9 time units after",
        "+ ONCE p(x)",
        "  |- 3:0 p(1) (1 time unit before)",
        "  |- 4:0 p(1)",
        "  `- ~ and 3 more of p(1) at this time-point or any before",
    ]
    every = Explainer(run.file, run.analysis, run.read, "inf", most_rows=None)
    (found,) = every.explain(run.violations)
    text = explanation_text(found, policy, "WRITTEN", relations, unit="s", ascii_only=True)
    assert text.splitlines()[-5:] == [
        *(f"  |- {time}:0 p(1) ({4 - time}s before)" for time in range(4)),
        "  `- 4:0 p(1)",
    ]
