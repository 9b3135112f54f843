"""Reads what is asserted: a formula, a formula with conditions, or a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import FormulaError, MtlmonError
from mtlmon.syntax.bounds import LATER
from mtlmon.syntax.conditions import written_with_conditions
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.parser import parse

if TYPE_CHECKING:
    from mtlmon.policy import Policy, PolicyFile
    from mtlmon.policy.predicates.own_machines import Machine
    from mtlmon.testing.policy_parameters import PolicyParameter

    Asserted = Formula | str | PolicyFile | PolicyParameter | Mapping[str, type[Machine]]

__all__ = ["Subject", "read_formula", "read_subject"]


class Subject(NamedTuple):
    """What is asserted of a trace.

    Attributes:
        formula: the formula.
        file: the policy file that it is from, or None.
        unit: the unit of the time-stamps, or None.
        key: the columns whose values divide the events into traces; () if it has none.
        time: the name of a table's column of time-stamps that the file declares, or None.
        zone: the time zone of dates and times without one: the `time zone` that the file declares,
            or else its `zone`, or None.
        title: the name of the policy, and its text if it has one; empty for a formula.
    """

    formula: Formula
    file: PolicyFile | None = None
    unit: str | None = None
    key: tuple[str, ...] = ()
    time: str | None = None
    zone: str | None = None
    title: str = ""

    @property
    def has_conditions(self) -> bool:
        """Whether atoms of the formula are conditions on values."""
        return self.file is not None and not set(self.file.atoms).isdisjoint(self.formula.atoms)

    @property
    def policy(self) -> Policy | None:
        """The policy of the file; None for a formula."""
        return None if self.file is None else self.file.policies[0]

    @property
    def has_share(self) -> bool:
        """Whether it is a policy `at most 1%`."""
        return self.policy is not None and self.policy.tolerance is not None

    @property
    def has_variables(self) -> bool:
        """Whether it is a policy with variables."""
        return self.formula.is_first_order


def read_subject(
    formula: Asserted,
    unit: str | None = None,
    default_unit: str | None = None,
    *,
    constants: Mapping[str, object] | None = None,
    has_log: bool = False,
) -> Subject:
    """Read what is asserted.

    Args:
        formula: a `Formula`, a text that `parse` accepts, a formula with conditions, a policy file
            with one policy, as a text or as it has been read, one of `policies()`, or a dictionary
            of one machine.
        unit: the unit of the time-stamps.
        default_unit: the unit of the time-stamps if nothing says another.
        constants: other values for constants of a policy file that is a text.
        has_log: whether the trace is a whole log, which can have ticks.

    Raises:
        FormulaError, UnitError, TypeError: as `read_formula` does.
        MtlmonError: the text has several policies, or needs a whole log, or it is none that could
            have constants.
    """
    __tracebackhide__ = True
    if constants and not isinstance(formula, str):
        raise MtlmonError(
            "set= is for the text of a policy file: policies() takes constants, as well"
        )
    if isinstance(formula, Mapping):
        from mtlmon.policy.predicates.own_machines import machine_policies

        formula = machine_policies(formula)
    if not isinstance(formula, (Formula, str)):
        from mtlmon.policy import PolicyFile

        file = getattr(formula, "file", formula)
        if isinstance(file, PolicyFile):
            return subject_of(file, unit, default_unit, has_log=has_log)
    if isinstance(formula, Formula):
        if formula.is_first_order:
            formula = written_with_conditions(formula) or str(formula)
        else:
            formula = written_with_conditions(formula) or formula
    try:
        found = unit or default_unit
        return Subject(read_formula(formula, found), unit=found)  # type: ignore[arg-type]
    except FormulaError:
        if not isinstance(formula, str):
            raise
    from mtlmon.policy import parse_policies

    texts = {}
    if constants:
        from mtlmon.run.keywords import constant_text

        texts = {name: constant_text(value) for name, value in constants.items()}
    try:
        later = unit or (default_unit and LATER)
        file = parse_policies(formula, "<formula>", unit=later, constants=texts)
        if file.unit == LATER:
            file = parse_policies(formula, "<formula>", unit=default_unit, constants=texts)
        return subject_of(file, unit, has_log=has_log)
    except MtlmonError as error:
        raise error.with_traceback(None) from None


def subject_of(
    file: PolicyFile,
    unit: str | None = None,
    default_unit: str | None = None,
    *,
    has_log: bool = False,
) -> Subject:
    """Return what a policy file with one policy asserts.

    The arguments are those of `read_subject`.

    Raises:
        MtlmonError: the file has several policies, has another unit, or needs a whole log.
    """
    if None not in (unit, file.unit) and unit != file.unit:
        raise MtlmonError(
            f"the policy file has the unit {file.unit}, but unit={unit!r}: leave out unit="
        )
    if len(file.policies) != 1:
        raise MtlmonError(
            f"the text has {len(file.policies)} policies, but a trace is checked against one: "
            "mtlmon.testing.policies() makes a parameter of each, and mtlmon.check takes several"
        )
    (policy,) = file.policies
    _require_assertion(policy, has_log=has_log)
    formula = policy.formula
    key = (file.key or ()) if policy.key is None else policy.key
    title = policy.name or ""
    if policy.text:
        title = f"{title}: {policy.text}" if title else policy.text
    if policy.lasting is not None:
        lasts = policy.lasting_text(file.unit or unit or default_unit)
        title = f"{title}, {lasts}" if title else lasts
    return Subject(
        formula,
        file,
        file.unit or unit or default_unit,
        key,
        file.time,
        file.time_zone or file.zone,
        title,
    )


def _require_assertion(policy: Policy, *, has_log: bool) -> None:
    """Refuse what cannot be asserted of a trace.

    Raises:
        MtlmonError: the policy only looks for something, or has ticks, which events have not.
    """
    if policy.is_find:
        raise MtlmonError(
            f"find {policy.name} says what is looked for, so no trace violates it: write a policy, "
            "or use RelationalMonitor"
        )
    if policy.clock is not None and not has_log:
        raise MtlmonError(
            f"the policy is on {policy.clock}, but a trace has events only: use a file or a table, "
            "or mtlmon.check"
        )


def read_formula(formula: Formula | str, unit: str | None = None) -> Formula:
    """Make a formula for time-stamps in a unit, from a text or a `Formula`.

    Raises:
        FormulaError: the text is not a formula, or a bound is not a whole number of units.
        UnitError: a bound has a unit but the time-stamps have none, or the unit is unknown.
        TypeError: `formula` is neither a text nor a `Formula`.
    """
    __tracebackhide__ = True
    if not isinstance(formula, (str, Formula)):
        raise TypeError(f"a formula is a text or a Formula, not {type(formula).__name__}")
    try:
        if isinstance(formula, str):
            return parse(formula, unit=unit)
        return formula if unit is None else formula.in_unit(unit)
    except MtlmonError as error:
        # A test that shows the error does not need the frames of the parser.
        raise error.with_traceback(None) from None
