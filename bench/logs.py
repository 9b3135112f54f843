"""Random logs, made once and kept in a cache outside the checkout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.workloads import PAIR, Workload, probability

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

# Part of every file name: to be raised when the same parameters make another log.
_FORMAT = 1
# Bytes of the matrices a piece of the log is made in.
_PIECE_BYTES = 1 << 24


def cache_directory() -> Path:
    """Where logs are kept: $MTLMON_BENCH_CACHE, else `mtlmon-bench` in the user's cache."""
    chosen = os.environ.get("MTLMON_BENCH_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mtlmon-bench"


def log(workload: Workload, density: str, rate: int, events: int, seed: int) -> Path:
    """The workload's log of `events` events, `rate` of them to a time-stamp, from the cache.

    Workloads over the same atoms and the same time scale share their logs.
    """
    alphabet = "pair" if workload.atoms == PAIR else workload.name
    name = f"{alphabet}-{density}-r{rate}-x{workload.time_scale}-n{events}-s{seed}-v{_FORMAT}.log"
    path = cache_directory() / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{name}.{os.getpid()}")
        try:
            with unfinished.open("wb") as file:
                for piece in _pieces(workload, density, rate, events, seed):
                    file.write(piece)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    return path


def empty_log() -> Path:
    """A log without events."""
    path = cache_directory() / "empty.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def _pieces(
    workload: Workload, density: str, rate: int, events: int, seed: int
) -> Iterator[memoryview]:
    import numpy as np

    generator = np.random.default_rng(seed)
    probabilities = np.array([probability(a, density) for a in workload.atoms], dtype=np.float32)
    step = max(1, _PIECE_BYTES // sum(len(atom) + 5 for atom in workload.atoms))
    for start in range(0, events, step):
        indices = np.arange(start, min(start + step, events))
        holds = generator.random((len(indices), len(probabilities)), np.float32) < probabilities
        yield _lines(indices // rate * workload.time_scale, holds, workload.atoms)


def _lines(
    time_stamps: np.ndarray[Any, np.dtype[np.int64]],
    holds: np.ndarray[Any, np.dtype[np.bool_]],
    atoms: tuple[str, ...],
) -> memoryview:
    """The text of one piece: a matrix of full-width lines, of which the bytes to keep are kept."""
    import numpy as np

    digits = len(str(int(time_stamps[-1])))
    powers = 10 ** np.arange(digits - 1, -1, -1)
    words = [f" {atom}" for atom in atoms]
    template = np.frombuffer(f"@{'0' * digits}{''.join(words)}\n".encode(), np.uint8)
    text = np.tile(template, (len(time_stamps), 1))
    text[:, 1 : 1 + digits] += (time_stamps[:, None] // powers % 10).astype(np.uint8)
    keep = np.ones(text.shape, np.bool_)
    keep[:, 1:digits] = time_stamps[:, None] >= powers[:-1]
    keep[:, 1 + digits : -1] = np.repeat(holds, [len(word) for word in words], axis=1)
    return text[keep].data
