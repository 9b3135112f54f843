"""Compiled predicates against the evaluator of rows, and what they refuse."""

from __future__ import annotations

import pickle
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from mtlmon.errors import MtlmonError, PolicyError, RowError
from mtlmon.policy import Predicate, parse_predicate
from tests.doors import Expression
from tests.doors import predicates_operators as ops

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.policy import compile_predicate, compile_predicates  # noqa: E402
from tests.policy import strategies  # noqa: E402
from tests.policy.evaluator import Overflow, evaluate  # noqa: E402

# Rows enough for most pairs of odd values to meet; generating them anew would take longer than
# evaluating a predicate on all of them.
_BATCH = strategies.batch_of(80, seed=1)
_ROWS = _BATCH.to_pylist()


def _expected(expression: Expression) -> list[bool | None]:
    """For each row whether the predicate is true there; None where integers overflow."""
    expected: list[bool | None] = []
    for row in _ROWS:
        try:
            expected.append(evaluate(expression, row, strategies.WORLD) is True)
        except Overflow:
            expected.append(None)
    return expected


def _parsed(name: str, expression: Expression, expected: list[bool | None]) -> Predicate:
    try:
        return parse_predicate(str(expression), name=name)
    except PolicyError as error:
        # constants alone overflow, and so they do on every row
        assert error.message.endswith("overflows 64 bits")
        assert not any(expected)
        assert None in expected
        raise UnsatisfiedAssumption from None


def _check(expressions: dict[str, Expression]) -> None:
    expected = {name: _expected(node) for name, node in expressions.items()}
    predicates = {name: _parsed(name, node, expected[name]) for name, node in expressions.items()}
    compiled = compile_predicates(predicates, _BATCH.schema, strategies.ENVIRONMENT)
    overflowing = [None in row for row in zip(*expected.values(), strict=True)]
    batch = _BATCH
    if any(overflowing):
        with pytest.raises(RowError) as raised:
            compiled(batch)
        assert raised.value.atom in expressions
        assert all(overflowing[row] for row in raised.value.rows)
        batch = batch.filter(pa.array([not is_one for is_one in overflowing]))
    found = compiled(batch)
    assert all(array.null_count == 0 and array.type == pa.bool_() for array in found.values())
    for name, array in found.items():
        kept = [
            value for value, is_one in zip(expected[name], overflowing, strict=True) if not is_one
        ]
        assert array.to_pylist() == kept, name


@given(strategies.predicates())
def test_one_predicate(expression: Expression) -> None:
    _check({"x": expression})


@given(strategies.predicates(1), strategies.predicates(1))
@settings(max_examples=60)
def test_several_predicates_that_share(one: Expression, other: Expression) -> None:
    both = Expression(ops.OR, (one, Expression(ops.NOT, (other,))))
    _check({"one": one, "both": both, "other": other})


@given(strategies.predicates(1), st.integers(0, 80), st.integers(0, 12))
@settings(max_examples=60)
def test_slices_give_slices(expression: Expression, start: int, length: int) -> None:
    predicate = _parsed("x", expression, _expected(expression))
    compiled = compile_predicates({"x": predicate}, _BATCH.schema, strategies.ENVIRONMENT)
    try:
        whole = compiled(_BATCH)["x"].to_pylist()
    except RowError:
        return
    assert compiled(_BATCH.slice(start, length))["x"].to_pylist() == whole[start : start + length]


def _holds(text: str, **columns: object) -> list[bool]:
    batch = pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})
    found: list[bool] = compile_predicate(parse_predicate(text), batch.schema)(batch).to_pylist()
    return found


def test_integers_and_floats_are_compared_exactly() -> None:
    big = 2**53
    assert _holds("i > f", i=[big + 1, big + 1], f=[float(big), float(big + 2)]) == [True, False]
    assert _holds("i = f", i=[2**63 - 1], f=[2.0**63]) == [False]
    assert _holds("i < f", i=[2**63 - 1], f=[2.0**63]) == [True]
    assert _holds("i < f", i=[2**63 - 1], f=[1.5 * 2.0**62]) == [False]
    assert _holds("i > f", i=[-(2**63)], f=[-1.5 * 2.0**62]) == [False]
    assert _holds("f < 9007199254740993", f=[float(big)]) == [True]
    assert _holds("i <= 9007199254740992.5", i=[big, big + 1]) == [True, False]
    assert _holds("i < 1e300 and i > -1e300", i=[1, 2**63 - 1]) == [True, True]
    assert _holds("d = 0.1 and d < 0.10000001", d=[Decimal("0.1"), Decimal("0.2")]) == [True, False]


@pytest.mark.parametrize("name", ["least", "greatest"])
def test_zeros_have_no_sign_in_min_and_max(name: str) -> None:
    """Which zero a vectorized loop takes depends on the place in the batch."""
    from tests.doors import predicates_numbers as numbers

    one, other = pa.array([0.0, -0.0, -0.0] * 9), pa.array([-0.0, 0.0, -0.0] * 9)
    found = getattr(numbers, name)(one, other)
    assert {str(value) for value in found.to_pylist()} == {"0.0"}


def test_times_of_different_units() -> None:
    at = pa.array([-1, 0, 1], pa.timestamp("s"))
    fine = pa.array([-999_999_999, 0, 999_999_999], pa.timestamp("ns"))
    assert _holds("at < fine", at=at, fine=fine) == [True, False, False]
    assert _holds("fine >= at", at=at, fine=fine) == [True, True, False]
    # a difference that no nanoseconds can hold
    far = pa.array([2**62] * 3, pa.timestamp("s"))
    assert _holds("far > fine", far=far, fine=fine) == [True] * 3
    assert _holds('fine = "1970-01-01T00:00:00.999999999"', fine=fine) == [False, False, True]
    assert _holds('fine < "9999-12-31"', fine=fine) == [True] * 3


def test_logic_of_null() -> None:
    values = [True, False, None]
    pairs = [(a, b) for a in values for b in values]
    a, b = ([pair[i] for pair in pairs] for i in (0, 1))
    assert _holds("(a and b) is null", a=a, b=b) == [
        None in pair and False not in pair for pair in pairs
    ]
    assert _holds("(a or b) is null", a=a, b=b) == [
        None in pair and True not in pair for pair in pairs
    ]
    assert _holds("a", a=values) == [True, False, False]
    assert _holds("not a", a=values) == [False, True, False]


def test_an_overflow_names_atom_and_rows() -> None:
    batch = pa.RecordBatch.from_pydict({"x": [1, 2**62, None, -(2**62) - 1]})
    compiled = compile_predicate(parse_predicate("x * 2 > 1", name="twice"), batch.schema)
    with pytest.raises(RowError) as raised:
        compiled(batch)
    error = raised.value
    assert (error.atom, error.rows) == ("twice", (1, 3))
    assert error.reason == "x * 2 overflows 64 bits with 4611686018427387904, 2"
    assert str(error) == f"atom twice: {error.reason} (row 1 of the batch, counted from 0)"
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.rows) == (str(error), error.rows)


@pytest.mark.parametrize("text", ["-x > 0", "abs(x) > 0", "x - 1 < 0", "0 < x + -1"])
def test_every_operator_can_overflow(text: str) -> None:
    batch = pa.RecordBatch.from_pydict({"x": [0, -(2**63)]})
    compiled = compile_predicate(parse_predicate(text), batch.schema)
    with pytest.raises(RowError) as raised:
        compiled(batch)
    assert raised.value.rows == (1,)
    assert raised.value.atom is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sped > 1", "there is no column sped"),
        ("s > 1", "'>' compares column s of type string with the number 1"),
        ("i", "the predicate is an integer, not true or false"),
        ("not i", "'not' takes true or false, not column i of type int64"),
        ("yes < no", "'<' is not for column yes of type bool"),
        ("s + 1 = 2", "'+' takes numbers, not column s of type string"),
        ("length(i) = 2", "length takes a text, not column i of type int64"),
        ('startswith(i, "a")', "startswith takes a text, not column i of type int64"),
        ("abs(s) = 1", "abs takes numbers, not column s of type string"),
        ("list = 1", "column list of type list<item: int64> cannot be used"),
        ("list in (1, 2)", "column list of type list<item: int64> cannot be used"),
        ('i in ("a")', "'in' compares column i of type int64 with the text \"a\""),
        ("at = local", "'=' compares column at of type timestamp[us, tz=Europe/Berlin] with"),
        ('at > "2024-05-01"', 'has a time zone, but "2024-05-01" has no offset from UTC'),
        ('day = "2024-05-01T00:00Z"', 'has no time zone, but "2024-05-01T00:00Z" has an'),
        ('day = "2024-02-30"', 'with "2024-02-30", which is not a time'),
        ("day = 5", "'=' compares column day of type date32[day] with the number 5"),
        ('matches(s, "(")', "the pattern is not a regular expression"),
    ],
)
def test_types_that_do_not_fit(text: str, message: str) -> None:
    predicate = parse_predicate(text, "rules.mtl", "p")
    with pytest.raises(PolicyError) as raised:
        compile_predicate(predicate, strategies.SCHEMA)
    assert raised.value.message.startswith("atom p: ")
    assert message in raised.value.message
    assert str(raised.value).startswith("rules.mtl:1:")


def test_near_columns_are_suggested() -> None:
    with pytest.raises(PolicyError, match=r"did you mean `wide decimal`\?"):
        compile_predicate(parse_predicate("`Wide Decimal` > 1"), strategies.SCHEMA)
    twice = pa.schema([("x", pa.int64()), ("x", pa.int64())])
    with pytest.raises(PolicyError, match="2 columns are called x"):
        compile_predicate(parse_predicate("x > 1"), twice)


def test_a_batch_of_another_schema_is_refused() -> None:
    predicate = parse_predicate("x > 1")
    compiled = compile_predicate(predicate, pa.schema([("x", pa.int64())]))
    with pytest.raises(ValueError, match="column 'x' is of type double"):
        compiled(pa.RecordBatch.from_pydict({"x": [1.5]}))
    with pytest.raises(ValueError, match="has no column 'x'"):
        compiled(pa.RecordBatch.from_pydict({"y": [1]}))
    assert compiled(pa.RecordBatch.from_pydict({"y": [1], "x": [2]})).to_pylist() == [True]


_DEEP = 10_000


@pytest.mark.parametrize(
    "text",
    [
        "not (" * _DEEP + "x > 1" + ")" * _DEEP,
        "- " * _DEEP + "x < 1",
        "x > 1" + " or x = 3" * _DEEP,
        "1 + (" * _DEEP + "x" + ")" * _DEEP + " > 1",
    ],
    ids=["not", "signs", "or", "sums"],
)
def test_deep_and_long_predicates(text: str) -> None:
    batch = pa.RecordBatch.from_pydict({"x": [0, 5]})
    predicate = parse_predicate(text)
    again: Predicate = pickle.loads(pickle.dumps(predicate))
    assert (again, hash(again)) == (predicate, hash(predicate))
    assert len(compile_predicate(predicate, batch.schema)(batch)) == 2


def test_the_lack_of_pyarrow_is_said() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import mtlmon, mtlmon.policy as policy\n"
        "predicate = policy.parse_predicate('x > 1')\n"
        "try: policy.compile_predicate(predicate, None)\n"
        "except mtlmon.MtlmonError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'mtlmon[tables]'" in done.stdout
    assert issubclass(PolicyError, MtlmonError)
