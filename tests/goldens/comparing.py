"""Says what differs between two recordings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path

from tests.goldens.recording import Entry, read

LINES = 30


def compare(base: Path, other: Path, groups: Iterable[str], most: int) -> Iterator[str]:
    """Lines about each group that differs, and about the first commands; none if all are equal.

    Args:
        base: the directory of a recording.
        other: that of another one.
        groups: the groups that are compared.
        most: how many commands are shown.
    """
    shown = []
    for name in groups:
        before, after = (read(folder / f"{name}.jsonl") for folder in (base, other))
        both = [key for key in before if key in after]
        changed = [key for key in both if before[key] != after[key]]
        alone = [key for key in {**before, **after} if (key in before) != (key in after)]
        if changed or alone:
            yield f"{name}: {len(changed)} of {len(both)} commands differ, {len(alone)} are in one"
            shown += [difference(before[key], after[key]) for key in changed]
            shown += [f"{key}: only in {base if key in before else other}" for key in alone]
    yield from (f"\n{text}" for text in shown[:most])
    if len(shown) > most:
        yield f"\n{len(shown) - most} more differ"


def difference(before: Entry, after: Entry) -> str:
    """What differs between two entries, for people."""
    lines = [f"{before.name}: {shlex.join(before.arguments)}"]
    if before.arguments != after.arguments:
        lines.append(f"  other arguments: {shlex.join(after.arguments)}")
    if before.inputs != after.inputs:
        lines.append("  other inputs")
    for key in {**before.outputs, **after.outputs}:
        one, two = (entry.outputs.get(key) for entry in (before, after))
        if one != two:
            missing = " is not written" if two is None else " is new" if one is None else ""
            old, new = ((text or "").splitlines() for text in (one, two))
            found = [*unified_diff(old, new, lineterm="", n=2)][2:]
            lines += [f"  {key}{missing}", *(f"    {line}" for line in found[:LINES])]
            if len(found) > LINES:
                lines.append(f"    {len(found) - LINES} more lines")
    return "\n".join(lines)
