# cython: language_level=3
"""Splits the text of a formula into tokens; `lexer` says which there are."""

ATOM = "atom"
LEAF = "leaf"
OPERATOR = "operator"
NUMBER = "number"
INVALID = "invalid"
END = "end"

cdef dict SPELLINGS = ops.BY_SPELLING
cdef dict SMALL = ops.SMALL_WORDS
cdef str SYMBOL_STARTS = "".join({name[0] for name in SPELLINGS if not name[0].isalpha()})
cdef Py_ssize_t LONGEST_SYMBOL = max(
    [len(name) for name in SPELLINGS if not name[0].isalpha()]
)
# a length of time may have a fraction
cdef str FRACTION = r"\.[0-9]+(?=\s*(?:[num]?s|[mhd]|min|sec)\b)"

cdef enum Piece:
    NO_PIECE
    WORD
    SYMBOL
    DIGITS
    QUOTE
    MARK
    STRAY


cdef class Token:
    """A token of a formula.

    Attributes:
        kind: `ATOM`, `LEAF`, `OPERATOR`, `NUMBER`, `INVALID`, `END`, or one of `()[],*∞`.
        start: the start of the token, which is text[start:end].
        end: the end of the token.
        value: the name of an atom, or the digits of a number; for an invalid token, the message of
            the error.
        operator: the operator of an operator token, otherwise None.
        hint: how to correct an invalid token, or None.
    """
    cdef readonly str kind
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t end
    cdef readonly object value
    cdef readonly object operator
    cdef readonly object hint

    def __init__(
        self, str kind, Py_ssize_t start, Py_ssize_t end, value="", operator=None, *, hint=None
    ):
        self.kind = kind
        self.start = start
        self.end = end
        self.value = value
        self.operator = operator
        self.hint = hint


cdef Token new_token(str kind, Py_ssize_t start, Py_ssize_t end, value, operator):
    cdef Token token = Token.__new__(Token)
    token.kind = kind
    token.start = start
    token.end = end
    token.value = value
    token.operator = operator
    return token


def scan_formula(str text, Py_ssize_t start, Py_ssize_t end, conditions, quoted, stray):
    """Return the tokens of text[start:end], as `tokenize` does.

    Args:
        text: the whole text.
        start: where the formula begins.
        end: where it ends.
        conditions: reads conditions inside the formula, or None.
        quoted: returns the token for a text, the position of a double quote, and the end.
        stray: returns the invalid token for a text and a position where no token starts.
    """
    cdef list tokens = []
    cdef Py_ssize_t position = start, meaningful = start, behind = start
    cdef bint wants_operand = True, can_open = False, in_interval = False
    cdef Token token
    cdef Piece piece
    if not 0 <= start <= end <= len(text):
        raise ValueError("the part is not in the text")
    while True:
        position = behind_blanks(text, meaningful, end)
        if position < 0:
            position = -position - 1
            message = "this comment never ends"
            tokens.append(new_token(INVALID, position, position + 2, message, None))
            return tokens
        if position == end:
            tokens.append(new_token(END, meaningful, meaningful, "", None))
            return tokens
        piece = piece_at(text, position, end, &behind)
        if piece == NO_PIECE:
            tokens.append(stray(text, position))
            return tokens
        if in_interval:
            token = read_token(text, position, behind, end, piece, quoted, stray)
            in_interval = token.kind != "]" and token.kind != ")"
        elif can_open and opens_interval(text, position, end):
            can_open = False
            in_interval = True
            token = read_token(text, position, behind, end, piece, quoted, stray)
        else:
            can_open = False
            if wants_operand and conditions is not None and conditions.begins(text, position, end):
                token = conditions.read(text, position, end)
                wants_operand = token.operator is not None
            else:
                token = read_token(text, position, behind, end, piece, quoted, stray)
                if piece == WORD and token.kind is ATOM:
                    operator = SMALL.get(token.value)
                    if operator is not None and operator.is_prefix is wants_operand and (
                        not wants_operand or operand_follows(text, token.end, end, operator)
                    ):
                        token = new_token(OPERATOR, position, token.end, token.value, operator)
                if token.operator is not None:
                    wants_operand = token.operator.arity > 0
                    can_open = token.operator.is_temporal
                else:
                    wants_operand = token.kind == "("
        tokens.append(token)
        if token.kind == INVALID:
            return tokens
        meaningful = token.end


def skip_blanks(str text, Py_ssize_t position, Py_ssize_t end):
    """Return the position behind blanks and comments; `end` if a comment is not closed."""
    cdef Py_ssize_t found = behind_blanks(text, position, min(end, len(text)))
    return end if found < 0 else found


def comment_end(str text, Py_ssize_t position, Py_ssize_t end):
    """Return where a comment ends, or -1 if it is not closed before `end`.

    Args:
        text: the whole text.
        position: the end of the opening mark of the comment.
        end: the end of the part to look at.
    """
    return behind_comment(text, position, min(end, len(text)))


cdef Py_ssize_t behind_blanks(str text, Py_ssize_t position, Py_ssize_t end):
    """The position behind blanks and comments; -1 less that of a comment that is not closed."""
    cdef Py_UCS4 character
    cdef Py_ssize_t start
    while position < end:
        character = text[position]
        if character == c"#":
            while position < end and text[position] != c"\n":
                position += 1
        elif character == c"/" and position + 1 < end and text[position + 1] == c"*":
            start = position
            position = behind_comment(text, position + 2, end)
            if position < 0:
                return -start - 1
        elif character.isspace():
            position += 1
        else:
            break
    return position


cdef Py_ssize_t behind_comment(str text, Py_ssize_t position, Py_ssize_t end):
    cdef Py_ssize_t depth = 1
    while position + 1 < end:
        if text[position] == c"/" and text[position + 1] == c"*":
            depth += 1
            position += 2
        elif text[position] == c"*" and text[position + 1] == c"/":
            depth -= 1
            position += 2
            if depth == 0:
                return position
        else:
            position += 1
    return -1


cdef bint opens_interval(str text, Py_ssize_t position, Py_ssize_t end):
    """Whether a bracket, or a parenthesis before a digit, is at the position."""
    if text[position] != c"(":
        return text[position] == c"["
    position += 1
    while position < end and (<Py_UCS4> text[position]).isspace():
        position += 1
    return position < end and c"0" <= text[position] <= c"9"


cdef inline bint is_in_word(Py_UCS4 character):
    if character < 128:
        return (
            c"a" <= character <= c"z" or c"A" <= character <= c"Z" or c"0" <= character <= c"9"
            or character in "_$.'"
        )
    return character.isalnum()


cdef Piece piece_at(str text, Py_ssize_t position, Py_ssize_t end, Py_ssize_t *behind):
    """What begins at a position where neither a blank nor a comment is, and where that ends."""
    cdef Py_UCS4 character = text[position]
    cdef Py_ssize_t length
    behind[0] = position + 1
    if c"0" <= character <= c"9":
        position += 1
        while position < end and c"0" <= text[position] <= c"9":
            position += 1
        if position < end and text[position] == c".":
            # PERF: `re` takes 5 ms to import, which few formulas need
            import re

            fraction = re.compile(FRACTION).match(text, position, end)
            if fraction is not None:
                position = fraction.end()
        behind[0] = position
        return DIGITS
    if character == c"$" or character == c"_" or (
        character.isalnum() and not character.isdecimal()
    ):
        position += 1
        while position < end and is_in_word(text[position]):
            position += 1
        if position < end and text[position] == "⁻":
            position += 1
        behind[0] = position
        return WORD
    if character in SYMBOL_STARTS:
        for length in range(min(LONGEST_SYMBOL, end - position), 0, -1):
            if text[position:position + length] in SPELLINGS:
                behind[0] = position + length
                return SYMBOL
    if character == c'"':
        return QUOTE
    if character == c"*":
        is_closing = position + 1 < end and text[position + 1] == c"/"
        return NO_PIECE if is_closing else MARK
    if character in "][(),∞":
        return MARK
    return STRAY if character in "-`∀∃" else NO_PIECE


cdef Token read_token(
    str text, Py_ssize_t start, Py_ssize_t behind, Py_ssize_t end, Piece piece, quoted, stray
):
    cdef str value
    cdef Py_UCS4 first
    if piece == QUOTE:
        return quoted(text, start, end)
    value = text[start:behind]
    operator = SPELLINGS.get(value)
    if operator is not None:
        return new_token(OPERATOR, start, behind, value, operator)
    if piece == MARK:
        return new_token(value, start, behind, value, None)
    if piece == DIGITS:
        return new_token(NUMBER, start, behind, value, None)
    if piece == STRAY:
        return stray(text, start)
    if text[behind - 1] == "⁻":
        return stray(text, behind - 1)
    first = text[start]
    if not (first.isalpha() or first == c"_" or first == c"$"):
        return stray(text, start)
    return new_token(ATOM, start, behind, value, None)


cdef bint operand_follows(str text, Py_ssize_t position, Py_ssize_t end, operator):
    """Whether an operand of the operator, or its interval, begins after the position."""
    cdef bint answer = True
    cdef Py_ssize_t behind = position
    cdef str piece
    while True:
        position = skip_blanks(text, position, end)
        if position == end or piece_at(text, position, end, &behind) == NO_PIECE:
            return not answer
        piece = text[position:behind]
        if piece in (")", ",", "]", "*", "∞"):
            return not answer
        if piece == "[":
            return answer is operator.is_temporal
        if piece == "(":
            closes = text.startswith(")", skip_blanks(text, position + 1, end))
            return answer is not closes
        spelled = SPELLINGS.get(piece)
        if spelled is not None:
            return answer is (spelled.arity < 2)
        small = SMALL.get(piece)
        if small is None or small.is_prefix:
            return answer
        # `next and b` has a binary operator between two operands, and `next and` has not.
        operator = small
        position = behind
        answer = not answer
