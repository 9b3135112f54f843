"""Proofs that a formula holds or fails at a time-point: the data types."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.explanation.trace import Trace
    from mtlmon.syntax.formula import Formula

__all__ = ["Proof", "Rule", "Run"]


class Rule(Enum):
    """Why a formula has its value: how a proof's premises make its conclusion.

    Operators come in pairs of duals, so one rule has two readings: what makes ONCE hold makes
    HISTORICALLY fail.
    """

    CONSTANT = "constant"
    """TRUE holds, FALSE fails."""

    ATOM = "atom"
    """The event has the atom, or has it not."""

    BOOLEAN = "boolean"
    """The values of the operands that settle a Boolean operator."""

    NO_NEIGHBOUR = "no neighbour"
    """PREVIOUS at the first time-point fails; so does NEXT at the last of a closed stream."""

    OUTSIDE = "outside"
    """PREVIOUS and NEXT fail as the neighbour is at a distance outside their interval."""

    NEIGHBOUR = "neighbour"
    """The value of the operand of PREVIOUS and NEXT at the neighbour."""

    WITNESS = "witness"
    """One time-point of the interval settles the operator; the run leads there.

    ONCE holds as its operand does there; `f SINCE g` holds as g does there, and f ever since;
    ALWAYS fails as its operand fails there; `f RELEASE g` fails as g fails there, and f up to then.
    """

    WINDOW = "window"
    """Every time-point of the interval is in the run, and none is a witness.

    ONCE fails as its operand fails at each, ALWAYS holds as its operand holds at each.
    """

    CUT = "cut"
    """The premise cuts off what lies behind it, the run is the part of the interval before.

    `f SINCE g` fails as f fails there and g has failed since; `f RELEASE g` holds as f releases
    there and g holds up to then.
    """

    EVERYWHERE = "everywhere"
    """The constants of the operands settle the operator at every time-point of every stream."""


class Run(Sequence["Proof"]):
    """Proofs for consecutive time-points, a part of a list that many proofs share."""

    __slots__ = ("_proofs", "_start", "_stop")

    def __init__(self, proofs: Sequence[Proof | None], start: int, stop: int) -> None:
        """`proofs[start:stop]`, none of which is None."""
        self._proofs = proofs
        self._start = start
        self._stop = max(start, stop)

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, index: int) -> Proof: ...

    @overload
    def __getitem__(self, index: slice) -> Run: ...

    def __getitem__(self, index: int | slice) -> Proof | Run:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise ValueError("a run has no parts but consecutive ones")
            return Run(self._proofs, self._start + start, self._start + stop)
        proof = self._proofs[range(self._start, self._stop)[index]]
        assert proof is not None
        return proof


class Proof:
    """A formula holds, or fails, at a time-point, and why.

    A tree; equal parts of it are one object, so it takes little memory even where its size is
    large. `str` writes it for people, as `to_text` does.

    Attributes:
        formula: what holds or fails.
        position: where, counted from 0 in the trace; None says at every time-point of every stream.
        value: True for holds, False for fails.
        rule: how the premises make the conclusion.
        premises: the proofs the rule names one by one: operands, a witness, a cut.
        run: the proofs for consecutive time-points that it needs next to them.
        size: the number of nodes of the tree.
        trace: what the positions refer to.
    """

    __slots__ = ("formula", "position", "premises", "rule", "run", "size", "trace", "value")

    size: int

    def __init__(
        self,
        formula: Formula,
        position: int | None,
        value: bool,
        rule: Rule,
        trace: Trace,
        premises: tuple[Proof, ...] = (),
        run: Sequence[Proof] = (),
        size: int | None = None,
    ) -> None:
        """A proof; its `size` is counted unless it is known."""
        self.formula = formula
        self.position = position
        self.value = value
        self.rule = rule
        self.trace = trace
        self.premises = premises
        self.run = run
        if size is None:
            size = 1 + sum(part.size for part in premises) + sum(part.size for part in run)
        self.size = size

    @property
    def children(self) -> Iterator[Proof]:
        """The premises, then the run."""
        yield from self.premises
        yield from self.run

    @property
    def time_point(self) -> tuple[int, int] | None:
        """Time-stamp and offset of the time-point; None says at every time-point."""
        return None if self.position is None else self.trace.name(self.position)

    def distinct(self) -> list[Proof]:
        """Every proof in this tree once, parents before their parts.

        Proofs are as many as are distinct, but the time also counts the links between them.
        """
        order: dict[int, Proof] = {}
        stack = [self]
        while stack:
            proof = stack.pop()
            if id(proof) not in order:
                order[id(proof)] = proof
                stack.extend(part for part in proof.children if id(part) not in order)
        return sorted(order.values(), key=lambda proof: -proof.size)

    def to_text(self, *, width: int = 100, lines: int = 80, ascii_only: bool = False) -> str:
        """A timeline of the relevant events, and the tree of reasons, without a newline at the end.

        Args:
            width: of a line in characters, at least 40; formulas are shortened to fit.
            lines: how many lines the tree may have; what is left out is counted.
            ascii_only: marks and branches in ASCII.
        """
        from mtlmon.explanation.text import to_text

        return to_text(self, width=width, lines=lines, ascii_only=ascii_only)

    def to_svg(self) -> str:
        """A picture: time-points as columns, subformulas as rows, and what follows from what."""
        from mtlmon.explanation.svg import to_svg

        return to_svg(self)

    def to_html(self) -> str:
        """A page of its own: the picture, and the tree of reasons to fold and unfold."""
        from mtlmon.explanation.html import to_html

        return to_html(self)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        where = "everywhere" if self.position is None else f"at position {self.position}"
        verb = "holds" if self.value else "fails"
        return f"<Proof of size {self.size}: {self.formula.operator} {verb} {where}>"
