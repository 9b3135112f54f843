"""Explanations of violations as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.analysis.describe import brief_words
from mtlmon.relational.cells import value_text
from mtlmon.relational.reasons.evidence import is_here
from mtlmon.syntax.durations import distance_text
from mtlmon.syntax.printer import key_width, written_name
from mtlmon.syntax.report import shorten, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.cells import Value
    from mtlmon.relational.plan import PolicyPlan
    from mtlmon.relational.reasons.evidence import Evidence, Explanation, Finding, Violation
    from mtlmon.relational.reasons.patterns import Region

__all__ = ["explanation_text", "pattern_text", "region_words"]

_ASCII = str.maketrans({"✓": "+", "✗": "-", "└": "`", "├": "|", "─": "-", "…": "~"})
_NARROWEST = 40


def explanation_text(
    explanation: Explanation,
    policy: PolicyPlan,
    written: str,
    relations: Mapping[str, tuple[Kind, ...]],
    *,
    unit: str | None = None,
    rows_option: str | None = None,
    width: int = 100,
    ascii_only: bool = False,
) -> str:
    """Return an explanation as text, without a newline at the end.

    Args:
        explanation: the explanation.
        policy: the policy.
        written: its formula.
        relations: the kinds of the arguments of each atom.
        unit: the unit of time-stamps, or None if it is not known.
        rows_option: the option that lets all rows be named, if there is one and it is not given.
        width: the width of lines; formulas are shortened to fit.
        ascii_only: whether to draw marks and branches in ASCII.
    """
    width = max(width, _NARROWEST)
    violation = explanation.violation
    heading = f"{violation.time_stamp}:{violation.offset} violates "
    lines = [heading + shorten(visible(written), max(width - len(heading), _NARROWEST))]
    values = [
        f"{name} = {value_text(value, kind)}"
        for name, kind, value in zip(policy.variables, policy.kinds, violation.values, strict=True)
    ]
    if values:
        lines.append(f"  {', '.join(values)}")
    if explanation.witnesses:
        found = (
            f"{name} = {value_text(value, kind)}" for name, kind, value in explanation.witnesses
        )
        lines.append(f"  with {', '.join(found)}")
    lines.append("")
    for reason in explanation.reasons:
        mark = "✓" if reason.holds else "✗"
        lines.append(f"{mark} {shorten(visible(reason.formula), width - 2)}")
        own = [
            line
            for one in reason.evidence
            for line in _evidence(one, relations, violation, unit, rows_option)
        ]
        for line in own[:-1]:
            lines.append(f"  ├─ {visible(line)}")
        for line in own[-1:]:
            lines.append(f"  └─ {visible(line)}")
    text = "\n".join(lines)
    return text.translate(_ASCII) if ascii_only else text


def _evidence(
    evidence: Evidence,
    relations: Mapping[str, tuple[Kind, ...]],
    violation: Violation,
    unit: str | None,
    rows_option: str | None,
) -> list[str]:
    """The rows that match a pattern, or that there are none."""
    pattern = evidence.pattern
    kinds = relations.get(pattern.atom, ())
    if not evidence.total:
        where = region_words(pattern.region, unit)
        return [f"no {pattern_text(pattern.atom, pattern.arguments, kinds)} {where}"]
    lines = [
        f"{one.time_stamp}:{one.offset} {pattern_text(pattern.atom, one.row, kinds)}"
        f"{_place(one, violation, unit)}"
        for one in evidence.rows
    ]
    rest = evidence.total - len(evidence.rows)
    if rest:
        wanted = pattern_text(pattern.atom, pattern.arguments, kinds)
        where = "" if is_here(evidence) else f" {region_words(pattern.region, unit)}"
        how = "" if rows_option is None else f" ({rows_option} names them)"
        lines.append(f"… and {rest:,} more of {wanted}{where}{how}")
    return lines


def _place(finding: Finding, violation: Violation, unit: str | None) -> str:
    """Say where a row is, and how far it is from the violation."""
    parts = [] if finding.place is None else [str(finding.place)]
    distance = finding.time_stamp - violation.time_stamp
    if distance:
        parts.append(distance_text(distance, unit))
    return f" ({', '.join(parts)})" if parts else ""


def pattern_text(atom: str, values: Sequence[Value | None], kinds: Sequence[Kind]) -> str:
    """Write an atom with its arguments, `_` for those that may be anything."""
    name = written_name(atom)
    width = len(kinds) - key_width(atom)
    values, kinds = values[:width], kinds[:width]
    if not kinds:
        return name
    written = (
        "_" if value is None else value_text(value, kind)
        for value, kind in zip(values, kinds, strict=True)
    )
    return f"{name}({', '.join(written)})"


def region_words(region: Region, unit: str | None = None) -> str:
    """Say which time-points a region has; the words stand behind what is found there."""
    earliest, latest, first, last = region
    if (first, last) == (0, 0):
        return "at this time-point"
    if first is not None and first == last and abs(first) == 1:
        side = "previous" if first < 0 else "next"
        near, far = (latest, earliest) if first < 0 else (earliest, latest)
        distance = _distance(abs(near or 0), None if far is None else abs(far), unit, "away")
        is_any = not near and far is None
        return f"at the {side} time-point" + ("" if is_any else f", if that is {distance}")
    if last is not None and last <= 0 and latest is not None and latest <= 0:
        return _side(-latest, None if earliest is None else -earliest, unit, "before")
    if first is not None and first >= 0 and earliest is not None and earliest >= 0:
        return _side(earliest, latest, unit, "after")
    start = "the beginning" if earliest is None else _moment(earliest, unit)
    end = "the end" if latest is None else _moment(latest, unit)
    return f"from {start} to {end}"


def _side(lower: int, upper: int | None, unit: str | None, side: str) -> str:
    if not lower and upper is None:
        return f"at this time-point or any {side}"
    if upper == 0:
        return "at this time-stamp"
    if not lower and upper is not None:
        return f"in the {brief_words(upper, unit)} {side}"
    return _distance(lower, upper, unit, side)


def _distance(lower: int, upper: int | None, unit: str | None, side: str) -> str:
    if upper is None:
        return f"{brief_words(lower, unit)} or more {side}"
    if lower == upper:
        return f"exactly {brief_words(upper, unit)} {side}"
    first = str(lower) if unit is None else brief_words(lower, unit)
    return f"{first} to {brief_words(upper, unit)} {side}"


def _moment(distance: int, unit: str | None) -> str:
    if not distance:
        return "this time-stamp"
    return f"{brief_words(abs(distance), unit)} {'before' if distance < 0 else 'after'}"
