"""Runs machines that a program defines; see `register_machine`.

There is an object for each trace, made when a row needs it. For everything else its state is bytes:
for snapshots, to undo a batch, and where rows come late. Then the native kernel has the states
between rows, as it does for other kernels, and lets objects go on from them.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mtlmon.errors import RowError, SnapshotError
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.policy.predicates.numbers import to_floats
from mtlmon.streams import native
from mtlmon.streams.kernels import Kernel
from mtlmon.streams.own_values import (
    OwnError,
    call,
    failure_of,
    from_plain,
    state_text,
    wrong_answer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.own_machines import Machine, OwnMachine
    from mtlmon.streams.kernels import Meeting

__all__ = ["MachineKernel", "MachineStates"]

_FORGOTTEN = 2**32 - 1
# About what an object and its state take.
_OBJECT_BYTES = 300


class MachineStates:
    """The objects of a machine, and their states, by the numbers of traces.

    Args:
        name: what the machine is called, for errors.
        make: makes an object.

    Attributes:
        steps: for traces of this batch, the method that takes rows; there is none for one whose
            state has been saved since the last row.
    """

    def __init__(self, name: str, make: type[Machine]) -> None:
        self._name = name
        self._make = make
        self.steps: dict[int, Callable[[dict[str, Any]], Any]] = {}
        self._objects: dict[int, Machine] = {}
        # states that are known, as no row has come since
        self._saved: dict[int, bytes] = {}
        # the states before the batch; None if nothing is undone
        self._before: dict[int, bytes] | None = {}

    @cached_property
    def _first(self) -> bytes:
        """The state of a new object."""
        return self._state_of(call(f"{self._name}()", self._make))

    def _state_of(self, machine: Machine) -> bytes:
        return state_text(call(f"save of {self._name}", machine.save), self._name)

    def ready(self, number: int) -> Callable[[dict[str, Any]], Any]:
        """Return the method that takes the next row of a trace, and note it in `steps`.

        Raises:
            OwnError: there is no object, or it does not go on from its state.
        """
        if self._before is not None and number not in self._before:
            self._before[number] = self.saved(number)
        if number not in self._objects:
            self._objects[number] = self._loaded(number)
        self._saved.pop(number, None)
        step = self.steps[number] = self._objects[number].step
        return step

    def failure(self, error: Exception) -> OwnError:
        """Return the error that a method in `steps` has raised an exception."""
        return failure_of(f"step of {self._name}", error)

    def _loaded(self, number: int) -> Machine:
        """Return a new object with the state of a trace."""
        machine: Machine = call(f"{self._name}()", self._make)
        if number in self._saved:
            state = from_plain(json.loads(self._saved[number]))
            call(f"load of {self._name}", machine.load, state)
        return machine

    # ---- states, as bytes --------------------------------------------------------------------

    @property
    def _numbers(self) -> set[int]:
        """The traces that may have another state than a new one."""
        return {*self._objects, *self._saved}

    def be_by_trace(self) -> None:
        """Let nothing be undone from now on."""
        self._before = None

    def saved(self, number: int) -> bytes:
        """Return the state of a trace."""
        if number not in self._saved and number in self._objects:
            self._saved[number] = self._state_of(self._objects[number])
            self.steps.pop(number, None)
        return self._saved.get(number, self._first)

    def load(self, number: int, state: bytes | None) -> None:
        """Let a trace have a state; None for that of a new trace."""
        self._objects.pop(number, None)
        self._saved.pop(number, None)
        self.steps.pop(number, None)
        if state is not None and state != self._first:
            self._saved[number] = state

    def move(self, number: int, target: int) -> None:
        """Let a trace have the state of another one, which has none then."""
        self.load(target, None)
        self.steps.pop(number, None)
        if number in self._objects:
            self._objects[target] = self._objects.pop(number)
        if number in self._saved:
            self._saved[target] = self._saved.pop(number)

    def begin(self) -> None:
        """Begin a batch: what was done before can no longer be undone."""
        if self._before:
            self._before.clear()
            self.steps.clear()

    def undo(self) -> None:
        """Return to the state at the last `begin`."""
        for number, state in (self._before or {}).items():
            self.load(number, state)
        self.begin()

    def settled(self, flags: NDArray[np.uint8]) -> None:
        """Clear the bytes of traces whose state is not that of a new one."""
        for number in self._numbers:
            if number < len(flags) and self.saved(number) != self._first:
                flags[number] = 0

    def keep(self, new_numbers: bytes) -> None:
        """Give traces new numbers, and forget others; see the native kernels."""
        self.begin()
        self.steps.clear()
        numbers = np.frombuffer(new_numbers, np.uint32).tolist()
        kept = {old: new for old, new in enumerate(numbers) if new != _FORGOTTEN}
        self._objects = {kept[one]: made for one, made in self._objects.items() if one in kept}
        self._saved = {kept[one]: state for one, state in self._saved.items() if one in kept}

    def forget_all(self) -> None:
        """Return to the state before the first row."""
        self._objects.clear()
        self._saved.clear()
        self.steps.clear()
        self.begin()

    def snapshot(self) -> bytes:
        """Return the states of all traces as bytes for `restore`."""
        self.begin()
        states = [(number, self.saved(number)) for number in sorted(self._numbers)]
        return b"[%s]" % b",".join(b"[%d,%s]" % one for one in states if one[1] != self._first)

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot.

        Raises:
            SnapshotError: the bytes are no snapshot.
        """
        self.forget_all()
        try:
            for number, state in json.loads(snapshot):
                if type(number) is not int or not 0 <= number < _FORGOTTEN:
                    raise ValueError(f"{number!r} is no number of a trace")
                self._saved[number] = state_text(from_plain(state), self._name)
        except (ValueError, TypeError, RecursionError, OwnError) as error:
            raise SnapshotError(f"the snapshot is of another machine: {error}") from None

    @property
    def held_bytes(self) -> int:
        """About how many bytes the objects take."""
        return _OBJECT_BYTES * (len(self._objects) + len(self._saved))


class MachineKernel(Kernel):
    """A machine that a program defines, between columns of Arrow."""

    def _kernel(self) -> native.Kernel:
        machine = self._machine
        module, _, name = machine.name.partition(":")
        if machine.made_by is None:
            raise NotPossible(
                f"there is no machine {machine.name}: the command takes --machines {module}, a "
                f"program calls mtlmon.streams.register_machine({name}) before it reads the policy"
            )
        self.found_kind = machine.kind
        self._names = tuple(getattr(machine.made_by, "columns", ())) or machine.columns
        if len(self._names) != len(machine.columns):
            count = len(self._names)
            takes = "one argument" if count == 1 else f"{count} arguments"
            given, wanted = len(machine.columns), ", ".join(self._names)
            raise NotPossible(f"machine {name} takes {takes}, {wanted}, not {given}")
        self._native = native.MachineState(MachineStates(f"machine {name}", machine.made_by))
        return self._native

    @property
    def _machine(self) -> OwnMachine:
        return self.node.machine

    def argument_of(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the rows that objects take."""
        types = self._machine.types or (None,) * len(columns)
        typed = [
            to_floats(column) if declared == "float" and column.type != pa.float64() else column
            for column, declared in zip(columns, types, strict=True)
        ]
        return pa.StructArray.from_arrays(typed, self._names)

    def _rows(self, values: pa.StructArray) -> Iterator[dict[str, Any]]:
        """The rows as objects take them."""
        names = self._names
        columns = [_values(values.field(place)) for place in range(len(names))]
        if len(names) == 1:
            # PERF: a third of the time of the other way
            (name,), (column,) = names, columns
            return ({name: value} for value in column)
        return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))

    def run(
        self,
        rows: native.Batch,
        values: pa.Array | None,
        meeting: Meeting | native.Batch | None = None,
    ) -> tuple[pa.Array, int]:
        """Compute the values at rows.

        Raises:
            RowError: a method of an object has failed, or gives what is not of the declared type.
        """
        assert values is not None and meeting is None
        answers: list[Any] = []
        try:
            self._native.step_rows(rows, self._rows(values), answers)
        except OwnError as error:
            raise RowError(str(error), rows=(len(answers),)) from error.__cause__
        wrong = wrong_answer(answers, self.found_kind)
        if wrong is not None:
            raise RowError(
                f"step of machine {self._machine.name.partition(':')[2]} gives {answers[wrong]!r}, "
                f"which is not {self.found_kind.words}",
                rows=(wrong,),
            )
        return pa.array(answers, column_type(self.found_kind)), rows.count


def _values(column: pa.Array) -> list[Any]:
    """The values of a column."""
    # PERF: numbers take a tenth of the time of `to_pylist`
    is_plain = column.null_count == 0 and column.type in (pa.int64(), pa.float64())
    found: list[Any] = column.to_numpy().tolist() if is_plain else column.to_pylist()
    return found
