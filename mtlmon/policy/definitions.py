"""What policy files define: policies, streams, clocks, assumptions."""

from __future__ import annotations

from mtlmon.support.severities import SEVERITIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from mtlmon.policy.messages import ShownMessage
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.predicates.time_points import Changes, FromBeginning, Waiting
    from mtlmon.syntax.durations import Duration
    from mtlmon.syntax.formula import Formula


class Clock:
    """The time-points of a policy or stream, if they are not all rows.

    Either `condition` or `period` is not None.

    Attributes:
        condition: the time-points are the rows where this is true.
        period: the time-points are the ticks at the multiples of this; or, as `Waiting`, all rows,
            which wait for later values; or, as `Changes`, the times at which a relation changes;
            or, as `FromBeginning`, ticks that each instance counts from its beginning.
        atom: for a condition of a policy, the name of the atom that it is; otherwise None.
    """

    __slots__ = ("atom", "condition", "period")

    def __init__(
        self,
        condition: Expression | None = None,
        period: int | Duration | Waiting | Changes | FromBeginning | None = None,
        atom: str | None = None,
    ) -> None:
        self.condition = condition
        self.period = period
        self.atom = atom

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Clock):
            return NotImplemented
        own = self.condition, self.period, self.atom
        return own == (other.condition, other.period, other.atom)

    def __hash__(self) -> int:
        return hash((self.condition, self.period, self.atom))

    @property
    def waits(self) -> bool:
        """Whether the time-points are rows that wait for later values."""
        return isinstance(self.period, tuple)

    @property
    def has_ticks(self) -> bool:
        """Whether the time-points are ticks of a period, or changes of a relation."""
        return self.period is not None and not self.waits

    def __str__(self) -> str:
        return self.in_words(None)

    def in_words(self, unit: str | None) -> str:
        """Say what the time-points are; with the unit of time-stamps, periods have a unit."""
        if self.period is None:
            return f"rows where {self.condition}"
        from mtlmon.policy.predicates.time_points import Changes, Waiting, words_of

        if isinstance(self.period, Waiting | Changes):
            return str(self.period)
        return words_of(self.period, unit)


class Policy:
    """A policy of a file.

    Attributes:
        name: the name of the policy, or None for a formula without a name.
        formula: the formula, with named subformulas replaced by their definitions.
        written: the formula as written in the file, where named subformulas are atoms.
        key: the columns whose values divide the log into the traces of this policy; () if the log
            is a single trace, None for the key of the run.
        text: what the policy means, in words; empty if the file does not say.
        clock: the time-points, or None for all rows.
        lasting: how long what is written must have failed before that is a violation, as the
            formula says; None if every failure is one.
        tolerance: the share of time-points, from 0 to 1, at which it may be violated, or None.
        most: the number of time-points at which it may be violated, or None.
        severity: how serious a violation is, or None.
        message: the text of its violations; None if there is none.
        is_find: whether it is a `find`, which reports where the formula holds.
        is_trigger: whether it is a `trigger`, whose formula says that its condition is not true.
        key_variables: the variables of its formula that are the columns of its key, if the formula
            is one of all keys, as `mtlmon.relational.keyed` makes it; else ().
    """

    __slots__ = (
        "clock",
        "formula",
        "is_find",
        "is_trigger",
        "key",
        "key_variables",
        "lasting",
        "message",
        "most",
        "name",
        "severity",
        "text",
        "tolerance",
        "written",
    )

    def __init__(
        self,
        name: str | None,
        formula: Formula,
        written: Formula,
        key: tuple[str, ...] | None = None,
        *,
        text: str = "",
        clock: Clock | None = None,
        lasting: int | Duration | None = None,
        tolerance: Fraction | None = None,
        most: int | None = None,
        severity: str | None = None,
        message: ShownMessage | None = None,
        is_find: bool = False,
        is_trigger: bool = False,
    ) -> None:
        self.name = name
        self.formula = formula
        self.is_find = is_find
        self.is_trigger = is_trigger
        self.written = written
        self.key = key
        self.text = text
        self.clock = clock
        self.lasting = lasting
        self.tolerance = tolerance
        self.most = most
        self.severity = severity
        self.message = message
        self.key_variables: tuple[str, ...] = ()

    @property
    def is_first_order(self) -> bool:
        """Whether the engine for policies with variables evaluates it, as it does every `find`."""
        return self.is_find or self.formula.is_first_order

    def is_at_least(self, severity: str | None) -> bool:
        """Whether it is as serious as one of `SEVERITIES`; None is below all of them.

        A policy that does not say how serious it is counts as serious. Its severity, if it has
        one, must be one of these words.
        """
        if severity is None or self.severity is None:
            return True
        return SEVERITIES.index(self.severity) >= SEVERITIES.index(severity)

    @property
    def has_tolerance(self) -> bool:
        """Whether it may be violated at some time-points."""
        return self.tolerance is not None or self.most is not None

    @property
    def tolerance_text(self) -> str:
        """How often it may be violated, as in its file; empty if it may not."""
        if self.most is not None:
            return f"at most {self.most}"
        return "" if self.tolerance is None else f"at most {float(100 * self.tolerance):g}%"

    def lasting_text(self, unit: str | None) -> str:
        """How long it must have failed, with the unit if that is known; empty if not for long."""
        if self.lasting is None:
            return ""
        from mtlmon.syntax.durations import period_text

        return f"for {period_text(self.lasting, unit)}"

    def demand(self, unit: str | None) -> str:
        """What its time-points are to fulfil, as written."""
        written = str(self.written)
        return written if self.lasting is None else f"{written}, {self.lasting_text(unit)}"

    def allows(self, violations: int, time_points: int) -> bool:
        """Whether it may be violated that many times.

        Args:
            violations: the number of violated time-points.
            time_points: the number of time-points that a share refers to: those at which the left
                side of an implication held, or all of them.
        """
        if self.most is not None:
            return violations <= self.most
        share = 0 if self.tolerance is None else self.tolerance
        return violations <= share * time_points

    def __repr__(self) -> str:
        return f"<Policy {self.name or 'without a name'}>"


class Argument:
    """An argument of an atom.

    Attributes:
        name: its name.
        expression: its value on a row of a table; None if rows of the log itself have it.
        kind: the declared type: "int", "float", "bool", "text" or "time"; None if it follows from
            where the argument is used.
        place: the position of its name in the text.
        is_key: whether it is a column of a key, whose values are compared by their canonical texts.
    """

    __slots__ = ("expression", "is_key", "kind", "name", "place")

    def __init__(
        self,
        name: str,
        expression: Expression | None,
        kind: str | None,
        place: int,
        *,
        is_key: bool = False,
    ) -> None:
        self.is_key = is_key
        self.name = name
        self.expression = expression
        self.kind = kind
        self.place = place

    def __repr__(self) -> str:
        return f"<Argument {self.name}>"


class Relation:
    """An atom with arguments: a set of rows at each time-point.

    Attributes:
        name: its name.
        arguments: at least one.
        condition: the rows of a table that are rows of the atom are those where it is true; None
            for the rows of a log of relations.
        place: the position of its name in the text.
        is_declared: whether the file declares it; otherwise it is known by its use in formulas.
    """

    __slots__ = ("arguments", "condition", "is_declared", "name", "place")

    def __init__(
        self,
        name: str,
        arguments: tuple[Argument, ...],
        condition: Expression | None,
        place: int,
        *,
        is_declared: bool = True,
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.condition = condition
        self.place = place
        self.is_declared = is_declared

    def __repr__(self) -> str:
        return f"<Relation {self.name}/{len(self.arguments)}>"


class Stream:
    """A stream of a file: a value for each row, each tick, or each row of an instance.

    Attributes:
        name: the name of the stream.
        expression: the value, with names resolved.
        kind: the declared type: "int", "float", "bool", "text" or "time"; None if it follows from
            the expression.
        per: the expressions whose values tell instances apart, each with the name of its
            parameter or None; () for a stream without instances.
        clock: where it has values; None means at all rows.
        start: where an instance begins, or None.
        end: where an instance ends, or None.
        place: the position of its name in the text.
    """

    __slots__ = ("clock", "end", "expression", "kind", "name", "per", "place", "start")

    def __init__(
        self,
        name: str,
        expression: Expression,
        kind: str | None = None,
        per: tuple[tuple[Expression, str | None], ...] = (),
        clock: Clock | None = None,
        start: Expression | None = None,
        end: Expression | None = None,
        place: int = 0,
    ) -> None:
        self.name = name
        self.expression = expression
        self.kind = kind
        self.per = per
        self.clock = clock
        self.start = start
        self.end = end
        self.place = place

    @property
    def expressions(self) -> list[Expression]:
        """All expressions of the stream, the value first."""
        condition = None if self.clock is None else self.clock.condition
        others = (condition, self.start, self.end)
        keys = [value for value, _ in self.per]
        return [self.expression, *keys, *(one for one in others if one is not None)]

    @property
    def instances(self) -> list[tuple[str, str]]:
        """The clauses about instances, each as its word and the text behind it."""
        if not self.per:
            return []
        keys = [f"{key}{'' if name is None else f' as {name}'}" for key, name in self.per]
        ends = [("from", self.start), ("until", self.end)]
        return [
            ("per", ", ".join(keys)),
            *((word, str(one)) for word, one in ends if one is not None),
        ]

    def __repr__(self) -> str:
        return f"<Stream {self.name}>"


class Assumption:
    """What a file assumes of its log, for static bounds of memory.

    Attributes:
        subject: "rate" (rows in a unit of time), "rate per key", "keys" (their number) or
            "instances" (how many of a stream are alive at once).
        limit: the largest number.
        unit: for rates, the unit of time, a key of `mtlmon.syntax.bounds.UNITS`; else None.
        keys: the key columns that it is about, if it is about keys; None for all of the run.
        source: the name of its file, if there are several; else None.
    """

    __slots__ = ("keys", "limit", "source", "subject", "unit")

    def __init__(
        self,
        subject: str,
        limit: int,
        unit: str | None,
        keys: frozenset[tuple[str, ...]] | None = None,
        source: str | None = None,
    ) -> None:
        self.source = source
        self.subject = subject
        self.limit = limit
        self.unit = unit
        self.keys = keys

    def is_about(self, columns: Iterable[str]) -> bool:
        """Whether it holds for the traces that these key columns make."""
        return self.subject == "rate" or self.keys is None or tuple(columns) in self.keys

    def __str__(self) -> str:
        return f"{self.subject} <= {self.limit}{'' if self.unit is None else f'/{self.unit}'}"
