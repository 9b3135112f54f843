"""Boolean functions in both back ends, against truth tables."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mtlmon import LimitError, MtlmonError
from tests.doors import expressions_bdd as bdd

Assignment = tuple[bool, ...]

SLOTS = 5
CHAINS = ([2, 0, 3], [4, 1])
"""In each, every slot implies the next."""


@pytest.fixture(params=["cudd", "autoref"])
def manager(request: pytest.FixtureRequest) -> bdd.Manager:
    try:
        return bdd.Manager(request.param)
    except bdd.BackEndError as error:
        pytest.skip(f"dd brings no {request.param} here: {error}")


def assignments() -> list[Assignment]:
    return list(itertools.product([False, True], repeat=SLOTS))


def is_permitted(assignment: Assignment) -> bool:
    return all(
        assignment[later] or not assignment[earlier]
        for chain in CHAINS
        for earlier, later in itertools.pairwise(chain)
    )


def from_table(manager: bdd.Manager, table: Sequence[bool]) -> Any:
    """The function whose value at the i-th assignment is the i-th of the table."""
    result = manager.cube([0, 2]) & ~manager.cube([0, 2])
    for assignment, value in zip(assignments(), table, strict=True):
        if value:
            literals = [2 * slot + (not assignment[slot]) for slot in range(SLOTS)]
            result = result | manager.cube(literals)
    return result


def random_tables(count: int) -> list[list[bool]]:
    source = random.Random(7)
    return [
        [source.random() < density for _ in range(2**SLOTS)]
        for density in (0.2, 0.5, 0.8)
        for _ in range(count)
    ]


def test_functions_that_agree_on_permitted_assignments_get_one_representative(
    manager: bdd.Manager,
) -> None:
    source = random.Random(3)
    for table in random_tables(15):
        other = [
            value if is_permitted(assignment) else source.random() < 0.5
            for assignment, value in zip(assignments(), table, strict=True)
        ]
        reduced = [manager.modulo_chains(from_table(manager, t), CHAINS) for t in (table, other)]
        assert reduced[0] == reduced[1]
        again = from_table(manager, [not value for value in table])
        assert manager.modulo_chains(again, CHAINS) == ~reduced[0]


def test_the_representative_agrees_on_permitted_assignments(manager: bdd.Manager) -> None:
    allowed = from_table(manager, [is_permitted(assignment) for assignment in assignments()])
    for table in random_tables(15):
        function = from_table(manager, table)
        assert manager.modulo_chains(function, CHAINS) & allowed == function & allowed


def test_no_slot_of_the_representative_could_be_left_out(manager: bdd.Manager) -> None:
    permitted = [assignment for assignment in assignments() if is_permitted(assignment)]
    for table in random_tables(10):
        value_at: dict[Assignment, bool] = dict(zip(assignments(), table, strict=True))
        support = manager.support(manager.modulo_chains(from_table(manager, table), CHAINS))
        for slot in range(SLOTS):
            differs = any(
                value_at[one] != value_at[two]
                for one, two in itertools.combinations(permitted, 2)
                if all((one[s] != two[s]) == (s == slot) for s in range(SLOTS))
            )
            assert (slot in support) == differs


@pytest.mark.parametrize(
    ("literals", "expected"),
    [([], []), ([4], [4]), ([5], [5]), ([3, 0, 9], [0, 3, 9])],
)
def test_cubes_are_recognised(
    manager: bdd.Manager, literals: list[int], expected: list[int]
) -> None:
    assert manager.literals_of_cube(manager.cube(literals)) == expected


def test_other_functions_are_no_cubes(manager: bdd.Manager) -> None:
    either = ~(manager.cube([1]) & manager.cube([3]))
    assert manager.literals_of_cube(either) is None
    assert manager.literals_of_cube(either & manager.cube([4])) is None
    assert manager.constant(either) is None
    assert manager.constant(either | ~either) is True
    assert manager.constant(either & ~either) is False


def test_copies_to_another_manager(manager: bdd.Manager) -> None:
    target = bdd.Manager(manager.choice)
    target.cube([8])
    for table in random_tables(5):
        function = from_table(manager, table)
        copy = manager.copy(function, target, range(SLOTS))
        assert copy == from_table(target, table)


@pytest.mark.parametrize("operation", ["conjunction", "compose"])
def test_too_many_levels_are_refused(manager: bdd.Manager, operation: str) -> None:
    one, two = manager.cube([0]), manager.cube([2])
    calls: dict[str, Callable[[], object]] = {
        "conjunction": lambda: manager.conjunction(one, two, bdd.SUPPORT_LIMIT + 1),
        "compose": lambda: manager.compose(one, [0], [two], bdd.SUPPORT_LIMIT + 1),
    }
    with pytest.raises(LimitError, match="more than 4096 obligations at once"):
        calls[operation]()


def test_garbage_of_autoref_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bdd, "_LEAST_COLLECTION", 100)
    manager = bdd.Manager("autoref")
    for table in random_tables(100):
        kept = manager.conjunction(from_table(manager, table), manager.cube([0]), SLOTS)
    assert len(kept.bdd) < 1000


def test_unknown_back_ends() -> None:
    with pytest.raises(MtlmonError, match="choose one of auto, cudd, autoref"):
        bdd.load_back_end("buddy")
