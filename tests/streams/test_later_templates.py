"""Later values in streams with `per`: against the reference, and in named cases."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import streams
from mtlmon.errors import SnapshotError
from tests.doors import StreamProgram
from tests.reference.later_values import LaterProgram
from tests.streams.programs import LATER, Row, Tick, evaluated
from tests.streams.test_later_values import at_end, removed_of, require_same
from tests.streams.test_templates import CUTS, PER, SCHEMA, TIMES, File, rows


class LaterFile(File):
    """The streams of a policy file, whose values wait for later ones."""

    @property
    def waiting(self) -> dict[str, Any]:
        return dict.fromkeys(self.wanted, LATER)

    def program(
        self, schema: pa.Schema = SCHEMA, *, only_due: bool = False, can_leave_out: bool = False
    ) -> StreamProgram:
        return StreamProgram(self.wanted, self.streams, schema, periods=self.waiting)

    def later(self) -> LaterProgram:
        wanted = {name: one.expression for name, one in self.wanted.items()}
        return LaterProgram(wanted, self.texts)


LENGTHS = ["0", "2", "2", "3", "7"]
VALUES = ["i", "i", "i - i.last(or: 0)", "u", "v", "m", "sum[0,4](i)", "coalesce(i, 2)", "f"]


@st.composite
def later_files(draw: st.DrawFn) -> LaterFile:
    """Streams with `per` that look at later values, and what reads them."""

    def one(choices: list[str]) -> str:
        return draw(st.sampled_from(choices))

    def later() -> str:
        value = one(VALUES)
        default = one(["", "", "or: 7.0" if value == "f" else "or: 7"])
        if draw(st.booleans()):
            distances = one(["", "1", "2", "2", "3"])
            return f"({value}).next({', '.join(filter(None, [distances, default]))})"
        return f"({value}).at({', '.join(filter(None, [f'+{one(LENGTHS)}', default]))})"

    per = one(PER)
    key = per.removeprefix("per ").split(" as ")[0]
    other = {"t": "s", "g": "m"}.get(key, "m")
    keys = [key, other] if ", " not in per else ["k, t", "m, s"]
    own = f"{key} = p and " + ("t = q and " if ", " in per else "")
    conditions = ["", "", "row.b", "i.at(+2) > 1", "i.next(2) > 1"] if per != "per k" else [""]
    on = one([condition and f" on {own}{condition}" for condition in conditions])
    ends = ["row.b", *TIMES, "v > 2", "v > 1 or age() > 5"]
    if per != "per k":
        equal = f"{other} = p" + (" and s = q" if ", " in per else "")
        ends += [equal, f"{equal} and row.b or silence() > 3"]
    rest = one(["", "", " from row.b", " from u > 1"])
    rest += "" if draw(st.booleans()) else f" until {one(ends)}"

    def body() -> str:
        form = one(["{0}", "{0}", "{0} + {1}", "{0} - {1}", "{0} * 4611686018427387904", "-{0}"])
        return form.format(later(), one([*VALUES[:-1], later(), "n", "1"]))

    lines = [
        "stream u = count[0,5](row.b)",
        f"stream n = {one(['i.next()', 'i.at(+2)', 'u', 'i.next(2, or: 1) + u'])}",
        f"stream v = {one(['count[0,6]()', 'v.last(or: 0) + 1', 'count[0,3](row.b)'])} {per}{rest}",
        f"stream x = {body()} {per}{on}{rest}",
        f"stream t2 = s.{one(['at(+0)', 'at(+3)', 'at(+9)', 'next()', 'next(2)'])} {per}{rest}",
    ]
    looked = [f"x[{one(keys)}]", f"x[{one(keys)}]"]
    others = ["x", "coalesce(x, 1) + i", f"{one(looked)} + {later()}", body(), "x + v", one(looked)]
    lines.append(f"stream y = {one(others)} {per}{rest}")
    looked.append(f"y[{one(keys)}]")
    reads = [*looked, f"{one(looked)} + {one(looked)}", f"{one(looked)} - u + n", f"v[{keys[1]}]"]
    lines.append(f"stream w = {one(reads)}{one(['', ' on row.b'])}")
    lines.append(f"stream o = t2[{one(keys)}]")
    if per.startswith(f"per {key} as p"):
        # groups go on while instances that have ended are kept
        name = one(["p", "q"]) if ", " in per else "p"
        value = keys[0].split(", ")[name == "q"]
        lines.append(f"stream d = sum(v over v by {name} = {value})")
    return LaterFile("\n".join(lines))


@given(later_files(), rows(), CUTS, st.integers(0, 3))
def test_values_of_instances_wait_as_the_reference_says(
    file: LaterFile, log: list[Row], cuts: list[int], saved: int
) -> None:
    reference = file.later()
    taken = [reference.row(*row) for row in log]
    program = file.program()
    ticks: list[Tick] = []
    found: list[dict[str, Any] | None] = []
    edges = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    for batch, (start, end) in enumerate(pairwise(edges)):
        if batch == saved + 1:
            # texts and instances have other numbers from then on
            program.snapshot()
        if batch == saved:
            snapshot = program.snapshot()
            program = file.program()
            program.restore(snapshot)
            assert program.snapshot() == snapshot
        before = sum(one is not None for one in found)
        found += evaluated(
            program, log[start:end], SCHEMA, periods=file.waiting, ticks=ticks, first=before
        )
    assert [one is not None for one in found] == taken
    require_same(removed_of(ticks), reference.removed(is_end=False), file)
    ticks += at_end(program, file.waiting, sum(taken), SCHEMA)
    require_same(removed_of(ticks), reference.removed(is_end=True), file)


@given(later_files(), rows(), st.integers(0, 25))
def test_a_batch_can_be_undone(file: LaterFile, log: list[Row], cut: int) -> None:
    program = file.program()
    evaluated(program, log[:cut], SCHEMA, periods=file.waiting, ticks=[])

    def rest() -> list[Tick]:
        ticks: list[Tick] = []
        evaluated(program, log[cut:], SCHEMA, periods=file.waiting, ticks=ticks)
        return ticks

    end = at_end(program, file.waiting, 0, SCHEMA)
    program.undo()
    first = rest()
    program.undo()
    require_same(removed_of(at_end(program, file.waiting, 0, SCHEMA)), removed_of(end), file)
    program.undo()
    require_same(removed_of(rest()), removed_of(first), file)


def test_states_go_on_from_snapshots_and_after_what_is_undone() -> None:
    """Between any two rows: rows that are undone give values to others, and end instances."""
    rest = "per k as p until m = p or silence() > 4"
    file = LaterFile(
        f"stream x = i.next() {rest}\n"
        f"stream y = i.next(3, or: 0) + i.at(+2) {rest}\n"
        f"stream z = s.next(2) {rest}"
    )
    source = random.Random(1)
    log: list[Row] = []
    for number in range(50):
        time = log[-1][0] + source.choice([0, 1, 1, 3]) if log else 0
        ended = source.choice([None, None, None, 0, 1, 2])
        value = source.choice([None, number, number])
        cells = {"k": source.randrange(3), "m": ended, "i": value, "s": f"s{number}"}
        log.append((time, source.randrange(2), cells))
    wanted: list[Tick] = []
    whole = file.program()
    evaluated(whole, log, SCHEMA, periods=file.waiting, ticks=wanted)
    wanted += at_end(whole, file.waiting, len(log), SCHEMA)
    for cut in range(len(log) + 1):
        program = file.program()
        before: list[Tick] = []
        evaluated(program, log[:cut], SCHEMA, periods=file.waiting, ticks=before)
        last = log[cut - 1][0] if cut else 0
        others: list[Row] = [
            (last + time, trace, {"k": number % 3, "m": end, "i": value, "s": "other"})
            for time, value in ((0, None), (2, 1000), (9, 1000))
            for number, end in enumerate((None, None, None, 0, 2, 1))
            for trace in (0, 1)
        ]
        for undone in (others, others[12:15], others[:6]):
            evaluated(program, undone, SCHEMA, periods=file.waiting, ticks=[])
            program.undo()
            at_end(program, file.waiting, 0, SCHEMA)
            program.undo()
        snapshot = program.snapshot()
        restored = file.program()
        restored.restore(snapshot)
        assert restored.snapshot() == snapshot
        # the first one has new numbers of instances
        for one in (program, restored):
            ticks = list(before)
            evaluated(one, log[cut:], SCHEMA, periods=file.waiting, ticks=ticks, first=cut)
            ticks += at_end(one, file.waiting, len(log), SCHEMA)
            assert sorted(ticks, key=repr) == sorted(wanted, key=repr), cut


def found_in(text: str, table: pa.Table, size: int) -> tuple[list[Any], list[Any]]:
    """The values of the last stream where they are known, in batches of a size, and at the end."""
    program = streams.compile(text, table.schema)
    name = program.evaluate(table.slice(0, 0)).schema.names[-1]
    found: list[Any] = []
    for first in range(0, len(table), size):
        found += program.evaluate(table.slice(first, size))[name].to_pylist()
    return found, program.finish()[name].to_pylist()


@pytest.mark.parametrize("size", [1, 2, 20])
def test_an_instance_that_has_ended_has_its_last_value(size: int) -> None:
    table = pa.table(
        {
            "ts": [0, 1, 2, 3, 4, 5, 6, 20],
            "k": [1, 2, 1, 1, 1, 2, 1, 3],
            "x": [1, 2, 3, 9, 4, None, 5, 6],
            "last": [False, False, True, False, False, False, False, False],
        }
    )
    text = "stream s = x.at(+5) per k until last"
    # the row at 2 is the last one of both instances; those that begin at 3 and 5 are others
    assert found_in(text, table, size) == ([3, 2, 3, 5, 5, None, 5], [6])
    # at 3, no other instance is alive any more, and at 6, the new one of 2 has no value
    read = f"{text}\nstream r = s[3 - k]"
    assert found_in(read, table, size)[0] == [None, 3, 2, None, None, 5, None]


@pytest.mark.parametrize("size", [1, 2, 20])
def test_the_next_value_of_an_instance_that_ends(size: int) -> None:
    """Rationale: an instance has no more rows when it has ended, so later ones are another's."""
    table = pa.table(
        {
            "ts": [0, 1, 2, 3, 4, 5, 6, 20],
            "k": [1, 2, 1, 1, 1, 2, 1, 3],
            "x": [1, 2, 3, 9, 4, None, 5, 6],
            "last": [False, False, True, False, False, False, False, False],
        }
    )
    # the row at 2 ends both instances, so all before it and itself are known there; 4 is the next
    # value at 3, and the row at 4 waits for that at 6; the one at 5 waits until the end
    text = "stream s = x.next() per k until last"
    assert found_in(text, table, size) == ([3, None, None, 4, 5], [None, None, None])
    text = "stream s = x.next(2, or: 0) per k until last"
    assert found_in(text, table, size) == ([0, 0, 0, 5], [0, 0, 0, 0])
    # silence ends 2 at 8, and 1 at 9, which is known with the row at 20
    text = "stream s = x.next() per k until last or silence() >= 3"
    assert found_in(text, table, size) == ([3, None, None, 4, 5, None, None], [None])
    # an age ends those of 3 and 5 at 7 and 9
    text = "stream s = x.next(2, or: 0) per k until last or age() >= 4"
    assert found_in(text, table, size) == ([0, 0, 0, 5, 0, 0, 0], [0])


def test_an_end_is_noticed_by_rows_of_the_key_only() -> None:
    """Instance 1 of trace 0 ends at 4, but the row at 9 is the first one of this trace then."""
    file = LaterFile("stream x = i.next() per k until silence() > 3")
    log: list[Row] = [
        (0, 0, {"i": 1, "k": 1}),
        (1, 0, {"i": 2, "k": 2}),
        (3, 0, {"i": 3, "k": 2}),
        (5, 1, {"i": 4, "k": 1}),
        (9, 0, {"i": 5, "k": 1}),
        (9, 0, {"i": 6, "k": 1}),
    ]
    reference = file.later()
    assert all(reference.row(*row) for row in log)
    wanted = [(4, 0, 0, None), (4, 1, 0, 3), (4, 3, 0, None), (5, 9, 0, 6)]
    for cuts in [[], [1, 2, 3, 4, 5], [4], [5]]:
        program = file.program()
        ticks: list[Tick] = []
        for start, end in pairwise([0, *cuts, len(log)]):
            evaluated(
                program, log[start:end], SCHEMA, periods=file.waiting, ticks=ticks, first=start
            )
        found = removed_of(ticks)
        assert [(*one[:3], one.values["x"]) for one in found] == wanted
        require_same(found, reference.removed(is_end=False), file)


@pytest.mark.parametrize(
    ("value", "places"),
    [
        # the tick at 5 ends instance 1, and the row at 6 is the first one behind it
        ("count[0,9](row.b) per k every 5 until v > 1", [4, 4]),
        # the row at 3 ends it
        ("count[0,9](row.b) per k until v > 1", [2, 4]),
    ],
)
def test_values_of_an_instance_end_it(value: str, places: list[int]) -> None:
    file = LaterFile(f"stream v = {value}\nstream x = i.next(2) per k until v > 1")
    log: list[Row] = [
        (1, 0, {"i": 1, "k": 1, "b": True}),
        (2, 0, {"i": 2, "k": 2}),
        (3, 0, {"i": 3, "k": 1, "b": True}),
        (5, 0, {"i": 4, "k": 2}),
        (6, 0, {"i": 5, "k": 2}),
    ]
    waiting = {"x": LATER}
    for size in (5, 4):
        program = StreamProgram({"x": file.wanted["x"]}, file.streams, SCHEMA, periods=waiting)
        ticks: list[Tick] = []
        evaluated(
            program,
            log[:size],
            SCHEMA,
            periods=waiting,
            ticks=ticks,
            until=6 if size == 4 else None,
        )
        evaluated(program, log[size:], SCHEMA, periods=waiting, ticks=ticks, first=size)
        assert [(place, value) for _, _, place, _, value in ticks] == [
            (places[0], None),
            (places[1], 5),
            (4, None),
        ]


def test_instances_that_have_ended_are_kept_as_long_as_rows_wait() -> None:
    """Each row has an instance of its own, which it ends, and waits for 9 more."""
    count = 40_000
    file = LaterFile("stream x = i.at(+9) per k until true\nstream w = x[k] + i")
    program = file.program()
    ticks: list[Tick] = []
    for first in range(0, count, 2000):
        log: list[Row] = [(time, 0, {"i": time, "k": time}) for time in range(first, first + 2000)]
        evaluated(program, log, SCHEMA, periods=file.waiting, ticks=ticks)
        if first % 10_000 == 0:
            snapshot = program.snapshot()
            (holding,) = program.holdings.values()
            assert len(holding.native.snapshot()) < 500
            program = file.program()
            program.restore(snapshot)
    assert program.families[0].table.count < 20_000
    ticks += at_end(program, file.waiting, count, SCHEMA)
    assert [value for *_, name, value in ticks if name == "w"] == [2 * k for k in range(count)]


def test_instances_that_have_ended_keep_their_texts() -> None:
    """Rationale: the one of "2" has ended, but is the first of a group whose sum goes on.

    The texts of the row at 0 are forgotten with the snapshot, so all others get new numbers.
    """
    per = "per t as p, s as le until t = p and s = le and row.b"
    file = LaterFile(
        f"stream x = i.at(+9) {per}\nstream w = x[t, s]\n"
        f"stream n = last[0,99](i) {per}\nstream c = sum(n over n by p = t)\n"
        "stream h = histogram_quantile(n over n by p = t, 0.5)"
    )
    cells = [("z", "9", 9), ("g", "2", 1), ("g", "Inf", 10), ("g", "2", 5), ("g", "3", 6)]
    log: list[Row] = [
        (time, 0, {"t": t, "s": s, "i": i, "b": time in {0, 22}})
        for time, (t, s, i) in zip([0, 20, 21, 22, 23], cells, strict=True)
    ]
    wanted = {name: file.wanted[name] for name in "wch"}
    for saved in range(len(log)):
        program = StreamProgram(wanted, file.streams, SCHEMA, periods={"w": LATER})
        found: list[Any] = []
        for place, row in enumerate(log):
            found += evaluated(program, [row], SCHEMA, periods={"w": LATER}, ticks=[])
            if place == saved:
                program.snapshot()
        assert [one["c"] for one in found] == [9, 1, 11, 15, 16]
        assert [one["h"] for one in found] == [None, None, 2.0, 2.0, 2.5]


def test_silent_instances_keep_their_last_value() -> None:
    """Instances with nothing but windows are forgotten once these are empty, but not here."""
    table = pa.table({"ts": [0, 1, 50, 60, 70], "k": [1, 2, 2, 1, 3], "x": [1, 2, 3, None, 1]})
    text = "stream c = count[0,5]() per k\nstream s = x.at(+1) per k"
    assert found_in(text, table, 2) == ([1, 2, 3, 1], [1])


def test_a_row_that_overflows_has_no_value_for_those_behind() -> None:
    """Both rows would overflow, but without the first one, instance 0 has no value."""
    file = LaterFile("stream x = i.at(+0) per k\nstream w = x[m] + x[m]")
    log: list[Row] = [
        (0, 0, {"i": 1 << 62, "k": 0, "m": 0}),
        (1, 0, {"i": 1, "k": 1, "m": 0}),
        (9, 0, {"i": 1, "k": 1, "m": 1}),
    ]
    reference = file.later()
    assert all(reference.row(*row) for row in log)
    ticks: list[Tick] = []
    evaluated(file.program(), log, SCHEMA, periods=file.waiting, ticks=ticks)
    found = removed_of(ticks)
    assert [(one.time_stamp, one.values["w"]) for one in found] == [(1, None)]
    require_same(found, reference.removed(is_end=False), file)


def test_forged_snapshots_are_refused() -> None:
    text = "\n".join(
        [
            "stream x = i.at(+3) + i.next(2) per k until i > 4",
            "stream y = s.at(+2) per k until i > 4",
            "stream w = x[m]",
        ]
    )
    program = LaterFile(text).program()
    log: list[Row] = [
        (time, time % 2, {"i": time % 6, "k": time % 3, "m": 1, "s": "abc"[time % 3]})
        for time in range(12)
    ]
    evaluated(program, log, SCHEMA, periods=dict.fromkeys("xyw", LATER), ticks=[])
    program.snapshot()
    (holding,) = program.holdings.values()
    snapshot = holding.native.snapshot()
    for size in range(len(snapshot)):
        with pytest.raises(SnapshotError):
            holding.native.restore(snapshot[:size])
    for place in range(len(snapshot)):
        for byte in (0, 1, 0x7F, 0xFF, snapshot[place] ^ 1):
            forged = snapshot[:place] + bytes([byte]) + snapshot[place + 1 :]
            try:
                holding.native.restore(forged)
            except SnapshotError:
                continue
            assert holding.native.held_bytes < 1 << 20
            holding.native.feed_end()
    holding.native.restore(snapshot)
    assert holding.native.snapshot() == snapshot
