from typing import final

CHECKS: bool

@final
class Engine: ...
