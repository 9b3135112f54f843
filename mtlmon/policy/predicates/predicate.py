"""Predicates over the columns of a row, which define the atoms of a policy file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates.expression import columns
from mtlmon.policy.predicates.parser import parse_expression
from mtlmon.policy.predicates.printer import to_text

if TYPE_CHECKING:
    from mtlmon.policy.predicates.expression import Expression


class Predicate:
    """A condition on the columns of a row.

    Predicates are equal if they differ only in blanks, comments, redundant parentheses and
    spellings of operators. The name does not matter for equality and hashes.

    Attributes:
        expression: the syntax tree.
        columns: the names of the columns, in order of first occurrence.
        name: the atom that it defines, or None if it has no name.
        role: what defines the name, for errors: "atom", or "stream" where it is a stream's value.
        text: the text that spans refer to.
        source: the name of the text in errors.

    >>> predicate = parse_predicate('speed>120 AND NOT (lane IN (1,2))')
    >>> print(predicate)
    speed > 120 and not lane in (1, 2)
    >>> predicate.columns
    ('speed', 'lane')
    >>> predicate == parse_predicate(str(predicate))
    True
    """

    __slots__ = ("expression", "name", "role", "source", "text")

    def __init__(
        self,
        expression: Expression,
        text: str,
        source: str,
        name: str | None = None,
        role: str = "atom",
    ) -> None:
        self.expression = expression
        self.text = text
        self.source = source
        self.name = name
        self.role = role

    def with_expression(self, expression: Expression) -> Predicate:
        """Return a predicate with another expression, whose spans refer to the same text."""
        return Predicate(expression, self.text, self.source, self.name, self.role)

    @property
    def columns(self) -> tuple[str, ...]:
        return columns(self.expression)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Predicate):
            return NotImplemented
        return self.expression == other.expression

    def __hash__(self) -> int:
        return hash(self.expression)

    def __str__(self) -> str:
        return to_text(self.expression)

    def __repr__(self) -> str:
        return f"parse_predicate({str(self)!r})"


def parse_predicate(text: str, source: str = "<predicate>", name: str | None = None) -> Predicate:
    """Parse a predicate.

    Args:
        text: the predicate.
        source: the name of the text in errors.
        name: the atom that it defines, for errors.

    Raises:
        PolicyError: the text is not a predicate, or its types can never fit; the error says where,
            why and how to correct it.
    """
    from mtlmon.policy.column_types import typed_predicate
    from mtlmon.policy.predicates.checking import check

    predicate = Predicate(parse_expression(text, source), text, source, name)
    errors = check(predicate).errors
    if errors:
        raise errors[0]
    return typed_predicate(predicate)
