"""What a measure is to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.contenders import contender

if TYPE_CHECKING:
    from bench.contenders import Binary, Contender


@dataclass(frozen=True)
class Settings:
    """The settings of a measure; each uses those that mean something to it.

    Attributes:
        workloads, contenders, densities: names, see `bench.workloads` and `bench.contenders`.
        rates: events per time-stamp.
        events: of each log.
        repeats: runs of each command.
        seed: of the random logs and formulas.
        limit: seconds after which a run is given up.
        match: a part of the names of the piles or targets to measure.
        peers: more contenders, given on the command line.
    """

    workloads: tuple[str, ...]
    contenders: tuple[str, ...]
    densities: tuple[str, ...]
    rates: tuple[int, ...]
    events: int
    repeats: int
    seed: int
    limit: float
    match: str = ""
    peers: tuple[Binary, ...] = field(default=())

    def all_contenders(self) -> list[Contender]:
        """The contenders by name, then the peers."""
        return [*(contender(name) for name in self.contenders), *self.peers]
