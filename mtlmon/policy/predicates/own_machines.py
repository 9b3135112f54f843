"""Machines: classes of a program whose objects are given rows, and make the values of streams.

A policy file names a class, and nothing is imported for that: it has to be registered. The
expression holds the class itself, so a file that has been read keeps the one that it was read with.
`mtlmon.streams.own_machines` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from mtlmon.errors import MtlmonError, PolicyError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.printer import column_text, constant_text

if TYPE_CHECKING:
    from mtlmon.policy.predicates.kinds import Kind

__all__ = [
    "Machine",
    "OwnMachine",
    "giving",
    "is_machine",
    "machine_policies",
    "register_machine",
    "register_module",
    "registered_machine",
]


class Machine(Protocol):
    """What `register_machine` takes: a class whose objects have these methods."""

    def step(self, row: dict[str, Any], /) -> Any:
        """Take the next row of a key, in the order of time, and return the value there."""

    def save(self) -> Any:
        """Return the state as plain values, from which `load` goes on."""

    def load(self, state: Any, /) -> None:
        """Let an object that has had no row go on from a state."""


_Class = TypeVar("_Class", bound=type[Machine])
_METHODS = ("step", "save", "load")
_TYPES = {int: "int", float: "float", bool: "bool", str: "text"}

_registered: dict[str, type[Machine]] = {}


class OwnMachine(NamedTuple):
    """A machine as an expression calls it.

    Attributes:
        name: the class as the file writes it, "module:Class".
        columns: the operands as they are written, which are the names of what a row has, unless
            the class has others.
        kind: the kind of the values.
        made_by: the class; None if no such class is registered.
    """

    name: str
    columns: tuple[str, ...]
    kind: Kind = kinds.BOOLEAN
    made_by: type[Machine] | None = None

    @property
    def types(self) -> tuple[str, ...]:
        """The types that the class gives its columns, as a file declares them; none if it does not.

        What is wrong with them is said where the machine is made.
        """
        columns = getattr(self.made_by, "columns", ())
        if not isinstance(columns, Mapping) or len(columns) != len(self.columns):
            return ()
        types = tuple(_TYPES.get(one, "") for one in columns.values())
        return types if all(types) else ()


def is_machine(value: object) -> bool:
    """Whether a value is a class with the methods of a machine."""
    return isinstance(value, type) and all(callable(getattr(value, one, None)) for one in _METHODS)


def register_machine(machine: _Class) -> _Class:
    """Let policy files that are read later use a class, as in `machine("module:Class", column)`.

    There is an object for each key, made without arguments. `step` gets a dictionary with the
    values of a row, by the names in the call, or by those in the attribute `columns` of the class,
    if it has one; if that is a dictionary with types (`int`, `float`, `bool`, `str`), columns of
    text are read as values of these. It returns the value there: None for null, or a Boolean, an
    integer, a float or a text, as the stream declares. `save` returns the state as plain values:
    None, Booleans, integers, floats, texts, and tuples, lists and dictionaries (by texts) of these;
    `load` takes it. What an object does may depend only on its state and the rows.

    Args:
        machine: the class; one that is already registered by the same name is replaced.

    Returns:
        The class, so that this can be a decorator.

    Raises:
        PolicyError: it is no class, or has not the methods `step`, `save` and `load`.

    >>> import pyarrow as pa
    >>> from mtlmon import streams
    >>> class Rising:
    ...     highest = 0
    ...     def step(self, row):
    ...         self.highest = max(self.highest, row["x"])
    ...         return self.highest
    ...     def save(self):
    ...         return self.highest
    ...     def load(self, state):
    ...         self.highest = state
    >>> name = f"{Rising.__module__}:{streams.register_machine(Rising).__qualname__}"
    >>> rows = pa.record_batch({"ts": [0, 1, 2, 3], "x": [5, 1, 7, 4]})
    >>> found = streams.compile(f'stream top: int = machine("{name}", x)', rows.schema)
    >>> found.evaluate(rows).to_pydict()
    {'time': [0, 1, 2, 3], 'top': [5, 5, 7, 7]}
    """
    if not is_machine(machine):
        raise PolicyError(
            f"a machine is a class with the methods step, save and load, not {machine!r}"
        )
    _registered[_name_of(machine)] = machine
    return machine


def register_module(module: str) -> None:
    """Import a module, and register the machines in it; the present directory is looked in last.

    Raises:
        MtlmonError: it cannot be imported, or has no machine.
    """
    import sys
    from importlib import import_module

    # as the interpreter is called by a script, this directory is not among the others
    sys.path.append("")
    try:
        found = import_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise MtlmonError(f"cannot import {module}: {reason}") from error
    finally:
        sys.path.remove("")
    machines = {f"{module}:{name}": one for name, one in vars(found).items() if is_machine(one)}
    if not machines:
        raise MtlmonError(f"module {module} has no class with the methods step, save and load")
    _registered.update(machines)


def registered_machine(name: str) -> type[Machine] | None:
    """Return the class that is registered by a name; None if none is."""
    return _registered.get(name)


def giving(node: Expression, kind: Kind) -> Expression:
    """Return a call of a machine that gives values of a kind."""
    window = node.window._replace(machine=node.machine._replace(kind=kind))
    return Expression(node.operator, node.operands, window, node.span)


def machine_policies(machines: Mapping[str, type[Machine]]) -> str:
    """Return the text of a policy file: policies that are what machines say of each row.

    Args:
        machines: the classes, by the names of the policies. Their attribute `columns` says what a
            row has: names, or a dictionary with the type of each, `int`, `float`, `bool` or `str`.

    Raises:
        PolicyError: one is no machine, or does not name its columns.
    """
    types: dict[str, None] = {}
    policies = []
    for name, machine in machines.items():
        register_machine(machine)
        columns = getattr(machine, "columns", ())
        if isinstance(columns, str) or not columns or not all(map(_is_column, columns)):
            raise _no_columns(machine)
        if isinstance(columns, Mapping):
            if not {*columns.values()} <= _TYPES.keys():
                raise _no_columns(machine)
            types |= {f"column {column_text(one)}: {_TYPES[columns[one]]}": None for one in columns}
        arguments = ", ".join(map(column_text, columns))
        called = f"machine({constant_text(_name_of(machine))}, {arguments})"
        quoted = constant_text(name)
        policies += [f"stream {quoted}: bool = {called}", f"policy {quoted}: {quoted}"]
    return "\n".join([*types, *policies])


def _is_column(name: object) -> bool:
    return isinstance(name, str) and name != ""


def _no_columns(machine: type[Machine]) -> PolicyError:
    return PolicyError(
        f"machine {machine.__name__} does not say what a row has: give the class names and types, "
        'as in columns = {"user": str, "amount": float}; the types are int, float, bool and str'
    )


def _name_of(machine: type[Machine]) -> str:
    return f"{machine.__module__}:{machine.__qualname__}"
