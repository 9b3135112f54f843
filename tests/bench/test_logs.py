"""Logs are what their recipes say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bench.families import FAMILIES, FORMS
from bench.library import arrays
from bench.logs import CLOCKS, random_log
from bench.workloads import DENSITIES, PAIR, WORKLOADS, probability, wide_atoms
from mtlmon import Monitor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_EVENTS = 3000
_BOUND = 10


def _events(path: Path) -> list[tuple[int, list[str]]]:
    lines = [line.split() for line in path.read_text().splitlines()]
    return [(int(stamp.removeprefix("@")), atoms) for stamp, *atoms in lines]


@pytest.mark.parametrize(("rate", "time_scale", "first"), [(1, 1, 0), (7, 1, 0), (10, 1000, 95)])
def test_time_stamps(rate: int, time_scale: int, first: int) -> None:
    log = random_log(PAIR, "dense", rate, 100, 1, time_scale=time_scale, first=first)
    expected = [first + i // rate * time_scale for i in range(100)]
    assert [time_stamp for time_stamp, _ in _events(log.path())] == expected
    assert log.counts is ((rate, time_scale, first) == (1, 1, 0))


def _time_stamps(
    clock: str, rate: int, events: int, seed: int = 1
) -> Iterator[np.ndarray[Any, Any]]:
    """The time-stamps of a log with a mean gap of 100, piece by piece."""
    log = random_log(PAIR, "dense", rate, events, seed, time_scale=100, clock=clock)
    for time_stamps, _ in log.pieces():
        yield time_stamps


def _gaps(clock: str, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.diff(np.concatenate(list(_time_stamps(clock, 1, 100_000, seed))))


def test_gaps_are_as_promised() -> None:
    assert set(_gaps("equal")) == {100}
    uniform = _gaps("uniform")
    assert (uniform.min(), uniform.max()) == (1, 199)
    assert uniform.mean() == pytest.approx(100, rel=0.01)
    assert uniform.std() == pytest.approx(199 / 12**0.5, rel=0.01)
    exponential = _gaps("exponential")
    assert exponential.min() == 1
    assert exponential.mean() == pytest.approx(100, rel=0.02)
    # The exponential distribution exceeds twice its mean with this probability.
    assert (exponential > 200).mean() == pytest.approx(np.exp(-2), rel=0.03)


@pytest.mark.parametrize("clock", CLOCKS)
def test_clocks_depend_on_the_seed_only(clock: str) -> None:
    assert np.array_equal(_gaps(clock), _gaps(clock))
    assert np.array_equal(_gaps(clock), _gaps(clock, seed=2)) is (clock == "equal")


@pytest.mark.parametrize("clock", CLOCKS)
def test_events_of_a_time_stamp_stay_together(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time-stamps do not depend on where a piece ends."""
    whole = np.concatenate(list(_time_stamps(clock, 30, 1000)))
    assert whole[0] == 0
    assert set(np.unique(whole, return_counts=True)[1]) == {30, 1000 % 30}
    monkeypatch.setattr("bench.logs.piece_events", lambda atoms: 77)
    pieces = list(_time_stamps(clock, 30, 1000))
    assert len(pieces) == 13
    assert np.array_equal(np.concatenate(pieces), whole)


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_atoms_do_not_depend_on_the_clock(clock: str) -> None:
    plain, other = (
        np.concatenate([letters for _, letters in log.pieces()])
        for log in (
            random_log(PAIR, "dense", 3, 500, 1),
            random_log(PAIR, "dense", 3, 500, 1, time_scale=100, clock=clock),
        )
    )
    assert np.array_equal(plain, other)


def test_logs_of_different_clocks_have_different_files() -> None:
    logs = [random_log(PAIR, "dense", 1, 50, 1, time_scale=100, clock=clock) for clock in CLOCKS]
    texts = {log.path().read_text() for log in logs}
    assert len({log.path() for log in logs}) == len(texts) == len(CLOCKS)


@pytest.mark.parametrize("density", DENSITIES)
def test_density(density: str) -> None:
    events = _events(random_log(PAIR, density, 1, 20_000, 1).path())
    for atom in PAIR:
        share = sum(atom in atoms for _, atoms in events) / len(events)
        assert share == pytest.approx(probability(atom, density), rel=0.1, abs=0.002)


def test_wide_lines_hold_all_atoms_but_two() -> None:
    atoms = wide_atoms(100)
    log = random_log(atoms, "sparse", 1, 50, 1, alphabet="wide100")
    events = [*_events(log.path())]
    assert len(events) == 50
    for _, held in events:
        assert set(atoms[2:]) <= set(held) <= set(atoms)


def test_the_text_says_what_the_arrays_say() -> None:
    log = random_log(PAIR, "dense", 3, 100, 1)
    time_stamps, letters = arrays(log, ("q", "p"))
    assert _events(log.path()) == [
        (stamp, [atom for atom, bit in (("p", 2), ("q", 1)) if letter & bit])
        for stamp, letter in zip(time_stamps.tolist(), letters.tolist(), strict=True)
    ]


def test_a_recipe_makes_the_same_log_again() -> None:
    for log in (random_log(PAIR, "dense", 1, 100, 1), FAMILIES["absence_after_q"].log(10, 100, 1)):
        first = log.path().read_bytes()
        log.remove()
        assert log.path().read_bytes() == first


def test_another_seed_makes_another_log() -> None:
    one, other = (random_log(PAIR, "dense", 1, 100, seed).path() for seed in (1, 2))
    assert one.read_bytes() != other.read_bytes()


def test_head() -> None:
    log = random_log(PAIR, "dense", 1, 100, 1)
    assert log.head(7).read_text().splitlines() == log.path().read_text().splitlines()[:7]


def test_only_whole_logs_stay_in_the_cache(cache: Path) -> None:
    log = random_log(PAIR, "dense", 1, 100, 1)
    log.path()
    log.head(10)
    assert {path.suffix for path in cache.iterdir()} == {".log"}


@pytest.mark.parametrize("name", FAMILIES)
def test_logs_of_families_satisfy_them(name: str) -> None:
    family = FAMILIES[name]
    log = family.log(_BOUND, _EVENTS, seed=1)
    events = _events(log.path())
    assert [time_stamp for time_stamp, _ in events] == list(range(_EVENTS))
    for form in FORMS:
        verdicts = list(Monitor(family.formula(form, _BOUND))(events))
        assert {verdict.kind for verdict in verdicts} == {"true"}
        assert len(verdicts) >= _EVENTS - 10 * _BOUND


@pytest.mark.parametrize("name", FAMILIES)
def test_logs_of_families_have_no_slack(name: str) -> None:
    """The past form with a much smaller bound, or a much larger one, is violated somewhere."""
    family = FAMILIES[name]
    events = _events(family.log(_BOUND, _EVENTS, seed=1).path())
    kinds = {
        verdict.kind for bound in (2, 4 * _BOUND) for verdict in Monitor(family.past(bound))(events)
    }
    assert "false" in kinds


def test_all_atoms_of_families_occur() -> None:
    for family in FAMILIES.values():
        pieces = list(family.log(_BOUND, _EVENTS, seed=1).pieces())
        assert np.concatenate([letters for _, letters in pieces]).any(axis=0).all()


def test_workloads_share_logs_only_if_they_are_the_same() -> None:
    atoms_of: dict[str, tuple[str, ...]] = {}
    for workload in WORKLOADS.values():
        assert atoms_of.setdefault(workload.alphabet, workload.atoms) == workload.atoms
