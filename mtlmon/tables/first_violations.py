"""The first violations of each policy, which are kept while batches of verdicts pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.support.html_tables import html_table
from mtlmon.tables.violations import reasons_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.tables.violations import Judged

__all__ = ["FirstViolations"]

_KEPT = 5
"""The violations of a policy that are kept, the first ones that were decided."""

_HEAD = ("policy", "time-point", "key", "row", "violation")


class FirstViolations:
    """Keeps the first violations of each policy."""

    def __init__(self) -> None:
        self._kept: list[pa.RecordBatch] = []
        self._counts: dict[str | None, int] = {}
        self._total = 0

    def note(self, batch: pa.RecordBatch) -> None:
        """Keep the violations of a batch that are among the first ones of their policies."""
        verdicts = batch.column("verdict")
        if not verdicts.false_count:
            return
        self._total += verdicts.false_count
        is_wanted = pc.fill_null(pc.invert(verdicts), False)
        full = [name for name, count in self._counts.items() if count >= _KEPT]
        if full:
            is_known = pc.is_in(batch.column("policy"), pa.array(full, pa.string()))
            is_wanted = pc.and_(is_wanted, pc.invert(is_known))
        places = []
        found = batch.filter(is_wanted)
        for place, name in enumerate(found.column("policy").to_pylist()):
            count = self._counts.get(name, 0)
            if count < _KEPT:
                self._counts[name] = count + 1
                places.append(place)
        if places:
            self._kept.append(found.take(pa.array(places, pa.int64())))

    def to_html(self, judge: Callable[[], Judged], count: int) -> str:
        """Return a table of the violations; empty if there are none.

        Args:
            judge: says what the batches are about.
            count: how many time-points are violations, whether their verdicts say so themselves or
                are equivalent to others.
        """
        if not self._kept:
            return ""
        rows = self._rows(judge())
        # a column without any values says nothing
        shown = [place for place in range(len(_HEAD)) if any(row[place] for row in rows)]
        head = [_HEAD[place] for place in shown]
        left_out = max(count, self._total) - len(rows)
        note = ""
        if left_out > 0:
            note = f"the first {_KEPT} of each policy; {left_out:,} more are not shown"
        cells = ([row[place] for place in shown] for row in rows)
        return html_table(head, cells, note, texts=len(head))

    def _rows(self, judged: Judged) -> list[tuple[str, ...]]:
        """Return the cells of each violation, in the order of policies and time."""
        order = {policy.name: place for place, policy in enumerate(judged.policies)}
        found: list[tuple[int, int, int, tuple[str, ...]]] = []
        for batch in self._kept:
            keys = _joined(batch, judged.keys, ", ")
            rows = _joined(batch, [name for name in ("file", "row") if _has(batch, name)], ":")
            for row, key, place, why in zip(
                batch.to_pylist(), keys, rows, reasons_of(batch, judged), strict=True
            ):
                point = f"{row.get('time_text') or row['time']}:{row['offset']}"
                shown = row["policy"] or "", point, key, place, why
                found.append((order[row["policy"]], row["time"], row["offset"], shown))
        return [shown for *_, shown in sorted(found)]


def _has(batch: pa.RecordBatch, name: str) -> bool:
    return name in batch.schema.names


def _joined(batch: pa.RecordBatch, names: Sequence[str], separator: str) -> list[str]:
    """Return the texts of some columns, joined; nulls are left out."""
    columns = [batch.column(name).to_pylist() for name in names]
    return [
        separator.join(str(value) for value in values if value is not None)
        for values in (zip(*columns, strict=True) if columns else [()] * len(batch))
    ]
