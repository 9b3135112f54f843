# cython: language_level=3
"""Steps that compute: conditions, and the values of new columns."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t

from mtlmon.policy.predicates.operations cimport (
    CONSTANT, FIRST_STRICT, IF_ELSE, IS_EQUAL, IS_GREATER, IS_LESS, LOAD, Instruction, Register,
    lenient, strict,
)

from mtlmon.errors import RowError


cdef inline uint32_t comparison_of(int order) noexcept nogil:
    return IS_LESS if order < 0 else IS_GREATER if order > 0 else IS_EQUAL


cdef int evaluate(
    RelationalEngine engine, Program *program, const int64_t *row, Register *result,
    bint *has_overflow=NULL
) except -1 nogil:
    """Compute an expression of the cells of a row.

    An overflow is an error, or is noted in `has_overflow`, and the expression has no value.
    """
    cdef size_t place
    cdef Instruction *code
    cdef Register *target
    cdef Register *a
    cdef Register *b
    for place in range(program.size):
        code = &program.code[place]
        target = &program.registers[code.target]
        if code.operation == LOAD:
            target.content.integer = row[code.a]
            target.is_valid = True
            continue
        if code.operation == CONSTANT:
            target[0] = program.constants[code.a]
            continue
        a = &program.registers[code.a]
        b = &program.registers[code.b]
        if code.operation == COMPARE_TEXTS:
            target.is_valid = a.is_valid and b.is_valid
            if target.is_valid:
                target.content.integer = (code.c & comparison_of(
                    compare_texts(engine.texts, a.content.integer, b.content.integer)
                )) != 0
        elif code.operation < FIRST_STRICT:
            lenient(
                code.operation, target, a, b,
                &program.registers[code.c if code.operation == IF_ELSE else code.b]
            )
        elif not a.is_valid or not b.is_valid:
            target.is_valid = False
        elif strict(code.operation, target, a.content, b.content, code.c):
            target.is_valid = False
            if has_overflow != NULL:
                has_overflow[0] = True
                continue
            if engine.queries[engine.current].counted != NONE:
                # the policy itself says so; what is only counted must change nothing
                continue
            if not engine.skips_overflows:
                refuse_overflow(engine, program, place)
            engine.overflows += 1
    result[0] = program.registers[program.result]
    return 0


cdef int refuse_overflow(
    RelationalEngine engine, const Program *program, size_t place
) except -1 nogil:
    # PERF: a function with objects of Python takes its lock at each end, here for each row
    with gil:
        words = engine.descriptions[program.description][place]
        raise RowError(f"{words} overflows 64 bits")


cdef int compute(RelationalEngine engine, Step *step, Rows *given) except -1 nogil:
    """Keep rows for which a condition is true, or add its value to rows where it has one."""
    cdef Program *program = &engine.programs[step.source]
    cdef Register result
    cdef size_t i
    cdef int64_t *place
    for i in range(given.count):
        evaluate(engine, program, row_of(given, i), &result)
        if step.is_binding:
            if not result.is_valid:
                continue
        elif (result.is_valid and result.content.integer != 0) == (step.mode == ANTI):
            # a condition without a value is false
            continue
        place = new_row(&step.rows)
        copy_cells(place, row_of(given, i), given.width)
        if step.is_binding:
            place[given.width] = result.content.integer
            if step.cell == FLOAT_CELL:
                place[given.width] = as_cell(result.content.number)
    return 0


cdef int attempt(RelationalEngine engine, Step *step, Rows *given) except -1 nogil:
    """Keep rows for which a condition is true, and those for which it overflows."""
    cdef Program *program = &engine.programs[step.source]
    cdef Register result
    cdef size_t i
    cdef bint has_overflow
    for i in range(given.count):
        has_overflow = False
        evaluate(engine, program, row_of(given, i), &result, &has_overflow)
        if has_overflow or (result.is_valid and result.content.integer != 0):
            copy_cells(new_row(&step.rows), row_of(given, i), given.width)
    return 0


cdef int call(RelationalEngine engine, Step *step, Rows *given) except -1:
    """The same by a function of Python, which takes the cells of the columns."""
    cdef size_t i
    cdef int64_t *place
    cdef size_t column
    columns = [
        [row_of(given, i)[column] for i in range(given.count)]
        for column in [step.columns.of[i] for i in range(step.columns.count)]
    ]
    found = engine.functions[step.source](columns, given.count, engine.texts)
    for i in range(given.count):
        value = found[i]
        if step.is_binding:
            if value is None:
                continue
        elif bool(value) == (step.mode == ANTI):
            continue
        place = new_row(&step.rows)
        copy_cells(place, row_of(given, i), given.width)
        if step.is_binding:
            place[given.width] = value
    return 0
