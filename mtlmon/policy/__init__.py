"""Policy files and predicates over the columns of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicate import Predicate, parse_predicate
from mtlmon.policy.reading import Policy, PolicyFile, check_policies, declares, parse_policies

if TYPE_CHECKING:
    from mtlmon.policy.compiling import CompiledPredicates, compile_predicate, compile_predicates

__all__ = [
    "CompiledPredicates",
    "Policy",
    "PolicyFile",
    "Predicate",
    "check_policies",
    "compile_predicate",
    "compile_predicates",
    "declares",
    "parse_policies",
    "parse_predicate",
]


def __getattr__(name: str) -> object:
    # compiling needs pyarrow
    if name in {"CompiledPredicates", "compile_predicate", "compile_predicates"}:
        from mtlmon.policy import compiling

        return getattr(compiling, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
