"""Choose what writes a table: CSV, JSON lines or Parquet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol, TypeVar

from mtlmon.run.failure import RunError
from mtlmon.run.host import is_terminal

if TYPE_CHECKING:
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.outputs import BatchOutput, RowOutput, RowTable

__all__ = ["answer_output", "continue_table", "require_no_terminal", "table_output"]

_Rows = TypeVar("_Rows")


class OutputOptions(Protocol):
    """The options that choose the output."""

    @property
    def output(self) -> str | None:
        """The name of the file; None for the standard output."""

    @property
    def output_format(self) -> str:
        """The format."""

    @property
    def csv_safe(self) -> bool:
        """Whether no text of CSV begins like a formula of a spreadsheet."""


class VerdictOptions(OutputOptions, Protocol):
    """The options that choose the output of verdicts."""

    @property
    def verdicts(self) -> str:
        """The verdicts that are written."""


def require_no_terminal(options: OutputOptions) -> None:
    """Raise RunError if the output is binary, but would go to a terminal."""
    if options.output_format == "parquet" and options.output is None and is_terminal(sys.stdout):
        raise RunError("cannot write Parquet to a terminal: add -o FILE")


def table_output(table: RowTable[_Rows], options: OutputOptions) -> RowOutput[_Rows]:
    """Return what writes a table in the format that the options name.

    Raises:
        RunError: the output is binary, but would go to a terminal.
    """
    require_no_terminal(options)
    from mtlmon.tables.outputs import row_output

    return row_output(table, options.output_format, csv_safe=options.csv_safe)


def answer_output(table: RowTable[_Rows], options: RunSpec) -> RowOutput[_Rows]:
    """Return what takes the answers of a run as rows: it writes them, or keeps them as batches.

    Raises:
        RunError: the output is binary, but would go to a terminal.
    """
    if options.batch_output is None:
        return table_output(table, options)
    output: BatchOutput[_Rows] = options.batch_output(table)
    output.is_wanted = options.verdicts != "none"
    return output


def continue_table(output: object, size: int, options: VerdictOptions) -> None:
    """Let an output go on behind what an earlier run has written: a table has its header already.

    Args:
        output: the output.
        size: how many bytes have been written.
        options: the options of the run.
    """
    if size and options.output_format == "csv" and options.verdicts != "none":
        from mtlmon.tables.outputs import CsvOutput

        assert isinstance(output, CsvOutput)
        output.has_header = True
