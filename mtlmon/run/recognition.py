"""Recognise the format of a log by its first bytes, and say what to do about another one."""

from __future__ import annotations

import os
import stat

from mtlmon.run.failure import RunError
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.support.option_names import order_advice
from mtlmon.support.table_formats import compression_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.errors import LogError
    from mtlmon.run.spec import Log
    from mtlmon.support.inputs import Input
    from mtlmon.support.option_names import OptionNames

__all__ = ["format_advice", "format_of_input", "line_advice"]

# How much is looked at for the first line.
LINE_BYTES = 1 << 16
# How much of compressed data: bzip2 has blocks of nearly a megabyte.
COMPRESSED_BYTES = 1 << 20
PIECE_BYTES = 256


def format_of_input(stream: Input) -> str | None:
    """Return the format of a log on an input; None if that is closed.

    What is not recognised as a table is a text log.

    Raises:
        RunError: it cannot be read, or is compressed and not a table.
    """
    if stream.is_closed:
        return None
    try:
        begin = stream.look(is_enough, LINE_BYTES)
        if compression_of(begin) is not None:
            begin = stream.look(lambda some: is_enough(decompressed(some)), COMPRESSED_BYTES)
            return compressed_format(begin, stream.name)
    except OSError as error:
        raise RunError(f"cannot read {stream.name}: {error.strerror}") from None
    return format_of(begin) or "text"


def format_advice(log: Log) -> str:
    """What to add to the options so that the log is a table, by its first line.

    Raises:
        RunError: there is no such file.
    """
    from mtlmon.text.formats import guess_format

    try:
        if log.path == STANDARD_STREAM:
            begin = log.input.look(is_enough, LINE_BYTES)
        else:
            begin = first_bytes(log.path)
    except FileNotFoundError as error:
        raise RunError(f"cannot read {log.path}: {error.strerror}") from None
    except (OSError, ValueError):
        begin = b""
    guess = guess_format(begin.partition(b"\n")[0], 1) if begin else None
    if guess is not None and guess.format is not None:
        return f"add --format {guess.format} ({guess.words})"
    if guess is not None and guess.pattern is not None:
        return f"add --pattern {guess.pattern}, which its first line fits"
    if guess is not None and guess.advice is not None:
        return f"{guess.words}: {guess.advice}"
    return "add its format, for instance --format csv"


def line_advice(error: LogError, names: OptionNames) -> str:
    """Advise what to do about a line that is not in the format of text logs, or out of order.

    Args:
        error: the error.
        names: how the options are written that the caller has.
    """
    if error.guess is None:
        return ""
    from mtlmon.text.formats import OUT_OF_ORDER

    if error.guess is OUT_OF_ORDER:
        return order_advice(names)
    if error.guess.format is not None:
        return f": add --format {error.guess.format}"
    return f": {error.guess.advice}"


def first_bytes(path: str) -> bytes:
    """Return the beginning of a file; nothing of a pipe, which is read only once."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        return b""
    with open(path, "rb") as file:
        return file.read(LINE_BYTES)


def is_enough(begin: bytes) -> bool:
    """Whether the beginning of a log tells its format."""
    text = begin.lstrip(b"\xef\xbb\xbf \t\r\n")
    return (
        text[:1] == b"@" or b"\n" in text or compression_of(begin) is not None or is_binary(begin)
    )


def is_binary(begin: bytes) -> bool:
    return begin.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"))


def format_of(begin: bytes) -> str | None:
    """Return the format of tables that a log has by its beginning; None if it has none of them."""
    line = begin if is_binary(begin) else begin.partition(b"\n")[0]
    if line.lstrip()[:1] in (b"", b"@"):
        return None
    from mtlmon.text.formats import guess_format

    guess = guess_format(line, 1)
    return None if guess is None else guess.format


def compressed_format(begin: bytes, name: str) -> str:
    """Return the format of a compressed table, which has a name, by its beginning.

    Raises:
        RunError: this is not a table.
    """
    found = format_of(decompressed(begin))
    if found in (None, "parquet"):
        from mtlmon.text.formats import guess_format

        guess = guess_format(begin, 1)
        assert guess is not None
        raise RunError(
            f"{name}: {guess.words}, and not a table by its first line: {guess.advice}, "
            "or say with --format what it is"
        )
    assert found is not None
    return found


def decompressed(begin: bytes) -> bytes:
    """Return what the beginning of compressed data holds, as far as it is complete."""
    import io

    try:
        from mtlmon.tables.formats.files import decompressed as open_compressed
    except ImportError:
        raise RunError("tables need pyarrow: pip install 'mtlmon[tables]'") from None

    found = b""
    compression = compression_of(begin)
    assert compression is not None
    try:
        with open_compressed(io.BytesIO(begin), compression) as stream:
            # What is behind the last complete piece cannot be read.
            while len(found) < LINE_BYTES and (piece := stream.read(PIECE_BYTES)):
                found += piece
    except OSError:
        pass
    return found
