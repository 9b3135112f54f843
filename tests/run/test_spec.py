"""What a run is asked to do cannot change while it runs."""

from __future__ import annotations

import pytest

from tests.doors import PLACES, Frozen, RunSpec


class Point(Frozen):
    x: int
    y: int = 0


def test_a_value_is_not_changed() -> None:
    point = Point(x=1)
    with pytest.raises(AttributeError, match=r"Point cannot be changed: use replace\(y=...\)"):
        point.y = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match="Point cannot be changed"):
        del point.x
    other = point.replace(y=3)
    assert (point.x, point.y, other.x, other.y) == (1, 0, 1, 3)
    assert repr(other) == "Point(x=1, y=3)"


def test_fields_that_there_are_not() -> None:
    with pytest.raises(TypeError, match="Point has no field z"):
        Point(x=1, z=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Point has no field z"):
        Point(x=1).replace(z=2)


def test_options_are_settled_in_another_value() -> None:
    spec = RunSpec(host=object())  # type: ignore[arg-type]
    other = spec.having(output="verdicts", verdicts="false", wait=3)
    assert (other.output.path, other.judging.verdicts, other.times.wait) == ("verdicts", "false", 3)
    assert (spec.output.path, spec.judging.verdicts, spec.times.wait) == (None, "all", None)
    # what is not asked for is shared
    assert other.log is spec.log
    with pytest.raises(TypeError, match="there is no option path"):
        spec.having(path="verdicts")


def test_no_two_options_have_one_word() -> None:
    groups = [getattr(RunSpec, name, None) for name in RunSpec.fields()]
    fields = sum(len(one.fields()) for one in groups if isinstance(one, Frozen))
    assert len(PLACES) == fields
