# cython: language_level=3
"""The nodes of syntax trees: what formulas and expressions have in common, and the formulas'."""

from cpython.long cimport PyLong_FromVoidPtr
from cython cimport final

from mtlmon.syntax import operators as ops

cdef object ATOM_OPERATOR = ops.ATOM
cdef object NEXT_OPERATOR = ops.NEXT
cdef object PREDICATE_OPERATOR = ops.PREDICATE
cdef int ANY_NUMBER = ops.ANY_NUMBER

STRICT = "strict"
"""The value of SINCE and UNTIL for which the present does not count.

The right side holds at an earlier time-point, or a later one, and the left side at each time-point
between that and the present one. Nothing that is written makes such formulas.
"""


MAXIMUM_BOUND = 2**63 - 1
"""The largest time-stamp, and so the largest bound of an interval."""


cdef object FULL


@final
cdef class AllNumbers:
    """The class attribute of intervals that is one itself."""

    def __get__(self, instance, owner):
        return FULL


cdef class Interval:
    """The natural numbers from `lower` to `upper`, both included; `upper` None is infinity.

    Bounds are counted in the time unit of the stream.

    Raises:
        ValueError: a bound is negative or above `MAXIMUM_BOUND`, or the interval is empty.
    """
    cdef readonly object lower
    cdef readonly object upper
    FULL = AllNumbers()

    def __init__(self, lower, upper):
        if not 0 <= lower <= MAXIMUM_BOUND:
            raise ValueError(f"a bound is an integer from 0 to 2^63-1, not {lower}")
        if upper is not None and not lower <= upper <= MAXIMUM_BOUND:
            raise ValueError(f"an upper bound is an integer from {lower} to 2^63-1, not {upper}")
        self.lower = lower
        self.upper = upper

    @property
    def is_bounded(self):
        """Whether there is a finite upper bound."""
        return self.upper is not None

    def __contains__(self, distance):
        return self.lower <= distance and (self.upper is None or distance <= self.upper)

    def __eq__(self, other):
        if not isinstance(other, Interval):
            return NotImplemented
        return self.lower == other.lower and self.upper == other.upper

    def __hash__(self):
        return hash((self.lower, self.upper))

    def __reduce__(self):
        return Interval, (self.lower, self.upper)

    def __str__(self):
        return f"[{self.lower},*)" if self.upper is None else f"[{self.lower},{self.upper}]"

    def __repr__(self):
        return f"Interval({self.lower}, {self.upper})"


FULL = Interval(0, None)


@final
cdef class Span:
    """The place of a node in the text, which is text[start:end].

    Attributes:
        start: the index of the first character.
        end: the index after the last character.
        indirect: whether desugaring made the node; the text is that of the original operator.
    """
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t end
    cdef readonly bint indirect

    def __init__(self, Py_ssize_t start, Py_ssize_t end, bint indirect=False):
        self.start = start
        self.end = end
        self.indirect = indirect

    def made(self):
        """Return the same place, marked as indirect."""
        return self if self.indirect else Span(self.start, self.end, True)

    def __eq__(self, other):
        if not isinstance(other, Span):
            return NotImplemented
        place = <Span> other
        return (
            self.start == place.start and self.end == place.end and self.indirect == place.indirect
        )

    def __hash__(self):
        return hash((self.start, self.end, self.indirect))

    def __reduce__(self):
        return Span, (self.start, self.end, self.indirect)

    def __repr__(self):
        return f"Span({self.start}, {self.end}{', indirect=True' if self.indirect else ''})"


cdef Span new_span(Py_ssize_t start, Py_ssize_t end):
    cdef Span span = Span.__new__(Span)
    span.start = start
    span.end = end
    return span


cdef class Node:
    """An operator applied to operands; immutable, and shared nodes are allowed.

    Classes below it have a method `content`, which returns all but the operands and the span.
    """
    cdef readonly object operator
    cdef readonly tuple operands
    cdef readonly object value
    cdef readonly object span
    # 0 as long as it is not known
    cdef Py_hash_t known_hash

    def __hash__(self):
        cdef Node node
        if self.known_hash == 0:
            # operands come first, so no hash asks for others to any depth
            for node in postorder(self):
                if node.known_hash == 0:
                    node.known_hash = hash((node.content(), node.operands))
        return self.known_hash

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, Node) or type(self) is not type(other):
            return NotImplemented
        return equal_trees(self, <Node> other)


cdef bint equal_trees(Node left, Node right):
    cdef set compared = set()
    cdef list stack = [(left, right)]
    cdef Node a, b
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if hash(a) != hash(b) or a.operator is not b.operator:
            return False
        if len(a.operands) != len(b.operands) or a.content() != b.content():
            return False
        if a.operands:
            pair = PyLong_FromVoidPtr(<void *> a), PyLong_FromVoidPtr(<void *> b)
            if pair not in compared:
                compared.add(pair)
                stack.extend(zip(a.operands, b.operands))
    return True


cdef class FormulaNode(Node):
    """The data of a `Formula`, which says what it means."""
    cdef readonly object interval
    cdef readonly object name
    cdef readonly bint is_first_order
    cdef readonly bint is_bounded
    cdef readonly bint looks_ahead
    # None as long as they are not known
    cdef tuple known_atoms
    cdef readonly tuple known_free

    def __cinit__(
        self, operator, tuple operands=(), interval=None, name=None, span=None, value=None
    ):
        cdef Py_ssize_t arity = operator.arity
        cdef bint has_variables = operator.is_first_order, is_bounded = True
        cdef bint looks_ahead = operator.is_future
        cdef FormulaNode operand
        if len(operands) != arity and arity != ANY_NUMBER:
            raise ValueError(f"{operator} takes {arity} operands, not {len(operands)}")
        if operator.is_temporal:
            interval = FULL if interval is None else interval
            # NEXT waits for a single event, whatever its interval
            is_bounded = (
                not looks_ahead or operator is NEXT_OPERATOR or interval.is_bounded
            )
        elif interval is not None:
            raise ValueError(f"{operator} takes no interval")
        if bool(name) != (operator is ATOM_OPERATOR) and not (
            name and operator is PREDICATE_OPERATOR
        ):
            raise ValueError("an atom has a name that is not empty; other formulas have none")
        if value or has_variables:
            is_strict = value == STRICT
            if not (value and (has_variables or is_strict)) or (
                is_strict and operator not in (ops.SINCE, ops.UNTIL)
            ):
                raise ValueError("operators of first-order logic have a value; others have none")
            if not name and operator is PREDICATE_OPERATOR:
                raise ValueError("a predicate has a name that is not empty")
        for operand in operands:
            has_variables = has_variables or operand.is_first_order
            is_bounded = is_bounded and operand.is_bounded
            looks_ahead = looks_ahead or operand.looks_ahead
        self.operator = operator
        self.operands = operands
        self.interval = interval
        self.name = name
        self.span = span
        self.value = value
        self.is_first_order = has_variables
        self.is_bounded = is_bounded
        self.looks_ahead = looks_ahead

    @property
    def atoms(self):
        """The names of the atoms, in order of first occurrence."""
        cdef FormulaNode node
        cdef dict names
        if self.known_atoms is None:
            names = {}
            for node in postorder(self):
                if node.name is not None:
                    names[node.name] = None
            self.known_atoms = tuple(names)
        return self.known_atoms

    def keep_free(self, tuple names):
        """Remember what the free variables are."""
        self.known_free = names


cdef class ExpressionNode(Node):
    """The data of an `Expression`, which says what it means."""

    def __cinit__(self, operator, tuple operands=(), value=None, span=None):
        cdef Py_ssize_t arity = operator.arity
        if (arity >= 0 and len(operands) != arity) or (arity == ANY_NUMBER and not operands):
            takes = "at least 1" if arity < 0 else arity
            raise ValueError(f"{operator} takes {takes} operands, not {len(operands)}")
        self.operator = operator
        self.operands = operands
        self.value = value
        self.span = span


def postorder(*roots):
    """Return every node object once, with operands before operators and left before right."""
    cdef list order = []
    cdef list stack
    cdef set seen
    cdef tuple operands
    cdef Py_ssize_t known = 0, place
    if len(roots) == 1 and not operands_of(roots[0]):
        return [roots[0]]
    stack = list(roots[::-1])
    seen = set()
    while stack:
        node = stack.pop()
        if node is None:
            # the operands of the node below are done
            order.append(stack.pop())
            continue
        seen.add(PyLong_FromVoidPtr(<void *> node))
        if len(seen) == known:
            continue
        known += 1
        operands = operands_of(node)
        if operands:
            stack.append(node)
            stack.append(None)
            for place in range(len(operands) - 1, -1, -1):
                stack.append(operands[place])
        else:
            order.append(node)
    return order


def form_of(FormulaNode formula not None):
    """Everything about a formula but the names of its atoms, and these in order."""
    cdef dict names = {}, numbers = {}
    cdef list form = []
    cdef FormulaNode node
    for node in postorder(formula):
        numbers[PyLong_FromVoidPtr(<void *> node)] = len(numbers)
        form.append(node.operator)
        if type(node.interval) is Interval:
            # PERF: numbers are compared and hashed faster than intervals
            form.append((<Interval> node.interval).lower)
            form.append((<Interval> node.interval).upper)
        else:
            form.append(node.interval)
        form.append(None if node.name is None else names.setdefault(node.name, len(names)))
        form.append(node.value)
        for operand in node.operands:
            form.append(numbers[PyLong_FromVoidPtr(<void *> operand)])
    return tuple(form), list(names)


cdef inline tuple operands_of(node):
    return (<Node> node).operands if isinstance(node, Node) else node.operands
