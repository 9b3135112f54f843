"""Shows errors from executors without Spark's tracebacks."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mtlmon import errors
from mtlmon.errors import ExecutorError, MtlmonError
from mtlmon.spark.common.ordering import quiet_analysis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The last line of the traceback at the end of Spark's message.
_LAST_LINE = re.compile(r"^mtlmon\.errors\.(\w+): (.*)$", re.MULTILINE)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise errors of mtlmon on executors as an `ExecutorError` with a message of one line.

    Spark raises errors from executors where an action runs, with the tracebacks of all processes,
    and logs them too. Use this context around an action to get only the error itself. Other errors
    are raised unchanged. In the meantime, errors of tasks and queries that Spark only logs are not
    shown.

        with mtlmon.spark.plain_errors():
            verdicts.write.parquet("verdicts")
    """
    try:
        with quiet_analysis(), _quiet_tasks():
            yield
    except _kinds_of_errors() as error:
        found = _LAST_LINE.findall(str(error))
        if not found:
            raise
        name, message = found[-1]
        kind = getattr(errors, name, MtlmonError)
        raise ExecutorError(message, kind=kind) from None


# The loggers of Spark that log the trace of an error that is also raised.
_LOGGERS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    "org.apache.spark.sql.execution.datasources.v2.ReplaceDataExec",
    "org.apache.spark.sql.execution.datasources.v2.AppendDataExec",
    "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec",
    "org.apache.spark.sql.execution.streaming",
    "org.apache.spark.util.Utils",
)


@contextmanager
def _quiet_tasks() -> Iterator[None]:
    """Keep Spark from logging the traces of failed tasks in this process."""
    restores = []
    for name in _LOGGERS:
        restore = _silenced(name)
        if restore is None:
            break
        restores.append(restore)
    try:
        yield
    finally:
        for restore in restores:
            restore()


def _silenced(name: str) -> Callable[[], None] | None:
    """Silence a Java logger; return a function that undoes that, or None if it is out of reach."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    java = None if context is None else context._jvm
    if java is None:
        return None
    try:
        log4j = java.org.apache.logging.log4j
        loggers = log4j.LogManager.getContext(False)
        configuration = loggers.getConfiguration()
        known = configuration.getLoggers()
        before = known.get(name).getLevel() if known.containsKey(name) else None
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
    except Exception:
        # another library does the logging, or Java has exited
        return None

    def restore() -> None:
        with suppress(Exception):
            if before is None:
                configuration.removeLogger(name)
                loggers.updateLoggers()
            else:
                log4j.core.config.Configurator.setLevel(name, before)

    return restore


def _kinds_of_errors() -> tuple[type[Exception], ...]:
    """The exceptions that Spark raises if something has failed on executors."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:
        # Spark Connect does not need it
        return (PySparkException,)
    # Py4JJavaError comes from actions on an RDD in Spark 4.0 and 4.1
    return PySparkException, Py4JJavaError
