"""The page's help: what formulas and expressions are made of, from the tables of the language."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from mtlmon.analysis.describe import meaning_of
from mtlmon.policy.predicates.operators import AGGREGATES, FUNCTIONS
from mtlmon.syntax import operators as ops
from mtlmon.syntax.parser import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mtlmon.syntax.operators import Operator

__all__ = ["help_of_operators"]

_UNIT = "s"


def help_of_operators() -> str:
    """Return a table of the operators of formulas, and lists of what expressions have, as HTML."""
    rows = "\n".join(_rows())
    return (
        '<table aria-labelledby="help-title"><thead><tr><th scope="col">Written</th>'
        '<th scope="col">Holds if</th><th scope="col">Also written</th></tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table>"
        "<p>Bounds have units, as in <code>ONCE[0,5m] p</code>, if the policy file has a line "
        "<code>unit s</code>. Without bounds, an operator looks back to the beginning or ahead to "
        "the end of the log.</p>"
        f"<p>Aggregates of streams, as in <code>avg[0,5m](x)</code>: {_words(AGGREGATES)}.</p>"
        f"<p>Functions of expressions, as in <code>lower(x)</code>: {_words(FUNCTIONS)}.</p>"
    )


def _rows() -> Iterator[str]:
    for operator in ops.OPERATORS:
        if operator.arity < 1:
            continue
        written = _written(operator)
        meaning = meaning_of(parse(written, unit=_UNIT), _UNIT)
        yield (
            f'<tr><th scope="row"><code>{escape(written)}</code></th>'
            f"<td>{escape(meaning)}</td><td>{_words(operator.spellings[1:])}</td></tr>"
        )


def _written(operator: Operator) -> str:
    """A formula with an operator."""
    word = f"{operator.word}[0,5s]" if operator.is_temporal else operator.word
    return f"{word} p" if operator.is_prefix else f"p {word} q"


def _words(words: Iterable[str]) -> str:
    return " ".join(f"<code>{escape(word)}</code>" for word in words)
