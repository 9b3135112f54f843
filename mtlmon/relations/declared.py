"""Makes plans of the relations that policy files declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import MtlmonError, PolicyError
from mtlmon.policy.predicates import expression as expressions
from mtlmon.policy.predicates.instants import read_instant
from mtlmon.policy.predicates.operators import COLUMN, COLUMNS, RECORD_END, RECORD_TIMES
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.validity.declared import (
    At,
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
    reads_rows,
)
from mtlmon.policy.validity.declared import Coalesce as DeclaredCoalesce
from mtlmon.relations import algebra
from mtlmon.relations.typing import Types, kind_in
from mtlmon.syntax.bounds import UNITS
from mtlmon.syntax.formula import Span
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from mtlmon.policy import PolicyFile, Predicate
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.validity.declared import Step
    from mtlmon.relations.algebra import Node

__all__ = [
    "ROWS",
    "Plans",
    "columns_of_rows",
    "columns_to_read",
    "declared_tables",
    "end_columns",
    "table_name",
    "used_relations",
]

ROWS = "rows"
"""The name of the table that has the rows of the log."""

_COMBINED: dict[str, Callable[[Node, Node], Node]] = {
    "union": algebra.Union,
    "unionmax": algebra.UnionMax,
    "minus": algebra.Minus,
    "minus all": algebra.MinusAll,
    "intersect": algebra.Intersect,
}


_CHANGES: dict[str, Callable[[Node], Node]] = {
    "inserts": algebra.Inserts,
    "deletes": algebra.Deletes,
}
# Columns with the starts and ends of records; no column of a file has such a name.
_START, _END = "\0start()", "\0end()"
_IN_ORDER = frozenset({"first", "last"})


class Plans:
    """The plans of the relations of a file.

    A column of a relation that is joined, whose name the left relation has, too, is called by both
    names: `limits_road` is the column `road` of `limits`.

    Args:
        file: the policy file.
        schemas: the columns of each table without those of times: of the log under `ROWS`, and of
            others as `table_name` says.
        environment: the time column, the unit and the zone, for functions of time.
    """

    def __init__(
        self, file: PolicyFile, schemas: Mapping[str, pa.Schema], environment: Environment
    ) -> None:
        self._file = file
        self._types = Types(schemas, environment)
        self._environment = environment
        self._nodes: dict[str, Node] = {}

    def of(self, name: str) -> Node:
        """Return the plan of a relation.

        Raises:
            PolicyError: an expression does not fit the columns of its relation, or relations do
                not fit together; the error says where.
        """
        for one in used_relations(self._file, name):
            if one.name not in self._nodes:
                self._nodes[one.name] = self._plan(one)
        return self._nodes[name]

    def schema(self, name: str) -> pa.Schema:
        """Return the columns of a relation."""
        return self._types.of(self.of(name))

    def _plan(self, relation: DeclaredRelation) -> Node:
        source = relation.source
        if isinstance(source, Rows):
            node: Node = algebra.Source(ROWS)
        elif isinstance(source, TableOf):
            node = algebra.Source(table_name(self._file, source))
        else:
            node = self._nodes[source.name]
            if source.change:
                node = _CHANGES[source.change](node)
        for step in relation.steps:
            try:
                node = self._step(relation, step, node)
                self._types.of(node)
            except PolicyError:
                raise
            except MtlmonError as error:
                raise formula_error(
                    self._file.text,
                    step.place,
                    f"relation {relation.name}: {error}",
                    source=self._file.source,
                    kind=PolicyError,
                ) from None
        return node

    def _step(self, relation: DeclaredRelation, step: Step, of: Node) -> Node:
        def of_relation(expression: Expression) -> Predicate:
            return self._file.predicate(expression, relation.name, "relation")

        if isinstance(step, Where):
            timed, (condition,) = self._timed(of, [step.condition])
            found: Node = algebra.Where(timed, of_relation(condition))
            return found if timed is of else self._selected(found, self._types.of(of).names)
        if isinstance(step, Select):
            of, values = self._timed(of, [one for _, one in step.columns])
            names = (name for name, _ in step.columns)
            return algebra.Select(of, tuple(zip(names, map(of_relation, values), strict=True)))
        if isinstance(step, Group):
            return self._group(step, of, of_relation)
        if isinstance(step, ValidFor):
            return algebra.ValidFor(of, None if step.length is None else _units(step.length))
        if isinstance(step, ValidTo):
            self._require_start(relation, step)
            return algebra.ValidTo(of, of_relation(step.end))
        if isinstance(step, ValidUntilNext):
            return algebra.ValidUntilNext(of, _units(step.length))
        if isinstance(step, ValidUntil):
            end = of_relation(step.condition)
            if step.condition.operator in COLUMNS and not step.per:
                kind = kind_in(self._types.of(of), end, self._environment)
                if kind.name in {"integer", "time"}:
                    return algebra.ValidTo(of, end)
            return algebra.ValidUntil(of, end, step.per)
        if isinstance(step, ValidLast):
            return algebra.ValidLast(of, step.rows, step.per)
        if isinstance(step, Distinct):
            return algebra.Distinct(of) if step.on is None else self._latest(of, step.on)
        if isinstance(step, DeclaredCoalesce):
            return algebra.Coalesce(of, None if step.most is None else _units(step.most))
        if isinstance(step, Combine):
            return self._combined(step, of, of_relation)
        return self._of_times(step, of)

    def _of_times(self, step: Split | Every | Shift | At, of: Node) -> Node:
        """The plan of a step that only looks at times."""
        if isinstance(step, Split):
            return algebra.Split(of, _units(step.length))
        if isinstance(step, Every):
            return algebra.Every(self._records(of), _units(step.length))
        if isinstance(step, Shift):
            length = _units(step.length) * (-1 if step.is_negative else 1)
            start, end = (0 if step.word == other else length for other in ("end", "start"))
            return algebra.Shift(self._records(of), start, end)
        return algebra.At(of, self._time(step))

    def _combined(
        self, step: Combine, of: Node, of_relation: Callable[[Expression], Predicate]
    ) -> Node:
        """The plan of a step that takes another relation."""
        other = self._nodes[step.relation]
        if step.condition is None:
            return _COMBINED[step.word](of, other)
        condition, names = of_relation(step.condition), self._names(of, step)
        if step.word == "join":
            return algebra.Join(of, other, condition, names)
        return algebra.Semijoin(of, other, condition, names)

    def _group(self, step: Group, of: Node, of_relation: Callable[[Expression], Predicate]) -> Node:
        """The plan of a group; what is not a column of the operand becomes one before."""
        arguments = {one.name: one.argument for one in step.aggregates if one.argument is not None}
        asked = [*(one for _, one in step.computed), *arguments.values()]
        in_order = any(one.own or one.word in _IN_ORDER for one in step.aggregates)
        of, found = self._timed(of, asked, has_start=in_order)
        values = dict(zip((name for name, _ in step.computed), found, strict=False))
        arguments = dict(zip(arguments, found[len(values) :], strict=True))
        order = _START if in_order else ""
        if step.computed:
            columns = {name: values.get(name) or _column(name, step.place) for name in step.keys}
            hidden = {name: f"value of {name}" for name in arguments}
            hidden = {name: f"{one}_" if one in columns else one for name, one in hidden.items()}
            columns |= {hidden[name]: one for name, one in arguments.items()}
            arguments = {name: _column(one, step.place) for name, one in hidden.items()}
            if in_order:
                columns[_START] = _column(_START, step.place)
            predicates = ((name, of_relation(one)) for name, one in columns.items())
            of = algebra.Select(of, tuple(predicates))
        aggregations = (
            algebra.Aggregation(
                one.name,
                one.word,
                of_relation(arguments[one.name]) if one.name in arguments else None,
                None if one.share is None else float(str(one.share)),
                one.own,
                order if one.own or one.word in _IN_ORDER else "",
            )
            for one in step.aggregates
        )
        return algebra.Group(of, step.keys, tuple(aggregations))

    def _latest(self, of: Node, keys: tuple[str, ...]) -> Node:
        return algebra.DistinctOn(algebra.Timed(self._records(of), _START), keys, _START)

    def _records(self, of: Node) -> Node:
        """A relation whose records can be looked at: where they are cut is no matter of batches."""
        return of if algebra.is_of_records(of) else algebra.Coalesce(of)

    def _timed(
        self, of: Node, values: Sequence[Expression], *, has_start: bool = False
    ) -> tuple[Node, list[Expression]]:
        """Give a relation columns for the starts and ends that expressions mention.

        Args:
            of: the relation.
            values: the expressions.
            has_start: whether the starts are wanted whatever expressions mention.

        Returns:
            The relation, or what has these columns, too; and the expressions that read them.
        """
        mentioned = {node.operator for one in values for node in postorder(one)}
        times = mentioned.intersection(RECORD_TIMES.values())
        if not times and not has_start:
            return of, list(values)
        start = _START if has_start or times - {RECORD_END} else None
        end = _END if RECORD_END in times else None
        return algebra.Timed(self._records(of), start, end), [_with_columns(one) for one in values]

    def _selected(self, of: Node, names: Iterable[str]) -> Node:
        """A relation with some of its columns only."""
        columns = ((name, self._file.predicate(_column(name, 0), "", "relation")) for name in names)
        return algebra.Select(of, tuple(columns))

    def _time(self, step: At) -> int:
        """The time of a slice in units of the time-stamps.

        Raises:
            MtlmonError: the unit is not known, or the time is not a whole number of units.
        """
        if isinstance(step.time, int):
            return step.time
        unit = self._environment.unit
        if unit is None:
            raise MtlmonError(f"at {step.time}: say in which unit time-stamps are, as in `unit s`")
        instant = read_instant(str(step.time))
        assert instant is not None
        found = instant[0] / UNITS[unit]
        if found.denominator != 1:
            raise MtlmonError(f"at {step.time} is not a whole number of the unit, {unit}")
        return int(found)

    def _require_start(self, relation: DeclaredRelation, step: ValidTo) -> None:
        """Require that records begin at the times of their rows."""
        time = self._environment.time
        if time is not None and step.start != time:
            raise formula_error(
                self._file.text,
                step.place,
                f"relation {relation.name}: a row's record begins at its time, which is {time}",
                source=self._file.source,
                hint=f"write valid [{column_text(time)}, {step.end})",
                kind=PolicyError,
            )

    def _names(self, left: Node, step: Combine) -> tuple[str, ...]:
        """What the columns of a joined relation are called."""
        taken = list(self._types.of(left).names)
        names: list[str] = []
        own = self._types.of(self._nodes[step.relation]).names
        for name in own:
            shown = name
            while shown in taken or shown in names or (shown != name and shown in own):
                shown = f"{step.relation}_{shown}"
            names.append(shown)
        return tuple(names)


def _with_columns(value: Expression) -> Expression:
    """An expression that reads starts and ends of records as columns."""
    found: dict[int, Expression] = {}
    for node in postorder(value):
        operands = tuple(found[id(operand)] for operand in node.operands)
        operator, own = node.operator, node.value
        if operator in RECORD_TIMES.values():
            name = _END if operator is RECORD_END else _START
            operator, own = COLUMN, expressions.ComputedColumn(name, node)
        found[id(node)] = expressions.Expression(operator, operands, own, node.span)
    return found[id(value)]


def _column(name: str, place: int) -> Expression:
    return expressions.Expression(COLUMN, (), name, Span(place, place))


def used_relations(file: PolicyFile, name: str) -> Iterator[DeclaredRelation]:
    """Yield a relation of a file and all that it is made of, each after those that it uses."""
    seen: set[str] = set()
    stack = [(name, False)]
    while stack:
        one, is_ready = stack.pop()
        if is_ready:
            yield file.intervals[one]
        elif one not in seen:
            seen.add(one)
            stack.append((one, True))
            stack += [(other, False) for other, _ in file.intervals[one].others]


def end_columns(file: PolicyFile, name: str) -> set[str]:
    """Return the columns of the log with ends of records that a relation is made of."""
    return {
        column
        for one in used_relations(file, name)
        for place, step in enumerate(one.steps)
        if (end := _own_end(file, step)) is not None
        and (column := _column_of_log(file, one, end, place)) is not None
    }


def _own_end(file: PolicyFile, step: Step) -> Expression | None:
    """The column with ends that records have themselves, if a step reads one."""
    if isinstance(step, ValidTo):
        return step.end
    if isinstance(step, ValidUntil) and step.condition.operator in COLUMNS:
        is_time = file.column_types.get(step.condition.name) in {"int", "time"}
        return step.condition if is_time else None
    return None


def _column_of_log(
    file: PolicyFile, relation: DeclaredRelation, column: Expression, steps: int
) -> str | None:
    """The column of the log that a column is behind some steps of a relation, if it is one."""
    for step in reversed(relation.steps[:steps]):
        if isinstance(step, Select):
            found = dict(step.columns).get(column.name)
            if found is None or found.operator not in COLUMNS:
                return None
            column = found
        elif isinstance(step, Group | Combine):
            return None
    if isinstance(relation.source, Named):
        source = file.intervals[relation.source.name]
        return _column_of_log(file, source, column, len(source.steps))
    return column.name if isinstance(relation.source, Rows) else None


def declared_tables(file: PolicyFile, name: str) -> list[TableOf]:
    """Return the tables that a relation is made of, by its declaration or by way of others."""
    found = [one.source for one in used_relations(file, name)]
    return [one for one in found if isinstance(one, TableOf)]


def table_name(file: PolicyFile, source: TableOf) -> str:
    """Return the name by which plans read a table of a file.

    It is its path, with the columns of times if an earlier relation reads others as times.
    """
    sources = [one.source for one in file.intervals.values()]
    first = next(one for one in sources if isinstance(one, TableOf) and one.shown == source.shown)
    if (first.start, first.end) == (source.start, source.end):
        return source.shown
    if source.end is None:
        return f"{source.shown} [{source.start or 'time'}]"
    return f"{source.shown} [{source.start}, {source.end})"


def columns_of_rows(file: PolicyFile, name: str) -> tuple[list[str], bool] | None:
    """Return which columns of the log a relation reads.

    Returns:
        The names that it mentions, some of which can be columns of other tables, and whether it
        has all other columns of the log, too; None if it does not read the log. Columns of a
        relation that is joined may be called by its name, too: `limits_road` also means `road`.
    """
    if not reads_rows(file.intervals, name):
        return None
    used = list(used_relations(file, name))
    mentioned = dict.fromkeys(
        column for relation in used for step in relation.steps for column in _mentioned(step)
    )
    is_open, matches_all = _open_relations(used)
    return _without_prefixes(mentioned, file.intervals), matches_all or is_open[name]


def columns_to_read(
    file: PolicyFile,
    name: str,
    wanted: Iterable[str],
    of_log: Callable[[], Sequence[str] | None],
    *,
    needs_all: bool = False,
) -> list[str] | None:
    """Return which columns of the log must be read to look values up in a relation.

    Args:
        file: the policy file.
        name: the name of the relation, which reads the rows of the log.
        wanted: the columns of the relation that look-ups name.
        of_log: returns all columns of the log, if they can be known before it is read. Only then
            is it known what belongs to rows and what to tables that are joined with them.
        needs_all: whether all columns of the relation matter, as for `distinct`.

    Returns:
        The columns; None if that depends on those of the log, which are not known.
    """
    is_open: dict[str, bool] = {}
    needed: dict[str, None] = {}
    is_certain = True
    for relation in used_relations(file, name):
        source = relation.source
        has_all = isinstance(source, Rows) or (isinstance(source, Named) and is_open[source.name])
        if isinstance(source, Named) and source.change:
            is_certain &= not has_all
        for step in relation.steps:
            if isinstance(step, Combine):
                is_certain &= not has_all and not is_open[step.relation]
            elif _compares_all(step):
                is_certain &= not has_all
            if has_all:
                needed.update(dict.fromkeys(_mentioned(step)))
            has_all &= not isinstance(step, Select | Group)
        is_open[relation.name] = has_all
    if is_open[name]:
        needed.update(dict.fromkeys(wanted))
    compares_all = needs_all and is_open[name]
    if is_certain and not compares_all:
        return list(needed)
    known = of_log()
    if known is None:
        return None
    names, _ = columns_of_rows(file, name) or ((), False)
    may_be_open, matches_all = _open_relations(used_relations(file, name))
    matches_all |= needs_all and may_be_open[name]
    named = {*names, *needed, *_without_prefixes(wanted, file.intervals)}
    return [one for one in known if matches_all or one in named]


def _without_prefixes(names: Iterable[str], relations: Iterable[str]) -> list[str]:
    """Names of columns, also without the names of relations before them."""
    prefixes = tuple(f"{one}_" for one in relations)
    found: dict[str, None] = {}
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found[name] = None
            left += [name.removeprefix(prefix) for prefix in prefixes]
    return list(found)


def _open_relations(relations: Iterable[DeclaredRelation]) -> tuple[dict[str, bool], bool]:
    """Find which relations have all columns of the log, and whether these tell records apart.

    Relations are united and taken from one another by all of their columns.

    Args:
        relations: each after those that it uses.
    """
    is_open: dict[str, bool] = {}
    matches_all = False
    for relation in relations:
        source = relation.source
        has_all = isinstance(source, Rows) or (isinstance(source, Named) and is_open[source.name])
        matches_all |= has_all and isinstance(source, Named) and bool(source.change)
        for step in relation.steps:
            if _compares_all(step):
                matches_all |= has_all
            elif isinstance(step, Select | Group):
                has_all = False
            elif isinstance(step, Combine):
                has_all |= is_open[step.relation]
                matches_all |= step.condition is None and has_all
        is_open[relation.name] = has_all
    return is_open, matches_all


def _compares_all(step: Step) -> bool:
    """Whether a step on one relation depends on all of its columns."""
    return isinstance(step, Distinct | DeclaredCoalesce)


def _mentioned(step: Step) -> Iterator[str]:
    """The columns that a step names."""
    if isinstance(step, Where | ValidUntil) or (isinstance(step, Combine) and step.condition):
        assert step.condition is not None
        yield from expressions.columns(step.condition)
    if isinstance(step, ValidTo):
        yield from expressions.columns(step.end)
    if isinstance(step, ValidUntil | ValidLast):
        yield from step.per
    if isinstance(step, Distinct):
        yield from step.on or ()
    if isinstance(step, Select):
        yield from expressions.columns(*(one for _, one in step.columns))
    if isinstance(step, Group):
        values = dict(step.computed)
        yield from (name for name in step.keys if name not in values)
        yield from expressions.columns(*values.values())
        arguments = [one.argument for one in step.aggregates if one.argument is not None]
        yield from expressions.columns(*arguments)


def _units(length: object) -> int:
    """A length of time in units of the time-stamps, which are known."""
    assert isinstance(length, int)
    return length
