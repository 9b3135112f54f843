"""Policies that forget texts, and a log with texts that never come back."""

from __future__ import annotations

Points = list[tuple[int, dict[str, list[tuple[str, ...]]]]]

FORGETFUL = """
atom p(x: text)
atom q(x: text, y: text)
find a: p(x) AND ONCE[0,3] q(x, y)
policy b: p(x) IMPLIES EVENTUALLY[0,2] q(x, _)
"""


def forgotten_points(count: int) -> Points:
    """Time-points with texts of which most are of a few time-points only."""
    return [
        (k, {"p": [(f"u{k - k % 3}",)], "q": [(f"u{k}", f"f{7 * k % 11}"), (f"u{k}", "z")]})
        for k in range(count)
    ]
