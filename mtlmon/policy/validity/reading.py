"""Reads `relation NAME = SOURCE STEP ...`, and checks what does not depend on tables."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from mtlmon.policy.clauses import NONE
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.instants import read_instant
from mtlmon.policy.predicates.keywords import CLAUSES
from mtlmon.policy.predicates.own_aggregates import registered
from mtlmon.policy.predicates.own_functions import registered_function
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.validity.declared import (
    AGGREGATES,
    COMBINATIONS,
    Aggregate,
    At,
    Coalesce,
    Combine,
    DeclaredRelation,
    Distinct,
    Every,
    Group,
    Named,
    Rows,
    Select,
    Shift,
    Split,
    TableOf,
    ValidFor,
    ValidLast,
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
    from collections.abc import Collection, Iterator, Mapping

    from mtlmon.policy.clauses import ClauseReader
    from mtlmon.policy.declarations import Declaration
    from mtlmon.policy.predicates.expression import Constant
    from mtlmon.policy.reading import FileReader
    from mtlmon.policy.validity.declared import Source, Step

__all__ = ["RelationReader", "require_relations"]

STEPS = (
    *("valid", "where", "select", "group", *(one for one in COMBINATIONS if " " not in one)),
    *("distinct", "coalesce", "split", "every", "shift", "at"),
)
"""The words that steps begin with."""

_ENDS = frozenset({*CLAUSES, *STEPS})
_CHANGE = re.compile(r"(?P<word>inserts|deletes)\s+of\b")
_CALL = re.compile(r"(?P<word>[^\W\d]\w*)\s*\(")
_LAST_ROWS = re.compile(r"last\s+[0-9]")
_NEXT_LENGTH = re.compile(r"next\s+[0-9]")
_GROUP = "group station select avg(speed) as v"
_LATEST = 2**63 - 1
_MOST_ROWS = 10**9
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
            if not clauses.take("of"):
                return Rows()
            path, place, is_named = self.table('as in rows of "payments.csv"')
            time = clauses.column("the column of times") if clauses.take("time") else None
            return TableOf(path, time, None, (), place, is_named)
        if change := _CHANGE.match(self.reader.text, clauses.position, self.declaration.end):
            clauses.take(change["word"])
            clauses.take("of")
            place = clauses.position
            return Named(clauses.column("the name of a relation"), place, change["word"])
        if not clauses.take("table"):
            place = clauses.position
            return Named(clauses.column("rows, table or the name of a relation"), place)
        path, place, is_named = self.table('as in table "limits.csv" valid [from, to) key road')
        hint = "write the columns of times as in valid [from, to)"
        if not clauses.take("valid"):
            raise clauses.expected("valid", hint)
        self.sign("[", hint)
        start = clauses.column("the column of starts")
        self.sign(",", hint)
        end = clauses.column("the column of ends")
        self.sign(")", hint)
        key = clauses.columns() if clauses.take("key") else ()
        return TableOf(path, start, end, key, place, is_named)

    def table(self, example: str) -> tuple[str, int, bool]:
        """Read the path of a table, or its name; return it, its place, and whether it is a name."""
        clauses = self.clauses
        place = clauses.position
        path = clauses.text()
        if path is not None:
            return path, place, False
        if not clauses.word and not self.reader.text.startswith("`", place):
            raise clauses.expected("the path of a table in double quotes, or its name", example)
        return clauses.column("the name of a table"), place, True

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
            if word == "group":
                yield from self.group(place)
            else:
                yield self.step(word, place)

    def step(self, word: str, place: int) -> Step:
        """Read a step behind its first word."""
        clauses = self.clauses
        if word == "valid":
            return self.validity(place)
        if word == "where":
            return Where(self.expression(is_condition=True, has_times=True), place)
        if word == "select":
            return self.selection(place)
        if word == "distinct":
            return Distinct(place, clauses.columns() if clauses.take("on") else None)
        if word == "every":
            return Every(clauses.duration("as in every 5m"), place)
        if word == "shift":
            return self.shift(place)
        if word == "at":
            return self.at()
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
        if _LAST_ROWS.match(self.reader.text, clauses.position, self.declaration.end):
            return self.last_rows(place)
        if not clauses.take("until"):
            hint = (
                "as in valid 15m, valid last 100 rows, valid until next 1h, valid until CONDITION "
                "or valid for ever"
            )
            return ValidFor(clauses.duration(hint), place)
        if _NEXT_LENGTH.match(self.reader.text, clauses.position, self.declaration.end):
            clauses.take("next")
            return ValidUntilNext(clauses.duration("as in valid until next 1h"), place)
        condition = self.expression(is_condition=True)
        return ValidUntil(condition, clauses.columns() if clauses.take("per") else (), place)

    def last_rows(self, place: int) -> ValidLast:
        """Read how many later records end one, behind `valid`."""
        clauses = self.clauses
        clauses.take("last")
        at = clauses.position
        count = clauses.number("a number of rows")
        if count.denominator != 1 or not 1 <= count <= _MOST_ROWS:
            message = f"valid last takes a whole number of rows, from 1 to {_MOST_ROWS}"
            raise self.reader.error(at, message, "as in valid last 100 rows")
        if not clauses.take("rows"):
            raise clauses.expected("rows", f"as in valid last {count} rows, or valid {count}s")
        return ValidLast(int(count), clauses.columns() if clauses.take("per") else (), place)

    def shift(self, place: int) -> Shift:
        """Read what is shifted, and by how much."""
        clauses = self.clauses
        word = next((one for one in ("start", "end") if clauses.take(one)), "")
        is_negative = clauses.take_sign("-")
        if not is_negative:
            clauses.take_sign("+")
        length = clauses.duration("as in shift 5m, shift start 5m or shift end -5m")
        return Shift(word, length, is_negative, place)

    def at(self) -> At:
        """Read a time."""
        clauses = self.clauses
        place = clauses.position
        found = clauses.text()
        if found is not None:
            if read_instant(found) is None:
                hint = 'as in at "2024-05-31" or at "2024-05-31T12:30:00Z"'
                raise self.reader.error(place, f"{found!r} is not a time", hint)
            return At(found, place)
        is_negative = clauses.take_sign("-")
        number = clauses.number("a time in double quotes, or a number")
        if number.denominator != 1 or number > _LATEST:
            message = f"a time is a whole number, at most {_LATEST}"
            raise self.reader.error(place, message, 'as in at 1200, or at "2024-05-31"')
        return At(-int(number) if is_negative else int(number), place)

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
            value = self.expression(has_times=True)
            columns.append((self.named("select a + b as c"), value))
            self.require_new([name for name, _ in columns])
        return Select(tuple(columns), place)

    def group(self, place: int) -> Iterator[Step]:
        """Read the columns and the aggregates behind `group`.

        Expressions with aggregates are computed by `select` behind the group. A `select` without
        any aggregate is the next step.
        """
        clauses = self.clauses
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
        if keys and clauses.word != "select":
            yield Group(tuple(keys), (), place, tuple(computed))
            return
        selected = clauses.position
        if not clauses.take("select"):
            raise clauses.expected("columns or select", "as in group station select count() as n")
        aggregates = _Aggregates(self, keys)
        columns: list[tuple[str, Expression]] = []
        while not columns or clauses.take_sign(","):
            self.require_known_call()
            at = clauses.position
            value = self.resolved(clauses.expression(_ENDS, aggregates), is_condition=False)
            columns.append((self.named(_GROUP), value))
            self.require_new([name for name, _ in columns])
            if aggregates.found:
                self.require_new([*keys, columns[-1][0]])
                self.require_of_group(value, [*keys, *aggregates.found], at)
        if not aggregates.found:
            if not keys:
                hint = f"as in {_GROUP}; without aggregates, leave out group"
                raise self.reader.error(selected, "select has no aggregate of the group", hint)
            yield Group(tuple(keys), (), place, tuple(computed))
            yield Select(tuple(columns), selected)
            return
        found = aggregates.found
        are_plain = all(one.operator is ops.COLUMN and one.name in found for _, one in columns)
        if are_plain:
            own = (found[value.name]._replace(name=name) for name, value in columns)
            yield Group(tuple(keys), tuple(own), place, tuple(computed))
            return
        yield Group(tuple(keys), tuple(found.values()), place, tuple(computed))
        of_keys = ((key, Expression(ops.COLUMN, (), key, Span(place, place))) for key in keys)
        yield Select((*of_keys, *columns), selected)

    def require_known_call(self) -> None:
        """Refuse what would be called next if there is nothing of that name."""
        at = self.clauses.position
        call = _CALL.match(self.reader.text, at, self.declaration.end)
        word = "" if call is None else call["word"]
        is_function = word in ops.FUNCTIONS or registered_function(word) is not None
        is_known = word in AGGREGATES or registered(word) is not None or word in ops.RECORD_TIMES
        if word not in {"", "not", "if"} and not is_function and not is_known:
            hint = f"the aggregates of groups are {', '.join(AGGREGATES)}"
            hint = with_advice(word, AGGREGATES, hint, OTHER_AGGREGATES)
            raise self.reader.error(at, f"{word} is not an aggregate of groups", hint)

    def require_of_group(self, value: Expression, names: Collection[str], place: int) -> None:
        """Refuse columns that a group does not have."""
        for node in postorder(value):
            if node.operator in ops.COLUMNS and node.name not in names:
                place = place if node.span is None else node.span.start
                message = f"{node} is neither an aggregate nor a column of the group"
                raise self.reader.error(place, message, f"aggregate it, as in max({node})")

    def group_key(self, computed: list[tuple[str, Expression]]) -> str:
        """Read a column, or an expression with a name, which is put down; return the name."""
        clauses = self.clauses
        place = clauses.position
        if clauses.is_at_end:
            raise clauses.expected("columns or select", "as in group station select count() as n")
        value = self.expression(has_times=True)
        if clauses.take("as"):
            name = clauses.column("the name of the column")
            computed.append((name, value))
            return name
        if value.operator not in ops.COLUMNS:
            hint = f"give it a name, as in group {value} as name"
            raise self.reader.error(place, "the value of a group has no name", hint)
        return str(value.name)

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

    def expression(self, *, is_condition: bool = False, has_times: bool = False) -> Expression:
        """Read an expression over the columns of records, and perhaps their times."""
        written = self.clauses.expression(_ENDS)
        return self.resolved(written, is_condition=is_condition, has_times=has_times)

    def resolved(
        self, expression: Expression, *, is_condition: bool, has_times: bool = True
    ) -> Expression:
        found = self.reader.resolved(
            expression, is_atom=True, is_condition=is_condition, is_record=has_times
        )
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


class _Aggregates:
    """Reads the aggregates of a group within expressions, which get columns in their place.

    Args:
        reader: reads the relation.
        taken: the columns of the group.

    Attributes:
        found: the aggregates by the names of their columns, which are as they are written.
    """

    def __init__(self, reader: RelationReader, taken: Collection[str]) -> None:
        self.found: dict[str, Aggregate] = {}
        self._reader = reader
        self._taken = taken

    def reads(self, word: str) -> bool:
        """Whether a word before a parenthesis can be an aggregate."""
        return word in AGGREGATES or registered(word) is not None

    def read_aggregate(self, position: int, end: int) -> tuple[Expression, int] | None:
        """Return the column of the aggregate at a position, and the position behind it."""
        reader = self._reader
        clauses = reader.reader.clauses(position, end)
        word = clauses.name("an aggregate")
        clauses.take_sign("(")
        star = clauses.position
        if word == "count" and clauses.take_sign("*"):
            hint = "write count(), which is the number of records"
            raise reader.reader.error(star, "count takes no '*'", hint)
        arguments = clauses.arguments()
        if word in {"min", "max"} and len(arguments) == 2:
            return None
        behind = reader.reader.text.rindex(")", 0, clauses.position) + 1
        if not arguments and word != "count":
            hint = "only count() has none: it is the number of records"
            raise reader.reader.error(position, f"{word} takes an argument", hint)
        own = None if word in AGGREGATES else registered(word)
        share = self.share(word, [clauses.expression_at(*one) for one in arguments], position)
        of = None
        if arguments:
            of = clauses.expression_at(*arguments[0])
            of = reader.resolved(of, is_condition=word in {"count", "any", "all"})
        found = Aggregate(word, of, "", position, share, own)
        name = found.text(None)
        while name in self._taken:
            name += "_"
        self.found[name] = found._replace(name=name)
        return Expression(ops.COLUMN, (), name, Span(position, behind)), behind

    def share(self, word: str, arguments: list[Expression], position: int) -> Constant:
        """The second argument of a quantile; nothing else has one."""
        count = 2 if word == "quantile" else 1
        hint = "as in quantile(x, 0.99)" if count == 2 else f"as in {word}(x)"
        if len(arguments) > count or len(arguments) < count == 2:
            takes = "one argument" if count == 1 else "two arguments"
            message = f"{word} takes {takes}, not {len(arguments)}"
            raise self._reader.reader.error(position, message, hint)
        if count == 1:
            return None
        share = arguments[1].constant if arguments[1].operator is ops.CONSTANT else None
        if isinstance(share, int | Decimal) and not isinstance(share, bool) and 0 <= share <= 1:
            return share
        span = arguments[1].span or Span(position, position)
        message = "a quantile is a number from 0 to 1"
        raise self._reader.reader.error(span.start, message, hint)


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
