"""Choose what writes a table: CSV, JSON lines or Parquet."""

from __future__ import annotations

import sys

from mtlmon.run.failure import RunError
from mtlmon.run.host import is_terminal
from mtlmon.support.lean_typing import TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.run.spec import Output, RunSpec
    from mtlmon.tables.outputs import RowOutput, RowTable

__all__ = ["answer_output", "continue_table", "require_no_terminal", "table_output"]

_Rows = TypeVar("_Rows")


def require_no_terminal(options: Output) -> None:
    """Raise RunError if the output is binary, but would go to a terminal."""
    if options.format == "parquet" and options.path is None and is_terminal(sys.stdout):
        raise RunError("cannot write Parquet to a terminal: add -o FILE")


def table_output(table: RowTable[_Rows], options: Output) -> RowOutput[_Rows]:
    """Return what writes a table in the format that the options name.

    Raises:
        RunError: the output is binary, but would go to a terminal.
    """
    require_no_terminal(options)
    from mtlmon.tables.outputs import row_output

    return row_output(table, options.format, csv_safe=options.csv_safe)


def answer_output(table: RowTable[_Rows], options: Output) -> RowOutput[_Rows]:
    """Return what takes the answers of a run as rows: it writes them, or keeps them as batches.

    Raises:
        RunError: the output is binary, but would go to a terminal.
    """
    if options.make_batches is None:
        return table_output(table, options)
    output: RowOutput[_Rows] = options.make_batches(table)
    return output


def continue_table(output: object, size: int, options: RunSpec) -> None:
    """Let an output go on behind what an earlier run has written: a table has its header already.

    Args:
        output: the output.
        size: how many bytes have been written.
        options: the options of the run.
    """
    if size and options.output.format == "csv" and options.judging.verdicts != "none":
        from mtlmon.tables.outputs import CsvOutput

        assert isinstance(output, CsvOutput)
        output.has_header = True
