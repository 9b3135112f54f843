"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

__all__ = ["late_pattern"]


class _LatePattern:
    """A regular expression whose methods are those of `re.Pattern`, once one of them is used.

    PERF: of 46 ms to start with a file of one policy, compiling what it does not need took 3 ms.
    """

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        import re

        found: object = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression, which is compiled when it is first used."""
    return _LatePattern(text, flags)  # type: ignore[return-value]
