"""The text of a policy file with its declarations, and the errors that are found in them."""

from __future__ import annotations

from mtlmon.errors import FormulaError, PolicyError
from mtlmon.policy.declarations import (
    ATOM,
    CHECKED,
    CONST,
    FORMULA,
    LET,
    Declaration,
    read_declarations,
)
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.report import formula_error, offset_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class DeclaredText:
    """The declarations of a text, and errors with places in it.

    Args:
        text: the content of a policy file.
        source: the name of the text in errors.

    Attributes:
        declarations: the declarations in order.
        errors: the errors that have been found.
    """

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.declarations, self.errors = read_declarations(text, source)

    def attempt(self, read: Callable[[Declaration], None], declaration: Declaration) -> None:
        try:
            read(declaration)
        except FormulaError as error:
            self.errors.append(self._of_name(error) or error)

    def _of_name(self, error: FormulaError) -> FormulaError | None:
        """The error in the name of what is declared in the line of another error, or None."""
        # imported here, as only invalid files need it
        from mtlmon.policy.formula_hints import wrong_name

        lines = self.text.split("\n")[: error.line]
        found = wrong_name(lines.pop()) if error.line <= len(lines) else None
        if found is None:
            return None
        start = sum(len(line) + 1 for line in lines)
        return self.error(start + found.place, found.message, found.hint)

    def split(self, declaration: Declaration, error: FormulaError) -> bool:
        """Split off the file's only formula, if it follows the last declaration on a new line.

        Returns:
            Whether the declaration was split. If so, it now ends where the formula begins, and the
            formula is a declaration of its own.
        """
        if (
            declaration is not self.declarations[-1]
            or declaration.kind not in {LET, ATOM, CONST}
            or any(other.kind in CHECKED for other in self.declarations)
            or not self.begins_another(error, declaration)
        ):
            return False
        offset = self.offset_of(error)
        formula = Declaration(FORMULA, "", offset, offset)
        formula.end = declaration.end
        declaration.end = offset
        self.declarations.append(formula)
        return True

    def explained(self, error: FormulaError, declaration: Declaration) -> FormulaError:
        """The error, with a better hint if what was meant can be guessed."""
        offset = self.offset_of(error)
        hint: str | None
        if declaration.kind != FORMULA and self.begins_another(error, declaration):
            hint = (
                f"the declaration of {declaration.name} continues up to the next one; "
                "begin a policy with policy NAME:"
            )
        else:
            # imported here, as only invalid files need it
            from mtlmon.policy.formula_hints import hint_for

            hint = hint_for(self.text, offset, declaration, error)
            if hint is None:
                return error
        return formula_error(
            self.text, offset, error.message, source=self.source, hint=hint, kind=type(error)
        )

    def begins_another(self, error: FormulaError, declaration: Declaration) -> bool:
        """Whether the error is that something new begins on a line."""
        line = self.text.split("\n")[error.line - 1]
        return (
            not line[: error.column - 1].strip()
            and error.line > self.line_of(declaration)
            and error.message.startswith("expected an operator or the end")
        )

    def offset_of(self, error: FormulaError) -> int:
        return offset_of(self.text, error)

    def line_of(self, declaration: Declaration) -> int:
        return self.text.count("\n", 0, declaration.place) + 1

    def first_place(self, declaration: Declaration) -> int:
        """The position of the first token of a declaration's formula."""
        return Cursor(self.text, self.source, declaration.start, declaration.end).token.start

    def error(self, offset: int, message: str, hint: str) -> FormulaError:
        return formula_error(
            self.text, offset, message, source=self.source, hint=hint, kind=PolicyError
        )
