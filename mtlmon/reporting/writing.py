"""Writing a report: the file is the one before or the whole new one, never a part."""

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
    """Write a report as a page in HTML.

    A file that exists is replaced as a whole; what a link leads to is replaced, not the link. What
    is no regular file, a pipe for instance, is written to.

    Args:
        data: what the report says.
        path: of the file.

    Raises:
        ReportError: it cannot be written.
        MtlmonError: jinja2 is not installed (extra `report`).
    """
    content = render(data).encode("utf-8", "backslashreplace")
    name = os.fspath(path)
    try:
        write_whole(name, content)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ReportError(f"cannot write {name}: {reason}") from None
