"""The first violation of policies with variables, once no late event can change it."""

from __future__ import annotations

from functools import partial
from random import Random
from types import SimpleNamespace

import pytest

from tests.doors import (
    ChangedAnswers,
    FinalBound,
    FirstAnswer,
    FirstViolation,
    PointHistory,
    from_cell,
    plan,
    valid_analysis,
)
from tests.reference.late_relations import Answer, known_after
from tests.relational.correcting.comparing import (
    POLICIES,
    as_read,
    file_of,
    history_of,
    push,
    random_batches,
)
from tests.sampling import has_all_cases, thinned

# violations that are told long before they are final
WAITING = (
    "policy a: FORALL u. p(u) IMPLIES ONCE[0,9] q(u)\n"
    "policy b: FORALL u. r(u) IMPLIES EVENTUALLY[0,9] (p(u) OR q(u) OR r(u))"
)


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("text", [*POLICIES, WAITING])
def test_the_first_violation_is_that_of_the_reference(text: str, ids: bool) -> None:
    file = file_of(text)
    read = {atom.name for atom in plan(file, valid_analysis(file, None)).named_atoms}
    names = [policy.name for policy in file.policies]
    early = 0
    for seed in thinned(range(20)):
        random = Random(f"{seed} {ids}")
        lateness = random.choice([3, 9])
        batches = [
            [as_read(arrival, read) for arrival in batch]
            for batch in random_batches(random, count=24, ids=ids)
        ]

        make = partial(
            history_of,
            file,
            lateness,
            spacing=1,
            corrects=ids,
            keeps_found=True,
            sweeps=seed % 2 == 0,
        )

        def first_of(history: PointHistory) -> FirstViolation:
            check = SimpleNamespace(history=history, revision=0)
            return FirstViolation([FirstAnswer([False] * len(names), check)])

        history = make()
        first = first_of(history)
        arrivals = [arrival for batch in batches for arrival in batch]
        for batch in batches:
            push(history, batch)
            rows = first.take(
                [ChangedAnswers(history.changes(), 0), FinalBound(history.final_below())]
            )
            made = history.plan
            emitted: set[Answer] = set()
            found = [one for row in rows if isinstance(row, ChangedAnswers) for one in row.changes]
            for one in found:
                policy = made.named_policies[one.policy]
                pairs = zip(one.cells, policy.kinds, strict=True)
                values = tuple(from_cell(cell, kind, made.texts) for cell, kind in pairs)
                emitted.add((policy.name, one.time_stamp, one.offset, True, values))
            if first.is_known:
                break
            if random.random() < 0.2:
                snapshot, known_first = history.snapshot(), first.snapshot()
                history = make()
                first = first_of(history)
                history.restore(snapshot)
                first.restore(known_first)
        known = known_after(file, arrivals, lateness, 10**6)
        violations = [one for one in known.answers if one[3]]
        if not first.is_known:
            continue
        early += 1
        least = min((one[1], one[2], names.index(one[0])) for one in violations)
        wanted = {one for one in violations if (one[1], one[2], names.index(one[0])) == least}
        assert emitted == wanted
    if "EVENTUALLY EXISTS" not in text and "COUNT" not in text:
        assert early or not has_all_cases()
