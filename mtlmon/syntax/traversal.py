"""Ways through a formula, or the like, that neither recurse nor walk a shared part twice."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, Self, TypeVar

    from mtlmon.syntax.formula import Formula

    class Tree(Protocol):
        """A node with its parts, which may be shared."""

        @property
        def operands(self) -> tuple[Self, ...]: ...

    Node = TypeVar("Node", bound=Tree)


def postorder(*roots: Node) -> list[Node]:
    """Every node object once, operands before operators, left before right."""
    order: list[Node] = []
    seen: set[int] = set()
    # None says that the operands of the node below it are done.
    stack: list[Node | None] = [*roots[::-1]]
    while stack:
        node = stack.pop()
        if node is None:
            finished = stack.pop()
            assert finished is not None
            order.append(finished)
        elif id(node) not in seen:
            seen.add(id(node))
            if node.operands:
                stack += (node, None, *node.operands[::-1])
            else:
                order.append(node)
    return order


def number(formula: Formula) -> tuple[list[Formula], dict[int, int]]:
    """The distinct subformulas, and where each node stands among them.

    Equal subformulas (spans aside) get one number; operands come before operators, `formula` last.

    Returns:
        A representative of each distinct subformula in order of its number, and the number of
        every node by its `id`, valid as long as `formula` lives.
    """
    return number_by(_content, formula)


def number_by(content: Callable[[Node], object], *roots: Node) -> tuple[list[Node], dict[int, int]]:
    """The same for any trees: those of equal operands and equal content get one number.

    Args:
        content: what a node is besides its operands; hashable.
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


def _content(formula: Formula) -> object:
    return formula.operator, formula.interval, formula.name
