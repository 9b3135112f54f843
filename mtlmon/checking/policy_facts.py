"""What policy files say of their policies, as columns of verdicts: `severity` and `text`."""

from __future__ import annotations

from mtlmon.checking.outputs import unique_columns
from mtlmon.support.lean_typing import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    class Described(Protocol):
        """A policy, as its file describes it."""

        @property
        def severity(self) -> str | None: ...
        @property
        def text(self) -> str: ...


__all__ = ["PolicyFacts"]


class PolicyFacts:
    """The severities and texts of policies, which become columns if any policy has them.

    The column `severity` has the severity of the policy in each row, and `text` what the policy
    means in the rows of violations. Names that others have get the prefix `policy_`, as these two
    columns may be new in a table whose other columns are known.

    Args:
        policies: the policies, in order.
    """

    def __init__(self, policies: Sequence[Described]) -> None:
        self.severities = [policy.severity for policy in policies]
        self.texts = [policy.text or None for policy in policies]

    @property
    def kinds(self) -> list[str]:
        """Which of the two columns there are."""
        known = {"severity": self.severities, "text": self.texts}
        return [kind for kind, values in known.items() if any(values)]

    def columns(self, taken: Collection[str]) -> dict[str, str]:
        """Return the names of the columns, by "severity" and "text".

        Args:
            taken: the names of the other columns.
        """
        kinds = self.kinds
        return dict(zip(kinds, unique_columns(kinds, taken, "policy_"), strict=True))

    def endings(self, columns: Mapping[str, str]) -> list[tuple[bytes, bytes]] | None:
        """Return, for each policy, the last members of a line of JSON, if there are any.

        Args:
            columns: the names of the columns, as `columns` returns them.

        Returns:
            Pairs of the members of a violation and of those of another verdict.
        """
        if not columns:
            return None
        return [
            (
                _members(columns, {"severity": severity, "text": text}),
                _members(columns, {"severity": severity}),
            )
            for severity, text in zip(self.severities, self.texts, strict=True)
        ]


def _members(columns: Mapping[str, str], values: Mapping[str, str | None]) -> bytes:
    """Return members of a line of JSON, with the comma before them."""
    import json

    members = (
        f",{json.dumps(name)}:{json.dumps(values.get(kind), ensure_ascii=False)}"
        for kind, name in columns.items()
    )
    return "".join(members).encode()
