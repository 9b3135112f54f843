"""Scanning and writing alone, without an engine between them: `pytest bench`."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from bench.ceiling import load_native
from bench.workloads import PAIR, REQUESTS, probability
from mtlmon.text.native import Writer
from mtlmon.verdict_arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from pytest_benchmark.fixture import BenchmarkFixture

    Row = tuple[int, int, Literal["false", "true", "equivalent"], int, int]

# Enough that branch predictors do not learn them by heart.
_EVENTS = 100_000
_RATE = 1000
# A time-stamp of thirteen digits: milliseconds.
_MILLISECONDS = 1_700_000_000_000

_SHAPES: dict[str, tuple[tuple[str, ...], str, Callable[[int], int]]] = {
    "dense, 1000 to a time-stamp": (PAIR, "dense", lambda k: k // _RATE),
    "sparse, 1000 to a time-stamp": (PAIR, "sparse", lambda k: k // _RATE),
    "dense, 1 to a time-stamp": (PAIR, "dense", lambda k: k),
    "dense, milliseconds": (PAIR, "dense", lambda k: _MILLISECONDS + 10 * k),
    "100 atoms": (REQUESTS, "dense", lambda k: k),
}


@pytest.mark.parametrize("shape", _SHAPES)
def test_scan(benchmark: BenchmarkFixture, shape: str) -> None:
    atoms, density, time_stamp = _SHAPES[shape]
    ceiling = load_native().Ceiling
    generator = random.Random(1)
    lines = [
        " ".join(
            [f"@{time_stamp(k)}"]
            + [atom for atom in atoms if generator.random() < probability(atom, density)]
        )
        for k in range(_EVENTS)
    ]
    log = "\n".join([*lines, ""]).encode()
    assert benchmark(lambda: ceiling(atoms[:2]).scan(log)) == _EVENTS


def test_scan_unique_atoms(benchmark: BenchmarkFixture) -> None:
    """Every line names an atom of its own, so that no line has been read before."""
    ceiling = load_native().Ceiling
    log = "".join(f"@{k // _RATE} id{k * 7919 % 10**6:06}\n" for k in range(_EVENTS)).encode()
    assert benchmark(lambda: ceiling(PAIR).scan(log)) == _EVENTS


def _boolean(generator: random.Random, k: int) -> Row:
    return k // _RATE, k % _RATE, generator.choice(("false", "true")), 0, 0


def _mixed(generator: random.Random, k: int) -> Row:
    return k // _RATE, k % _RATE, generator.choice(("true", "equivalent")), k // _RATE, 0


def _distinct(generator: random.Random, k: int) -> Row:
    return _MILLISECONDS + 10 * k, 0, generator.choice(("false", "true")), 0, 0


def _records(rows: list[Row]) -> NDArray[np.void]:
    kinds = ("false", "true", "equivalent")
    array = np.zeros(len(rows), verdict_type())
    for number, (time_stamp, offset, kind, *reference) in enumerate(rows):
        array[number] = (time_stamp, offset, *reference, kinds.index(kind))
    return array


@pytest.fixture
def null_device() -> Iterator[int]:
    descriptor = os.open(os.devnull, os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("format", ["text", "jsonl"])
@pytest.mark.parametrize("row", [_boolean, _mixed, _distinct], ids=lambda row: row.__name__[1:])
def test_write(
    benchmark: BenchmarkFixture,
    row: Callable[[random.Random, int], Row],
    format: Literal["text", "jsonl"],
    null_device: int,
) -> None:
    generator = random.Random(1)
    rows = [row(generator, k) for k in range(_EVENTS)]
    batches = [_records(rows[start : start + 500]) for start in range(0, _EVENTS, 500)]
    writer = Writer(b"" if format == "text" else b'{"policy":null,"time":', format)

    def run() -> None:
        for batch in batches:
            writer.put(batch)
            if len(writer) > 1 << 18:
                writer.flush(null_device)

    benchmark(run)
