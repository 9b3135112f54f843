"""Reads `relation NAME = SOURCE STEP ...`, and checks what does not depend on tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mtlmon.policy.clauses import NONE
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.keywords import CLAUSES
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.validity.declared import (
    AGGREGATES,
    COMBINATIONS,
    Aggregate,
    Coalesce,
    Combine,
    DeclaredRelation,
    Distinct,
    Group,
    Named,
    Rows,
    Select,
    Split,
    TableOf,
    ValidFor,
    ValidTo,
    ValidUntil,
    ValidUntilNext,
    Where,
)
from mtlmon.support.guesses import with_advice
from mtlmon.support.other_words import AGGREGATES as OTHER_AGGREGATES
from mtlmon.support.other_words import STEPS as OTHER_STEPS
from mtlmon.syntax.formula import Span
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mtlmon.policy.clauses import ClauseReader
    from mtlmon.policy.declarations import Declaration
    from mtlmon.policy.reading import FileReader
    from mtlmon.policy.validity.declared import Source, Step

__all__ = ["RelationReader", "require_relations"]

STEPS = (
    *("valid", "where", "select", "group", *(one for one in COMBINATIONS if " " not in one)),
    *("distinct", "coalesce", "split"),
)
"""The words that steps begin with."""

_ENDS = frozenset({*CLAUSES, *STEPS})
_CHANGE = re.compile(r"(?P<word>inserts|deletes)\s+of\b")
_AGGREGATES = re.compile(r"select\s+\w+\s*\(")
_NEXT_LENGTH = re.compile(r"next\s+[0-9]")
_NOT_OF_ONE_RECORD = frozenset(
    {ops.STREAM, ops.OVER, ops.INSTANCE, *ops.WINDOWS, *ops.OFFSETS.values(), *ops.LOOK_UPS}
)


class RelationReader:
    """Reads the relation of a declaration.

    Args:
        reader: the reader of the file.
        declaration: the declaration.
    """

    def __init__(self, reader: FileReader, declaration: Declaration) -> None:
        self.reader = reader
        self.declaration = declaration
        self.clauses: ClauseReader = reader.clauses(declaration.start, declaration.end)

    def read(self) -> DeclaredRelation:
        """Read the source and the steps.

        Raises:
            FormulaError: something is not valid.
        """
        name, place = self.declaration.name, self.declaration.place
        if name in {"rows", "table"} or (name in ops.AGGREGATES and name in ops.RESERVED):
            what = "an aggregate" if name in ops.AGGREGATES else "a word of relations"
            raise self.reader.error(place, f"{name} is {what}", "give the relation another name")
        source = self.source()
        return DeclaredRelation(name, source, tuple(self.steps(source)), place)

    def source(self) -> Source:
        """Read where the records come from."""
        clauses = self.clauses
        if clauses.take("rows"):
            return Rows()
        if change := _CHANGE.match(self.reader.text, clauses.position, self.declaration.end):
            clauses.take(change["word"])
            clauses.take("of")
            place = clauses.position
            return Named(clauses.column("the name of a relation"), place, change["word"])
        if not clauses.take("table"):
            place = clauses.position
            return Named(clauses.column("rows, table or the name of a relation"), place)
        place = clauses.position
        path = clauses.text()
        if path is None:
            raise clauses.expected(
                "the path of a table in double quotes",
                'as in table "limits.csv" valid [from, to) key road',
            )
        hint = "write the columns of times as in valid [from, to)"
        if not clauses.take("valid"):
            raise clauses.expected("valid", hint)
        self.sign("[", hint)
        start = clauses.column("the column of starts")
        self.sign(",", hint)
        end = clauses.column("the column of ends")
        self.sign(")", hint)
        key = clauses.columns() if clauses.take("key") else ()
        return TableOf(path, start, end, key, place)

    def steps(self, source: Source) -> Iterator[Step]:
        """Read all steps."""
        clauses = self.clauses
        # a word that was probably meant to be a step of the relation behind it
        step = source.name if isinstance(source, Named) and source.name in STEPS else None
        while clauses.word or not clauses.is_at_end:
            place, word = clauses.position, clauses.word
            if word not in STEPS:
                hint = with_advice(word, STEPS, f"the steps are {', '.join(STEPS)}", OTHER_STEPS)
                if step is not None and word:
                    hint = f"the relation comes first: {word} {step} ..."
                raise clauses.expected("a step or the end", hint)
            clauses.take(word)
            step = None
            yield self.step(word, place)

    def step(self, word: str, place: int) -> Step:
        """Read a step behind its first word."""
        clauses = self.clauses
        if word == "valid":
            return self.validity(place)
        if word == "where":
            return Where(self.expression(is_condition=True), place)
        if word == "select":
            return self.selection(place)
        if word == "group":
            return self.group(place)
        if word == "distinct":
            return Distinct(place)
        if word == "coalesce":
            most = clauses.duration("as in coalesce max 1h") if clauses.take("max") else None
            return Coalesce(most, place)
        if word == "split":
            return Split(clauses.duration("as in split 1m"), place)
        if word == "minus" and clauses.take("all"):
            word = "minus all"
        at = clauses.position
        other = clauses.column(f"the name of a relation after {word}")
        condition = None
        if word in {"join", "semijoin"}:
            if not clauses.take("on"):
                raise clauses.expected("on", f"as in {word} {other} on road = way")
            condition = self.expression(is_condition=True)
        return Combine(word, other, condition, at)

    def validity(self, place: int) -> Step:
        """Read how long records are valid, behind `valid`."""
        clauses = self.clauses
        if clauses.take_sign("["):
            return self.own_end(place)
        if clauses.take("for"):
            if not clauses.take("ever"):
                raise clauses.expected("ever", "as in valid for ever, or valid 15m")
            return ValidFor(None, place)
        if not clauses.take("until"):
            hint = "as in valid 15m, valid until next 1h, valid until CONDITION or valid for ever"
            return ValidFor(clauses.duration(hint), place)
        if _NEXT_LENGTH.match(self.reader.text, clauses.position, self.declaration.end):
            clauses.take("next")
            return ValidUntilNext(clauses.duration("as in valid until next 1h"), place)
        condition = self.expression(is_condition=True)
        return ValidUntil(condition, clauses.columns() if clauses.take("per") else (), place)

    def own_end(self, place: int) -> ValidTo:
        """Read the columns of times, behind `valid [`."""
        clauses = self.clauses
        hint = "write the columns of times as in valid [ts, expires)"
        start = clauses.column("the column of starts")
        self.sign(",", hint)
        at = clauses.position
        end = clauses.column("the column of ends")
        span = Span(at, clauses.position)
        self.sign(")", hint)
        return ValidTo(start, Expression(ops.COLUMN, (), end, span), place)

    def selection(self, place: int) -> Select:
        """Read the columns behind `select`."""
        columns: list[tuple[str, Expression]] = []
        while not columns or self.clauses.take_sign(","):
            value = self.expression()
            columns.append((self.named("select a + b as c"), value))
            self.require_new([name for name, _ in columns])
        return Select(tuple(columns), place)

    def group(self, place: int) -> Group:
        """Read the columns and the aggregates behind `group`."""
        clauses = self.clauses
        example = "group station select avg(speed) as v"
        keys: list[str] = []
        computed: list[tuple[str, Expression]] = []
        at = clauses.position
        while clauses.word != "select" and (not keys or clauses.take_sign(",")):
            place_of_key = clauses.position
            name = self.group_key(computed)
            if name in keys:
                message = f"the column {name} is named twice"
                raise self.reader.error(place_of_key, message, "name each column once")
            keys.append(name)
        if keys == [NONE] and not computed and self.reader.text[at] != "`":
            keys = []
        is_own = not keys or _AGGREGATES.match(
            self.reader.text, clauses.position, self.declaration.end
        )
        if not is_own or not clauses.take("select"):
            # `select` without an aggregate is the next step
            return Group(tuple(keys), (), place, tuple(computed))
        found: list[Aggregate] = []
        while not found or clauses.take_sign(","):
            at = clauses.position
            word = clauses.name("an aggregate")
            if word not in AGGREGATES:
                hint = f"the aggregates of groups are {', '.join(AGGREGATES)}"
                hint = with_advice(word, AGGREGATES, hint, OTHER_AGGREGATES)
                raise self.reader.error(at, f"{word} is not an aggregate of groups", hint)
            self.sign("(", f"as in {example}")
            argument = None
            if not clauses.take_sign(")"):
                argument = self.argument(word)
            elif word != "count":
                hint = "only count() has none: it is the number of records"
                raise self.reader.error(at, f"{word} takes an argument", hint)
            found.append(Aggregate(word, argument, self.named(example), at))
            self.require_new([*keys, *(one.name for one in found)])
        return Group(tuple(keys), tuple(found), place, tuple(computed))

    def group_key(self, computed: list[tuple[str, Expression]]) -> str:
        """Read a column, or an expression with a name, which is put down; return the name."""
        clauses = self.clauses
        place = clauses.position
        if clauses.is_at_end:
            raise clauses.expected("columns or select", "as in group station select count() as n")
        value = self.expression()
        if clauses.take("as"):
            name = clauses.column("the name of the column")
            computed.append((name, value))
            return name
        if value.operator not in ops.COLUMNS:
            hint = f"give it a name, as in group {value} as name"
            raise self.reader.error(place, "the value of a group has no name", hint)
        return str(value.name)

    def argument(self, word: str) -> Expression:
        """Read the argument of an aggregate, and the parenthesis behind it."""
        place = self.clauses.position
        if word == "count" and self.clauses.take_sign("*"):
            hint = "write count(), which is the number of records"
            raise self.reader.error(place, "count takes no '*'", hint)
        expression = self.clauses.argument()
        return self.resolved(expression, is_condition=word == "count")

    def named(self, example: str) -> str:
        """Read `as NAME`."""
        if not self.clauses.take("as"):
            raise self.clauses.expected("as and the name of the column", f"as in {example}")
        return self.clauses.column("the name of the column")

    def require_new(self, names: list[str]) -> None:
        """Refuse a name of a column that is there already, or that results have."""
        name = names[-1]
        if name in names[:-1]:
            raise self.clauses.error(f"two columns are called {name}", "give each another name")

    def sign(self, sign: str, hint: str) -> None:
        if not self.clauses.take_sign(sign):
            raise self.clauses.expected(f"'{sign}'", hint)

    def expression(self, *, is_condition: bool = False) -> Expression:
        """Read an expression over the columns of records."""
        return self.resolved(self.clauses.expression(_ENDS), is_condition=is_condition)

    def resolved(self, expression: Expression, *, is_condition: bool) -> Expression:
        found = self.reader.resolved(expression, is_atom=True, is_condition=is_condition)
        for node in postorder(found):
            if node.operator in _NOT_OF_ONE_RECORD:
                message = f"{node} depends on other rows"
                place = self.declaration.start if node.span is None else node.span.start
                hint = "expressions of relations are about one record; aggregate with group"
                if node.operator in ops.LOOK_UPS:
                    message = f"{node} looks into another relation"
                    hint = f"join it: join {column_text(node.looked_up.relation)} on CONDITION"
                if node.operator is ops.STREAM:
                    message = f"{node} is a stream"
                    hint = f"expressions of relations read columns: row.{node}"
                raise self.reader.error(place, message, hint)
        return found


def require_relations(reader: FileReader, relations: Mapping[str, DeclaredRelation]) -> None:
    """Report relations that are not declared, and those that are made of themselves.

    Args:
        reader: the reader of the file.
        relations: the relations that have been read.
    """
    declared = reader.names_of("relation")
    for relation in relations.values():
        for name, place in relation.others:
            if name not in declared:
                hint = "declare it: relation NAME = rows ..."
                hint = with_advice(name, [*declared, "rows", "table"], hint)
                reader.errors.append(reader.error(place, f"there is no relation {name}", hint))
    # those that are left are made of themselves, or of one that is
    waiting = dict(relations)
    while ready := [
        name
        for name, one in waiting.items()
        if not any(other in waiting for other, _ in one.others)
    ]:
        for name in ready:
            del waiting[name]
    for relation in waiting.values():
        place = next((at for name, at in relation.others if name in waiting), relation.place)
        message = f"relation {relation.name} is made of itself"
        hint = "a relation is made of others: " + ", ".join(waiting)
        reader.errors.append(reader.error(place, message, hint))
        return
