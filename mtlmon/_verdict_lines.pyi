from typing import final

@final
class VerdictLines:
    """Reads verdict lines."""

    def __init__(self, path: str = "<verdicts>") -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def line_count(self) -> int: ...
