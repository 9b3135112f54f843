from typing import final

@final
class TimeFormat:
    def __init__(self, text: str) -> None: ...
    @property
    def text(self) -> str: ...
