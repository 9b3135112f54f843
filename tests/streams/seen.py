"""Machines for tests, which a command can import as a module of its own, and what they must say."""

from __future__ import annotations

from typing import Any, ClassVar


class Count:
    """Counts the rows that have a value: `count[0,*](x > -99)`."""

    columns: ClassVar[dict[str, type]] = {"x": int}

    def __init__(self) -> None:
        self.count = 0

    def step(self, row: dict[str, Any]) -> int:
        self.count += row["x"] is not None
        return self.count

    def save(self) -> int:
        return self.count

    def load(self, state: int) -> None:
        self.count = state


class Seen:
    """Remembers when it saw the last three values."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"rows": 0, "last": ()}

    def step(self, row: dict[str, Any]) -> int | None:
        self.state["rows"] += 1
        if row["x"] is not None:
            self.state["last"] = (*self.state["last"][-2:], (row["ts"], row["x"]))
        if not self.state["last"]:
            return None
        found: int = self.state["rows"] * 1000 + sum(time * x for time, x in self.state["last"])
        return found

    def save(self) -> Any:
        return self.state

    def load(self, state: Any) -> None:
        self.state = state


class Calm:
    """Whether three values in a row, or fewer, are above 5."""

    columns: ClassVar[dict[str, type]] = {"x": int}

    def __init__(self) -> None:
        self.above: list[int] = []

    def step(self, row: dict[str, Any]) -> bool:
        if row["x"] is not None:
            if row["x"] > 5:
                self.above.append(row["x"])
            else:
                self.above.clear()
        return len(self.above) <= 3

    def save(self) -> list[int]:
        return self.above

    def load(self, state: list[int]) -> None:
        self.above = list(state)
