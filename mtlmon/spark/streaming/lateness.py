"""How late rows of a stream may be to correct verdicts, and which policies support it.

The horizon alone decides which rows are late: the largest time of earlier batches less the delay,
which is the same for all buckets. A row exactly at the watermark is not late, because many events
can share a time-stamp. The horizon also determines what is final, and bucket 0 tells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from mtlmon.spark.common.events import OnError
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.event_clock import EventClock

__all__ = ["WATERMARK", "Admission", "lateness_beyond", "refuse_corrections", "waits_of"]

WATERMARK = "spark.watermarkDelayMs"
"""The metadata of a column that has a watermark: its delay in milliseconds."""


class Admission(NamedTuple):
    """Which rows are taken in.

    Attributes:
        lateness: how far below the horizon they may be; None if late rows correct nothing.
    """

    lateness: int | None

    @property
    def corrects(self) -> bool:
        """Whether late rows correct verdicts."""
        return self.lateness is not None

    def admits_from(self, horizon: int) -> int:
        """Return the least time-stamp of rows that are not too late."""
        return horizon if self.lateness is None else max(0, horizon - self.lateness)

    def final_below(self, delays: Sequence[int | None], horizon: int) -> list[int | None]:
        """Return the time-stamps below which verdicts of policies are final; None if there is none.

        Args:
            delays: for each policy, how long after a time-point its verdict may depend on rows.
            horizon: the horizon.
        """
        admits_from = self.admits_from(horizon)
        return [None if one is None or one >= admits_from else admits_from - one for one in delays]


def waits_of(df: DataFrame, delay: int | str | None, clock: EventClock, unit: str | None) -> int:
    """Return how far the watermark is behind the latest time, in milliseconds.

    Args:
        df: the rows, whose column of times has a watermark if there is no delay.
        delay: as for `monitor_stream`; likewise `clock` and `unit` as for `lateness_beyond`.
    """
    if delay is not None:
        return clock.delay(delay, unit)
    return int(next(one.metadata[WATERMARK] for one in df.schema if WATERMARK in one.metadata))


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
    waits = waits_of(df, delay, clock, unit)
    if longest < waits:
        what = f"the delay is {delay}"
        if delay is None:
            what = f"the watermark has a delay of {waits} milliseconds"
        raise MtlmonError(
            f"{what} and the lateness {lateness}, but rows cannot wait for longer than they may be "
            "late: the lateness is at least the delay"
        )
    return (longest - waits) // clock.multiply * clock.divide


def refuse_corrections(policies: Policies, on_error: OnError) -> None:
    """Refuse policies whose verdicts cannot be corrected.

    Raises:
        MtlmonError: a policy waits for later values, or has a message; or rows on which streams
            have no value are to be skipped.
    """
    advice = "leave lateness out, and give a delay for which rows wait"
    for one in policies.policies:
        name = "the policy" if one.name is None else f"policy {one.name!r}"
        if one.waits:
            raise MtlmonError(
                f"{name} is on {one.clock}, and verdicts of such policies are not corrected: "
                f"{advice}"
            )
        if one.message is not None:
            raise MtlmonError(f"{name} has a message, and messages are not corrected: {advice}")
    if policies.has_streams and on_error == "skip":
        names = ", ".join(policies.remembering)
        what = f"atoms with windows or streams ({names})" if names else "policies on ticks"
        raise MtlmonError(
            f"{what} are computed again when rows come late, and a row on which they have no value "
            f"would be skipped each time: {advice}, or on_error='stop'"
        )
