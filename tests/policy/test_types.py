"""The types of functions, choices, windows and streams: what they are, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from mtlmon.errors import MtlmonError, PolicyError, RowError
from mtlmon.policy import (
    Environment,
    Predicate,
    compile_predicate,
    compile_predicates,
    parse_predicate,
)
from tests.doors import NOTHING, Checked, Scope, check, find_kinds, parse_expression, resolve
from tests.doors import predicates_kinds as kinds

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.doors import CompiledExpressions  # noqa: E402
from tests.policy import strategies  # noqa: E402

_STREAMS = {"n": kinds.INTEGER, "views": kinds.INTEGER, "flag": kinds.BOOLEAN}
_ENVIRONMENT = Environment(
    streams=_STREAMS,
    keys={"views": (kinds.TEXT,)},
    parameters={"id": kinds.TEXT},
    time="ts",
    unit="s",
)
_BODY = Scope(is_atom_body=True)
_SCOPE = Scope(streams=_STREAMS, atoms=["a"], parameters=["id"])


def _expression(text: str, name: str | None = None, scope: Scope = _SCOPE) -> Predicate:
    expression = resolve(parse_expression(text, unit="s"), scope, text)
    return Predicate(expression, text, "rules.mtl", name, "stream")


def _checked(text: str, environment: Environment = _ENVIRONMENT) -> tuple[Predicate, Checked]:
    predicate = _expression(text)
    schema = strategies.SCHEMA
    return predicate, check(predicate, schema, environment, wanted=None, is_of_one_row=False)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("count[0,5](yes)", "integer"),
        ("count[0,5](i > 3 and x)", "integer"),
        ("count[0,5]()", "integer"),
        ("distinct[0,5](s)", "integer"),
        ("sum[0,5](i)", "integer"),
        ("sum[0,5](i, or: 0)", "integer"),
        ("sum[0,5](f, or: 0)", "float"),
        ("sum[0,5](d)", "float"),
        ("avg[0,5](i)", "float"),
        ("median[0,5](i)", "float"),
        ("quantile[0,5](d, 0.5)", "float"),
        ("var[0,5](i) + stddev[0,5](i)", "float"),
        ("integral[0,5](i)", "float"),
        ("increase[0,5](i)", "integer"),
        ("increase[0,5](f)", "float"),
        ("rate[0,5](i)", "float"),
        ("mad[0,5](i)", "float"),
        ("changes[0,5](s) + resets[0,5](d)", "integer"),
        ("first[0,5](s)", "text"),
        ("last[0,5](yes)", "boolean"),
        ("min[0,5](at)", "time"),
        ("max[0,5](d)", "decimal"),
        ("any[0,5](yes) and all[0,5](not yes)", "boolean"),
        ('s.last(or: "x")', "text"),
        ("i.hold(or: 0) + 1", "integer"),
        ("f.at(-5, or: 0)", "float"),
        ('at.last(or: "2024-05-01T00:00Z")', "time"),
        ("nothing.last(or: 1)", "integer"),
        ("n + 1", "integer"),
        ("id", "text"),
        ("flag and a", "boolean"),
        ('views["x"]', "integer"),
        ("views[id] / 2", "float"),
        ("max(views over views)", "integer"),
        ("any(views > 3 over views)", "boolean"),
        ("count(views > 3 over views)", "integer"),
        ("sum(f over views)", "float"),
        ("if yes then i else f", "float"),
        ("if yes then d else `wide decimal`", "float"),
        ("if yes then d else d", "decimal"),
        ("coalesce(nothing, s)", "text"),
        ("coalesce(null, null)", "null"),
        ("min(day, local)", "time"),
        ("min(i, j)", "integer"),
        ("floor(f)", "float"),
        ("round(i)", "integer"),
        ("sqrt(i)", "float"),
        ("pow(i, d) + atan2(f, 2)", "float"),
        ("hour(ts) + minute(at)", "integer"),
        ("hour(ts.last(or: 0))", "integer"),
        ("weekday(ts)", "text"),
        ("date(day)", "text"),
        ("time_of_day(local)", "text"),
        ("at - `at s`", "integer"),
        ("ts - 5", "integer"),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    predicate, checked = _checked(text)
    assert checked.errors == []
    assert checked.kinds[id(predicate.expression)].name == kind


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("count[0,5](row.i)", 12, "count takes true or false, not column i", "compare it"),
        ("any(views over views)", 5, "any takes true or false, not views", "compare it"),
        ("sum[0,5](s)", 10, "sum takes numbers, not column s", "read the column as numbers"),
        ("max[0,5](yes)", 10, "max is not for column yes of type bool", "have no order"),
        ("min(yes, no)", 5, "min is not for column yes of type bool", "have no order"),
        ("last[0,5](list)", 11, "column list of type list<item: int64> cannot be used", ""),
        ("list.last()", 1, "column list of type list<item: int64> cannot be used", ""),
        ("list", 1, "column list of type list<item: int64> cannot be used", ""),
        ("i.last(or: 0.5)", 1, "the value after or: is the number 0.5, but i.last(or: 0.5) is", ""),
        ("s.last(or: 0)", 1, "the value after or: is the number 0, but", "the same type"),
        ("count[0,5](yes, or: true)", 1, "the value after or: is true, but", "the same type"),
        ('at.last(or: "x")', 1, "'or:' completes at.last", "a time is written"),
        ("if row.i then 1 else 2", 4, "'if' takes true or false, not column i", "compare it"),
        ('if yes then 1 else "x"', 13, "'if' chooses between the number 1 and the text", ""),
        ("coalesce(i, s)", 10, "coalesce chooses between column i of type int64 and column s", ""),
        ("min(at, local)", 5, "min chooses between column at", "the same type"),
        ("max(1, list)", 8, "column list of type list<item: int64> cannot be used", ""),
        ("floor(s)", 7, "floor takes numbers, not column s", ""),
        ("hour(s)", 6, "hour takes a time, not column s of type string", "dates or timestamps"),
        ("hour(i)", 6, "hour takes a time, not column i of type int64", "the time column, ts"),
        ("hour(list)", 6, "column list of type list<item: int64> cannot be used", ""),
        ("hour(ts + 1)", 6, "hour takes a time, not ts + 1 (an integer)", ""),
        ("at - local", 1, "'-' takes column at", "either both need a time zone"),
        ("at + 5", 1, "'+' takes numbers, not column at", ""),
        ("at - 5", 1, "'-' takes numbers, not column at", ""),
        ("views[1]", 7, "the instances of views are for a text, not the number 1", ""),
        ("views[list]", 7, "column list of type list<item: int64> cannot be used", ""),
        ('"s" = "x"', 1, "'=' compares two texts in quotes", "no quotes: s"),
        ('"a b" != "x"', 1, "'!=' compares two texts in quotes", "no quotes: `a b`"),
        ('"i" > 3', 1, "'>' compares the text", 'if "i" is a column, write i'),
        ('3 < "a.b"', 1, "'<' compares the number 3", 'if "a.b" is a column, write `a.b`'),
        ('views["x", 1]', 1, "an instance of views has one value after per", "not 2"),
    ],
)
def test_errors(text: str, column: int, message: str, hint: str) -> None:
    _, checked = _checked(text)
    error = checked.errors[0]
    assert (error.line, error.column, len(checked.errors)) == (1, column, 1)
    assert error.message.startswith(message)
    assert hint in (error.hint or "")


def test_times_need_a_unit() -> None:
    _, checked = _checked("hour(ts) > at - `at s`", Environment(time="ts"))
    one, other = checked.errors
    assert one.message == "hour takes a time, not column ts of type int64"
    assert other.message == "the difference of two times has no unit"
    assert one.hint is not None and "unit s" in one.hint
    assert other.hint is not None and "unit s" in other.hint


def test_a_text_log_has_its_time_and_nothing_else() -> None:
    environment = _ENVIRONMENT._replace(has_columns=False)
    predicate = _expression("hour(ts) > 8 and a and speed > 1")
    (error,) = check(predicate, None, environment).errors
    assert error.message == "there is no column speed in a text log"
    assert error.hint == "it has atoms, and the time of each row, ts"


@pytest.mark.parametrize("text", ["count[0,5](x) > 1", "x.last() > 1", "any(x over s)", "s[1] = 1"])
def test_a_predicate_is_of_one_row(text: str) -> None:
    with pytest.raises(PolicyError, match="depends on other rows") as raised:
        parse_predicate(text)
    assert raised.value.hint == "declare it as a stream of a policy file: stream NAME = ..."


def _kinds_of(declared: dict[str, str] | None = None, **streams: str) -> dict[str, str]:
    """The names of the kinds of streams, or their errors."""
    scope = Scope(streams=streams)
    expressions = {name: _expression(text, name, scope) for name, text in streams.items()}
    wanted = {name: kinds.DECLARED[word] for name, word in (declared or {}).items()}
    found, errors = find_kinds(expressions, strategies.SCHEMA, Environment(unit="s"), wanted)
    if errors:
        return {"error": errors[0].message}
    return {name: kind.name for name, kind in found.items()}


def test_kinds_of_streams() -> None:
    assert _kinds_of(a="b + 1", b="c", c="sum[0,5](f)") == dict.fromkeys("abc", "float")
    assert _kinds_of(x="x.last(or: 0) + 1") == {"x": "integer"}
    assert _kinds_of(x="x.last(or: 0) + 0.5") == {"x": "float"}
    assert _kinds_of(x="y.last(or: 0) + 1", y="x.last() / 2") == {"x": "float", "y": "float"}
    assert _kinds_of(x="y + 1", y="x.last(or: 0)") == {"x": "integer", "y": "integer"}
    assert _kinds_of(x="abs(-y)", y="x.last(or: 0)") == {"x": "integer", "y": "integer"}
    assert _kinds_of(x='if yes then x.last(or: "") else s') == {"x": "text"}
    assert _kinds_of(x="sum(x over x) + x[1].last(or: 0)") == {"x": "integer"}
    assert _kinds_of({"x": "float"}, x="i") == {"x": "float"}
    assert _kinds_of({"x": "int"}, x="x.last() + 1") == {"x": "integer"}
    assert _kinds_of({"x": "time"}, x="coalesce(x.last(), at)") == {"x": "time"}


def test_a_declared_type_before_the_columns_are_known() -> None:
    for text in ("x + 1", "sum[0,5](x)", "x.last(or: 0)"):
        predicate = _expression(text)
        checked = check(predicate, wanted=kinds.INTEGER, is_of_one_row=False)
        assert checked.errors == []


def test_errors_of_streams() -> None:
    message = "stream x: this is a number, not an integer"
    assert _kinds_of({"x": "int"}, x="f") == {"error": message}
    unknown = "stream x: the type of its values does not follow from its expression"
    assert _kinds_of(x="x.last()") == {"error": unknown}
    message = "stream y: '+' takes numbers, not x (a text)"
    assert _kinds_of(x="s", y="x + 1") == {"error": message}


def test_a_long_chain_of_streams() -> None:
    streams = {f"x{i}": f"x{i + 1} + 1" for i in range(300)} | {"x300": "f"}
    assert set(_kinds_of(None, **streams).values()) == {"float"}


def test_compiled_expressions_give_columns() -> None:
    texts = {
        "sum": "i + 1",
        "ratio": "i / 2",
        "truth": "i > 1",
        "word": 'if i > 1 then s else "x"',
        "constant": '"x"',
        "nothing": "null",
        "time": "coalesce(at, null)",
        "day": "max(day, day)",
        "decimal": "max(d, d)",
    }
    columns = {
        "i": pa.array([1, 2, None]),
        "s": pa.array(["a", "b", "c"]),
        "at": pa.array([5, None, 7], pa.timestamp("ms", "Europe/Berlin")),
        "day": pa.array([5, None, 7], pa.int32()).view(pa.date32()),
        "d": pa.array([Decimal("1.50"), None, Decimal(7)], pa.decimal128(12, 2)),
    }
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    expressions = {name: _expression(text) for name, text in texts.items()}
    compiled = CompiledExpressions(expressions, schema)
    found = compiled.compute(columns, 3)
    assert found["sum"].to_pylist() == [2, 3, None]
    assert found["ratio"].to_pylist() == [0.5, 1.0, None]
    assert found["truth"].to_pylist() == [False, True, None]
    assert found["word"].to_pylist() == ["x", "b", "x"]
    assert found["constant"].to_pylist() == ["x"] * 3
    assert found["nothing"].to_pylist() == [None] * 3
    assert found["time"].type == pa.timestamp("ms", "UTC")
    assert found["time"].cast(pa.int64()).to_pylist() == [5, None, 7]
    assert found["day"] == columns["day"]
    assert found["decimal"] == columns["d"]
    assert {array.type for array in (found["word"], found["constant"])} == {pa.large_string()}
    assert set(compiled.types) == set(columns)
    assert compiled.kinds["time"] == kinds.TIME._replace(unit=10**6, is_aware=True)
    assert {
        name: len(array)
        for name, array in compiled.compute(
            {name: column.slice(0, 0) for name, column in columns.items()}, 0
        ).items()
    } == dict.fromkeys(texts, 0)


def _values(text: str, environment: Environment = NOTHING, **columns: object) -> list[object]:
    arrays = {name: pa.array(values) for name, values in columns.items()}
    schema = pa.schema([(name, array.type) for name, array in arrays.items()])
    compiled = CompiledExpressions({"x": _expression(text, None, _BODY)}, schema, environment)
    found: list[object] = compiled.compute(arrays, len(next(iter(arrays.values()))))[
        "x"
    ].to_pylist()
    return found


def test_clocks_in_a_zone() -> None:
    berlin = Environment(time="ts", unit="s", zone="Europe/Berlin")
    # one second before and at the change to summer time, and an hour after the change back
    ts = [1711846799, 1711846800, 1729994400, None]
    assert _values("time_of_day(ts)", berlin, ts=ts) == ["01:59:59", "03:00:00", "03:00:00", None]
    assert _values("date(ts)", berlin, ts=ts) == ["2024-03-31"] * 2 + ["2024-10-27", None]
    assert _values("weekday(ts)", berlin, ts=[0, 86399, 3 * 86400]) == ["thu", "fri", "sun"]
    milliseconds = berlin._replace(time_unit="ms")
    assert _values("hour(ts)", milliseconds, ts=[-1, 3_600_000]) == [0, 2]
    assert _values("minute(ts)", Environment(time="ts", unit="m"), ts=[61, -1]) == [1, 59]
    day = pa.array([0], pa.int32()).view(pa.date32())
    assert _values("date(day)", berlin._replace(zone="America/New_York"), day=day) == ["1970-01-01"]
    local = pa.array([0], pa.timestamp("s"))
    assert _values("hour(local)", berlin, local=local) == [1]


def test_an_unknown_zone() -> None:
    environment = Environment(time="ts", unit="s", zone="Mars")
    with pytest.raises(MtlmonError, match="there is no time zone 'Mars'"):
        _values("hour(ts)", environment, ts=[0])


def test_times_outside_the_years_1_to_9999() -> None:
    environment = Environment(time="ts", unit="s")
    first, last = -62135596800, 253402300799
    assert _values("date(ts)", environment, ts=[first, last]) == ["0001-01-01", "9999-12-31"]
    for elsewhere, ts in (
        (environment, [0, last + 1, 0, first - 1]),
        (environment._replace(unit="d"), [0, 2**62, 0, -(2**62)]),
        (environment._replace(unit="d"), [0, 10**7, 0, -(10**7)]),
        (environment._replace(zone="Asia/Tokyo"), [0, last, 0, first - 10**6]),
        (environment._replace(zone="America/New_York"), [0, 2**62, 0, first]),
    ):
        with pytest.raises(RowError, match="is of a time outside the years 1 to 9999") as raised:
            _values("hour(ts)", elsewhere, ts=ts)
        assert raised.value.rows == (1, 3)


def test_differences_of_times() -> None:
    one = pa.array([0, 1500, -1500], pa.timestamp("ms"))
    other = pa.array([0, 0, 0], pa.timestamp("s"))
    for unit, expected in (("s", [0, 1, -1]), ("us", [0, 1_500_000, -1_500_000])):
        assert _values("x - y", Environment(unit=unit), x=one, y=other) == expected
    far = pa.array([0, 2**62, 0], pa.timestamp("s"))
    with pytest.raises(RowError, match="x - y overflows 64 bits with") as raised:
        _values("x - y", Environment(unit="s"), x=far, y=one)
    assert raised.value.rows == (1,)


def test_choices() -> None:
    nan = float("nan")
    assert _values("if c then 1 else 2", c=[True, False, None]) == [1, 2, 2]
    assert _values("if c then x else 2.5", c=[True, False], x=[1, 1]) == [1.0, 2.5]
    assert str(_values("min(x, y)", x=[nan, 1.0, None], y=[1.0, nan, 1.0])) == "[nan, nan, None]"
    assert str(_values("max(x, y)", x=[nan, 1.0, 2.0], y=[1.0, nan, 1.0])) == "[nan, nan, 2.0]"
    assert _values("coalesce(x, y, 7)", x=[1, None, None], y=[2, 2, None]) == [1, 2, 7]
    large = pa.array(["b", None], pa.large_string())
    assert _values('coalesce(max(x, y), "?")', x=["a", "c"], y=large) == ["b", "?"]
    with pytest.raises(RowError) as raised:
        _values("if c then x * 2 else 0", c=[False, False], x=[1, 2**62])
    assert raised.value.rows == (1,)


def test_rounding() -> None:
    halves = [0.5, 1.5, 2.5, -0.5, -1.5, 2.0**60, float("inf")]
    assert _values("round(x)", x=halves) == [0.0, 2.0, 2.0, 0.0, -2.0, 2.0**60, float("inf")]
    assert _values("floor(x)", x=halves) == [0.0, 1.0, 2.0, -1.0, -2.0, 2.0**60, float("inf")]
    assert _values("floor(x) + round(x)", x=[2**61 + 1, -3]) == [2**62 + 2, -6]
    assert str(_values("sqrt(x)", x=[4, -1])) == "[2.0, nan]"
    assert str(_values("log(x)", x=[1, 0, -1])) == "[0.0, -inf, nan]"
    assert str(_values("pow(x, -1)", x=[4.0, 0.0, -0.0])) == "[0.25, inf, -inf]"
    assert str(_values("exp(x)", x=[0, 1000, None])) == "[1.0, inf, None]"
    assert str(_values("sin(x)", x=[0.0, math.inf])) == "[0.0, nan]"


def test_predicates_take_the_environment() -> None:
    predicate = parse_predicate('weekday(ts) in ("sat", "sun")', name="weekend")
    schema = pa.schema([("ts", pa.int64())])
    batch = pa.RecordBatch.from_pydict({"ts": [0, 2 * 86400]})
    environment = Environment(time="ts", unit="s")
    found = compile_predicates({"weekend": predicate}, schema, environment)(batch)
    assert found["weekend"].to_pylist() == [False, True]
    with pytest.raises(PolicyError, match="weekday takes a time"):
        compile_predicate(predicate, schema)


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        ('weekday(ts) = "Sat"', 'weekday is never "Sat"'),
        ('"saturday" != weekday(ts)', 'weekday is never "saturday"'),
        ('weekday(ts) not in ("sat", "sunday")', 'weekday is never "sunday"'),
        ('weekday(ts) < "sat"', "days of the week have no order"),
        ('date(ts) = "2024-5-1"', 'date is never "2024-5-1"'),
        ('date(ts) = "2024-05"', 'date is never "2024-05"'),
        ('date(ts) >= "2024-05"', None),
        ('date(ts) < "2024-13-01"', 'date is never "2024-13-01"'),
        ('time_of_day(ts) >= "8:00"', 'time_of_day is never "8:00"'),
        ('time_of_day(ts) >= "08:00"', None),
        ('time_of_day(ts) < "24:00"', None),
        ('time_of_day(ts) < "24:30"', 'time_of_day is never "24:30"'),
        ('time_of_day(ts) = "08:30"', 'time_of_day is never "08:30"'),
        ('time_of_day(ts) = "08:30:00"', None),
        ('weekday(ts) in ("sat", "sun") and date(ts) = "2024-05-04"', None),
    ],
)
def test_parts_of_times_are_compared_with_texts_that_they_can_be(
    predicate: str, message: str | None
) -> None:
    if message is None:
        schema, environment = pa.schema([("ts", pa.int64())]), Environment(time="ts", unit="s")
        compile_predicates({"p": parse_predicate(predicate)}, schema, environment)
    else:
        with pytest.raises(PolicyError, match=message):
            parse_predicate(predicate)
