"""Which streams need which others, and in which order they can be computed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


Name = TypeVar("Name", bound=Hashable)


class Need(NamedTuple, Generic[Name]):
    """That the value of a stream at a row needs another stream.

    Attributes:
        name: the other stream.
        is_past: whether only its values at earlier rows matter.
    """

    name: Name
    is_past: bool


def in_order(needs: Mapping[Name, Iterable[Need[Name]]]) -> list[list[Name]]:
    """Sort streams so that each comes after the ones that it needs.

    Streams that need each other, directly or not, are in one group; all other groups have one
    member. This is Tarjan's algorithm, without recursion.
    """
    groups: list[list[Name]] = []
    number: dict[Name, int] = {}
    lowest: dict[Name, int] = {}
    open_names: dict[Name, None] = {}
    for root in needs:
        if root in number:
            continue
        stack = [(root, iter(needs[root]))]
        number[root] = lowest[root] = len(number)
        open_names[root] = None
        while stack:
            name, rest = stack[-1]
            for need in rest:
                if need.name not in number:
                    number[need.name] = lowest[need.name] = len(number)
                    open_names[need.name] = None
                    stack.append((need.name, iter(needs[need.name])))
                    break
                if need.name in open_names:
                    lowest[name] = min(lowest[name], number[need.name])
            else:
                stack.pop()
                if stack:
                    below = stack[-1][0]
                    lowest[below] = min(lowest[below], lowest[name])
                if lowest[name] == number[name]:
                    group: list[Name] = []
                    while not group or group[-1] != name:
                        group.append(open_names.popitem()[0])
                    groups.append(group[::-1])
    return groups


def is_recursive(group: list[Name], needs: Mapping[Name, Iterable[Need[Name]]]) -> bool:
    """Whether the streams of a group of `in_order` need themselves."""
    return len(group) > 1 or any(need.name == group[0] for need in needs[group[0]])


def present_order(group: list[Name], needs: Mapping[Name, Iterable[Need[Name]]]) -> list[Name]:
    """Sort the streams of a group so that each comes after those whose present value it needs.

    Returns:
        The streams; if some of them need their own present value, only the others.
    """
    members = set(group)
    present = {
        name: [need.name for need in needs[name] if need.name in members and not need.is_past]
        for name in group
    }
    order: list[Name] = []
    done: set[Name] = set()
    while True:
        ready = [
            name for name in group if name not in done and all(one in done for one in present[name])
        ]
        if not ready:
            return order
        order += ready
        done.update(ready)
