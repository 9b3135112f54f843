"""The least and the greatest text of instances, against the reference and in named cases."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tests.doors import streams_program as program_module
from tests.streams.programs import Row
from tests.streams.test_instance_ticks import in_batches, wanted_of
from tests.streams.test_templates import CUTS, SCHEMA, File
from tests.streams.test_ticks import require_same

# in the order of code points, which is not that of UTF-16
NAMES = ["", "Z", "a", "aa", "b", "é", "\ue000", "\U0001f600"]


@st.composite
def files(draw: st.DrawFn) -> File:
    def one(choices: list[str]) -> str:
        return draw(st.sampled_from(choices))

    per = one(["per k", "per t as p", "per k as p, t as q"])
    end = one(["", " until row.b", " until silence() > 3", " until age() >= 4"])
    every = one(["", "", " every 2"])
    values = ["last[0,5](s)", "s.last()", "s.hold()", "max[0,7](s)", 'first[1,*)(t, or: "b")']
    group = {"per k": "k", "per t as p": "p = t", "per k as p, t as q": "p = k"}[per]
    folds = ["max(x over x)", "min(x over x)", 'max(coalesce(x, "aa") over x)']
    folds += ['count(x > "a" over x)', f"min(x over x by {group})", f"max(x over x by {group})"]
    lines = [f"stream x = {one(values)} {per}{every}{end}", f"stream w = {one(folds)}"]
    held = [fold for fold in folds if " by " not in fold]
    lines += [f"stream c = {one(held)} every 3", f"stream d = {one(['max[0,9](w)', 'w.last()'])}"]
    if draw(st.booleans()):
        lines.append(f"stream o = {one(folds[:2])} per m as r every 2")
    return File("\n".join(lines))


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    names = st.sampled_from([None, *NAMES])
    cells = st.fixed_dictionaries(
        {
            "k": st.sampled_from([None, 0, 1, 2, 3]),
            "m": st.sampled_from([0, 1]),
            "s": names,
            "t": names,
            "b": st.sampled_from([False, False, True]),
        }
    )
    steps = st.tuples(st.sampled_from([0, 1, 1, 2]), st.integers(0, 1), cells)
    time, found = 0, []
    for step, trace, row in draw(st.lists(steps, max_size=14)):
        time += step
        found.append((time, trace, {**dict.fromkeys(SCHEMA.names), **row}))
    return found


@given(files(), logs(), CUTS, st.integers(0, 3), st.booleans())
def test_extreme_texts_are_those_of_the_reference(
    file: File, log: list[Row], cuts: list[int], saved: int, only_due: bool
) -> None:
    until = log[-1][0] + 8 if log else 7
    wanted = wanted_of(file, log, until)
    with patch.object(program_module, "_MANY_TEXTS", 2):
        # texts are forgotten, and get other numbers, before each batch
        found = in_batches(file, log, cuts, saved, until, only_due=False)
    require_same(found, wanted, file)
    if only_due and not file.program(only_due=True).obstacles:
        due, _ = in_batches(file, log, cuts, saved, until, only_due=True)
        assert due == wanted[0]


def test_texts_are_in_the_order_of_code_points() -> None:
    """Rationale: texts that come later lie between those that are known, and some are forgotten."""
    file = File("stream x = s.hold() per k\nstream w = max(x over x)\nstream v = min(x over x)")
    cells = dict.fromkeys(SCHEMA.names)
    texts = ["\ue000", "é", "\U0001f600", "Z", "b", ""]
    log: list[Row] = [(time, 0, {**cells, "k": time, "s": s}) for time, s in enumerate(texts)]
    log.append((6, 0, {**cells, "k": 2, "s": "a"}))
    with patch.object(program_module, "_MANY_TEXTS", 2):
        found, _ = in_batches(file, log, [1, 2, 4], 2, 7, only_due=False)
    greatest = ["\ue000", "\ue000", *["\U0001f600"] * 4, "\ue000"]
    assert [row and row["w"] for row in found] == greatest
    assert [row and row["v"] for row in found] == ["\ue000", "é", "é", "Z", "Z", "", ""]


def test_first_texts_that_no_row_has_are_in_the_order() -> None:
    """Rationale: instances begin with a text of the expression, which is compared at once."""
    fold = '(coalesce(x, "b") over x)'
    lines = ["stream x = s.last() per k every 2", f"stream w = max{fold}", f"stream v = min{fold}"]
    file = File("\n".join(lines))
    cells = dict.fromkeys(SCHEMA.names)
    rows = [(0, 0, "a"), (1, 0, "a"), (2, 1, "Z"), (3, 0, "a"), (4, 1, "Z")]
    log: list[Row] = [(time, 0, {**cells, "k": k, "s": text}) for time, k, text in rows]
    for cuts in ([], [2], [1, 2, 3]):
        found, _ = in_batches(file, log, cuts, 9, 5, only_due=False)
        assert [row and row["w"] for row in found] == ["b", "a", "b", "a", "a"]
        assert [row and row["v"] for row in found] == ["b", "a", "a", "Z", "Z"]
