from mtlmon._program import Program

class NodeTable:
    def __init__(self, program: Program, *_arguments: object) -> None: ...
