"""Logs of MonPoly whose lines a program gives as they come."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from mtlmon import RunError, check, live
from tests.monpoly.test_late import FORMULAS, SIGNATURE, log_of
from tests.sampling import thinned

Found = list[tuple[Any, ...]]


def found(answers: Any) -> Found:
    return [(one.time, one.offset, one.verdict, one["x"], one.get("y")) for one in answers]


@pytest.mark.parametrize("number", range(len(FORMULAS)))
@pytest.mark.parametrize("given", [{}, {"wait": 7}, {"wait": 3}, {"lateness": 0}])
def test_lines_as_they_come_are_those_of_a_log(
    number: int, given: dict[str, Any], tmp_path: Path
) -> None:
    """Also where a run goes on from a snapshot, which may be within a time-point."""
    signature, log = tmp_path / "s.sig", tmp_path / "log"
    signature.write_text(SIGNATURE)
    for seed in thinned(range(6)):
        source = random.Random(f"{number} {seed}")
        text = log_of(source, 30)
        if not given.get("wait"):
            points = text.split("@")[1:]
            points.sort(key=lambda point: int(point.split()[0].rstrip(";")))
            text = "".join(f"@{point}" for point in points)
        log.write_text(text)
        options = {"signature": signature, "negate": True, "nonewlastts": seed % 2 == 1, **given}
        wanted = found(check(FORMULAS[number], log, **options))
        run = live(FORMULAS[number], text=True, **options)
        ours: Found = []
        for line in text.splitlines(keepends=True):
            ours += found(run.feed(line))
            if source.random() < 0.2:
                saved = run.snapshot()
                run.close()
                run = live(FORMULAS[number], text=True, snapshot=saved, **options)
        assert ours + found(run.end()) == wanted


def test_what_is_refused(tmp_path: Path) -> None:
    signature = tmp_path / "s.sig"
    signature.write_text(SIGNATURE)
    with pytest.raises(RunError, match="signature is for text logs of MonPoly, not for tables"):
        live(FORMULAS[0], signature=signature)
    with pytest.raises(RunError, match="negate is for files of MonPoly: add signature=PATH"):
        live(FORMULAS[0], text=True, negate=True)
    run = live(FORMULAS[0], text=True, signature=signature, negate=True)
    run.feed("@1 q(1,a)")
    with pytest.raises(RunError, match="a line with a time-stamp alone, @TS, lets time pass"):
        run.pass_time(9)
    assert found(run.feed("@9")) == [(1, 0, False, 1, "a")]
    assert found(run.end()) == []
