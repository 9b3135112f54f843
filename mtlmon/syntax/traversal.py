"""Ways through a formula that neither recurse nor walk a shared subformula twice."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.syntax.formula import Formula


def postorder(formula: Formula) -> list[Formula]:
    """Every node object once, operands before operators, left before right."""
    order: list[Formula] = []
    seen: set[int] = set()
    # None says that the operands of the node below it are done.
    stack: list[Formula | None] = [formula]
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
    representatives: list[Formula] = []
    number_of: dict[int, int] = {}
    known: dict[tuple[object, ...], int] = {}
    for node in postorder(formula):
        operands = tuple(number_of[id(operand)] for operand in node.operands)
        key = (node.operator, operands, node.interval, node.name)
        found = known.setdefault(key, len(representatives))
        if found == len(representatives):
            representatives.append(node)
        number_of[id(node)] = found
    return representatives, number_of
