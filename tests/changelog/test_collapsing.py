"""Changelogs collapsed and resolved, compared with what their lines mean."""

from __future__ import annotations

from random import Random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon import History, parse
from mtlmon.errors import LogError
from tests.doors import ChangelogLoop, LatestVerdicts, ResolvedChanges
from tests.history.cases import Case, load_cases
from tests.reference.changelog import Changelog, Collapsed, holds
from tests.reference.history import (
    Arrival,
    Insert,
    Name,
    Retraction,
    State,
    monitored,
    states_of,
)
from tests.verdicts import format_point

CASES = load_cases()
FORMULAS = [
    "EVENTUALLY[0,3] p",
    "p IMPLIES EVENTUALLY[1,4] q",
    "ONCE[0,2] p",
    "NEXT p",
    "p SINCE q",
    "ALWAYS[0,2] (p OR EVENTUALLY[0,2] q)",
]


def run(loop: ChangelogLoop, text: str, size: int = 1 << 16) -> list[str]:
    """The lines that a loop writes, reading blocks of this size."""
    content = text.encode()
    for start in range(0, len(content), size):
        loop.load(memoryview(content[start : start + size]))
        work(loop)
    loop.load_end()
    work(loop)
    loop.end()
    work(loop)
    loop.unload()
    return loop.writer.take().decode().splitlines()


def work(loop: ChangelogLoop) -> None:
    while loop.run():
        pass


def shown(name: Name) -> str:
    return (name[0] + "\t" if name[0] else "") + format_point(name[1])


def latest_lines(collapsed: Collapsed, *, resolve: bool, below: int | None = None) -> list[str]:
    """The latest verdicts in order of time, then of fields."""
    lines = []
    order = sorted(collapsed.verdicts, key=lambda name: (name[1][0], name[0], name[1][1]))
    for name in order:
        if below is not None and name[1][0] >= below:
            continue
        verdict, value = collapsed.verdicts[name], collapsed.value(name)
        if value is not None and (resolve or (verdict and verdict.reference is None)):
            lines.append(f"{shown(name)} {'true' if value else 'false'}")
        elif verdict is not None and not resolve:
            assert verdict.reference is not None
            lines.append(f"{shown(name)} = {format_point(verdict.reference)}")
    return lines


def compare(changelog: list[list[str]], states: list[State], size: int = 1 << 16) -> None:
    """Compare what the loops make of a changelog with what it means."""
    text = "".join(f"{line}\n" for lines in changelog for line in lines)
    collapsed = Collapsed()
    for line in text.splitlines():
        collapsed.read(line)
    for resolve in (False, True):
        loop = LatestVerdicts(resolve=resolve)
        assert run(loop, text, size) == latest_lines(collapsed, resolve=resolve)
        values = [collapsed.value(name) for name in collapsed.verdicts]
        assert (loop.true_count, loop.false_count) == (values.count(True), values.count(False))
        final = LatestVerdicts(resolve=resolve, only_final=True)
        bound = collapsed.bound("")
        assert run(final, text, size) == latest_lines(collapsed, resolve=resolve, below=bound)
        assert final.left_out == len(values) - values.count(None) - final.event_count
    resolved = ResolvedChanges()
    found = []
    for lines in changelog:
        resolved.load(memoryview("".join(f"{line}\n" for line in lines).encode()))
        work(resolved)
        found.append(resolved.writer.take().decode().splitlines())
    assert not run(resolved, "")
    assert not any("=" in line for lines in found for line in lines)
    holds(found, states)
    bounds = [[line for line in lines if "@" in line] for lines in found]
    assert bounds == [[line for line in lines if "@" in line] for lines in changelog]
    # What is said is said by the fewest lines, if the changelog has the fewest.
    violations = ResolvedChanges(verdicts="false")
    some = run(violations, text, size)
    was: dict[str, str] = {}
    every = []
    for line in (line for lines in found for line in lines):
        fields, _, rest_of_line = line.rpartition("\t")
        name = fields + "\t" + rest_of_line.lstrip("!x").partition(" ")[0]
        value = rest_of_line.partition(" ")[2]
        if "@" in line or "x" in rest_of_line or "false" in (value, was.get(name)):
            every.append(line)
        was[name] = value
    assert some == every


def states_and_lines(
    batches: list[list[Arrival]], lateness: int, formula: str, mode: str, chance: Random
) -> tuple[list[list[str]], list[State]]:
    """A changelog with final bounds and, within batches, revisions that do not last."""
    assert mode in ("local", "global")
    judge = monitored(parse(formula), "local" if mode == "local" else "global")
    states = states_of(batches, lateness, judge)
    changelog = Changelog()
    bound = 0
    logs = []
    opened: set[str] = set()
    for state in states:
        known = set(changelog.latest)
        lines: list[str] = []
        for line in changelog.lines(state):
            fields, _, text = line.rpartition("\t")
            is_update = text.startswith("!") and text.endswith(("true", "false"))
            name = text.split()[0]
            point = f"{fields}\t{name}" if fields else name
            if is_update and chance.random() < 0.3 and point not in opened:
                # It was open for a moment.
                lines.append(point)
            lines.append(line)
            opened.discard(point)
            if line == point:
                opened.add(point)
        final = state.final_below[""]
        if final > bound and chance.random() < 0.5:
            bound = final
            lines.append(f"!@{bound}")
        logs.append(lines)
        assert known <= set(changelog.latest)
    return logs, states


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[Arrival]]:
    chance = Random(draw(st.integers(0, 2**32)))
    rows: list[Arrival] = []
    now = 0
    ids: list[str] = []
    for number in range(draw(st.integers(0, 24))):
        if ids and chance.random() < 0.15:
            rows.append(Retraction(ids.pop(chance.randrange(len(ids)))))
            continue
        now += chance.choice((0, 0, 1, 1, 2, 4))
        letter = frozenset(atom for atom in "pq" if chance.random() < 0.4)
        key = chance.choice(("", "", "a", "b\tc"))
        name = str(number) if chance.random() < 0.3 else None
        if name is not None:
            ids.append(name)
        rows.append(Insert(max(0, now - chance.choice((0, 0, 1, 3))), letter, key, name))
    batches: list[list[Arrival]] = []
    while rows:
        size = chance.randrange(1, 6)
        batches.append(rows[:size])
        del rows[:size]
    return batches


@settings(max_examples=60)
@given(
    batches=arrivals(),
    formula=st.sampled_from(FORMULAS),
    mode=st.sampled_from(["local", "global"]),
    size=st.sampled_from([1, 5, 1 << 16]),
    seed=st.integers(0, 2**32),
)
def test_random_changelogs(
    batches: list[list[Arrival]], formula: str, mode: str, size: int, seed: int
) -> None:
    changelog, states = states_and_lines(batches, 4, formula, mode, Random(seed))
    holds(changelog, states, exactly=True)
    compare(changelog, states, size)


@settings(max_examples=40)
@given(
    batches=arrivals(), formula=st.sampled_from(FORMULAS), mode=st.sampled_from(["local", "global"])
)
def test_what_a_history_says(
    batches: list[list[Arrival]], formula: str, mode: Literal["local", "global"]
) -> None:
    history = History(formula, mode, lateness=4)
    changelog: list[list[str]] = []
    inserts = [[one for one in batch if isinstance(one, Insert)] for batch in batches]
    for batch in inserts:
        letters = [sum((a in i.letter) << k for k, a in enumerate(history.atoms)) for i in batch]
        times = [insert.time_stamp for insert in batch]
        changelog.append(list(history.push(times, letters, keys=[i.key or "-" for i in batch])))
    named = [[insert._replace(key=insert.key or "-", id=None) for insert in b] for b in inserts]
    states = states_of(named, 4, monitored(parse(formula), mode))
    holds(changelog, states, exactly=True)
    compare(changelog, states)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_cases(case: Case) -> None:
    judge = monitored(case.formula)
    states = states_of(case.batches, case.lateness, judge, case.clock, case.end_time)
    changelog = Changelog()
    compare([changelog.lines(state) for state in states], states)


def test_followers_follow_revisions() -> None:
    text = "5:1 = 5:0\n5:2 = 5:1\n5:0 true\n!5:0 false\n!5:1 true\n!5:0\n!5:1 = 5:0\n!5:0 true\n"
    assert run(ResolvedChanges(), text) == [
        *("5:0 true", "5:1 true", "5:2 true"),
        *("!5:0 false", "!5:1 false", "!5:2 false"),
        *("!5:1 true", "!5:2 true"),
        "!5:0",
        *("!5:1", "!5:2"),
        *("!5:0 true", "!5:1 true", "!5:2 true"),
    ]


def test_what_is_final_is_written_and_forgotten() -> None:
    loop = LatestVerdicts()
    loop.load(memoryview(b"5:0 true\n7:0 false\n5:1 = 5:0\n!@7\n"))
    work(loop)
    assert loop.writer.take() == b"5:0 true\n5:1 = 5:0\n"
    assert loop.points.count == 1
    resolved = ResolvedChanges()
    resolved.load(memoryview(b"5:0 true\n7:0 false\n5:1 = 5:0\n!@7\n"))
    work(resolved)
    assert resolved.points.count == 1


def test_an_equivalence_to_what_is_final_keeps_its_reference() -> None:
    """With equivalences across time-stamps, the time-point that is referred to is final first."""
    text = "3:0 false\n7:0 = 3:0\n!@5\n8:0 true\n"
    assert run(LatestVerdicts(), text) == ["3:0 false", "7:0 = 3:0", "8:0 true"]
    assert run(LatestVerdicts(resolve=True), text) == ["3:0 false", "7:0 false", "8:0 true"]
    changed = text + "!7:0 true\n"
    assert run(LatestVerdicts(), changed) == ["3:0 false", "7:0 true", "8:0 true"]


def test_a_bound_of_a_key_is_about_its_time_points_only() -> None:
    text = "k\t5:0 true\nl\t5:0 true\nk\t5:1 = 5:0\nk\t9:0 false\nk\t!@7\n"
    loop = LatestVerdicts()
    loop.load(memoryview(text.encode()))
    work(loop)
    assert loop.writer.take() == b"k\t5:0 true\nk\t5:1 = 5:0\n"
    assert loop.points.count == 2
    assert run(loop, "l\t!5:0 false\nl\t3:0 true\nl\t!@6\n!@10\nk\t10:0 true\n") == [
        "l\t3:0 true",
        "l\t5:0 false",
        "k\t9:0 false",
        "k\t10:0 true",
    ]
    assert (loop.true_count, loop.false_count) == (4, 2)
    resolved = ResolvedChanges()
    lines = run(resolved, text + "k\t!@7\n!@6\nk\t!9:0 true\n")
    assert lines[4:] == ["k\t!@7", "!@6", "k\t!9:0 true"]


def test_bounds_of_keys_change_nothing_about_what_is_latest() -> None:
    """Whatever is told to be final early, in any order of keys and times."""
    source = Random(3)
    lines = []
    floors = dict.fromkeys("abc", 0)
    said: set[str] = set()
    for _ in range(400):
        key = source.choice("abc")
        stamp = floors[key] + source.randrange(6)
        name = f"{stamp}:{source.randrange(2)}"
        mark = "!" if f"{key}\t{name}" in said else ""
        said.add(f"{key}\t{name}")
        lines.append(f"{key}\t{mark}{name} {source.choice(['true', 'false'])}")
        if source.random() < 0.3:
            floors[key] += source.randrange(1, 4)
            lines.append(f"{key}\t!@{floors[key]}")
    text = "".join(f"{line}\n" for line in lines)
    wanted = run(LatestVerdicts(), "".join(f"{line}\n" for line in lines if "!@" not in line))
    loop = LatestVerdicts()
    assert sorted(run(loop, text)) == sorted(wanted)
    assert loop.points.count == 0


def test_a_withdrawn_time_point_has_one_line_if_it_had_a_verdict() -> None:
    assert run(ResolvedChanges(), "5:0 true\n!x5:0\n") == ["5:0 true", "!x5:0"]
    assert run(ResolvedChanges(), "5:1 = 5:0\n!x5:0\n!5:1 true\n") == ["5:1 true"]
    assert run(LatestVerdicts(), "5:1 = 5:0\n!x5:0\n") == []


def test_a_bound_that_is_repeated_is_written_once() -> None:
    loop = ResolvedChanges()
    assert run(loop, "!@7\n!@7\n7:0 true\n") == ["!@7", "7:0 true"]
    assert loop.bound == 7


def test_what_is_selected_by_state_need_not_begin_with_a_first_line() -> None:
    """With --verdicts false, a verdict that was true before has no line until it changes."""
    assert run(LatestVerdicts(), "!5:0 false\n!x6:0\n!7:0\n") == ["5:0 false"]


@pytest.mark.parametrize(
    ("lines", "place", "message"),
    [
        ("5:0 true\n5:0 false", "2:1", "a second verdict of 5:0: changes begin with '!'"),
        ("!x5:0\n5:0 true", "2:1", "a second verdict of 5:0: changes begin with '!'"),
        ("!x5:0\n!x5:0", "2:1", "5:0 is no time-point already"),
        ("!x5:0\n\n5:1 = 5:0", "3:1", "5:0 is no time-point any more"),
        ("!@7\nk\t5:0 true", "2:3", "verdicts below 7 are final"),
        ("!@7\n7:0 = 5:0", "2:1", "verdicts below 7 are final"),
        ("!@7\n!@6", "2:1", "verdicts below 7 are final already"),
        ("!@", "1:3", "expected a time-stamp, found the end of the line"),
        ("!@7 ", "1:4", "expected the end of the line, found ' '"),
        ("k\t!@7\nk\t5:0 true", "2:3", "verdicts below 7 are final"),
        ("k\t!@7\nk\t!@6", "2:3", "verdicts below 7 are final already"),
        ("k\t!@7\n!@9\nk\t!@8", "3:3", "verdicts below 9 are final already"),
        ("!x5", "1:4", "expected ':' between time-stamp and offset, found the end of the line"),
        ("x5:0", "1:1", "expected a time-stamp, found 'x'"),
        ("!5:0 ", "1:5", "expected ' true', ' false' or ' = TIME-STAMP:OFFSET', found ' '"),
        ("!!5:0", "1:2", "expected a time-stamp, found '!'"),
        (
            "5:0",
            "1:4",
            "expected ' true', ' false' or ' = TIME-STAMP:OFFSET', found the end of the",
        ),
        ("5:0 tr", "1:4", "expected ' true', ' false' or ' = TIME-STAMP:OFFSET', found ' '"),
        ("5:0 = 5:0", "1:9", "a time-point is equivalent to an earlier one"),
        ("k\t!5:1 = ", "1:10", "expected the time-point that this one is equivalent to, found the"),
        (f"{2**63}:0 true", "1:1", "a time-stamp is an integer from 0 to 2^63-1"),
        (f"5:{2**64} true", "1:3", "an offset is an integer from 0 to 2^64-1"),
        ('{"time":5,"offset":0}', "1:1", "changelogs are lines of text, such as '!5:0 true', and"),
        ("\0\1\2", "1:1", "expected a time-stamp, found control character 0x00"),
        ("größe\t!5:0 maybe", "1:11", "expected ' true', ' false'"),
        ("x" * 1_100_000, "1:1", "a line of more than 1 MiB"),
    ],
)
@pytest.mark.parametrize("size", [1000, 1 << 18])
@pytest.mark.parametrize("make", [LatestVerdicts, ResolvedChanges])
def test_lines_of_no_changelog(
    make: type[LatestVerdicts | ResolvedChanges], size: int, lines: str, place: str, message: str
) -> None:
    with pytest.raises(LogError) as caught:
        run(make(path="x.changes"), lines, size)
    assert str(caught.value).startswith(f"x.changes:{place}: {message}")


def test_unusual_lines() -> None:
    text = f"{2**63 - 1}:{2**64 - 1} true\r\n\n\r\na\\t\t!005:00 false\n!7:0 false"
    assert run(LatestVerdicts(), text) == [
        "a\\t\t5:0 false",
        "7:0 false",
        f"{2**63 - 1}:{2**64 - 1} true",
    ]
    assert run(LatestVerdicts(), "") == run(ResolvedChanges(), "") == []
