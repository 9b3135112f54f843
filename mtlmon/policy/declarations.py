"""Splits a policy file into declarations, before any formula or predicate in it is parsed.

A declaration begins on a line, outside comments and quotes, that starts with a keyword, a name and
`=` or `:`, or that has only `unit` and a word. It extends to the next declaration, or to the end of
the file; `unit` ends with its line. No formula has such a line, so a file without declarations is a
single formula.
"""

from __future__ import annotations

import re

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates.keywords import KEYWORDS
from mtlmon.syntax.lexer import END, INVALID, comment_end, is_plain_atom, quoted, tokenize
from mtlmon.syntax.operators import BY_SPELLING
from mtlmon.syntax.report import formula_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.errors import FormulaError

UNIT = "unit"
LET = "let"
ATOM = "atom"
POLICY = "policy"
FORMULA = "formula"

_SIGNS = {LET: "=", ATOM: "=", POLICY: ":"}

_HEAD = re.compile(
    r"""
      [ \t]* (?P<keyword> let | atom | policy ) [ \t]+
      (?P<name> "(?: [^"\\\n] | \\. )*" | `[^`\n]*` | [^\s"`=:(),\#]+ ) [ \t]*
      (?P<sign> = (?! > ) | : )
    | [ \t]* (?P<unit> unit ) [ \t]+ (?P<word> [^\W\d]+ ) [ \t]* (?: \#[^\n]* )? (?: \r?\n | \Z )
    """,
    re.VERBOSE,
)
# Line breaks, and the marks that begin comments and quotes, which can contain line breaks.
_MARK = re.compile(r'\n|/\*|\#[^\n]*|"|`')


class Declaration:
    """A declaration of a policy file, or its formula without a name.

    Attributes:
        kind: `UNIT`, `LET`, `ATOM`, `POLICY` or `FORMULA`.
        name: the declared name, or the unit for `UNIT`; empty for `FORMULA`.
        place: the position of the name in the text.
        start: the start of the formula or predicate, which is text[start:end].
        end: the end of the formula or predicate.
    """

    __slots__ = ("end", "kind", "name", "place", "start")

    def __init__(self, kind: str, name: str, place: int, start: int) -> None:
        self.kind = kind
        self.name = name
        self.place = place
        self.start = start
        self.end = start


def read_declarations(text: str, source: str) -> tuple[list[Declaration], list[FormulaError]]:
    """Split the text of a policy file.

    Args:
        text: the text.
        source: the name of the text in errors.

    Returns:
        The declarations in order, and the errors in their heads. Formulas that are blank are left
        out. If there are no declarations, the whole text is a `FORMULA`.
    """
    declarations = [Declaration(FORMULA, "", 0, 0)]
    errors: list[FormulaError] = []
    position, is_line_start = 0, True
    while True:
        if is_line_start and (head := _HEAD.match(text, position)) and _is_declaration(head):
            declarations[-1].end = position
            declaration = _declaration(text, source, head, errors)
            declarations.append(declaration)
            position = declaration.start
            if declaration.kind == UNIT:
                declaration.end = position
                declarations.append(Declaration(FORMULA, "", position, position))
                continue
        mark = _MARK.search(text, position)
        if mark is None:
            break
        position = _behind(text, mark, declarations[-1].kind)
        is_line_start = mark.group() == "\n"
    declarations[-1].end = len(text)
    if len(declarations) > 1:
        declarations = [
            declaration
            for declaration in declarations
            if declaration.kind != FORMULA or not _is_blank(text, declaration)
        ]
    return declarations, errors


def _is_declaration(head: re.Match[str]) -> bool:
    # `unit` before an operator at the end of a line is an atom or a column
    word = head["word"]
    return word is None or not (word in BY_SPELLING or word.lower() in KEYWORDS)


def _declaration(
    text: str, source: str, head: re.Match[str], errors: list[FormulaError]
) -> Declaration:
    if head["unit"]:
        return Declaration(UNIT, head["word"], head.start("word"), head.end())
    keyword, place = head["keyword"], head.start("name")

    def report(message: str, offset: int, hint: str) -> None:
        error = formula_error(text, offset, message, source=source, hint=hint, kind=PolicyError)
        errors.append(error)

    written = head["name"]
    name = written
    if written[0] == '"':
        token = quoted(text, place, head.end("name"))
        name = token.value
        if token.kind == INVALID:
            name = written
            report(token.value, token.start, token.hint or "write a name")
    elif written in BY_SPELLING:
        report(f"{written} is an operator", place, f'a name like this is written "{written}"')
    elif not is_plain_atom(written):
        quotable = written.strip("`'")
        report(
            f"{written} is not a name: it has characters other than letters, digits and _ $ . '",
            place,
            f'a name like this is written "{quotable}"',
        )
        name = quotable
    if head["sign"] != _SIGNS[keyword]:
        sign = _SIGNS[keyword]
        report(
            f"expected '{sign}' after the name, found '{head['sign']}'",
            head.start("sign"),
            f"write {keyword} {written}{' ' if sign == '=' else ''}{sign} ...",
        )
    return Declaration(keyword, name, place, head.end())


def _behind(text: str, mark: re.Match[str], kind: str) -> int:
    """The position after a line break, comment or quote."""
    found, start = mark.group(), mark.start()
    if found == "/*":
        end = comment_end(text, mark.end(), len(text))
        # an unclosed comment hides all that follows; the parser of this part reports it
        return len(text) if end < 0 else end
    if found in {'"', "`"}:
        if kind == ATOM:
            from mtlmon.policy.predicates.lexer import end_of_quoted

            return end_of_quoted(text, start, len(text))
        if found == '"':
            token = quoted(text, start, len(text))
            return token.end
    return mark.end()


def _is_blank(text: str, declaration: Declaration) -> bool:
    return tokenize(text, declaration.start, declaration.end)[0].kind == END
