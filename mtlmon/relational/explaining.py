"""Explains in words how a first-order policy would be evaluated, and what is remembered for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.analysis.describe import distance_words
from mtlmon.policy.first_order.terms import free_in, free_variables
from mtlmon.policy.predicates.printer import column_text
from mtlmon.relational.analysis import warnings_of
from mtlmon.relational.binding import BindingAnalysis, conjuncts, is_transient
from mtlmon.relational.expansion import Expansion
from mtlmon.relational.meeting import meeting_of
from mtlmon.relational.normal import normal_form
from mtlmon.relational.outside import MOMENT
from mtlmon.relational.preparation import readable
from mtlmon.syntax import operators as ops
from mtlmon.syntax.printer import to_text, written_name
from mtlmon.syntax.report import shorten, visible
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.relational.analysis import PolicyAnalysis, Recursion
    from mtlmon.relational.binding import Definition, Step
    from mtlmon.relational.meeting import Meeting
    from mtlmon.syntax.formula import Formula

NO_RECURSIONS: Mapping[str, Recursion] = {}
_TEXT_LIMIT = 4000
_PART = 72


def describe(
    analysis: PolicyAnalysis,
    lets: Mapping[str, Definition],
    unit: str | None = None,
    key: Sequence[str] = (),
    recursions: Mapping[str, Recursion] = NO_RECURSIONS,
) -> str:
    """Return the explanation of a policy as lines of text, without a newline at the end.

    Args:
        analysis: the policy.
        lets: the lets with parameters, by name.
        unit: the unit of the time-stamps, or None if it is not declared.
        key: the columns of its key.
        recursions: the lets that use themselves, by name.
    """
    own = _used_recursions(analysis.binding.formula, lets, recursions)
    formulas = [analysis.binding.formula, *(one.binding.formula for one in own.values())]
    policy = analysis.policy
    written = visible(to_text(policy.formula, all_parentheses=True))
    sections = [
        ("Formula, with all parentheses", [shorten(written, _TEXT_LIMIT)]),
        ("Reports", [_reports(analysis), *_of_key(key)]),
        ("Plan, at each time-point", _plan(analysis.binding.steps)),
        *(
            (f"Before that, {written_name(name)}", _plan(one.binding.steps))
            for name, one in own.items()
        ),
        ("Remembered", _remembered(formulas, lets, unit) or ["nothing"]),
        ("Cost", _cost(analysis.binding.steps)),
    ]
    remarks = [
        *warnings_of(analysis),
        *(remark for one in formulas for remark in _copying(one, lets)),
        *_listing(analysis.binding.steps),
        *(remark for one in formulas for remark in _naming(one)),
        *(
            f"{written_name(name)} uses itself: what it remembers may come from the beginning of "
            "the log, whatever its intervals are"
            for name in own
        ),
    ]
    if remarks:
        sections.append(("Remarks", remarks))
    sections.append(
        ("Engine", ["relations: what is remembered is looked up by the values of variables"])
    )
    blocks = ("\n".join([title, *(f"  {line}" for line in lines)]) for title, lines in sections)
    return "\n\n".join(blocks)


def _reports(analysis: PolicyAnalysis) -> str:
    what = "satisfies" if analysis.policy.is_find else "violates"
    if not analysis.reported:
        return f"the time-points at which it is {'true' if analysis.policy.is_find else 'false'}"
    words = []
    for name in analysis.reported:
        kind = analysis.kinds.get(name)
        known = kind is not None and kind.name != "unknown"
        type_words = kind.words if kind is not None and known else "of the type of its column"
        words.append(f"{name} ({type_words})")
    return f"every {', '.join(words)} that {what} it"


def _of_key(key: Sequence[str]) -> list[str]:
    if not key:
        return []
    columns = ", ".join(map(column_text, key))
    return [f"for each {columns}, among the rows with this value: what is remembered is by it, too"]


def _plan(steps: Iterable[Step]) -> list[str]:
    lines = []
    is_first = True
    for number, step in enumerate(steps, 1):
        words = _step_words(step, is_first=is_first)
        calculated = ", calculated for what is left" if step.calculates else ""
        lines.append(f"{number}. {words}{calculated}")
        is_first = is_first and not step.binds
    return lines


def _step_words(step: Step, *, is_first: bool) -> str:
    formula = step.formula
    text = _short(formula)
    if not step.binds:
        keys = _keys(step)
        found = f", looked up by {' and '.join(keys)}" if keys else ""
        return f"keep what fulfils {text}{found}"
    names = " and ".join(step.binds)
    if formula.operator is ops.COMPARISON:
        return f"{names} by {text}"
    if is_transient(formula):
        return f"{names} from the rows of {text}"
    if is_first or not _keys(step):
        return f"{names} from all remembered rows of {text}, as no event selects some of them"
    return f"{names} looked up in {text} by {' and '.join(_keys(step))}"


def _keys(step: Step) -> list[str]:
    """The variables by which rows that are remembered are looked up; none for other conjuncts."""
    formula = step.formula
    while formula.operator in (ops.NOT, ops.EXISTS):
        formula = formula.operands[0]
    is_aggregate = formula.operator is ops.COMPARISON and formula.operands
    if not formula.operator.is_temporal and not is_aggregate:
        return []
    return [name for name in free_in(formula) if name in step.bound]


def _lists(steps: Iterable[Step]) -> list[Step]:
    """The steps that list all rows of what is remembered."""
    found = []
    for step in steps:
        formula = step.formula
        is_made = is_transient(formula) or (
            formula.operator is ops.COMPARISON and not formula.operands
        )
        if step.binds and not is_made and not _keys(step):
            found.append(step)
    return found


def _cost(steps: Iterable[Step]) -> list[str]:
    """What a time-point costs."""
    steps = list(steps)
    probes = sum(1 for step in steps if _keys(step))
    listed = _lists(steps)
    drivers = [step for step in steps if step.binds and is_transient(step.formula)]
    if listed:
        rows = " times ".join(_all_of(step) for step in listed)
        return [f"each time-point lists {rows}"]
    if not drivers:
        return ["the same at each time-point"]
    ups = f"{probes} look-up{'' if probes == 1 else 's'}" if probes else "no look-ups"
    rows = " joined with ".join(_short(step.formula) for step in drivers)
    return [f"{ups} for each row of {rows}", "next to nothing at time-points without such rows"]


def _all_of(step: Step) -> str:
    what = "groups" if step.formula.operator is ops.COMPARISON else "rows"
    return f"all {what} of {_short(step.formula)}"


def _listing(steps: Iterable[Step]) -> list[str]:
    """Remarks on conjuncts whose remembered rows are listed at each time-point."""
    return [
        f"each time-point lists {_all_of(step)}, as no event gives "
        f"{' or '.join(step.binds)} a value: add an atom that says when to ask"
        for step in _lists(steps)
    ]


def _naming(formula: Formula) -> list[str]:
    """Remarks on operators that remember time-points, of which there are more and more."""
    remarks: dict[str, None] = {}
    for node in postorder(formula):
        if not node.operator.is_temporal or node.interval is None or node.interval.is_bounded:
            continue
        if any(one.name == MOMENT for one in conjuncts(node.operands[-1])):
            word = node.operator.word
            remarks[
                f"{_short(node)} remembers time-points, because it gets values from outside: "
                f"give {word} an upper bound, or it remembers more and more"
            ] = None
    return list(remarks)


def _remembered(
    formulas: Iterable[Formula], lets: Mapping[str, Definition], unit: str | None
) -> list[str]:
    lines: dict[str, None] = {}
    every = {id(one): one for one in formulas}
    of_lets = {name: one.formula for name, one in lets.items()}
    for formula in list(every.values()):
        every |= {id(of_lets[name]): of_lets[name] for name in _used(formula, of_lets)}
    for one in every.values():
        free = free_variables(one)
        for node in postorder(one):
            operator = node.operator
            if not operator.is_temporal or node.interval is None:
                continue
            names = ", ".join(name.partition(" ")[0] for name in free[id(node)])
            rows = f"rows of {names}" if names else "whether it was true"
            when = distance_words(node.interval, operator.is_past, unit)
            meeting = _meeting(node, free[id(node)], lets)
            if meeting is not None:
                lines[_meeting_words(meeting, when, node)] = None
                continue
            if operator in (ops.PREVIOUS, ops.NEXT):
                when = "of one time-point"
            lines[f"{rows}, {when}, for {_short(node)}"] = None
    return list(lines)


def _meeting(
    node: Formula, names: tuple[str, ...], lets: Mapping[str, Definition]
) -> Meeting | None:
    """The parts of ONCE of a conjunction that are joined when something asks."""
    if node.operator is not ops.ONCE:
        return None
    expanded = normal_form(Expansion(lets).expanded(node))
    return meeting_of(expanded, frozenset(names), BindingAnalysis({}))


def _copying(formula: Formula, lets: Mapping[str, Definition]) -> list[str]:
    """Remarks on operators whose operand joins each event with what is remembered."""
    remarks = []
    free = free_variables(formula)
    for node in postorder(formula):
        if node.operator not in (ops.ONCE, ops.EVENTUALLY, ops.SINCE, ops.UNTIL):
            continue
        body = normal_form(Expansion(lets).expanded(node.operands[-1]))
        while body.operator is ops.EXISTS:
            body = body.operands[0]
        own: set[str] = set()
        others: set[str] = set()
        for part in conjuncts(body):
            names = own if is_transient(part) else others
            if part.operator is not ops.NOT and part.operator is not ops.COMPARISON:
                names |= set(free_in(part))
        if own and others - own and _meeting(node, free[id(node)], lets) is None:
            added = ", ".join(sorted(name.partition(" ")[0] for name in others - own))
            remarks.append(
                f"{_short(node)} remembers a row for each {added} that an event is joined with, so "
                "one event can make many rows"
            )
    return remarks


def _meeting_words(meeting: Meeting, when: str, node: Formula) -> str:
    operand, held = meeting.window.operands[0], meeting.held
    own, others = (
        ", ".join(name.partition(" ")[0] for name in free_in(one)) for one in (operand, held)
    )
    return (
        f"rows of {own} with their time-points, and when there were rows of {others}, {when}; they "
        f"are joined when asked, for {_short(node)}"
    )


def _used(formula: Formula, formulas: Mapping[str, Formula]) -> list[str]:
    """The lets that a formula uses, also by way of others, whose formulas are given by name."""
    found: dict[str, None] = {}
    stack = [formula]
    while stack:
        for node in postorder(stack.pop()):
            name = node.name or ""
            if name in formulas and name not in found:
                found[name] = None
                stack.append(formulas[name])
    return list(found)


def _used_recursions(
    formula: Formula, lets: Mapping[str, Definition], recursions: Mapping[str, Recursion]
) -> dict[str, Recursion]:
    """The lets that use themselves and that a formula uses, also by way of others."""
    formulas = {name: one.formula for name, one in lets.items()}
    formulas |= {name: one.binding.formula for name, one in recursions.items()}
    used = _used(formula, formulas)
    return {name: one for name, one in recursions.items() if name in used}


def _short(formula: Formula) -> str:
    return shorten(visible(readable(formula)), _PART)
