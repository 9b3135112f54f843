"""Explains a time-point by a proof, or says why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon._core import Verdict
from mtlmon.analysis.reach import decision_delay
from mtlmon.errors import ExplanationError, UndecidedError
from mtlmon.explanation.engine_values import engine_values
from mtlmon.explanation.prover import Prover
from mtlmon.explanation.trace import Trace
from mtlmon.support.option_names import PYTHON
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.interval import MAXIMUM_BOUND
from mtlmon.syntax.parser import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtlmon.explanation.proof import Proof
    from mtlmon.explanation.trace import Atoms, EndTime
    from mtlmon.support.option_names import OptionNames

__all__ = ["explain", "explain_position", "explain_positions"]


def explain(
    formula: Formula | str,
    trace: Trace | Iterable[tuple[int, Atoms]],
    time_point: int | tuple[int, int] | Verdict,
    *,
    end_time: EndTime = None,
) -> Proof:
    """Return a smallest proof that the formula holds, or that it fails, at a time-point of a trace.

    Args:
        formula: the formula or its text; the proof is about the formula as it is written.
        trace: pairs of a time-stamp and atoms (the names of those that hold, or a mapping of names
            to whether they hold), from the beginning of the stream; or a `Trace`, which knows its
            end itself.
        time_point: the position of the time-point in the trace, counted from 0, or its name
            (time-stamp and offset), or a verdict on it.
        end_time: what is known about the time after the trace: None (nothing), a time-stamp up to
            and including which the trace is complete, "last" (its last time-stamp) or "inf" (no
            event ever follows).

    Raises:
        FormulaError: the text is not a formula.
        TimeStampError: a time-stamp is invalid, or below the one before.
        EventTypeError: an event is not a pair, or its atoms are neither names nor a mapping.
        UndecidedError: the verdict depends on later events, or follows only from a comparison of
            undecided subformulas, as in `EVENTUALLY p OR NOT EVENTUALLY p`.
        ExplanationError: the trace has no such time-point.

    >>> import mtlmon
    >>> trace = [(1, {"request"}), (3, set()), (9, {"response"})]
    >>> proof = mtlmon.explain("request IMPLIES EVENTUALLY[0,5] response", trace, 0)
    >>> print(proof)
    1:0 violates request IMPLIES EVENTUALLY[0,5] response
    <BLANKLINE>
      time-point                                1:0  3:0  9:0
      distance                                    0   +2   +8
      request IMPLIES EVENTUALLY[0,5] response    ✗
      request                                     ✓    ✗    ✗
      EVENTUALLY[0,5] response                    ✗
      response                                    ✗    ✗    ✓
    <BLANKLINE>
    ✗ 1:0  request IMPLIES EVENTUALLY[0,5] response: request holds, but the right side does not
    ├─ ✓ 1:0  request
    └─ ✗ 1:0  EVENTUALLY[0,5] response: response fails at every time-point up to 5 time units ahead
       └─ ✗ 1:0 to 3:0 (2 time-points)  response
    >>> proof.value, proof.rule, proof.size
    (False, <Rule.BOOLEAN: 'boolean'>, 5)
    """
    if isinstance(trace, Trace):
        if end_time is not None:
            raise ExplanationError("a Trace knows its end: leave end_time out")
        recorded = trace
        if isinstance(formula, str):
            formula = parse(formula, unit=trace.unit)
    else:
        if isinstance(formula, str):
            formula = parse(formula)
        recorded = Trace.of(trace, end_time)
    return explain_position(formula, recorded, _position(recorded, time_point))


def explain_position(formula: Formula, trace: Trace, position: int) -> Proof:
    """Return a smallest proof for a position of a recorded trace.

    Raises:
        UndecidedError: there is no proof, for the reasons that `explain` has.
    """
    (proof,) = explain_positions(formula, trace, [position])
    if isinstance(proof, UndecidedError):
        raise proof
    return proof


def explain_positions(
    formula: Formula, trace: Trace, positions: Sequence[int], options: OptionNames = PYTHON
) -> Iterator[Proof | UndecidedError]:
    """Yield a smallest proof for each position, or the error that says why there is none.

    If the positions are close to each other, this is cheaper than explaining each separately: the
    sizes of proofs are computed only once, for everything from the first position to the last.

    Args:
        formula: the formula.
        trace: the trace.
        positions: the positions.
        options: how the caller writes options, for errors.
    """
    if positions:
        prover = Prover(formula, trace, min(positions), max(positions))
        for position in positions:
            yield prover.prove(position) or _undecided(formula, trace, position, options)


def _position(trace: Trace, time_point: int | tuple[int, int] | Verdict) -> int:
    if isinstance(time_point, Verdict):
        return trace.position(time_point.time_stamp, time_point.offset)
    if isinstance(time_point, tuple):
        return trace.position(*time_point)
    if not 0 <= time_point < len(trace):
        count = len(trace)
        raise ExplanationError(
            f"the trace has no time-point at position {time_point}: it has {count}, from 0"
        )
    return time_point


def _undecided(
    formula: Formula, trace: Trace, position: int, options: OptionNames
) -> UndecidedError:
    time_stamp, offset = trace.name(position)
    name = f"{time_stamp}:{offset}"
    delay = decision_delay(formula)
    value = engine_values(formula, trace)[position]
    if delay is None:
        until, option = None, options.written("end_time", "inf")
        remedy = f"{option} says that no event follows"
        when = "it may stay open for ever"
    else:
        until = min(time_stamp + delay, MAXIMUM_BOUND)
        option = options.written("end_time", until)
        remedy = f"{option} says that the trace is complete up to there"
        when = f"it is open up to time-stamp {until}"
    if value is None:
        return UndecidedError(f"{name} is undecided, {when}: {remedy}", until=until)
    return UndecidedError(
        f"{name} is {str(value).lower()} whatever comes, but only by comparing subformulas that "
        f"are undecided themselves; {when} what each of them is: {remedy}",
        until=until,
    )
