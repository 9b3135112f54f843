"""Answers given as values, and what they are as lines, written for obviousness."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tests.doors import AnswerBlock, KeyTable, number_rows

Value = int | float | bool | str

VIOLATED, HOLDS, MATCHES = 0, 1, 2
WORDS = ["false", "true", "match"]


class Reported(NamedTuple):
    """A policy or find, with the names and kinds of its variables."""

    name: str | None
    variables: tuple[tuple[str, str], ...]
    is_find: bool = False


class Found(NamedTuple):
    """An answer."""

    policy: int
    kind: int
    time_stamp: int
    offset: int
    point: int
    values: tuple[Value, ...] = ()


def block_of(
    reported: Sequence[Reported], answers: Sequence[Found], texts: KeyTable | None = None
) -> AnswerBlock:
    """The answers as a block."""
    texts = KeyTable(1) if texts is None else texts
    block = AnswerBlock(widths_of(reported))
    for answer in answers:
        kinds = [kind for _, kind in reported[answer.policy].variables]
        cells = [cell_of(*one, texts) for one in zip(answer.values, kinds, strict=False)]
        block.add(*answer[:-1], cells)
    return block


def widths_of(reported: Sequence[Reported]) -> np.ndarray:
    return np.array([len(one.variables) for one in reported], np.uint32)


def cell_of(value: Value, kind: str, texts: KeyTable) -> int:
    if kind == "text":
        return int(number_rows(texts, [pa.array([value], pa.string())])[0])
    if kind == "float":
        (cell,) = struct.unpack("<q", struct.pack("<d", value))
        return int(cell)
    return int(value)


def line_of(answer: Found, reported: Sequence[Reported]) -> str:
    policy = reported[answer.policy]
    line = f"{answer.time_stamp}:{answer.offset} {WORDS[answer.kind]}"
    if answer.kind != HOLDS and policy.variables:
        pairs = zip(policy.variables, answer.values, strict=True)
        line += f" ({', '.join(f'{name}={written(value, kind)}' for (name, kind), value in pairs)})"
    return line if policy.name is None else f"{policy.name}\t{line}"


def written(value: Value, kind: str) -> str:
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "time":
        assert isinstance(value, int)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value // 10**9)
        fraction = f".{value % 10**9:09}".rstrip("0").rstrip(".")
        return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
    if kind != "text":
        return repr(value).removesuffix(".0")
    assert isinstance(value, str)
    if value and not re.search(r'[\x00-\x20\x7f",()]', value):
        return value
    escapes = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
    return f'"{"".join(escapes.get(character, character) for character in value)}"'
