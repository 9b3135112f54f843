"""The table of the operators and functions of expressions.

Operators are compared by identity: `expression.operator is ops.AND`.
"""

from __future__ import annotations

# How tightly operators bind; the larger, the tighter.
IF_BINDING, OR_BINDING, AND_BINDING, NOT_BINDING, COMPARISON = range(5)
SUM, PRODUCT, SIGN, OPERAND = range(5, 9)

ANY_NUMBER = -1
"""The arity of an operator that takes one operand or more."""
NONE_OR_MORE = -2
"""The arity of an operator that may have no operands."""


class Operator:
    """One row of the table.

    Attributes:
        name: the name of the constant in this module, or of the function in expressions.
        word: how it is written; empty for names and constants.
        arity: the number of operands, `ANY_NUMBER` or `NONE_OR_MORE`.
        binding: how tightly it binds; the larger, the tighter.
        constants: for a function, how many of its last arguments must be constant texts; for an
            aggregate, how many constants follow its argument.
        signature: for a function, the kinds of its first argument and of its result; for a
            conversion, the kinds of all arguments and of its result.
    """

    __slots__ = ("arity", "binding", "constants", "name", "signature", "word")

    def __init__(
        self,
        name: str,
        word: str,
        arity: int,
        binding: int,
        *,
        constants: int = 0,
        signature: tuple[str, ...] = ("", ""),
    ) -> None:
        self.name = name
        self.word = word
        self.arity = arity
        self.binding = binding
        self.constants = constants
        self.signature = signature

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        # Pickle the name, so that identity survives.
        return _operator_called, (self.name,)


def _function(
    name: str, argument: str, result: str, *, constants: int = 0, arity: int = 1
) -> Operator:
    return Operator(
        name,
        name,
        arity + constants,
        OPERAND,
        constants=constants,
        signature=(argument, result),
    )


def _conversion(name: str, *signature: str) -> Operator:
    return Operator(name, name, len(signature) - 1, OPERAND, signature=signature)


def _division(name: str, word: str, kind: str) -> Operator:
    """A conversion that is written between its arguments, as in MonPoly's language."""
    return Operator(name, word, 2, PRODUCT, signature=(kind, kind, kind))


def _aggregate(word: str, *, constants: int = 0) -> Operator:
    return Operator(f"WINDOW_{word.upper()}", word, 1, OPERAND, constants=constants)


CONSTANT = Operator("CONSTANT", "", 0, OPERAND)

# Names. The parser makes only the first two; `resolving` finds out what a name stands for.
COLUMN = Operator("COLUMN", "", 0, OPERAND)
ROW_COLUMN = Operator("ROW_COLUMN", "", 0, OPERAND)
"""`row.NAME`, which is always a column."""
STREAM = Operator("STREAM", "", 0, OPERAND)
ATOM = Operator("ATOM", "", 0, OPERAND)
"""An atom of the log or of the file; a Boolean value."""
LET = Operator("LET", "", 0, OPERAND)
"""A named formula without future operators; a Boolean value."""
PARAMETER = Operator("PARAMETER", "", 0, OPERAND)
"""The `NAME` of `per EXPR as NAME`."""

VARIABLE = Operator("VARIABLE", "", 0, OPERAND)
"""A variable of a first-order formula."""

COLUMNS = frozenset({COLUMN, ROW_COLUMN})
NAMES = frozenset({COLUMN, ROW_COLUMN, STREAM, ATOM, LET, PARAMETER, VARIABLE})
"""The operators whose value is a name and nothing else."""

IF = Operator("IF", "if", 3, IF_BINDING)

OR = Operator("OR", "or", 2, OR_BINDING)
AND = Operator("AND", "and", 2, AND_BINDING)
NOT = Operator("NOT", "not", 1, NOT_BINDING)

EQUAL = Operator("EQUAL", "=", 2, COMPARISON)
NOT_EQUAL = Operator("NOT_EQUAL", "!=", 2, COMPARISON)
LESS = Operator("LESS", "<", 2, COMPARISON)
LESS_EQUAL = Operator("LESS_EQUAL", "<=", 2, COMPARISON)
GREATER = Operator("GREATER", ">", 2, COMPARISON)
GREATER_EQUAL = Operator("GREATER_EQUAL", ">=", 2, COMPARISON)

IN = Operator("IN", "in", 1, COMPARISON)
NOT_IN = Operator("NOT_IN", "not in", 1, COMPARISON)
IN_COLUMN = Operator("IN_COLUMN", "in", 2, COMPARISON)
NOT_IN_COLUMN = Operator("NOT_IN_COLUMN", "not in", 2, COMPARISON)
IS_NULL = Operator("IS_NULL", "is null", 1, COMPARISON)
IS_NOT_NULL = Operator("IS_NOT_NULL", "is not null", 1, COMPARISON)

ADD = Operator("ADD", "+", 2, SUM)
SUBTRACT = Operator("SUBTRACT", "-", 2, SUM)
MULTIPLY = Operator("MULTIPLY", "*", 2, PRODUCT)
DIVIDE = Operator("DIVIDE", "/", 2, PRODUCT)
REMAINDER = Operator("REMAINDER", "%", 2, PRODUCT)
NEGATE = Operator("NEGATE", "-", 1, SIGN)

STARTSWITH = _function("startswith", "text", "boolean", constants=1)
ENDSWITH = _function("endswith", "text", "boolean", constants=1)
CONTAINS = _function("contains", "text", "boolean", constants=1)
MATCHES = _function("matches", "text", "boolean", constants=1)
LOWER = _function("lower", "text", "text")
UPPER = _function("upper", "text", "text")
LENGTH = _function("length", "text", "integer")
ABS = _function("abs", "number", "number")
FLOOR = _function("floor", "number", "number")
ROUND = _function("round", "number", "number")
SQRT = _function("sqrt", "number", "float")
SIN = _function("sin", "number", "float")
COS = _function("cos", "number", "float")
TAN = _function("tan", "number", "float")
ATAN2 = _function("atan2", "number", "float", arity=2)
EXP = _function("exp", "number", "float")
LOG = _function("log", "number", "float")
POW = _function("pow", "number", "float", arity=2)
LEAST = _function("min", "any", "any", arity=2)
GREATEST = _function("max", "any", "any", arity=2)
COALESCE = _function("coalesce", "any", "any", arity=2)
"""More arguments nest to the left: `coalesce(coalesce(a, b), c)`."""
HOUR = _function("hour", "time", "integer")
MINUTE = _function("minute", "time", "integer")
WEEKDAY = _function("weekday", "time", "text")
DATE = _function("date", "time", "text")
TIME_OF_DAY = _function("time_of_day", "time", "text")

# Conversions: the functions of MonPoly's language, which files of policies do not have.
QUOTIENT = _division("quotient", "/", "integer")
"""The quotient of two integers without its fraction; dividing by 0 is an error."""
MODULO = _division("modulo", "MOD", "integer")
"""What is left over of a quotient; it has the sign of the left integer."""
RATIO = _division("ratio", "/", "float")
"""The quotient of two floats; what is divided by 0 is infinite."""
INTEGER_OF_FLOAT = _conversion("f2i", "float", "integer")
FLOAT_OF_INTEGER = _conversion("i2f", "integer", "float")
TEXT_OF_INTEGER = _conversion("i2s", "integer", "text")
INTEGER_OF_TEXT = _conversion("s2i", "text", "integer")
TEXT_OF_FLOAT = _conversion("f2s", "float", "text")
FLOAT_OF_TEXT = _conversion("s2f", "text", "float")
TEXT_OF_PATTERN = _conversion("r2s", "text", "text")
PATTERN_OF_TEXT = _conversion("s2r", "text", "text")
DAY_OF_MONTH = _conversion("DAY_OF_MONTH", "float", "integer")
MONTH = _conversion("MONTH", "float", "integer")
YEAR = _conversion("YEAR", "float", "integer")
FORMAT_DATE = _conversion("FORMAT_DATE", "float", "text")
SUBSTRING = _conversion("SUBSTRING", "text", "text", "boolean")
"""Whether the first text is part of the second."""
PATTERN_MATCHES = _conversion("MATCHES", "text", "text", "boolean")
"""Whether a pattern of OCaml's library Str matches a part of a text."""
PATTERN_GROUP = _conversion("GROUP", "text", "text", "integer", "text")
"""The part of a text that a group of the pattern has matched."""

WINDOW_COUNT = _aggregate("count")
WINDOW_SUM = _aggregate("sum")
WINDOW_AVG = _aggregate("avg")
WINDOW_MIN = _aggregate("min")
WINDOW_MAX = _aggregate("max")
WINDOW_FIRST = _aggregate("first")
WINDOW_LAST = _aggregate("last")
WINDOW_ANY = _aggregate("any")
WINDOW_ALL = _aggregate("all")
WINDOW_DISTINCT = _aggregate("distinct")
WINDOW_VAR = _aggregate("var")
WINDOW_STDDEV = _aggregate("stddev")
WINDOW_MEDIAN = _aggregate("median")
WINDOW_QUANTILE = _aggregate("quantile", constants=1)
WINDOW_MAD = _aggregate("mad")
"""The median of the absolute deviations from the median."""
WINDOW_INTEGRAL = _aggregate("integral")
WINDOW_INCREASE = _aggregate("increase")
"""How much a counter has grown."""
WINDOW_RATE = _aggregate("rate")
"""The same for each second."""
WINDOW_CHANGES = _aggregate("changes")
WINDOW_RESETS = _aggregate("resets")
"""How often a counter has begun anew."""
RANK = _aggregate("rank")
"""How many instances have larger values than the one that reads it, and 1."""
HISTOGRAM_QUANTILE = _aggregate("histogram_quantile", constants=1)
"""A quantile of what instances count up to bounds, which are their values `le`."""
LINEAR = "linear"
"""The parameter of an integral of the lines between values, which do not hold then."""
WINDOW_OWN = _aggregate("own aggregate")
"""An aggregate that a program defines, `Window.own`."""
MACHINE = Operator("MACHINE", "machine", ANY_NUMBER, OPERAND)
"""A machine that a program defines, `Window.machine`: `machine("module:Class", x)`."""
OWN_FUNCTION = Operator("OWN_FUNCTION", "a function of Python", ANY_NUMBER, OPERAND)
"""A function that a program defines, an `OwnFunction`."""
COUNT_ROWS = Operator("COUNT_ROWS", "count", 0, OPERAND)
"""`count[0,5m]()`, the number of rows."""

LAST = Operator("LAST", "last", 1, OPERAND)
NEXT = Operator("NEXT", "next", 1, OPERAND)
AT = Operator("AT", "at", 1, OPERAND)
HOLD = Operator("HOLD", "hold", 1, OPERAND)

OVER = Operator("OVER", "over", ANY_NUMBER, OPERAND)
"""An aggregate over the live instances of a stream: `any(x > 1 over s)`, `sum(x over s by job)`."""
INSTANCE = Operator("INSTANCE", "", ANY_NUMBER, OPERAND)
"""The held value of one instance of a stream: `views[7]`."""
LOOK_UP = Operator("LOOK_UP", "", NONE_OR_MORE, OPERAND)
"""A column of the record of a relation that is valid then: `limits[road].max`."""
EXISTS = Operator("EXISTS", "exists", NONE_OR_MORE, OPERAND)
"""Whether a record of a relation is valid then: `exists congested[station]`."""
LOOK_UPS = frozenset({LOOK_UP, EXISTS})
"""The operators whose value is a `LookedUp`."""

AGE = Operator("AGE", "age", 0, OPERAND)
"""`age()`: how long ago the first row of an instance was."""
SILENCE = Operator("SILENCE", "silence", 0, OPERAND)
"""`silence()`: how long ago the last row of an instance was."""
LIFE_TIMES = {operator.word: operator for operator in (AGE, SILENCE)}
"""The operator for each word that `until` compares with a length of time."""

RECORD_START = Operator("RECORD_START", "start", 0, OPERAND)
"""`start()`: when a record of a relation begins to be valid."""
RECORD_END = Operator("RECORD_END", "end", 0, OPERAND)
"""`end()`: when it ends; null if it does not."""
RECORD_TIMES = {operator.word: operator for operator in (RECORD_START, RECORD_END)}
"""The operator for each word that says when a record is valid."""

WILDCARD = Operator("WILDCARD", "", 0, OPERAND)
"""An argument of a predicate that may be anything."""
COUNT_FORMULA = Operator("COUNT_FORMULA", "", 0, OPERAND)
"""`COUNT(FORMULA BY u)`, the number of valuations of a formula."""
AGGREGATE_FORMULA = Operator("AGGREGATE_FORMULA", "", 1, OPERAND)
"""`SUM(a OVER FORMULA BY u)`, an aggregate over the valuations of a formula."""
OF_FORMULAS = frozenset({COUNT_FORMULA, AGGREGATE_FORMULA})
"""The operators whose value is an `Aggregate`."""
GROWTH = frozenset({WINDOW_INCREASE, WINDOW_RATE, WINDOW_CHANGES, WINDOW_RESETS})
"""The aggregates of steps between the values in a window."""
OF_STEPS = GROWTH | {WINDOW_INTEGRAL}
"""The aggregates that need the times or the order of values."""
FORMULA_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "MEDIAN")
"""The words of aggregates over formulas."""

COMPARISONS = {
    **{operator.word: operator for operator in (EQUAL, NOT_EQUAL, LESS, LESS_EQUAL)},
    **{operator.word: operator for operator in (GREATER, GREATER_EQUAL)},
    "==": EQUAL,
    "<>": NOT_EQUAL,
}
"""The comparison for each spelling."""

ORDERINGS = frozenset({LESS, LESS_EQUAL, GREATER, GREATER_EQUAL})

OF_FLOATS = frozenset({SQRT, SIN, COS, TAN, ATAN2, EXP, LOG, POW})
"""The functions of floats, which take other numbers as these."""

ARITHMETIC = frozenset({ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, NEGATE})

BINARY = {
    **COMPARISONS,
    **{operator.word: operator for operator in (OR, AND, ADD, SUBTRACT)},
    **{operator.word: operator for operator in (MULTIPLY, DIVIDE, REMAINDER)},
}
"""The binary operator for each spelling."""

FUNCTIONS = {
    function.name: function
    for function in (
        *(STARTSWITH, ENDSWITH, CONTAINS, MATCHES, LOWER, UPPER, LENGTH),
        *(ABS, SQRT, FLOOR, ROUND, LEAST, GREATEST, COALESCE),
        *(SIN, COS, TAN, ATAN2, EXP, LOG, POW),
        *(HOUR, MINUTE, WEEKDAY, DATE, TIME_OF_DAY),
    )
}
"""The function for each name."""

CONVERSIONS = {
    conversion.name: conversion
    for conversion in (
        *(QUOTIENT, MODULO, RATIO, INTEGER_OF_FLOAT, FLOAT_OF_INTEGER),
        *(TEXT_OF_INTEGER, INTEGER_OF_TEXT, TEXT_OF_FLOAT, FLOAT_OF_TEXT),
        *(TEXT_OF_PATTERN, PATTERN_OF_TEXT, DAY_OF_MONTH, MONTH, YEAR, FORMAT_DATE),
        *(SUBSTRING, PATTERN_MATCHES, PATTERN_GROUP),
    )
}
"""The conversion for each name."""

CALLS = frozenset(FUNCTIONS.values())
"""The operators of functions that are called by name."""

CONVERTING = frozenset(CONVERSIONS.values())
"""Those of conversions."""

TIMES = frozenset({*LIFE_TIMES.values(), *RECORD_TIMES.values()})
"""Those of times and lengths of time that instances and records have."""

TIME_FUNCTIONS = frozenset({HOUR, MINUTE, WEEKDAY, DATE, TIME_OF_DAY})

AGGREGATES = {
    aggregate.word: aggregate
    for aggregate in (
        *(WINDOW_COUNT, WINDOW_SUM, WINDOW_AVG, WINDOW_MIN, WINDOW_MAX, WINDOW_FIRST, WINDOW_LAST),
        *(WINDOW_ANY, WINDOW_ALL, WINDOW_DISTINCT, WINDOW_VAR, WINDOW_STDDEV, WINDOW_MEDIAN),
        *(WINDOW_QUANTILE, WINDOW_INTEGRAL, WINDOW_INCREASE, WINDOW_RATE, WINDOW_CHANGES),
        *(WINDOW_RESETS, WINDOW_MAD),
    )
}
"""The aggregate with one argument for each word."""

RESERVED = frozenset(
    {*FUNCTIONS, *AGGREGATES, *FORMULA_AGGREGATES}
    - {one.word for one in GROWTH | OF_FLOATS | {WINDOW_MAD}}
) | {SQRT.word}
"""The words that no stream, relation or atom with arguments has."""

WINDOWS = frozenset({*AGGREGATES.values(), COUNT_ROWS, WINDOW_OWN, MACHINE})
"""The operators whose value is a `Window`."""

OFFSETS = {offset.word: offset for offset in (LAST, NEXT, AT, HOLD)}
"""The operator whose value is an `Offset` for each word."""

OVER_WORDS = frozenset(
    {
        *("any", "all", "count", "sum", "max", "min"),
        *("avg", "var", "stddev", "median", "quantile"),
    }
)
"""The aggregates of windows that can be taken over instances, too."""

OF_INSTANCES_ONLY = {one.word: one for one in (RANK, HISTOGRAM_QUANTILE)}
"""The aggregates over instances that are no windows."""

OVER_AGGREGATES = {**{word: AGGREGATES[word] for word in OVER_WORDS}, **OF_INSTANCES_ONLY}
"""The aggregate over instances for each word."""

MIRRORED = {
    EQUAL: EQUAL,
    NOT_EQUAL: NOT_EQUAL,
    LESS: GREATER,
    LESS_EQUAL: GREATER_EQUAL,
    GREATER: LESS,
    GREATER_EQUAL: LESS_EQUAL,
}
"""The equivalent comparison of swapped operands."""

_BY_NAME = {row.name: row for row in list(globals().values()) if isinstance(row, Operator)}


def _operator_called(name: str) -> Operator:
    return _BY_NAME[name]
