"""Splits a policy file into declarations, before any formula or expression in it is parsed.

A declaration begins on a line, outside comments and quotes, that starts with a keyword and has what
belongs behind it: a name and `=` or `:` for most, a word or a text for those that are one line. It
extends to the next declaration, or to the end of the file. No formula has such a line, so a file
without declarations is a single formula.
"""

from __future__ import annotations

import re

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates.keywords import KEYWORDS
from mtlmon.support.late_pattern import late_pattern
from mtlmon.syntax.lexer import END, INVALID, comment_end, is_plain_atom, quoted, tokenize
from mtlmon.syntax.operators import BY_SPELLING
from mtlmon.syntax.report import formula_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.errors import FormulaError

UNIT = "unit"
TIME = "time"
TIME_ZONE = "time zone"
EVENT = "event"
PATTERN = "pattern"
ZONE = "zone"
KEY = "key"
COLUMN = "column"
ASSUME = "assume"
CONST = "const"
LET = "let"
ATOM = "atom"
STREAM = "stream"
RELATION = "relation"
POLICY = "policy"
FIND = "find"
TRIGGER = "trigger"
FORMULA = "formula"

LINES = frozenset({UNIT, TIME, TIME_ZONE, EVENT, PATTERN, ZONE, KEY, COLUMN, ASSUME})
"""The declarations that end with their line."""

TEXTS = frozenset({TIME, TIME_ZONE, EVENT, PATTERN, ZONE})
"""Those of them that are a keyword and a text in double quotes."""

CHECKED = frozenset({POLICY, FIND, TRIGGER, FORMULA})
"""The declarations that are checked on a log."""

_SIGNS = {
    CONST: "=",
    LET: "=",
    ATOM: "=",
    STREAM: "=",
    RELATION: "=",
    POLICY: ":",
    FIND: ":",
    TRIGGER: ":",
}
# The declarations whose bodies are expressions, with the quotes of those.
_EXPRESSIONS = frozenset({CONST, ATOM, STREAM, RELATION, TRIGGER})

_HEAD = re.compile(
    r"""
      [ \t]* (?P<keyword> const | let | atom | stream | relation | policy | find | trigger ) [ \t]+
      (?P<name> "(?: [^"\\\n] | \\. )*" | `[^`\n]*` | [^\s"`=:(),\#]+ ) [ \t]*
      (?: (?P<sign> = (?! > ) | : ) | (?P<arguments> \( ) |
         (?P<clause> (?= " | (?: per | on | for | at | severity ) \s ) ) )
    | [ \t]* (?P<line>
         time [ \t]+ zone (?= [ \t]+ " ) | unit | time | event | pattern | zone | key ) [ \t]+
      (?P<value> (?: "(?: [^"\\\n] | \\. )*" | `[^`\n]*` | [^\W\d]\w* )
         (?: [ \t]* , [ \t]* (?: "(?: [^"\\\n] | \\. )*" | `[^`\n]*` | [^\W\d]\w* ) )*
         (?: [ \t]+ (?: first | second ) )? )
      (?= [ \t]* (?: \# | /\* | \r?\n | \Z ) )
    | [ \t]* (?P<column> column ) [ \t]+
      (?P<types> (?: "(?: [^"\\\n] | \\. )*" | `[^`\n]*` | [^\W\d]\w* )
         (?: [ \t]* , [ \t]* (?: "(?: [^"\\\n] | \\. )*" | `[^`\n]*` | [^\W\d]\w* ) )*
         [ \t]* : [ \t]* \w* )
    | [ \t]* (?P<assume> assume ) [ \t]+
      (?P<limit> (?: rate | keys | instances ) \b (?: (?! /\* ) [^\n\#] )* )
    """,
    re.VERBOSE,
)
# What is behind the keywords of declarations of one line: its group, and that of the keyword.
_LINE_GROUPS = {"value": "line", "types": "column", "limit": "assume"}
# What may stand behind a declaration of one line, beside comments between /* and */.
_REST_OF_LINE = late_pattern(r"[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)")
_COMMENT = late_pattern(r"[ \t]*/\*")
# Line breaks, and the marks that begin comments and quotes, which can contain line breaks.
_MARK = re.compile(r'\n|/\*|\#[^\n]*|"|`')
_SIGN_BEHIND = late_pattern(r"[ \t]*=(?![=>])")
_HEADER_MARK = late_pattern(r'/\*|\#[^\n]*|"|`|[][():]')
_QUOTED = late_pattern(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BACKQUOTED = late_pattern(r"`[^`\n]*`")


class Declaration:
    """A declaration of a policy file, or its formula without a name.

    Attributes:
        kind: one of the constants of this module, such as `POLICY`.
        name: the declared name; for declarations of one line, what is written behind the keyword;
            empty for `FORMULA`.
        place: the position of the name in the text.
        start: the start of the formula or expression, which is text[start:end].
        end: the end of the formula or expression.
        header: the start and the end of the clauses between a name and its sign, which can be
            blank.
        arguments: the start and the end of what is in the parentheses behind a name, or None.
        has_body: whether a sign, and so a formula or expression, follows.
    """

    __slots__ = ("arguments", "end", "has_body", "header", "kind", "name", "place", "start")

    def __init__(self, kind: str, name: str, place: int, start: int) -> None:
        self.kind = kind
        self.name = name
        self.place = place
        self.start = start
        self.end = start
        self.header = (start, start)
        self.arguments: tuple[int, int] | None = None
        self.has_body = True


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
            if declaration.kind in LINES or not declaration.has_body:
                declaration.end = position
                declarations.append(Declaration(FORMULA, "", position, position))
                continue
        mark = _MARK.search(text, position)
        if mark is None:
            break
        is_line_start = mark.group() == "\n"
        position = mark.end() if is_line_start else _behind(text, mark, declarations[-1].kind)
    declarations[-1].end = len(text)
    if len(declarations) > 1:
        declarations = [
            declaration
            for declaration in declarations
            if declaration.kind != FORMULA or not _is_blank(text, declaration)
        ]
    return declarations, errors


def _is_declaration(head: re.Match[str]) -> bool:
    last = head.lastgroup
    if last == "sign":
        return True
    if last == "arguments":
        return head["keyword"] in {ATOM, LET}
    if last == "clause":
        return head["keyword"] in {POLICY, FIND, TRIGGER}
    if _end_of_line(head.string, head.end()) is None:
        return False
    # `unit` before an operator at the end of a line is an atom or a column
    word = head["value"]
    return word is None or not (word in BY_SPELLING or word.lower() in KEYWORDS)


def _end_of_line(text: str, position: int) -> int | None:
    """The start of the next line, if only comments follow; None if something else does."""
    while comment := _COMMENT.match(text, position):
        position = comment_end(text, comment.end(), len(text))
        if position < 0:
            # the parser of what follows reports a comment that is never closed
            return comment.start()
    rest = _REST_OF_LINE.match(text, position)
    return None if rest is None else rest.end()


def _declaration(
    text: str, source: str, head: re.Match[str], errors: list[FormulaError]
) -> Declaration:
    last = head.lastgroup
    assert last is not None
    if line := _LINE_GROUPS.get(last):
        end = _end_of_line(text, head.end())
        assert end is not None
        return Declaration(" ".join(head[line].split()), head[last], head.start(last), end)
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
    sign, start = _SIGNS[keyword], head.end()
    declaration = Declaration(keyword, name, place, start)
    if head["arguments"] is not None:
        behind = _end_of_arguments(text, start)
        if behind is None:
            report("this parenthesis is never closed", start - 1, f"write {keyword} {written}(...)")
            behind = len(text)
        declaration.arguments = (start, behind - 1)
        found = _SIGN_BEHIND.match(text, behind)
        if found is None and keyword == LET:
            hint = f"write let {written}(...) = FORMULA"
            report("expected '=' after the parameters", behind, hint)
        declaration.has_body = found is not None or keyword == LET
        declaration.start = behind if found is None else found.end()
        declaration.header = (declaration.start, declaration.start)
        return declaration
    if head["sign"] is None or (keyword == STREAM and head["sign"] == ":"):
        end = _end_of_header(text, start, sign)
        if end is None:
            report(f"expected '{sign}' after this", place, f"write {keyword} {written} ... {sign}")
            end = start
        declaration.header = (start, end)
        declaration.start = declaration.end = min(end + 1, len(text))
    elif head["sign"] != sign:
        report(
            f"expected '{sign}' after the name, found '{head['sign']}'",
            head.start("sign"),
            f"write {keyword} {written}{' ' if sign == '=' else ''}{sign} ...",
        )
    return declaration


def _end_of_arguments(text: str, position: int) -> int | None:
    """The position behind the parenthesis that closes the one before `position`."""
    depth = 1
    while mark := _HEADER_MARK.search(text, position):
        depth += (mark.group() == "(") - (mark.group() == ")")
        position = _behind(text, mark, ATOM)
        if depth == 0:
            return position
    return None


def _end_of_header(text: str, position: int, sign: str) -> int | None:
    """The place of the sign that ends the clauses from `position` on, outside parentheses."""
    if sign == "=":
        found = re.compile(r"[^\n=]*(?==)").match(text, position)
        return None if found is None else found.end()
    depth = 0
    while mark := _HEADER_MARK.search(text, position):
        found_mark = mark.group()
        if found_mark == ":" and depth <= 0:
            return mark.start()
        depth += (found_mark in {"(", "["}) - (found_mark in {")", "]"})
        position = _behind(text, mark, ATOM)
    return None


def _behind(text: str, mark: re.Match[str], kind: str) -> int:
    """The position after a comment or quote."""
    found, start = mark.group(), mark.start()
    if found == "/*":
        end = comment_end(text, mark.end(), len(text))
        # an unclosed comment hides all that follows; the parser of this part reports it
        return len(text) if end < 0 else end
    if found in {'"', "`"}:
        if kind in _EXPRESSIONS:
            from mtlmon.policy.predicates.lexer import end_of_quoted

            return end_of_quoted(text, start, len(text))
        # In formulas, texts of expressions are quoted like atoms, but have more escapes.
        closed = (_QUOTED if found == '"' else _BACKQUOTED).match(text, start)
        return mark.end() if closed is None else closed.end()
    return mark.end()


def _is_blank(text: str, declaration: Declaration) -> bool:
    return tokenize(text, declaration.start, declaration.end)[0].kind == END
