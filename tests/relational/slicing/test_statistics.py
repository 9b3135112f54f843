"""Statistics of rows: summaries of columns, merged in any way, miss no frequent value."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import MtlmonError
from mtlmon.relational import RelationalMonitor
from mtlmon.relational.slicing import (
    Frequent,
    RowCounts,
    RowSample,
    Statistics,
    read_statistics,
)
from tests.cli.process import mtlmon as mtlmon_command
from tests.doors import SlicedEngine, atom_numbers, engine_of, point_rows

Rows = dict[str, list[tuple[object, ...]]]

_VALUES = st.lists(st.integers(0, 9), max_size=20)


@given(st.lists(_VALUES, min_size=1, max_size=5), st.integers(1, 6))
def test_merged_summaries_are_off_by_a_bounded_part(parts: list[list[int]], room: int) -> None:
    found = Frequent(room)
    for part in parts:
        found.merge(Frequent(room, Counter(part)))
    exact = Counter(value for part in parts for value in part)
    assert found.total == exact.total()
    bound = found.total / room
    for value, count in exact.items():
        if count > bound:
            assert value in found.above(bound)
    for threshold in (bound, bound + 1, 2 * bound):
        for frequent in found.above(threshold):
            assert isinstance(frequent, int)
            assert exact[frequent] > threshold - bound


@given(_VALUES, st.integers(10, 20))
def test_few_values_are_counted_exactly(values: list[int], room: int) -> None:
    found = Frequent(room, Counter(values))
    for threshold in range(4):
        exact = {value for value, count in Counter(values).items() if count > threshold}
        assert found.above(threshold) == exact


def test_summaries_of_different_sizes_are_not_merged() -> None:
    with pytest.raises(ValueError, match="3 values are kept, not 2"):
        Frequent(2).merge(Frequent(3))
    with pytest.raises(ValueError, match="at least 1"):
        Frequent(0)


def test_frequent_values_of_arguments() -> None:
    counts = RowCounts(4)
    counts.add("q", [("a", n) for n in range(30)])
    other = RowCounts(4)
    other.add("q", [(f"b{n}", n) for n in range(30)])
    other.add("p", [("c",)])
    counts.merge(other)
    assert counts.statistics == Statistics(
        {"q": 60.0, "p": 1.0}, {("q", 0): frozenset(["a"]), ("p", 0): frozenset(["c"])}
    )


def test_rates_of_atoms_that_are_not_mentioned() -> None:
    assert Statistics().rate("p") == 1.0
    assert Statistics({"p": 2.0, "q": 4.0}).rate("r") == 3.0


def test_a_file_of_statistics_serves_any_number_of_slices(tmp_path: Path) -> None:
    """Values that every third row has are not missed, though only some rows are looked at."""
    made = RelationalMonitor("atom p(x: int, y: text)\nfind f: p(x, y) AND ONCE q(y)\n", slices=2)
    engine = engine_of(made)
    sample = RowSample()
    for block in range(40):
        for number in range(600):
            values: Rows = {"p": [(number % 3, "a b")], "q": [("ö",)] if number % 2 else []}
            rows = point_rows(engine.plan, atom_numbers(engine.plan), values)
            engine.points.add(block, rows)
        sample.look(engine.points, engine.plan)
        engine.points.take()
    path = tmp_path / "statistics.json"
    sample.write(path)
    two, four = read_statistics(path, 2), read_statistics(path, 4)
    assert 1.7 < two.rate("p") / two.rate("q") < 2.3
    assert two.heavy == {("p", 1): {"a b"}, ("q", 0): {"ö"}}
    assert four.heavy == {("p", 0): {0, 1, 2}, **two.heavy}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "these are no statistics: Expecting value"),
        ("[]", "an object with atoms is expected"),
        ('{"atoms": {"p": 3}}', "atom p: a number of rows is expected"),
        ('{"atoms": {"p": {"rows": -1}}}', "atom p: a number of rows is expected"),
        ('{"atoms": {"p": {"rows": 1, "frequent": 2}}}', "atom p: a list for each argument"),
        ('{"atoms": {"p": {"rows": 1, "frequent": [[], [["a"]]]}}}', "atom p, argument 2"),
        ('{"atoms": {"p": {"rows": 1, "frequent": [[[null, 1]]]}}}', "atom p, argument 1"),
        ('{"atoms": {"p": {"rows": 1, "frequent": [[["a", "b"]]]}}}', "atom p, argument 1"),
    ],
)
def test_what_are_no_statistics(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    path.write_text(text)
    with pytest.raises(MtlmonError, match=re.escape(message)):
        read_statistics(path, 2)


def test_statistics_of_an_earlier_log_spread_frequent_values(tmp_path: Path) -> None:
    """The command writes and reads them; the output stays, and no slice gets too many rows."""
    policy, log = tmp_path / "policy.mtl", tmp_path / "skewed.log"
    policy.write_text("find f: publish(u, f) AND ONCE[0,50] approve(u, f)\n")
    chance = Random(1)
    lines = []
    for number in range(3000):
        user = "ann" if chance.random() < 0.6 else f"u{chance.randrange(40)}"
        name = "publish" if number % 4 == 0 else "approve"
        lines.append(f"@{number // 10} {name}({user}, f{chance.randrange(90)})\n")
    log.write_text("".join(lines))
    file = tmp_path / "statistics.json"
    plain = mtlmon_command(str(policy), str(log))
    for options in (
        ["--slices", "1", "--write-statistics", str(file)],
        ["--slices", "8", "--statistics", str(file)],
        ["--slices", "8", "--statistics", str(file), "--write-statistics", str(file)],
    ):
        ended = mtlmon_command(*options, str(policy), str(log))
        assert (ended.status, ended.output) == (plain.status, plain.output), ended.errors
    late = ["--lateness", "5", "--slices", "4", "-o", str(tmp_path / "late"), "--resume"]
    late += ["--checkpoint", str(tmp_path / "checkpoint"), str(policy), str(log)]
    ended = mtlmon_command("--statistics", str(file), *late)
    assert ended.status == 0, ended.errors
    # states are not moved where rows come late
    ended = mtlmon_command(*late)
    assert ended.status == 2
    assert "it was made with other --statistics" in ended.errors
    known = read_statistics(file, 8)
    assert known.heavy["approve", 0] == {"ann"}
    most = []
    for statistics in (Statistics(), known):
        monitor = RelationalMonitor(policy.read_text(), slices=8, statistics=statistics)
        engine = engine_of(monitor)
        assert isinstance(engine, SlicedEngine)
        engine.balance.sample = 10**9
        numbers = atom_numbers(engine.plan)
        for line in lines:
            name, user, document = re.findall(r"\w+", line)[1:]
            rows = point_rows(engine.plan, numbers, {name: [(user, document)]})
            engine.points.add(1, rows)
        engine.advance()
        most.append(max(engine.row_counts) / len(lines))
    # one part of u has most rows; where ann is frequent, f splits hers
    assert most[0] > 0.2, most
    assert most[1] < 0.17, most


def test_statistics_are_for_slices(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("@1 p(a)\n")
    for option in ("--statistics", "--write-statistics"):
        ended = mtlmon_command(option, str(tmp_path / "x"), "-e", "FORALL x. NOT p(x)", str(log))
        assert ended.status == 2
        assert f"{option} is for slices: add --slices N" in ended.errors
    missing = str(tmp_path / "none" / "x")
    for option in ("--statistics", "--write-statistics"):
        given = ["--slices", "2", option, missing, "-e", "FORALL x. NOT p(x)"]
        ended = mtlmon_command(*given, str(log))
        assert ended.status == 2
        assert "No such file" in ended.errors
