"""Finds the rows of the log that say why values violate policies, in two more passes over it.

The first pass finds values for the variables that a policy quantifies (its *witnesses*), by
evaluating the policy with its top quantifiers opened, so that these are reported as well
(`Prepared.exposed`). The second one looks for the rows that match what each conjunct asks for, in
the *region* of time-points that the operators around the conjunct look at. The conjunct depends on
no other rows; tests check this by leaving all others out.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Literal, NamedTuple

from mtlmon.relational.atoms import made_atoms
from mtlmon.relational.binding import conjuncts
from mtlmon.relational.cells import values_of
from mtlmon.relational.keyed import HERE, without_keys
from mtlmon.relational.native import PointBlock, RelationalEngine
from mtlmon.relational.planning import plan
from mtlmon.relational.preparation import (
    opened,
    opened_policy,
    prepared_lets,
    prepared_policies,
    readable,
)
from mtlmon.relational.programs import kinds_of_variables
from mtlmon.relational.reasons.patterns import HERE as AT_POINT
from mtlmon.relational.reasons.patterns import patterns_of
from mtlmon.relational.running import RelationalRun
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.printer import name_of_rows, written_name
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.analysis import Analysis
    from mtlmon.relational.cells import Value
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.reasons.patterns import Pattern

    EndTime = int | Literal["last", "inf"] | None

    class PointPlaces(Protocol):
        """Knows where the rows of time-points are."""

        def place_of(self, point: int, /) -> object:
            """Return the row of a time-point, of which `str` makes words; None if not known."""

    class KeyPoints(Protocol):
        """Gives time-points the names that they have among those of their key."""

        def offset_of(self, atom: str, point: int) -> int | None: ...
        def forget(self, count: int) -> None: ...

    Reader = Callable[[Plan, PointBlock], Iterator["Known | None"]]

__all__ = ["Evidence", "Explainer", "Finding", "Known", "Reason", "Violation"]

# The atom that has a row for each row of the log, and the values of a key.
_Key = tuple[str, tuple["Value", ...]]

LISTED = 5
"""How many rows of a pattern are kept, unless all are asked for."""


class Violation(NamedTuple):
    """A valuation that violates a policy.

    Attributes:
        time_stamp: the time-stamp of the time-point.
        offset: which of the time-points of the time-stamp it is.
        policy: the number of the policy among those with variables.
        point: the number of the time-point in the log.
        values: the values of the policy's variables.
    """

    time_stamp: int
    offset: int
    policy: int
    point: int
    values: tuple[Value, ...]


class Known(NamedTuple):
    """What is known of the time-points that are read.

    Attributes:
        places: where their rows are.
        names: their names among those of their keys, if policies have keys.
    """

    places: PointPlaces | None = None
    names: KeyPoints | None = None


class Finding(NamedTuple):
    """A row of the log.

    Attributes:
        time_stamp: the time-stamp of its time-point.
        offset: which of the time-points of the time-stamp it is.
        row: the values of its arguments.
        place: where it is, of which `str` makes words; None if the log does not tell.
    """

    time_stamp: int
    offset: int
    row: tuple[Value, ...]
    place: object = None


class Evidence(NamedTuple):
    """The rows that match a pattern.

    Attributes:
        pattern: the pattern.
        total: how many rows match it.
        rows: those nearest to the time-point of the violation, in the order of the log.
    """

    pattern: Pattern
    total: int
    rows: tuple[Finding, ...]


class Reason(NamedTuple):
    """A conjunct of what is violated, with its evidence.

    Attributes:
        formula: the conjunct as text; without its NOT if it has one.
        holds: whether it holds; False for what stands below NOT.
        evidence: what the log has for each of its atoms.
    """

    formula: str
    holds: bool
    evidence: tuple[Evidence, ...]


class Explanation(NamedTuple):
    """Why a valuation violates a policy.

    Attributes:
        violation: the valuation.
        witnesses: variables that the policy quantifies: their names, kinds and values.
        reasons: the conjuncts.
    """

    violation: Violation
    witnesses: tuple[tuple[str, Kind, Value], ...]
    reasons: tuple[Reason, ...]


class _KeyTrace:
    """The time-points of a key.

    Attributes:
        count: how many there have been.
        point: the number of the last one in the log.
    """

    def __init__(self) -> None:
        self.count = 0
        self.point = -1

    def see(self, point: int) -> None:
        """Take a time-point of the key."""
        self.count += 1
        self.point = point


class _Search:
    """Looks for the rows of a pattern around a time-point.

    Args:
        pattern: the pattern.
        violation: the violation at the time-point.
        most: how many rows are kept; None for all.
        trace: the time-points of its key that have been read; None if there is no key.
    """

    def __init__(
        self, pattern: Pattern, violation: Violation, most: int | None, trace: _KeyTrace | None
    ) -> None:
        self.pattern = pattern
        self.violation = violation
        self.most = most
        self.trace = trace
        self.number_of_key: int | None = None
        self.count = 0
        self.rows: deque[Finding] = deque()

    @property
    def needs_numbers(self) -> bool:
        """Whether it matters how many time-points of the key are between."""
        region = self.pattern.region
        return self.trace is not None and bool(region.first or region.last)

    def see(self, point: int, finding: Finding, places: PointPlaces | None) -> None:
        """Take a row of the atom."""
        violation = self.violation
        number = point - violation.point
        if self.trace is not None:
            if self.trace.point != point:
                # what the log says of a row of another key
                return
            if self.number_of_key is not None:
                number = self.trace.count - self.number_of_key
        if not self.pattern.region.has(finding.time_stamp - violation.time_stamp, number):
            return
        if not self.pattern.matches(finding.row):
            return
        self.count += 1
        if len(self.rows) == self.most:
            if number > 0:
                return
            self.rows.popleft()
        place = None if places is None else places.place_of(point)
        self.rows.append(finding._replace(place=place))

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.pattern, self.count, tuple(self.rows))


class _Witnesses:
    """Takes answers, and keeps the first values of witnesses of each violation."""

    def __init__(self, plan: Plan, violations: Sequence[Violation]) -> None:
        self.plan = plan
        self.wanted = {(one.policy, one.point, one.values): one for one in violations}
        self.points = {(one.policy, one.point) for one in violations}
        self.found: dict[Violation, tuple[Value, ...]] = {}

    def put(self, answers: AnswerBlock) -> None:
        for policy, _, _, _, point, cells in answers.take():
            if (policy, point) not in self.points:
                continue
            kinds = self.plan.named_policies[policy].kinds
            values = values_of(cells, kinds, self.plan.texts)
            for (number, here, reported), violation in self.wanted.items():
                own = values[: len(reported)]
                if (policy, point, own) == (number, here, reported):
                    self.found.setdefault(violation, values)


class Explainer:
    """Explains violations of the policies with variables of a file.

    Args:
        file: the policy file.
        analysis: what is known of these policies.
        read: reads the log from its beginning: it adds time-points with the atoms of a plan to a
            block, and yields whenever they are to be taken, with what is known of them.
        end_time: what is known about the time after the log.
        skips_overflows: whether a term that overflows has no value, instead of being an error.
        most_rows: how many rows of a pattern are kept, those nearest to the time-point; None for
            all.
    """

    def __init__(
        self,
        file: PolicyFile,
        analysis: Analysis,
        read: Reader,
        end_time: EndTime = None,
        *,
        skips_overflows: bool = False,
        most_rows: int | None = LISTED,
    ) -> None:
        self._read = read
        self._most_rows = most_rows
        self._skips_overflows = skips_overflows
        self._end_time = end_time
        self._unit = file.environment.unit
        self._relations = analysis.relations
        self._made = made_atoms(file)
        self._lets = prepared_lets(analysis)
        prepared = prepared_policies(analysis)
        kinds = kinds_of_variables(
            [one.formula for one in prepared], analysis.predicates, file.environment
        )
        self._shown: list[Formula] = []
        for number, one in enumerate(prepared):
            formula, hidden = opened_policy(one, kinds, file.environment)
            shown, own = (formula, hidden) if one.written is None else opened(one.written)
            # show the text as written, and its witnesses
            exposed = tuple(name for name in hidden if name in own)
            others = tuple(name for name in hidden if name not in own)
            if others:
                formula = Formula(ops.EXISTS, (formula,), None, None, formula.span, others)
            if own and not hidden:
                shown = formula if one.written is None else one.written
            self._shown.append(shown)
            prepared[number] = one._replace(formula=formula, exposed=exposed)
        self._prepared = prepared
        self._plan = plan(file, analysis, None, prepared)

    def explain(self, violations: Sequence[Violation]) -> list[Explanation]:
        """Explain violations of policies, in their order."""
        valuations = self._valuations(violations)
        traces: dict[_Key, _KeyTrace] = defaultdict(_KeyTrace)
        searches: list[list[list[_Search]]] = []
        for violation in violations:
            names = self._names(violation.policy)
            valuation = dict(zip(names, valuations[violation], strict=True))
            key = self._key(violation)
            trace = None if key is None else traces[key]
            searches.append(
                [
                    [
                        _Search(pattern, violation, self._most_rows, trace)
                        for pattern in patterns_of(
                            conjunct, valuation, self._relations, self._made, self._lets
                        )
                    ]
                    for conjunct in self._conjuncts(violation.policy)
                ]
            )
        every = [one for own in searches for some in own for one in some]
        if any(one.needs_numbers for one in every):
            self._number([one for one in every if one.needs_numbers], traces)
        self._search(every, traces)
        found = []
        for violation, own in zip(violations, searches, strict=True):
            prepared = self._prepared[violation.policy]
            policy = self._plan.named_policies[violation.policy]
            hidden = slice(len(prepared.names), None)
            parts = policy.variables[hidden], policy.kinds[hidden], valuations[violation][hidden]
            reasons = []
            for conjunct, some in zip(self._conjuncts(violation.policy), own, strict=True):
                shown = without_keys(conjunct)
                holds = shown.operator is not ops.NOT
                text = readable(shown if holds else shown.operands[0], self._unit)
                reasons.append(Reason(text, holds, tuple(one.evidence for one in some)))
            witnesses = tuple(zip(*parts, strict=True))
            found.append(Explanation(violation, witnesses, tuple(reasons)))
        return found

    def _names(self, policy: int) -> tuple[str, ...]:
        prepared = self._prepared[policy]
        return (*prepared.names, *prepared.exposed)

    def _conjuncts(self, policy: int) -> list[Formula]:
        # that the key has a row here goes without saying
        return [
            one for one in conjuncts(self._shown[policy]) if written_name(one.name or "") != HERE
        ]

    def _valuations(self, violations: Sequence[Violation]) -> dict[Violation, tuple[Value, ...]]:
        """The values of all variables of violations, those of witnesses among them."""
        if not any(self._prepared[one.policy].exposed for one in violations):
            return {one: one.values for one in violations}
        witnesses = _Witnesses(self._plan, violations)
        engine = RelationalEngine(self._plan, self._plan.texts)
        engine.skips_overflows = self._skips_overflows
        run = RelationalRun(engine, witnesses)
        for _ in self._read(self._plan, engine.points):
            run.advance(keeps_texts=True)
            if len(witnesses.found) == len(violations):
                break
        else:
            run.end(self._end_time)
        return witnesses.found

    def _key(self, violation: Violation) -> _Key | None:
        """The key of a violation, with the atom that says which time-points are of the key.

        None if there is no key, or all atoms of the policy have it as arguments.
        """
        prepared = self._prepared[violation.policy]
        for node in postorder(prepared.formula):
            name = node.name or ""
            if node.operator is ops.PREDICATE and written_name(name) == HERE:
                width = len(prepared.analysis.policy.key_variables)
                return name, violation.values[:width]
        return None

    def _number(self, searches: list[_Search], traces: Mapping[_Key, _KeyTrace]) -> None:
        """Find out which of the time-points of their keys violations are at."""
        waiting: dict[int, list[_Search]] = defaultdict(list)
        for one in searches:
            waiting[one.violation.point].append(one)
        last = max(waiting)
        points = PointBlock(array("I", self._plan.atoms))
        number = 0
        for _ in self._read(self._plan, points):
            for _, rows in points.take():
                self._see_keys(number, rows, traces)
                for one in waiting.get(number, ()):
                    assert one.trace is not None
                    one.number_of_key = one.trace.count
                number += 1
            if number > last:
                break
        for trace in traces.values():
            trace.count, trace.point = 0, -1

    def _see_keys(
        self,
        number: int,
        rows: Iterable[tuple[int, tuple[int, ...]]],
        traces: Mapping[_Key, _KeyTrace],
    ) -> None:
        """Let keys see a time-point, if it is one of theirs."""
        atoms = self._plan.named_atoms
        wanted = {atom for atom, _ in traces}
        for place, cells in dict.fromkeys(rows):
            if (name := atoms[place].name) in wanted:
                trace = traces.get((name, self._values(place, cells)))
                if trace is not None:
                    trace.see(number)

    def _values(self, atom: int, cells: tuple[int, ...]) -> tuple[Value, ...]:
        return values_of(cells, self._plan.named_atoms[atom].kinds, self._plan.texts)

    def _search(self, searches: list[_Search], traces: Mapping[_Key, _KeyTrace]) -> None:
        """Let searches see the rows of the log."""
        atoms = self._plan.named_atoms
        by_atom: list[list[_Search]] = [
            [one for one in searches if one.pattern.atom == atom.name] for atom in atoms
        ]
        points = PointBlock(array("I", self._plan.atoms))
        number = offset = 0
        before = -1
        for known in self._read(self._plan, points):
            places, names = known or Known()
            for time_stamp, rows in points.take():
                offset = offset + 1 if time_stamp == before else 0
                before = time_stamp
                self._see_keys(number, rows, traces)
                # rows of a time-point are a set
                for atom, cells in dict.fromkeys(rows):
                    if by_atom[atom]:
                        row = self._values(atom, cells)
                        of_key = None
                        if names is not None:
                            of_key = names.offset_of(name_of_rows(atoms[atom].name), number)
                        finding = Finding(time_stamp, offset if of_key is None else of_key, row)
                        for search in by_atom[atom]:
                            search.see(number, finding, places)
                number += 1
            if names is not None:
                names.forget(number)


def is_here(evidence: Evidence) -> bool:
    """Whether a pattern is about the time-point of the violation only."""
    return evidence.pattern.region == AT_POINT
