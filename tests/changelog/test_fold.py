"""`mtlmon latest` and `mtlmon resolve --changelog`, against a fold over random changelogs."""

from __future__ import annotations

from random import Random
from typing import Literal, NamedTuple

import pytest

from tests.cli.process import mtlmon

Point = tuple[int, int]
Name = tuple[str, Point]
ANSWERS = (" false (u=a)", " false (u=b, n=2)", " match (u=a)", " match")
SEEDS = range(24)


class Row(NamedTuple):
    """A line, and what it says.

    Attributes:
        text: the line.
        kind: what it says: a Boolean verdict, an equivalence, that a time-point is open or none,
            an answer with values, or a final bound.
        name: the fields before the time-point, and the time-point; of a bound, it and 0.
        said: the verdict, the time-point that is referred to, or the answer and whether it holds.
    """

    text: str
    kind: Literal["verdict", "open", "none", "answer", "final"]
    name: Name
    said: bool | Point | tuple[str, bool] | None = None


class Fold:
    """What rows say in the end: the last one about each time-point counts."""

    def __init__(self, rows: list[Row]) -> None:
        self.verdicts: dict[Name, bool | Point | None] = {}
        self.answers: dict[tuple[Name, str], bool] = {}
        self.none: set[Name] = set()
        self.bounds: dict[str, int] = {}
        for row in rows:
            if row.kind == "final":
                self.bounds[row.name[0]] = row.name[1][0]
            elif row.kind == "answer":
                assert isinstance(row.said, tuple) and isinstance(row.said[0], str)
                self.answers[row.name, row.said[0]] = bool(row.said[1])
            else:
                self.verdicts[row.name] = row.said  # type: ignore[assignment]
                (self.none.add if row.kind == "none" else self.none.discard)(row.name)

    def is_final(self, name: Name) -> bool:
        return name[1][0] < max(self.bounds.get("", 0), self.bounds.get(name[0], 0))

    def value(self, name: Name) -> bool | None:
        said = self.verdicts.get(name)
        return self.value((name[0], said)) if isinstance(said, tuple) else said

    def lines(self, *, resolve: bool, only_final: bool = False, verdicts: str = "all") -> list[str]:
        """The latest verdicts, in order of time, fields and offset."""
        found: list[tuple[tuple[int, str, int, str], str]] = []
        for name, said in self.verdicts.items():
            fields, (time, offset) = name
            value, head = self.value(name), f"{fields}{time}:{offset}"
            place = time, fields, offset, ""
            if only_final and not self.is_final(name):
                continue
            if isinstance(said, tuple) and not resolve:
                if verdicts == "all" and (fields, said) not in self.none:
                    found.append((place, f"{head} = {said[0]}:{said[1]}"))
            elif value is not None and verdicts != "none" and not (verdicts == "false" and value):
                found.append((place, f"{head} {'true' if value else 'false'}"))
        for (name, text), holds in self.answers.items():
            fields, (time, offset) = name
            if holds and verdicts != "none" and (self.is_final(name) or not only_final):
                found.append(((time, fields, offset, text), f"{fields}{time}:{offset}{text}"))
        return [line for _, line in sorted(found)]

    def emitted(self, *, only_final: bool = False) -> str:
        """What the command says of equivalences to what has no Boolean verdict."""
        count = sum(
            isinstance(said, tuple)
            and self.value(name) is None
            and (self.is_final(name) or not only_final)
            for name, said in self.verdicts.items()
        )
        words = "time-point stays" if count == 1 else "time-points stay"
        emitted = f"mtlmon: {count} {words} open: equivalent to ones without a Boolean verdict\n"
        return emitted if count else ""

    def status(self, *, only_final: bool = False) -> int:
        """1 if something is false that is in question, else 0."""
        lines = self.lines(resolve=True, only_final=only_final)
        return int(any(" false" in line.rpartition("\t")[2] for line in lines))


def random_rows(source: Random, count: int, *, has_bounds_of_fields: bool = True) -> list[Row]:
    """Lines that can come one after the other."""
    rows: list[Row] = []
    had_verdict: set[Name] = set()
    had_answer: set[tuple[Name, str]] = set()
    while len(rows) < count:
        fold = Fold(rows)
        fields = source.choice(["", "k\t", "a\tb\t", "find\t"])
        bound = max(fold.bounds.get("", 0), fold.bounds.get(fields, 0))
        point = bound + source.randrange(5), source.randrange(3)
        name = fields, point
        text = f"{point[0]}:{point[1]}"
        if source.random() < 0.1:
            if has_bounds_of_fields or not fields:
                own = fold.bounds.get("", 0) if not fields else bound
                next_bound = own + source.randrange(1, 3), 0
                rows.append(Row(f"{fields}!@{next_bound[0]}", "final", (fields, next_bound)))
            continue
        if fields == "find\t":
            answer = source.choice(ANSWERS)
            holds = not fold.answers.get((name, answer), False)
            mark = ("!" if (name, answer) in had_answer else "") if holds else "!x"
            had_answer.add((name, answer))
            rows.append(Row(f"{fields}{mark}{text}{answer}", "answer", name, (answer, holds)))
            continue
        mark = "!" if name in had_verdict else ""
        what = source.randrange(6)
        earlier = bound + source.randrange(5), source.randrange(3)
        if what == 0 and mark and name not in fold.none:
            rows.append(Row(f"{fields}!x{text}", "none", name))
        elif what == 1 and mark:
            rows.append(Row(f"{fields}!{text}", "open", name))
        elif what == 2 and earlier < point and (fields, earlier) not in fold.none:
            line = f"{fields}{mark}{text} = {earlier[0]}:{earlier[1]}"
            rows.append(Row(line, "verdict", name, earlier))
        elif what > 2:
            value = source.random() < 0.6
            line = f"{fields}{mark}{text} {'true' if value else 'false'}"
            rows.append(Row(line, "verdict", name, value))
        else:
            continue
        had_verdict.add(name)
    return rows


def text_of(rows: list[Row]) -> str:
    return "".join(f"{row.text}\n" for row in rows)


def test_the_rows_are_of_all_kinds() -> None:
    rows = [row for seed in SEEDS for row in random_rows(Random(seed), 60)]
    assert {row.kind for row in rows} == {"verdict", "open", "none", "answer", "final"}
    folds = [Fold(random_rows(Random(seed), 60)) for seed in SEEDS]
    folds += [Fold(random_rows(Random(seed), 6)) for seed in SEEDS]
    assert {fold.status() for fold in folds} == {0, 1}
    assert any(fold.emitted() for fold in folds)
    assert any(isinstance(said, tuple) for fold in folds for said in fold.verdicts.values())


@pytest.mark.parametrize("seed", SEEDS[::3])
def test_as_of(seed: int) -> None:
    """What was known when the log had come to a time: the lines until then count."""
    source = Random(seed)
    rows = random_rows(source, 40, has_bounds_of_fields=False)
    arrivals = sorted(source.randrange(20) for _ in rows)
    ends = ["\r\n" if source.random() < 0.1 else "\n" for _ in rows]
    text = "".join(
        f"{row.text}\t@{arrival}{end}"
        for row, arrival, end in zip(rows, arrivals, ends, strict=True)
    )
    for as_of in (0, *source.sample(range(20), 3), 20, 2**63 - 1):
        fold = Fold([row for row, own in zip(rows, arrivals, strict=True) if own <= as_of])
        done = mtlmon("latest", "--as-of", str(as_of), log=text)
        assert done.output.splitlines() == fold.lines(resolve=False)
        assert (done.status, done.errors) == (fold.status(), fold.emitted())
    whole = mtlmon("latest", log=text_of(rows))
    assert mtlmon("latest", log=text) == whole


@pytest.mark.parametrize("verdicts", ["all", "false", "none"])
@pytest.mark.parametrize("seed", SEEDS)
def test_latest(seed: int, verdicts: str) -> None:
    """Bounds of some fields alone let their lines come earlier, so order is compared without."""
    for has_bounds_of_fields in (False, True):
        rows = random_rows(Random(seed), 6 + 4 * seed, has_bounds_of_fields=has_bounds_of_fields)
        fold = Fold(rows)
        for resolve in (False, True):
            given = ["--verdicts", verdicts, *(["--resolve"] if resolve else [])]
            done = mtlmon("latest", *given, log=text_of(rows))
            expected = fold.lines(resolve=resolve, verdicts=verdicts)
            found = done.output.splitlines()
            assert (sorted(found) if has_bounds_of_fields else found) == (
                sorted(expected) if has_bounds_of_fields else expected
            )
            assert (done.status, done.errors) == (fold.status(), fold.emitted())


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_final(seed: int) -> None:
    rows = random_rows(Random(seed), 60)
    fold = Fold(rows)
    done = mtlmon("latest", "--final", "--resolve", log=text_of(rows))
    expected = fold.lines(resolve=True, only_final=True)
    assert sorted(done.output.splitlines()) == sorted(expected)
    assert done.status == fold.status(only_final=True)
    left = len(fold.lines(resolve=True)) - len(expected)
    words = f"{left} verdict{'s' * (left != 1)} left out (--final): not below a final bound"
    assert done.errors == (f"mtlmon: {words}\n" if left else "") + fold.emitted(only_final=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_resolved_changes(seed: int) -> None:
    """At every line, what was written says what the lines so far say, without equivalences."""
    rows = random_rows(Random(seed), 25)
    written = mtlmon("resolve", "--changelog", log=text_of(rows)).output
    assert " = " not in written
    for count in range(0, len(rows) + 1, 3):
        some = rows[:count]
        done = mtlmon("resolve", "--changelog", log=text_of(some))
        assert written.startswith(done.output)
        found = mtlmon("latest", log=done.output)
        assert sorted(found.output.splitlines()) == sorted(Fold(some).lines(resolve=True))
        assert done.status == found.status == Fold(some).status()
