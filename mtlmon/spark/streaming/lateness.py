"""How late rows of a stream may be to correct verdicts, and which policies support it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import MtlmonError
from mtlmon.spark.streaming.row_relations import relations_of_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.event_clock import EventClock

__all__ = ["WATERMARK", "lateness_beyond", "refuse_corrections"]

WATERMARK = "spark.watermarkDelayMs"
"""The metadata of a column that has a watermark: its delay in milliseconds."""


def lateness_beyond(
    df: DataFrame,
    lateness: int | str,
    delay: int | str | None,
    clock: EventClock,
    unit: str | None,
) -> int:
    """Return how far below the horizon rows are taken in, in time-stamps.

    The horizon is the latest time less the delay, and a row may be as far as the lateness below the
    latest time.

    Args:
        df: the rows, whose column of times has a watermark if there is no delay.
        lateness: as for `monitor_stream`.
        delay: as for `monitor_stream`.
        clock: the clock of the query.
        unit: the unit of the time-stamps.

    Raises:
        FormulaError, UnitError, MtlmonError: the lateness is not a length of time, or is less than
            the delay.
    """
    longest = clock.delay(lateness, unit, "lateness")
    if delay is None:
        marked = (one.metadata for one in df.schema if WATERMARK in one.metadata)
        waits = int(next(marked)[WATERMARK])
        what = f"the watermark has a delay of {waits} milliseconds"
    else:
        waits = clock.delay(delay, unit)
        what = f"the delay is {delay}"
    if longest < waits:
        raise MtlmonError(
            f"{what} and the lateness {lateness}, but rows cannot wait for longer than they may be "
            "late: the lateness is at least the delay"
        )
    return (longest - waits) // clock.multiply * clock.divide


def refuse_corrections(policies: Policies) -> None:
    """Refuse policies whose verdicts cannot be corrected.

    Raises:
        MtlmonError: a policy depends on other rows by more than its formula, is on other
            time-points than rows, or has a message.
    """
    advice = "leave lateness out, and give a delay for which rows wait"
    for one in policies.policies:
        name = "the policy" if one.name is None else f"policy {one.name!r}"
        if one.clock is not None:
            raise MtlmonError(
                f"{name} is on {one.clock}, and verdicts of such policies are not corrected: "
                f"{advice}"
            )
        if one.message is not None:
            raise MtlmonError(f"{name} has a message, and messages are not corrected: {advice}")
    for relation in relations_of_rows(policies):
        raise MtlmonError(
            f"relation {relation} reads the rows of the stream, and a late row would change it for "
            f"all keys: {advice}; mtlmon --lateness corrects such verdicts on one machine"
        )
    if policies.has_streams:
        names = ", ".join(policies.remembering)
        raise MtlmonError(
            f"atoms with windows or streams ({names}) are not computed again when rows come late: "
            f"{advice}"
        )
