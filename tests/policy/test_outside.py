"""Expressions as texts, against a reader, types and values that know nothing of mtlmon's."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.errors import FormulaError, MtlmonError  # noqa: E402
from mtlmon.policy import Environment, compile_predicates, parse_predicate  # noqa: E402
from mtlmon.streams import compile as compile_streams  # noqa: E402
from tests.reference import expressions as reference  # noqa: E402
from tests.reference.expressions import Misfit, Node, Overflow  # noqa: E402
from tests.reference.float_functions import OF_FLOATS  # noqa: E402

TYPES = {
    **dict.fromkeys(("i", "j", "a b"), ("integer", pa.int64())),
    **dict.fromkeys(("f", "g"), ("float", pa.float64())),
    "d": ("decimal", pa.decimal128(12, 2)),
    **dict.fromkeys(("s", "t"), ("text", pa.string())),
    **dict.fromkeys(("b", "c"), ("boolean", pa.bool_())),
    **dict.fromkeys(("at", "since"), ("time", pa.timestamp("us", "UTC"))),
}
COLUMNS = {name: kind for name, (kind, _) in TYPES.items()}
INTEGERS = [0, 1, -1, 2, 5, 7, -3, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 0.5, 1.0, 1.5, -2.5, 3.0, 2.0**53, 2.0**63, 1e300, 5e-324]
FLOATS += [float("inf"), float("-inf"), float("nan")]
DECIMALS = [Decimal(text) for text in ("0.00", "0.10", "0.50", "1.50", "-3.00", "7.25")]
TEXTS = ["", "a", "b", "A", "ab", "a1", "\u00e9", "\u00c9a", 'q"\\', "\n", "\u65e5\u672c"]
PATTERNS = ["^a", "b$", "[A-Z]+", "a|1", "^.b", r"\d"]
TIMES = [
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2024, 5, 1, 12, 30, 15, 1, tzinfo=UTC),
    datetime(2024, 2, 29, 23, 0, tzinfo=UTC),
]
ISO = ["1970-01-01T00:00:00Z", "2024-05-01T14:30:15.000001+02:00", "2024-02-29T23:00Z"]
VALUES: dict[str, Sequence[Any]] = {
    "integer": INTEGERS,
    "float": FLOATS,
    "decimal": DECIMALS,
    "text": TEXTS,
    "boolean": [True, False],
    "time": TIMES,
}
POINTS = [Decimal(text) for text in ("0.0", "0.5", "1.5", "-2.5", "0.1", "1e300", "7.25")]
CONSTANTS: dict[str, Sequence[Any]] = {
    **VALUES,
    "float": POINTS,
    "decimal": POINTS,
    "time": ISO,
}
ARROW = {
    "integer": pa.types.is_int64,
    "float": pa.types.is_float64,
    "decimal": pa.types.is_decimal,
    "text": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    "boolean": pa.types.is_boolean,
    "time": pa.types.is_timestamp,
    "null": pa.types.is_null,
}

_draw = random.Random("rows")
ROWS = [
    {
        name: _draw.choice(VALUES[kind]) if _draw.random() < 0.85 else None
        for name, kind in COLUMNS.items()
    }
    for _ in range(60)
]


def table(rows: Sequence[dict[str, Any]]) -> Any:
    arrays = [pa.array([row[name] for row in rows], kind) for name, (_, kind) in TYPES.items()]
    stamps = pa.array(range(len(rows)), pa.int64())
    return pa.RecordBatch.from_arrays([stamps, *arrays], ["ts", *TYPES])


# ---- random expressions --------------------------------------------------------------------------

NUMBERS = ("integer", "integer", "float", "decimal")


class Maker:
    """Makes expressions of a type, and now and then one whose types do not fit."""

    def __init__(self, source: random.Random, *, has_misfits: bool) -> None:
        self.source = source
        self.misfits = 0.04 if has_misfits else 0.0

    def make(self, kind: str, depth: int) -> Node:
        if self.source.random() < self.misfits:
            kind = self.source.choice(reference.KINDS)
        if depth == 0 or self.source.random() < 0.15:
            return self.leaf(kind)
        makers: dict[str, list[Callable[[str, int], Node]]] = {
            "integer": [self.arithmetic, self.arithmetic, self.length, self.choice, self.clock],
            "float": [self.arithmetic, self.arithmetic, self.quotient, self.choice],
            "decimal": [self.choice],
            "text": [self.written, self.choice],
            "boolean": [
                *(self.comparison, self.comparison, self.logic, self.logic),
                *(self.null, self.member, self.test, self.choice),
            ],
            "time": [self.choice],
        }
        return self.source.choice(makers[kind])(kind, depth - 1)

    def leaf(self, kind: str) -> Node:
        names = [name for name, own in COLUMNS.items() if own == kind]
        # what is compared with texts in quotes is a time, which `comparison` sees to
        if kind == "time" or self.source.random() < 0.6:
            return Node("column", (), self.source.choice(names))
        return self.constant(kind)

    def constant(self, kind: str) -> Node:
        return Node("constant", (), self.source.choice(CONSTANTS[kind]))

    def arithmetic(self, kind: str, depth: int) -> Node:
        if self.source.random() < 0.3:
            name = self.source.choice(["negate", "abs", "floor", "round"])
            return Node(name, (self.make(kind, depth),))
        name = self.source.choice("+-*%")
        other = kind if kind == "integer" else self.source.choice(NUMBERS)
        pair = [self.make(kind, depth), self.make(other, depth)]
        self.source.shuffle(pair)
        return Node(name, tuple(pair))

    def quotient(self, kind: str, depth: int) -> Node:
        one, other = self.source.choices(NUMBERS, k=2)
        if self.source.random() < 0.3:
            name = self.source.choice(list(OF_FLOATS))
            pair = self.make(one, depth), self.make(other, depth)
            return Node(name, pair if name in {"atan2", "pow"} else pair[:1])
        return Node("/", (self.make(one, depth), self.make(other, depth)))

    def length(self, kind: str, depth: int) -> Node:
        return Node("length", (self.make("text", depth),))

    def clock(self, kind: str, depth: int) -> Node:
        if self.source.random() < 0.3:
            return Node("-", (self.make("time", depth), self.make("time", depth)))
        return Node(self.source.choice(["hour", "minute"]), (self.make("time", depth),))

    def choice(self, kind: str, depth: int) -> Node:
        pair = [self.make(kind, depth), self.make(kind, depth)]
        if kind == "float":
            pair[1] = self.make(self.source.choice(NUMBERS), depth)
            self.source.shuffle(pair)
        if kind in NUMBERS and self.source.random() < 0.4:
            return Node(self.source.choice(["min", "max"]), tuple(pair))
        if self.source.random() < 0.1 and pair[0].name != "constant":
            pair[1] = Node("constant", (), None)
        if self.source.random() < 0.5:
            return Node("coalesce", tuple(pair))
        return Node("if", (self.make("boolean", depth), *pair))

    def written(self, kind: str, depth: int) -> Node:
        if self.source.random() < 0.3:
            # `lower`, as days and times of day are compared with texts that are such
            name = self.source.choice(["weekday", "date", "time_of_day"])
            return Node("lower", (Node(name, (self.make("time", depth),)),))
        return Node(self.source.choice(["lower", "upper"]), (self.make("text", depth),))

    def comparison(self, kind: str, depth: int) -> Node:
        sides = self.source.choice(
            [self.source.choices(NUMBERS, k=2), ["text"] * 2, ["time"] * 2, ["boolean"] * 2]
        )
        signs = ["=", "!="] if sides[0] == "boolean" else ["=", "!=", "<", "<=", ">", ">="]
        one, other = (self.make(side, depth) for side in sides)
        if sides[0] == "time" and self.source.random() < 0.5:
            other = self.constant("time")
        if one.name == other.name == "constant":
            # comparing constants is an error of its own
            one = self.column(sides[0])
        pair = [one, other]
        self.source.shuffle(pair)
        return Node(self.source.choice(signs), tuple(pair))

    def column(self, kind: str) -> Node:
        names = [name for name, own in COLUMNS.items() if own == kind]
        return Node("column", (), self.source.choice(names))

    def logic(self, kind: str, depth: int) -> Node:
        if self.source.random() < 0.3:
            return Node("not", (self.make(kind, depth),))
        pair = self.make(kind, depth), self.make(kind, depth)
        return Node(self.source.choice(["and", "or"]), pair)

    def null(self, kind: str, depth: int) -> Node:
        operand = self.make(self.source.choice(reference.KINDS), depth)
        return Node(self.source.choice(["is null", "is not null"]), (operand,))

    def member(self, kind: str, depth: int) -> Node:
        own = self.source.choice(["integer", "float", "text", "time"])
        values = [self.source.choice(CONSTANTS[own]) for _ in range(self.source.choice([1, 3, 10]))]
        name = self.source.choice(["in", "not in"])
        return Node(name, (self.make(own, depth),), tuple(values))

    def test(self, kind: str, depth: int) -> Node:
        name = self.source.choice(["startswith", "endswith", "contains", "matches"])
        part = self.source.choice(PATTERNS if name == "matches" else TEXTS)
        return Node(name, (self.make("text", depth), Node("constant", (), part)))


# ---- how they are written ------------------------------------------------------------------------

_LEVELS = {
    **dict.fromkeys(("negate",), 6),
    **dict.fromkeys(("*", "/", "%"), 5),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "in", "not in"), 3),
    **dict.fromkeys(("is null", "is not null"), 3),
    "not": 2,
    "and": 1,
    "or": 0,
    "if": -1,
}


class Writer:
    """Writes an expression with as few parentheses as it needs, or some more, in any case."""

    def __init__(
        self, source: random.Random, *, has_misfits: bool = False, is_bare: bool = False
    ) -> None:
        self.source = source
        self.has_misfits = has_misfits
        self.is_bare = is_bare

    def text(self, node: Node) -> str:
        tokens = self.tokens(node, -1)
        found = tokens[0]
        for token in tokens[1:]:
            # words, names and numbers are kept apart
            joins = found[-1].isalnum() and (token[0].isalnum() or token[0] in '_`"')
            found += (" " if joins or self.source.random() < 0.6 else "") + token
        return found

    def tokens(self, node: Node, level: int) -> list[str]:
        own = _LEVELS.get(node.name, 9)
        found = self.own_tokens(node, own)
        if own < level or self.source.random() < 0.08:
            return ["(", *found, ")"]
        return found

    def word(self, word: str) -> str:
        return word.upper() if self.source.random() < 0.2 else word

    def own_tokens(self, node: Node, level: int) -> list[str]:
        name, operands = node.name, node.operands
        if name == "column":
            return [self.column(node.value)]
        if name == "constant":
            return self.constant(node.value)
        if name == "if":
            parts = [self.tokens(one, -1) for one in operands]
            if parts[0][0] == "-":
                # it would be a column called `if`, from which something is subtracted
                parts[0] = ["(", *parts[0], ")"]
            words = [[self.word(word)] for word in ("if", "then", "else")]
            return [
                token for pair in zip(words, parts, strict=True) for more in pair for token in more
            ]
        if name in {"not", "negate"}:
            sign = self.word("not") if name == "not" else "-"
            inner = self.tokens(operands[0], level)
            # a sign and digits are a constant
            return [
                sign,
                *(["(", *inner, ")"] if name == "negate" and inner[0][0].isdigit() else inner),
            ]
        if name in {"is null", "is not null"}:
            return [*self.tokens(operands[0], 4), *map(self.word, name.split())]
        if name in {"in", "not in"}:
            values = [[*self.constant(value), ","] for value in node.value]
            inner = [token for value in values for token in value][:-1]
            return [*self.tokens(operands[0], 4), *map(self.word, name.split()), "(", *inner, ")"]
        if name in _LEVELS:
            # comparisons do not chain; all else is read from the left
            first = 4 if level == 3 else level
            spellings = {"=": ["=", "=="], "!=": ["!=", "<>"]}.get(name, [name])
            word = self.word(self.source.choice(spellings))
            return [*self.tokens(operands[0], first), word, *self.tokens(operands[1], level + 1)]
        inner = [token for one in operands for token in [*self.tokens(one, -1), ","]][:-1]
        return [f"{name}(", *inner, ")"]

    def column(self, name: str) -> str:
        if name == "a b":
            forms = ["row.`a b`", "`a b`"]
            return forms[0] if self.has_misfits else self.source.choice(forms)
        forms = [f"row.{name}", f"`{name}`", f"row.`{name}`", name, name]
        # a bare name is an atom where a condition is expected
        is_plain = COLUMNS[name] != "boolean" and not self.has_misfits
        if self.is_bare:
            return name
        return self.source.choice(forms if is_plain else [forms[0], forms[2]])

    def constant(self, value: Any) -> list[str]:
        if value is None or isinstance(value, bool):
            return [self.word(str(value).lower().replace("none", "null"))]
        if not isinstance(value, str):
            return ["-", str(-value)] if value < 0 else [str(value).lower().replace("e+", "e")]
        escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n"}
        written = "".join(escapes.get(letter, letter) for letter in value)
        if self.source.random() < 0.2:
            written = "".join(
                f"\\u{ord(letter):04x}" if letter.isalpha() else escapes.get(letter, letter)
                for letter in value
            )
        return [f'"{written}"']


# ---- comparing -----------------------------------------------------------------------------------


def alike(one: Any, other: Any) -> bool:
    """Whether values are of one type and equal; zeros are alike, and NaN is NaN."""
    if type(one) is not type(other):
        return False
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124


def plain(node: Node, value: Any) -> Any:
    """A constant with a point is a float where it is the result."""
    return float(value) if node.name == "constant" and isinstance(value, Decimal) else value


def require_values(text: str, node: Node) -> None:
    """Compare the values of a stream, and whether a predicate holds, on all rows."""
    kind = reference.kind_of(node, COLUMNS)
    wanted: list[Any] = []
    kept = []
    for row in ROWS:
        try:
            wanted.append(plain(node, reference.value_of(node, row, COLUMNS)))
        except Overflow:
            continue
        kept.append(row)
    file = f"stream x = {text}"
    if len(kept) < len(ROWS):
        with pytest.raises(MtlmonError, match=r"overflow|outside of"):
            compile_streams(file, table(ROWS).schema, unit="s").evaluate(table(ROWS))
        if not kept:
            return
    batch = table(kept)
    try:
        found = compile_streams(file, batch.schema, unit="s").evaluate(batch)
    except FormulaError as error:
        # constants alone overflow, on every row
        raise AssertionError(f"{text}: {error}") from error
    column = found.column("x")
    wanted_kind = "float" if kind == "constant" else kind
    assert ARROW[wanted_kind](column.type), f"{text}: {column.type} in place of {kind}"
    for row, one, other in zip(kept, column.to_pylist(), wanted, strict=True):
        assert alike(one, other), f"{text}: {one!r} in place of {other!r} on {row}"
    if kind == "boolean":
        environment = Environment(time="ts", unit="s")
        predicates = {"x": parse_predicate(text)}
        held = compile_predicates(predicates, batch.schema, environment)(batch)["x"]
        assert held.to_pylist() == [value is True for value in wanted], text


# many of them, as each is quick; more where somebody hunts
EXAMPLES = max(400, settings().max_examples)


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**40))
def test_values_and_types(seed: int) -> None:
    source = random.Random(seed)
    kind = source.choice(["boolean", "boolean", *reference.KINDS])
    node = Maker(source, has_misfits=False).make(kind, source.choice([1, 2, 3]))
    text = Writer(source).text(node)
    assert reference.read(text) == node, text
    require_values(text, node)


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**40))
def test_types_that_do_not_fit(seed: int) -> None:
    """Exactly those texts are refused whose types do not fit."""
    source = random.Random(seed)
    node = Maker(source, has_misfits=True).make("boolean", 2)
    text = Writer(source, has_misfits=True).text(node)
    try:
        reference.kind_of(node, COLUMNS)
    except Misfit:
        with pytest.raises(FormulaError):
            compile_streams(f"stream x = {text}", table([]).schema, unit="s")
        return
    try:
        compile_streams(f"stream x = {text}", table([]).schema, unit="s")
    except FormulaError as error:
        assert "overflow" in str(error), f"{text}: {error}"


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**40))
def test_bare_names_that_do_not_fit(seed: int) -> None:
    """Where a condition is expected, they are atoms or declared; all errors are told."""
    source = random.Random(seed)
    node = Maker(source, has_misfits=True).make("boolean", 2)
    text = Writer(source, is_bare=True).text(node)
    # columns that are declared under their own names
    declared = {
        "b": "let b = ONCE row_b",
        "s": "stream s = row.s",
        "c": "atom c = row.c",
        "i": "stream i = row.i on row.b",
    }
    chosen = [line for line in declared.values() if source.random() < 0.5]
    with suppress(MtlmonError):
        compile_streams("\n".join([*chosen, f"stream x = {text}"]), table([]).schema, unit="s")
