"""Values with named fields that are not changed once they are made.

They are what frozen data classes are, to people and type checkers. The command would take a third
longer to start if it imported `dataclasses`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_: object) -> object:
        """Say nothing: this is for type checkers."""
        return lambda kind: kind


__all__ = ["Frozen"]


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Frozen:
    """A value whose fields are the annotated names of its class, with the defaults there."""

    def __init__(self, **given: Any) -> None:
        self._require_fields(given)
        vars(self).update(given)

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """Return the names of the fields."""
        return tuple(cls.__annotations__)

    def replace(self, **changes: Any) -> Self:
        """Return the value with other contents of some fields."""
        self._require_fields(changes)
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        vars(found).update(changes)
        return found

    def _require_fields(self, given: dict[str, Any]) -> None:
        for name in given:
            if name not in type(self).__annotations__:
                raise TypeError(f"{type(self).__name__} has no field {name}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: use replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"
