"""What a run tells beside its verdicts: the summary, and remarks."""

from __future__ import annotations

from mtlmon.run.host import quantity
from mtlmon.syntax.report import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mtlmon.changelog.loops import ChangelogLoop
    from mtlmon.checking.assumptions import AssumptionWatch
    from mtlmon.checking.late_checks import LateChecks
    from mtlmon.checking.log_check import LogCheck
    from mtlmon.checking.text_logs import TextLog
    from mtlmon.drive.native import TextMonitor, TextResolver
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.policy import Policy
    from mtlmon.policy.limits import Tally
    from mtlmon.run.host import Host
    from mtlmon.run.spec import RunSpec
    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.operators import Operator
    from mtlmon.tables import TableEvents
    from mtlmon.text.head import LogHead

__all__ = [
    "absent_atoms",
    "answer_counts",
    "broken_rows",
    "corrections_summary",
    "key_rows",
    "lost_rows",
    "memory_row",
    "name_list",
    "note_mode",
    "note_slow",
    "note_unit",
    "plural",
    "policy_remarks",
    "report_end",
    "resolving_summary",
    "streams_summary",
    "summary",
    "verdict_counts",
]

# the least width of numbers in a summary, so that small runs have the same layout
LEAST_WIDTH = 7
NAMES_SHOWN = 10
_NOTHING_FOLLOWS = "or add --end-time inf if nothing follows"


def note_unit(time_stamp: int | None, unit: str | None, host: Host) -> None:
    """Mention that the time-stamps of a text log are probably in another unit."""
    if time_stamp is not None and unit is not None:
        from mtlmon.text.plausible_times import implausible_time

        found = implausible_time(time_stamp, unit)
        if found is not None:
            host.note(found)


def report_end(
    monitor: TextMonitor, head: LogHead, host: Host, *, is_complete: bool, is_resolved: bool
) -> None:
    """Tell what the verdicts alone do not show.

    Args:
        monitor: the monitor.
        head: the first lines of the log.
        host: is told.
        is_complete: whether the log was read to its end.
        is_resolved: whether the value of every time-point was requested.
    """
    if monitor.skipped_count:
        host.note(f"skipped {plural(monitor.skipped_count, 'line')} that could not be read")
    if is_complete and monitor.scanner.absent:
        host.note(absent_atoms(monitor.scanner.absent, monitor.event_count, head.names))
    if is_complete and is_resolved and monitor.undecided_count:
        points = plural(monitor.undecided_count, "time-point")
        host.note(f"{points} undecided at the end of the log (see --end-time)")
    if monitor.open_first is not None:
        (time_stamp, offset), (open_time_stamp, open_offset) = monitor.open_first
        host.note(
            f"{time_stamp}:{offset} is false, but {open_time_stamp}:{open_offset} before it is "
            "undecided at the end of the log (see --end-time)"
        )


def summary(monitor: TextMonitor, seconds: float, events_before: int = 0, refused: int = 0) -> str:
    """Return counts and speed, aligned.

    Args:
        monitor: the monitor.
        seconds: the time in which the events of this run were monitored.
        events_before: the number of events of earlier runs.
        refused: the number of lines that came too late.
    """
    rows = [
        ("events", monitor.event_count, ""),
        ("true", monitor.true_count, ""),
        ("false", monitor.false_count, ""),
        ("undecided", monitor.undecided_count, ""),
        ("peak pending", monitor.peak_pending, "stored at a time"),
        ("peak memory", monitor.memory.peak >> 10, "KiB, without Python's"),
    ]
    if monitor.skipped_count:
        rows.append(("skipped", monitor.skipped_count, "lines that cannot be read"))
    if refused:
        rows.append(("too late", refused, "lines that were not checked"))
    return table(rows, monitor.event_count - events_before, "events", seconds)


def resolving_summary(resolver: TextResolver | ChangelogLoop, seconds: float) -> str:
    """Return counts and speed of resolving, aligned."""
    rows = [
        ("time-points", resolver.event_count, "resolved"),
        ("true", resolver.true_count, ""),
        ("false", resolver.false_count, ""),
        ("open", resolver.open_count, ""),
        ("peak memory", resolver.memory.peak >> 10, "KiB, without Python's"),
    ]
    return table(rows, resolver.event_count, "time-points", seconds)


def memory_row(memory: MemoryLimit) -> tuple[str, int, str]:
    """Return the row of a summary about memory."""
    return "peak memory", memory.peak >> 10, "KiB, without Python's and Arrow's"


_KINDS = ("true", "false", "equivalent")


def corrections_summary(
    check: LateChecks,
    source: TextLog | TableEvents,
    seconds: float,
    events_before: int,
    assumptions: AssumptionWatch | None = None,
) -> str:
    """Return counts and speed of a check whose verdicts are corrected, aligned.

    The counts are those of the latest verdicts and answers. The speed does not count the events of
    earlier runs.
    """
    from mtlmon.checking.text_logs import TextLog

    plain, answers = check.plain, check.answers
    what = "events" if isinstance(source, TextLog) else "rows"
    revised = "verdicts" if answers is None else "answers"
    if plain is not None and answers is not None:
        revised = "verdicts and answers"
    rows = [
        (what, check.position, ""),
        ("late", check.late_count, "that came after later ones"),
        *([("taken back", check.retracted, "or replaced")] if check.retracted else []),
        ("judged again", check.judged_again, "time-points"),
        ("revisions", check.revision_count, f"of {revised}"),
        *lost_rows(source, check.refused_count),
        *broken_rows(assumptions),
    ]
    if check.memory.limit is not None:
        rows.append(memory_row(check.memory))
    tables = []
    if plain is not None and answers is None and len(plain.policies) == 1:
        rows += zip(_KINDS, plain.kinds[0], [""] * 3, strict=True)
    elif plain is not None:
        tables.append(verdict_counts(plain.policies, plain.kinds, _KINDS[-1]))
    if answers is not None:
        tables.append(answer_counts(answers.tallies))
    tables.insert(0, table(rows, check.position - events_before, what, seconds))
    return "\n\n".join(tables) + ("" if plain is None else policy_remarks(plain.tallies))


def verdict_counts(policies: Sequence[Policy], counts: Iterable[Iterable[int]], last: str) -> str:
    """Return how many verdicts of each kind policies without variables have, aligned.

    Args:
        policies: the policies.
        counts: for each, how many are true and false, and those of the last kind.
        last: what these are called.
    """
    cells = [
        ["policy", "true", "false", last],
        *(
            [visible(policy.name or ""), *(f"{count:,}" for count in own)]
            for policy, own in zip(policies, counts, strict=True)
        ),
    ]
    return counts_table(cells, [visible(policy.text) for policy in policies])


def answer_counts(tallies: Sequence[Tally]) -> str:
    """Return how many time-points violate each policy with variables, or match, aligned."""
    cells = [["policy", "time-points", "violated", "matched"]]
    for policy, counts, _, answered in tallies:
        own = ["", f"{counts.true:,}"] if policy.is_find else [f"{counts.false:,}", ""]
        cells.append([visible(policy.name or ""), f"{answered:,}", *own])
    return counts_table(cells, [visible(one.policy.text) for one in tallies])


def policy_remarks(tallies: Iterable[Tally]) -> str:
    """Say of implications how often their left sides held, and whether limits are kept.

    There is a line for each implication whose left side is counted, and for each policy that may be
    violated so and so often, and an empty line before them.
    """
    lines = [f"\n{one.line}" for one in tallies if one.line is not None]
    return "".join(["\n", *lines]) if lines else ""


def counts_table(cells: list[list[str]], texts: list[str]) -> str:
    """Return the counts of policies, aligned.

    Args:
        cells: the names of the columns, and for each policy its name and its counts.
        texts: what the policies mean, in words, or empty texts.
    """
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for (name, *numbers), text in zip(cells, ["", *texts], strict=True):
        shown = (cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))
        lines.append("  ".join([name.ljust(widths[0]), *shown, text]).rstrip())
    return "\n".join(lines)


def streams_summary(
    source: TextLog | TableEvents,
    memory: MemoryLimit,
    seconds: float,
    assumptions: AssumptionWatch | None = None,
    forgotten: int = 0,
) -> str:
    """Return counts and speed of computing the values of streams, aligned."""
    rows = [("rows", source.rows, "")]
    rows += lost_rows(source)
    keys = source.key_tables[0]
    if keys is not None:
        remark = f"in memory; idle ones were forgotten {forgotten:,} times" if forgotten else ""
        rows.append(("keys", len(keys), remark))
    rows += broken_rows(assumptions)
    rows.append(memory_row(memory))
    return table(rows, source.rows, "rows", seconds)


def lost_rows(
    source: TextLog | TableEvents, refused: int | None = None
) -> list[tuple[str, int, str]]:
    """Return the rows of a summary about what of a log was not monitored, or not as it may look.

    `refused` is the number of rows that came too late, if the log does not know it.
    """
    from mtlmon.checking.text_logs import TextLog

    unmatched = spanning = strays = 0
    if not isinstance(source, TextLog):
        unmatched, spanning = source.unmatched, source.spanning_rows
        strays = source.stray_quotes
    rows = [
        ("skipped", source.skipped, "that cannot be read"),
        ("too late", source.refused if refused is None else refused, "that were not checked"),
        ("left out", source.points_left_out, "time-points at which integers overflow"),
        ("other lines", unmatched, "that do not match the pattern"),
        ("over lines", spanning, "rows that span several lines"),
        ("quotes", strays, "that were read as characters, because they do not end their cells"),
    ]
    return [row for row in rows if row[1]]


def broken_rows(assumptions: AssumptionWatch | None) -> list[tuple[str, int, str]]:
    """Return the row of a summary about broken assumptions, if there are any."""
    count = 0 if assumptions is None else len(assumptions.broken)
    return [("broken", count, "assumptions of the policy file")] if count else []


def key_rows(check: LogCheck, source: TextLog | TableEvents) -> list[tuple[str, int, str]]:
    """Return the rows of a summary about the keys of each partition that has keys."""
    rows = []
    counts, state_bytes = check.key_counts, check.state_bytes
    for partition, keys in enumerate(source.key_tables):
        if keys is None:
            continue
        columns = check.partitions.columns[partition]
        whose = f"of {', '.join(columns)}, " if len(counts) > 1 else ""
        # a key that returns after it was forgotten can be counted again
        times = check.keys_forgotten[partition]
        forgotten = f"; idle ones were forgotten {times:,} times" if times else ""
        # policies with variables do not count those that have had events
        count = counts[partition] or len(keys)
        size = (state_bytes[partition] + keys.memory) / max(1, count)
        remark = f"{whose}in memory, {quantity(size)}B each{forgotten}"
        rows.append(("keys", count, remark))
    return rows


def table(rows: list[tuple[str, int, str]], count: int, what: str, seconds: float) -> str:
    """Return names, counts and remarks, aligned, with the running time after the first row."""
    width = max(LEAST_WIDTH, *(len(f"{count:,}") for _, count, _ in rows))
    lines = [f"{name:<12}  {count:>{width},}  {remark}".rstrip() for name, count, remark in rows]
    speed = quantity(count / seconds).rstrip() if seconds > 0 else "-"
    lines.insert(1, f"{'seconds':<12}  {seconds:>{width}.2f}  {speed} {what}/s")
    return "\n".join(lines)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def absent_atoms(
    absent: tuple[str, ...], event_count: int, seen_names: Callable[[], list[str]]
) -> str:
    """Return the note that no event had these atoms, with a guess at what was meant.

    Args:
        absent: the atoms.
        event_count: the number of events.
        seen_names: returns the names that events have had.
    """
    from mtlmon.support.guesses import nearest

    if not event_count:
        return "the log has no events"
    names = seen_names()
    guesses = [(name, guess) for name in absent[:NAMES_SHOWN] if (guess := nearest(name, names))]
    if len(absent) == 1:
        meant = [name_list((guess,)) for _, guess in guesses]
    else:
        meant = [f"{name_list((guess,))} for {name_list((name,))}" for name, guess in guesses]
    noun = "atom" if len(absent) == 1 else "atoms"
    hint = f"; did you mean {', '.join(meant)}?" if meant else ""
    return f"no event has the {noun} {name_list(absent)}{hint}"


def note_mode(what: str, formulas: Sequence[Formula], options: RunSpec, mode: str) -> None:
    """Mention that formulas are unbounded, and which operators can never decide them.

    Args:
        what: the future of which policies is unbounded.
        formulas: their formulas.
        options: the options of the run.
        mode: the mode that they run in.
    """
    advice = "" if options.times.end_time == "inf" else never_decided(formulas)
    options.host.note(
        f"{what} is unbounded: mode {options.judging.mode} works as {mode} here{advice}"
    )


def never_decided(formulas: Sequence[Formula]) -> str:
    """Say behind a semicolon how to write formulas that cannot be true, or false, before the end.

    These are `ALWAYS p`, `EVENTUALLY p` and `p IMPLIES EVENTUALLY q` without bounds.
    """
    from mtlmon.syntax import operators as ops

    for formula in formulas:
        ahead = formula.operands[1] if formula.operator is ops.IMPLIES else formula
        if is_unbounded(formula, ops.ALWAYS):
            return (
                "; ALWAYS without a bound is never true before the end of the log: leave it out, "
                f"as each time-point has a verdict of its own, {_NOTHING_FOLLOWS}"
            )
        if is_unbounded(ahead, ops.EVENTUALLY):
            return (
                "; EVENTUALLY without a bound is never false before the end of the log: give it "
                f"one, as in EVENTUALLY[0,5], {_NOTHING_FOLLOWS}"
            )
    return ""


def is_unbounded(formula: Formula, operator: Operator) -> bool:
    """Whether a formula is an operator without an upper bound."""
    interval = formula.interval
    return formula.operator is operator and (interval is None or interval.upper is None)


def note_slow(policies: Sequence[tuple[str | None, Formula]], options: RunSpec) -> None:
    """Mention once which policies have no bound on the time that an event takes.

    Mode global is chosen for what it finds, and `--explain-formula` tells of it.
    """
    from mtlmon.engine.choice import SLOW, has_time_bound

    if options.judging.mode == "global":
        return
    slow = [name for name, formula in policies if not has_time_bound(formula, options.judging.mode)]
    if slow:
        names = tuple(name for name in slow if name is not None)
        what = f"of {name_list(names)}: " if names else ""
        options.host.note(f"{what}{SLOW}, and nothing bounds the time (see --explain-formula)")


def name_list(names: tuple[str, ...]) -> str:
    """List atoms as they are written in formulas, leaving some out if there are many."""
    from mtlmon.syntax.formula import atom

    shown = ", ".join(str(atom(name)) for name in names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown
