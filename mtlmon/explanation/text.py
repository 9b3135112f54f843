"""Writes proofs as text for a terminal: a timeline, and the tree of reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.explanation.outline import grid, outline
from mtlmon.explanation.words import (
    distinct_labels,
    entry_words,
    formula_text,
    point_text,
    signed_distance,
    verdict_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.explanation.outline import Entry, Grid
    from mtlmon.explanation.proof import Proof

__all__ = ["to_text"]

_NARROWEST = 40
_ROWS = 16
_ASCII = str.maketrans({"✓": "+", "✗": "-", "├": "|", "│": "|", "└": "`", "─": "-", "…": "~"})


def to_text(proof: Proof, *, width: int, lines: int, ascii_only: bool) -> str:
    """Implements `Proof.to_text`."""
    width = max(width, _NARROWEST)
    entries = list(outline(proof, max(1, lines)))
    heading = f"{verdict_text(proof)} "
    text = "\n".join(
        [
            heading + formula_text(proof.formula, width - len(heading), proof.trace.wording),
            "",
            *_timeline(proof, entries, width),
            "",
            *(_line(entry, width) for entry in entries),
        ]
    )
    return text.translate(_ASCII) if ascii_only else text


def _timeline(proof: Proof, entries: Sequence[Entry], width: int) -> list[str]:
    """The table of values: a column for each time-point in the tree, and a row for each formula.

    There is a gap between columns that are not consecutive in the trace.
    """
    label_width = min(40, width // 2)
    widest = max(
        len(point_text(proof.trace, part.position))
        for entry in entries
        for part in (*entry.proofs[:1], *entry.proofs[-1:])
    )
    columns = max(1, (width - label_width) // (widest + 4))
    table = grid(proof, entries, columns, _ROWS)
    labels = distinct_labels(table.formulas, label_width, proof.trace.wording)
    if max(map(len, labels)) > label_width:
        columns = max(1, (width - max(map(len, labels))) // (widest + 4))
        table = grid(proof, entries, columns, _ROWS)
    names = [point_text(proof.trace, position) for position in table.positions]
    distances = [signed_distance(proof, position) for position in table.positions]
    rows = [names, distances]
    for row in range(len(labels)):
        rows.append([_mark(table, row, position) for position in table.positions])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    gaps = table.gaps()
    heads = ["time-point", "distance", *labels]
    label_width = max(map(len, heads))
    return [
        "".join(
            [
                f"  {head.ljust(label_width)}",
                *(
                    f"{'  … ' if gap and not number else '    ' if gap else '  '}{cell.rjust(size)}"
                    for cell, size, gap in zip(cells, widths, gaps, strict=True)
                ),
            ]
        ).rstrip()
        for number, (head, cells) in enumerate(zip(heads, rows, strict=True))
    ]


def _mark(table: Grid, row: int, position: int | None) -> str:
    value = table.values.get((row, position))
    return "" if value is None else "✓" if value else "✗"


def _line(entry: Entry, width: int) -> str:
    branches = "".join("   " if last else "│  " for last in entry.ancestry[:-1])
    if entry.ancestry:
        branches += "└─ " if entry.ancestry[-1] else "├─ "
    if not entry.proofs:
        return f"{branches}… {entry.remark}"
    where, why = entry_words(entry)
    head = f"{branches}{'✓' if entry.proofs[0].value else '✗'} {where}  "
    room = max(16, width - len(head) - len(why))
    proof = entry.proofs[0]
    return f"{head}{formula_text(proof.formula, room, proof.trace.wording)}{why}"
