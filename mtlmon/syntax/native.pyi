"""The nodes of syntax trees, and the tokens of formulas."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Final, Protocol, Self, TypeVar, final

from typing_extensions import disjoint_base

from mtlmon.policy.predicates.expression import Value as ExpressionValue
from mtlmon.policy.predicates.operators import Operator as ExpressionOperator
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.formula import Formula, Value
from mtlmon.syntax.lexer import Conditions
from mtlmon.syntax.operators import Operator

class _Tree(Protocol):
    @property
    def operands(self) -> tuple[Self, ...]: ...

_Node = TypeVar("_Node", bound=_Tree)

MAXIMUM_BOUND: Final[int]
STRICT: Final = "strict"
ATOM: Final = "atom"
LEAF: Final = "leaf"
OPERATOR: Final = "operator"
NUMBER: Final = "number"
INVALID: Final = "invalid"
END: Final = "end"

@disjoint_base
class Interval:
    """The natural numbers from `lower` to `upper`, both included; `upper` None is infinity."""

    FULL: ClassVar[Interval]

    def __init__(self, lower: int, upper: int | None) -> None: ...
    @property
    def lower(self) -> int: ...
    @property
    def upper(self) -> int | None: ...
    @property
    def is_bounded(self) -> bool: ...
    def __contains__(self, distance: int, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[type[Interval], tuple[int, int | None]]: ...

@final
class Span:
    """The place of a node in the text, which is text[start:end]."""

    def __init__(self, start: int, end: int, indirect: bool = False) -> None: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def indirect(self) -> bool: ...
    def made(self) -> Span: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@disjoint_base
class Node:
    """An operator applied to operands; immutable."""

    @property
    def operator(self) -> object: ...
    @property
    def value(self) -> object: ...
    @property
    def operands(self) -> tuple[Self, ...]: ...
    @property
    def span(self) -> Span | None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@disjoint_base
class FormulaNode(Node):
    """The data of a `Formula`."""

    def __init__(
        self,
        operator: Operator,
        operands: tuple[Self, ...] = (),
        interval: Interval | None = None,
        name: str | None = None,
        span: Span | None = None,
        value: Value = None,
    ) -> None: ...
    @property
    def operator(self) -> Operator: ...
    @property
    def interval(self) -> Interval | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def value(self) -> Value: ...
    @property
    def is_first_order(self) -> bool: ...
    @property
    def is_bounded(self) -> bool: ...
    @property
    def looks_ahead(self) -> bool: ...
    @property
    def atoms(self) -> tuple[str, ...]: ...
    @property
    def known_free(self) -> tuple[str, ...] | None: ...
    def keep_free(self, names: tuple[str, ...]) -> None: ...

class ExpressionNode(Node):
    """The data of an `Expression`."""

    def __init__(
        self,
        operator: ExpressionOperator,
        operands: tuple[Self, ...] = (),
        value: ExpressionValue = None,
        span: Span | None = None,
    ) -> None: ...
    @property
    def operator(self) -> ExpressionOperator: ...
    @property
    def value(self) -> ExpressionValue: ...

@disjoint_base
class Token:
    """A token of a formula."""

    def __init__(
        self,
        kind: str,
        start: int,
        end: int,
        value: str = "",
        operator: Operator | None = None,
        *,
        hint: str | None = None,
    ) -> None: ...
    @property
    def kind(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def value(self) -> str: ...
    @property
    def operator(self) -> Operator | None: ...
    @property
    def hint(self) -> str | None: ...

@disjoint_base
class TokenCursor:
    """The tokens of a part of a text, and the index of the present one."""

    index: int

    def __init__(
        self, text: str, source: str, tokens: list[Token], constants: Mapping[str, object]
    ) -> None: ...
    @property
    def text(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def constants(self) -> Mapping[str, object]: ...
    @property
    def tokens(self) -> list[Token]: ...
    @property
    def token(self) -> Token: ...
    def ahead(self, distance: int) -> Token: ...
    def text_of(self, token: Token) -> str: ...

@final
class Waiting:
    """An operator whose last operand is not complete, or an open parenthesis."""

    @property
    def index(self) -> int: ...
    @property
    def operator(self) -> Operator | None: ...
    @property
    def interval(self) -> Interval | None: ...

@disjoint_base
class OperatorParser:
    """Reads the operators and operands of a formula."""

    def __init__(
        self,
        cursor: Cursor,
        unit: str | None,
        missing_parentheses: list[Span] | None,
        make: type[Formula],
        read_interval: Callable[[Cursor, str | None], Interval],
        intervals: dict[str, Interval],
    ) -> None: ...
    @property
    def cursor(self) -> Cursor: ...
    @property
    def waiting(self) -> list[Waiting]: ...
    @property
    def starts(self) -> list[int]: ...
    def formula(self) -> Formula: ...
    def apply_before(self, incoming: Operator | None) -> None: ...

def postorder(*roots: _Node) -> list[_Node]: ...
def form_of(formula: Formula) -> tuple[object, list[str]]: ...
def scan_formula(
    text: str,
    start: int,
    end: int,
    conditions: Conditions | None,
    quoted: Callable[[str, int, int], Token],
    stray: Callable[[str, int], Token],
) -> list[Token]: ...
def skip_blanks(text: str, position: int, end: int) -> int: ...
def comment_end(text: str, position: int, end: int) -> int: ...
