"""Checks of which each goes on from the snapshot of the one before."""

from __future__ import annotations

from typing import Any

from mtlmon.policy import PolicyFile, parse_policies
from tests.checking.logs import opened
from tests.doors import LogCheck, Messages, TraceKeys, VerdictTable, shown_names


def relayed(
    paths: list[str],
    text: str,
    verdicts: Any,
    *,
    event: str | None = None,
    rows: bool = False,
    slice_events: int | None = None,
) -> list[dict[str, Any]]:
    """The verdicts, where a new check takes over after every batch, if it can.

    Args:
        paths: the files of the log.
        text: the policies.
        verdicts: which verdicts are wanted.
        event: the column of events.
        rows: whether verdicts have their rows.
        slice_events: the number of events that are checked at once.
    """
    file = parse_policies(text)
    shown: Any = None

    def make() -> LogCheck:
        nonlocal shown
        check = LogCheck(file.policies, key=file.key or (), verdicts=verdicts, rows=rows)
        shown = shown_messages(check, file, verdicts)
        return check

    check = make()
    source = opened(check, file, paths, event=event, shown=shown)
    source.only_due_ticks(check.repeats_ticks)
    if rows:
        source.track_rows()
    found: list[dict[str, Any]] = []

    def take() -> None:
        names = [policy.name for policy in check.policies]
        keys = TraceKeys(check.partitions, source.key_tables)
        tracker = check.row_tracker
        table = VerdictTable(names, keys, messages=check.messages, row_tracker=tracker)
        for batch in table.batches(check.verdicts):
            found.extend(batch.to_pylist())

    with source:
        for batch in source:
            if slice_events is not None:
                check.slice_events = slice_events
            for _ in check.feed(batch, source):
                take()
            if check.is_stopped:
                return found
            if not check.is_within_row:
                snapshot = check.snapshot()
                check.close()
                check = make()
                check.restore(snapshot)
                assert check.snapshot() == snapshot
        for _ in check.end(source, "last"):
            take()
    return found


def shown_messages(
    check: LogCheck, file: PolicyFile, verdicts: str
) -> list[dict[Any, list[str]]] | None:
    """Let a check make the messages of triggers; return the names of the values that they need.

    Args:
        check: the check.
        file: its policies.
        verdicts: which verdicts are wanted.

    Returns:
        For each partition the names in `PolicyFile.shown`; None if there are no messages.
    """
    if verdicts == "none" or all(policy.message is None for policy in check.policies):
        return None
    keeps_first, repeats_ticks = verdicts == "first", check.repeats_ticks
    check.messages = Messages(check, keeps_first=keeps_first, repeats_ticks=repeats_ticks)
    return shown_names(file, check, has_values=False)
