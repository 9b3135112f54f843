"""Logs as recipes, made once and kept in a cache outside the checkout."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.workloads import PAIR, probability

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np

    Times = np.ndarray[Any, np.dtype[np.int64]]
    Letters = np.ndarray[Any, np.dtype[np.bool_]]
    # Time-stamps of some events, and a matrix: which atom holds at which of them.
    Piece = tuple[Times, Letters]

# Part of every file name: to be raised when the same parameters make another log.
_FORMAT = 1
# How the gaps between neighbouring time-stamps vary around their mean.
CLOCKS = ("equal", "uniform", "exponential")
# Bytes of the matrices a piece of the log is made in.
_PIECE_BYTES = 1 << 24


@dataclass(frozen=True)
class Log:
    """A log that can be made at any time: the same recipe makes the same bytes.

    Attributes:
        name: of its file, without suffix; another name for every other content.
        atoms: names of the columns of a piece's matrix.
        events: how many there are.
        pieces: makes the events, some thousands at a time.
        counts: the time-stamps are 0, 1, 2, ..., one event each.
    """

    name: str
    atoms: tuple[str, ...]
    events: int
    pieces: Callable[[], Iterable[Piece]]
    counts: bool

    def path(self) -> Path:
        """The file, made unless it is in the cache."""
        return _cached(self.name, self._lines)

    def head(self, events: int) -> Path:
        """A file of the first events only, from the cache as well."""
        with self.path().open("rb") as file:
            lines = [line for _, line in zip(range(events), file, strict=False)]
        return _cached(f"{self.name}-head{events}", lambda: lines)

    def remove(self) -> None:
        """Delete the file: for logs too large to be kept."""
        _file(self.name).unlink(missing_ok=True)

    def _lines(self) -> Iterator[memoryview]:
        for time_stamps, letters in self.pieces():
            yield _text(time_stamps, letters, self.atoms)


def cache_directory() -> Path:
    """Where logs are kept: $MTLMON_BENCH_CACHE, else `mtlmon-bench` in the user's cache."""
    chosen = os.environ.get("MTLMON_BENCH_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mtlmon-bench"


def random_log(
    atoms: tuple[str, ...],
    density: str,
    rate: int,
    events: int,
    seed: int,
    *,
    alphabet: str = "pair",
    time_scale: int = 1,
    first: int = 0,
    clock: str = "equal",
) -> Log:
    """Each atom holds or not, by chance and on its own, at each event.

    Args:
        density: says how likely, see `bench.workloads`.
        rate: events to a time-stamp.
        alphabet: the name of the atoms in that of the file.
        time_scale: the mean distance of neighbouring time-stamps.
        first: the first time-stamp.
        clock: one of CLOCKS. With `uniform`, gaps are between 1 and twice the mean less 1; with
            `exponential`, they are geometrically distributed and at least 1. The atoms of an event
            do not depend on the clock.
    """
    assert alphabet != "pair" or atoms == PAIR
    start = f"-t{first}" if first else ""
    gaps = f"-{clock}" if clock != "equal" else ""

    def pieces() -> Iterator[Piece]:
        import numpy as np

        generator = np.random.default_rng(seed)
        chances = np.array([probability(atom, density) for atom in atoms], dtype=np.float32)
        step = piece_events(atoms)
        stamps = _time_stamps(clock, rate, time_scale, seed)
        for begin in range(0, events, step):
            indices = np.arange(begin, min(begin + step, events))
            holds = generator.random((len(indices), len(chances)), np.float32) < chances
            yield first + stamps(indices), holds

    name = f"{alphabet}-{density}-r{rate}-x{time_scale}{gaps}-n{events}-s{seed}{start}-v{_FORMAT}"
    counts = (rate, time_scale, first, clock) == (1, 1, 0, "equal")
    return Log(name, atoms, events, pieces, counts=counts)


def _time_stamps(clock: str, rate: int, mean: int, seed: int) -> Callable[[Times], Times]:
    """A function from the indices of events to their time-stamps, the first of which is 0.

    It takes the indices from 0 on, some at a time.
    """
    import numpy as np

    if clock == "equal":
        return lambda indices: indices // rate * mean
    generator = np.random.default_rng((seed, CLOCKS.index(clock)))
    # The first group of events whose time-stamps are drawn next, and the time-stamp before.
    group, now = 1, 0

    def stamps(indices: Times) -> Times:
        nonlocal group, now
        last = int(indices[-1]) // rate
        drawn = (
            generator.integers(1, 2 * mean, last + 1 - group)
            if clock == "uniform"
            else generator.geometric(1 / mean, last + 1 - group)
        )
        times = np.concatenate([[now], now + np.cumsum(drawn)])
        of_events: Times = times[indices // rate - (group - 1)]
        group, now = last + 1, int(times[-1])
        return of_events

    return stamps


def piece_events(atoms: tuple[str, ...]) -> int:
    """How many events a piece over these atoms has at most."""
    return max(1, _PIECE_BYTES // sum(len(atom) + 5 for atom in atoms))


def empty_log() -> Path:
    """A log without events."""
    return _cached("empty", lambda: [])


def _file(name: str) -> Path:
    return cache_directory() / f"{name}.log"


def _cached(name: str, lines: Callable[[], Iterable[bytes | memoryview]]) -> Path:
    path = _file(name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            with unfinished.open("wb") as file:
                file.writelines(lines())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    return path


def _text(time_stamps: Times, letters: Letters, atoms: tuple[str, ...]) -> memoryview:
    """The lines of a piece: a matrix of full-width lines, of which the bytes to keep are kept."""
    import numpy as np

    digits = len(str(int(time_stamps[-1])))
    powers = 10 ** np.arange(digits - 1, -1, -1)
    words = [f" {atom}" for atom in atoms]
    template = np.frombuffer(f"@{'0' * digits}{''.join(words)}\n".encode(), np.uint8)
    text = np.tile(template, (len(time_stamps), 1))
    text[:, 1 : 1 + digits] += (time_stamps[:, None] // powers % 10).astype(np.uint8)
    keep = np.ones(text.shape, np.bool_)
    keep[:, 1:digits] = time_stamps[:, None] >= powers[:-1]
    keep[:, 1 + digits : -1] = np.repeat(letters, [len(word) for word in words], axis=1)
    return text[keep].data
