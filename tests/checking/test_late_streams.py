"""Policies with streams on rows that come late: verdicts are those of the rows in order of time."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mtlmon.policy import Environment, PolicyFile, parse_policies
from tests.checking.late_streams import (
    FORMULAS,
    STREAMS,
    atoms_of,
    compare_with_order,
    corrected,
    ordered,
    program,
    table,
)
from tests.checking.test_history_check import (
    Clock,
    Mode,
    batches_of,
    collapsed,
    late_rows,
)
from tests.doors import Bounds, StreamAtoms, needs_of, read_atoms, streams_program
from tests.history.comparing import as_read
from tests.reference.changelog import holds
from tests.reference.history import (
    Arrival,
    EqualRetraction,
    Insert,
    Judge,
    Retraction,
    Said,
    monitored,
    states_of,
)
from tests.sampling import thinned
from tests.traces import Advance, EndTime, Event, Step

ENDS: tuple[EndTime, ...] = (None, "last", "inf", 500)


@pytest.mark.parametrize("clock", ["all", "key"])
@pytest.mark.parametrize("first", [0, 5, 10])
def test_the_latest_verdicts_are_those_of_the_order_of_time(first: int, clock: Clock) -> None:
    """After batches, and at the end; also on chosen rows, which may be chosen again."""
    for seed in thinned(range(first, first + 5)):
        source = random.Random(seed)
        file = program(source)
        rows = late_rows(seed, source.choice([20, 50]))
        end = ENDS[seed % len(ENDS)]
        compare_with_order(file, rows, source, end, clock)


@pytest.mark.parametrize("clock", ["all", "key"])
def test_texts_are_forgotten_once_no_state_has_them(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States between chunks have numbers of texts, which change when others are forgotten."""
    monkeypatch.setattr(streams_program, "_MANY_TEXTS", 1)
    atoms = (
        'atom a = host.last(or: "") = "x"\n'
        'atom b = max[0,3](host) = "x" or min[0,inf](host) = "x"\n'
        "atom c = distinct[0,8](host) = 2\n"
    )
    for seed in thinned(range(6)):
        source = random.Random(seed)
        file = program(source, atoms=atoms)
        rows = late_rows(seed, source.choice([20, 50]))
        compare_with_order(file, rows, source, ENDS[seed % len(ENDS)], clock)


WINDOWS = (
    "atom a = count[0,3](ask) > 1\n"
    'atom b = sum[0,7](amount) > 20 or max[2,5](host) = "x"\n'
    "atom c = distinct[0,6](host) = 2\n"
)


def test_rows_that_come_late_after_many_in_order() -> None:
    """With the first late row, rows that earlier ones have seen are forgotten."""
    for seed in thinned(range(24)):
        source = random.Random(seed)
        file = program(source, atoms=WINDOWS)
        rows = sorted(late_rows(seed, 80), key=lambda row: row.ts)
        first = source.randrange(20, 70)
        late = sorted(rows[first:], key=lambda row: row.ts + source.choice([0, 0, 0, 0, 3, 9]))
        compare_with_order(file, [*rows[:first], *late], source, ENDS[seed % len(ENDS)])


def test_memory_does_not_grow_with_the_log() -> None:
    """Rows and states are kept as long as they can change, also of a key that is seldom seen."""
    file = parse_policies("key user\npolicy few: count[0,20]() < 5\npolicy low: max[0,20](n) < 9\n")
    source = random.Random(1)

    def batch(start: int) -> pa.Table:
        stamps = [max(0, start + k - source.choice([0] * 9 + [15])) for k in range(50)]
        users = ["z" if start % 1000 == 0 and k == 0 else source.choice("abc") for k in range(50)]
        numbers = [source.randrange(10) for _ in stamps]
        return pa.table({"ts": stamps, "user": users, "n": numbers})

    def held(count: int) -> int:
        batches = [batch(50 * k) for k in range(count)]
        found = corrected(file, batches, Bounds(30, 0), ends=False)
        return found.check.held_bytes

    assert held(400) < 2 * held(40)


def test_rows_in_order_have_no_revisions() -> None:
    for seed in thinned(range(4)):
        source = random.Random(seed)
        file = program(source, [""])
        rows = late_rows(seed, spread=0)
        batches = [table(batch) for batch in batches_of(rows, source)]
        found = corrected(file, batches, Bounds(9, source.choice([0, 4])), end="last")
        every = [line for more in found.lines for line in more if "!@" not in line]
        assert not any("!" in line for line in every)
        assert sorted(every) == ordered(file, table(rows), "local", "last").lines


def test_columns_get_their_types_later() -> None:
    """A column without any value has no type yet; later rows have one, also for those before."""
    file = parse_policies("policy few: sum[0,9](n, or: 0) < 5\npolicy none: n.last(or: 0) < 3\n")
    schema = {"ts": pa.int64()}
    batches = [
        pa.table({"ts": pa.array([10, 12], schema["ts"]), "n": pa.nulls(2)}),
        pa.table({"ts": pa.array([11], schema["ts"]), "n": pa.array([7])}),
        pa.table({"ts": pa.array([9], schema["ts"]), "n": pa.nulls(1)}),
    ]
    for restores in (False, True):
        found = corrected(file, batches, Bounds(30, 0), ends=False, spacing=1, restores=restores)
        assert collapsed([line for more in found.lines for line in more]) == [
            "few\t10:0 true",
            "few\t11:0 false",
            "few\t12:0 false",
            "few\t9:0 true",
            "none\t10:0 true",
            "none\t11:0 true",
            "none\t12:0 false",
            "none\t9:0 true",
        ]


# ---- named cases ---------------------------------------------------------------------------------


with (Path(__file__).parent / "late_streams.toml").open("rb") as file_of_cases:
    CASES: list[dict[str, Any]] = tomllib.load(file_of_cases)["case"]


def rows_of(batch: str) -> pa.Table:
    """The rows of a batch of a named case, as `late_streams.toml` says."""
    rows = [[*row.split(), "+", None][:6] for row in batch.split("; ")]
    columns = [list(column) for column in zip(*rows, strict=True)]
    names = ["ts", "user", "what", "amount", "op", "id"]
    numbers = [pa.array([int(c) if c != "-" else None for c in columns[k]]) for k in (0, 3)]
    texts = [pa.array(columns[k], pa.string()) for k in (1, 2, 4, 5)]
    arrays = [numbers[0], texts[0], texts[1], numbers[1].cast(pa.int64()), texts[2], texts[3]]
    return pa.Table.from_arrays(arrays, names)


@pytest.mark.parametrize("spacing", [0, 1])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_named_case(case: dict[str, Any], spacing: int, tmp_path: Path) -> None:
    assert case["rationale"].strip()
    for name, text in case.get("tables", {}).items():
        (tmp_path / name).write_text(text)
    found = corrected(
        parse_policies(case["policies"], path=str(tmp_path / "policies.mtl")),
        [rows_of(batch) for batch in case["batches"]],
        Bounds(case["lateness"], case.get("wait", 0)),
        ends=False,
        spacing=spacing,
        operation="op",
        id="id",
        event="what",
    )
    lines = [", ".join(more).replace("\t", " ") for more in found.lines]
    assert lines == case["lines"]


# ---- corrections --------------------------------------------------------------------------------


def content(letter: frozenset[str]) -> tuple[bool, bool, int, str]:
    """Whether a row asks and replies, its amount and its host."""
    amount = sum(1 << k for k in range(4) if f"bit{k}" in letter)
    return "ask" in letter, "reply" in letter, amount, "y" if "host" in letter else "x"


def judge_of(file: PolicyFile, mode: Mode) -> Judge:
    """An ordered run of the only policy of a file over one trace."""
    (policy,) = file.policies
    names = [name for name in policy.formula.atoms if name in file.atoms]
    schema = pa.schema([("ts", pa.int64()), ("amount", pa.int64()), ("host", pa.string())])

    def judge(steps: Sequence[Step], end_time: EndTime) -> Sequence[Said]:
        events = [step for step in steps if isinstance(step, Event)]
        contents = [content(event.atoms) for event in events]
        streams = StreamAtoms(file, [{0: names}], ("ask",), Environment(time="ts"))
        columns = [
            pa.array([event.time_stamp for event in events], pa.int64()),
            pa.array([one[2] for one in contents], pa.int64()),
            pa.array([one[3] for one in contents], pa.string()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        held = {"ask": pa.array([one[0] for one in contents], pa.bool_())}
        stamps = np.array([event.time_stamp for event in events], np.int64)
        prepared = streams.prepared(batch, held)
        found = streams.evaluate(prepared, stamps, [None]).atoms[0] if events else {}
        rest = iter(range(len(events)))
        letters: list[Step] = []
        for step in steps:
            if isinstance(step, Event):
                place = next(rest)
                atoms = {name for name in found if found[name][place].as_py()}
                atoms |= set(step.atoms & {"ask", "reply"})
                letters.append(Event(step.time_stamp, frozenset(read_atoms(atoms))))
            else:
                letters.append(step)
        return monitored(policy.formula, mode)(letters, end_time)

    return judge


def read_by(file: PolicyFile) -> list[str]:
    """What the only policy of a file reads of a row: rows are equal if that is."""
    (policy,) = file.policies
    needs = needs_of(file, policy.formula.atoms)
    read = [*needs.log_atoms, *(["host"] if "host" in needs.columns else [])]
    return [*read, *(f"bit{k}" for k in range(4) if "amount" in needs.columns)]


def random_arrivals(
    source: random.Random, keys: str, *, has_ids: bool, advances: bool
) -> list[list[Arrival]]:
    """Batches of rows that insert, retract and correct events, and let time pass."""
    now = 20
    batches: list[list[Arrival]] = [[]]
    rows: list[Insert] = []
    letters = ["ask", "reply", "bit0", "bit1", "bit2", "bit3", "host"]
    for _ in range(source.choice([8, 20])):
        now += source.choice([0, 0, 1, 1, 2, 5])
        stamp = now - (source.randrange(9) if source.random() < 0.4 else 0)
        letter = frozenset(name for name in letters if source.random() < 0.4)
        row = Insert(stamp, letter, source.choice(keys))
        if has_ids:
            row = row._replace(id=source.choice(["i", "j", "k", "l", "m", None]))
        kind = source.random()
        arrival: Arrival = row
        if kind < 0.1 and advances:
            arrival = Advance(now)
        elif kind < 0.25 and has_ids:
            arrival = Retraction(source.choice("ijkl"))
        elif kind < 0.3 and not has_ids:
            arrival = EqualRetraction(*source.choice([row, *rows])[:3])
        elif kind < 0.4 and rows:
            arrival = row = source.choice(rows)
        if isinstance(arrival, Insert):
            rows.append(row)
        batches[-1].append(arrival)
        if source.random() < 0.5:
            batches.append([])
    return [batch for batch in batches if batch]


def table_of(batch: Sequence[Arrival]) -> pa.Table:
    """Arrivals as rows of a change stream."""
    rows = []
    for arrival in batch:
        row: dict[str, object] = dict.fromkeys(
            ["ts", "op", "id", "user", "ask", "reply", "amount", "host"]
        )
        row |= {"ts": 0, "op": "+", "user": "a"}
        if isinstance(arrival, Retraction):
            row |= {"op": "-", "id": arrival.id}
        elif isinstance(arrival, Advance):
            row |= {"ts": arrival.time_stamp, "op": "advance"}
        else:
            values = zip(["ask", "reply", "amount", "host"], content(arrival.letter), strict=True)
            row |= {"ts": arrival.time_stamp, "user": arrival.key, **dict(values)}
            row |= {"op": "-"} if isinstance(arrival, EqualRetraction) else {"id": arrival.id}
        rows.append(row)
    kinds = [pa.int64(), *[pa.string()] * 3, pa.bool_(), pa.bool_(), pa.int64(), pa.string()]
    columns = [
        pa.array([row[name] for row in rows], kind)
        for name, kind in zip(rows[0], kinds, strict=True)
    ]
    return pa.Table.from_arrays(columns, list(rows[0]))


@pytest.mark.parametrize("clock", ["all", "key"])
@pytest.mark.parametrize("has_ids", [True, False])
def test_corrected_rows(has_ids: bool, clock: Clock) -> None:
    """The reference says which rows there are after every batch, and what is final."""
    for seed in thinned(range(12)):
        # time that passes without a row is that of all keys in the reference
        source = random.Random(f"{seed} {has_ids} {clock}")
        keys = source.choice(["a", "ab"])
        # of atoms that are conditions on a row itself, only the truth is read
        policy = f"policy one: {source.choice(FORMULAS).replace('plain', 'reply')}\n"
        file = parse_policies(STREAMS + atoms_of(source) + policy)
        mode: Mode = source.choice(["local", "global", "naive"])
        lateness = source.choice([3, 7, 30])
        batches = random_arrivals(source, keys, has_ids=has_ids, advances=clock == "all")
        batches = as_read(batches, read_by(file))
        end = ENDS[seed % len(ENDS)]
        judge = judge_of(file, mode)
        states = states_of(batches, lateness, judge, clock, end, equality=not has_ids)
        found = corrected(
            file,
            [table_of(batch) for batch in batches],
            Bounds(lateness, 0),
            mode=mode,
            clock=clock,
            end=end,
            ends=end is not None,
            spacing=source.choice([0, 1, 2, 5]),
            restores=source.random() < 0.3,
            operation="op",
            id="id" if has_ids else None,
            equality=not has_ids,
        )
        changelog = [[line.removeprefix("one\t") for line in lines] for lines in found.lines]
        holds(changelog, states, exactly=True)
