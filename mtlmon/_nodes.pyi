from typing_extensions import disjoint_base

from mtlmon._program import Program

@disjoint_base
class NodeTable:
    def __init__(self, program: Program, *_arguments: object) -> None: ...
