"""Columns that are wanted for more than one thing: several atoms, the key, the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import mtlmon  # noqa: E402
from mtlmon import MtlmonError, TableError  # noqa: E402
from mtlmon.tables import open_tables  # noqa: E402
from tests.doors import main  # noqa: E402
from tests.tables.reading import keyed, read  # noqa: E402
from tests.tables.test_formats import FORMATS, write  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table(
    {
        "ts": [1, 2, 3, 7],
        "x": [2, 5, 9, 5],
        "p": [True, False, True, True],
        "what": ["in", "out", "in", "out"],
    }
)


class Case(NamedTuple):
    """Columns with several uses, and the verdicts.

    Attributes:
        name: of the case.
        policies: a policy file.
        options: as mtlmon.check takes them.
        verdicts: by the command: policy, key if there is one, time-point and value.
    """

    name: str
    policies: str
    options: dict[str, Any]
    verdicts: list[str]


CASES = [
    Case(
        "two atoms on one column",
        "atom low = x < 6\natom high = x > 3\npolicy both: low AND high",
        {},
        ["both\t1:0 false", "both\t2:0 true", "both\t3:0 false", "both\t7:0 true"],
    ),
    Case(
        "one column twice in one predicate",
        "atom middle = x > 3 AND x < 6\npolicy m: middle",
        {},
        ["m\t1:0 false", "m\t2:0 true", "m\t3:0 false", "m\t7:0 true"],
    ),
    Case(
        "an atom's column is the key",
        "atom high = x > 3\npolicy h: high",
        {"key": "x"},
        ["h\t2\t1:0 false", "h\t5\t2:0 true", "h\t9\t3:0 true", "h\t5\t7:0 true"],
    ),
    Case(
        "a Boolean column is atom and key",
        "policy p: p",
        {"key": "p"},
        ["p\ttrue\t1:0 true", "p\tfalse\t2:0 false", "p\ttrue\t3:0 true", "p\ttrue\t7:0 true"],
    ),
    Case(
        "the time is the key",
        "policy p: p",
        {"key": "ts"},
        ["p\t1\t1:0 true", "p\t2\t2:0 false", "p\t3\t3:0 true", "p\t7\t7:0 true"],
    ),
    Case(
        "an atom's column is time and key",
        "atom late = ts > 2\natom early = ts < 7\npolicy l: late AND early",
        {"key": ("ts", "x")},
        ["l\t1\t2\t1:0 false", "l\t2\t5\t2:0 false", "l\t3\t9\t3:0 true", "l\t7\t5\t7:0 false"],
    ),
    Case(
        "names of events are the key and in a predicate",
        'atom leaves = what = "out"\npolicy w: in OR leaves',
        {"event": "what", "key": "what"},
        ["w\tin\t1:0 true", "w\tout\t2:0 true", "w\tin\t3:0 true", "w\tout\t7:0 true"],
    ),
    Case(
        "a column is an atom as such and in a predicate",
        "atom fails = NOT p\npolicy one: p OR fails\npolicy other: fails",
        {},
        [
            *("one\t1:0 true", "other\t1:0 false", "one\t2:0 true", "other\t2:0 true"),
            *("one\t3:0 true", "other\t3:0 false", "one\t7:0 true", "other\t7:0 false"),
        ],
    ),
]


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_column_with_several_uses(
    case: Case, ending: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Columns are asked for by each use; the readers must not be asked for one twice."""
    log = tmp_path / f"log.{ending}"
    write(ROWS, log)
    policies = tmp_path / "policies.mtl"
    policies.write_text(case.policies)
    keys = case.options.get("key", ())
    names = (keys,) if isinstance(keys, str) else keys
    asked = ["--key", ",".join(names)] if names else []
    if "event" in case.options:
        asked += ["--event", str(case.options["event"])]
    assert main([*asked, str(policies), str(log)]) in (0, 1)
    output, errors = capfd.readouterr()
    assert errors == ""
    assert output.splitlines() == case.verdicts
    with mtlmon.check(case.policies, log, **case.options) as check:
        lines = [
            f"{row['policy']}\t{''.join(row[name] + chr(9) for name in names)}"
            f"{row['time']}:{row['offset']} {str(row['verdict']).lower()}"
            for row in check.to_arrow().to_pylist()
        ]
    assert lines == case.verdicts


def test_predicates_do_not_change_keys_nor_times(tmp_path: Path) -> None:
    """As numbers, which the predicates want, 007 and 7 are one key, and times lose digits."""
    log = tmp_path / "log.csv"
    log.write_text("ts,id\n1.000000000000000001,007\n1.000000000000000002,7\n2,7.0\n")
    atoms = ("big", "late")
    policies = "atom big = id > 1\natom late = ts > 1.5\npolicy x: big AND late"
    with mtlmon.check(policies, log, key="id", time_unit="s", resolution="ns") as check:
        found = [(row["id"], row["verdict"]) for row in check.to_arrow().to_pylist()]
    assert found == [("007", False), ("7", False), ("7.0", True)]
    with open_tables(log, atoms[:0], key="id", time_unit="s", resolution="ns") as tables:
        stamps = [stamp for batch in tables for stamp in batch.time_stamps.tolist()]
    assert stamps == [10**9, 10**9, 2 * 10**9]


@pytest.mark.parametrize("ending", FORMATS)
def test_one_column_with_two_faults(ending: str, tmp_path: Path) -> None:
    """A time that is also a key: that it is no time must not be forgotten because of the empty
    cells of the key, or such rows become events at 0.
    """
    table = pa.table({"ts": ["abc", None, "6"], "user": ["u"] * 3, "p": [False, True, True]})
    log = tmp_path / f"log.{ending}"
    write(table, log)
    asked: dict[str, Any] = {"key": ("ts", "user"), "time_format": "number"}
    rows = keyed(log, "p", on_error="skip", **asked)
    assert rows == [(("6", "u"), 6, frozenset("p"))]
    with open_tables(log, ("p",), on_error="skip", **asked) as tables:
        assert len(list(tables)) == 1
        said = [str(error) for error in tables.errors]
    assert "'abc' is not a number" in said[0]
    assert "the time column 'ts' is empty in this row" in said[1]


@pytest.mark.parametrize("ending", FORMATS)
def test_a_key_that_is_an_atom_and_empty(ending: str, tmp_path: Path) -> None:
    """Two reasons about one column: no key, and neither true nor false."""
    table = pa.table({"ts": [1, 2, 3, 4], "p": ["true", None, "maybe", "false"]})
    log = tmp_path / f"log.{ending}"
    write(table, log)
    with open_tables(log, ("p",), key="p", on_error="skip") as tables:
        assert [stamp for batch in tables for stamp in batch.time_stamps.tolist()] == [1, 4]
        said = [str(error).partition(": ")[2] for error in tables.errors]
    assert "the key column 'p' is empty in this row" in said[0]
    assert "'maybe' is neither true nor false" in said[1]
    with pytest.raises(TableError, match="'p' is empty in this row; on_error='skip'"):
        read(log, "p", key="p")


def test_keys_with_the_names_of_other_columns(tmp_path: Path) -> None:
    """Each column of verdicts has a name of its own, or readers of the output take one for both."""
    names = ["policy", "key_policy", "time", "key_time", "user"]
    rows = pa.table({"ts": [1], "p": [True], **{name: [f"<{name}>"] for name in names}})
    with mtlmon.check("p", rows, key=names) as check:
        (row,) = check.to_arrow().to_pylist()
    assert [row[name] for name in ("key_policy", "key_time", "user")] == [
        "<key_policy>", "<key_time>", "<user>",
    ]  # fmt: skip
    assert (row["key_key_policy"], row["key_key_time"]) == ("<policy>", "<time>")
    assert (row["policy"], row["time"]) == (None, 1)


def test_a_key_given_twice() -> None:
    with pytest.raises(MtlmonError, match="the key column 'x' is given twice"):
        open_tables(ROWS, ("p",), key=("x", "x"))
