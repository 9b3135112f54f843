"""Selects what to show of a proof: a tree of readable size, and a table of its time-points."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.explanation.proof import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtlmon.explanation.proof import Proof
    from mtlmon.syntax.formula import Formula

__all__ = ["Entry", "Grid", "grid", "outline"]

_DEEPEST = 24
_GROUPS_SHOWN = 5
_WHOLE_GROUP = 3
_PRESENT = (Rule.CONSTANT, Rule.ATOM, Rule.BOOLEAN)


class Entry(NamedTuple):
    """A line of the tree.

    Attributes:
        proofs: the proofs shown on the line, which differ only in their time-points; usually one,
            and none if there is only a remark.
        ancestry: for each ancestor below the root, and then the entry itself, whether it is the
            last of its siblings.
        remark: says what is left out, or is "".
    """

    proofs: Sequence[Proof]
    ancestry: tuple[bool, ...]
    remark: str = ""


def outline(proof: Proof, lines: int) -> Iterator[Entry]:
    """Yield the tree from the top: at most `lines` entries, and one that counts the rest."""
    shapes = _Shapes()
    shown: set[int] = set()
    stack = [Entry([proof], ())]
    for _ in range(lines):
        if not stack:
            return
        entry = stack.pop()
        parts: list[Entry] = []
        if entry.proofs:
            first = entry.proofs[0]
            has_parts = bool(first.premises or first.run)
            if has_parts and id(first) in shown:
                entry = entry._replace(remark="as above")
            elif has_parts and len(entry.ancestry) >= _DEEPEST:
                entry = entry._replace(remark=f"{first.size - 1:,} more steps below")
            else:
                shown.update(map(id, entry.proofs))
                parts = _parts(entry.proofs, shapes)
        yield entry
        for number, part in enumerate(reversed(parts)):
            stack.append(part._replace(ancestry=(*entry.ancestry, number == 0)))
    if stack:
        left = sum(proof.size for entry in stack for proof in entry.proofs)
        yield Entry([], (), f"{left:,} more steps")


def _parts(proofs: Sequence[Proof], shapes: _Shapes) -> list[Entry]:
    """The entries below proofs that differ only in their time-points."""
    entries = [
        Entry([proof.premises[k] for proof in proofs], ()) for k in range(len(proofs[0].premises))
    ]
    if len(proofs) > 1:
        return entries
    groups = list(_groups(proofs[0].run, shapes))
    if len(groups) > _GROUPS_SHOWN + 1:
        left_out = groups[_GROUPS_SHOWN - 1 : -1]
        count = sum(map(len, left_out))
        entries += [Entry(group, ()) for group in groups[: _GROUPS_SHOWN - 1]]
        entries.append(Entry([], (), f"{count:,} more time-points"))
        groups = groups[-1:]
    return entries + [Entry(group, ()) for group in groups]


def _groups(run: Iterable[Proof], shapes: _Shapes) -> Iterator[list[Proof]]:
    """Group consecutive proofs of a run that differ only in their time-points."""
    group: list[Proof] = []
    shape_of_group = None
    for proof in run:
        shape = shapes.of(proof)
        if group and (shape is None or shape != shape_of_group):
            yield group
            group = []
        group.append(proof)
        shape_of_group = shape
    if group:
        yield group


class _Shapes:
    """Numbers proofs so that those that differ only in their time-points have the same number."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[object, ...], int] = {}
        self.known: dict[int, int | None] = {}

    def of(self, proof: Proof) -> int | None:
        """Return the number, or None for a proof that involves several time-points."""
        stack = [proof]
        while stack:
            top = stack[-1]
            missing = [part for part in top.premises if id(part) not in self.known]
            if missing and top.rule in _PRESENT:
                stack.extend(missing)
            else:
                stack.pop()
                self.known[id(top)] = self.number(top)
        return self.known[id(proof)]

    def number(self, proof: Proof) -> int | None:
        if proof.rule not in _PRESENT:
            return None
        parts = [self.known[id(part)] for part in proof.premises]
        if None in parts:
            return None
        key = (id(proof.formula), proof.value, *parts)
        return self.numbers.setdefault(key, len(self.numbers))


class Grid(NamedTuple):
    """A proof as a table.

    Attributes:
        formulas: the rows, from the proved formula to its smallest parts.
        positions: the columns, in order; a None at the end stands for every time-point.
        values: the known values, by the number of the row and the position.
        row_of: the number of the row of each formula, by its `id`.
    """

    formulas: list[Formula]
    positions: list[int | None]
    values: dict[tuple[int, int | None], bool]
    row_of: dict[int, int]

    def gaps(self) -> list[bool]:
        """Return for each column whether time-points of the trace are left out before it."""
        before = zip(self.positions, self.positions[1:], strict=False)
        return [False, *(a is not None and b is not None and b - a > 1 for a, b in before)]


def grid(proof: Proof, entries: Sequence[Entry], columns: int, rows: int) -> Grid:
    """Make the table of what the entries show; if there is no room for all, the first are taken."""
    positions: dict[int | None, None] = {}
    formulas: dict[int, Formula] = {}
    for entry in entries:
        for part in _ends(entry.proofs):
            if len(positions) < columns:
                positions[part.position] = None
            if len(formulas) < rows:
                formulas[id(part.formula)] = part.formula
    for beyond in _beyond_windows(entries):
        if len(positions) < columns:
            positions[beyond] = None
    row_of = {key: row for row, key in enumerate(formulas)}
    values: dict[tuple[int, int | None], bool] = {}
    for part in proof.distinct():
        row = row_of.get(id(part.formula))
        if row is not None and part.position in positions:
            values[row, part.position] = part.value
    for row, formula in enumerate(formulas.values()):
        for position in positions:
            if formula.name is not None and position is not None:
                values[row, position] = formula.name in proof.trace.letters[position]
    columns_in_order: list[int | None] = [*sorted(p for p in positions if p is not None)]
    if None in positions:
        columns_in_order.append(None)
    return Grid(list(formulas.values()), columns_in_order, values, row_of)


def _ends(proofs: Sequence[Proof]) -> Sequence[Proof]:
    return proofs if len(proofs) <= _WHOLE_GROUP else (proofs[0], proofs[-1])


def _beyond_windows(entries: Iterable[Entry]) -> Iterator[int]:
    """The time-points just beyond windows: they show whether the awaited event came too late."""
    for entry in entries:
        proof = entry.proofs[0] if len(entry.proofs) == 1 else None
        if proof is not None and proof.rule is Rule.WINDOW and proof.run:
            is_past = proof.formula.operator.is_past
            end = proof.run[0 if is_past else -1].position
            assert end is not None
            beyond = end + (-1 if is_past else 1)
            if 0 <= beyond < len(proof.trace):
                yield beyond
