"""Recognise text that is not in UTF-8, so that messages can say in which encoding it is."""

from __future__ import annotations

from mtlmon.errors import MtlmonError

__all__ = ["LOOKED_AT", "NOT_UTF_8", "Utf8Check", "decoded", "other_encoding"]

_CONVERT = "if it is Latin-1 or Windows-1252, convert it: iconv -f WINDOWS-1252 -t UTF-8"
NOT_UTF_8 = f"not UTF-8; {_CONVERT}"
"""What is wrong with text whose bytes are not UTF-8."""

_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
LOOKED_AT = 64
"""How many of the first bytes tell the encoding: most letters have a byte 0 in UTF-16."""


def other_encoding(begin: bytes) -> str | None:
    """Return what is wrong if the beginning of a text is UTF-16 or UTF-32; None if it is not.

    >>> other_encoding("ts,p".encode("utf-16"))
    'UTF-16 instead of UTF-8; convert it: iconv -f UTF-16 -t UTF-8'
    >>> other_encoding(b"ts,p")
    """
    found = next((name for mark, name in _MARKS.items() if begin.startswith(mark)), None)
    if found is None:
        found = _without_mark(begin[:LOOKED_AT])
    return f"{found[:6]} instead of UTF-8; convert it: iconv -f {found} -t UTF-8" if found else None


def _without_mark(begin: bytes) -> str | None:
    """The encoding of a text that begins with letters of ASCII in UTF-16, without a mark."""
    pairs = len(begin) // 2
    for first, name in ((0, "UTF-16BE"), (1, "UTF-16LE")):
        zeros, others = begin[first : 2 * pairs : 2], begin[1 - first : 2 * pairs : 2]
        # Text in UTF-8 has no byte 0, and hardly any in which every second one is.
        if pairs >= 2 and 0 not in others and 4 * zeros.count(0) >= 3 * pairs:
            return name
    return None


def decoded(content: bytes) -> str:
    """Return a text in UTF-8, perhaps with a byte order mark.

    Raises:
        MtlmonError: it is not in UTF-8; the message says in which encoding it may be.
    """
    if reason := other_encoding(content):
        raise MtlmonError(reason)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MtlmonError(f"not UTF-8 at byte {error.start}; {_CONVERT}") from None


class Utf8Check:
    """Checks whether the pieces of a text are UTF-8.

    >>> check = Utf8Check()
    >>> check.fault_in("é".encode()[:1]), check.fault_in("é".encode()[1:])
    (None, None)
    >>> check.fault_in(b"p\\xe9,")
    1
    """

    def __init__(self) -> None:
        import codecs

        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def resume(self, end: bytes) -> None:
        """Go on behind pieces that are known to be right, of which these are the last bytes."""
        # the first byte of a letter and what follows
        last = max((k for k in range(len(end)) if end[k] & 0xC0 != 0x80), default=0)
        self.fault_in(end[last:])

    def fault_in(self, piece: bytes) -> int | None:
        """Return where the next piece is not UTF-8; None if it is."""
        before = len(self._decoder.getstate()[0])
        try:
            self._decoder.decode(piece)
        except UnicodeDecodeError as error:
            return max(0, error.start - before)
        return None
