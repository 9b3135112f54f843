"""The lines of a changelog, and whether they say what the reference of histories says.

`holds` accepts every changelog that collapses to the states of the reference after every batch. It
may revise a verdict several times within a batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from tests.reference.evaluator import Truth
from tests.reference.history import Name, State, followed
from tests.traces import TimePoint
from tests.verdicts import Verdict, format_point, parse_verdict


class Line(NamedTuple):
    """One line of a changelog.

    Attributes:
        kind: "first" for `5:0 true` and `5:1 = 5:0`, "update" for `!5:0 true` and `!5:1 = 5:0`,
            "open" for `!5:0`, "withdraw" for `!x5:0`, "final" for `!@17`.
        key: the fields before.
        point: the time-point; that of "final" has the bound as time-stamp and the offset 0.
        verdict: what is said, for "first" and "update".
    """

    kind: Literal["first", "update", "open", "withdraw", "final"]
    key: str
    point: TimePoint
    verdict: Verdict | None = None

    def __str__(self) -> str:
        fields = self.key + "\t" if self.key else ""
        if self.kind == "final":
            return f"{fields}!@{self.point[0]}"
        if self.kind == "withdraw":
            return f"{fields}!x{format_point(self.point)}"
        if self.kind == "open":
            return f"{fields}!{format_point(self.point)}"
        return f"{fields}{'!' if self.kind == 'update' else ''}{self.verdict}"


_BARE = re.compile(r"!(x?)(\d+):(\d+)")
_FINAL = re.compile(r"!@(\d+)")


def parse_line(line: str) -> Line:
    """Reads a line of a changelog.

    Raises:
        ValueError: it is none.
    """
    key, _, text = line.rpartition("\t")
    if match := _FINAL.fullmatch(text):
        return Line("final", key, (int(match[1]), 0))
    if match := _BARE.fullmatch(text):
        kind: Literal["withdraw", "open"] = "withdraw" if match[1] else "open"
        return Line(kind, key, (int(match[2]), int(match[3])))
    verdict = parse_verdict(text.removeprefix("!"))
    return Line("update" if text.startswith("!") else "first", key, verdict.point, verdict)


class Changelog:
    """Writes the fewest lines that lead from state to state.

    A name that is open has no line unless it had a verdict, and a name that is withdrawn none
    unless it ever had a line.
    """

    def __init__(self) -> None:
        self.latest: dict[Name, Verdict | None] = {}
        self.withdrawn: set[Name] = set()

    def lines(self, state: State) -> list[str]:
        """The lines between the last state and this one, in order of keys and time."""
        lines: list[tuple[Name, Line]] = []
        for name in self.latest:
            if name in state.withdrawn - self.withdrawn:
                self.withdrawn.add(name)
                lines.append((name, Line("withdraw", *name)))
        for name, verdict in state.verdicts.items():
            if name not in self.latest and verdict is not None:
                lines.append((name, Line("first", *name, verdict)))
            elif self.latest.get(name) != verdict:
                lines.append((name, Line("open" if verdict is None else "update", *name, verdict)))
            if name in self.latest or verdict is not None:
                self.latest[name] = verdict
        return [str(line) for _, line in sorted(lines)]


def changelog_of(states: Iterable[State]) -> list[list[str]]:
    """The fewest lines for every state."""
    changelog = Changelog()
    return [changelog.lines(state) for state in states]


class Collapsed:
    """What a changelog says in the end: the last line about each name.

    Attributes:
        verdicts: the verdict of every name that had a line, None if it is open again.
        withdrawn: the names of events that were retracted.
        bounds: below which time-stamp verdicts are final, by key; that of all keys is under None.
    """

    def __init__(self) -> None:
        self.verdicts: dict[Name, Verdict | None] = {}
        self.withdrawn: set[Name] = set()
        self.bounds: dict[str | None, int] = {}

    def bound(self, key: str) -> int:
        return max(self.bounds.get(key, 0), self.bounds.get(None, 0))

    def value(self, name: Name) -> Truth:
        """The Boolean value of a name, equivalences followed."""
        return followed(self.verdicts, name)

    def read(self, text: str) -> None:
        """Takes in a line.

        Raises:
            AssertionError: the line cannot come after those before it.
            ValueError: the line is none of a changelog.
        """
        line = parse_line(text)
        name = (line.key, line.point)
        if line.kind == "final":
            key = line.key or None
            assert line.point[0] > self.bounds.get(key, -1), f"{text}: the bound has not moved"
            self.bounds[key] = line.point[0]
            return
        if name in self.withdrawn:
            # a row can be a time-point again; no other row ever has its name
            assert line.kind in ("update", "open"), f"{text}: the time-point was withdrawn"
            self.withdrawn.discard(name)
            self.verdicts[name] = None
            if line.kind == "open":
                return
        assert line.point[0] >= self.bound(line.key), f"{text}: below the final bound"
        if line.kind == "withdraw":
            self.withdrawn.add(name)
            self.verdicts.pop(name, None)
            return
        if line.kind == "first":
            assert name not in self.verdicts, f"{text}: not the first line about it"
        else:
            assert name in self.verdicts, f"{text}: the first line about it"
            assert self.verdicts[name] != line.verdict, f"{text}: says what was said"
        self.verdicts[name] = line.verdict


def holds(
    changelog: Sequence[Iterable[str]],
    states: Sequence[State],
    *,
    exactly: bool = False,
    may_know_more: bool = False,
) -> None:
    """Checks that a changelog says after every batch what the reference says.

    Which revisions it has within a batch is its own affair, and so is the order of its lines.

    Args:
        changelog: the lines of every batch, and those of the end of the log if states has it.
        states: the states of the reference.
        exactly: compare the last lines of each name, with their equivalences, and not only the
            Boolean values.
        may_know_more: accept values of time-points that are open in the state. The evaluator knows
            less than an engine if a formula has subformulas such as `p OR NOT p`.

    Raises:
        AssertionError: it says something else; the message tells what and where.
        ValueError: a line is none of a changelog.
    """
    assert len(changelog) == len(states), f"{len(changelog)} batches, {len(states)} states"
    collapsed = Collapsed()
    for number, (lines, state) in enumerate(zip(changelog, states, strict=True)):
        for line in lines:
            collapsed.read(line)
        where = f"after batch {number}"
        _check_names(collapsed, state, where)
        for name, verdict in state.verdicts.items():
            wanted, found = state.value(name), collapsed.value(name)
            if wanted is not None or not may_know_more:
                assert found is wanted, f"{_shown(name)} is {wanted}, not {found}, {where}"
            if exactly:
                said = collapsed.verdicts.get(name)
                assert said == verdict, f"{_shown(name)}: {said} in place of {verdict}, {where}"
        _check_bounds(collapsed, state, where)


def _check_names(collapsed: Collapsed, state: State, where: str) -> None:
    for name in collapsed.verdicts:
        assert name not in state.withdrawn, f"{_shown(name)} has been retracted {where}"
        assert name in state.verdicts, f"{_shown(name)} is no time-point {where}"
    for name, verdict in collapsed.verdicts.items():
        if verdict is not None and verdict.reference is not None:
            reference = (name[0], verdict.reference)
            assert reference in state.verdicts, f"{verdict}: refers to no time-point {where}"
            names = list(state.verdicts)
            assert names.index(reference) < names.index(name), f"{verdict}: not earlier {where}"
    extra = collapsed.withdrawn - state.withdrawn
    assert not extra, f"{sorted(map(_shown, extra))} were not retracted {where}"


def _check_bounds(collapsed: Collapsed, state: State, where: str) -> None:
    """Nothing that may still come changes anything below a final bound.

    `Collapsed` refuses lines below it.
    """
    for key, bound in collapsed.bounds.items():
        if key is not None and key not in state.final_below:
            # all events of this key were refused
            continue
        most = state.final_below["" if key is None else key]
        assert bound <= most, f"!@{bound}: verdicts from {most} on may still change {where}"


def _shown(name: Name) -> str:
    return "\t".join(filter(None, [name[0], format_point(name[1])]))
