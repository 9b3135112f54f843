"""Writes a report to a file, atomically."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mtlmon.errors import ReportError
from mtlmon.reporting.page import render
from mtlmon.support.replacing import write_whole

if TYPE_CHECKING:
    from mtlmon.reporting.data import ReportData

__all__ = ["write_report"]


def write_report(data: ReportData, path: str | os.PathLike[str]) -> None:
    """Write a report as an HTML page.

    An existing file is replaced as a whole. If it is a link, its target is replaced. If it is not a
    regular file, a pipe for example, the page is written to it.

    Args:
        data: the content of the report.
        path: the path of the file.

    Raises:
        ReportError: the file cannot be written.
        MtlmonError: jinja2 is not installed (extra `report`).
    """
    content = render(data).encode("utf-8", "backslashreplace")
    name = os.fspath(path)
    try:
        write_whole(name, content)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ReportError(f"cannot write {name}: {reason}") from None
