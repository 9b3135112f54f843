"""Write explanations of violations: to standard error, or to a file as text or as a page."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from mtlmon.cli.failure import Failure, WriteFailure, note, say
from mtlmon.cli.files import is_same_file
from mtlmon.support.replacing import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtlmon.explanation.proof import Proof

__all__ = ["Explanations", "check_file"]

WIDTH = 100
"""Of lines that go to a file; a terminal has its own."""


def check_file(
    path: str, what: str, others: Sequence[str | None], logs: Iterable[os.stat_result]
) -> None:
    """Raise Failure when what is to be written would overwrite a log or another file in use."""
    if any(other and os.path.realpath(other) == os.path.realpath(path) for other in others) or (
        os.path.exists(path) and any(is_same_file(os.stat(path), status) for status in logs)
    ):
        raise Failure(f"{path} cannot hold {what}: this run uses it for something else")


class Explanations:
    """The explanations, as text as they come or as a page when all are there.

    path: a file, a page if its name ends in .html; None for standard error.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.is_page = path is not None and path.lower().endswith((".html", ".htm"))
        self.sections: list[str] = []
        self.remarks: list[str] = []

    def add(self, proof: Proof, title: str | None = None) -> None:
        """Add an explanation; title: what it is about, where that is not clear."""
        if self.is_page:
            from mtlmon.explanation.html import section

            self.sections.append(section(proof, len(self.sections) + 1, title))
        elif self.path is not None:
            self.sections.append(f"{heading(title)}{proof.to_text(width=WIDTH)}\n\n")
        else:
            self.show(proof, title)

    def remark(self, text: str) -> None:
        if self.path is None:
            note(text)
        else:
            self.remarks.append(text)

    def show(self, proof: Proof, title: str | None) -> None:
        """Write to standard error, if that is open."""
        if sys.stderr is None:
            return
        width = WIDTH
        if sys.stderr.isatty():
            width = os.get_terminal_size(sys.stderr.fileno()).columns
        shown = proof.to_text(width=width, ascii_only=not _shows_marks(sys.stderr.encoding))
        say(f"{heading(title)}{shown}\n\n")

    def write(self) -> None:
        """Write the file, if one is asked for.

        Raises WriteFailure.
        """
        if self.path is None:
            return
        if self.is_page:
            from mtlmon.explanation.html import page

            text = page(self.sections, self.remarks)
        else:
            text = "".join([*self.sections, *(f"{remark}\n" for remark in self.remarks)])
        try:
            write_whole(self.path, text.encode("utf-8", "backslashreplace"))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise WriteFailure(f"cannot write {self.path}: {reason}") from None


def heading(title: str | None) -> str:
    return "" if title is None else f"{title}\n"


def _shows_marks(encoding: str) -> bool:
    try:
        "✓✗└─…".encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True
