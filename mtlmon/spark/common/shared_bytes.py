"""Bytes that tasks read only if they need them, as broadcasts of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtlmon.spark.common.row_counts import context_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import Broadcast
    from pyspark.sql import SparkSession

__all__ = ["SharedBytes", "share"]


class SharedBytes:
    """Bytes; picklable.

    Args:
        content: the bytes, or what finds a broadcast with them.
    """

    def __init__(self, content: bytes | tuple[Callable[..., Broadcast[bytes]], Any]) -> None:
        self._content = content

    @property
    def value(self) -> bytes:
        """The bytes."""
        if isinstance(self._content, bytes):
            return self._content
        find, arguments = self._content
        return find(*arguments).value


class _Broadcast(SharedBytes):
    """Bytes in a broadcast, on the driver.

    Spark also unpickles stateful processors where it has not loaded broadcasts, so what is pickled
    does not look for the broadcast before it is used.
    """

    def __init__(self, broadcast: Broadcast[bytes]) -> None:
        self._broadcast = broadcast

    @property
    def value(self) -> bytes:
        """The bytes."""
        return self._broadcast.value

    def __reduce__(self) -> tuple[Any, ...]:
        # pickling the broadcast tells Spark that the task needs it
        find, arguments, *_ = self._broadcast.__reduce__()
        return SharedBytes, ((find, arguments),)


def share(spark: SparkSession, content: bytes) -> SharedBytes:
    """Share bytes with tasks; sessions of Spark Connect send them with each task."""
    context = context_of(spark)
    return SharedBytes(content) if context is None else _Broadcast(context.broadcast(content))
