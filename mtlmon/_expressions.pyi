from typing import final

from mtlmon._program import Program

@final
class Workspace:
    def __init__(self, program: Program, bdd_choice: str) -> None: ...
