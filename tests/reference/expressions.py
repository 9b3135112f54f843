"""What expressions over the columns of a row say, from their text on: read, typed and evaluated.

Written after docs/policies.md, for obviousness: nothing here is shared with the package. Windows,
offsets and relations are left out; `tests.reference.streams` has these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from tests.reference.float_functions import OF_FLOATS

Row = Mapping[str, Any]
"""The cells of a row; None is null."""

KINDS = ("integer", "float", "decimal", "text", "boolean", "time")
_NUMBERS = {"integer", "float", "decimal", "constant"}


class Misfit(Exception):
    """The types of a text do not fit."""


class Overflow(Exception):
    """An integer does not fit into 64 bits."""


class Node(NamedTuple):
    """A node of an expression.

    Attributes:
        name: "constant", "column", a sign such as "+", or a word such as "coalesce" or "if".
        operands: the operands.
        value: of a constant, its value; of a column, its name; of "in" and "not in", the constants.
    """

    name: str
    operands: tuple[Node, ...] = ()
    value: Any = None


# ---- reading -------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number> \d+ (?:\.\d+)? (?:[eE][+-]?\d+)? )
    | (?P<text> " (?: \\. | [^"\\] )* " )
    | (?P<column> (?:row\.)? ` (?: `` | [^`] )* ` | row\.\w+ )
    | (?P<word> [A-Za-z_]\w* )
    | (?P<sign> <> | <= | >= | != | == | [-+*/%=<>(),] )
    )""",
    re.VERBOSE,
)
_WORDS = {"and", "or", "not", "in", "is", "null", "true", "false", "if", "then", "else"}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_COMPARISONS = {"=", "!=", "<", "<=", ">", ">="}
_SPELLINGS = {"==": "=", "<>": "!="}


def read(text: str) -> Node:
    """Read an expression, all of whose text is one."""
    reader = _Reader(text)
    node = reader.choice()
    assert reader.next is None, f"{text!r} goes on"
    return node


class _Reader:
    """Reads by descent, the loosest operators first."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            assert found is not None, text[position:]
            kind = str(found.lastgroup)
            word = found[kind]
            if kind == "word" and word.lower() in _WORDS:
                kind, word = "sign", word.lower()
            self.tokens.append((kind, _SPELLINGS.get(word, word)))
            position = found.end()

    @property
    def next(self) -> str | None:
        """The next sign or keyword; "" is anything else, None the end."""
        if not self.tokens:
            return None
        kind, word = self.tokens[0]
        return word if kind == "sign" else ""

    def take(self, *signs: str) -> str | None:
        """Take one of some signs, if it is the next token."""
        if self.next not in signs:
            return None
        return self.tokens.pop(0)[1]

    def require(self, sign: str) -> None:
        assert self.take(sign), f"{sign} was expected before {self.tokens}"

    def choice(self) -> Node:
        if not self.take("if"):
            return self.disjunction()
        condition = self.choice()
        self.require("then")
        chosen = self.choice()
        self.require("else")
        return Node("if", (condition, chosen, self.choice()))

    def disjunction(self) -> Node:
        return self.from_left(self.conjunction, "or")

    def conjunction(self) -> Node:
        return self.from_left(self.negation, "and")

    def from_left(self, operand: Callable[[], Node], *signs: str) -> Node:
        node = operand()
        while sign := self.take(*signs):
            node = Node(sign, (node, operand()))
        return node

    def negation(self) -> Node:
        return Node("not", (self.negation(),)) if self.take("not") else self.comparison()

    def comparison(self) -> Node:
        left = self.sum()
        if sign := self.take(*_COMPARISONS):
            return Node(sign, (left, self.sum()))
        if self.take("is"):
            name = "is not null" if self.take("not") else "is null"
            self.require("null")
            return Node(name, (left,))
        name = "not in" if self.take("not") else "in"
        if name == "not in" or self.next == "in":
            self.require("in")
            self.require("(")
            values = [self.constant()]
            while self.take(","):
                values.append(self.constant())
            self.require(")")
            return Node(name, (left,), tuple(values))
        return left

    def constant(self) -> Any:
        node = self.signed()
        assert node.name == "constant"
        return node.value

    def sum(self) -> Node:
        return self.from_left(self.product, "+", "-")

    def product(self) -> Node:
        return self.from_left(self.signed, "*", "/", "%")

    def signed(self) -> Node:
        if not self.take("-"):
            return self.operand()
        if self.tokens[0][0] == "number":
            return Node("constant", (), -self.operand().value)
        return Node("negate", (self.signed(),))

    def operand(self) -> Node:
        if self.take("("):
            node = self.choice()
            self.require(")")
            return node
        if word := self.take("true", "false", "null"):
            return Node("constant", (), {"true": True, "false": False}.get(word))
        kind, word = self.tokens.pop(0)
        if kind == "number":
            return Node("constant", (), int(word) if word.isdigit() else Decimal(word))
        if kind == "text":
            return Node("constant", (), unescaped(word[1:-1]))
        if kind == "column":
            name = word.removeprefix("row.")
            return Node("column", (), name[1:-1].replace("``", "`") if "`" in name else name)
        assert kind == "word", word
        if not self.take("("):
            return Node("column", (), word)
        operands = [self.choice()]
        while self.take(","):
            operands.append(self.choice())
        self.require(")")
        return Node(word, tuple(operands))


def unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        if found[0][1] in "uU":
            return chr(int(found[0][2:], 16))
        return _ESCAPES[found[0][1]]

    return re.sub(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", character, text)


# ---- types ---------------------------------------------------------------------------------------

_OF_TEXTS = {"startswith", "endswith", "contains", "matches", "lower", "upper", "length"}
_OF_TIMES = {"hour", "minute", "weekday", "date", "time_of_day"}
_ARITHMETIC = {"+", "-", "*", "%", "negate", "abs", "floor", "round"}
_RESULTS = {
    **dict.fromkeys(("startswith", "endswith", "contains", "matches"), "boolean"),
    **dict.fromkeys(("lower", "upper", "weekday", "date", "time_of_day"), "text"),
    **dict.fromkeys(("length", "hour", "minute"), "integer"),
}


def kind_of(node: Node, columns: Mapping[str, str]) -> str:
    """The type of an expression: one of `KINDS`, "null", or "constant" with a point.

    Raises:
        Misfit: the types of its parts do not fit.
    """
    if node.name == "column":
        return columns[node.value]
    if node.name == "constant":
        return kind_of_constant(node.value)
    kinds = [kind_of(operand, columns) for operand in node.operands]
    known = [kind for kind in kinds if kind != "null"]

    def require(wanted: set[str]) -> None:
        if not set(known) <= wanted:
            raise Misfit(f"{node.name} takes {wanted}, not {known}")

    if node.name in {"and", "or", "not"}:
        require({"boolean"})
        return "boolean"
    if node.name in {"is null", "is not null"}:
        return "boolean"
    if node.name in _COMPARISONS:
        require_alike(node, known)
        if node.name not in {"=", "!="} and "boolean" in known:
            raise Misfit("Booleans have no order")
        return "boolean"
    if node.name in {"in", "not in"}:
        for value in node.value:
            other = Node("constant", (), value)
            require_alike(Node("=", (node.operands[0], other)), [*known, kind_of(other, {})])
        return "boolean"
    if node.name in _OF_TEXTS:
        require({"text"})
        return _RESULTS[node.name]
    if node.name in _OF_TIMES:
        require({"time"})
        return _RESULTS[node.name]
    if node.name in {"if", "coalesce", "min", "max"}:
        if node.name == "if" and kinds[0] not in {"boolean", "null"}:
            raise Misfit("if takes a condition")
        if node.name in {"min", "max"}:
            require(_NUMBERS)
        return chosen_kind(kinds[-2:])
    if node.name == "-" and known and set(known) == {"time"}:
        return "integer"
    require(_NUMBERS)
    assert node.name in _ARITHMETIC | {"/", *OF_FLOATS}, node.name
    return "integer" if node.name in _ARITHMETIC and set(known) <= {"integer"} else "float"


def kind_of_constant(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", int: "integer", Decimal: "constant", str: "text"}
    return kinds[type(value)]


def require_alike(node: Node, kinds: Sequence[str]) -> None:
    """Numbers are compared with numbers, and all else with its own type.

    A text in quotes may be a time. A text that is none equals what is written like it, if the other
    side is no constant, either; what that means for values is not defined here.
    """
    groups = {"number" if kind in _NUMBERS else kind for kind in kinds}
    if len(groups) < 2:
        return
    constants = [one for one in node.operands if one.name == "constant"]
    if "text" in groups and (node.name in {"=", "!="} and not constants):
        return
    if groups == {"text", "time"} and any(is_instant(one.value) for one in constants):
        return
    raise Misfit(f"{kinds} are compared")


def is_instant(value: Any) -> bool:
    """Whether a constant is a time with an offset from UTC."""
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def chosen_kind(kinds: Sequence[str]) -> str:
    """The type of one of two values."""
    one, other = ("float" if kind == "constant" else kind for kind in kinds)
    if "null" in (one, other):
        return other if one == "null" else one
    if one == other:
        return one
    if {one, other} <= _NUMBERS:
        return "float"
    raise Misfit(f"{one} or {other}")


# ---- values --------------------------------------------------------------------------------------


def value_of(node: Node, row: Row, columns: Mapping[str, str]) -> Any:
    """The value on a row: an integer, float, Decimal, text, Boolean, datetime, or None for null.

    Raises:
        Overflow: an integer overflows somewhere, whether the result depends on it or not.
    """
    if node.name == "column":
        return row[node.value]
    if node.name == "constant":
        return node.value
    values = [value_of(operand, row, columns) for operand in node.operands]
    if node.name in {"if", "coalesce", "min", "max"}:
        found = chosen(node.name, values, [kind_of(one, columns) for one in node.operands][-2:])
        is_float = kind_of(node, columns) == "float"
        return float(found) + 0.0 if is_float and found is not None else found
    if node.name in {"and", "or"}:
        decisive = node.name == "or"
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    if node.name in {"is null", "is not null"}:
        return (values[0] is None) == (node.name == "is null")
    if None in values:
        return None
    if node.name == "not":
        return not values[0]
    if node.name in _COMPARISONS:
        return compared(node.name, *values)
    if node.name in {"in", "not in"}:
        return any(compared("=", values[0], one) for one in node.value) == (node.name == "in")
    if node.name in _FUNCTIONS:
        return _FUNCTIONS[node.name](*values)
    if isinstance(values[0], datetime):
        return int((values[0] - values[1]) / timedelta(seconds=1))
    return arithmetic(node.name, *values)


def chosen(name: str, values: Sequence[Any], kinds: Sequence[str]) -> Any:
    if name == "if":
        return values[1] if values[0] is True else values[2]
    if name == "coalesce":
        return values[1] if values[0] is None else values[0]
    if None in values:
        return None
    numbers = list(values)
    if chosen_kind(kinds) == "float":
        numbers = [float(value) for value in values]
    if any(math.isnan(value) for value in numbers):
        return math.nan
    return min(numbers) if name == "min" else max(numbers)


def compared(sign: str, left: Any, right: Any) -> bool:
    """Integers, floats and decimals are compared exactly, but for decimals beside floats."""
    if isinstance(left, datetime) or isinstance(right, datetime):
        left, right = instant(left), instant(right)
    if isinstance(left, float) and isinstance(right, Decimal):
        right = float(right)
    if isinstance(right, float) and isinstance(left, Decimal):
        left = float(left)
    found = {
        "=": left == right,
        "!=": left != right,
        **({} if isinstance(left, bool) else _ordered(left, right)),
    }
    return bool(found[sign])


def _ordered(left: Any, right: Any) -> dict[str, bool]:
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}


def instant(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def arithmetic(name: str, *operands: Any) -> int | float | None:
    if name not in {"/", *OF_FLOATS} and all(type(value) is int for value in operands):
        found = on_integers(name, *operands)
        if found is not None and not -(2**63) <= found < 2**63:
            raise Overflow
        return found
    return on_floats(name, *(float(value) for value in operands))


def on_integers(name: str, left: int, right: int = 0) -> int | None:
    if name == "%":
        # the sign is that of the dividend
        return None if right == 0 else (-1 if left < 0 else 1) * (abs(left) % abs(right))
    found: dict[str, int] = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "negate": -left,
        "abs": abs(left),
        "floor": left,
        "round": left,
    }
    return found[name]


def on_floats(name: str, left: float, right: float = 0.0) -> float | None:
    if name in {"/", "%"} and right == 0:
        return None
    if name == "/":
        return left / right
    if name == "%":
        return math.nan if math.isinf(left) else math.fmod(left, right)
    if name in OF_FLOATS:
        return OF_FLOATS[name](*([left, right] if name in {"atan2", "pow"} else [left]))
    if name in {"floor", "round"}:
        if not math.isfinite(left):
            return left
        return float(math.floor(left) if name == "floor" else round(left))
    found: dict[str, float] = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "negate": -left,
        "abs": abs(left),
    }
    return found[name]


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "startswith": lambda text, part: text[: len(part)] == part,
    "endswith": lambda text, part: part == "" or text[-len(part) :] == part,
    "contains": lambda text, part: part in text,
    "matches": lambda text, pattern: re.search(pattern, text, re.ASCII) is not None,
    "lower": str.lower,
    "upper": str.upper,
    "length": len,
    "hour": lambda time: time.hour,
    "minute": lambda time: time.minute,
    "weekday": lambda time: ("mon", "tue", "wed", "thu", "fri", "sat", "sun")[time.weekday()],
    "date": lambda time: f"{time:%Y-%m-%d}",
    "time_of_day": lambda time: f"{time:%H:%M:%S}",
}
