"""Errors from executors, as what they are."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mtlmon import errors
from mtlmon.errors import ExecutorError, MtlmonError
from mtlmon.spark.common.ordering import quiet_analysis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The last line of a traceback, which Spark's message ends with.
_LAST_LINE = re.compile(r"^mtlmon\.errors\.(\w+): (.*)$", re.MULTILINE)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors of mtlmon's on executors are raised as `ExecutorError`, in one line.

    Spark raises errors from executors where an action runs, with the tracebacks of all that took
    part, and logs them as well. Around an action, this leaves what is wrong. Errors of other kinds
    are raised as they are; those that Spark only logs for tasks and queries, without raising them,
    are not shown meanwhile.

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


# The loggers of Spark's that show the trace of an error which they pass on as well.
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
    """Does not let Spark log the traces of tasks that fail, as far as it logs in this process."""
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
    """Silence a logger of Java's; what undoes that, None where there is no such logger to reach."""
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
        # another library logs, or Java is gone
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
    """What Spark raises where something has failed on executors."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:
        # Spark Connect does without it
        return (PySparkException,)
    # of actions on an RDD, as Spark 4.0 and 4.1 have them
    return PySparkException, Py4JJavaError
