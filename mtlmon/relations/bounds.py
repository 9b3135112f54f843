"""How many records a relation keeps between batches, which depends on windows and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from mtlmon.relations.algebra import (
    OF_STARTS,
    Coalesce,
    Deletes,
    DistinctOn,
    Every,
    Group,
    Intersect,
    Join,
    Minus,
    MinusAll,
    Select,
    Semijoin,
    Shift,
    Source,
    Split,
    Timed,
    Union,
    UnionMax,
    ValidFor,
    ValidLast,
    ValidTo,
    ValidUntil,
    ValidUntilNext,
    Where,
    operands,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mtlmon.relations.algebra import Node

__all__ = [
    "KeptChanges",
    "KeptRecords",
    "SaidRecords",
    "kept_changes",
    "kept_records",
    "said_records",
]

_VALID = OF_STARTS | Every | Shift
_TIMES_BYTES = 16
_NUMBER_BYTES = 8


class KeptRecords(NamedTuple):
    """Records that an operator keeps.

    Attributes:
        operator: the word of the operator; "rows" and "table" for what it begins with.
        words: what is kept, in words.
        of_tables: how many records of tables.
        spans: for each part of the others, how far apart the time-stamps of their rows are at most;
            None if there is no limit.
        texts: the number of columns with texts.
        number_bytes: the bytes of the times and the other columns of a record.
        numbers: how many there are, where this depends on pairs or pieces; else None.
        lifetime: with `numbers`, those that begin within this time are kept; None for those of one
            time.
    """

    operator: str
    words: str
    of_tables: int
    spans: tuple[int | None, ...]
    texts: int
    number_bytes: int
    numbers: KeptChanges | None = None
    lifetime: int | None = None


def kept_records(
    states: Iterable[tuple[str, Node, pa.Schema]], tables: Mapping[str, int]
) -> list[KeptRecords]:
    """Find what the states of a query hold.

    Args:
        states: "early", "open", "valid" or "whole", the operator, and the columns of its records,
            for each.
        tables: the number of records of each table; what is missing are the rows of the log.
    """
    found: list[KeptRecords] = []
    for kind, node, schema in states:
        count, spans = _extent(node, tables)
        if isinstance(node, Source) and kind == "valid" and not count:
            # rows are valid at their time alone, which has passed
            continue
        numbers = length = None
        said = said_records(node, tables)
        if kind == "open":
            spans = tuple(None for _ in spans)
        elif kind == "early" and not isinstance(node, Source):
            # a record waits until those that began before it have ended
            length = lifetime(operands(node)[0], tables)
            spans = (None,) if length is None else spans
        if said.reason and (kind != "early" or length is not None):
            numbers = kept_changes(node, schema, (), tables)
        elif kind == "early" and isinstance(node, Source) and not count:
            # rows of the latest time-stamp, which wait
            spans = (0,)
        words = "rows of one time"
        if count or not isinstance(node, Source):
            words = "records to come"
        if kind != "early":
            words = "records without an end so far" if kind == "open" else "records at one time"
        texts = sum(pa.types.is_large_string(one) for one in schema.types)
        number_bytes = _TIMES_BYTES + _NUMBER_BYTES * (len(schema) - texts)
        operator = _operator(node, tables)
        found.append(
            KeptRecords(operator, words, count, spans, texts, number_bytes, numbers, length)
        )
    return found


class KeptChanges(NamedTuple):
    """The times at which a relation changes that are not looked at yet.

    Attributes:
        node: the relation.
        tables: the number of records of each table that it reads; what is missing are rows.
        texts: the number of columns with texts: of a record, and of the keys of a change.
        number_bytes: the bytes of the times and the other columns, likewise.
    """

    node: Node
    tables: Mapping[str, int]
    texts: tuple[int, int]
    number_bytes: tuple[int, int]

    def within(
        self, rows: Callable[[int | None], int | None], more: int, length: int | None = None
    ) -> Numbers | None:
        """Return how many records there are while some rows come; None if there is no limit.

        Args:
            rows: how many rows there are within a length of time; None if there is no limit, as if
                the length has none.
            more: how many rows come.
            length: within what time; None if that is not known.
        """
        return _numbers(self.node, self.tables, rows, more, length)


def kept_changes(
    node: Node, schema: pa.Schema, keys: Iterable[str], tables: Mapping[str, int]
) -> KeptChanges:
    """Find what it takes to tell when a relation changes.

    These are the records that are valid, and the times at which those of a batch begin and end.

    Args:
        node: the relation.
        schema: its columns.
        keys: the columns whose values are told with the times.
        tables: as for `kept_records`.
    """
    of_records, of_keys = schema.types, [schema.field(name).type for name in keys]
    texts = tuple(sum(map(pa.types.is_large_string, some)) for some in (of_records, of_keys))
    return KeptChanges(
        node,
        tables,
        (texts[0], texts[1]),
        (
            _TIMES_BYTES + _NUMBER_BYTES * (len(of_records) - texts[0]),
            _NUMBER_BYTES + _NUMBER_BYTES * (len(of_keys) - texts[1]),
        ),
    )


class Numbers(NamedTuple):
    """How many records a relation has while some rows come.

    Attributes:
        valid: how many are valid at one time, at most.
        begun: how many begin, at most.
    """

    valid: int
    begun: int

    @property
    def ended(self) -> int:
        """How many end: those that were valid, and those that begin."""
        return self.valid + self.begun


def _numbers(
    node: Node,
    tables: Mapping[str, int],
    rows: Callable[[int | None], int | None],
    more: int,
    length: int | None,
) -> Numbers | None:
    """As for `KeptChanges.within`."""
    if isinstance(node, _VALID) and said_records(node, tables).reason:
        return _valid_numbers(node, tables, rows, more, length)
    if isinstance(node, Source | _VALID):
        count, spans = _extent(node, tables)
        at_once = [rows(span) for span in spans]
        of_time = rows(0)
        if of_time is None or None in at_once:
            return None
        known = sum(one for one in at_once if one is not None)
        return Numbers(count + known, count + len(spans) * (of_time + more))
    of = [_numbers(one, tables, rows, more, length) for one in operands(node)]
    found = [one for one in of if one is not None]
    if len(found) < len(of):
        return None
    left, right = found[0], found[-1]
    valid, begun = sum(one.valid for one in found), sum(one.begun for one in found)
    piece = _piece(node)
    if piece is not None:
        # each record has a piece in each of these times, and one more
        within = rows(None) if length is None else length // piece + 1
        return None if within is None else Numbers(valid, (valid + begun) * within)
    if isinstance(node, Join):
        # a pair begins where one of both does and the other is valid
        return Numbers(
            left.valid * right.valid, left.begun * right.valid + right.begun * left.valid
        )
    if isinstance(node, Semijoin):
        return Numbers(left.valid, left.begun + right.begun * left.valid)
    if isinstance(node, MinusAll):
        # all equal records begin where the last one ends that takes them away
        return Numbers(left.valid, left.begun + right.ended * left.valid)
    if isinstance(node, Minus):
        return Numbers(left.valid, left.begun + right.ended)
    if isinstance(node, Deletes):
        return Numbers(valid, left.ended)
    if isinstance(node, Group):
        # another record can begin where one begins, and where it ends
        return Numbers(valid, begun + left.ended)
    return Numbers(valid, begun)


def _valid_numbers(
    node: ValidFor | ValidUntilNext | ValidTo | ValidUntil | ValidLast | Every | Shift,
    tables: Mapping[str, int],
    rows: Callable[[int | None], int | None],
    more: int,
    length: int | None,
) -> Numbers | None:
    """Those of what gives other times to pairs or pieces: by how many begin within a time."""
    if isinstance(node, ValidLast) and not node.per:
        # of those that begin at one time, all are among the last ones
        at_once = _numbers(node.of, tables, rows, 0, 0)
        of = _numbers(node.of, tables, rows, more, length)
        if at_once is None or of is None:
            return None
        return Numbers(node.count + at_once.begun, of.begun)
    if isinstance(node, Every | Shift):
        moved = node.length if isinstance(node, Every) else abs(node.start) + abs(node.end)
    elif isinstance(node, ValidFor | ValidUntilNext) and node.length is not None:
        moved = node.length
    else:
        rows(None)
        return None
    within = rows(moved)
    if within is None:
        return None
    longer = None if length is None else length + moved
    recent = _numbers(node.of, tables, rows, within, moved)
    of = _numbers(node.of, tables, rows, more + within, longer)
    if recent is None or of is None:
        return None
    stays = isinstance(node, Every | Shift)
    return Numbers(recent.begun + (recent.valid if stays else 0), of.begun)


def _piece(node: Node) -> int | None:
    """How long the pieces are into which an operator cuts records; None if it cuts none."""
    if isinstance(node, Split):
        return node.length
    return node.longest if isinstance(node, Coalesce) else None


def lifetime(node: Node, tables: Mapping[str, int]) -> int | None:
    """Return how long a record of a relation is valid at most; None if there is no limit.

    Args:
        node: the relation; records that meet others that are equal to them become one with them.
        tables: as for `kept_records`.
    """
    if isinstance(node, Source):
        return None if node.name in tables else 1
    if (piece := _piece(node)) is not None:
        return piece
    if isinstance(node, ValidFor | ValidUntilNext):
        return node.length
    of = [lifetime(one, tables) for one in operands(node)]
    known = [one for one in of if one is not None]
    if isinstance(node, Join):
        return min(known, default=None)
    if isinstance(node, Every | Shift):
        return None if of[0] is None else of[0] + _more(node)
    if isinstance(node, Semijoin | Where | Select | Timed):
        return of[0]
    return max(known) if isinstance(node, Union) and len(known) == len(of) else None


class SaidRecords(NamedTuple):
    """The records that a relation has over some time.

    Attributes:
        of_tables: at most so many are made of records of tables.
        spans: for each further part, for how long a row has records; None if there is no limit. A
            row has at most one in each part.
        reason: why there is no limit to how many records a row has; empty if there is one.
    """

    of_tables: int
    spans: tuple[int | None, ...]
    reason: str = ""


def said_records(node: Node, tables: Mapping[str, int]) -> SaidRecords:
    """Find how many records a relation has over some time, which depends on that of its rows.

    Args:
        node: the relation.
        tables: as for `kept_records`.
    """
    if isinstance(node, Source):
        return SaidRecords(*_extent(node, tables))
    if isinstance(node, Join | Semijoin | MinusAll):
        word = "minus all" if isinstance(node, MinusAll) else type(node).__name__.lower()
        return SaidRecords(0, (), f"a row can have any number of records behind {word}")
    if _piece(node) is not None:
        return SaidRecords(0, (), "a row can have any number of pieces of records")
    if isinstance(node, ValidLast) and not node.per:
        return SaidRecords(0, (), "a row can have a record for any time behind valid last")
    of = [said_records(one, tables) for one in operands(node)]
    count = sum(one.of_tables for one in of)
    spans = tuple(span for one in of for span in one.spans)
    reason = next((one.reason for one in of if one.reason), "")
    if isinstance(node, ValidFor | ValidUntilNext):
        spans = tuple(node.length for _ in spans)
    elif isinstance(node, ValidTo | ValidUntil | ValidLast):
        spans = tuple(None for _ in spans)
    elif isinstance(node, Every | Shift):
        spans = _longer(node, spans)
    elif isinstance(node, Group | DistinctOn | Minus | Intersect | UnionMax):
        # another record can begin where one begins, and where it ends
        count, spans = 2 * count, spans + spans
    return SaidRecords(count, spans, reason)


def _operator(node: Node, tables: Mapping[str, int]) -> str:
    if isinstance(node, Source):
        return "table" if node.name in tables else "rows"
    if isinstance(node, ValidFor | ValidUntilNext | ValidTo):
        return "valid"
    if isinstance(node, ValidUntil | ValidLast):
        return f"valid {'until' if isinstance(node, ValidUntil) else 'last'}"
    if isinstance(node, Timed):
        return _operator(node.of, tables)
    return "distinct on" if isinstance(node, DistinctOn) else type(node).__name__.lower()


def _longer(node: Every | Shift, spans: Iterable[int | None]) -> tuple[int | None, ...]:
    """Spans that reach to the end of records that have been shifted."""
    return tuple(None if span is None else span + _more(node) for span in spans)


def _more(node: Every | Shift) -> int:
    """How much later records end, at most."""
    return node.length if isinstance(node, Every) else max(0, node.end)


def _extent(node: Node, tables: Mapping[str, int]) -> tuple[int, tuple[int | None, ...]]:
    """How many records of tables an operator has at one time, and over what spans rows."""
    if isinstance(node, Source):
        return (tables[node.name], ()) if node.name in tables else (0, (0,))
    if isinstance(node, _VALID):
        # all records that have begun within some time
        said = said_records(node, tables)
        return said.of_tables, (None,) if said.reason else said.spans
    counts, spans = zip(*(_extent(one, tables) for one in operands(node)), strict=True)
    # of pairs, there can be any number
    of_rows = (None,) if isinstance(node, Join) else tuple(span for some in spans for span in some)
    return (sum(counts) if isinstance(node, Union | UnionMax) else counts[0]), of_rows
