"""Run policies with variables for the playground, as the command does."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from mtlmon.cli.serving_run import KEPT
from mtlmon.cli.terminal import note
from mtlmon.errors import MtlmonError
from mtlmon.explanation.html import body
from mtlmon.explanation.words import verdict_text
from mtlmon.policy.written import written_policies
from mtlmon.relational.keyed import key_of
from mtlmon.run.explaining import Explanations
from mtlmon.run.host import WIDTH, Host
from mtlmon.run.policies import knows_rows
from mtlmon.run.running import finished
from mtlmon.run.steps import require_runnable, steps_of
from mtlmon.serving.findings import PolicyFindings, Verdict
from mtlmon.serving.fragments import reasons_of
from mtlmon.support.table_formats import BINARY_FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.explanation.proof import Proof
    from mtlmon.policy import PolicyFile
    from mtlmon.run.spec import RunSpec

__all__ = ["found_relations"]

EXPLAINED = 30
"""The violations that are explained, the first ones."""

# members of a verdict in JSON that are no values of variables
_FIXED = {
    *("policy", "time", "time_text", "offset", "verdict", "reference", "message"),
    *("severity", "text", "file", "row"),
}


class Worker(Host):
    """Notes go to the page with others; what interrupts a process of the page ends it."""

    def note(self, message: str) -> None:
        note(message)


class Reasons(Explanations):
    """Collects explanations for the page, each as a line and as HTML."""

    def __init__(self, host: Host) -> None:
        super().__init__(None, host)
        self.found: list[tuple[str, str]] = []

    def add(
        self,
        text: Callable[..., str],
        title: str | None = None,
        details: Sequence[str] = (),
        proof: Proof | None = None,
    ) -> None:
        if proof is not None:
            words = f"{title}: {verdict_text(proof)}" if title else verdict_text(proof)
            lines = reasons_of("\n".join(details), ()) if details else ""
            self.found.append((words, lines + body(proof, f"reason-{len(self.found)}")))
            return
        heading, _, reasons = text(width=WIDTH).partition("\n\n")
        parts = [*([title] if title else []), *map(str.strip, heading.split("\n"))]
        self.found.append((" · ".join(parts), reasons_of(reasons.strip("\n"), details)))

    def finish(self, total: int, limit: int) -> None:
        if total > limit:
            note(f"the first {limit} violations are explained")


def found_relations(
    file: PolicyFile, text: str, options: RunSpec
) -> tuple[list[PolicyFindings], list[tuple[str, str]], int, Exception | None]:
    """Run policies of which some have variables.

    Args:
        file: the policies.
        text: the policy file.
        options: the options of the command, which have adopted the settings of the file.

    Returns:
        The verdicts of each policy; explanations of the first violations, each as a line and as
            HTML; the number of time-points; and the error that has ended the run, if any.
    """
    host = Worker()
    reasons = Reasons(host)
    options = options.replace(host=host).having(
        formula=text,
        formula_files=[],
        explain=True,
        explain_limit=EXPLAINED,
        explanations=reasons,
        rows=knows_rows(file.policies, options.log),
        batch_output=host.batch_output,
        output_format="batches",
    )
    error: Exception | None = None
    try:
        require_runnable(file, options)
        finished(steps_of(file, options))
    except MtlmonError as failure:
        error = failure
    output = host.output
    batches = [] if output is None else output.take()
    rows = [row for batch in batches for row in batch.to_pylist()]
    found = [
        _findings(file, number, written.text, rows, options)
        for number, written in enumerate(written_policies(file, options.policies.constants))
    ]
    return found, reasons.found, len({(row["time"], row["offset"]) for row in rows}), error


def _findings(
    file: PolicyFile, number: int, written: str, rows: list[dict[str, Any]], options: RunSpec
) -> PolicyFindings:
    has_lines = options.log.format not in BINARY_FORMATS
    policy = file.policies[number]
    own = [row for row in rows if row["policy"] == policy.name]
    key = key_of(policy, options.log.key_columns) if policy.is_first_order else None
    found = [(row, *_texts(row, key)) for row in own]
    wrong = [one for one in found if one[0]["verdict"] is False]
    others = [one for one in found if one[0]["verdict"] is not False]
    kept = [*wrong[:KEPT], *others[:KEPT]]
    kept.sort(key=lambda one: (one[0]["time"], one[0]["offset"]))
    verdicts = [
        # in text logs, rows are lines
        Verdict(
            number,
            0,
            row["time"],
            row["offset"],
            row["verdict"],
            row.get("row") if has_lines else None,
            own_key,
            text,
        )
        for row, own_key, text in kept
    ]
    keys = {one for _, one, _ in found if one}
    violating = Counter(one for _, one, _ in wrong if one)
    false = len(wrong)
    return PolicyFindings(
        policy.name,
        written,
        policy.text,
        policy.severity,
        verdicts,
        len(own) - false,
        false,
        0,
        false > 0 and not policy.is_find,
        has_explanations=False,
        violating_keys=violating,
        key_count=len(keys),
    )


def _texts(row: dict[str, Any], key: Sequence[str] | None) -> tuple[str, str]:
    """Return the key of a verdict, and its message or the values of its variables.

    Args:
        row: the verdict.
        key: the columns of the key of a policy with variables; None for other policies, which have
            no other columns.
    """
    values = {
        name: value for name, value in row.items() if name not in _FIXED and value is not None
    }
    message = row.get("message") or ""
    if key is None:
        return ", ".join(map(str, values.values())), message
    # a column of a key that has the name of another one has a prefix
    of_key = [name if name in values else f"key_{name}" for name in key]
    keys = ", ".join(str(values.pop(name)) for name in of_key if name in values)
    text = ", ".join(f"{name} = {value}" for name, value in values.items())
    return keys, f"{message} ({text})" if message and text else message or text
