"""What the report says of policies and their files, beside the verdicts."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from mtlmon.explanation.trace import Wording
from mtlmon.policy import PolicyFile
from mtlmon.policy.written import WrittenPolicy, written_formula, written_policies
from mtlmon.reporting import PolicyFileName
from mtlmon.run.files import text_of
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.support.time_zones import read_time_zone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy.limits import Tally
    from mtlmon.reporting import PolicyReport
    from mtlmon.run.spec import Log, Policies, RunSpec, Times
    from mtlmon.syntax.formula import Formula

__all__ = ["WrittenPolicies", "policy_files", "settings_of", "time_zone_of", "wording_of"]

_DIGITS = 12


class WrittenPolicies:
    """The policies of a run as their files write them.

    Args:
        file: the formula or the policies.
        options: the options of the run.
    """

    def __init__(self, file: Formula | PolicyFile, options: RunSpec) -> None:
        self.unit = options.times.time_stamp_unit
        self.written: dict[str | None, WrittenPolicy]
        if isinstance(file, PolicyFile):
            names = [policy.name for policy in file.policies]
            written = written_policies(file, options.policies.constants)
            self.written = dict(zip(names, written, strict=True))
            self.has_several = len(file.files) > 1
        else:
            texts = [text_of(content, name) for name, content in options.policies.contents.items()]
            (text,) = texts or [options.policies.formula or ""]
            self.written = {None: WrittenPolicy(written_formula(text), (), "")}
            self.has_several = False

    def added_to(self, report: PolicyReport, tally: Tally, key: Sequence[str] = ()) -> PolicyReport:
        """Add to the report on a policy what its file says, and how often its left side held.

        Args:
            report: the report on the policy.
            tally: what is counted of the policy.
            key: the columns of its key.
        """
        policy, triggered = tally.policy, tally.triggered
        written = self.written[policy.name]
        clauses = {
            "violations": policy.tolerance_text,
            "per": ", ".join(key),
            "on": "" if policy.clock is None else policy.clock.in_words(self.unit),
        }
        return replace(
            report,
            formula=written.text,
            clauses=[(name, value) for name, value in clauses.items() if value],
            is_tolerated=bool(report.false) and not tally.has_failed,
            triggered=None if triggered is None else triggered.times,
            triggered_share=None if triggered is None else triggered.share,
            definitions=written.definitions,
            file=written.source if self.has_several else None,
        )


def policy_files(policies: Policies) -> list[PolicyFileName]:
    """Return the names and revisions of the policy files of a run."""
    return [
        PolicyFileName(
            "standard input" if name == STANDARD_STREAM else name,
            hashlib.sha256(content).hexdigest()[:_DIGITS],
        )
        for name, content in policies.contents.items()
    ]


def wording_of(file: Formula | PolicyFile, times: Times) -> Wording:
    """Return how explanations write formulas of a file."""
    names = file.named_formulas if isinstance(file, PolicyFile) else {}
    return Wording(times.time_stamp_unit, names)


def time_zone_of(file: Formula | PolicyFile, log: Log) -> str | None:
    """Return the time zone of people: that of the log's times, else the one of the policies' hours.

    None is UTC, also if policies have several.
    """
    zones = {log.time_zone} - {None}
    if isinstance(file, PolicyFile):
        zones = zones or {file.time_zone} - {None}
        zones = zones or {one.zone for one in file.files}
    (zone,) = zones if len(zones) == 1 else (None,)
    return None if zone is None else read_time_zone(zone).name


def settings_of(file: Formula | PolicyFile, options: RunSpec) -> list[tuple[str, str]]:
    """Return what the verdicts depend on beside policies and log, each as a name and a text."""
    unit = options.times.time_stamp_unit
    zones = []
    if isinstance(file, PolicyFile):
        zones = list(dict.fromkeys(one.zone for one in file.files if one.zone is not None))
    constants = [f"{name}={value}" for name, value in options.policies.constants.items()]
    settings = {
        "Unit": unit or "",
        "Time zone": ", ".join(zones),
        "Constants": ", ".join(constants),
        "Time-points": "time-stamps" if options.log.time_points == "stamp" else "",
    }
    return [(name, value) for name, value in settings.items() if value]
