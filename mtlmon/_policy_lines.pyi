from typing import final

from mtlmon._keys import KeyTable
from mtlmon._policies import VerdictRows
from mtlmon._writer import Writer

@final
class PolicyLines:
    writer: Writer
    def __init__(self, names: list[str | None], keys: KeyTable | None = None) -> None: ...
    def put(self, rows: VerdictRows) -> None: ...
