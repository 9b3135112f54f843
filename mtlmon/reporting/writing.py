"""Writing a report: the file is the one before or the whole new one, never a part."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from mtlmon.errors import ReportError
from mtlmon.reporting.page import render

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
    content = render(data).encode("utf-8")
    name = os.fspath(path)
    try:
        if os.path.exists(name) and not stat.S_ISREG(os.stat(name).st_mode):
            with open(name, "wb") as file:
                file.write(content)
        else:
            _replace(os.path.realpath(name), content)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ReportError(f"cannot write {name}: {reason}") from None


def _replace(path: str, content: bytes) -> None:
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
