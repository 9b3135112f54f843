"""Values that are looked for in columns of lists: `"admin" in tags`."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from pyarrow import feather, parquet  # noqa: E402

import mtlmon  # noqa: E402
from mtlmon import MtlmonError, PolicyError  # noqa: E402
from mtlmon.policy import parse_policies  # noqa: E402
from mtlmon.tables import open_tables  # noqa: E402
from tests.tables.reading import all_rows  # noqa: E402

TYPES = {
    "text": (st.sampled_from(["a", "b", "", "é", "a b"]), pa.string()),
    "integer": (st.sampled_from([0, 1, 2, 2**53, 2**53 + 1, -(2**63)]), pa.int64()),
    "float": (st.sampled_from([0.5, 1.0, 2.0, 2.0**53, float("inf")]), pa.float64()),
    "boolean": (st.booleans(), pa.bool_()),
}


def is_in(value: Any, values: list[Any] | None) -> bool | None:
    """Whether a value is in a list, as the rule is written; null is equal to nothing."""
    if value is None or values is None:
        return None
    return any(one is not None and one == value for one in values)


def seen(tables: Any, predicates: Any) -> list[frozenset[str]]:
    with open_tables(tables, ("p", "q"), predicates=predicates) as events:
        return [letter for _, letter in all_rows(events, ("p", "q"))]


@given(st.data(), st.sampled_from([*TYPES]), st.sampled_from([*TYPES]))
@example(None, "text", "text")
def test_elements_of_lists(data: Any, of_value: str, of_list: str) -> None:
    if data is None:
        rows: list[tuple[Any, Any]] = [("a", ["a"]), ("a", None), (None, ["a"]), ("a", [None])]
    else:
        if of_value != of_list and {of_value, of_list} != {"integer", "float"}:
            return
        values, elements = TYPES[of_value][0], TYPES[of_list][0]
        lists = st.none() | st.lists(st.none() | elements, max_size=4)
        rows = data.draw(st.lists(st.tuples(st.none() | values, lists), min_size=1, max_size=12))
    table = pa.table(
        {
            "ts": [*range(len(rows))],
            "v": pa.array([value for value, _ in rows], TYPES[of_value][1]),
            "l": pa.array([values for _, values in rows], pa.list_(TYPES[of_list][1])),
        }
    )
    text = "atom p = v in l\natom q = v not in l\npolicy x: p or q"
    predicates = parse_policies(text).predicates
    answers = [is_in(value, values) for value, values in rows]
    expected = [
        frozenset({True: "p", False: "q"}[one]) if one is not None else frozenset()
        for one in answers
    ]
    assert seen(table, predicates) == expected
    # a part of a table, whose lists begin within others
    assert seen(table.slice(len(rows) // 2), predicates) == expected[len(rows) // 2 :]
    large = table.set_column(2, "l", table.column("l").cast(pa.large_list(TYPES[of_list][1])))
    assert seen(large, predicates) == expected
    with TemporaryDirectory() as folder:
        parquet.write_table(table, path := Path(folder, "log.parquet"))
        assert seen(path, predicates) == expected
        feather.write_feather(table, str(path := Path(folder, "log.feather")))
        assert seen(path, predicates) == expected


def test_arrays_of_json(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows: list[dict[str, Any]] = [
        {"ts": 1, "tags": ["admin", "x"], "user": "x"},
        {"ts": 2, "tags": [], "user": "x"},
        {"ts": 3, "user": "x"},
        {"ts": 4, "tags": None, "user": "x"},
        {"ts": 5, "tags": ["Admin", None], "user": None},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = (
        'policy a: "admin" in tags\npolicy b: user not in tags\n'
        "policy c: count[0,9](user in tags) = 1"
    )
    found = mtlmon.check(text, path).to_arrow().to_pylist()
    verdicts = {(row["policy"], row["time"]): row["verdict"] for row in found}
    assert [verdicts["a", time] for time in range(1, 6)] == [True, False, False, False, False]
    assert [verdicts["b", time] for time in range(1, 6)] == [False, True, False, False, False]
    assert all(verdicts["c", time] for time in range(1, 6))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ('"x" in n', 'column n has lists of integers, but the text "x"'),
        ("1 in t", "column t has lists of texts, but"),
        ('"x" in s', "'in' takes a list, but column s of type string"),
        ("t in t", "column t of type .* cannot be used"),
        ("t = s", "column t of type .* cannot be used"),
        ('"x" in (t)', "a list holds constants"),
        ('"x" in nothing', "no column 'nothing'"),
        ("null in t", "nothing equals null"),
    ],
)
def test_types_are_checked(condition: str, message: str) -> None:
    table = pa.table(
        {
            "ts": [1],
            "n": pa.array([[1]], pa.list_(pa.int64())),
            "t": pa.array([["x"]], pa.list_(pa.string())),
            "s": ["x"],
        }
    )
    with pytest.raises((PolicyError, MtlmonError), match=message):
        mtlmon.check(f"atom p = {condition}\npolicy a: p", table).to_arrow()


@pytest.mark.parametrize(
    "text",
    ['"x" in tags', "user not in tags", "not (x in `a b`)", '"x" in tags and y in (1, 2) or z > 1'],
)
def test_it_is_written_as_it_is_read(text: str) -> None:
    predicate = parse_policies(f"atom p = {text}\npolicy a: p").predicates["p"]
    again = parse_policies(f"atom p = {predicate}\npolicy a: p").predicates["p"]
    assert str(again) == str(predicate)
    assert predicate.columns == again.columns
