"""Plans of relations as text: what is made of what, and by which rules a plan was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.validity.declared import shift_text
from mtlmon.relations.algebra import (
    At,
    Coalesce,
    Deletes,
    Distinct,
    DistinctOn,
    Every,
    Group,
    Inserts,
    Intersect,
    Join,
    Minus,
    MinusAll,
    Select,
    Semijoin,
    Shift,
    Source,
    Split,
    Timed,
    Union,
    UnionMax,
    ValidFor,
    ValidLast,
    ValidTo,
    ValidUntil,
    ValidUntilNext,
    Where,
    operands,
)
from mtlmon.syntax.durations import period_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtlmon.relations.algebra import Aggregation, Node
    from mtlmon.relations.evaluation import FoundPlan

__all__ = ["found_plan_text", "plan_line", "plan_text"]

_WORDS: dict[type[Node], str] = {
    Deletes: "deletes of",
    Distinct: "distinct",
    Inserts: "inserts of",
    Intersect: "intersect",
    Minus: "minus",
    MinusAll: "minus all",
    Union: "union",
    UnionMax: "unionmax",
}


def found_plan_text(found: FoundPlan, unit: str | None) -> str:
    """Return a plan as it is declared and as it is evaluated, and the rules in between.

    Args:
        found: the plan.
        unit: the unit of time-stamps; None writes lengths as numbers.
    """
    if not found.rules:
        return f"evaluated as declared:\n{plan_text(found.plan, unit)}"
    rules = [name if count == 1 else f"{name} ({count} times)" for name, count in found.rules]
    return (
        f"declared:\n{plan_text(found.declared, unit)}\n"
        f"evaluated, by the rules {', '.join(rules)}:\n{plan_text(found.plan, unit)}"
    )


def plan_text(node: Node, unit: str | None, depth: int = 1) -> str:
    """Return a plan as lines, each operator above its operands, which are indented."""
    lines: list[str] = []
    stack = [(node, depth)]
    while stack:
        one, level = stack.pop()
        lines.append("  " * level + plan_line(one, unit))
        stack += [(operand, level + 1) for operand in reversed(operands(one))]
    return "\n".join(lines)


def plan_line(node: Node, unit: str | None) -> str:
    """Return an operator as a line, without its operands."""
    if isinstance(node, Source):
        return node.name if node.name == "rows" else f"table {node.name}"
    if isinstance(node, Where):
        return f"where {node.condition}"
    if isinstance(node, Select):
        return f"select {_selected((str(value), name) for name, value in node.values)}"
    if isinstance(node, ValidFor):
        return f"valid {'for ever' if node.length is None else period_text(node.length, unit)}"
    if isinstance(node, ValidTo):
        return f"valid until {node.end}"
    if isinstance(node, ValidUntilNext):
        return f"valid until next {period_text(node.length, unit)}"
    if isinstance(node, ValidUntil | ValidLast):
        per = f" per {', '.join(map(column_text, node.per))}" if node.per else ""
        if isinstance(node, ValidLast):
            return f"valid last {node.count} rows{per}"
        return f"valid until {node.condition}{per}"
    if isinstance(node, Every):
        return f"every {period_text(node.length, unit)}"
    if isinstance(node, Shift):
        return shift_text(node.start, node.end, unit)
    if isinstance(node, Timed):
        times = (("start()", node.start), ("end()", node.end))
        return f"with {' and '.join(word for word, name in times if name is not None)}"
    if isinstance(node, At):
        return f"at {node.time}"
    if isinstance(node, DistinctOn):
        return f"distinct on {', '.join(map(column_text, node.keys)) or 'none'}"
    if isinstance(node, Group):
        keys = "".join(f"{column_text(name)}, " for name in node.keys)[:-2]
        values = _selected((_aggregate(one), one.name) for one in node.values)
        return f"group {keys}{' ' if keys else ''}select {values}"
    if isinstance(node, Join | Semijoin):
        return f"{'join' if isinstance(node, Join) else 'semijoin'} on {node.on}"
    if isinstance(node, Coalesce):
        most = "" if node.longest is None else f" max {period_text(node.longest, unit)}"
        return f"coalesce{most}"
    if isinstance(node, Split):
        return f"split {period_text(node.length, unit)}"
    return _WORDS[type(node)]


def _aggregate(one: Aggregation) -> str:
    share = "" if one.share is None else f", {one.share}"
    return f"{one.word}({'' if one.argument is None else one.argument}{share})"


def _selected(values: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{value} as {column_text(name)}" for value, name in values)
