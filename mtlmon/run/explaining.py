"""Write explanations of violations to a file as text or HTML, or tell the host of them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from mtlmon.run.failure import RunError, WriteFailure
from mtlmon.run.files import is_same_file
from mtlmon.run.host import WIDTH
from mtlmon.run.report import plural
from mtlmon.support.replacing import write_whole
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mtlmon.explanation.proof import Proof
    from mtlmon.run.host import Host
    from mtlmon.run.spec import RunSpec

__all__ = ["Explanations", "check_file", "explanations_for", "is_json"]


def check_file(
    path: str, what: str, others: Sequence[str | None], logs: Iterable[os.stat_result]
) -> None:
    """Check that a file to write is not a log or another file that the run uses.

    Args:
        path: the path of the file to write.
        what: the content of the file, for messages.
        others: the paths of the other files; None stands for no file.
        logs: the status of the logs.

    Raises:
        RunError: the run uses the file for something else.
    """
    if any(other and os.path.realpath(other) == os.path.realpath(path) for other in others) or (
        os.path.exists(path) and any(is_same_file(os.stat(path), status) for status in logs)
    ):
        raise RunError(f"{path} cannot hold {what}: this run uses it for something else")


class Explanations:
    """Collects explanations for a file, or tells the host of each one.

    Args:
        path: the file to write, in HTML if its name ends in .html or .htm, and as lines of JSON if
            it ends in .jsonl; None for the host.
        host: is told of them.
    """

    def __init__(self, path: str | None, host: Host) -> None:
        self.path = path
        self.host = host
        self.is_page = path is not None and path.lower().endswith((".html", ".htm"))
        self.is_json = path is not None and is_json(path)
        self.sections: list[str] = []
        self.remarks: list[str] = []

    def add(
        self,
        text: Callable[..., str],
        title: str | None = None,
        details: Sequence[str] = (),
        proof: Proof | None = None,
    ) -> None:
        """Add an explanation.

        Args:
            text: makes its text; takes `width`, the width of lines, and `ascii_only`.
            title: the policy and the key, if there are several.
            details: the message and the values at the time-point, as lines.
            proof: the proof that explains it, which a page can draw; None if there is none.
        """
        number = len(self.sections) + 1
        if self.is_page:
            from mtlmon.explanation.html import section, text_section

            shown = (
                text_section(text(width=WIDTH), number, title, details)
                if proof is None
                else section(proof, number, title, details)
            )
            self.sections.append(shown)
        elif self.path is not None:
            self.sections.append(f"{heading(title, details)}{text(width=WIDTH)}\n\n")
        else:
            shown = text(width=self.host.width, ascii_only=not self.host.shows_marks)
            self.host.say(f"{heading(title, details)}{shown}\n\n")

    def add_facts(self, facts: Mapping[str, object]) -> None:
        """Add an explanation for programs, if they are written as JSON."""
        self.sections.append(f"{json.dumps(facts, ensure_ascii=False)}\n")

    def remark(self, text: str) -> None:
        """Add a remark, to follow the explanations."""
        if self.path is None or self.is_json:
            self.host.note(text)
        else:
            self.remarks.append(text)

    def finish(self, total: int, limit: int) -> None:
        """Say so if only the first violations are explained, and write the file.

        Args:
            total: the number of violations.
            limit: how many of them are explained at most.

        Raises:
            WriteFailure: the file cannot be written.
        """
        if total > limit:
            violations = plural(limit, "violation")
            self.remark(f"explained {violations}; there are more (--explain-limit)")
        self.write()

    def write(self) -> None:
        """Write the file, unless the explanations go to standard error.

        Raises:
            WriteFailure: the file cannot be written.
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


def is_json(path: str | None) -> bool:
    """Whether explanations in a file are lines of JSON."""
    return path is not None and path.lower().endswith(".jsonl")


def explanations_for(options: RunSpec) -> Explanations:
    """Return what takes the explanations of a run."""
    return options.reporting.explanations or Explanations(
        options.reporting.explain_output, options.host
    )


def heading(title: str | None, details: Sequence[str]) -> str:
    """Return the lines that precede an explanation."""
    before = "" if title is None else f"{title}\n"
    return before + "".join(f"{visible(line)}\n" for line in details)
