"""Monitors of first-order policies."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError, PolicyError, SnapshotError, TimeStampError
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.relational.analysis import Analysis, valid_analysis
from mtlmon.relational.atoms import refuse_traces
from mtlmon.relational.cells import Value, from_cell, to_cell
from mtlmon.relational.native import RelationalEngine
from mtlmon.relational.planning import plan
from mtlmon.support.snapshot_parts import sized, take_sized

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from mtlmon.policy import PolicyFile
    from mtlmon.relational.plan import AtomPlan, Plan
    from mtlmon.relational.slicing import Statistics
    from mtlmon.relational.slicing.engine import SlicedEngine

_KINDS = (False, True, None)
# the bytes of the number of bytes of a schema


class Answer(NamedTuple):
    """What a monitor says about a time-point.

    Attributes:
        policy: the name of the policy, or None if it has none.
        time_stamp: the time-stamp of the time-point.
        offset: which of the time-points of the time-stamp it is, from 0 on.
        value: False for a violation of a policy, True if nothing violates it, None for what a
            `find` has found.
        valuation: the values of the variables, by name. Times are nanoseconds from 1970.
        point: the number of the time-point, from 0 on.
    """

    policy: str | None
    time_stamp: int
    offset: int
    value: bool | None
    valuation: dict[str, Value]
    point: int


def _declare(value: object) -> str:
    """The end of an error about a value of another type than its argument."""
    words = {int: "int", float: "float", bool: "bool", str: "text", datetime: "time"}
    word = words.get(type(value))
    return "" if word is None else f": declare the argument's type, as in atom p(x: {word})"


def point_rows(
    made: Plan,
    numbers: Mapping[str, int],
    database: Mapping[str, Iterable[Sequence[object]]],
) -> list[tuple[int, list[int]]]:
    """Return the rows of a time-point, as numbers of atoms and cells.

    Args:
        made: the plan of the policies.
        numbers: the number of each of its atoms, by name.
        database: the rows of each atom.

    Raises:
        TypeError, ValueError, OverflowError: a row does not have the arguments of its atom.
    """
    rows: list[tuple[int, list[int]]] = []
    for name, given in database.items():
        number = numbers.get(name)
        if number is None or number in {made.point, made.time}:
            continue
        atom = made.named_atoms[number]
        for row in given:
            cells = _cells(made, atom, row)
            if cells or not atom.kinds:
                rows.append((number, cells))
    return rows


def _cells(made: Plan, atom: AtomPlan, row: Sequence[object]) -> list[int]:
    """The cells of a row; none if a value is null."""
    if isinstance(row, (str, bytes)):
        raise TypeError(f"a row of {atom.name} is a tuple of its arguments, not {row!r}")
    if len(row) != len(atom.kinds):
        raise ValueError(f"{atom.name} has {len(atom.kinds)} arguments, not {len(row)}")
    cells: list[int] = []
    for place, (value, kind) in enumerate(zip(row, atom.kinds, strict=True), 1):
        try:
            cell = to_cell(value, kind, made.texts)
        except (TypeError, OverflowError) as error:
            raise type(error)(
                f"argument {place} of {atom.name}: {error}"
                + (_declare(value) if isinstance(error, TypeError) else "")
            ) from None
        if cell is None:
            return []
        cells.append(cell)
    return cells


class RelationalMonitor:
    """Monitors the first-order policies of a file.

    Args:
        policy: a policy file, or its text.
        verdicts: "false" for violations and what a `find` finds, "all" for the time-points
            without violations, too.
        slices: in how many slices the log is monitored, on threads; None for one monitor. The
            answers are the same.
        statistics: what is known of the log, for the plan of the slices.
        slice_seed: other seeds make other hash functions for the slices.
        counts_left_sides: whether `engine.counted_valuations` has how often the left sides of
            implications are matched. Slices do not count that.

    Raises:
        PolicyError: a policy cannot be evaluated, or the file has none with variables.
        LimitError: there are more than 1024 slices.
        MtlmonError: statistics or a seed are given without slices.

    >>> monitor = RelationalMonitor("publish(u, f) IMPLIES ONCE[0,10] approve(f)")
    >>> monitor.step(3, {"approve": [("report",)]})
    []
    >>> [answer.valuation for answer in monitor.step(5, {"publish": [("alice", "draft")]})]
    [{'u': 'alice', 'f': 'draft'}]
    """

    def __init__(
        self,
        policy: PolicyFile | str,
        *,
        verdicts: str = "false",
        slices: int | None = None,
        statistics: Statistics | None = None,
        slice_seed: int = 0,
        counts_left_sides: bool = False,
    ) -> None:
        if verdicts not in {"false", "all"}:
            raise ValueError(f"verdicts is 'false' or 'all', not {verdicts!r}")
        if isinstance(policy, str):
            from mtlmon.policy import parse_policies

            policy = parse_policies(policy)
        self._file = policy
        self._wants_holding = verdicts == "all"
        if slices is not None:
            from mtlmon.relational.slicing import require_slices

            require_slices(slices)
        elif statistics is not None or slice_seed:
            given = "statistics" if statistics is not None else "slice_seed"
            raise MtlmonError(f"{given}= is about slices: give slices=, too")
        self._counts_left_sides = counts_left_sides
        self._slices = slices
        self._statistics = statistics
        self._slice_seed = slice_seed
        self._engine: RelationalEngine | SlicedEngine | None = None
        # the columns that gave the variables their types
        self._schema: pa.Schema | None = None
        self._numbers: dict[str, int] = {}
        refuse_traces(policy)
        if not self._analysis().policies:
            raise PolicyError(
                "the file has no policy with variables", hint="use Monitor for other policies"
            )

    @property
    def engine(self) -> RelationalEngine | SlicedEngine:
        """What evaluates the policies."""
        return self._engine or self._started()

    @property
    def plan(self) -> Plan:
        """How the policies are evaluated."""
        return self.engine.plan

    @property
    def analysis(self) -> Analysis:
        """What is known of the policies."""
        return self._analysis(self._schema)

    def _analysis(self, schema: pa.Schema | None = None) -> Analysis:
        return valid_analysis(self._file, schema)

    def _started(
        self, schema: pa.Schema | None = None, *, is_sliced: bool = False
    ) -> RelationalEngine | SlicedEngine:
        """Make the engine, which is done late, as the columns of a table have types.

        Args:
            schema: the columns of the table, if there is one.
            is_sliced: whether the log was monitored in slices before.
        """
        self._schema = schema
        analysis = self._analysis(schema)
        if (self._slices or 1) == 1 and not is_sliced:
            made = plan(self._file, analysis, counts_triggered=self._counts_left_sides)
            self._engine = RelationalEngine(made, made.texts)
        else:
            from mtlmon.relational.slicing import plan_slices
            from mtlmon.relational.slicing.engine import SlicedEngine

            slicing = plan_slices(
                self._file,
                analysis,
                self._slices or 1,
                statistics=self._statistics,
                seed=self._slice_seed,
                counts_triggered=self._counts_left_sides,
            )
            self._engine = SlicedEngine(self._file, analysis, slicing)
        self._engine.wants_holding = self._wants_holding
        self._numbers = {
            atom.name: number for number, atom in enumerate(self._engine.plan.named_atoms)
        }
        return self._engine

    def step(
        self, time_stamp: int, database: Mapping[str, Iterable[Sequence[object]]]
    ) -> list[Answer]:
        """Take in a time-point.

        Args:
            time_stamp: its time-stamp.
            database: the rows of each atom. Atoms that no policy names are left out; an atom
                without arguments has the row `()`. Rows with null or NaN are left out.

        Returns:
            What is known now, in the order of time-points; within one, by the values of variables.

        Raises:
            TimeStampError: the time-stamp is below that of an earlier time-point.
            TypeError, ValueError, OverflowError: a row does not have the arguments of its atom.
        """
        engine = self.engine
        self._check_time(time_stamp)
        rows = point_rows(engine.plan, self._numbers, database)
        engine.points.add(time_stamp, rows)
        engine.advance()
        return self._answers()

    def advance(self, time_stamp: int) -> list[Answer]:
        """Say that no time-point with a lower time-stamp comes."""
        self.engine.end(time_stamp, False)
        return self._answers()

    def finish(self) -> list[Answer]:
        """Say that no time-point comes any more; return what that decides."""
        self.engine.end(self.engine.clock, True)
        return self._answers()

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        schema = b"" if self._schema is None else self._schema.serialize().to_pybytes()
        saved: bytes = self.engine.snapshot()
        return sized(schema) + saved

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot of a monitor of the same policies; this one must be new.

        It can be one with another number of slices, or other statistics: what the slices remember
        is moved to others.

        Raises:
            SnapshotError: the bytes are not such a snapshot, or this monitor is not new.
        """
        written, saved = take_sized(snapshot)
        engine = self._engine
        if engine is None:
            schema = None
            if written:
                import pyarrow as pa

                try:
                    schema = pa.ipc.read_schema(pa.py_buffer(written))
                except (pa.ArrowException, OSError, ValueError):
                    raise SnapshotError("the snapshot is damaged: it has no columns") from None
            from mtlmon.relational.slicing.moving import is_sliced

            engine = self._started(schema, is_sliced=is_sliced(saved))
        engine.restore(saved)

    @property
    def held_bytes(self) -> int:
        """The bytes that the monitor holds, without texts."""
        held: int = self.engine.held_bytes
        return held

    def _check_time(self, time_stamp: int) -> None:
        """Raise TimeStampError if the time-stamp is below that of an earlier time-point."""
        if time_stamp < 0 or time_stamp > LARGEST:
            raise TimeStampError(f"time-stamp {time_stamp} is not between 0 and 2^63-1")
        if time_stamp < self.engine.clock:
            raise TimeStampError(
                f"the time-stamp {time_stamp} is below {self.engine.clock}, that of an earlier "
                "time-point"
            )

    def _answers(self) -> list[Answer]:
        """Take what the engine has found, by the values of variables within a time-point."""
        found: list[Answer] = []
        policies = self.plan.named_policies
        runs = groupby(self.engine.answers.take(), lambda one: (one[0], one[4]))
        for (policy, _), run in runs:
            known = policies[policy]
            own = []
            for _, kind, time_stamp, offset, point, cells in run:
                valuation = {
                    name: from_cell(cell, one, self.plan.texts)
                    for name, one, cell in zip(known.variables, known.kinds, cells, strict=False)
                }
                value = _KINDS[kind]
                own.append(Answer(known.name, time_stamp, offset, value, valuation, point))
            own.sort(key=lambda one: tuple(one.valuation.values()))
            found += own
        return found
