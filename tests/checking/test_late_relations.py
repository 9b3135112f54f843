"""Policies that look values up in relations of rows that come late, or are taken back."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from mtlmon.policy import PolicyFile, parse_policies
from tests.checking.late_streams import (
    FORMULAS,
    KEYS,
    compare_with_order,
    corrected,
    ordered,
    passed,
    table,
)
from tests.checking.test_history_check import Mode, admitted, batches_of, collapsed, late_rows
from tests.checking.test_late_streams import ENDS, content, random_arrivals, table_of
from tests.doors import Bounds, columns_to_read, needs_of
from tests.history.comparing import as_read
from tests.reference import late_look_ups as reference
from tests.reference.changelog import holds
from tests.reference.history import monitored
from tests.sampling import thinned
from tests.traces import Event

RELATIONS = """\
key user
relation sums   = rows valid 5 group host select sum(amount) as s, count() as n
relation high   = sums where s > 9 select host as host
relation opened = rows where ask valid until reply or ask per host select host as host
relation closed = rows valid until ask per host where reply select host as host, amount as amount
relation total  = rows valid until next 7 group select count() as n
relation seen   = rows valid 3 where ask
relation calm   = rows valid 4 select host as host distinct minus all high
relation met    = opened join sums on host = sums_host
relation ever   = rows valid until false group select max(amount) as most
relation spread = rows valid 5 group host select max(amount) - min(amount) as by, last(amount) as l
relation lasts  = sums where s > 5 valid 4 group host select count() as n
relation newest = rows valid last 2 rows per host distinct on host
relation hops   = rows valid 6 every 4 group select median(amount) as m, distinct(host) as hosts
relation later  = sums where start() > 3 shift start 2 shift end 3 select host as host, n as n
relation held   = high valid 4
relation again  = opened join sums on host = sums_host select host as host valid 3
                  group host select count() as n
stream before = host.last(or: "x")
stream busy = count[0,6](exists high[host])
stream spent = coalesce(sums[host].s, 0)
atom plain = amount > 5
"""
CONDITIONS = (
    "exists high[host]",
    "sums[host].s > 8",
    'coalesce(sums[host = "x"].n, 0) > 2',
    "sums[host = before].s > 5",
    "total[].n > 3",
    "exists seen[host, amount]",
    "exists calm[host]",
    "exists opened[host]",
    "exists closed[host, amount]",
    "exists met[sums_host = host, n = 1]",
    "ever[].most > amount",
    "exists held[host]",
    "again[host].n > 1",
    "busy > 1",
    "count[0,4](exists opened[host]) > 1",
    "spent > spent.last(or: 0)",
    "exists opened[host = before] and exists calm[host]",
    "spread[host].by > 4",
    "spread[host].l > 5",
    "coalesce(lasts[host].n, 0) > 1",
    "newest[host].amount > 5",
    "hops[].m > 4.5 and hops[].hosts > 1",
    "exists later[host = host, n = 1]",
    "exists sums[host = (if amount > 4 then host else before)]",
)


def program(source: random.Random) -> PolicyFile:
    """A file of policies, all of which look values up."""
    atoms = "".join(f"atom {name} = {source.choice(CONDITIONS)}\n" for name in "abc")
    clocks = ["", "", " on rows where a", " on rows where ask and exists calm[host]"]
    # each of them looks values up
    formulas = [one for one in FORMULAS if one != "NOT c"]
    policies = "".join(
        f"policy {name}{key}{source.choice(clocks)}: ({source.choice(formulas)}) OR b\n"
        for name, key in KEYS.items()
    )
    return parse_policies(RELATIONS + atoms + policies)


@pytest.mark.parametrize("first", [0, 5, 10])
def test_the_latest_verdicts_are_those_of_the_order_of_time(
    first: int,
) -> None:
    """After batches, of the rows that time has passed, and at the end."""
    for seed in thinned(range(first, first + 5)):
        source = random.Random(seed)
        file = program(source)
        rows = late_rows(seed, source.choice([20, 50]))
        end = ENDS[seed % len(ENDS)]
        compare_with_order(file, rows, source, end, decided=passed)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_one_look_up_alone(condition: str) -> None:
    """Nothing else lets rows be computed again; each of them has a state of its own."""
    file = parse_policies(f"{RELATIONS}atom a = {condition}\npolicy one: a\n")
    for seed in thinned(range(3)):
        rows = late_rows(seed)
        batches = [table(rows[:40]), *(table([row]) for row in rows[40:])]
        found = corrected(file, batches, Bounds(9, 0), end="last", spacing=1)
        every = [line for more in found.lines for line in more]
        wanted = ordered(file, table(admitted(rows, 9, ())), "local", "last")
        assert collapsed(every) == wanted.lines


def changes_of_b(condition: str, *batches: str) -> list[list[str]]:
    """The lines about user b of some batches, whose rows are `ts op id user`."""
    file = parse_policies(
        f'key user\nrelation near = rows valid 2 where user = "a"\npolicy one: {condition}\n'
    )
    tables = []
    for batch in batches:
        rows = [row.split() for row in batch.split("; ")]
        columns = [pa.array([int(row[0]) for row in rows])]
        columns += [pa.array([row[k] for row in rows]) for k in (1, 2, 3)]
        tables.append(pa.Table.from_arrays(columns, ["ts", "op", "id", "user"]))
    found = corrected(file, tables, Bounds(90, 0), ends=False, spacing=1, operation="op", id="id")
    return [[line for line in lines if line.startswith("one\tb")] for lines in found.lines]


def test_a_row_of_another_key_is_taken_back() -> None:
    """What is not valid any more changes verdicts, too, where nothing else has become valid."""
    found = changes_of_b("exists near[]", "10 + i a; 11 + j b; 20 + k b; 30 + l b", "0 - i a")
    assert found == [["one\tb\t11:0 true", "one\tb\t20:0 false"], ["one\tb\t!11:0 false"]]


def test_windows_see_what_look_ups_of_earlier_rows_find() -> None:
    """The rows at 14 and 16 find nothing new themselves; the one at 18 does not see that at 11."""
    found = changes_of_b(
        "count[0,5](exists near[]) < 1",
        "11 + i b; 14 + j b; 16 + k b; 18 + l b; 40 + m b",
        "10 + n a",
    )
    assert found == [
        [f"one\tb\t{time}:0 true" for time in (11, 14, 16, 18)],
        [f"one\tb\t!{time}:0 false" for time in (11, 14, 16)],
    ]


def test_rows_in_order_have_no_revisions() -> None:
    for seed in thinned(range(4)):
        source = random.Random(seed)
        file = program(source)
        rows = late_rows(seed, spread=0)
        batches = [table(batch) for batch in batches_of(rows, source)]
        found = corrected(file, batches, Bounds(9, source.choice([0, 4])), end="last")
        every = [line for more in found.lines for line in more if "!@" not in line]
        hidden = "on rows where" in file.text
        assert hidden or not any("!" in line for line in every)
        assert collapsed(every) == ordered(file, table(rows), "local", "last").lines


# ---- corrections --------------------------------------------------------------------------------

SCHEMA = pa.schema(
    {"ask": pa.bool_(), "reply": pa.bool_(), "amount": pa.int64(), "host": pa.string()}
)
KNOWN = CONDITIONS[:10]


def truth(condition: str, looking: reference.Looking, trace: Sequence[Event], place: int) -> Any:
    """Whether one of `KNOWN` is true at an event of a trace."""
    time = trace[place].time_stamp
    _, _, amount, host = content(trace[place].atoms)
    before = content(trace[place - 1].atoms)[3] if place else "x"
    number = KNOWN.index(condition)
    if number in (1, 3):
        found = looking.value("sums", "s", time, host=host if number == 1 else before)
        return found is not None and found > (8 if number == 1 else 5)
    if number == 2:
        return (looking.value("sums", "n", time, host="x") or 0) > 2
    if number == 4:
        return looking.value("total", "n", time) > 3
    of_names: dict[int, tuple[str, dict[str, Any]]] = {
        0: ("high", {"host": host}),
        5: ("seen", {"host": host, "amount": amount}),
        6: ("calm", {"host": host}),
        7: ("opened", {"host": host}),
        8: ("closed", {"host": host, "amount": amount}),
        9: ("met", {"sums_host": host, "n": 1}),
    }
    name, keys = of_names[number]
    return bool(looking.records(name, time, **keys))


def read_by(file: PolicyFile) -> list[str]:
    """What the only policy and the relations read of a row: rows are equal if that is."""
    (policy,) = file.policies
    needs = needs_of(file, policy.formula.atoms)
    read = {*needs.columns, *needs.log_atoms}
    for name, wanted in needs.relations.items():
        read.update(columns_to_read(file, name, wanted, lambda: SCHEMA.names) or ())
    found = [name for name in ("ask", "reply", "host") if name in read]
    return [*found, *(f"bit{k}" for k in range(4) if "amount" in read)]


@pytest.mark.parametrize("has_ids", [True, False])
def test_corrected_rows(has_ids: bool) -> None:
    """The reference says which rows there are after every batch, and what is valid at each."""
    for seed in thinned(range(12)):
        source = random.Random(f"{seed} {has_ids}")
        chosen = [source.choice(KNOWN) for _ in "abc"]
        atoms = "".join(f"atom {n} = {one}\n" for n, one in zip("abc", chosen, strict=True))
        formula = source.choice(FORMULAS).replace("plain", "reply")
        file = parse_policies(f"{RELATIONS}{atoms}policy one: ({formula}) OR b\n")
        mode: Mode = source.choice(["local", "global", "naive"])
        lateness = source.choice([3, 7, 30])
        keys = source.choice(["a", "ab"])
        batches = random_arrivals(source, keys, has_ids=has_ids, advances=True)
        (policy,) = file.policies
        batches = as_read(batches, read_by(file))
        end = ENDS[seed % len(ENDS)]

        def letters(
            looking: reference.Looking, trace: Sequence[Event], chosen: Sequence[str] = chosen
        ) -> list[frozenset[str]]:
            found = []
            for place, event in enumerate(trace):
                held = {
                    name
                    for name, one in zip("abc", chosen, strict=True)
                    if truth(one, looking, trace, place)
                }
                found.append(frozenset(held | (event.atoms & {"ask", "reply"})))
            return found

        states = reference.states(
            batches,
            lateness,
            file,
            SCHEMA,
            lambda event: content(event.atoms),
            letters,
            monitored(policy.formula, mode),
            end,
            equality=not has_ids,
        )
        found = corrected(
            file,
            [table_of(batch) for batch in batches],
            Bounds(lateness, 0),
            mode=mode,
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
