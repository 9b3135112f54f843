# cython: language_level=3
"""Operator precedence of formulas: which operands belong to which operator; `parser` explains it.

Classes below these make the errors.
"""

cdef object OTHER_READINGS = frozenset({ops.AND, ops.OR})


cdef class TokenCursor:
    """The tokens of a part of a text, and the index of the present one; see `Cursor`."""
    cdef readonly str text
    cdef readonly str source
    cdef readonly object constants
    cdef readonly list tokens
    cdef public Py_ssize_t index

    def __init__(self, str text not None, str source not None, list tokens not None, constants):
        self.text = text
        self.source = source
        self.tokens = tokens
        self.constants = constants

    @property
    def token(self):
        """The present token."""
        return self.tokens[self.index]

    def ahead(self, Py_ssize_t distance):
        """Return the token at a distance, clipped to the first and the last token."""
        return token_ahead(self, distance)

    def text_of(self, Token token not None):
        """Return the text of a token."""
        return self.text[token.start:token.end]


cdef inline Token token_ahead(TokenCursor cursor, Py_ssize_t distance):
    cdef Py_ssize_t place = min(cursor.index + distance, len(cursor.tokens) - 1)
    return <Token> cursor.tokens[max(0, place)]


@final
cdef class Waiting:
    """An operator whose last operand is not complete, or an open parenthesis (operator None)."""
    cdef readonly Py_ssize_t index
    cdef readonly object operator
    cdef readonly object interval


cdef class OperatorParser:
    """Reads the operators and operands of a formula.

    Args:
        cursor: the cursor at its first token.
        unit: as for `parse_at`.
        missing_parentheses: likewise, as a list.
        make: makes a formula: the class.
        read_interval: reads the interval at a cursor, with the unit.
        intervals: the intervals that have been read with this unit, by how they are written.
    """
    cdef readonly TokenCursor cursor
    cdef object unit
    cdef list missing_parentheses
    cdef readonly list waiting
    cdef list operands
    # The index of the first token of each operand, which can be a parenthesis.
    cdef readonly list starts
    cdef object make
    cdef object read_interval
    cdef dict intervals

    def __init__(
        self, TokenCursor cursor not None, unit, list missing_parentheses, make, read_interval,
        dict intervals not None
    ):
        self.cursor = cursor
        self.unit = unit
        self.missing_parentheses = missing_parentheses
        self.waiting = []
        self.operands = []
        self.starts = []
        self.make = make
        self.read_interval = read_interval
        self.intervals = intervals

    def formula(self):
        """Read all tokens, and return the formula."""
        if (<Token> self.cursor.token).kind == END:
            raise self.empty()
        read_operand(self)
        while read_operator(self):
            read_operand(self)
        return self.operands[0]

    def apply_before(self, incoming):
        """Apply the waiting operators that the incoming one ends; None ends all of them."""
        apply_before(self, incoming)


cdef void read_operand(OperatorParser self) except *:
    """Read prefix operators and open parentheses, then an atom or a constant."""
    cdef TokenCursor cursor = self.cursor
    cdef Py_ssize_t index
    cdef Token token, last
    while True:
        token = <Token> cursor.tokens[cursor.index]
        index = cursor.index
        operator = ATOM_OPERATOR if token.kind == ATOM else token.operator
        if token.kind == "(":
            cursor.index += 1
            wait(self, index, None, None)
        elif operator is None or operator.arity == 2:
            if token.kind != LEAF:
                raise self.operand_missing()
            cursor.index += 1
            self.operands.append(token.formula)
            self.starts.append(index)
            return
        elif operator.is_prefix:
            read_operator_at_cursor(self, operator)
        else:
            cursor.index += 1
            if operator is ATOM_OPERATOR:
                last = <Token> cursor.tokens[cursor.index]
                if last.kind == "(" and token_ahead(cursor, 1).kind == ")":
                    # an atom without arguments
                    cursor.index += 2
            name = token.value if operator is ATOM_OPERATOR else None
            span = new_span(token.start, token_ahead(cursor, -1).end)
            self.operands.append(self.make(operator, (), None, name, span))
            self.starts.append(index)
            return


cdef bint read_operator(OperatorParser self) except -1:
    """Read on after a complete operand; return False at the end of the text."""
    cdef TokenCursor cursor = self.cursor
    cdef Token token
    cdef Waiting opening
    while True:
        token = <Token> cursor.tokens[cursor.index]
        operator = token.operator
        if operator is not None and operator.arity == 2:
            if self.missing_parentheses is None:
                require_one_reading(self, operator)
            apply_before(self, operator)
            read_operator_at_cursor(self, operator)
            return True
        if token.kind != ")" and token.kind != END:
            raise self.operator_missing()
        apply_before(self, None)
        if token.kind == END:
            if self.waiting:
                raise self.never_closed()
            return False
        if not self.waiting:
            raise self.closes_nothing()
        opening = self.waiting.pop()
        self.starts[len(self.starts) - 1] = opening.index
        cursor.index += 1


cdef void wait(OperatorParser self, Py_ssize_t index, operator, interval) except *:
    cdef Waiting waiting = Waiting.__new__(Waiting)
    waiting.index = index
    waiting.operator = operator
    waiting.interval = interval
    self.waiting.append(waiting)


cdef void read_operator_at_cursor(OperatorParser self, operator) except *:
    cdef TokenCursor cursor = self.cursor
    cdef Py_ssize_t index = cursor.index
    cdef str kind
    interval = None
    cursor.index += 1
    if operator.is_temporal:
        kind = (<Token> cursor.tokens[cursor.index]).kind
        # no atom starts with a digit
        if kind == "[" or (kind == "(" and token_ahead(cursor, 1).kind == NUMBER):
            interval = interval_at(self, cursor)
    wait(self, index, operator, interval)


cdef object interval_at(OperatorParser self, TokenCursor cursor):
    """The interval at the cursor, which moves behind it; what is written alike is read once."""
    cdef Py_ssize_t place = cursor.index, last = len(cursor.tokens) - 1
    cdef Token opening = <Token> cursor.tokens[place], token = opening
    while place < last and token.kind != "]" and token.kind != ")":
        place += 1
        token = <Token> cursor.tokens[place]
    written = cursor.text[opening.start:token.end]
    interval = self.intervals.get(written)
    if interval is None:
        interval = self.intervals[written] = self.read_interval(cursor, self.unit)
    else:
        cursor.index = place + 1
    return interval


cdef void require_one_reading(OperatorParser self, incoming) except *:
    """Refuse AND, OR and temporal operators beside an operand that could end before them."""
    cdef Py_ssize_t place
    cdef Waiting waiting
    if incoming.groups_right:
        return
    for place in range(len(self.waiting) - 1, -1, -1):
        waiting = <Waiting> self.waiting[place]
        operator = waiting.operator
        if operator is None or operator.is_first_order or operator.groups_right:
            return
        if operator.is_temporal:
            if incoming.is_temporal and operator.arity == 2:
                # a chain, whose readings `apply_before` shows
                return
            raise self.two_readings(place, incoming)
        if incoming.is_temporal and operator.arity == 2:
            raise self.two_readings(place, incoming)


cdef void apply_before(OperatorParser self, incoming) except *:
    cdef Waiting waiting
    cdef Py_ssize_t middle = -1
    cut = None
    while self.waiting:
        waiting = <Waiting> self.waiting[len(self.waiting) - 1]
        operator = waiting.operator
        if operator is None or (incoming is not None and not ends(incoming, operator)):
            break
        if operator.is_temporal and cut is None:
            middle = self.starts[len(self.starts) - 1]
            cut = operator
        apply(self)
    if incoming is not None:
        if cut is not None:
            raise self.ambiguous(cut, incoming, middle)
        if incoming.groups_right and self.waiting:
            self.require_beginning(incoming)


cdef bint ends(incoming, operator) except -1:
    """Whether a binary operator ends the last operand of an earlier operator."""
    cdef int before = incoming.binding, behind = operator.binding
    if before == behind:
        return not incoming.groups_right
    return before < behind


cdef void apply(OperatorParser self) except *:
    """Apply the last waiting operator, whose last operand ends before the cursor."""
    cdef Waiting waiting = self.waiting.pop()
    cdef TokenCursor cursor = self.cursor
    cdef Py_ssize_t arity = waiting.operator.arity
    cdef Py_ssize_t split = len(self.operands) - arity
    cdef Py_ssize_t start
    operator = waiting.operator
    operands = tuple(self.operands[split:])
    if operator.is_temporal and self.missing_parentheses is not None:
        note_missing_parentheses(self, split)
    start = waiting.index if operator.is_prefix else self.starts[split]
    span = new_span((<Token> cursor.tokens[start]).start, token_ahead(cursor, -1).end)
    value = cursor.tokens[waiting.index].variables if operator.is_first_order else None
    del self.operands[split:]
    self.operands.append(self.make(operator, operands, waiting.interval, None, span, value))
    del self.starts[split:]
    self.starts.append(start)


cdef void note_missing_parentheses(OperatorParser self, Py_ssize_t split) except *:
    """Note the operands of a temporal operator that `require_one_reading` refuses."""
    cdef Py_ssize_t place
    cdef FormulaNode operand
    cdef Token first
    for place in range(split, len(self.operands)):
        operand = self.operands[place]
        first = self.cursor.tokens[self.starts[place]]
        needs_them = operand.operator in OTHER_READINGS or (
            operand.operator.is_temporal and operand.operator.arity == 2
        )
        # where it does not begin with its first token, that is a parenthesis
        if needs_them and (<Span> operand.span).start == first.start:
            self.missing_parentheses.append(operand.span)
