"""Policy files and predicates over the columns of tables."""

from __future__ import annotations

from mtlmon.policy.definitions import Policy
from mtlmon.policy.policy_file import PolicyFile
from mtlmon.policy.reading import check_policies, declares, parse_policies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.policy.predicates.compiling import (
        CompiledPredicates,
        compile_predicate,
        compile_predicates,
    )
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.predicate import Predicate, parse_predicate
    from mtlmon.policy.several import check_files, load_policies

__all__ = [
    "CompiledPredicates",
    "Environment",
    "Policy",
    "PolicyFile",
    "Predicate",
    "check_files",
    "check_policies",
    "compile_predicate",
    "compile_predicates",
    "declares",
    "load_policies",
    "parse_policies",
    "parse_predicate",
]


def __getattr__(name: str) -> object:
    # most policy files define no atoms by columns, and need none of these
    if name in {"Predicate", "parse_predicate"}:
        from mtlmon.policy.predicates import predicate

        return getattr(predicate, name)
    if name in {"check_files", "load_policies"}:
        from mtlmon.policy import several

        return getattr(several, name)
    if name == "Environment":
        from mtlmon.policy.predicates.environment import Environment

        return Environment
    if name in {"CompiledPredicates", "compile_predicate", "compile_predicates"}:
        from mtlmon.policy.predicates import compiling

        return getattr(compiling, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
