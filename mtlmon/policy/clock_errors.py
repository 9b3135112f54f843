"""Finds where streams and policies read what does not exist at their time-points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import PolicyError
from mtlmon.policy.past_formulas import as_expression, future_operator
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.predicates.time_points import ROWS, Changes, TimePoints, Waiting, explained
from mtlmon.policy.validity.declared import shape_of
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mtlmon.errors import FormulaError
    from mtlmon.policy.definitions import Clock, Policy
    from mtlmon.policy.policy_file import PolicyFile
    from mtlmon.policy.predicates.time_points import Period


def clock_errors(file: PolicyFile) -> list[FormulaError]:
    """Return the errors of the streams and policies of a file, whose parts have been read."""
    time_points = TimePoints(
        {name: _period(stream.clock) for name, stream in file.streams.items()},
        lambda name: _definition(file, name),
        file.environment.time,
    )
    errors: list[FormulaError] = []

    def check(expression: Expression, period: Period, what: str, place: int | None) -> None:
        conflict = time_points.conflict(expression, period)
        if conflict is None:
            return
        if place is None:
            span = conflict.read.node.span
            place = 0 if span is None else span.start
        message, hint = explained(conflict, what, file.unit)
        errors.append(
            formula_error(
                file.text, place, message, source=file.source, hint=hint, kind=PolicyError
            )
        )

    for name, stream in file.streams.items():
        condition = None if stream.clock is None else stream.clock.condition
        for expression in (stream.expression, condition):
            if expression is not None and not stream.per:
                check(expression, _period(stream.clock), f"stream {name}", None)
    for policy in file.policies:
        what = "the formula" if policy.name is None else f"policy {policy.name}"
        key = (file.key or ()) if policy.key is None else policy.key
        errors += key_errors(file, policy.clock, key)
        if policy.clock is not None and policy.clock.condition is not None:
            check(policy.clock.condition, ROWS, what, None)
        for name in policy.formula.atoms:
            atom = Expression(ops.ATOM, (), name)
            place = _place_of(name, policy)
            if name in file.atoms and file.atoms[name].name is None:
                # a condition inside the formula
                atom, place = file.atoms[name].expression, None
            check(atom, _period(policy.clock), what, place)
    return errors


def key_errors(
    file: PolicyFile,
    clock: Clock | None,
    key: Iterable[str],
    columns: Collection[str] | None = None,
) -> list[FormulaError]:
    """Return an error if a policy is on changes of a relation without its key.

    Args:
        file: the file of the policy.
        clock: the time-points of the policy.
        key: its key columns.
        columns: the columns of the relation, if more is known of them than the file says.
    """
    if clock is None or not isinstance(clock.period, Changes):
        return []
    owner, name = file.owner_of(clock.period.relation)
    known = shape_of(owner.intervals, name).columns or columns
    missing = [] if known is None else [column for column in key if column not in known]
    if not missing:
        return []
    relation, column = column_text(clock.period.relation), column_text(missing[0])
    message = (
        f"the policy is checked for each {column}, but {column} is not a column of relation "
        f"{relation}, so its changes belong to no {column}"
    )
    hint = (
        "write per none for the changes of the whole relation, or give it the column, as in "
        f"group {column} select ..."
    )
    place = clock.period.place
    return [
        formula_error(file.text, place, message, source=file.source, hint=hint, kind=PolicyError)
    ]


def refused_changes(file: PolicyFile, changes: Changes) -> FormulaError:
    """Return the error that changes of a relation cannot be time-points here."""
    return formula_error(
        file.text,
        changes.place,
        f"a policy on {changes} is not possible here",
        source=file.source,
        hint="policies on changes are for the command, mtlmon.check, and monitor, monitor_stream "
        "and monitor_files of mtlmon.spark",
        kind=PolicyError,
    )


def _period(clock: Clock | None) -> Period:
    if clock is None or clock.period is None or isinstance(clock.period, Waiting):
        return ROWS
    return clock.period


def _definition(file: PolicyFile, name: str) -> Expression | None:
    """The expression of an atom or let; None for an atom of the log, or a let of variables."""
    if name in file.atoms:
        return file.atoms[name].expression
    formula = file.lets.get(name)
    if formula is None or formula.is_first_order or future_operator(formula) is not None:
        return None
    return as_expression(formula, lambda atom: Expression(ops.ATOM, (), atom))


def _place_of(name: str, policy: Policy) -> int | None:
    """The position where an atom occurs first in a policy."""
    for formula in (policy.written, policy.formula):
        spans = [node.span for node in postorder(formula) if node.name == name]
        starts = [span.start for span in spans if span is not None]
        if starts:
            return min(starts)
    return 0
