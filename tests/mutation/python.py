"""Mutants of Python, made by the operators of cosmic-ray.

Only its operators are used. Its sessions write each mutant over the file in the tree, where the
tests of an installed package do not see it, and know no native modules; mutmut copies the tree
and runs the tests there, which fails for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import parso
from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

from tests.mutation.mutants import lines_near

_NAMES = (
    "NumberReplacer",
    "AddNot",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ZeroIterationForLoop",
    "ReplaceUnaryOperator_Delete_Not",
    # Of the operators between two operands, the ones that are nearest to each other.
    "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_LtE_Lt",
    "ReplaceComparisonOperator_Gt_GtE",
    "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Eq_NotEq",
    "ReplaceComparisonOperator_NotEq_Eq",
    "ReplaceComparisonOperator_Is_IsNot",
    "ReplaceComparisonOperator_IsNot_Is",
    "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_Sub_Add",
    "ReplaceBinaryOperator_BitAnd_BitOr",
    "ReplaceBinaryOperator_BitOr_BitAnd",
    "ReplaceBinaryOperator_LShift_RShift",
    "ReplaceBinaryOperator_RShift_LShift",
)


class DropStatement(Operator):  # type: ignore[misc]
    """Replaces a statement by `pass`, which cosmic-ray has no operator for."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.type == "simple_stmt" and parso.tree.search_ancestor(node, "funcdef"):
            statement = node.children[0]
            kept = ("import_name", "import_from", "string", "global_stmt", "nonlocal_stmt")
            if statement.type not in kept and statement.get_code().strip() != "pass":
                yield statement.start_pos, statement.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        statement = node.children[0]
        dropped = parso.python.tree.Keyword("pass", statement.start_pos)
        dropped.prefix = statement.get_first_leaf().prefix
        node.children[0] = dropped
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class _Place(NamedTuple):
    """What an operator can change: by its number among all of them in a text.

    told: the operator, the line with those near to it, and which place in the line.
    line: the line alone, without indentation.
    """

    operator: Operator
    number: int
    told: str
    line: str


class _Counting(Visitor):  # type: ignore[misc]
    """Finds the places of all operators, without changing any."""

    def __init__(self, source: str) -> None:
        self._lines = source.splitlines()
        self._operators = [*(get_operator(f"core/{name}")() for name in _NAMES), DropStatement()]
        self._counts = [0] * len(self._operators)
        self.places: list[_Place] = []

    def visit(self, node: Any) -> Any:
        for at, operator in enumerate(self._operators):
            for which, _ in enumerate(operator.mutation_positions(node)):
                if not (_is_annotation(node) or _is_for_types(node)):
                    told = f"{type(operator).__name__} {which} {self._place(node)}"
                    line = self._lines[node.start_pos[0] - 1].strip()
                    self.places.append(_Place(operator, self._counts[at], told, line))
                self._counts[at] += 1
        return node

    def _place(self, node: Any) -> str:
        line, column = node.start_pos
        text = self._lines[line - 1]
        column -= len(text) - len(text.lstrip())
        return f"{column} {text.strip()}\n{lines_near(self._lines, line - 1, line)}"


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """The name of an operator and the whole text after it, for every mutant of a module."""
    seen = {source}
    for place in places(source):
        made = mutant(source, place)
        if made is not None and made[1] not in seen:
            seen.add(made[1])
            yield made


def places(source: str) -> list[_Place]:
    """Where mutants may be: to make them all takes minutes, to find them a part of a second."""
    counting = _Counting(source)
    counting.walk(get_ast(source))
    return counting.places


def mutant(source: str, place: _Place) -> tuple[str, str] | None:
    """That of a place, None if the operator has none there after all."""
    text = MutationVisitor.mutate_code(source, place.operator, place.number)
    return None if text is None else (type(place.operator).__name__, text)


def _is_for_types(node: Any) -> bool:
    """The condition of a block that only type checkers read."""
    text: str = node.get_code(include_prefix=False)
    return "TYPE_CHECKING" in text.partition("\n")[0]


def _is_annotation(node: Any) -> bool:
    """Annotations are not evaluated here: every module postpones them."""
    while node.parent is not None:
        parent = node.parent
        if parent.type == "annassign" and node is parent.children[1]:
            return True
        if parent.type == "tfpdef" and node is parent.children[2]:
            return True
        if parent.type == "funcdef" and node is parent.annotation:
            return True
        node = parent
    return False
