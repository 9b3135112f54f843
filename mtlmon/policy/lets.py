"""Named subformulas that use each other: their order, their definitions, and the future ones."""

from __future__ import annotations

from mtlmon.policy.declarations import LET, STREAM
from mtlmon.syntax.bounds import LATER
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.lexer import ATOM as ATOM_TOKEN
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.errors import FormulaError
    from mtlmon.policy.reading import FileReader
    from mtlmon.syntax.formula import Formula


class Lets:
    """Puts lets in the place of their names, for the reader of a policy file.

    Args:
        reader: the reader of the file.
    """

    def __init__(self, reader: FileReader) -> None:
        self.reader = reader
        self.file = reader.file

    def future(self) -> list[str]:
        """Find the lets that look into the future, also by way of others."""
        from mtlmon.policy.conditions import Conditions

        conditions = Conditions(
            self.reader.source, LATER, self.reader.names_of(STREAM), self.file.constants, str
        )
        uses: dict[str, set[str]] = {}
        found: list[str] = []
        for name in self.reader.names_of(LET):
            declaration = self.reader.named[name]
            place = self.reader.text, self.reader.source, declaration.start, declaration.end
            tokens = Cursor(*place, conditions).tokens
            if any(token.operator and token.operator.is_future for token in tokens):
                found.append(name)
            for token in tokens:
                if token.kind == ATOM_TOKEN and token.value != name:
                    uses.setdefault(token.value, set()).add(name)
        # `found` grows while it is walked.
        for name in found:
            found += sorted(uses.get(name, set()).difference(found))
        return found

    def order(self) -> None:
        """Replace lets in lets by their definitions, the ones that use no others first."""
        done: dict[str, Formula] = {}
        for first in self.reader.written:
            path = [first]
            while path:
                name = path[-1]
                uses = [
                    use
                    for use in self.reader.written[name].atoms
                    # a let with parameters may use itself, at earlier time-points
                    if use in self.reader.written
                    and not (use == name and name in self.file.parameters)
                ]
                missing = next((use for use in uses if use not in done), None)
                if missing is None or name in done:
                    if name not in done:
                        done[name] = self.file.lets[name] = self.replaced(self.reader.written[name])
                    path.pop()
                elif missing in path:
                    self.reader.errors.append(self._cycle(path[path.index(missing) :]))
                    done |= {one: self.reader.written[one] for one in path}
                else:
                    path.append(missing)
        self.file.lets = {name: done[name] for name in self.reader.written}

    def _cycle(self, path: list[str]) -> FormulaError:
        """The error that lets are declared by each other."""
        place = _place_of(path[0], self.reader.written[path[-1]])
        if len(path) == 1:
            hint = "write SINCE, or a stream, which may read what it was: stream NAME: bool = "
            hint += "... NAME.last(or: false)"
            return self.reader.error(place, f"{path[0]} depends on itself", hint)
        via = ", ".join(path[1:])
        message = f"{path[0]} depends on itself, by way of {via}"
        return self.reader.error(place, message, "break the circle at one of them")

    def replaced(self, formula: Formula) -> Formula:
        """The formula with lets replaced by their definitions, each of which is shared."""
        lets = self.file.lets
        if not lets:
            return formula
        from mtlmon.syntax.rewrite import substitute

        return substitute(formula, {name: lets[name] for name in formula.atoms if name in lets})


def _place_of(name: str, formula: Formula) -> int:
    """The position where an atom occurs first."""
    spans = [node.span for node in postorder(formula) if node.name == name]
    return min(span.start for span in spans if span is not None)
