"""Reads the policies, finds and triggers of a policy file."""

from __future__ import annotations

from mtlmon.policy.clauses import PolicyClauses
from mtlmon.policy.declarations import CHECKED, FIND, FORMULA, POLICY, TRIGGER
from mtlmon.policy.definitions import Clock, Policy
from mtlmon.support.late_pattern import late_pattern
from mtlmon.syntax.lexer import comment_end, skip_blanks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.policy.declarations import Declaration
    from mtlmon.policy.messages import ShownMessage
    from mtlmon.policy.reading import FileReader
    from mtlmon.syntax.formula import Formula

_NO_CLAUSES = PolicyClauses()
_MARK = late_pattern(r'/\*|\#[^\n]*|"|`|[][()]|(?<![\w$.])message(?![\w$.])')


class PolicyReader:
    """Reads what is checked on a log, for the reader of a policy file.

    Args:
        reader: the reader of the file.

    Attributes:
        policies: the policies that have been read by name; None is the name of a formula alone.
    """

    def __init__(self, reader: FileReader) -> None:
        self.reader = reader
        self.file = reader.file
        self.policies: dict[str | None, Policy] = {}

    def read(self, declaration: Declaration) -> None:
        """Read a policy, find or trigger, or the formula without a name."""
        reader = self.reader
        name = None if declaration.kind == FORMULA else declaration.name
        if name is None and any(other.kind in CHECKED - {FORMULA} for other in reader.declarations):
            start = reader.first_place(declaration)
            from mtlmon.policy.formula_hints import form_of

            line = reader.text[start:].partition("\n")[0]
            hint = form_of(line) or "write policy NAME: before it"
            raise reader.error(start, "a formula without a name next to policies with names", hint)
        if name in self.policies:
            if name is None:
                message, hint = "a second formula", "give each policy a name: policy NAME: ..."
                raise reader.error(reader.first_place(declaration), message, hint)
            message = f"there is a policy {name} already"
            raise reader.error(declaration.place, message, "give it another name")
        clauses = _NO_CLAUSES
        if declaration.header[0] != declaration.header[1]:
            clauses = PolicyClauses()
            header = reader.clauses(*declaration.header)
            if declaration.kind == FIND:
                clauses.text = header.text() or ""
                if header.take("per"):
                    clauses.key = header.columns()
                header.require_end("':' (before it can be, in this order: a text, per)")
            else:
                clauses.read(header, reader, is_trigger=declaration.kind == TRIGGER)
            if clauses.clock is not None and clauses.clock.condition is not None:
                clauses.clock.atom = reader.atom_of(clauses.clock.condition)
        whole = declaration.end
        try:
            formula, written, message_text = self._read_body(declaration, clauses)
        finally:
            declaration.end = whole
        self.policies[name] = Policy(
            name,
            formula,
            written,
            clauses.key,
            text=clauses.text,
            clock=clauses.clock,
            lasting=clauses.lasting,
            tolerance=clauses.tolerance,
            most=clauses.most,
            severity=clauses.severity,
            message=message_text,
            is_find=declaration.kind == FIND,
            is_trigger=declaration.kind == TRIGGER,
        )

    def _read_body(
        self, declaration: Declaration, clauses: PolicyClauses
    ) -> tuple[Formula, Formula, ShownMessage | None]:
        """Read the formula of a policy, or the condition of a trigger, and the message.

        Returns:
            The formula with lets replaced and with what `for` means, the formula as written, and
            the message or None.
        """
        reader = self.reader
        message_span = self._split_message(declaration)
        if declaration.kind == TRIGGER:
            from mtlmon.policy.triggers import read_trigger

            written = read_trigger(reader, declaration)
        else:
            written = reader.formula(declaration)
            if clauses.clock is not None:
                self._require_ordinary(written, declaration)
        formula = demanded = reader.lets.replaced(written)
        if clauses.lasting is not None:
            from mtlmon.policy.lasting import lasting

            formula = lasting(demanded, clauses.lasting)
        message = None
        if message_span is not None:
            message = self._read_message(*message_span, formula, demanded, clauses)
        return formula, written, message

    def _require_ordinary(self, formula: Formula, declaration: Declaration) -> None:
        """Refuse a clock of a first-order policy, whose time-points are rows."""
        if formula.is_first_order:
            message = f"policy {declaration.name} has variables, so its time-points are rows"
            hint = "leave out 'on', and make the condition an atom of the formula"
            raise self.reader.error(declaration.header[0], message, hint)

    def _split_message(self, declaration: Declaration) -> tuple[int, int] | None:
        """Split the message off a declaration; return where it is in the text, or None."""
        text, position, depth = self.reader.text, declaration.start, 0
        has_word = text.find("message", position, declaration.end) >= 0
        if declaration.kind not in {POLICY, TRIGGER} or not has_word:
            return None
        from mtlmon.policy.predicates.lexer import end_of_quoted

        while (mark := _MARK.search(text, position, declaration.end)) is not None:
            found, position = mark.group(), mark.end()
            if found == "message":
                begin = skip_blanks(text, position, declaration.end)
                if depth or text[begin : begin + 1] != '"':
                    continue
                end = end_of_quoted(text, begin, declaration.end)
                behind = skip_blanks(text, end, declaration.end)
                if behind < declaration.end:
                    message = "expected the end of the policy after its message"
                    raise self.reader.error(behind, message, "a message is the last clause")
                declaration.end = mark.start()
                return begin, end
            if found == "/*":
                end = comment_end(text, position, declaration.end)
                position = declaration.end if end < 0 else end
            elif found in {'"', "`"}:
                position = max(position, end_of_quoted(text, mark.start(), declaration.end))
            else:
                depth += (found in "([") - (found in ")]")
        return None

    def _read_message(
        self, start: int, end: int, formula: Formula, demanded: Formula, clauses: PolicyClauses
    ) -> ShownMessage:
        """Read the message of a policy or trigger, which is a text in double quotes.

        Args:
            start: where the text begins.
            end: where it ends.
            formula: the formula of the policy.
            demanded: the formula without what `for` means.
            clauses: the clauses of the policy.
        """
        from mtlmon.policy.messages import ShownMessage, read_message
        from mtlmon.policy.triggers import violations_of

        file, reader = self.file, self.reader
        place = reader.text, reader.source, start, end
        message = read_message(*place, file.unit, file.constants)
        names = tuple(file.show(reader.resolved(one)) for one in message.expressions)
        violations, is_later = violations_of(
            reader,
            formula,
            demanded,
            start,
            has_clock=clauses.clock is not None,
            has_values=bool(names),
        )
        return ShownMessage(message, names, violations, is_later)

    def wait_for_later_values(self) -> None:
        """Give policies that look at later values the rows that wait for these."""
        from mtlmon.policy.needs import later_values_of
        from mtlmon.policy.predicates.time_points import Waiting

        places = {one.name: one.place for one in self.reader.declarations if one.kind in CHECKED}
        for policy in self.file.policies:
            clock = policy.clock
            later = later_values_of(self.file, policy)
            if not later:
                continue
            message = None
            if clock is not None:
                message = f"policy {policy.name} is on {clock}, but {later[0]} looks at later rows"
                hint = f"leave out 'on {clock}'"
            elif policy.formula.is_first_order:
                message = f"a policy with variables cannot look at later rows, as {later[0]} does"
                hint = "write NEXT in the formula"
            elif policy.message is not None and policy.message.is_later:
                message = (
                    f"policy {policy.name} looks ahead, so its message cannot have values of rows "
                    f"that wait, as {later[0]} does"
                )
                hint = "leave the values out of the message, or write NEXT in the formula"
            if message is not None:
                self.reader.errors.append(
                    self.reader.error(places.get(policy.name or "", 0), message, hint)
                )
                continue
            policy.clock = Clock(period=Waiting(later))
