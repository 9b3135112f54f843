"""Objects that cannot be copied or pickled, and say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from mtlmon.errors import CopyError

if TYPE_CHECKING:
    from typing import SupportsIndex

__all__ = ["NotCopied"]


class NotCopied:
    """The base of classes whose objects are refused by `copy` and `pickle`.

    Otherwise, a copy would share what is behind the attributes: the state in native code, files,
    threads. Then a call of the copy would change the original.
    """

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise CopyError(f"a {type(self).__name__} cannot be copied or pickled: make another one")
