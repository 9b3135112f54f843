"""Policies as they are sent to executors: compiled once, with the predicates of their atoms."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from mtlmon._core import Monitor
from mtlmon._program import Program
from mtlmon.compile import compile_formula
from mtlmon.errors import MtlmonError
from mtlmon.policy import PolicyFile, parse_policies
from mtlmon.syntax.formula import Formula

if TYPE_CHECKING:
    from mtlmon.policy import Predicate

PolicyLike: TypeAlias = str | os.PathLike[str] | Formula | Program | PolicyFile
"""A formula or the content of a policy file as text, the path of such a file, or either of these
read already."""

Mode: TypeAlias = Literal["local", "global", "naive"]


class CompiledPolicy(NamedTuple):
    """A policy of a file.

    Attributes:
        name: its name, None for a formula without one.
        program: the formula, compiled.
    """

    name: str | None
    program: Program


class Policies(NamedTuple):
    """Policies that are monitored together; picklable.

    Attributes:
        policies: in the order of the file.
        atoms: of all of them.
        predicates: for the atoms that are defined by what columns say, by name.
        unit: of time-stamps, None if that is not said.
        mode: of the monitors.
    """

    policies: tuple[CompiledPolicy, ...]
    atoms: tuple[str, ...]
    predicates: dict[str, Predicate]
    unit: str | None
    mode: Mode


def compile_policies(policy: PolicyLike, mode: Mode, unit: str | None = None) -> Policies:
    """Read and compile what a caller calls a policy.

    Args:
        policy: a formula or a policy file, as text, as path or read already.
        mode: "local", "global" or "naive".
        unit: of the time-stamps, where the policy has none.

    Raises:
        FormulaError: it cannot be read; the error says where and why.
        MtlmonError: unknown mode.
        UnitError: unknown unit, or one for a Program.
        OSError: there is no such file.
        TypeError: it is of another type.
    """
    if isinstance(policy, Program):
        compiled = [CompiledPolicy(None, policy)]
        predicates: dict[str, Predicate] = {}
    elif isinstance(policy, Formula):
        compiled = [CompiledPolicy(None, compile_formula(policy, unit=unit))]
        predicates = {}
    else:
        file = _policy_file(policy, unit)
        unit = unit if file.unit is None else file.unit
        compiled = [
            CompiledPolicy(one.name, compile_formula(one.formula, unit=unit))
            for one in file.policies
        ]
        predicates = file.predicates
    if not compiled:
        raise MtlmonError("there is no policy to monitor")
    # a wrong mode is found here rather than on executors
    Monitor(compiled[0].program, mode)
    atoms = tuple(dict.fromkeys(name for one in compiled for name in one.program.atoms))
    predicates = {name: predicates[name] for name in atoms if name in predicates}
    return Policies(tuple(compiled), atoms, predicates, unit, mode)


def _policy_file(policy: object, unit: str | None) -> PolicyFile:
    if isinstance(policy, PolicyFile):
        return policy
    if isinstance(policy, str):
        return parse_policies(policy, "<policy>", unit=unit)
    if isinstance(policy, os.PathLike):
        path = os.fspath(policy)
        return parse_policies(Path(path).read_text(encoding="utf-8"), path, unit=unit)
    raise TypeError(
        f"a policy is a formula, a policy file, or the path of one, not {type(policy).__name__}"
    )
