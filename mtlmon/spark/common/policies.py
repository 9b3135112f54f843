"""Compiles policies and the predicates of their atoms, to send them to executors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from mtlmon._core import Monitor
from mtlmon.engine.compile import compile_formula
from mtlmon.engine.native import Program
from mtlmon.errors import FormulaError, MtlmonError, UnitError
from mtlmon.policy import PolicyFile
from mtlmon.policy.clock_errors import refused_changes
from mtlmon.policy.definitions import Clock
from mtlmon.policy.needs import changes_in, looked_up_in, needs_of, refuse_first_order
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.policy.predicates.own_machines import Machine, machine_policies
from mtlmon.policy.predicates.time_points import ROWS, Changes, Waiting, period_in_units
from mtlmon.policy.several import given_policies
from mtlmon.relational.analysis import of_run
from mtlmon.spark.common.events import key_names
from mtlmon.support.refusals import refused
from mtlmon.syntax.bounds import LATER
from mtlmon.syntax.conditions import written_with_conditions
from mtlmon.syntax.durations import Duration
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.operators import ATOM, NOT
from mtlmon.syntax.rewrite import has_durations
from mtlmon.tables.columns.times import Times

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.policy import Policy, Predicate
    from mtlmon.policy.messages import ShownMessage
    from mtlmon.policy.needs import Needs
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relations.looking_up import KnownRelation
    from mtlmon.tables.looking_up import GivenRelations, KnownLog

PolicyLike: TypeAlias = (
    str
    | os.PathLike[str]
    | Sequence[str | os.PathLike[str]]
    | Mapping[str, type[Machine]]
    | Formula
    | Program
    | PolicyFile
)
"""A formula or the content of a policy file as text, the path of such a file, a list of paths, or a
parsed formula or policy file."""

Mode: TypeAlias = Literal["local", "global", "naive"]

# the suffixes of policy files


class CompiledPolicy(NamedTuple):
    """A policy of a file.

    Attributes:
        name: the name of the policy, or None for a formula without a name.
        program: the compiled formula.
        key: the key columns that the policy names; None if it has the key of the run.
        clock: its time-points, with a period in units of time; None for all rows.
        message: the text of its violations, as `Policy.message`.
    """

    name: str | None
    program: Program
    key: tuple[str, ...] | None = None
    clock: Clock | None = None
    message: ShownMessage | None = None

    @property
    def period(self) -> When:
        """The period of its ticks; `ROWS` if its time-points are rows that do not wait."""
        period = None if self.clock is None else self.clock.period
        assert period is None or isinstance(period, int | Waiting | Changes)
        return ROWS if period is None else period

    @property
    def is_on_ticks(self) -> bool:
        """Whether its time-points are ticks."""
        return self.clock is not None and self.clock.has_ticks

    @property
    def waits(self) -> bool:
        """Whether its time-points are rows that wait for later values."""
        return self.clock is not None and self.clock.waits

    @property
    def atoms(self) -> tuple[str, ...]:
        """The atoms that are needed at its time-points."""
        condition = None if self.clock is None else self.clock.atom
        return self.program.atoms if condition is None else (*self.program.atoms, condition)


class Policies(NamedTuple):
    """Policies that are monitored together; picklable.

    Attributes:
        policies: the policies in the order of the file.
        atoms: the atoms of all policies at rows, and those of the log that conditions on other rows
            need.
        predicates: the predicates by the name of the atom that they define, without `remembering`.
        unit: the unit of time-stamps, or None if it is not declared.
        mode: the mode of the monitors.
        file: the policy file, or None if there is only a formula.
        remembering: those of the atoms that depend on other rows, or on other atoms.
        log_atoms: the atoms of the log that these need.
        columns: the columns that all atoms need.
        looked_up: the relations in which values are looked up, with their records, if any.
        given: the same for logs that executors read, as far as it does not depend on these.
    """

    policies: tuple[CompiledPolicy, ...]
    atoms: tuple[str, ...]
    predicates: dict[str, Predicate]
    unit: str | None
    mode: Mode
    file: PolicyFile | None = None
    remembering: tuple[str, ...] = ()
    log_atoms: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    looked_up: Mapping[str, KnownRelation] | None = None
    given: GivenRelations | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns that the file names."""
        return () if self.file is None else self.file.key or ()

    def time_column(self, given: str | None) -> str:
        """Return the column of times: the one that is given, or else that of the file."""
        declared = None if self.file is None else self.file.time
        return given or declared or DEFAULT_TIME

    def event_column(self, given: str | None) -> str | None:
        """Return the column of names of events: the one that is given, or else that of the file."""
        return given if given is not None or self.file is None else self.file.event

    def watch(self, key: Sequence[str]) -> None:
        """Let relations tell when they change, as the time-points of policies.

        Args:
            key: the key columns of policies that have no key of their own.

        Raises:
            PolicyError: a relation does not have the key columns of its policy.
        """
        changes = [
            (one.clock.period, tuple(key) if one.key is None else one.key)
            for one in self.policies
            if one.clock is not None and isinstance(one.clock.period, Changes)
        ]
        if changes and self.file is not None:
            from mtlmon.tables.looking_up import LookedUpRelations, watch

            watch(self.file, LookedUpRelations(dict(self.looked_up or {}), {}), changes)

    def needs(self) -> Needs:
        """What all needs that depends on other rows, and the values to show; there is a file."""
        assert self.file is not None
        atoms = [name for some in self.wanted.values() for name in some]
        return needs_of(self.file, atoms, [name for some in self.shown.values() for name in some])

    @property
    def has_ticks(self) -> bool:
        """Whether a policy is checked at ticks."""
        return any(one.clock is not None and one.clock.has_ticks for one in self.policies)

    @property
    def has_clocks(self) -> bool:
        """Whether a policy is on ticks, or on some rows only."""
        return any(one.clock is not None and not one.waits for one in self.policies)

    @property
    def has_waiting(self) -> bool:
        """Whether rows of a policy wait for later values."""
        return any(one.waits for one in self.policies)

    @property
    def has_messages(self) -> bool:
        """Whether a trigger has a message."""
        return any(one.message is not None for one in self.policies)

    @property
    def wanted(self) -> dict[When, tuple[str, ...]]:
        """The atoms that depend on other rows, at rows under `ROWS`, and all at other time-points.

        Those at ticks are under their period, those of rows that wait under what they wait for.
        """
        found: dict[When, dict[str, None]] = {}
        for one in self.policies:
            own = found.setdefault(one.period, {})
            if one.period == ROWS:
                own |= {name: None for name in one.atoms if name in self.remembering}
            else:
                own |= dict.fromkeys(one.atoms)
        return {period: tuple(names) for period, names in found.items()}

    @property
    def shown(self) -> dict[When, tuple[str, ...]]:
        """The names in `PolicyFile.shown` that messages need, by time-points as in `wanted`."""
        found: dict[When, dict[str, None]] = {}
        for one in self.policies:
            if one.message is not None:
                found.setdefault(one.period, {}).update(dict.fromkeys(one.message.needed))
        return {period: tuple(names) for period, names in found.items() if names}

    @property
    def has_conditions(self) -> bool:
        """Whether atoms have to be computed, or policies are on other time-points than rows."""
        defined = () if self.file is None else self.file.atoms
        return self.has_clocks or self.has_streams or any(name in defined for name in self.atoms)

    @property
    def has_streams(self) -> bool:
        """Whether anything is computed from several rows, or only for messages."""
        has_points = self.has_ticks or self.has_waiting
        return has_points or any(self.wanted.values()) or any(self.shown.values())

    def chosen(self, policies: Sequence[CompiledPolicy]) -> Policies:
        """Return the same with some of the policies only, and all atoms."""
        return self._replace(policies=tuple(policies))


def compile_policies(
    policy: PolicyLike,
    mode: Mode,
    resolution: str | None = None,
    time_unit: str | None = None,
    *,
    has_keys: bool = False,
    replaces_keys: bool = False,
    has_lines: bool = False,
    leaves_out: bool = False,
    looks_up: bool = False,
    log: Callable[[PolicyFile], KnownLog] | None = None,
    has_changes: bool = False,
    files: Mapping[str, str | None] | None = None,
) -> Policies:
    """Parse and compile the policy that a caller gives.

    Args:
        policy: a formula or a policy file: as text, as a path, or parsed; or a list of paths.
        mode: "local", "global" or "naive".
        resolution: the unit of the time-stamps, if the policy does not declare it.
        time_unit: the unit of times that are integers; it is also the unit of time-stamps if there
            is no other.
        has_keys: whether policies can have keys of their own.
        replaces_keys: whether the caller's key replaces those of files.
        has_lines: whether lines of text can have a pattern.
        leaves_out: whether policies with variables are left out, instead of being an error.
        looks_up: whether policies can look values up in relations of tables.
        files: how times are written in files that executors read as logs, and so in all tables:
            options of `open_tables`; None if the rows are here.
        log: returns the rows that policies of a file are monitored on, if relations can read them
            as well.
        has_changes: whether policies can be on changes of relations, too.

    Raises:
        FormulaError: the policy is invalid; the error says where and why.
        MtlmonError: the mode is unknown, a text is the path of a file, or a policy has a key of its
            own although `has_keys` is false.
        UnitError: a unit is unknown, or a bound has a unit but time-stamps have none.
        OSError: there is no such file.
        TypeError: the policy has another type.
    """
    # check the units first, whatever the policy is
    Times(time_unit, None, resolution)
    unit = resolution
    file: PolicyFile | None = None
    if isinstance(policy, Formula):
        policy = written_with_conditions(policy) or policy
    if isinstance(policy, Program):
        compiled = [CompiledPolicy(None, policy)]
    elif isinstance(policy, Formula):
        compiled = [_compiled(None, policy, unit or time_unit)]
    else:
        file = read_file(policy, unit, time_unit, has_changes=has_changes)
        if not looks_up:
            refuse_look_ups(file)
        if not has_lines:
            _refuse_pattern(file)
        _refuse_messages(file)
        if not leaves_out:
            refuse_first_order(file.policies)
        if replaces_keys:
            file = file.without_keys_of_files()
        if not has_keys:
            _refuse_keys(file)
        unit = unit if file.unit in (None, LATER) else file.unit
        compiled = [
            _compiled(one.name, one.formula, unit or time_unit)._replace(
                key=one.key, clock=_clock_of(one, unit or time_unit), message=one.message
            )
            for one in file.policies
            if not one.is_first_order
        ]
    if not compiled:
        raise MtlmonError("there is no policy to monitor")
    if not isinstance(mode, str):
        raise MtlmonError(f"mode is 'local', 'global' or 'naive', not {mode!r}")
    # find an invalid mode here rather than on executors
    Monitor(compiled[0].program, mode)
    atoms = tuple(
        dict.fromkeys(name for one in compiled if one.period == ROWS for name in one.atoms)
    )
    policies = Policies(tuple(compiled), atoms, {}, unit, mode, file)
    if file is None:
        return policies
    at_ticks = [name for one in compiled if one.period != ROWS for name in one.atoms]
    shown = [name for names in policies.shown.values() for name in names]
    needs = needs_of(file, [*atoms, *at_ticks], shown)
    remembering = tuple(name for name in needs.remembering if name in atoms)
    predicates = {
        name: file.atoms[name] for name in atoms if name in file.atoms and name not in remembering
    }
    policies = policies._replace(remembering=remembering)
    read: dict[str, Any] = {
        "atoms": (*atoms, *(name for name in needs.log_atoms if name not in atoms)),
        "predicates": predicates,
        "log_atoms": needs.log_atoms if policies.has_streams else (),
        "columns": needs.columns,
    }
    changing = [one.relation for one in changes_in(file)]
    if needs.relations or changing:
        from mtlmon.tables.looking_up import given_relations, known_relations

        environment = file.environment._replace(unit=unit or time_unit, time_unit=time_unit)
        if files is not None:
            given = given_relations(file, needs.relations, environment, files, changing)
            return policies._replace(given=given, **read)
        rows = log and log(file)
        looked_up = known_relations(file, needs.relations, environment, rows, changing)
        policies = policies._replace(looked_up=looked_up)
    return policies._replace(**read)


def _compiled(name: str | None, formula: Formula, unit: str | None) -> CompiledPolicy:
    if unit is None and has_durations(formula):
        policy = "the policy" if name is None else f"the policy {name!r}"
        raise UnitError(
            f"{policy} has bounds with units of time, and the unit of time-stamps is not known: "
            "say it with resolution='s', or with a line 'unit s' in the policy"
        )
    return CompiledPolicy(name, compile_formula(formula, unit=unit))


def read_file(
    policy: object, unit: str | None, time_unit: str | None, *, has_changes: bool = False
) -> PolicyFile:
    """Read the policies with the unit of time-stamps, which by default is the unit of times."""
    file = _policy_file(policy, unit or LATER)
    for changes in () if has_changes else changes_in(file):
        raise refused_changes(file, changes)
    if file.unit != LATER:
        return file
    try:
        return _policy_file(policy, time_unit)
    except FormulaError:
        # what is missing is then said in the words of Spark
        if time_unit is None and any(map(_needs_unit, file.policies)):
            return file
        raise


def _needs_unit(policy: Policy) -> bool:
    """Whether an ordinary policy has intervals or a period with units of time."""
    if policy.is_first_order:
        return False
    clock = policy.clock
    is_period = clock is not None and isinstance(clock.period, Duration)
    return is_period or has_durations(policy.formula)


def relational_file(
    policy: PolicyLike,
    resolution: str | None = None,
    time_unit: str | None = None,
    *,
    key: str | Sequence[str] | None = None,
    has_changes: bool = False,
) -> PolicyFile | None:
    """Return the policy file if a policy in it has variables, else None.

    The other arguments and the errors are those of `compile_policies`.

    Args:
        policy: the policy.
        resolution: the unit of time-stamps.
        time_unit: the unit of times.
        key: the key columns that the caller gives; policies with variables and a key get formulas
            over the rows of all keys.
        has_changes: whether policies can be on changes of relations.

    Raises:
        PolicyError: a policy cannot be evaluated for each key.
    """
    if isinstance(policy, Program):
        return None
    if isinstance(policy, Formula):
        if not policy.is_first_order:
            return None
        policy = written_with_conditions(policy) or str(policy)
    Times(time_unit, None, resolution)
    file = read_file(policy, resolution, time_unit, has_changes=has_changes)
    if not any(one.is_first_order for one in file.policies):
        return None
    return of_run(file, None if key is None else key_names(key))


def _policy_file(policy: object, unit: str | None) -> PolicyFile:
    if isinstance(policy, PolicyFile):
        return policy
    if isinstance(policy, Mapping):
        policy = machine_policies(policy)
    if isinstance(policy, str | os.PathLike | list | tuple):
        return given_policies(policy, "<policy>", unit=unit)
    raise TypeError(
        "a policy is a formula, a policy file, the path of one, a list of paths, or a dictionary "
        "of machines, not "
        f"{type(policy).__name__}"
    )


def _clock_of(policy: Policy, unit: str | None) -> Clock | None:
    """The time-points of a policy, with a period in units of time.

    Raises:
        UnitError: the period has a unit, but that of time-stamps is not known.
        FormulaError: the period is not a whole number of units.
    """
    clock = policy.clock
    if clock is None or clock.period is None or isinstance(clock.period, int | Waiting | Changes):
        return clock
    if unit is None:
        raise UnitError(
            f"policy {policy.name} is on {clock}, and the unit of time-stamps is not known: say it "
            "with resolution='s', or with a line 'unit s' in the policy"
        )
    return Clock(period=period_in_units(clock.period, unit))


def _refuse_messages(file: PolicyFile) -> None:
    """Refuse messages of policies that are not decided at their own rows.

    Raises:
        MtlmonError: there is one.
    """
    for policy in file.policies:
        message, formula = policy.message, policy.formula
        is_of_atom = formula.operator is NOT and formula.operands[0].operator is ATOM
        is_elsewhere = message is not None and message.violations is None and not is_of_atom
        if message is not None and (message.is_later or is_elsewhere):
            raise MtlmonError(refused("Spark, messages", name=str(policy.name)))


def _refuse_pattern(file: PolicyFile) -> None:
    """Refuse a pattern for lines, as Spark's rows have columns already.

    Raises:
        MtlmonError: the file has one.
    """
    if file.pattern is not None:
        raise MtlmonError(refused("Spark, patterns"))


def refuse_look_ups(file: PolicyFile) -> None:
    """Refuse look-ups in relations, whose records are not here.

    Raises:
        MtlmonError: the file has some.
    """
    for name in looked_up_in(file):
        raise MtlmonError(
            f"the policy file looks values up in relation {name}, which mtlmon.spark.monitor, "
            "monitor_stream and monitor_files do; otherwise, join the data frame with the table of "
            "the relation first"
        )


def _refuse_keys(file: PolicyFile) -> None:
    """Refuse policies with keys of their own.

    Raises:
        MtlmonError: a policy has one.
    """
    if file.key:
        raise MtlmonError(refused("Spark, keys", name=f"key {', '.join(file.key)}"))
    for policy in file.policies:
        if policy.key:
            raise MtlmonError(refused("Spark, keys", name=f"that of {policy.name!r}"))
