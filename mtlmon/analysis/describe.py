"""Explains a formula: how it was parsed, how far it looks, and what monitoring it costs."""

from __future__ import annotations

from mtlmon.analysis.desugar import desugar
from mtlmon.analysis.reach import decision_delay, future_reach, past_reach
from mtlmon.analysis.state import StateBound, state_bound
from mtlmon.analysis.subformulas import skewed_count, subformula_count
from mtlmon.syntax import operators as ops
from mtlmon.syntax.bounds import UNITS
from mtlmon.syntax.durations import elapsed_text
from mtlmon.syntax.interval import Interval
from mtlmon.syntax.printer import (
    WRITTEN_LIMIT,
    atom_text,
    operator_text,
    to_text,
    written_size,
)
from mtlmon.syntax.report import shorten, visible
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.operators import Operator

_TEXT_LIMIT = 4000
_LINE = 88
_ROW_LIMIT = 30

_MEANINGS: dict[Operator, str] = {
    ops.NOT: "the operand does not hold",
    ops.AND: "both sides hold",
    ops.OR: "a side holds, or both",
    ops.IMPLIES: "the right side holds wherever the left does",
    ops.IFF: "both sides hold, or neither",
    ops.PREVIOUS: "at the time-point before, {when}",
    ops.ONCE: "at some time-point {when}",
    ops.HISTORICALLY: "at every time-point {when}",
    ops.SINCE: "the right side at some time-point {when}, the left ever since",
    ops.TRIGGER: "the right side at every time-point {when}, unless the left came later",
    ops.NEXT: "at the time-point after, {when}",
    ops.EVENTUALLY: "at some time-point {when}",
    ops.ALWAYS: "at every time-point {when}",
    ops.UNTIL: "the right side at some time-point {when}, the left until then",
    ops.RELEASE: "the right side at every time-point {when}, unless the left came earlier",
    ops.WEAK_UNTIL: "the left side at every time-point {when}, unless the right came by then",
}


def describe(
    formula: Formula,
    unit: str | None = None,
    engine: tuple[str, str] | None = None,
    time: str | None = None,
) -> str:
    """Return the explanation as lines of text, without a newline at the end.

    Args:
        formula: the formula as parsed, not desugared.
        unit: the unit of the stream's time-stamps, a key of `mtlmon.syntax.bounds.UNITS`, or None
            if it is not declared.
        engine: the name of the engine that runs the formula, and the reason; None leaves it out.
        time: what to tell of the time that an event takes, if anything.
    """
    kernel = desugar(formula)
    names = [visible(atom_text(name)) for name in formula.atoms]
    sections = [
        ("Formula, with all parentheses", [_text(formula)]),
        ("Operators", _operator_rows(formula, unit)),
        (f"Atoms ({len(names):,})", _wrapped(names) or ["none"]),
        ("Reach", _aligned(_reach_rows(kernel, unit))),
        ("Size", _aligned(_size_rows(formula, kernel))),
        ("State, at most (most logs need far less)", _aligned(_state_rows(kernel, unit))),
    ]
    if engine is not None:
        rows = [engine] if time is None else [engine, ("time", time)]
        sections.append(("Engine", _aligned(rows)))
    blocks = ("\n".join([title, *(f"  {line}" for line in lines)]) for title, lines in sections)
    return "\n\n".join(blocks)


def _text(formula: Formula) -> str:
    """The formula, unless shared subformulas make it too long to read."""
    if (size := written_size(formula)) > WRITTEN_LIMIT:
        return f"too long to show: {size:,} subformulas, with shared ones each time they occur"
    return shorten(visible(to_text(formula, all_parentheses=True)), _TEXT_LIMIT)


def _operator_rows(formula: Formula, unit: str | None) -> list[str]:
    """A line for each operator and interval: how often it occurs, and what it means."""
    times: dict[str, int] = {}
    meaning: dict[str, str] = {}
    for node in reversed(postorder(formula)):
        if node.operands:
            written = operator_text(node)
            times[written] = times.get(written, 0) + 1
            if node.interval is not None:
                meaning[written] = meaning_of(node, unit)
    rows = [(written, f"{count:,} x", meaning.get(written, "")) for written, count in times.items()]
    lines = _aligned(rows[:_ROW_LIMIT])
    if len(rows) > _ROW_LIMIT:
        lines.append(f"and {len(rows) - _ROW_LIMIT:,} more with other intervals")
    return lines or ["none"]


def meaning_of(formula: Formula, unit: str | None = None) -> str:
    """Return what the outermost operator of a formula means; empty for atoms and constants.

    Args:
        formula: the formula.
        unit: the unit of time-stamps, or None.
    """
    when = ""
    if formula.interval is not None:
        when = distance_words(formula.interval, formula.operator.is_past, unit)
    return _MEANINGS.get(formula.operator, "").format(when=when)


def _reach_rows(kernel: Formula, unit: str | None) -> list[tuple[str, ...]]:
    future, past, delay = future_reach(kernel), past_reach(kernel), decision_delay(kernel)
    if not kernel.is_bounded:
        bounded = "no: a verdict may stay open for ever; mode local runs as global"
    elif delay is None:
        bounded = "yes, but a NEXT without upper bound waits for its event, however late"
    else:
        bounded = f"yes: no verdict waits for more than {duration_words(delay, unit)} to pass"
    return [
        ("future", "no limit" if future is None else duration_words(future, unit)),
        ("past", "no limit" if past is None else duration_words(past, unit)),
        ("bounded", bounded),
    ]


def _size_rows(formula: Formula, kernel: Formula) -> list[tuple[str, ...]]:
    written, rewritten = subformula_count(formula), subformula_count(kernel)
    return [
        ("subformulas", f"{written:,} distinct, {rewritten:,} in basic operators"),
        ("skewed", f"{skewed_count(kernel):,} with every shift of every interval"),
    ]


def _state_rows(kernel: Formula, unit: str | None) -> list[tuple[str, ...]]:
    bound = state_bound(kernel)
    return [
        ("memories", _past_words(bound)),
        ("obligations", _obligation_words(bound)),
        ("pending", _pending_words(bound)),
        ("", _waiting_words(bound, decision_delay(kernel), unit)),
    ]


def _past_words(bound: StateBound) -> str:
    if not bound.witnesses:
        return "none: nothing looks back"
    return f"{bound.witnesses:,} past values; equal neighbours are kept as one"


def _obligation_words(bound: StateBound) -> str:
    if not bound.obligations:
        return "none: nothing looks ahead"
    return f"{bound.obligations:,}: one per future operator and time-stamp its interval can span"


def _pending_words(bound: StateBound) -> str:
    if not bound.choices:
        return "none: each time-point is answered at its own event"
    if bound.entries is None:
        entries = f"2^(2^{bound.choices:,}) entries"
    else:
        entries = f"{bound.entries:,} entries"
    if not bound.is_bounded:
        return f"{entries} in all, however many events"
    return f"{entries} per distinct time-stamp, however many events share it"


def _waiting_words(bound: StateBound, delay: int | None, unit: str | None) -> str:
    if not bound.choices or not bound.is_bounded:
        return ""
    if delay is None:
        return "for the time-stamps whose NEXT has not come, and those within reach of it"
    if delay == 0:
        return "for the present time-stamp only"
    return f"for the distinct time-stamps of the last {duration_words(delay, unit)}"


def distance_words(
    interval: Interval, is_past: bool, unit: str | None = None, *, is_brief: bool = False
) -> str:
    """Say which time-points an operator with this interval looks at.

    The words fit after "time-point".

    Args:
        interval: the interval of the operator.
        is_past: whether the operator looks back rather than ahead.
        unit: the unit of time, a key of `mtlmon.syntax.bounds.UNITS`, or None if it is not known.
        is_brief: write `7d` in place of `604800 s (7 d)`, if the unit is known.
    """
    lower, upper = interval.lower, interval.upper
    side = "back" if is_past else "ahead"
    words = brief_words if is_brief else duration_words
    if upper is None:
        if lower:
            return f"{words(lower, unit)} or more {side}"
        return f"however far {side}"
    if upper == 0:
        return "of the same time-stamp"
    if lower == 0:
        return f"up to {words(upper, unit)} {side}"
    if lower == upper:
        return f"exactly {words(upper, unit)} {side}"
    first = words(lower, unit) if is_brief and unit is not None else str(lower)
    return f"{first} to {words(upper, unit)} {side}"


def duration_words(time: int, unit: str | None) -> str:
    """Return a time in its unit, and also in the largest unit that divides it."""
    if unit is None:
        return f"{time} time unit{'' if time == 1 else 's'}"
    text = f"{time} {unit}"
    length = time * UNITS[unit]
    for larger, nanoseconds in reversed(UNITS.items()):
        if length and length % nanoseconds == 0:
            return text if larger == unit else f"{text} ({length // nanoseconds} {larger})"
    return text


def brief_words(time: int, unit: str | None) -> str:
    """Return a time in the largest units, as in `1d 6h`, or in time units."""
    return duration_words(time, None) if unit is None else elapsed_text(time, unit)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows as lines, with their cells aligned in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ((cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [line for row in padded if (line := "  ".join(row).rstrip())]


def _wrapped(names: list[str]) -> list[str]:
    lines: list[str] = []
    for name in names:
        if lines and len(lines[-1]) + len(name) + 2 <= _LINE:
            lines[-1] += f", {name}"
        else:
            if lines:
                lines[-1] += ","
            lines.append(name)
    if len(lines) > _ROW_LIMIT:
        lines = [*lines[:_ROW_LIMIT], "and more"]
    return lines
