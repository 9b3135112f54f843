"""One layer of a program: expressions over columns, then kernels over their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from mtlmon.errors import RowError
from mtlmon.policy.predicates.checking import check
from mtlmon.policy.predicates.compiling import CompiledExpressions
from mtlmon.policy.predicates.predicate import Predicate
from mtlmon.syntax.report import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.streams import native
    from mtlmon.streams.kernels import Kernel

_SHOWN_WIDTH = 60


class Part(NamedTuple):
    """An expression that reads columns only.

    Attributes:
        expression: the expression.
        origin: the predicate that it comes from, for errors.
    """

    expression: Expression
    origin: Predicate


class Task(Protocol):
    """What computes columns from columns, and remembers rows.

    Attributes:
        kernels: the kernels that do so.
    """

    kernels: list[Kernel]

    def run(self, columns: dict[str, pa.Array], rows: native.Batch) -> None:
        """Compute columns at the rows of a batch, and add them.

        Raises:
            RowError: integers overflow.
        """


class KernelTask:
    """A kernel whose results become a column.

    Args:
        result: the name of the column of the results.
        kernel: the kernel.
        argument: the name of the column of its argument; None if it has none.
    """

    def __init__(self, result: str, kernel: Kernel, argument: str | None) -> None:
        self.kernels = [kernel]
        self._result = result
        self._argument = argument

    def run(self, columns: dict[str, pa.Array], rows: native.Batch) -> None:
        """Compute the results at the rows of a batch, and add them to the columns.

        Raises:
            RowError: a sum of integers overflows.
        """
        (kernel,) = self.kernels
        argument = None if self._argument is None else columns[self._argument]
        columns[self._result], done = kernel.run(rows, argument)
        if done < rows.count:
            shown = shorten(str(kernel.node), _SHOWN_WIDTH)
            raise RowError(f"{shown} overflows 64 bits", rows=(done,))


def check_part(part: Part, schema: pa.Schema, environment: Environment) -> Mapping[int, Kind]:
    """Check the types of an expression, and return the kinds of its nodes by their `id`.

    Raises:
        PolicyError: a column does not exist, or a type does not fit.
    """
    checked = check(_predicate(part), schema, environment, wanted=None, is_of_one_row=False)
    if checked.errors:
        raise checked.errors[0]
    return checked.kinds


def _predicate(part: Part) -> Predicate:
    origin = part.origin
    return Predicate(part.expression, origin.text, origin.source, origin.name, origin.role)


class Layer:
    """Computes expressions over columns, and then aggregates and offsets of their results.

    Attributes:
        parts: the expressions by the name of the column that each becomes.
        tasks: the kernels and machines.
    """

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}
        self.tasks: list[Task] = []

    def compile(self, schema: pa.Schema, environment: Environment) -> None:
        """Compile the expressions for columns of these types."""
        expressions = {name: _predicate(part) for name, part in self.parts.items()}
        self._compiled = CompiledExpressions(expressions, schema, environment)

    def run(self, columns: dict[str, pa.Array], rows: native.Batch) -> None:
        """Compute all results at the rows of a batch, and add them to the columns.

        Raises:
            RowError: integers overflow.
            ValueError: a column is missing or has another type than the schema.
        """
        for name, wanted in self._compiled.types.items():
            if name not in columns:
                raise ValueError(f"the batch has no column {name!r}")
            if columns[name].type != wanted:
                raise ValueError(
                    f"column {name!r} is of type {columns[name].type}, but streams were compiled "
                    f"for {wanted}"
                )
        columns |= self._compiled.compute(columns, rows.count)
        for task in self.tasks:
            task.run(columns, rows)
