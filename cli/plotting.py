"""The picture of `mtlmon streams --plot`: collects values and verdicts, and writes the file."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.log_check import LogCheck
from mtlmon.checking.partitions import TraceKeys
from mtlmon.policy.predicates.time_points import Waiting
from mtlmon.reporting.plot import FORMATS, PlottedPolicy, PlottedStream, draw
from mtlmon.run.failure import WriteFailure
from mtlmon.run.files import position_of_input, rewind
from mtlmon.run.late_rows import table_order, text_order
from mtlmon.run.policies import open_table_source, open_text_source
from mtlmon.support.replacing import write_whole
from mtlmon.text.byte_writer import ByteWriter
from mtlmon.verdicts.arrays import FALSE, verdict_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.engine.native import MemoryLimit
    from mtlmon.policy import PolicyFile
    from mtlmon.run.policy_work import Source
    from mtlmon.run.spec import RunSpec
    from mtlmon.streams.atoms import Values
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.stream_values import StreamTable

__all__ = ["PlotOutput", "StreamCollector", "plot_format"]


def plot_format(path: str) -> str | None:
    """Return the format of a picture by its name, or None if it is not known."""
    ending = path.rpartition(".")[2].lower()
    return ending if ending in FORMATS else None


class StreamCollector:
    """Collects the values of streams as columns.

    Args:
        table: creates the rows.
        names: the names of the streams.
        file: the policy file.
    """

    lines = None

    def __init__(self, table: StreamTable, names: Sequence[str], file: PolicyFile) -> None:
        self.writer = ByteWriter()
        self._table = table
        self._names = tuple(names)
        self._file = file
        self._batches: list[pa.RecordBatch] = []

    def put(self, values: Values) -> None:
        """Take the values."""
        self._batches += self._table.batches(values)

    def close(self) -> None:
        """Do nothing: the values are taken by `collected`."""

    def collected(self) -> tuple[NDArray[np.int64], list[str], list[PlottedStream]]:
        """Return the time-stamps in order, the key of each row, and the values of streams."""
        import pyarrow as pa

        if not self._batches:
            return np.empty(0, np.int64), [], []
        tables = [pa.Table.from_batches([batch]) for batch in self._batches]
        table = pa.concat_tables(tables, promote_options="permissive")
        times = table["time"].to_numpy()
        if (np.diff(times) < 0).any():
            # rows that have waited for later values
            order = np.argsort(times, kind="stable")
            table, times = table.take(order), times[order]
        count = len(self._names)
        first = 1 + ("time_text" in table.column_names)
        columns = table.columns[first : len(table.columns) - count]
        texts = [column.to_pylist() for column in columns]
        keys = [", ".join(one) for one in zip(*texts, strict=True)] or [""] * len(times)
        streams = []
        for name, column in zip(self._names, table.columns[-count:], strict=True):
            values, labels = _numbers(column)
            clock = self._file.streams[name].clock
            period = None if clock is None else clock.period
            streams.append(
                PlottedStream(
                    name,
                    values,
                    labels,
                    self._window(name),
                    clock is None or isinstance(period, Waiting),
                    period if isinstance(period, int) else None,
                )
            )
        return times, keys, streams

    def _window(self, name: str) -> tuple[int, int] | None:
        """The interval of a stream that is an aggregate, if it has an upper bound."""
        from mtlmon.policy.predicates import operators as ops
        from mtlmon.streams.kernels import extent_of

        node = self._file.streams[name].expression
        if node.operator not in ops.WINDOWS:
            return None
        extent = extent_of(node, self._file.environment.unit)
        return None if extent.upper < 0 else (extent.lower, extent.upper)


class PlotOutput(StreamCollector):
    """Collects the values of streams, and draws them at the end.

    Args:
        table: creates the rows.
        names: the names of the streams.
        source: the log, which has not been read yet.
        times: its notation of times, or None if it has time-stamps.
        file: the policy file.
        path: the file to write.
        options: the options of the command line.
        memory: the limit on memory.
    """

    def __init__(
        self,
        table: StreamTable,
        names: Sequence[str],
        source: Source,
        times: Times | None,
        file: PolicyFile,
        path: str,
        options: RunSpec,
        memory: MemoryLimit,
    ) -> None:
        super().__init__(table, names, file)
        self._size = source.size
        self._times = times
        self._start_of_input = position_of_input(options.log)
        self._path = path
        self._options = options
        self._memory = memory

    def close(self) -> None:
        """Check the policies, draw the picture and write it.

        Raises:
            WriteFailure: the file cannot be written.
            MtlmonError: matplotlib is not installed, or the log has no rows.
        """
        times, keys, streams = self.collected()
        own = self._times
        found = draw(
            times,
            keys,
            streams,
            self._policies(),
            format=plot_format(self._path) or "svg",
            unit=self._options.times.unit if own is None else own.resolution or own.unit,
            is_date=own is not None and not own.is_plain,
            title=", ".join(map(os.path.basename, self._options.policies.files)),
        )
        try:
            write_whole(self._path, found)
        except OSError as error:
            raise WriteFailure(f"cannot write {self._path}: {error.strerror}") from None

    def _policies(self) -> list[PlottedPolicy]:
        """The violations of the policies, found by reading the log again if that is possible."""
        if not self._file.policies or self._size is None:
            return []
        options = self._options
        check = LogCheck(
            self._file.policies,
            key=options.log.key_columns,
            verdicts="false",
            resolve=True,
            keep_keys=True,
            max_memory=self._memory,
        )
        times: list[list[int]] = [[] for _ in check.policies]
        keys: list[list[str]] = [[] for _ in check.policies]
        with closing(self._log_for(check)) as log:
            if check.repeats_ticks:
                log.only_due_ticks()
            texts = TraceKeys(check.partitions, tuple(log.key_tables))
            for _ in check.run(log, None):
                records, numbers, policies = check.verdicts.taken()
                found: NDArray[np.void] = np.frombuffer(records, verdict_type())
                owners = np.frombuffer(numbers, np.uint32).tolist()
                of_policies = np.frombuffer(policies, np.uint32).tolist()
                for record, number, policy in zip(found, owners, of_policies, strict=True):
                    if record["kind"] == FALSE:
                        times[policy].append(int(record["time_stamp"]))
                        keys[policy].append(texts.text(policy, number))
        return [
            PlottedPolicy(policy.name or "policy", np.array(own, np.int64), some)
            for policy, own, some in zip(check.policies, times, keys, strict=True)
        ]

    def _log_for(self, check: LogCheck) -> Source:
        """Open the log once more, for the policies."""
        rewind(self._options.log, self._start_of_input)
        if not self._options.log.is_table:
            return open_text_source(
                check, self._file, self._options, order=text_order(self._options, is_again=True)
            )
        return open_table_source(
            self._options,
            check.atoms,
            self._file,
            check.partitions.columns,
            self._memory,
            atoms_of_partitions=check.atoms_of_partitions,
            order=table_order(self._options, is_again=True),
        )


def _numbers(column: pa.ChunkedArray) -> tuple[NDArray[np.float64], list[str]]:
    """Values as floats, and what these stand for if the values are no numbers."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_boolean(kind):
        return _floats(column.cast(pa.int8()).cast(pa.float64())), ["false", "true"]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _floats(column.cast(pa.float64(), safe=False)), []
    entries = column.cast(pa.string()).combine_chunks().dictionary_encode()
    labels = [text or "" for text in entries.dictionary.to_pylist()]
    return _floats(pa.chunked_array([entries.indices.cast(pa.float64())])), labels


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    found: NDArray[np.float64] = column.to_numpy()
    return found
