"""How many of their cases tests take: all, or a few of them in builds that are slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

__all__ = ["STRIDE", "has_all_cases", "thinned"]

T = TypeVar("T")

STRIDE = [1]
"""Which of its cases a test takes, every second one for 2, as `--every` says."""


def thinned(cases: Iterable[T]) -> Iterator[T]:
    """Of the cases that a test goes through, those that it takes."""
    return islice(cases, 0, None, STRIDE[0])


def has_all_cases() -> bool:
    """Whether tests take all cases, so that something rare must have come in them."""
    return STRIDE[0] == 1
