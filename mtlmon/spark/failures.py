"""Errors from executors, as what they are."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mtlmon import errors
from mtlmon.errors import ExecutorError, MtlmonError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The last line of a traceback, which Spark's message ends with.
_LAST_LINE = re.compile(r"^mtlmon\.errors\.(\w+): (.*)$", re.MULTILINE)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors of mtlmon's on executors are raised as `ExecutorError`, in one line.

    Spark raises errors from executors where an action runs, with the tracebacks of all that took
    part. Around an action, this leaves what is wrong. Errors of other kinds stay as they are.

        with mtlmon.spark.plain_errors():
            verdicts.write.parquet("verdicts")
    """
    try:
        yield
    except _kinds_of_errors() as error:
        found = _LAST_LINE.findall(str(error))
        if not found:
            raise
        name, message = found[-1]
        kind = getattr(errors, name, MtlmonError)
        raise ExecutorError(message, kind=kind) from None


def _kinds_of_errors() -> tuple[type[Exception], ...]:
    """What Spark raises where something has failed on executors."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:
        # Spark Connect does without it
        return (PySparkException,)
    # of actions on an RDD, as Spark 4.0 and 4.1 have them
    return PySparkException, Py4JJavaError
