"""Chooses the engine for a program: the queue network, or expressions over obligations.

An engine of expressions gives each undecided time-point a Boolean function of obligations, and
rewrites all of these functions at each event. That is what mode `global` is about. It is expensive
where each time-stamp has expressions of its own: nested operators multiply windows, and closed
windows have no order. A single event took up to 200 ms.

In `local` and `naive` mode, time-points of different time-stamps are never compared, so a bounded
formula needs no more than the truth of each operator just outside of each time-stamp. The queue
network decides each temporal operator from the three truth values of its operands. This is as early
as Boolean simplification unless an obligation occurs both as it is and negated: then its two
occurrences can cancel out while it is undecided, which the network notices for EVENTUALLY only.
Where operators wait for one another, noticing it always can take any time, and only mode `global`
does it.
`docs/network.md` has the proofs and the cost.

The network gets bounded formulas in which one operator that can wait is below another one, in
`local` and `naive` mode, with up to `MOST_VARIABLES` of them. All variables of a formula are in one
truth table, so a conjunction of seven rules of two operators each goes to expressions, although
each rule alone would fit.

Where no operator waits for another, placeholders make expressions cheaper than blocks as long as
time-points wait for a conjunction or for a disjunction, as in `p IMPLIES EVENTUALLY[0,5] q`, and
for any number of such rules. Other functions of several operators go to the network, though not
more than `_MOST_FLAT`, as a block may have as many classes as there are sets of rules. There,
too, both engines know the value of a time-point at the same event, even if it has an operator in
both polarities: the network relies on it that of open windows over the same operands, those that
end first imply the others.

The choice depends only on the formula and the mode, and neither on the rate nor on anything that
the log shows later. For the network may miss equivalences that follow from relations between its
variables, but the output must be a function of formula, log and mode, and the output for a prefix
of the log must be a prefix of the whole output.
"""

from __future__ import annotations

from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.interval import Interval

    EngineName = Literal["network", "expressions"]
    Mode = Literal["local", "global", "naive"]
    # operation, left operand, right operand, lower bound, upper bound (None: no limit), index
    _Row = tuple[int, int, int, int, int | None, int]

__all__ = [
    "MOST_VARIABLES",
    "SLOW",
    "EngineChoice",
    "choose_engine",
    "engine_of",
    "has_time_bound",
    "network_variables",
]

MOST_VARIABLES = 12
"""How many variable rows the network takes."""

SLOW = "an event can take long, the more so the longer windows are"
"""What to tell of formulas that have no bound on time."""

# The numbers of `mtlmon.engine.compile.OPERATIONS`. That module imports the native engine, so the
# engine could not import this one if this one imported it.
_FALSE, _ATOM, _AND, _PREVIOUS, _SINCE, _NEXT, _UNTIL, _OUTER_UNTIL = range(8)
_FUTURE = frozenset({_NEXT, _UNTIL, _OUTER_UNTIL})
_TRUE_OPERAND = 1

# How a row is used, as bits.
_AS_IT_IS, _NEGATED = 1, 2
_BOTH = _AS_IT_IS | _NEGATED
_OPPOSITE = (0, _NEGATED, _AS_IT_IS, _BOTH)

# Where no operator waits for another and none is used in both ways, the network takes formulas with
# so many operators.
_LEAST_FLAT, _MOST_FLAT = 4, 10

# What an operand can be at a time-point: a conjunction, a disjunction, or with both bits one of two
# constants and one literal.
_CONJUNCTION, _DISJUNCTION = 1, 2
_LITERAL = _CONJUNCTION | _DISJUNCTION

# Subformulas that are larger are not named in a reason.
_NAMED_SIZE = 40
_NAMED_WIDTH = 80


class EngineChoice(tuple["EngineName", str]):
    """The name of an engine, and the reason for choosing it.

    `typing.NamedTuple` would take longer to import than the rest of this module.

    Attributes:
        name: the engine.
        reason: a sentence for users, without capital letter and full stop.
    """

    __slots__ = ()

    def __new__(cls, name: EngineName, reason: str) -> EngineChoice:
        return super().__new__(cls, (name, reason))

    @property
    def name(self) -> EngineName:
        return self[0]

    @property
    def reason(self) -> str:
        return self[1]

    def __getnewargs__(self) -> tuple[EngineName, str]:
        return self.name, self.reason


def choose_engine(
    rows: Sequence[_Row],
    root: int,
    is_bounded: bool,
    mode: Mode,
    atoms: Sequence[str] | None = None,
) -> EngineChoice:
    """Choose the engine for the rows of a program; takes time linear in their number.

    Args:
        rows: the instructions, operands before operators.
        root: the operand of the whole formula.
        is_bounded: whether every future operator but NEXT has an upper bound.
        mode: the mode of the monitor.
        atoms: the names of the program's atoms. With them, the reason can name a subformula.
    """
    if mode == "global":
        return EngineChoice(
            "expressions", "mode global compares time-points of different time-stamps"
        )
    if not is_bounded:
        return EngineChoice("expressions", "its future is unbounded")
    uses = _uses(rows, root)
    count, is_nested = _variables(rows, uses)
    mixed = _mixed_family(rows, uses)
    if not is_nested:
        # PERF: at irregular times of one event each, expressions took 57 ns an event where the
        # network took 77 (EVENTUALLY[0,500] p), and 115 where it took 118 ((EVENTUALLY[0,3000] p)
        # AND EVENTUALLY[0,1000] q). Of random functions of two operators, a quarter took up to a
        # third less time with expressions; with three, a half took more, up to 7.5 us instead of
        # 0.1. With six and eight, expressions took up to 150 us, and the network 0.3; with twelve
        # and 30 events to a time-stamp, it took 5.
        least, most = (2, MOST_VARIABLES) if mixed else (_LEAST_FLAT, _MOST_FLAT)
        if not least <= count <= most or _is_plain(rows, root):
            return EngineChoice("expressions", "none of its operators waits for another")
    operators = f"{count:,} operators that can wait"
    if count > MOST_VARIABLES:
        return EngineChoice(
            "expressions", f"it has {operators}, and the network takes {MOST_VARIABLES:,}"
        )
    reason = f"its future is bounded, and it has {operators}"
    if mixed and is_nested:
        name = None if atoms is None else _family_text(rows, mixed, atoms)
        subject = name or "an operator that looks ahead"
        reason += (
            f"; {subject} is used both as it is and negated, so verdicts can come later than in"
            " mode global"
        )
    return EngineChoice("network", reason)


def engine_of(formula: Formula, mode: Mode) -> EngineChoice:
    """Choose the engine for a formula; the reason names subformulas."""
    from mtlmon.engine.compile import compile_formula

    program = compile_formula(formula)
    return choose_engine(program.rows, program.root, program.is_bounded, mode, program.atoms)


def network_variables(formula: Formula) -> tuple[int, bool] | None:
    """Return how many variables the functions of the queue network have in mode local.

    Returns:
        The number of operators that can wait, and whether functions are monotone in each of them;
        None if expressions monitor the formula.
    """
    from mtlmon.engine.compile import compile_formula

    program = compile_formula(formula)
    if choose_engine(program.rows, program.root, program.is_bounded, "local").name != "network":
        return None
    uses = _uses(program.rows, program.root)
    return _variables(program.rows, uses)[0], not _mixed_family(program.rows, uses)


def has_time_bound(formula: Formula, mode: Mode) -> bool:
    """Whether the time that an event takes does not grow with the windows of a formula.

    Expressions combine the obligations of several operators in all ways that a log brings about.
    """
    if mode != "global" and formula.is_bounded:
        temporal = [node for node in postorder(formula) if node.interval is not None]
        if len(temporal) <= MOST_VARIABLES:
            # PERF: a run asks for each policy, and need not compile most of them once more. With
            # imports before this, 1,000 policies take 5.3 ms instead of 3.8.
            return True
    from mtlmon.engine.compile import compile_formula

    program = compile_formula(formula)
    rows = program.rows
    if choose_engine(rows, program.root, program.is_bounded, mode).name == "network":
        return True
    uses = _uses(rows, program.root)
    nested = [row for row, use in zip(rows, uses, strict=True) if use and row[0] == _UNTIL]
    # Obligations of one family whose windows are ordered come to a single one.
    is_chain = len({(left, right) for _, left, right, *_ in nested}) <= 1 and all(
        lower == 0 or upper is None for _, _, _, lower, upper, _ in nested
    )
    _, waits = _variables(rows, uses)
    return not waits or (is_chain and not _mixed_family(rows, uses))


def _uses(rows: Sequence[_Row], root: int) -> list[int]:
    """For each row, whether it is used as it is, negated, both or not at all."""
    uses = [0] * len(rows)
    # Whether the root is negated makes no difference: that only reverses all uses.
    uses[root >> 1] = _AS_IT_IS
    for number in range(len(rows) - 1, 0, -1):
        use = uses[number]
        if use:
            # An operand that the operation does not have is 0, which is the constant.
            _, left, right, *_ = rows[number]
            uses[left >> 1] |= _OPPOSITE[use] if left & 1 else use
            uses[right >> 1] |= _OPPOSITE[use] if right & 1 else use
    return uses


def _mixed_family(rows: Sequence[_Row], uses: list[int]) -> list[int]:
    """The rows of the first family that is used both as it is and negated; empty if none is.

    A family is the future operators of the same operands, whatever their intervals: their
    obligations may coincide. NEXT and UNTIL share no family, as only NEXT has no right operand.
    """
    members: dict[tuple[int, int], list[int]] = {}
    uses_of: dict[tuple[int, int], int] = {}
    for number, (operation, left, right, *_) in enumerate(rows):
        if operation in _FUTURE:
            members.setdefault((left, right), []).append(number)
            uses_of[left, right] = uses_of.get((left, right), 0) | uses[number]
    return next((members[family] for family, use in uses_of.items() if use == _BOTH), [])


def _variables(rows: Sequence[_Row], uses: list[int]) -> tuple[int, bool]:
    """How many rows can have an undecided value before or after a time-stamp, and whether one of
    them can wait for another.

    These are the future operators, and the past operators with a future operator below them.
    """
    looks_ahead = [False] * len(rows)
    is_nested = False
    count = 0
    for number, (operation, left, right, *_) in enumerate(rows):
        waits = looks_ahead[left >> 1] or looks_ahead[right >> 1]
        looks_ahead[number] = waits or operation in _FUTURE
        if uses[number] and looks_ahead[number] and operation != _AND:
            count += 1
            is_nested |= waits
    return count, is_nested


def _is_plain(rows: Sequence[_Row], root: int) -> bool:
    """Whether each time-point waits for a conjunction, or for a disjunction, of operators that look
    ahead; none of them waits for another."""
    forms = [0] * len(rows)
    # the only operator that it can wait for; 0 if it can wait for none, and -1 if for several
    only = [0] * len(rows)
    for number, (operation, left, right, *_) in enumerate(rows):
        if operation in _FUTURE:
            forms[number] = _LITERAL
            only[number] = number
        elif operation == _AND:
            waiting = [operand for operand in (left, right) if only[operand >> 1]]
            if not waiting:
                continue
            numbers = {only[operand >> 1] for operand in waiting}
            only[number] = numbers.pop() if len(numbers) == 1 else -1
            form = _LITERAL if len(waiting) == 1 else _CONJUNCTION
            for operand in waiting:
                form &= _opposite_form(forms[operand >> 1]) if operand & 1 else forms[operand >> 1]
            forms[number] = form if only[number] < 0 else _LITERAL
    return not only[root >> 1] or forms[root >> 1] != 0


def _opposite_form(form: int) -> int:
    return form >> 1 | (form & 1) << 1


def _family_text(rows: Sequence[_Row], members: list[int], atoms: Sequence[str]) -> str | None:
    """The family as users write it, or None if that is too long.

    If the family has several intervals, none is written.
    """
    from mtlmon.syntax.interval import Interval
    from mtlmon.syntax.printer import to_text, written_size
    from mtlmon.syntax.report import shorten, visible

    needed = _rows_below(rows, members[0])
    if needed is None:
        return None
    formulas: dict[int, Formula] = {}
    for number in needed:
        lower, upper = rows[number][3:5]
        is_written = number != members[0] or len(members) == 1
        interval = Interval(lower, upper) if is_written else Interval.FULL
        formulas[2 * number] = _as_it_is(rows[number], interval, formulas, atoms)
        formulas[2 * number + 1] = _negated(rows[number], interval, formulas, formulas[2 * number])
    as_it_is, negated = formulas[2 * members[0]], formulas[2 * members[0] + 1]
    # Which of the two is called the negated one does not matter: ALWAYS p, not EVENTUALLY NOT p.
    shown = min(as_it_is, negated, key=written_size)
    if written_size(shown) > _NAMED_SIZE:
        return None
    return shorten(visible(to_text(shown, all_parentheses=True)), _NAMED_WIDTH)


def _rows_below(rows: Sequence[_Row], top: int) -> list[int] | None:
    """A row and all rows that it needs, operands before operators; None if they are many."""
    needed: set[int] = set()
    waiting = [top]
    while waiting:
        number = waiting.pop()
        if number not in needed:
            needed.add(number)
            if len(needed) > _NAMED_SIZE:
                return None
            _, left, right, *_ = rows[number]
            waiting += (left >> 1, right >> 1)
    return sorted(needed)


def _as_it_is(
    row: _Row, interval: Interval, formulas: dict[int, Formula], atoms: Sequence[str]
) -> Formula:
    """The formula of a row, given the formulas of its operands."""
    from mtlmon.syntax import operators as ops
    from mtlmon.syntax.formula import FALSE, atom, make

    operation, left, right, _, _, index = row
    if operation == _FALSE:
        return FALSE
    if operation == _ATOM:
        return atom(atoms[index])
    if operation == _AND:
        return make(ops.AND, formulas[left], formulas[right])
    if operation in (_PREVIOUS, _NEXT):
        step = ops.PREVIOUS if operation == _PREVIOUS else ops.NEXT
        return make(step, formulas[left], interval=interval)
    if left == _TRUE_OPERAND:
        some_time = ops.ONCE if operation == _SINCE else ops.EVENTUALLY
        return make(some_time, formulas[right], interval=interval)
    binary = ops.SINCE if operation == _SINCE else ops.UNTIL
    return make(binary, formulas[left], formulas[right], interval=interval)


def _negated(
    row: _Row, interval: Interval, formulas: dict[int, Formula], as_it_is: Formula
) -> Formula:
    """The negation of a row, with as few NOTs as possible."""
    from mtlmon.syntax import operators as ops
    from mtlmon.syntax.formula import TRUE, make

    operation, left, right, *_ = row
    if operation == _FALSE:
        return TRUE
    if operation == _AND and left & right & 1:
        return make(ops.OR, formulas[left ^ 1], formulas[right ^ 1])
    if operation == _AND and (left | right) & 1:
        condition, consequence = (right, left) if left & 1 else (left, right)
        return make(ops.IMPLIES, formulas[condition], formulas[consequence ^ 1])
    if operation in (_SINCE, _UNTIL, _OUTER_UNTIL) and left == _TRUE_OPERAND:
        every_time = ops.HISTORICALLY if operation == _SINCE else ops.ALWAYS
        return make(every_time, formulas[right ^ 1], interval=interval)
    return make(ops.NOT, as_it_is)
