"""How many of their cases tests take: all, or a few of them in the gate and in slow builds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["STRIDE", "has_all_cases", "thinned"]

T = TypeVar("T")


@dataclass
class _Stride:
    """Every Nth of a test's cases is taken, beginning with one of the first N."""

    every: int = 1
    first: int = 0


STRIDE = _Stride()
"""As the options `--every` and `--first` say."""


def thinned(cases: Iterable[T], most: int | None = None) -> list[T]:
    """Of the cases that a test goes through, those that it takes: at least one, if there is any.

    They are every Nth, or every `most`th if that are more.
    """
    found = list(cases)
    every = min(STRIDE.every, most or STRIDE.every)
    return found[STRIDE.first % every % max(1, len(found)) :: every]


def has_all_cases() -> bool:
    """Whether tests take all cases, so that something rare must have come in them."""
    return STRIDE.every == 1
