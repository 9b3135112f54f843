"""Explain violations of several policies and keys, by reading the log again."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.checking.log_check import end_time_of_all
from mtlmon.explanation.explaining import explain_positions
from mtlmon.explanation.parts import TraceParts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtlmon.checking.sources import EventBatch, EventSource
    from mtlmon.errors import UndecidedError
    from mtlmon.explanation.proof import Proof
    from mtlmon.explanation.trace import EndTime, Trace
    from mtlmon.policy import Policy

__all__ = ["Violation", "explain_violations"]


class Violation(NamedTuple):
    """A time-point that violates a policy.

    Attributes:
        policy: the number of the policy.
        number: the number of the trace in the policy's partition; 0 if there is only one.
        time_stamp: the time-stamp of the time-point.
        offset: the number of the time-point within its time-stamp.
    """

    policy: int
    number: int
    time_stamp: int
    offset: int


def explain_violations(
    policies: Sequence[Policy],
    atoms: Sequence[str],
    violations: Iterable[Violation],
    source: EventSource,
    event_count: int,
    end_time: EndTime = None,
    partition_of: Sequence[int] | None = None,
) -> Iterator[tuple[Violation, Proof | UndecidedError]]:
    """Explain violations that a check has found.

    Args:
        policies: the policies that were checked.
        atoms: the atoms of the source, in its order.
        violations: the violations of these policies.
        source: the same log from its beginning; its keys get the same numbers as in the check.
        event_count: how many events of the log were checked.
        end_time: the end time that the check used.
        partition_of: for each policy, the number of its partition; None if there is only one.

    Yields:
        Each violation with its proof, or with the error that says why there is none, as soon as
            enough of the log has been read.
    """
    # by partition and number of the trace
    traces: dict[tuple[int, int], list[tuple[int, TraceParts]]] = {}
    for (policy, number), group in groupby(sorted(violations), lambda one: (one[0], one[1])):
        names = [(one.time_stamp, one.offset) for one in group]
        parts = TraceParts(policies[policy].formula, names, atoms)
        partition = 0 if partition_of is None else partition_of[policy]
        traces.setdefault((partition, number), []).append((policy, parts))
    wanted: dict[int, list[int]] = {}
    for partition, number in traces:
        wanted.setdefault(partition, []).append(number)
    clock = 0
    for batch in source if traces else ():
        count = min(len(batch.time_stamps), event_count)
        event_count -= count
        for partition, numbers in wanted.items():
            for number, time_stamp, letter in _chosen(batch, count, partition, numbers):
                for policy, parts in traces[partition, number]:
                    for part in parts.add(time_stamp, letter):
                        yield from _explained(policies[policy], policy, number, *part)
        if count:
            clock = int(batch.time_stamps[count - 1])
        if not event_count or all(one.is_done for some in traces.values() for _, one in some):
            break
        for some in traces.values():
            for _, parts in some:
                parts.drop()
    known = end_time_of_all(clock, end_time)
    for (_, number), some in traces.items():
        for policy, parts in some:
            for part in parts.end(known):
                yield from _explained(policies[policy], policy, number, *part)


def _chosen(
    batch: EventBatch, count: int, partition: int, wanted: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """Yield trace, time-stamp and letter of the first `count` events, for wanted traces only."""
    own = batch.numbers_of(partition)
    numbers = np.asarray(np.zeros(count, np.uint32) if own is None else own[:count])
    # For each trace number, whether it is wanted; False for all higher numbers.
    is_wanted = np.zeros(max(wanted) + 2, bool)
    is_wanted[list(wanted)] = True
    places = np.flatnonzero(is_wanted[np.minimum(numbers, len(is_wanted) - 1)])
    words = batch.letters_of(partition)[places].tolist()
    letters = (sum(word << 64 * place for place, word in enumerate(row)) for row in words)
    stamps = np.asarray(batch.time_stamps)[places].tolist()
    return zip(numbers[places].tolist(), stamps, letters, strict=True)


def _explained(
    policy: Policy, policy_number: int, number: int, names: list[tuple[int, int]], trace: Trace
) -> Iterator[tuple[Violation, Proof | UndecidedError]]:
    """Explain violations of one policy on part of a trace.

    Args:
        policy: the policy.
        policy_number: the number of the policy.
        number: the number of the trace.
        names: the time-stamp and offset of each violation.
        trace: the part of the trace that decides them.
    """
    positions = [trace.position(*name) for name in names]
    proofs = explain_positions(policy.formula, trace, positions)
    for (time_stamp, offset), proof in zip(names, proofs, strict=True):
        yield Violation(policy_number, number, time_stamp, offset), proof
