"""Hypothesis strategies: predicates over one fixed set of columns, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from mtlmon.policy import Environment
from tests.doors import Constant, Expression
from tests.doors import TermOperator as Operator
from tests.doors import predicates_operators as ops
from tests.policy.evaluator import World

_TYPES = {
    "i": pa.int64(),
    "j": pa.int64(),
    "small": pa.int16(),
    "u": pa.uint64(),
    "f": pa.float64(),
    "g": pa.float64(),
    "narrow": pa.float32(),
    "d": pa.decimal128(12, 2),
    "wide decimal": pa.decimal128(38, 10),
    "s": pa.string(),
    "large": pa.large_string(),
    "coded": pa.dictionary(pa.int8(), pa.string()),
    "yes": pa.bool_(),
    "no": pa.bool_(),
    "at": pa.timestamp("us", "Europe/Berlin"),
    "at s": pa.timestamp("s", "UTC"),
    "local": pa.timestamp("ms"),
    "day": pa.date32(),
    "other day": pa.date64(),
    "ts": pa.int64(),
    "nothing": pa.null(),
    "list": pa.list_(pa.int64()),
}
SCHEMA = pa.schema(list(_TYPES.items()))
ENVIRONMENT = Environment(time="ts", unit="s", zone="America/New_York")
WORLD = World(
    {
        **dict.fromkeys(("i", "j", "small", "u"), "integer"),
        **dict.fromkeys(("f", "g", "narrow"), "float"),
        # these are not of one type
        "d": "decimal",
        "wide decimal": "wide decimal",
        **dict.fromkeys(("s", "large", "coded"), "text"),
        **dict.fromkeys(("yes", "no"), "boolean"),
        **dict.fromkeys(("at", "at s", "local"), "time"),
        **dict.fromkeys(("day", "other day"), "date"),
        "ts": "seconds",
    },
    ENVIRONMENT.zone,
)
"""What expressions over `SCHEMA` stand among, for the compiler and for the evaluator."""

_INTEGERS = [0, 1, -1, 2, 5, 7, -3, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]
_FLOATS = [0.0, -0.0, 0.5, 1.0, 1.5, -3.0, 7.0, float(2**53), float(2**62), 2.0**63, -(2.0**63)]
_ODD_FLOATS = [float("inf"), float("-inf"), float("nan"), 1e300, 5e-324, 7e-10]
_DECIMALS = [Decimal(text) for text in ("0.00", "0.50", "1.00", "1.50", "-3.00", "7.25", "0.01")]
# The first is not converted to the nearest float by dividing it by a power of ten.
_WIDE_DECIMALS = [Decimal("7E-10"), Decimal("9007199254740993.5"), Decimal(10**27), *_DECIMALS]
_FRACTIONS = [Decimal(text) for text in ("0.0", "0.5", "1.0", "1.5", "-3.0", "0.005", "1e300")]
NUMBERS: list[Constant] = [*_INTEGERS, *_FRACTIONS]
_TEXTS = ["", "a", "b", "A", "ab", "aB1", "TEST-1", "é", "Éa", "\n", "日本", "\U0001f600"]
_PATTERNS = ["^a", "b$", "[A-Z]+", "^$", "a|1", "T.ST", r"\d", "é"]
_AWARE = [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 5, 1, 12, 30, 15, tzinfo=UTC)]
_AWARE += [datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)]
_FINE = [*_AWARE, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
_FINE += [datetime(2024, 5, 1, 12, 30, 15, 1, tzinfo=UTC)]
_LOCAL = [datetime(1970, 1, 1), datetime(2024, 5, 1), datetime(2024, 5, 1, 12, 30, 15, 500000)]
_DAYS = [date(1970, 1, 1), date(2024, 5, 1), date(2024, 5, 2), date(1912, 6, 23)]
_AWARE_TEXTS = ["1970-01-01T00:00:00Z", "2024-05-01T14:30:15+02:00", "2024-05-01 12:30:15.000001Z"]
_AWARE_TEXTS += ["1969-12-31T23:59:59.999999+00:00"]
_LOCAL_TEXTS = ["1970-01-01", "2024-05-01", "2024-05-01T12:30", "2024-05-01T12:30:15.500"]

VALUES: dict[str, Sequence[Any]] = {
    **dict.fromkeys(("i", "j"), _INTEGERS),
    "small": [0, 1, -1, 2, 5, 7, -3],
    "u": [0, 1, 2, 7, 2**53 + 1, 2**63 - 1, 2**63],
    **dict.fromkeys(("f", "g"), _FLOATS + _ODD_FLOATS),
    "narrow": [0.0, -0.0, 0.5, 1.0, -3.0, float("nan")],
    "d": _DECIMALS,
    "wide decimal": _WIDE_DECIMALS,
    **dict.fromkeys(("s", "large", "coded"), _TEXTS),
    **dict.fromkeys(("yes", "no"), (True, False)),
    "at": _FINE,
    "at s": _AWARE,
    "local": _LOCAL,
    **dict.fromkeys(("day", "other day"), _DAYS),
    "ts": [0, -1, 1_714_559_415, 1_711_846_799, 1_711_846_800, 1_730_000_000, -(10**10)],
    "nothing": [None],
    "list": [[], [1]],
}


def batch_of(length: int, seed: int) -> pa.RecordBatch:
    """Random rows with many nulls and odd values, the same for the same seed."""
    random = Random(seed)
    arrays = []
    for name, values in VALUES.items():
        cells = [random.choice(values) if random.random() < 0.8 else None for _ in range(length)]
        arrays.append(pa.array(cells, _TYPES[name]))
    return pa.record_batch(arrays, schema=SCHEMA)


def _column(*names: str) -> st.SearchStrategy[Expression]:
    return st.sampled_from([Expression(ops.COLUMN, (), name) for name in names])


def _constants(values: Sequence[Constant]) -> st.SearchStrategy[Expression]:
    return st.sampled_from([Expression(ops.CONSTANT, (), value) for value in values])


def _applied(
    operators: Sequence[Operator], operands: st.SearchStrategy[Expression]
) -> st.SearchStrategy[Expression]:
    @st.composite
    def build(draw: st.DrawFn) -> Expression:
        operator = draw(st.sampled_from(operators))
        return Expression(operator, tuple(draw(operands) for _ in range(operator.arity)))

    return build()


_COMPARISONS = [ops.EQUAL, ops.NOT_EQUAL, *sorted(ops.ORDERINGS, key=lambda row: row.name)]
_NULL = _constants([None])
_INTEGER_LEAVES = st.one_of(_column("i", "j", "small", "u"), _constants(_INTEGERS))
_FLOAT_LEAVES = st.one_of(_column("f", "g", "narrow"), _constants(_FRACTIONS))
_NUMBER_LEAVES = st.one_of(
    _INTEGER_LEAVES, _FLOAT_LEAVES, _column("d", "wide decimal"), _column("nothing")
)
_TEXT_LEAVES = st.one_of(_column("s", "large", "coded"), _constants(_TEXTS))

_ARITHMETIC = [*sorted(ops.ARITHMETIC, key=lambda row: row.name), ops.ABS, ops.FLOOR, ops.ROUND]
_CHOICES = [ops.COALESCE, ops.LEAST, ops.GREATEST]
_CONDITIONS = st.one_of(
    _column("yes", "no"), _applied([ops.IS_NULL], _column(*SCHEMA.names)), _constants([True])
)


@st.composite
def _choices(
    draw: st.DrawFn,
    operands: st.SearchStrategy[Expression],
    operators: Sequence[Operator] = tuple(_CHOICES),
) -> Expression:
    """An expression that has the value of one of two operands."""
    pair = draw(operands), draw(operands)
    if draw(st.booleans()):
        return Expression(draw(st.sampled_from(operators)), pair)
    return Expression(ops.IF, (draw(_CONDITIONS), *pair))


_AWARE_TIMES = _column("at", "at s")
_LOCAL_TIMES = _column("local", "day", "other day")
_TIMES = st.one_of(
    _AWARE_TIMES, _LOCAL_TIMES, _choices(_AWARE_TIMES), _choices(_LOCAL_TIMES), _column("ts")
)
_DIFFERENCES = st.one_of(
    _applied([ops.SUBTRACT], _AWARE_TIMES), _applied([ops.SUBTRACT], _LOCAL_TIMES)
)


def _numbers(depth: int) -> st.SearchStrategy[Expression]:
    result: st.SearchStrategy[Expression] = _NUMBER_LEAVES
    for _ in range(depth):
        lengths = _applied([ops.LENGTH], _TEXT_LEAVES)
        whole = _applied(_ARITHMETIC, _INTEGER_LEAVES)
        clocks = _applied([ops.HOUR, ops.MINUTE], _TIMES)
        roots = _applied(sorted(ops.OF_FLOATS, key=str), result)
        applied = _applied(_ARITHMETIC, result)
        others = st.one_of(lengths, clocks, roots, _choices(result), _DIFFERENCES)
        result = st.one_of(_NUMBER_LEAVES, whole, applied, others)
    return result


_TEXT_VALUES = st.one_of(
    _TEXT_LEAVES,
    _applied([ops.LOWER, ops.UPPER], _TEXT_LEAVES),
    # they are compared with texts that are no days, dates or times of day, which `lower` allows
    _applied([ops.LOWER], _applied([ops.WEEKDAY, ops.DATE, ops.TIME_OF_DAY], _TIMES)),
    _choices(_TEXT_LEAVES),
)


@st.composite
def _texts(draw: st.DrawFn) -> Expression:
    function = draw(st.sampled_from([ops.STARTSWITH, ops.ENDSWITH, ops.CONTAINS, ops.MATCHES]))
    part = draw(_constants(_PATTERNS if function is ops.MATCHES else _TEXTS))
    return Expression(function, (draw(_TEXT_VALUES), part))


@st.composite
def _members(draw: st.DrawFn) -> Expression:
    kinds: list[tuple[st.SearchStrategy[Expression], Sequence[Constant]]] = [
        (_numbers(1), NUMBERS),
        (_TEXT_VALUES, _TEXTS),
        (_column("yes"), [True, False]),
        (_column("at", "at s"), _AWARE_TEXTS),
        (_column("local", "day", "other day"), _LOCAL_TEXTS),
    ]
    operand, values = draw(st.sampled_from(kinds))
    few, many = draw(st.sampled_from([(1, 4), (9, 12)]))
    chosen = draw(st.lists(st.sampled_from(values), min_size=few, max_size=many))
    return Expression(draw(st.sampled_from([ops.IN, ops.NOT_IN])), (draw(operand),), tuple(chosen))


@st.composite
def _comparisons(draw: st.DrawFn) -> Expression:
    aware = st.one_of(_AWARE_TIMES, _choices(_AWARE_TIMES))
    local = st.one_of(_LOCAL_TIMES, _choices(_LOCAL_TIMES))
    sides = [
        (_numbers(2), _numbers(2)),
        (_numbers(2), _numbers(2)),
        (_TEXT_VALUES, _TEXT_VALUES),
        (aware, st.one_of(aware, _constants(_AWARE_TEXTS))),
        (local, st.one_of(local, _constants(_LOCAL_TEXTS))),
    ]
    operands = [draw(side) for side in draw(st.sampled_from(sides))]
    if draw(st.booleans()):
        operands.reverse()
    if all(isinstance(one.value, str) and one.operator is ops.CONSTANT for one in operands):
        # two texts in quotes are an error: one is probably meant as a column
        operands[0] = Expression(ops.LOWER, (operands[0],))
    return Expression(draw(st.sampled_from(_COMPARISONS)), tuple(operands))


_ANYTHING = st.one_of(_column(*SCHEMA.names), _numbers(1), _TEXT_VALUES, _NULL)


def predicates(depth: int = 2) -> st.SearchStrategy[Expression]:
    """Predicates of all operators whose types fit the columns of `SCHEMA`."""
    leaves = st.one_of(
        _column("yes", "no", "nothing"),
        _constants([True, False, None]),
        _comparisons(),
        _comparisons(),
        _members(),
        _texts(),
        _applied([ops.IS_NULL, ops.IS_NOT_NULL], _ANYTHING),
    )
    result: st.SearchStrategy[Expression] = leaves
    for _ in range(depth):
        equal = _applied([ops.EQUAL, ops.NOT_EQUAL], _column("yes", "no"))
        unknown = _applied([ops.IS_NULL, ops.IS_NOT_NULL], result)
        chosen = _choices(result, [ops.COALESCE])
        joined = _applied([ops.AND, ops.OR, ops.NOT], result)
        result = st.one_of(leaves, joined, equal, unknown, chosen)
    return result
