"""Renders reports as self-contained HTML pages, which need neither network nor scripts."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from mtlmon.explanation.svg import NARROW_STYLE
from mtlmon.reporting.chart import Bar, Chart
from mtlmon.reporting.clock import Clock, counts_from_1970
from mtlmon.support.extras import load_extra
from mtlmon.syntax.report import shorten, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.policy.written import Definition
    from mtlmon.reporting.data import PolicyReport, ReportData, Run, Violation

__all__ = ["render"]

_TEMPLATE = "report.html"
_STYLE = "report.css"
_SCRIPT = "report.js"

_TEXT_CHARACTERS = 300
_NAME_CHARACTERS = 120
_WRITTEN_CHARACTERS = 4000
# How many definitions of a policy are shown; generated files can have very many.
_DEFINITIONS = 100
# How many violations without an explanation are shown before the reader unfolds the rest.
_SHOWN = 20


def render(data: ReportData) -> str:
    """Render a report as an HTML page.

    The page is a single file that works without a network: it contains its style, script and
    pictures. All text from policies and logs is escaped, and only the page's own script can run.

    Raises:
        MtlmonError: jinja2 is not installed (extra `report`).
    """
    script = _asset(_SCRIPT)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    markup = load_extra("markupsafe", "report").Markup
    clock = _clock_of(data)
    page: str = (
        _environment()
        .get_template(_TEMPLATE)
        .render(
            data=data,
            run=data.run,
            facts=list(_facts(data.run, clock)),
            heading=_plain(data.title),
            outcome=_outcome(data),
            clock=clock,
            policies=[
                _Section(policy, number, clock) for number, policy in enumerate(data.policies, 1)
            ],
            style=markup(f"{_asset(_STYLE)}{NARROW_STYLE}"),
            script=markup(script),
            script_digest=digest,
        )
    )
    # Lone surrogates, as from a file name that is not UTF-8, cannot be encoded.
    return page.encode("utf-8", "replace").decode("utf-8")


@cache
def _environment() -> Any:
    jinja = load_extra("jinja2", "report")
    environment = jinja.Environment(
        loader=jinja.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    markup = load_extra("markupsafe", "report").Markup
    environment.filters.update(
        number="{:,}".format,
        plain=_plain,
        written=_written,
        plural=_plural,
        name=_name,
        trusted=markup,
    )
    return environment


@cache
def _asset(name: str) -> str:
    return (resources.files("mtlmon.reporting") / "templates" / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class _Status:
    """An outcome: a word, a mark that works without colour, and a class for the style."""

    word: str
    mark: str
    kind: str


_VIOLATED = _Status("violated", "✗", "false")
_HOLDS = _Status("holds", "✓", "true")
_TOLERATED = _Status("tolerated", "✓", "open")
_OPEN = _Status("no violation so far", "…", "open")
_NOTHING = _Status("no events", "–", "none")


class _Section:
    """The section of the page about one policy."""

    def __init__(self, policy: PolicyReport, number: int, clock: Clock) -> None:
        self.policy = policy
        self.identifier = f"policy-{number}"
        self.name = "Policy" if policy.name is None else _plain(policy.name, _NAME_CHARACTERS)
        self.status = _status(policy)
        self.chart = None if policy.timeline is None else Chart(policy.timeline, clock)
        self._first_of_bar: dict[int, int] = {}
        if policy.timeline is not None:
            start, width = policy.timeline.start, policy.timeline.width
            for index, violation in enumerate(policy.violations, 1):
                self._first_of_bar.setdefault((violation.time_stamp - start) // width, index)

    def listed_in(self, bar: Bar) -> str | None:
        """The identifier of the first violation of an interval, if that is listed."""
        index = self._first_of_bar.get(bar.index)
        return None if index is None else f"{self.identifier}-violation-{index}"

    @property
    def definitions(self) -> tuple[Sequence[Definition], int]:
        """The definitions that are shown, and how many are not."""
        shown = self.policy.definitions[:_DEFINITIONS]
        return shown, len(self.policy.definitions) - len(shown)

    @property
    def clauses(self) -> list[tuple[str, str]]:
        """What is said of the policy in a few words each."""
        policy = self.policy
        severity = [] if policy.severity is None else [("severity", policy.severity)]
        file = [] if policy.file is None else [("file", policy.file)]
        return [*severity, *policy.clauses, *file]

    @property
    def shares(self) -> list[tuple[_Status, int, float]]:
        """The kinds of verdicts, with their numbers and percentages."""
        total = self.policy.time_points
        counts = [
            (_Status("false", "✗", "false"), self.policy.false),
            (_Status("true", "✓", "true"), self.policy.true),
            (_Status("undecided", "…", "open"), self.policy.undecided),
        ]
        return [(status, count, 100 * count / total if total else 0) for status, count in counts]

    @property
    def violations(self) -> tuple[list[Violation], list[Violation]]:
        """The violations that are shown at once, and those that have to be unfolded."""
        listed = list(self.policy.violations)
        explained = [index for index, one in enumerate(listed) if one.explanation is not None]
        shown = max(_SHOWN, explained[-1] + 1 if explained else 0)
        return listed[:shown], listed[shown:]


def _status(policy: PolicyReport) -> _Status:
    if policy.false:
        return _TOLERATED if policy.is_tolerated else _VIOLATED
    if policy.undecided:
        return _OPEN
    return _HOLDS if policy.true else _NOTHING


def _outcome(data: ReportData) -> tuple[_Status, str]:
    """The outcome of all policies, and a sentence that says it."""
    statuses = [_status(policy) for policy in data.policies]
    violated = statuses.count(_VIOLATED)
    if violated:
        false = [policy.false for policy in data.policies if _status(policy) is _VIOLATED]
        found = _plural(sum(false), "violation")
        if len(statuses) == 1:
            return _VIOLATED, f"The policy is violated: {found}."
        verb = "is" if violated == 1 else "are"
        return _VIOLATED, f"{violated:,} of {len(statuses):,} policies {verb} violated: {found}."
    if _TOLERATED in statuses:
        found = _plural(sum(policy.false for policy in data.policies), "violation")
        return _TOLERATED, f"No policy is violated more often than it may be: {found}."
    if _OPEN in statuses:
        count = sum(policy.undecided for policy in data.policies)
        verb = "is" if count == 1 else "are"
        return _OPEN, f"No violation so far; {_plural(count, 'verdict')} {verb} still open."
    if _HOLDS in statuses:
        all_of_them = "The policy holds" if len(statuses) == 1 else "All policies hold"
        return _HOLDS, f"{all_of_them}: no violation was found."
    return _NOTHING, "There were no events to judge."


def _clock_of(data: ReportData) -> Clock:
    unit = data.run.unit
    epoch = data.epoch
    if epoch is None:
        epoch = counts_from_1970(unit, _times(data))
    return Clock(unit, epoch=epoch, zone=data.run.time_zone)


def _times(data: ReportData) -> Iterator[int]:
    """Time-stamps that include the earliest and the latest that the report shows."""
    yield from (time for time in (data.run.first, data.run.last) if time is not None)
    for policy in data.policies:
        yield from (one.time_stamp for one in policy.violations)
        yield from (one.time_stamp for one in policy.undecided_time_points)
        if policy.timeline is not None:
            # the end of the interval can lie beyond the log
            yield policy.timeline.interval(len(policy.timeline.counts) - 1)[0]


def _facts(run: Run, clock: Clock) -> Iterator[tuple[str, str]]:
    if run.inputs:
        yield "Input" if len(run.inputs) == 1 else "Inputs", ", ".join(map(_plain, run.inputs))
    for one in run.policy_files:
        yield "Policy file", f"{_plain(one.name)}, revision {one.revision}"
    for name, value in run.settings:
        yield name, _plain(value)
    if run.command is not None:
        yield "Command", _plain(run.command, 2000)
    if run.rows is not None:
        yield "Events", f"{run.rows:,}"
    yield "Skipped", f"{run.skipped:,}"
    if run.first is not None and run.last is not None:
        yield (
            "Time",
            clock.interval(run.first, run.last)
            + (f" ({clock.zone_name})" if clock.has_dates else ""),
        )
    if run.end_time is not None:
        yield "End", _end_words(run.end_time, clock)
    if run.key_columns:
        yield "Key", ", ".join(map(_plain, run.key_columns))
    if run.keys is not None:
        yield "Keys", f"{run.keys:,}"
    if run.mode is not None:
        yield "Mode", run.mode
    if run.started is not None:
        yield "Started", f"{run.started:%Y-%m-%d %H:%M:%S %Z}".rstrip()
    yield from _costs(run)
    yield "Version", f"mtlmon {run.version}"


def _costs(run: Run) -> Iterator[tuple[str, str]]:
    if run.seconds is not None:
        text = f"{run.seconds:,.2f} s"
        if run.rows and run.seconds > 0:
            text += f", {run.rows / run.seconds:,.0f} events/s"
        yield "Duration", text
    if run.peak_memory is not None:
        yield "Peak memory", f"{run.peak_memory / 1e6:,.1f} MB"


def _end_words(end_time: int | str, clock: Clock) -> str:
    if end_time == "inf":
        return "no event follows the log"
    if isinstance(end_time, int):
        return f"the log is complete up to {clock.text(end_time)}"
    return "the log is complete up to its last time-stamp"


def _plain(text: str, characters: int = _TEXT_CHARACTERS) -> str:
    """The text as one line of printable characters, without its middle if it is very long."""
    return shorten(visible(" ".join(text.split("\n"))), characters)


def _written(text: str) -> str:
    """Text of a policy file: its lines, with printable characters only."""
    lines = (visible(line.expandtabs(4)) for line in text.split("\n"))
    return shorten("\n".join(lines), _WRITTEN_CHARACTERS)


def _name(key: str | None) -> str:
    """The text of a key; an empty key is shown as "(empty)"."""
    return "" if key is None else _plain(key, _NAME_CHARACTERS) or "(empty)"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun if count == 1 else noun + 's'}"
