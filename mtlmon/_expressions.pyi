from typing import final

from mtlmon._nodes import NodeTable
from mtlmon._program import Program

@final
class Workspace(NodeTable):
    def __init__(self, program: Program, bdd_choice: str) -> None: ...
