"""Turns proofs into parts of a report."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from mtlmon.errors import UndecidedError
from mtlmon.explanation.html import body
from mtlmon.reporting.data import Explanation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.explanation.proof import Proof

__all__ = ["explanation_of"]


def explanation_of(
    proof: Proof | UndecidedError, name: str, details: Sequence[str] = ()
) -> Explanation:
    """Return a proof as a fragment of a page, or a remark that says why there is none.

    Args:
        proof: the proof, or the error that says why there is none.
        name: a prefix for the identifiers in the fragment, so that a page can hold several.
        details: lines about the time-point, such as values.
    """
    if isinstance(proof, UndecidedError):
        return Explanation(remark=str(proof))
    lines = "".join(f"<p>{escape(line)}</p>" for line in details)
    return Explanation(html=lines + body(proof, name))
