"""Streams with `per`: when their instances begin and end, and who can read them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression, Offset
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.predicates.time_points import MEMORY, ROWS
from mtlmon.syntax.interval import MAXIMUM_BOUND
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import operands_of_nested, postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mtlmon.errors import FormulaError
    from mtlmon.policy.policy_file import PolicyFile
    from mtlmon.policy.predicates.operators import Operator

Per: TypeAlias = "tuple[tuple[Expression, str | None], ...]"
"""The expressions behind `per`, each with the name of its parameter or None."""

OF_INSTANCES = frozenset({ops.OVER, ops.INSTANCE})
"""The operators that read instances of a stream."""

# A condition with more alternatives says less about the instances that a row calls.
_MOST_ALTERNATIVES = 16


class Lifetime(NamedTuple):
    """When the instances of a stream begin and end; streams that share it share their instances.

    Attributes:
        keys: the expressions whose values tell instances apart.
        start: where an instance may begin, at the rows that belong to it; None for all of them.
        has_end: whether instances end.
        end: the rows where instances end; None for all rows.
        end_keys: the key of the instance that ends; () if all of the trace end.
        age: how long after its first row an instance ends, in units of time; 0 for never.
        silence: how long after its last row an instance ends; 0 for never.
        own_end: which of its own rows and ticks end an instance, by what streams of it have there;
            None if none do.
        clock: where instances begin and end: `ROWS`, or a period if it is at ticks of the trace.
            What is said of rows here is then about these.
    """

    keys: tuple[Expression, ...]
    start: Expression | None
    has_end: bool
    end: Expression | None
    end_keys: tuple[Expression, ...]
    age: int = 0
    silence: int = 0
    own_end: Expression | None = None
    clock: int = ROWS

    @property
    def expressions(self) -> list[Expression]:
        """The expressions that say when instances begin and end, but `own_end`."""
        others = [one for one in (self.start, self.end) if one is not None]
        return [*self.keys, *others, *self.end_keys]


class TemplateError(Exception):
    """What is not possible with instances; the caller makes an error with a place of it."""

    def __init__(self, node: Expression, message: str, hint: str) -> None:
        super().__init__(message)
        self.node = node
        self.message = message
        self.hint = hint


def lifetime_of(
    per: Per, start: Expression | None, end: Expression | None, streams: Mapping[str, Per]
) -> Lifetime:
    """Return when the instances of a stream with `per` begin and end.

    Args:
        per: the expressions that tell instances apart, each with the name of its parameter or None.
        start: what is written behind `from`, or None.
        end: what is written behind `until`, or None.
        streams: for each stream what tells its instances apart.

    Raises:
        TemplateError: `until` names some instances, but neither one nor all of the trace.
    """
    keys = keys_of(per)
    own = dict(zip(_names(per), keys, strict=True))
    for clause in (start, end):
        if clause is not None:
            _require_present(clause)
    start = None if start is None else _replaced(start, own)
    if end is None:
        return Lifetime(keys, start, False, None, ())
    times = {ops.AGE: 0, ops.SILENCE: 0}
    own_end, end = _split_by_streams(_without_times(end, times), keys, streams)
    age, silence = times.values()
    own_end = None if own_end is None else _replaced(own_end, own)
    if end is None:
        return Lifetime(keys, start, False, None, (), age, silence, own_end)
    rest = operands_of_nested(end, ops.AND)
    found: dict[str, Expression] = {}
    for conjunct in list(rest):
        name, other = _named_by(conjunct)
        if name is not None and name not in found:
            found[name] = other
            rest.remove(conjunct)
    named = [node for node in postorder(*rest) if node.operator is ops.PARAMETER]
    if found:
        constants = {name: key for name, key in own.items() if key.operator is ops.CONSTANT}
        found = {**constants, **found}
    if found and len(found) < len(keys):
        missing = next(name for name in own if name not in found)
        message = f"until names {', '.join(found)}, but not {missing}"
        hint = "it ends one instance, and names all of its values, or all instances of the trace"
        raise TemplateError(end, message, hint)
    if named and not found:
        message = f"until does not say which {named[0].name} it means"
        hint = f"write until EXPRESSION = {named[0].name}, and other conditions with and"
        raise TemplateError(named[0], message, hint)
    # The instance that ends has these values.
    parts = [_replaced(one, found) for one in rest]
    end_keys = tuple(found[name] for name in own) if found else ()
    return Lifetime(keys, start, True, joined(ops.AND, parts), end_keys, age, silence, own_end)


def with_keys(expression: Expression, per: Per, *, is_at_ticks: bool) -> Expression:
    """Replace the parameters of instances by what has their values at rows, or at ticks, too."""
    keys = dict(zip(_names(per), keys_of(per), strict=True))
    if is_at_ticks:
        keys = {
            name: Expression(ops.HOLD, (key,), Offset(0), key.span) for name, key in keys.items()
        }
    return _replaced(expression, keys)


def _split_by_streams(
    end: Expression | None, keys: tuple[Expression, ...], streams: Mapping[str, Per]
) -> tuple[Expression | None, Expression | None]:
    """Split what ends instances into what reads streams of the instance, and the rest.

    Raises:
        TemplateError: such a stream is read in a window or offset.
    """
    parts: tuple[list[Expression], list[Expression]] = ([], [])
    for condition in [] if end is None else operands_of_nested(end, ops.OR):
        is_own = False
        for node in _outside_instances(condition):
            if node.operator is ops.STREAM and keys_of(streams.get(node.name, ())) == keys:
                is_own = True
        if is_own:
            for node in postorder(condition):
                if node.operator in MEMORY:
                    message = "until reads streams of the instance at the row or tick that ends it"
                    hint = f"declare a stream with the same clauses: stream NAME = {node}"
                    raise TemplateError(node, message, hint)
        parts[0 if is_own else 1].append(condition)
    own, rest = parts
    return joined(ops.OR, own), joined(ops.OR, rest)


def _without_times(end: Expression, times: dict[Operator, int]) -> Expression | None:
    """Take the comparisons of lengths of time out of what ends instances; return the rest.

    Args:
        end: what is written behind `until`.
        times: for AGE and SILENCE after how much time instances end, 0 for never; the least is
            put in.

    Raises:
        TemplateError: a length of time is used in another way.
    """
    others: list[Expression] = []
    for condition in operands_of_nested(end, ops.OR):
        used = next((one for one in postorder(condition) if one.operator in times), None)
        if used is None:
            others.append(condition)
            continue
        word = used.operator.word
        operator, operands = condition.operator, condition.operands
        if operator in ops.ORDERINGS and operands[1] is used:
            operator, operands = ops.MIRRORED[operator], operands[::-1]
        is_fine = operator in {ops.GREATER, ops.GREATER_EQUAL} and operands[0] is used
        length = operands[1].value if is_fine and operands[1].operator is ops.CONSTANT else None
        if not isinstance(length, int) or isinstance(length, bool):
            hint = f"write {word}() > 10m, and other conditions with or"
            raise TemplateError(used, f"{word}() is compared with a length of time alone", hint)
        length += operator is ops.GREATER
        if length < 1:
            hint = "an instance is alive at its own rows at least"
            raise TemplateError(used, f"{word}() is never below 0", hint)
        if length <= MAXIMUM_BOUND:
            # otherwise, no time is so late
            times[used.operator] = min(length, times[used.operator] or length)
    return joined(ops.OR, others)


class Call(NamedTuple):
    """Instances that a row calls: a stream with `per` may have a value in them there.

    Attributes:
        keys: what the values behind `per` are; () for all living instances of the trace.
        where: where the row does so; None for all rows.
    """

    keys: tuple[Expression, ...]
    where: Expression | None = None


def condition_and_calls(
    per: Per, on: Expression | None, streams: Mapping[str, Per]
) -> tuple[Expression | None, tuple[Call, ...]]:
    """Return where a stream with `per` has a value.

    Args:
        per: the expressions that tell instances apart, each with the name of its parameter or None.
        on: what is written behind `on`, or None.
        streams: for each stream what tells its instances apart.

    Returns:
        A condition, None if it always holds, and what a row calls: the condition matters for these
        instances. It calls its own instance alone if that is ().
    """
    if on is None:
        return None, ()
    names = _names(per)
    own = dict(zip(names, keys_of(per), strict=True))
    constants = {name: key for name, key in own.items() if key.operator is ops.CONSTANT}
    calls: dict[Call, None] = {}
    for named, plain in _alternatives(on, own, streams):
        found = constants | named
        if len(found) == len(own):
            calls[Call(tuple(found[name] for name in names))] = None
        else:
            calls[Call((), joined(ops.AND, plain))] = None
    if set(calls) != {Call(keys_of(per))}:
        return on, tuple(calls)
    # what says that the row is the instance's own is always true
    rest = operands_of_nested(on, ops.AND)
    for conjunct in list(rest):
        name, other = _named_by(conjunct)
        if name is not None and own.get(name) == other:
            rest.remove(conjunct)
    return joined(ops.AND, rest), ()


def _alternatives(
    condition: Expression, own: Mapping[str, Expression], streams: Mapping[str, Per]
) -> list[tuple[dict[str, Expression], list[Expression]]]:
    """Split a condition into alternatives, of which one is true where the condition is.

    Returns:
        For each of them what some values behind `per` are then, and parts of it that are about the
        row alone.
    """
    if condition.operator is ops.OR:
        return [
            one
            for operand in operands_of_nested(condition, ops.OR)
            for one in _alternatives(operand, own, streams)
        ]
    if condition.operator is ops.AND:
        found: list[tuple[dict[str, Expression], list[Expression]]] = [({}, [])]
        for operand in operands_of_nested(condition, ops.AND):
            parts = _alternatives(operand, own, streams)
            if len(found) * len(parts) > _MOST_ALTERNATIVES:
                continue
            found = [
                (_both_named(named, others, own), [*plain, *rest])
                for named, plain in found
                for others, rest in parts
            ]
        return found
    name, other = _named_by(condition)
    # what looks at other rows looks at those of the instance
    is_plain = not any(
        node.operator in {*MEMORY, *OF_INSTANCES}
        or (node.operator is ops.STREAM and streams.get(node.name))
        for node in postorder(other)
    )
    if name is not None and (is_plain or other == own[name]):
        return [({name: other}, [])]
    is_plain = is_plain and all(node.operator is not ops.PARAMETER for node in postorder(condition))
    return [({}, [condition] if is_plain else [])]


def _both_named(
    named: Mapping[str, Expression], others: Mapping[str, Expression], own: Mapping[str, Expression]
) -> dict[str, Expression]:
    """What values behind `per` are, by two conditions; the value of the own instance if it is."""
    both = {**others, **named}
    return {name: own[name] if others.get(name) == own[name] else both[name] for name in both}


def require_readable(
    expression: Expression, keys: tuple[Expression, ...], streams: Mapping[str, Per]
) -> None:
    """Require that an expression says which instances it reads.

    Args:
        expression: the expression.
        keys: what tells the instances apart that it belongs to; () if it belongs to none.
        streams: for each stream what tells its instances apart.

    Raises:
        TemplateError: it reads a stream with instances as if that had one value, or instances of a
            stream that has none.
    """
    stack = [expression]
    while stack:
        node = stack.pop()
        if node.operator in OF_INSTANCES:
            name = stream_of(node)
            shown = column_text(name)
            if not streams.get(name):
                message = f"stream {shown} has no instances"
                raise TemplateError(
                    node, message, f"declare it: stream {shown} = ... per EXPRESSION"
                )
            if node.operator is ops.OVER:
                if grouped_by(node, streams[name]) is None:
                    raise _no_such_group(node, streams[name])
                stack += reversed(node.operands[1:])
                continue
            count = len(streams[name])
            if len(node.operands) != count:
                values = "one value" if count == 1 else f"{count} values"
                message = f"an instance of {shown} has {values} after per"
                raise TemplateError(node, message, f"not {len(node.operands)}")
        if node.operator is ops.STREAM and keys_of(streams.get(node.name, ())) not in ((), keys):
            shown = column_text(node.name)
            message = f"stream {shown} has a value for each of its instances"
            hint = (
                f"name one, as in {shown}[...], or all, as in any(... over {shown}); "
                "streams with the same per read it as it is"
            )
            raise TemplateError(node, message, hint)
        stack += reversed(node.operands)


class Clauses(Protocol):
    """The clauses of a stream with `per`, as in `definitions.Stream`."""

    @property
    def per(self) -> Per: ...

    @property
    def start(self) -> Expression | None: ...

    @property
    def end(self) -> Expression | None: ...


def require_readable_clauses(stream: Clauses, streams: Mapping[str, Per]) -> None:
    """Require that the clauses of a stream say which instances they read.

    Raises:
        TemplateError: they do not.
    """
    keys = keys_of(stream.per)
    for key in keys:
        require_readable(key, (), streams)
    if stream.start is not None:
        # It is evaluated at rows of the instance.
        require_readable(stream.start, keys, streams)
    if stream.end is not None:
        require_readable(stream.end, keys, streams)


def _outside_instances(expression: Expression) -> list[Expression]:
    """The nodes of an expression, without the arguments of OVER."""
    found = []
    stack = [expression]
    while stack:
        node = stack.pop()
        found.append(node)
        stack += node.operands[1:] if node.operator is ops.OVER else node.operands
    return found


def template_errors(file: PolicyFile) -> list[FormulaError]:
    """Find what is not possible with the instances of a file's streams."""
    streams = {name: stream.per for name, stream in file.streams.items()}
    checks: list[Callable[[], object]] = []
    for stream in file.streams.values():
        on = None if stream.clock is None else stream.clock.condition
        if stream.per:
            checks.append(partial(lifetime_of, stream.per, stream.start, stream.end, streams))
        for one in (stream.expression, *([] if on is None else [on])):
            checks.append(partial(require_readable, one, keys_of(stream.per), streams))
        checks.append(partial(require_readable_clauses, stream, streams))
    for predicate in file.atoms.values():
        checks.append(partial(require_readable, predicate.expression, (), streams))
    errors = []
    for check in checks:
        try:
            check()
        except TemplateError as error:
            errors.append(error_of(error, file.text, file.source))
    return errors


def error_of(error: TemplateError, text: str, source: str) -> FormulaError:
    """Return an error with its place in a text."""
    place = 0 if error.node.span is None else error.node.span.start
    return formula_error(
        text, place, error.message, source=source, hint=error.hint, kind=PolicyError
    )


def keys_of(per: Per) -> tuple[Expression, ...]:
    """Return the expressions behind `per`."""
    return tuple(key for key, _ in per)


def parameters_of(per: Per) -> dict[str, int]:
    """Return the number of the key that each parameter stands for."""
    return {name: number for number, (_, name) in enumerate(per) if name is not None}


def grouped_by(node: Expression, per: Per) -> tuple[int, ...] | None:
    """Return the numbers of the keys that the operands of OVER behind the first are of.

    Returns:
        The numbers; None if `by` names something else.
    """
    numbers = key_numbers(per)
    if all(name in numbers for name in node.over.by):
        return tuple(numbers[name] for name in node.over.by)
    return None


def key_numbers(per: Per) -> dict[str, int]:
    """Return the number of the key for each parameter, and for each column behind `per`."""
    numbers = {key.name: n for n, (key, _) in enumerate(per) if key.operator is ops.COLUMN}
    return numbers | parameters_of(per)


def _no_such_group(node: Expression, per: Per) -> TemplateError:
    known = key_numbers(per)
    shown = column_text(node.over.stream)
    hint = f"the values behind per are {', '.join(map(column_text, known))}"
    if not known:
        hint = f"give the value a name there, as in per {per[0][0]} as id"
    unknown = next(name for name in node.over.by if name not in known)
    message = f"instances of {shown} have no {column_text(unknown)}"
    return TemplateError(node, message, hint)


def stream_of(node: Expression) -> str:
    """Return the stream whose instances a node reads."""
    return node.over.stream if node.operator is ops.OVER else node.name


def _names(per: Per) -> list[str]:
    """The names of the parameters; a key without a name has one that no parameter has."""
    return [f"the value of {key}" if name is None else name for key, name in per]


def joined(operator: Operator, parts: list[Expression]) -> Expression | None:
    """Join conditions by an operator; None if there are none."""
    found = None
    for part in parts:
        found = part if found is None else Expression(operator, (found, part), None, part.span)
    return found


def _require_present(clause: Expression) -> None:
    """Refuse parameters in the arguments of aggregates and offsets, which are of the trace."""
    for node in postorder(clause):
        if node.operator in MEMORY:
            for one in postorder(node):
                if one.operator is ops.PARAMETER:
                    message = f"from and until cannot use {one.name} in a window of the trace"
                    hint = "count what belongs to an instance in a stream with the same per"
                    raise TemplateError(one, message, hint)


def _named_by(condition: Expression) -> tuple[str | None, Expression]:
    """For `X = p`, return p and X; p is None for other conditions."""
    if condition.operator is ops.EQUAL:
        for one, other in (condition.operands, condition.operands[::-1]):
            is_free = all(node.operator is not ops.PARAMETER for node in postorder(other))
            if one.operator is ops.PARAMETER and is_free:
                return one.name, other
    return None, condition


def _replaced(root: Expression, values: Mapping[str, Expression]) -> Expression:
    """Replace parameters by expressions."""
    built: dict[int, Expression] = {}
    for node in postorder(root):
        if node.operator is ops.PARAMETER and node.name in values:
            built[id(node)] = values[node.name]
            continue
        operands = tuple(built[id(operand)] for operand in node.operands)
        if all(one is other for one, other in zip(operands, node.operands, strict=True)):
            built[id(node)] = node
        else:
            built[id(node)] = Expression(node.operator, operands, node.value, node.span)
    return built[id(root)]
