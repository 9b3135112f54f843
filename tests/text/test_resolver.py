"""The native resolver against a dictionary."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.doors import Resolver

TimePoint = tuple[int, int]
Verdict = tuple[int, int, bool | TimePoint]


class Resolution:
    """What the resolver does, said plainly: the equivalents of every open time-point."""

    def __init__(self) -> None:
        self.equivalents: dict[TimePoint, list[TimePoint]] = {}

    def resolve(self, verdicts: list[Verdict]) -> list[tuple[int, int, bool]]:
        resolved: list[tuple[int, int, bool]] = []
        for time_stamp, offset, value in reversed(verdicts):
            point = (time_stamp, offset)
            if isinstance(value, tuple):
                mine = [point, *self.equivalents.pop(point, [])]
                self.equivalents.setdefault(value, []).extend(mine)
        for time_stamp, offset, value in verdicts:
            if not isinstance(value, tuple):
                points = [(time_stamp, offset), *self.equivalents.pop((time_stamp, offset), [])]
                resolved += [(*point, value) for point in points]
        return sorted(resolved)

    @property
    def open_count(self) -> int:
        return sum(map(len, self.equivalents.values()))


@pytest.mark.parametrize("seed", range(60))
def test_random_streams(seed: int) -> None:
    chance = random.Random(seed)
    resolver, plain = Resolver(), Resolution()
    undecided: list[TimePoint] = []
    rate = chance.choice([1, 3, 40])
    for event in range(600):
        undecided.append((event // rate, event % rate))
        verdicts: list[Verdict] = []
        share = chance.choice([0.0, 0.1, 0.6])
        for point in undecided[:]:
            if chance.random() < share:
                # an equivalence needs an earlier time-point that stays open after this event
                place = undecided.index(point)
                if place > 0 and chance.random() < 0.7:
                    verdicts.append((*point, chance.choice(undecided[:place])))
                else:
                    verdicts.append((*point, chance.random() < 0.5))
                undecided.remove(point)
        assert resolver.resolve(verdicts) == plain.resolve(verdicts)
        assert resolver.open_count == plain.open_count


@pytest.mark.parametrize("seed", range(20))
def test_snapshots_lose_nothing(seed: int) -> None:
    """Whatever is open, another resolver goes on with it as the first one would."""
    chance = random.Random(f"snapshots {seed}")
    resolver, plain = Resolver(), Resolution()
    points = [(time_stamp, offset) for time_stamp in range(30) for offset in range(4)]
    left = points[:]
    while left:
        verdicts: list[Verdict] = []
        for point in sorted(chance.sample(left, min(len(left), chance.randrange(1, 9)))):
            place = left.index(point)
            if place > 0 and chance.random() < 0.8:
                verdicts.append((*point, chance.choice(left[:place])))
            else:
                verdicts.append((*point, chance.random() < 0.5))
            left.remove(point)
        assert resolver.resolve(verdicts) == plain.resolve(verdicts)
        snapshot = resolver.snapshot()
        counts = resolver.open_count
        resolver = Resolver()
        resolver.restore(snapshot)
        assert resolver.open_count == counts == plain.open_count
        # what was restored and what came since are written alike
        assert sorted(resolver.snapshot()) == sorted(snapshot)


def test_both_ends_of_one_event() -> None:
    resolver = Resolver()
    assert resolver.resolve([(1, 3, (1, 0)), (1, 5, (1, 3))]) == []
    assert resolver.open_count == 2
    assert resolver.resolve([(1, 0, False), (2, 0, True)]) == [
        (1, 0, False),
        (1, 3, False),
        (1, 5, False),
        (2, 0, True),
    ]
    assert resolver.open_count == 0


@pytest.mark.parametrize("seed", range(60))
def test_several_events_at_a_time(seed: int) -> None:
    """Also with verdicts that are equivalent to what their own event decides or ties."""
    chance = random.Random(f"several {seed}")
    rate = chance.choice([1, 3, 40])
    one_by_one, at_once, plain = Resolver(), Resolver(), Resolution()
    undecided: list[TimePoint] = []
    events: list[list[Verdict]] = []
    for event in range(800):
        undecided.append((event // rate, event % rate))
        verdicts: list[Verdict] = []
        share = chance.choice([0.0, 0.1, 0.6])
        for place, point in enumerate(undecided):
            if chance.random() < share:
                is_tied = place > 0 and chance.random() < 0.7
                value = chance.choice(undecided[:place]) if is_tied else chance.random() < 0.5
                verdicts.append((*point, value))
        decided = {(time_stamp, offset) for time_stamp, offset, _ in verdicts}
        undecided = [point for point in undecided if point not in decided]
        events.append(verdicts)
        if chance.random() < 0.1 or event == 799:
            expected = [plain.resolve(verdicts) for verdicts in events]
            assert [one_by_one.resolve(verdicts) for verdicts in events] == expected
            assert at_once.resolve_events(events) == list(itertools.chain(*expected))
            for resolver in one_by_one, at_once:
                assert resolver.open_count == plain.open_count
            events = []
            if chance.random() < 0.2:
                snapshot = at_once.snapshot()
                at_once = Resolver()
                at_once.restore(snapshot)


def test_several_events_keep_their_order() -> None:
    resolver = Resolver()
    assert resolver.resolve_events([[(0, 2, (0, 0)), (0, 3, (0, 1))], [(0, 4, (0, 0))]]) == []
    events: list[list[Verdict]] = [[(0, 1, True)], [(0, 0, False), (0, 5, True)], [(0, 6, True)]]
    assert resolver.resolve_events(events) == [
        (0, 1, True),
        (0, 3, True),
        (0, 0, False),
        (0, 2, False),
        (0, 4, False),
        (0, 5, True),
        (0, 6, True),
    ]
    assert resolver.open_count == 0


def test_values_of_one_event_come_in_order() -> None:
    resolver = Resolver()
    resolver.resolve([(1, 2, (1, 0)), (1, 3, (1, 1)), (1, 4, (1, 0))])
    assert resolver.resolve([(1, 0, True), (1, 1, False)]) == [
        (1, 0, True),
        (1, 1, False),
        (1, 2, True),
        (1, 3, False),
        (1, 4, True),
    ]


def test_long_chains() -> None:
    resolver = Resolver()
    count = 200_000
    for offset in range(1, count):
        resolver.resolve([(0, offset, (0, 0))])
    assert resolver.open_count == count - 1
    assert resolver.resolve([(0, 0, True)]) == [(0, offset, True) for offset in range(count)]


def test_largest_numbers() -> None:
    largest = (1 << 63) - 1, (1 << 64) - 1
    resolver = Resolver()
    resolver.resolve([(*largest, (0, 0))])
    assert resolver.resolve([(0, 0, False)]) == [(0, 0, False), (*largest, False)]
