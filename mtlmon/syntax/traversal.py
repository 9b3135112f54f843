"""Traverses formulas and similar trees without recursion; shared parts are visited once."""

from __future__ import annotations

from mtlmon.syntax.native import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, Self, TypeVar

    from mtlmon.syntax.formula import Formula

    class Tree(Protocol):
        """A node with operands, which can be shared."""

        @property
        def operands(self) -> tuple[Self, ...]: ...

    class Operation(Tree, Protocol):
        """A node that says what its operands are operands of."""

        @property
        def operator(self) -> object: ...

    Node = TypeVar("Node", bound=Tree)
    OperationNode = TypeVar("OperationNode", bound=Operation)

__all__ = ["number", "number_by", "operands_of_nested", "postorder"]


def operands_of_nested(root: OperationNode, operator: object) -> list[OperationNode]:
    """Return the operands of an associative operator that is nested, from left to right.

    For another operator, this is the root.
    """
    found: list[OperationNode] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.operator is operator:
            stack += reversed(node.operands)
        else:
            found.append(node)
    return found


def number(formula: Formula) -> tuple[list[Formula], dict[int, int]]:
    """Number the distinct subformulas.

    Subformulas that are equal except for their spans get the same number. Operands come before
    operators, and `formula` comes last.

    Returns:
        A representative for each number, in order, and the number of every node by its `id`, valid
        as long as `formula` exists.
    """
    return number_by(lambda node: node.content(), formula)


def number_by(content: Callable[[Node], object], *roots: Node) -> tuple[list[Node], dict[int, int]]:
    """Number the distinct subtrees of any trees.

    Nodes with equal operands and equal content get the same number.

    Args:
        content: gives everything about a node except its operands, as a hashable value.
        roots: the trees.

    Returns:
        A representative for each number, in order, and the number of every node by its `id`.
    """
    representatives: list[Node] = []
    number_of: dict[int, int] = {}
    known: dict[object, int] = {}
    for node in postorder(*roots):
        operands = tuple(number_of[id(operand)] for operand in node.operands)
        found = known.setdefault((content(node), operands), len(representatives))
        if found == len(representatives):
            representatives.append(node)
        number_of[id(node)] = found
    return representatives, number_of
