"""Monitors of first-order policies."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlmon.engine.guarding import Guard, guarded
from mtlmon.errors import MtlmonError, PolicyError, SnapshotError, TimeStampError
from mtlmon.relational.analysis import Analysis, valid_analysis, valid_keyed_file
from mtlmon.relational.cells import Value, from_cell, number_texts, to_cell
from mtlmon.relational.key_names import key_values, names_of
from mtlmon.relational.keyed import HERE
from mtlmon.relational.native import RelationalEngine
from mtlmon.relational.planning import plan
from mtlmon.support.snapshot_parts import damaged, sealed, sized, take_sized, unsealed
from mtlmon.support.time_stamps import checked_time_stamp
from mtlmon.syntax.printer import written_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa
    from typing_extensions import Buffer

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.limits import Triggered
    from mtlmon.relational.key_names import KeyNames
    from mtlmon.relational.plan import AtomPlan, Plan
    from mtlmon.relational.slicing import Statistics
    from mtlmon.relational.slicing.engine import SlicedEngine

# of a violation, HOLDS, a match, and HOLDS_FOR
_VALUES = (False, True, None, True)
_KIND = b"mtlmon relational monitor 1\n"


class Answer(NamedTuple):
    """What a monitor says about a time-point.

    Attributes:
        policy: the name of the policy, or None if it has none.
        time_stamp: the time-stamp of the time-point.
        offset: which of the time-points of the time-stamp it is, from 0 on; where the policy has a
            key, of those of this key.
        value: False for a violation of a policy, True if nothing violates it, None for a match of a
            `find`.
        valuation: the values of the variables, by name. Times are nanoseconds from 1970.
        point: the number of the time-point in the whole log, from 0 on.
        key: the values of the columns of the policy's key; () if it has none.
    """

    policy: str | None
    time_stamp: int
    offset: int
    value: bool | None
    valuation: dict[str, Value]
    point: int
    key: tuple[str, ...] = ()


def answer_of(
    made: Plan,
    policy: int,
    kind: int,
    time_stamp: int,
    offset: int,
    cells: Sequence[int],
    point: int = 0,
) -> Answer:
    """Return what an engine has found, with the values that cells stand for."""
    known = made.named_policies[policy]
    values = [
        (name, from_cell(cell, one, made.texts))
        for name, one, cell in zip(known.variables, known.kinds, cells, strict=False)
    ]
    width = len(known.key)
    key = tuple(str(value) for _, value in values[:width])
    # where nothing violates the policy, there are no values but those of the key
    valuation = {} if _VALUES[kind] else dict(values[width:])
    return Answer(known.name, time_stamp, offset, _VALUES[kind], valuation, point, key)


def _declare(value: object) -> str:
    """The end of an error about a value of another type than its argument."""
    words = {int: "int", float: "float", bool: "bool", str: "text", datetime: "time"}
    word = words.get(type(value))
    return "" if word is None else f": declare the argument's type, as in atom p(x: {word})"


def atom_numbers(made: Plan) -> dict[str, list[int]]:
    """Return the numbers of the atoms of a plan by the names that the policy file has.

    There are several where policies read the rows of an atom differently.
    """
    found: dict[str, list[int]] = {}
    for number, atom in enumerate(made.named_atoms):
        if number not in {made.point, made.time}:
            found.setdefault(written_name(atom.name), []).append(number)
    return found


def point_rows(
    made: Plan,
    numbers: Mapping[str, Sequence[int]],
    database: Mapping[str, Iterable[Sequence[object]]],
    key: Mapping[str, str] | None = None,
) -> list[tuple[int, list[int]]]:
    """Return the rows of a time-point, as numbers of atoms and cells.

    Args:
        made: the plan of the policies.
        numbers: the numbers of its atoms by name, as `atom_numbers` returns them.
        database: the rows of each atom.
        key: the values of the columns of keys, if policies have some: all that these have.

    Raises:
        TypeError, ValueError, OverflowError: a row does not have the arguments of its atom.
    """
    rows: list[tuple[int, list[int]]] = []
    if key is not None:
        database = {**database, HERE: [()]}
    of_key = {} if key is None else dict(zip(key, _key_cells(made, key), strict=True))
    for name, given in database.items():
        own = [(number, made.named_atoms[number]) for number in numbers.get(name, ())]
        for row in given if own else ():
            for number, atom in own:
                cells = _cells(made, atom, row, of_key)
                if cells or not atom.kinds:
                    rows.append((number, cells))
    return rows


def _cells(made: Plan, atom: AtomPlan, row: Sequence[object], key: Mapping[str, int]) -> list[int]:
    """The cells of a row, with those of the key; none if a value is null."""
    if isinstance(row, (str, bytes)):
        raise TypeError(
            f"a row of {written_name(atom.name)} is a tuple of its arguments, not {row!r}"
        )
    width = len(atom.kinds) - len(atom.key)
    if len(row) != width:
        raise ValueError(f"{written_name(atom.name)} has {width} arguments, not {len(row)}")
    cells: list[int] = []
    for place, (value, kind) in enumerate(zip(row, atom.kinds[:width], strict=True), 1):
        try:
            cell = to_cell(value, kind, made.texts)
        except (TypeError, OverflowError) as error:
            raise type(error)(
                f"argument {place} of {written_name(atom.name)}: {error}"
                + (_declare(value) if isinstance(error, TypeError) else "")
            ) from None
        if cell is None:
            return []
        cells.append(cell)
    cells += [key[column] for column in atom.key]
    return cells


def _key_cells(made: Plan, key: Mapping[str, str]) -> Sequence[int]:
    """The cells of the values of the columns of keys."""
    return number_texts(made.texts, list(key.values()))


def engine_of(monitor: RelationalMonitor) -> RelationalEngine | SlicedEngine:
    """What evaluates the policies of a monitor, for code that alone uses the monitor."""
    return monitor._known()


class RelationalMonitor:
    """Monitors the first-order policies of a file.

    Args:
        policy: a policy file, or its text.
        verdicts: "false" for violations and the matches of a `find`, "all" for the time-points
            without violations, too.
        slices: in how many slices the log is monitored, on threads; None for one monitor. The
            answers are the same.
        statistics: what is known of the log, for the plan of the slices.
        slice_seed: other seeds make other hash functions for the slices.
        counts_left_sides: whether `matched` tells how often the left sides of implications are
            matched. Slices do not count that.

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
        self._guard = Guard("monitor")
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
        self._numbers: dict[str, list[int]] = {}
        self._file = valid_keyed_file(policy, policy.key or ())
        self._names = names_of(self._file)
        if not self._analysis().policies:
            raise PolicyError(
                "the file has no policy with variables", hint="use Monitor for other policies"
            )

    @property
    @guarded
    def matched(self) -> dict[int, Triggered]:
        """How often the left side of each policy was matched, by the policy's number."""
        from mtlmon.relational.vacuity import matched_by_policy

        return matched_by_policy(self._known())

    @property
    @guarded
    def plan(self) -> Plan:
        """How the policies are evaluated."""
        return self._known().plan

    def _known(self) -> RelationalEngine | SlicedEngine:
        return self._engine or self._use(*self._made(None))

    @property
    @guarded
    def analysis(self) -> Analysis:
        """What is known of the policies."""
        return self._analysis(self._schema)

    def _analysis(self, schema: pa.Schema | None = None) -> Analysis:
        return valid_analysis(self._file, schema)

    def _made(
        self, schema: pa.Schema | None, *, is_sliced: bool = False
    ) -> tuple[RelationalEngine | SlicedEngine, pa.Schema | None]:
        """Make an engine, which is done late, as the columns of a table have types.

        Args:
            schema: the columns of the table, if there is one.
            is_sliced: whether the log was monitored in slices before.
        """
        analysis = self._analysis(schema)
        engine: RelationalEngine | SlicedEngine
        if (self._slices or 1) == 1 and not is_sliced:
            made = plan(self._file, analysis, counts_triggered=self._counts_left_sides)
            engine = RelationalEngine(made, made.texts)
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
            engine = SlicedEngine(self._file, analysis, slicing)
        engine.wants_holding = self._wants_holding
        return engine, schema

    def _use(
        self, engine: RelationalEngine | SlicedEngine, schema: pa.Schema | None
    ) -> RelationalEngine | SlicedEngine:
        self._engine, self._schema = engine, schema
        self._numbers = atom_numbers(engine.plan)
        return engine

    def step(
        self,
        time_stamp: int,
        database: Mapping[str, Iterable[Sequence[object]]],
        key: Mapping[str, str] | None = None,
    ) -> list[Answer]:
        """Take in a time-point.

        Args:
            time_stamp: its time-stamp.
            database: the rows of each atom. Atoms that no policy names are left out; an atom
                without arguments has the row `()`. Rows with null or NaN are left out.
            key: for policies with a key, the value of each of its columns, as text. It can have
                other columns.

        Returns:
            What is known now, in the order of time-points; within one, by the values of variables.

        Raises:
            EventTypeError: the time-stamp is no integer.
            TimeStampError: it is below that of an earlier time-point.
            TypeError, ValueError, OverflowError: a row does not have the arguments of its atom, or
                the time-point has no key.
        """
        # PERF: without rows, this takes 1.5 us; `guarded`, which passes arguments on, 1.7
        with self._guard:
            engine = self._known()
            time_stamp = self._checked(time_stamp)
            names = self._names
            if names is None:
                rows = point_rows(engine.plan, self._numbers, database)
            else:
                keys = key_values(names.used, key)
                rows = point_rows(engine.plan, self._numbers, database, key)
                names.add(time_stamp, names.next_offset(time_stamp), keys)
            engine.points.add(time_stamp, rows)
            engine.advance()
            return self._answers()

    @guarded
    def advance(self, time_stamp: int) -> list[Answer]:
        """Say that no time-point with a lower time-stamp comes.

        Raises:
            EventTypeError, TimeStampError: the time-stamp is not an integer from 0 to 2^63-1.
        """
        self._known().end(checked_time_stamp(time_stamp), False)
        return self._answers()

    @guarded
    def finish(self) -> list[Answer]:
        """Say that no time-point comes any more; return what that decides."""
        engine = self._known()
        engine.end(engine.clock, True)
        return self._answers()

    @guarded
    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        return self._snapshot()

    def _snapshot(self) -> bytes:
        saved: bytes = self._known().snapshot()
        schema = b"" if self._schema is None else self._schema.serialize().to_pybytes()
        names = b"" if self._names is None else sized(self._names.snapshot())
        return sealed(_KIND, sized(schema) + names + saved)

    @guarded
    def restore(self, snapshot: Buffer) -> None:
        """Continue from a snapshot of a monitor of the same policies; this one must be new.

        It can be one with another number of slices, or other statistics: what the slices remember
        is moved to others.

        Raises:
            SnapshotError: the bytes are not such a snapshot, or this monitor is not new; it is
                unchanged.
        """
        known = self._engine
        if known is not None and (known.point_count or known.clock or known.is_closed):
            raise SnapshotError("the monitor is not new: restore the snapshot in another one")
        written, saved = take_sized(unsealed(_KIND, bytes(snapshot)))
        names = names_of(self._file)
        if names is not None:
            named, saved = take_sized(saved)
            names.restore(named)
        try:
            self._use(*self._restored(written, saved))
            self._names = names
        except SnapshotError:
            raise
        except (MtlmonError, ValueError, LookupError, TypeError, OverflowError) as error:
            raise SnapshotError(f"the snapshot cannot be restored: {error}") from error

    def _restored(
        self, written: bytes, saved: bytes
    ) -> tuple[RelationalEngine | SlicedEngine, pa.Schema | None]:
        """Make an engine that goes on from a snapshot, of columns and of an engine."""
        from mtlmon.relational.slicing.moving import is_sliced

        schema = self._schema
        if written and self._engine is None:
            import pyarrow as pa

            try:
                schema = pa.ipc.read_schema(pa.py_buffer(written))
            except (pa.ArrowException, OSError, ValueError):
                raise SnapshotError("the snapshot is damaged: it has no columns") from None
        engine, _ = self._made(schema, is_sliced=is_sliced(saved))
        engine.restore(saved)
        return engine, schema

    @guarded
    def __reduce__(self) -> tuple[Callable[..., RelationalMonitor], tuple[object, ...]]:
        chosen = {
            "verdicts": "all" if self._wants_holding else "false",
            "slices": self._slices,
            "statistics": self._statistics,
            "slice_seed": self._slice_seed,
            "counts_left_sides": self._counts_left_sides,
        }
        saved = None if self._engine is None else self._snapshot()
        return _again, (type(self), self._file, chosen, saved)

    @property
    @guarded
    def held_bytes(self) -> int:
        """The bytes that the monitor holds, without texts."""
        held: int = self._known().held_bytes
        return held if self._names is None else held + self._names.held_bytes

    def _checked(self, time_stamp: int) -> int:
        """Return a time-stamp as an integer of Python.

        Raises:
            EventTypeError: it is no integer.
            TimeStampError: it is below that of an earlier time-point.
        """
        time_stamp = checked_time_stamp(time_stamp)
        engine = self._known()
        if engine.is_closed:
            raise MtlmonError("the monitor is finished: no time-point can follow")
        clock = engine.clock
        if time_stamp < clock:
            raise TimeStampError(
                f"the time-stamp {time_stamp} is below {clock}, that of an earlier time-point"
            )
        return time_stamp

    def _answers(self) -> list[Answer]:
        """Take what the engine has found, by the values of variables within a time-point."""
        found: list[Answer] = []
        engine = self._known()
        runs = groupby(engine.answers.take(), lambda one: (one[0], one[4]))
        for (policy, _), run in runs:
            own = [
                answer_of(engine.plan, policy, kind, time_stamp, offset, cells, point)
                for _, kind, time_stamp, offset, point, cells in run
            ]
            if self._names is not None:
                own = self._named(self._names, policy, own)
            own.sort(key=lambda one: (one.key, *one.valuation.values()))
            found += own
        if self._names is not None:
            numbers = range(len(engine.plan.named_policies))
            waiting = [one for number in numbers for one in engine.waiting_points(number, 1)]
            self._names.forget(min([engine.clock, *(time_stamp for time_stamp, _ in waiting)]))
        return found

    def _named(
        self, names: KeyNames[tuple[str, ...]], policy: int, answers: list[Answer]
    ) -> list[Answer]:
        """Return the answers of a policy at a time-point with the name that it has for each key.

        Keys of which nothing violates the policy have an answer, if these are wanted.
        """
        first = answers[0]
        offsets = names.at(policy, first.time_stamp, first.offset)
        if offsets is None:
            return answers
        found = [one for one in answers if one.value is not True]
        if self._wants_holding and first.value is not None:
            others = offsets.keys() - {one.key for one in found}
            found += [first._replace(value=True, valuation={}, key=key) for key in others]
        if any(one.key not in offsets for one in found):
            # a forged snapshot has lacked them
            raise damaged()
        return [one._replace(offset=offsets[one.key]) for one in found]


def _again(
    kind: type[RelationalMonitor],
    file: PolicyFile,
    chosen: dict[str, Any],
    snapshot: bytes | None,
) -> RelationalMonitor:
    """Return a monitor that goes on from a snapshot, for copies and pickles."""
    monitor = kind(file, **chosen)
    if snapshot is not None:
        monitor.restore(snapshot)
    return monitor
