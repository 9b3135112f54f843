"""Writes findings as parts of the page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from mtlmon.errors import UndecidedError
from mtlmon.explanation.html import section
from mtlmon.serving.plot import clock_of, drawn_keys, plot
from mtlmon.syntax.report import shorten, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.explanation.proof import Proof
    from mtlmon.reporting.clock import Clock
    from mtlmon.serving.findings import Findings, PolicyFindings, Problem, Verdict

__all__ = ["explanation_of", "outcome_of", "plot_of", "problems_of", "reasons_of", "result_of"]

LISTED = 100
"""The verdicts of a policy that are listed: the violations, and as many of the others."""

SHOWN_KEYS = 10
"""The keys of a policy that are listed with their violations."""

_STATUSES = {
    "false": ("✗", "violated"),
    "true": ("✓", "holds"),
    "open": ("…", "no violation so far"),
    "none": ("–", "no events"),
}
_MARKS = {False: "false", None: "open", True: "true"}
_WORDS = {False: "violated", None: "undecided", True: "holds"}
_CHARACTERS = 400


def outcome_of(findings: Findings) -> tuple[str, str]:
    """Return the kind of the outcome, as a class, and a sentence that says it."""
    if findings.problems:
        count = len(findings.problems)
        return "problem", "1 problem" if count == 1 else f"{count} problems"
    kinds = [_kind(policy) for policy in findings.policies]
    events = "1 event" if findings.events == 1 else f"{findings.events:,} events"
    if "false" in kinds:
        total = sum(policy.false for policy in findings.policies)
        found = "1 violation" if total == 1 else f"{total:,} violations"
        return "false", f"{found}, {events}"
    if "open" in kinds:
        return "open", f"no violation so far, {events}"
    if not kinds:
        return "none", f"no policies, {events}"
    return ("true", f"all hold, {events}") if "true" in kinds else ("none", "no events")


def problems_of(problems: Sequence[Problem]) -> str:
    """Return the list of problems, each with a button that leads to its place."""
    if not problems:
        return ""
    return f'<ul class="problems">{"".join(map(_problem, problems))}</ul>'


def result_of(findings: Findings, reasons: Mapping[str, str] | None = None) -> str:
    """Return a section for each policy.

    Args:
        findings: what a run has found.
        reasons: explanations as HTML by the names of verdicts, which are folded below them; if
            None, each verdict has a button that asks for its explanation.
    """
    return "\n".join(_parts(findings, reasons))


def explanation_of(
    proof: Proof | UndecidedError, title: str, details: Sequence[str], number: int = 1
) -> str:
    """Return why a verdict is what it is.

    Args:
        proof: the proof, or the error that says why there is none.
        title: the policy and its key.
        details: the message and the values at the time-point.
        number: the number of the explanation on the page.
    """
    if isinstance(proof, UndecidedError):
        return f"<section><h2>{escape(title)}</h2><p>{escape(visible(str(proof)))}</p></section>"
    return section(proof, number, title or None, details)


def plot_of(findings: Findings, width: int) -> str:
    """Return the plot with its legend; empty if nothing happens over time.

    Args:
        findings: what a run has found.
        width: the width of the plot in pixels.
    """
    picture = plot(findings, width)
    if not picture:
        return ""
    region = '<div class="plots" tabindex="0" role="region" aria-label="over time">'
    return f"{region}{picture}</div>{''.join(_legend(findings))}"


def reasons_of(text: str, details: Sequence[str]) -> str:
    """Return an explanation that is text.

    Args:
        text: the explanation.
        details: lines about the time-point.
    """
    lines = "".join(f"<p>{escape(visible(line))}</p>" for line in details)
    return f'{lines}<pre class="reasons">{_lines(text)}</pre>'


def _parts(findings: Findings, reasons: Mapping[str, str] | None) -> Iterator[str]:
    for remark in findings.remarks:
        yield f'<p class="remark">{escape(visible(remark))}</p>'
    clock = clock_of(findings)
    for policy in findings.policies:
        yield from _policy(policy, clock, reasons)
    if findings.reasons:
        yield "<section><h3>Why</h3>"
        for words, reason in findings.reasons:
            yield f"<details><summary>{escape(visible(words))}</summary>{reason}</details>"
        yield "</section>"


def _legend(findings: Findings) -> Iterator[str]:
    keys, left_out = drawn_keys(findings)
    if len(keys) > 1:
        shown = "".join(
            f'<li class="s{number}">{escape(_name(key))}</li>' for number, key in enumerate(keys)
        )
        yield f'<ul class="legend" aria-label="keys">{shown}</ul>'
    if left_out:
        what = _count(left_out, "more key")
        violated = {key for one in findings.policies for key in one.violating_keys}
        count = len(violated.intersection(findings.streams.keys if findings.streams else ()))
        which = f", of which {max(0, count - len(violated.intersection(keys))):,} have violations"
        yield f'<p class="remark">Not drawn: {what}{which}.</p>'
    for policy in findings.policies:
        shown_of = sum(one.value is False for one in policy.verdicts)
        others = len(policy.verdicts) - shown_of
        left = policy.false - shown_of, policy.true + policy.undecided - others
        parts = [
            f"{_count(count, word)} after the first {kept:,}"
            for count, word, kept in zip(
                left, ("violation", "other time-point"), (shown_of, others), strict=True
            )
            if count > 0
        ]
        if parts:
            name = _name(policy.name) if policy.name is not None else "the policy"
            text = f"Neither drawn nor marked in the log, of {name}: {', '.join(parts)}."
            yield f'<p class="remark">{escape(text)}</p>'


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _kind(policy: PolicyFindings) -> str:
    if policy.is_violated:
        return "false"
    if policy.undecided:
        return "open"
    return "true" if policy.true or policy.false else "none"


def _policy(
    policy: PolicyFindings, clock: Clock, reasons: Mapping[str, str] | None
) -> Iterator[str]:
    mark, words = _STATUSES[_kind(policy)]
    name = escape(_name(policy.name) if policy.name is not None else "Policy")
    severity = "" if policy.severity is None else f" · {escape(visible(policy.severity))}"
    yield f'<section class="policy"><h3>{name} <span class="status {_kind(policy)}">'
    yield f'<span aria-hidden="true">{mark}</span> {words}</span>{severity}</h3>'
    if policy.meaning:
        yield f"<p>{escape(visible(policy.meaning))}</p>"
    yield f"<pre><code>{_lines(shorten(policy.formula, _CHARACTERS))}</code></pre>"
    yield (
        f'<p class="counts">{policy.false:,} violated · {policy.true:,} true · '
        f"{policy.undecided:,} undecided</p>"
    )
    if policy.never_triggered:
        yield '<p class="remark">The left side of the implication held nowhere.</p>'
    yield from _keys(policy)
    false = [one for one in policy.verdicts if one.value is False]
    others = [one for one in policy.verdicts if one.value is not False]
    yield from _list(false, policy, clock, reasons, policy.false, "violation")
    if others:
        total = policy.true + policy.undecided
        yield f"<details><summary>The others ({total:,})</summary>"
        yield from _list(others, policy, clock, reasons, total, "other")
        yield "</details>"
    yield "</section>"


def _list(
    verdicts: Sequence[Verdict],
    policy: PolicyFindings,
    clock: Clock,
    reasons: Mapping[str, str] | None,
    total: int,
    noun: str,
) -> Iterator[str]:
    """A list of the first verdicts of a kind, of which there are so many in all."""
    if not verdicts:
        return
    yield '<ul class="verdicts">'
    for verdict in verdicts[:LISTED]:
        yield f"<li>{_verdict(verdict, policy, clock, reasons)}</li>"
    yield "</ul>"
    left_out = max(total, len(verdicts)) - len(verdicts[:LISTED])
    if left_out:
        yield (
            f'<p class="remark">These are the first {len(verdicts[:LISTED]):,}; '
            f"{_count(left_out, f'more {noun}') if noun != 'other' else f'{left_out:,} more'} "
            f"{'is' if left_out == 1 else 'are'} not shown.</p>"
        )


def _keys(policy: PolicyFindings) -> Iterator[str]:
    """The keys with violations, those with most of them first."""
    if not policy.violating_keys:
        return
    order = sorted(policy.violating_keys.items(), key=lambda one: -one[1])
    shown = "".join(
        f'<li><span class="key">{escape(_name(key))}</span> {count:,}</li>'
        for key, count in order[:SHOWN_KEYS]
    )
    left_out = len(order) - SHOWN_KEYS
    more = f"<li>and {_count(left_out, 'more key')}</li>" if left_out > 0 else ""
    of = f" of {policy.key_count:,}" if policy.key_count else ""
    yield (
        f'<div class="violating"><span class="faint">Keys with violations, {len(order):,}{of}:'
        f'</span><ul class="keys" aria-label="keys with violations">{shown}{more}</ul></div>'
    )


def _verdict(
    verdict: Verdict, policy: PolicyFindings, clock: Clock, reasons: Mapping[str, str] | None
) -> str:
    kind = _MARKS[verdict.value]
    offset = f":{verdict.offset}" if verdict.offset else ""
    parts = [
        f'<span class="{kind}" role="img" aria-label="{_WORDS[verdict.value]}">'
        f"{_STATUSES[kind][0]}</span>",
        f"<time>{escape(clock.text(verdict.time_stamp))}{offset}</time>",
    ]
    if verdict.key:
        parts.append(f'<span class="key">{escape(_name(verdict.key))}</span>')
    if verdict.text:
        parts.append(f"<span>{escape(_name(verdict.text))}</span>")
    place = "" if verdict.line is None else f"line {verdict.line}"
    if reasons is None:
        if place:
            parts.append(
                f'<button type="button" class="link" data-pane="log" data-line="{verdict.line}">'
                f"{place}</button>"
            )
        if policy.has_explanations:
            parts.append(
                f'<button type="button" class="link" data-why="{verdict.name}">why</button>'
            )
        return " ".join(parts)
    if place:
        parts.append(f'<span class="faint">{place}</span>')
    line = " ".join(parts)
    if verdict.name in reasons:
        return f"<details><summary>{line}</summary>{reasons[verdict.name]}</details>"
    return line


def _problem(problem: Problem) -> str:
    where = {"policy": "Policy", "log": "Log"}.get(problem.pane or "", "")
    message = f'<span class="message">{escape(visible(problem.message))}</span>'
    hint = "" if not problem.hint else f'<p class="hint">{escape(visible(problem.hint))}</p>'
    if problem.line is None or problem.pane is None:
        return f"<li>{where} {message}{hint}</li>"
    column = problem.column or 1
    return (
        f'<li><button type="button" class="link" data-pane="{problem.pane}" '
        f'data-line="{problem.line}" data-column="{column}">{where}, line {problem.line}'
        f"{'' if problem.column is None else f', column {column}'}</button> {message}{hint}</li>"
    )


def _lines(text: str) -> str:
    return escape("\n".join(map(visible, text.split("\n"))))


def _name(text: str) -> str:
    return shorten(visible(" ".join(text.split("\n"))), 160) or "(empty)"
