"""Compiles policies and the predicates of their atoms, to send them to executors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from mtlmon._core import Monitor
from mtlmon.engine.compile import compile_formula
from mtlmon.engine.native import Program
from mtlmon.errors import MtlmonError, PolicyError, UnitError
from mtlmon.policy import PolicyFile, parse_policies
from mtlmon.policy.needs import needs_of, refuse_clocks, refuse_first_order
from mtlmon.policy.reading import DEFAULT_TIME
from mtlmon.syntax.bounds import LATER
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.rewrite import has_durations
from mtlmon.tables.columns.times import Times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtlmon.policy import Predicate

PolicyLike: TypeAlias = str | os.PathLike[str] | Formula | Program | PolicyFile
"""A formula or the content of a policy file as text, the path of such a file, or a parsed formula
or policy file."""

Mode: TypeAlias = Literal["local", "global", "naive"]

# the suffixes of policy files
_SUFFIXES = (".mtl", ".policy", ".policies", ".txt")


class CompiledPolicy(NamedTuple):
    """A policy of a file.

    Attributes:
        name: the name of the policy, or None for a formula without a name.
        program: the compiled formula.
        key: the key columns that the policy names; None if it has the key of the run.
    """

    name: str | None
    program: Program
    key: tuple[str, ...] | None = None


class Policies(NamedTuple):
    """Policies that are monitored together; picklable.

    Attributes:
        policies: the policies in the order of the file.
        atoms: the atoms of all policies, and those of the log that conditions on other rows need.
        predicates: the predicates by the name of the atom that they define, without `remembering`.
        unit: the unit of time-stamps, or None if it is not declared.
        mode: the mode of the monitors.
        file: the policy file, or None if there is only a formula.
        remembering: the atoms that depend on other rows, or on other atoms.
        log_atoms: the atoms of the log that these need.
        columns: the columns that all atoms need.
    """

    policies: tuple[CompiledPolicy, ...]
    atoms: tuple[str, ...]
    predicates: dict[str, Predicate]
    unit: str | None
    mode: Mode
    file: PolicyFile | None = None
    remembering: tuple[str, ...] = ()
    log_atoms: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns that the file names."""
        return () if self.file is None else self.file.key or ()

    def time_column(self, given: str | None) -> str:
        """Return the column of times: the one that is given, or else that of the file."""
        declared = None if self.file is None else self.file.time
        return given or declared or DEFAULT_TIME

    def event_column(self, given: str | None) -> str | None:
        """Return the column of names of events: the one that is given, or else that of the file."""
        return given if given is not None or self.file is None else self.file.event

    def refuse_streams(self, function: str) -> None:
        """Refuse conditions that depend on other rows, for a function that cannot evaluate them.

        Raises:
            MtlmonError: there is one.
        """
        if self.remembering:
            raise MtlmonError(
                f"the condition {self.remembering[0]} depends on other rows, which {function} does "
                "not support: use mtlmon.spark.monitor, or compute it as a column before"
            )


def compile_policies(
    policy: PolicyLike,
    mode: Mode,
    resolution: str | None = None,
    time_unit: str | None = None,
    *,
    has_keys: bool = False,
) -> Policies:
    """Parse and compile the policy that a caller gives.

    Args:
        policy: a formula or a policy file: as text, as a path, or parsed.
        mode: "local", "global" or "naive".
        resolution: the unit of the time-stamps, if the policy does not declare it.
        time_unit: the unit of times that are integers; it is also the unit of time-stamps if there
            is no other.
        has_keys: whether policies can have keys of their own.

    Raises:
        FormulaError: the policy is invalid; the error says where and why.
        MtlmonError: the mode is unknown, a text is the path of a file, or a policy has a key of its
            own although `has_keys` is false.
        UnitError: a unit is unknown, or a bound has a unit but time-stamps have none.
        OSError: there is no such file.
        TypeError: the policy has another type.
    """
    # check the units first, whatever the policy is
    Times(time_unit, None, resolution)
    unit = resolution
    file: PolicyFile | None = None
    if isinstance(policy, Program):
        compiled = [CompiledPolicy(None, policy)]
    elif isinstance(policy, Formula):
        compiled = [_compiled(None, policy, unit or time_unit)]
    else:
        file = _policy_file(policy, unit or LATER)
        _refuse_pattern(file)
        refuse_clocks(file.policies)
        refuse_first_order(file.policies)
        if not has_keys:
            _refuse_keys(file)
        unit = unit if file.unit in (None, LATER) else file.unit
        compiled = [
            _compiled(one.name, one.formula, unit or time_unit)._replace(key=one.key)
            for one in file.policies
        ]
    if not compiled:
        raise MtlmonError("there is no policy to monitor")
    if not isinstance(mode, str):
        raise MtlmonError(f"mode is 'local', 'global' or 'naive', not {mode!r}")
    # find an invalid mode here rather than on executors
    Monitor(compiled[0].program, mode)
    atoms = tuple(dict.fromkeys(name for one in compiled for name in one.program.atoms))
    if file is None:
        return Policies(tuple(compiled), atoms, {}, unit, mode)
    needs = needs_of(file, atoms)
    _refuse_other_streams(file, needs.streams)
    predicates = {
        name: file.atoms[name]
        for name in atoms
        if name in file.atoms and name not in needs.remembering
    }
    atoms = (*atoms, *(name for name in needs.log_atoms if name not in atoms))
    return Policies(
        tuple(compiled),
        atoms,
        predicates,
        unit,
        mode,
        file,
        needs.remembering,
        needs.log_atoms if needs.remembering else (),
        needs.columns,
    )


def _compiled(name: str | None, formula: Formula, unit: str | None) -> CompiledPolicy:
    if unit is None and has_durations(formula):
        policy = "the policy" if name is None else f"the policy {name!r}"
        raise UnitError(
            f"{policy} has bounds with units of time, and the unit of time-stamps is not known: "
            "say it with resolution='s', or with a line 'unit s' in the policy"
        )
    return CompiledPolicy(name, compile_formula(formula, unit=unit))


def _policy_file(policy: object, unit: str) -> PolicyFile:
    if isinstance(policy, PolicyFile):
        return policy
    if isinstance(policy, str):
        _refuse_path(policy)
        return parse_policies(policy, "<policy>", unit=unit)
    if isinstance(policy, os.PathLike):
        path = os.fspath(policy)
        return parse_policies(Path(path).read_text(encoding="utf-8"), path, unit=unit)
    raise TypeError(
        f"a policy is a formula, a policy file, or the path of one, not {type(policy).__name__}"
    )


def _refuse_other_streams(file: PolicyFile, streams: Iterable[str]) -> None:
    """Refuse streams with ticks or instances.

    Raises:
        PolicyError: one of the streams is such a stream.
    """
    for name in sorted(streams):
        stream = file.streams[name]
        has_ticks = stream.clock is not None and stream.clock.period is not None
        if has_ticks or stream.per:
            clause = "every" if has_ticks else "per"
            raise formula_error(
                file.text,
                stream.place,
                f"stream {name} has the clause {clause}, which Spark does not support",
                source=file.source,
                hint="use the command or check_tables, or streams with values at rows",
                kind=PolicyError,
            )


def _refuse_pattern(file: PolicyFile) -> None:
    """Refuse a pattern for lines, as Spark's rows have columns already.

    Raises:
        MtlmonError: the file has one.
    """
    if file.pattern is not None:
        raise MtlmonError(
            "the policy file has a line with pattern, which is not possible in Spark: extract "
            "columns before (pyspark.sql.functions.regexp_extract)"
        )


def _refuse_keys(file: PolicyFile) -> None:
    """Refuse policies with keys of their own.

    Raises:
        MtlmonError: a policy has one.
    """
    if file.key:
        raise MtlmonError(
            "the policy file has a line with key, which only mtlmon.spark.monitor and "
            "monitor_stream support"
        )
    for policy in file.policies:
        if policy.key is not None:
            raise MtlmonError(
                f"the policy {policy.name!r} has a key of its own, which only mtlmon.spark.monitor "
                "and monitor_stream support"
            )


def _refuse_path(text: str) -> None:
    """Refuse a text that is the path of a policy file rather than its content.

    Raises:
        MtlmonError: the text looks like a path.
    """
    word = text.strip()
    if not word or len(word.split()) > 1:
        return
    if Path(word).suffix in _SUFFIXES or os.path.isfile(word):
        raise MtlmonError(
            f"the policy {word!r} is a text that looks like a path: pass pathlib.Path({word!r}) "
            "for the content of the file"
        )
