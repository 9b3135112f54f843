"""The data types of proofs that a formula holds or fails at a time-point."""

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
    """The rule that derives a proof's conclusion from its premises.

    Most rules have two readings, one for an operator and one for its dual: the rule by which ONCE
    holds is also the one by which HISTORICALLY fails.
    """

    CONSTANT = "constant"
    """TRUE holds, FALSE fails."""

    ATOM = "atom"
    """The event has the atom, or does not have it."""

    BOOLEAN = "boolean"
    """The values of the operands that settle a Boolean operator."""

    NO_NEIGHBOUR = "no neighbour"
    """PREVIOUS fails at the first time-point, and NEXT at the last one of a closed stream."""

    OUTSIDE = "outside"
    """PREVIOUS and NEXT fail because the distance to the neighbour is outside their interval."""

    NEIGHBOUR = "neighbour"
    """PREVIOUS and NEXT have the value of their operand at the neighbour."""

    WITNESS = "witness"
    """A single time-point of the interval decides the operator; the run leads there.

    ONCE holds because its operand holds there. `f SINCE g` holds because g holds there and f has
    held ever since. ALWAYS fails because its operand fails there. `f RELEASE g` fails because g
    fails there and f fails before.
    """

    WINDOW = "window"
    """The run has every time-point of the interval, and none is a witness.

    ONCE fails because its operand fails at all of them; ALWAYS holds because its operand holds at
    all of them.
    """

    CUT = "cut"
    """The premise rules out all witnesses beyond it; the run is the rest of the interval.

    `f SINCE g` fails because f fails at the cut and g has failed since. `f RELEASE g` holds because
    f releases g at the cut and g holds up to then.
    """

    EVERYWHERE = "everywhere"
    """Constants in the operands decide the operator at every time-point of every stream."""


class Run(Sequence["Proof"]):
    """Proofs for consecutive time-points: a slice of a list that many proofs share."""

    __slots__ = ("_proofs", "_start", "_stop")

    def __init__(self, proofs: Sequence[Proof | None], start: int, stop: int) -> None:
        """Take `proofs[start:stop]`, none of which may be None."""
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
                raise ValueError("a run has only consecutive parts: slice it with step 1")
            return Run(self._proofs, self._start + start, self._start + stop)
        proof = self._proofs[range(self._start, self._stop)[index]]
        assert proof is not None
        return proof


class Proof:
    """A proof that a formula holds, or fails, at a time-point.

    A proof is a tree. Equal subtrees are the same object, so a proof takes little memory even if
    its size is large. `str` returns the same text as `to_text`.

    Attributes:
        formula: the formula that holds or fails.
        position: the index of the time-point in the trace, from 0; None means every time-point of
            every stream.
        value: True if the formula holds, False if it fails.
        rule: the rule that derives the conclusion from the premises.
        premises: the proofs that the rule names individually: of operands, a witness or a cut.
        run: the proofs for consecutive time-points that the rule needs as well.
        size: the number of nodes of the tree.
        trace: the trace that the positions refer to.
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
        """Create a proof; `size` is computed from the premises and the run unless it is given."""
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
        """The premises, followed by the run."""
        yield from self.premises
        yield from self.run

    @property
    def time_point(self) -> tuple[int, int] | None:
        """The time-stamp and the offset of the time-point; None means every time-point."""
        return None if self.position is None else self.trace.name(self.position)

    def distinct(self) -> list[Proof]:
        """Return every distinct proof in this tree once, parents before their parts.

        The running time is linear in the number of links between distinct proofs.
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
        """Return a timeline of the relevant events, and the tree of reasons.

        The text does not end with a newline.

        Args:
            width: the width of a line in characters, at least 40; formulas are shortened to fit.
            lines: the greatest number of lines for the tree; a further line says how much is left
                out.
            ascii_only: whether to draw marks and branches in ASCII.
        """
        from mtlmon.explanation.text import to_text

        return to_text(self, width=width, lines=lines, ascii_only=ascii_only)

    def to_svg(self) -> str:
        """Return an SVG picture, with time-points as columns and subformulas as rows.

        Lines lead from each conclusion to its reasons.
        """
        from mtlmon.explanation.svg import to_svg

        return to_svg(self)

    def _repr_svg_(self) -> str:
        """The picture, which notebooks show."""
        return self.to_svg()

    def to_html(self) -> str:
        """Return a self-contained page with the picture and a foldable tree of reasons."""
        from mtlmon.explanation.html import to_html

        return to_html(self)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        where = "everywhere" if self.position is None else f"at position {self.position}"
        verb = "holds" if self.value else "fails"
        return f"<Proof of size {self.size}: {self.formula.operator} {verb} {where}>"
