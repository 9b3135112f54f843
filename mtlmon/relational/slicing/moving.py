"""What slices remember, as bytes that say how the log was sliced, and moved to other slices.

States can be moved at any block, and from any snapshot. As a slice may be wrong about rows that it
does not own, the plan says what the columns of each state, and of the rows that wait, are for each
policy that uses them (`relational/uses`). The router then says which slices are right about a row,
as it does for rows of the log. A plan with other exposed variables would have other states, so
exposed variables do not change. The parts of states that depend only on time are the same in all
slices once states that lag are advanced.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlmon.errors import SnapshotError
from mtlmon.relational.native import Mover, Router
from mtlmon.relational.slicing.routing import routing_of, routing_of_rows
from mtlmon.relational.slicing.slicer import plan_slices
from mtlmon.relational.slicing.slices import MOST_SLICES
from mtlmon.relational.slicing.statistics import Statistics
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.relational.analysis import Analysis
    from mtlmon.relational.native import RelationalEngine
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.slicing.slices import Slicing

__all__ = ["SavedSlices", "is_sliced", "joined", "move", "parted", "record_of", "slicing_of"]

_MARK = b"mtlmon slices 1\n"
_VALUES = (bool, int, float, str)


class SavedSlices(NamedTuple):
    """What is in the snapshot of an engine.

    Attributes:
        slicing: how the log was sliced.
        found: for each policy, how many time-points violate it or match; empty for one engine
            without slices, which knows it itself.
        timeline: the snapshot of the time-points of slices; None for one engine without slices.
        engines: the snapshot of each slice.
        counts: how many valuations match each left side that is counted, then how many violate
            each policy; empty without slices.
    """

    slicing: Slicing
    found: list[int]
    timeline: bytes | None
    engines: list[bytes]
    counts: list[int]


def move(
    made: Plan,
    old: Slicing,
    old_engines: list[RelationalEngine],
    new: Slicing,
    new_engines: list[RelationalEngine],
) -> None:
    """Move what slices remember to others, which are new and have the same plan.

    Args:
        made: the plan of a slice.
        old: how the log was sliced.
        old_engines: the slices. Their answers have been taken.
        new: how it is sliced from now on, with the same exposed variables.
        new_engines: those slices.

    Raises:
        LimitError: a slice would remember too much.
    """
    routers = []
    for slicing in (old, new):
        routing = routing_of(slicing, made)
        rows = routing_of_rows(slicing, routing, made)
        routers += [Router(routing, made.texts), Router(rows, made.texts)]
    Mover(*routers).move(old_engines, new_engines)


def record_of(slicing: Slicing) -> dict[str, object]:
    """Return how a log is sliced, for `slicing_of` and JSON."""
    heavy = [
        [atom, place, [[type(value).__name__, value] for value in sorted(values, key=repr)]]
        for (atom, place), values in sorted(slicing.statistics.heavy.items())
    ]
    return {
        "slices": slicing.slices,
        "seed": slicing.seed,
        "exposed": slicing.exposed,
        "rates": dict(slicing.statistics.rates),
        "heavy": heavy,
        "digest": slicing.digest().hex(),
    }


def slicing_of(
    known: dict[str, Any],
    file: PolicyFile,
    analysis: Analysis,
    *,
    counts_triggered: bool = False,
) -> Slicing:
    """Return how a log was sliced, of what `record_of` has said.

    Raises:
        SnapshotError: it is about other policies, or makes no sense.
    """
    try:
        count, seed = int(known["slices"]), int(known["seed"])
        digest = bytes.fromhex(known["digest"])
        exposed = [tuple(map(str, names)) for names in known["exposed"]]
        rates = {str(atom): float(rate) for atom, rate in known["rates"].items()}
        heavy = {
            (str(atom), int(place)): frozenset(value for _, value in values)
            for atom, place, values in known["heavy"]
        }
        if any(not isinstance(one, _VALUES) for values in heavy.values() for one in values):
            raise TypeError
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise SnapshotError("the snapshot is damaged: it does not say how it was sliced") from None
    if not 1 <= count <= MOST_SLICES or len(exposed) < len(analysis.policies):
        raise SnapshotError("the snapshot is damaged, or of other policies")
    slicing = plan_slices(
        file,
        analysis,
        count,
        statistics=Statistics(rates, heavy),
        seed=seed,
        exposed=exposed,
        counts_triggered=counts_triggered,
    )
    if bool(known.get("counts")) != bool(slicing.lefts):
        what = "counted" if known.get("counts") else "did not count"
        raise SnapshotError(f"the snapshot is of a run that {what} left sides")
    if slicing.digest() != digest:
        raise SnapshotError(
            "the snapshot is of other policies, or of a version of mtlmon that slices logs in "
            "another way"
        )
    return slicing


def is_sliced(snapshot: bytes) -> bool:
    """Whether a snapshot is one of slices."""
    return snapshot.startswith(_MARK)


def joined(
    slicing: Slicing,
    found: Sequence[int],
    counts: Sequence[int],
    timeline: bytes,
    engines: Sequence[bytes],
) -> bytes:
    """Return the snapshots of slices as one."""
    known = {
        **record_of(slicing),
        "found": list(found),
        **({"counts": list(counts)} if slicing.lefts else {}),
    }
    parts = [json.dumps(known).encode(), timeline, *engines]
    return _MARK + joined_parts(parts)


def parted(
    snapshot: bytes, file: PolicyFile, analysis: Analysis, *, counts_triggered: bool = False
) -> SavedSlices:
    """Return what is in the snapshot of an engine, with slices or without.

    Args:
        snapshot: the bytes.
        file: the policies.
        analysis: what is known of them.
        counts_triggered: whether left sides are counted.

    Raises:
        SnapshotError: they are not the snapshot of such an engine.
    """
    if not is_sliced(snapshot):
        if counts_triggered:
            raise SnapshotError(
                "the snapshot is one without slices, which count left sides in another way: go on "
                "without slices"
            )
        no_names = [()] * len(analysis.policies)
        slicing = plan_slices(file, analysis, 1, exposed=no_names)
        return SavedSlices(slicing, [], None, [snapshot], [])
    parts = split_parts(snapshot[len(_MARK) :])
    try:
        known = json.loads(parts[0])
        count = int(known["slices"])
        found = [int(one) for one in known["found"]]
        counts = [int(one) for one in known.get("counts", ())]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise SnapshotError("the snapshot is damaged: it does not say how it was sliced") from None
    if len(parts) != count + 2 or len(found) != len(analysis.policies):
        raise SnapshotError("the snapshot is damaged, or of other policies")
    slicing = slicing_of(known, file, analysis, counts_triggered=counts_triggered)
    if counts and len(counts) != len(slicing.policies):
        raise SnapshotError("the snapshot is damaged, or of other policies")
    return SavedSlices(slicing, found, parts[1], parts[2:], counts)
