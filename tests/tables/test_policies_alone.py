"""A policy says of a log what it says as the only one of its file, whatever the types of columns.

In a policy, an argument has one type, which equalities with others determine. So files of several
policies are compared with each of these alone, by way of everything that reads tables.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow.parquet as pq  # noqa: E402

from mtlmon import PolicyError, RelationalMonitor  # noqa: E402
from mtlmon import check as check_log  # noqa: E402
from mtlmon.policy import parse_policies  # noqa: E402
from mtlmon.relational import analyse  # noqa: E402
from tests.cli.process import mtlmon  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("e", pa.string()),
        ("i", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("k", pa.string()),
    ]
)
LETS = """
atom a(i) = e = "a"
atom b(s) = e = "b"
atom c(f) = e = "c"
atom d(i, s) = e = "d"
let seen(x) = ONCE a(x)
let noted(x) = ONCE b(x)
let known(x) = seen(x) OR noted(x)
let small(x, y) = x = y AND EXISTS z. seen(z) AND z = y
"""
POLICIES = {
    "int": "policy int: NOT (a(x) AND x > 5)",
    "own": "policy own: a(x) IMPLIES PREVIOUS seen(x)",
    "sum": "find sum: n = SUM(x OVER ONCE[0,9] a(x)) AND n > 12",
    "text": "policy text: b(x) IMPLIES ONCE a(x)",
    "float": "policy float: NOT (c(x) AND x < 7.5)",
    "both": "policy both: c(x) IMPLIES ONCE a(x)",
    "of_texts": 'policy of_texts: NOT b("7")',
    "of_ints": "policy of_ints: NOT a(7)",
    "let": "policy let: c(x) IMPLIES seen(x)",
    "let_of_texts": "policy let_of_texts: b(x) IMPLIES seen(x)",
    "let_of_ints": "policy let_of_ints: a(x) AND x > 3 IMPLIES PREVIOUS seen(x)",
    "lets": "policy lets: d(x, _) IMPLIES known(x)",
    "texts": "find texts: noted(x) AND seen(x)",
    "equal": "find equal: d(x, y) AND x = y",
    "more": "find more: d(x, y) AND x > 7",
    "numbers": "find numbers: c(x) AND (ONCE a(y)) AND small(x, y)",
    "ints": "find ints: d(x, _) AND (ONCE a(y)) AND small(x, y) AND y > 3",
}
# alone, it is a mistake: the equality of an integer and a float makes both texts
WRONG = "policy wrong: c(x) AND x > 2.5 IMPLIES seen(x)"


def table_of(rng: random.Random) -> Any:
    numbers = ["7", "8", "7.5", "07", "-1", "x", "9"]
    rows = [
        {
            "ts": k,
            "e": rng.choice("abcd"),
            "i": rng.choice([7, 8, 3, -1, None]),
            "s": rng.choice([*numbers, None]),
            "f": rng.choice([7.0, 8.0, 7.5, -1.0, None]),
            "k": rng.choice(["one", "other"]),
        }
        for k in range(60)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def canonical(value: object) -> str:
    """A value as a text, like those of the joint column of several policies."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def answers(rows: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    """The answers of policies, from rows as `mtlmon.check` and the command have them."""
    fixed = {"policy", "time", "offset", "verdict"}
    found = []
    for row in rows:
        # policies of a file have their variables in the same columns
        values = {
            name: canonical(value)
            for name, value in row.items()
            if name not in fixed and value is not None
        }
        found.append((row["policy"], row["time"], json.dumps(values, sort_keys=True)))
    return sorted(found)


def by_library(table: Any, rules: str, _path: Path) -> list[tuple[str, int, str]]:
    with check_log(rules, table) as check:
        return answers(check.to_arrow().to_pylist())


def by_monitor(
    table: Any, rules: str, _path: Path, slices: int | None = None
) -> list[tuple[str, int, str]]:
    monitor = RelationalMonitor(rules, slices=slices)
    # the types of the first table hold for the second
    found = monitor.feed(table.slice(0, 17)) + monitor.feed(table.slice(17)) + monitor.finish()
    # the values have the types that they have alone, too
    return sorted(
        (one.policy or "", one.time_stamp, repr(sorted(one.valuation.items()))) for one in found
    )


def by_slices(table: Any, rules: str, path: Path) -> list[tuple[str, int, str]]:
    return by_monitor(table, rules, path, slices=3)


def by_command(table: Any, rules: str, path: Path, *more: str) -> list[tuple[str, int, str]]:
    """The lines of the command, as they are."""
    pq.write_table(table, path / "log.parquet")
    (path / "rules.mtl").write_text(rules)
    done = mtlmon("--no-summary", *more, str(path / "rules.mtl"), str(path / "log.parquet"))
    assert done.status < 2, done.errors
    lines = [line.split("\t") for line in done.output.splitlines()]
    found = [(line[0], 0, "\t".join(line[1:])) for line in lines]
    return sorted(one for one in found if not one[0].startswith("!"))


def by_slices_of_command(table: Any, rules: str, path: Path) -> list[tuple[str, int, str]]:
    return by_command(table, rules, path, "--slices", "3")


def with_late_rows(table: Any, rules: str, path: Path) -> list[tuple[str, int, str]]:
    order = [*range(1, 6), 0, *range(6, len(table))]
    return by_command(table.take(order), rules, path, "--lateness", "20")


def with_reasons(table: Any, rules: str, path: Path) -> list[tuple[str, int, str]]:
    return by_command(table, rules, path, "--explain")


def with_others(table: Any, rules: str, path: Path) -> list[tuple[str, int, str]]:
    found = by_library(table, f'policy plain: NOT (e = "a")\n{rules}', path)
    return [one for one in found if one[0] != "plain"]


WAYS = [
    by_library,
    by_monitor,
    by_slices,
    by_command,
    by_slices_of_command,
    with_late_rows,
    with_reasons,
    with_others,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("key", ["", "key k"])
def test_policies_of_a_file_against_each_alone(way: Any, key: str, tmp_path: Path) -> None:
    rng = random.Random(5)
    table = table_of(rng)
    head = f"{key}{LETS}"
    alone = {name: way(table, f"{head}\n{policy}", tmp_path) for name, policy in POLICIES.items()}
    assert sum(map(bool, alone.values())) > len(POLICIES) - 3
    names = list(POLICIES)
    orders = [names, names[::-1], *(rng.sample(names, 3) for _ in range(2))]
    for some in orders:
        rules = head + "\n".join(POLICIES[name] for name in some)
        together = way(table, rules, tmp_path)
        for name in some:
            assert [one for one in together if one[0] == name] == alone[name], (some, name)


TEXT_POLICIES = [
    "policy number: NOT (a(x) AND x > 7)",
    "policy text: b(x) IMPLIES ONCE a(x)",
    "policy both: b(x) AND x < 9 IMPLIES ONCE a(x)",
    'find written: a(x) AND NOT x = "7"',
    "find sum: n = SUM(x OVER ONCE[0,9] b(x)) AND n > 12",
]


@pytest.mark.parametrize("more", [[], ["--slices", "2"], ["--lateness", "5"], ["--explain"]])
def test_policies_on_a_text_log_against_each_alone(more: list[str], tmp_path: Path) -> None:
    """The rows of a log are read by each policy as it needs them."""
    rng = random.Random(3)
    events = [f"@{k} {rng.choice('ab')}({rng.choice(['7', '07', '8', '9'])})\n" for k in range(40)]
    log, rules = tmp_path / "text.log", tmp_path / "rules.mtl"
    log.write_text("".join(events))

    def lines(policies: list[str]) -> list[str]:
        rules.write_text("\n".join(policies))
        done = mtlmon("--no-summary", *more, str(rules), str(log))
        assert done.status < 2, done.errors
        return [line for line in done.output.splitlines() if not line.startswith("!@")]

    alone = {policy: lines([policy]) for policy in TEXT_POLICIES}
    assert all(alone.values())
    for some in (TEXT_POLICIES, TEXT_POLICIES[::-1]):
        assert sorted(lines(some)) == sorted(line for policy in some for line in alone[policy])


def test_a_mistake_of_one_policy_is_told_of_that_one() -> None:
    """The error is in the policy that has it, wherever this stands in the file."""
    for policies in ([WRONG, *POLICIES.values()], [*POLICIES.values(), WRONG]):
        text = LETS + "\n".join(policies)
        with pytest.raises(PolicyError) as caught:
            check_log(text, table_of(random.Random(1))).to_arrow()
        assert caught.value.line == 1 + text[: text.index("policy wrong")].count("\n")


def test_a_file_keeps_its_atoms_and_can_be_used_with_other_columns() -> None:
    file = parse_policies(LETS + "\n".join(POLICIES[name] for name in ("own", "text")))
    before = dict(file.relations)
    typed = analyse(file, SCHEMA)
    assert not typed.errors
    assert len(typed.relations) == len(file.relations) + 1
    as_texts = pa.schema([("ts", pa.int64()), ("e", pa.string()), ("i", pa.int32())])
    again = analyse(file, as_texts.append(pa.field("s", pa.int64())).append(SCHEMA.field("f")))
    assert not again.errors
    # nothing has two types there
    assert len(again.relations) == len(file.relations)
    assert file.relations == before


def test_policies_of_the_same_types_share_their_atoms() -> None:
    file = parse_policies(
        LETS + "\n".join(POLICIES[name] for name in ("int", "let_of_ints", "sum"))
    )
    assert set(analyse(file, SCHEMA).relations) == set(file.relations)
