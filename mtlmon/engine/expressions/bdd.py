"""Boolean functions of obligations that are neither conjunctions nor disjunctions, as BDDs.

The native expression table calls these functions when its own tables have no result; `dd` is
imported only when the first such function appears. Variables are the engine's slots, numbered from
0; a *literal* is `2 * slot`, plus 1 if negated.

A BDD may mention `SUPPORT_LIMIT` obligations, since `dd` recurses once per level; beyond that there
is a `LimitError`. Native cubes and clauses have no such limit.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module

from mtlmon.errors import LimitError, MtlmonError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType
    from typing import Any

    # Neither back end of dd has type annotations.
    Function = Any

BACK_ENDS = ("auto", "cudd", "autoref")
SUPPORT_LIMIT = 4096
"""The most obligations that a BDD may mention, as dd recurses once per level."""

# Python frames that autoref may nest for each level of a BDD, and the frames it needs besides.
_FRAMES_PER_LEVEL = 4
_SPARE_FRAMES = 1000
# The number of autoref's nodes below which garbage is not collected.
_LEAST_COLLECTION = 1 << 15

# The memory of a node with its share of the caches, of a variable, and of an empty manager:
# measured for dd 0.6, as resident memory for cudd and with tracemalloc for autoref.
_CUDD_NODE_BYTES = 64
_AUTOREF_NODE_BYTES = 420
_VARIABLE_BYTES = 2300
_CUDD_BYTES = 450_000


class BackEndError(MtlmonError):
    """The requested BDD library cannot be loaded."""


def load_back_end(choice: str) -> ModuleType:
    """The module of dd to use: `cudd`, `autoref`, or, for `auto`, the better available one."""
    if choice not in BACK_ENDS:
        raise BackEndError(f"unknown BDD back end {choice!r}; choose one of {', '.join(BACK_ENDS)}")
    if choice != "autoref":
        try:
            return import_module("dd.cudd")
        except ImportError as error:
            if choice == "cudd":
                raise BackEndError(
                    f"the BDD back end cudd is not available ({error}); the wheels of dd bring it "
                    "on Linux x86-64 for some versions of Python; use autoref or auto"
                ) from None
    return import_module("dd.autoref")


class Manager:
    """A BDD manager whose variables are slots, declared as they appear."""

    def __init__(self, choice: str) -> None:
        module = load_back_end(choice)
        self.choice = choice
        self._is_cudd = module.__name__.endswith("cudd")
        if self._is_cudd:
            self._bdd = module.BDD(memory_estimate=2**24, initial_cache_size=2**10)
        else:
            self._bdd = module.BDD()
        self._bdd.configure(reordering=False)
        self._collect_at = _LEAST_COLLECTION
        self._names: dict[int, str] = {}
        self._slots: dict[str, int] = {}

    @property
    def held_bytes(self) -> int:
        """The approximate memory of the nodes: their number times the measured size of a node."""
        node_bytes = _CUDD_NODE_BYTES if self._is_cudd else _AUTOREF_NODE_BYTES
        base = _CUDD_BYTES if self._is_cudd else 0
        return base + node_bytes * len(self._bdd) + _VARIABLE_BYTES * len(self._names)

    def cube(self, literals: Sequence[int]) -> Function:
        """The conjunction of the literals."""
        assignment = {self._name(literal >> 1): not literal & 1 for literal in literals}
        self._admit(len(literals))
        return self._bdd.cube(assignment)

    def conjunction(self, left: Function, right: Function, levels: int) -> Function:
        """The conjunction of two functions; `levels` bounds the number of their variables."""
        self._admit(levels)
        return self._tidied(left & right)

    def compose(
        self, function: Function, slots: Sequence[int], images: Sequence[Function], levels: int
    ) -> Function:
        """The function with every slot replaced by its image, simultaneously."""
        names = [self._name(slot) for slot in slots]
        self._admit(levels)
        return self._tidied(self._bdd.let(dict(zip(names, images, strict=True)), function))

    def constant(self, function: Function) -> bool | None:
        """The value of a constant function; None for all other functions."""
        if function == self._bdd.true:
            return True
        return False if function == self._bdd.false else None

    def literals_of_cube(self, function: Function) -> list[int] | None:
        """The sorted literals of a conjunction of literals; None for all other functions."""
        literals = []
        bottom = self._bdd.false
        while function != self._bdd.true:
            low, high = function.low, function.high
            if function.negated:
                low, high = ~low, ~high
            slot = self._slots[function.var]
            if low == bottom:
                literals.append(2 * slot)
                function = high
            elif high == bottom:
                literals.append(2 * slot + 1)
                function = low
            else:
                return None
        return sorted(literals)

    def support(self, function: Function) -> list[int]:
        """The slots the function depends on, sorted."""
        return sorted(self._slots[name] for name in self._bdd.support(function))

    def modulo_chains(self, function: Function, chains: Sequence[Sequence[int]]) -> Function:
        """The unique representative of all functions that agree wherever the chains hold.

        Args:
            function: a function over any slots.
            chains: lists of slots of the function's support; in each list, every slot implies the
                next.

        First, every slot is replaced by the disjunction of the slots up to it in its chain, which
        gives a forbidden assignment the value of a permitted one. Then a slot is dropped if the
        function is the same whether it or the slot after it is the first true one of its chain.
        """
        named_chains = [[self._name(slot) for slot in chain] for chain in chains]
        self._admit(len(self._bdd.support(function)))
        closure = {}
        for names in named_chains:
            reached = self._bdd.false
            for name in names:
                reached |= self._bdd.var(name)
                closure[name] = reached
        function = self._bdd.let(closure, function)
        dropped = [name for names in named_chains for name in self._idle(function, names)]
        if dropped:
            function = self._bdd.let(dict.fromkeys(dropped, False), function)
        return self._tidied(function)

    def _idle(self, function: Function, names: Sequence[str]) -> list[str]:
        """The variables of a chain that are redundant in a function that is closed under it."""
        idle = []
        not_before = function
        for name, after in zip(names, [*names[1:], None], strict=True):
            if_first = self._bdd.let({name: True}, not_before)
            not_before = self._bdd.let({name: False}, not_before)
            if_next = self._bdd.let({after: True}, not_before) if after else not_before
            if if_first == if_next:
                idle.append(name)
        return idle

    def copy(self, function: Function, target: Manager, slots: Sequence[int]) -> Function:
        """Copy a function to the given slots in another manager."""
        for slot in slots:
            target._name(slot)
        self._admit(len(slots))
        return self._bdd.copy(function, target._bdd)

    def export(self, function: Function) -> tuple[list[tuple[int, int, int]], int]:
        """The nodes (slot, low, high) of a function, operands first, and a reference to it.

        A reference is twice the position in that list, where the first is 1, plus 1 for the
        negation; position 0 is the constant false. The result depends on the order in which slots
        were declared, but not on the back end.
        """
        nodes: list[tuple[int, int, int]] = []
        places: dict[int, int] = {}

        def reference(function: Function) -> int | None:
            """The reference of a function, if its nodes are listed."""
            value = self.constant(function)
            if value is not None:
                return int(value)
            place = places.get(int(_regular(function)))
            return None if place is None else 2 * place + function.negated

        stack = [_regular(function)]
        while stack:
            node = stack[-1]
            low, high = reference(node.low), reference(node.high)
            if int(node) in places:
                stack.pop()
            elif low is None:
                stack.append(_regular(node.low))
            elif high is None:
                stack.append(_regular(node.high))
            else:
                nodes.append((self._slots[node.var], low, high))
                places[int(node)] = len(nodes)
                stack.pop()
        root = reference(function)
        assert root is not None
        return nodes, root

    def build(self, nodes: Sequence[tuple[int, int, int]], root: int) -> Function:
        """Rebuild a function that `export` has written, from nodes that refer to earlier ones."""
        functions = [self._bdd.false]

        def function_at(reference: int) -> Function:
            function = functions[reference >> 1]
            return ~function if reference & 1 else function

        self._admit(len({slot for slot, _, _ in nodes}))
        for slot, low, high in nodes:
            variable = self._bdd.var(self._name(slot))
            functions.append(self._bdd.ite(variable, function_at(high), function_at(low)))
        return function_at(root)

    def in_order(self, slots: Iterable[int]) -> list[int]:
        """The slots in the order of their levels; `declare` gives a new manager the same order."""
        return sorted(slots, key=lambda slot: self._bdd.level_of_var(self._names[slot]))

    def declare(self, slots: Iterable[int]) -> None:
        """Assign the next levels, in this order, to the slots that are not known yet."""
        for slot in slots:
            self._name(slot)

    def give_up_counting(self) -> None:
        """After an error in an operation, stop counting references: the manager keeps its nodes.

        autoref counts the references to a node in Python. After an interrupt, the counts may be
        wrong, and autoref complains on stderr when it deletes functions and itself.
        """
        if not self._is_cudd:
            self._bdd._bdd.__class__ = _uncounted()
            self._collect_at = sys.maxsize

    def _name(self, slot: int) -> str:
        name = self._names.get(slot)
        if name is None:
            name = self._names[slot] = f"s{slot}"
            self._slots[name] = slot
            self._bdd.declare(name)
        return name

    def _admit(self, levels: int) -> None:
        """Make room for a recursion over so many levels of a BDD, or refuse it."""
        if levels > SUPPORT_LIMIT:
            raise LimitError(
                f"an undecided time-point depends on more than {SUPPORT_LIMIT} obligations at "
                "once, too many for a BDD; use a smaller interval or a coarser time unit"
            )
        frames = _SPARE_FRAMES + _FRAMES_PER_LEVEL * levels
        # Never lowered again: another thread may be in the middle of such a recursion.
        if not self._is_cudd and sys.getrecursionlimit() < frames:
            sys.setrecursionlimit(frames)

    def _tidied(self, function: Function) -> Function:
        """Return the function, after removing dead nodes if there may be many."""
        # cudd collects garbage by itself, autoref only on request; autoref's memo of operations is
        # cleared too.
        if not self._is_cudd and len(self._bdd) > self._collect_at:
            self._bdd.collect_garbage()
            self._collect_at = max(_LEAST_COLLECTION, 4 * len(self._bdd))
        return function


@cache
def _uncounted() -> type:
    """autoref's manager class, without reference counts."""
    from dd.bdd import BDD

    class Uncounted(BDD):
        def decref(self, *_arguments: object, **_options: object) -> None:
            """Keep the node."""

        def __del__(self) -> None:
            """Check nothing."""

    return Uncounted


def _regular(function: Function) -> Function:
    """The library's stored one of a function and its negation."""
    return ~function if function.negated else function
