"""The hunt for counterexamples among formulas with variables finds what is wrong."""

from __future__ import annotations

import pytest

from mtlmon.relational import Answer, RelationalMonitor
from tests.relational import soak


def test_some_steps() -> None:
    generator = soak.Generator(20)
    compared = sum(soak.check(generator.example()) for _ in range(80))
    assert compared > 40


def test_a_fault_is_found_and_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    step = RelationalMonitor.step

    def forgetful(self: RelationalMonitor, *given: object) -> list[Answer]:
        # what is found at later time-points is lost
        return [one for one in step(self, *given) if one.point < 2]  # type: ignore[arg-type]

    monkeypatch.setattr(RelationalMonitor, "step", forgetful)
    generator = soak.Generator(1)
    examples = (generator.example() for _ in range(400))
    failing = next(one for one in examples if soak.fails(one))
    found = soak.cut_down(failing)
    assert soak.fails(found)
    assert len(found.log.points) == 3
    assert len(soak.shown(found).splitlines()) == 8
