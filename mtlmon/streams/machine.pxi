# cython: language_level=3
"""A machine that computes streams row by row, for those that read their own earlier values.

An instruction takes registers and writes one. A register has a cell and says whether it is null.
"""

from cpython.ref cimport PyObject
from libc.math cimport fabs, fmod, isnan, rint


cdef extern from *:
    """
    #define add_overflows(left, right, result) __builtin_add_overflow(left, right, result)
    #define subtract_overflows(left, right, result) __builtin_sub_overflow(left, right, result)
    #define multiply_overflows(left, right, result) __builtin_mul_overflow(left, right, result)
    """
    bint add_overflows(int64_t left, int64_t right, int64_t *result) noexcept nogil
    bint subtract_overflows(int64_t left, int64_t right, int64_t *result) noexcept nogil
    bint multiply_overflows(int64_t left, int64_t right, int64_t *result) noexcept nogil


cdef enum Operation:
    # `a`, `b` and `c` are registers unless something else is said.
    LOAD                # input number a
    CONSTANT            # constant number a; null if there is none
    GET                 # the result of kernel a
    PUT                 # give b to kernel a, unless it is null
    PUT_TRUE            # if b is true
    PUT_FALSE           # if b is false
    COPY
    IF_ELSE             # if a is true b, else c
    COALESCE
    IS_NULL
    IS_NOT_NULL
    AND
    OR
    # Of here on, the result is null if an operand is.
    FIRST_STRICT
    NOT
    TO_FLOAT
    ADD_INTEGERS
    SUBTRACT_INTEGERS
    MULTIPLY_INTEGERS
    REMAINDER_INTEGERS  # null if b is 0
    NEGATE_INTEGER
    ABS_INTEGER
    LEAST_INTEGER
    GREATEST_INTEGER
    ADD_FLOATS
    SUBTRACT_FLOATS
    MULTIPLY_FLOATS
    DIVIDE_FLOATS       # null if b is 0
    REMAINDER_FLOATS    # null if b is 0
    NEGATE_FLOAT
    ABS_FLOAT
    SQRT_FLOAT
    FLOOR_FLOAT
    ROUND_FLOAT
    LEAST_FLOAT
    GREATEST_FLOAT
    # Comparisons; c is the set of the results of `compare` for which they are true.
    COMPARE_INTEGERS
    COMPARE_FLOATS
    COMPARE_MIXED       # an integer a with a float b
    OPERATION_COUNT


cdef enum Comparison:
    IS_LESS = 1
    IS_EQUAL = 2
    IS_GREATER = 4
    IS_UNORDERED = 8


OPERATIONS = {
    "load": LOAD,
    "constant": CONSTANT,
    "get": GET,
    "put": PUT,
    "put_true": PUT_TRUE,
    "put_false": PUT_FALSE,
    "copy": COPY,
    "if": IF_ELSE,
    "coalesce": COALESCE,
    "is_null": IS_NULL,
    "is_not_null": IS_NOT_NULL,
    "and": AND,
    "or": OR,
    "not": NOT,
    "to_float": TO_FLOAT,
    "add_integers": ADD_INTEGERS,
    "subtract_integers": SUBTRACT_INTEGERS,
    "multiply_integers": MULTIPLY_INTEGERS,
    "remainder_integers": REMAINDER_INTEGERS,
    "negate_integer": NEGATE_INTEGER,
    "abs_integer": ABS_INTEGER,
    "least_integer": LEAST_INTEGER,
    "greatest_integer": GREATEST_INTEGER,
    "add_floats": ADD_FLOATS,
    "subtract_floats": SUBTRACT_FLOATS,
    "multiply_floats": MULTIPLY_FLOATS,
    "divide_floats": DIVIDE_FLOATS,
    "remainder_floats": REMAINDER_FLOATS,
    "negate_float": NEGATE_FLOAT,
    "abs_float": ABS_FLOAT,
    "sqrt_float": SQRT_FLOAT,
    "floor_float": FLOOR_FLOAT,
    "round_float": ROUND_FLOAT,
    "least_float": LEAST_FLOAT,
    "greatest_float": GREATEST_FLOAT,
    "compare_integers": COMPARE_INTEGERS,
    "compare_floats": COMPARE_FLOATS,
    "compare_mixed": COMPARE_MIXED,
}


cdef struct Instruction:
    Operation operation
    uint32_t target
    uint32_t a, b, c


cdef union Content:
    int64_t integer
    double number


cdef struct Register:
    Content content
    bint is_valid


cdef inline Comparison compare_integers(int64_t left, int64_t right) noexcept nogil:
    return IS_LESS if left < right else IS_GREATER if left > right else IS_EQUAL


cdef inline Comparison compare_floats(double left, double right) noexcept nogil:
    if left < right:
        return IS_LESS
    if left > right:
        return IS_GREATER
    return IS_EQUAL if left == right else IS_UNORDERED


cdef inline Comparison compare_mixed(int64_t left, double right) noexcept nogil:
    """Compare exactly."""
    cdef int64_t whole
    if isnan(right):
        return IS_UNORDERED
    if right >= 9223372036854775808.0:
        return IS_LESS
    if right < -9223372036854775808.0:
        return IS_GREATER
    whole = <int64_t> floor(right)
    if left != whole:
        return compare_integers(left, whole)
    return IS_LESS if right > floor(right) else IS_EQUAL


@final
cdef class Machine:
    """Computes some registers at each row of a batch.

    code: for each instruction its operation, its target, and its arguments a, b and c.
    registers: the number of registers.
    inputs: the number of input columns.
    constants: the cells of the constants; None for null.
    kernels: the kernels; they are begun and undone by the caller.
    outputs: the registers to return.
    """

    cdef Instruction *code
    cdef size_t size
    cdef Register *registers
    cdef size_t register_count, input_count, constant_count, kernel_count
    cdef Register *constants
    cdef tuple kept_kernels
    cdef PyObject **kernels
    cdef list outputs
    cdef readonly size_t failed     # the instruction that overflowed last

    def __cinit__(
        self, code, size_t registers, size_t inputs, constants, kernels, outputs
    ):
        cdef size_t k
        cdef Instruction *instruction
        self.register_count = registers
        self.input_count = inputs
        self.constant_count = <size_t> len(constants)
        self.kernel_count = <size_t> len(kernels)
        self.kept_kernels = tuple(kernels)
        self.outputs = list(outputs)
        resized(<void **> &self.code, <size_t> len(code), sizeof(Instruction))
        resized(<void **> &self.registers, registers, sizeof(Register))
        memset(self.registers, 0, registers * sizeof(Register))
        resized(<void **> &self.constants, self.constant_count, sizeof(Register))
        resized(<void **> &self.kernels, self.kernel_count, sizeof(PyObject *))
        for k in range(self.kernel_count):
            if not isinstance(kernels[k], Kernel):
                raise TypeError("not a kernel")
            self.kernels[k] = <PyObject *> self.kept_kernels[k]
        for k in range(self.constant_count):
            self.constants[k].is_valid = constants[k] is not None
            self.constants[k].content.integer = 0 if constants[k] is None else constants[k]
        self.size = <size_t> len(code)
        for k in range(self.size):
            instruction = &self.code[k]
            operation, target, a, b, c = code[k]
            if not 0 <= operation < OPERATION_COUNT:
                raise ValueError(f"no operation {operation}")
            instruction.operation = operation
            instruction.target = target
            instruction.a = a
            instruction.b = b
            instruction.c = c
            self.check(instruction)
        for output in outputs:
            if not 0 <= output < registers:
                raise ValueError(f"no register {output}")

    cdef int check(self, const Instruction *instruction) except -1:
        """Refuse arguments that do not exist."""
        cdef size_t limit = self.register_count
        cdef bint is_fine = instruction.target < limit and instruction.b < limit
        if instruction.operation == LOAD:
            limit = self.input_count
        elif instruction.operation == CONSTANT:
            limit = self.constant_count
        elif GET <= instruction.operation <= PUT_FALSE:
            limit = self.kernel_count
        is_fine = is_fine and instruction.a < limit
        if instruction.operation == IF_ELSE:
            is_fine = is_fine and instruction.c < self.register_count
        if not is_fine:
            raise ValueError("an instruction has an argument that does not exist")
        return 0

    def __dealloc__(self):
        free(self.code)
        free(self.registers)
        free(self.constants)
        free(self.kernels)

    def run(self, Batch batch not None, cells, masks, results, validities):
        """Compute the outputs at the rows of a batch.

        cells, masks: for each input its cells, and its mask or None, as for `Kernel.feed`.
        results, validities: for each output an array of cells and one of bytes, as there.

        Returns the number of rows with results: if it is below the number of rows, an operation
        overflows in the next row.
        """
        cdef size_t count = batch.count
        cdef size_t inputs = self.input_count
        cdef size_t outputs = <size_t> len(self.outputs)
        cdef list held = []
        cdef void **columns = NULL
        cdef size_t k
        if (
            <size_t> len(cells) != inputs or <size_t> len(masks) != inputs
            or <size_t> len(results) != outputs or <size_t> len(validities) != outputs
        ):
            raise ValueError("a wrong number of columns")
        for k in range(self.kernel_count):
            (<Kernel> self.kernels[k]).make_room(batch.traces, count)
        resized(<void **> &columns, 2 * (inputs + outputs), sizeof(void *))
        try:
            for k in range(inputs):
                columns[2 * k] = held_array(held, cells[k], sizeof(int64_t), count, False)
                columns[2 * k + 1] = NULL
                if masks[k] is not None:
                    columns[2 * k + 1] = held_array(held, masks[k], 1, count, False)
            for k in range(outputs):
                columns[2 * (inputs + k)] = held_array(
                    held, results[k], sizeof(int64_t), count, True
                )
                columns[2 * (inputs + k) + 1] = held_array(held, validities[k], 1, count, True)
            return self.run_rows(batch, columns, columns + 2 * inputs)
        finally:
            free(columns)

    cdef size_t run_rows(self, Batch batch, void **inputs, void **outputs) except? 0:
        cdef size_t row, k
        cdef size_t output_count = <size_t> len(self.outputs)
        cdef size_t *chosen = NULL
        cdef Register *register
        cdef int found
        resized(<void **> &chosen, output_count, sizeof(size_t))
        for k in range(output_count):
            chosen[k] = self.outputs[k]
        try:
            with nogil:
                for row in range(batch.count):
                    found = self.compute(batch.time_stamps[row], batch.trace(row), row, inputs)
                    if found == OVERFLOWS:
                        return row
                    for k in range(output_count):
                        register = &self.registers[chosen[k]]
                        (<int64_t *> outputs[2 * k])[row] = register.content.integer
                        (<uint8_t *> outputs[2 * k + 1])[row] = register.is_valid
        finally:
            free(chosen)
        return batch.count

    cdef int compute(
        self, int64_t time_stamp, uint32_t trace, size_t row, void **inputs
    ) except -1 nogil:
        """Run the code at a row; returns OVERFLOWS if an operation does."""
        cdef size_t place
        cdef Instruction *code
        cdef Register *target
        cdef Register *a
        cdef Register *b
        cdef const uint8_t *mask
        cdef Operation operation
        cdef int found
        for place in range(self.size):
            code = &self.code[place]
            operation = code.operation
            target = &self.registers[code.target]
            b = &self.registers[code.b]
            if operation == LOAD:
                mask = <const uint8_t *> inputs[2 * code.a + 1]
                target.content.integer = (<const int64_t *> inputs[2 * code.a])[row]
                target.is_valid = mask == NULL or mask[row]
            elif operation == CONSTANT:
                target[0] = self.constants[code.a]
            elif operation == GET:
                found = (<Kernel> self.kernels[code.a]).get(
                    time_stamp, trace, &target.content.integer
                )
                if found == OVERFLOWS:
                    self.failed = place
                    return OVERFLOWS
                target.is_valid = found == FOUND
            elif operation <= PUT_FALSE:
                if b.is_valid and (
                    operation == PUT or (b.content.integer != 0) == (operation == PUT_TRUE)
                ):
                    (<Kernel> self.kernels[code.a]).put(time_stamp, trace, b.content.integer)
            else:
                a = &self.registers[code.a]
                if operation < FIRST_STRICT:
                    lenient(operation, target, a, b, &self.registers[code.c])
                elif not a.is_valid or not b.is_valid:
                    target.is_valid = False
                elif strict(operation, target, a.content, b.content, code.c) == OVERFLOWS:
                    self.failed = place
                    return OVERFLOWS
        return 0


cdef void *held_array(
    list held, object array, Py_ssize_t item_size, size_t count, bint is_writable
) except? NULL:
    """The first item of an array, which is held by an item of the list."""
    cdef Memory memory = contiguous(array, item_size, count, is_writable)
    held.append(memory)
    return memory.buffer.buf


cdef inline void lenient(
    Operation operation, Register *target, const Register *a, const Register *b, const Register *c
) noexcept nogil:
    """An operation that takes nulls."""
    cdef bint decisive = operation == OR
    if operation == COPY:
        target[0] = a[0]
    elif operation == IF_ELSE:
        target[0] = b[0] if a.is_valid and a.content.integer else c[0]
    elif operation == COALESCE:
        target[0] = a[0] if a.is_valid else b[0]
    elif operation == IS_NULL or operation == IS_NOT_NULL:
        target.content.integer = a.is_valid == (operation == IS_NOT_NULL)
        target.is_valid = True
    elif (a.is_valid and a.content.integer == decisive) or (
        b.is_valid and b.content.integer == decisive
    ):
        target.content.integer = decisive
        target.is_valid = True
    else:
        target.is_valid = a.is_valid and b.is_valid
        target.content.integer = not decisive


cdef inline int strict(
    Operation operation, Register *target, Content a, Content b, uint32_t wanted
) noexcept nogil:
    """An operation on operands that are not null."""
    cdef Content *result = &target.content
    cdef bint has_overflow = False
    target.is_valid = True
    if operation == NOT:
        result.integer = not a.integer
    elif operation == TO_FLOAT:
        result.number = <double> a.integer
    elif operation == ADD_INTEGERS:
        has_overflow = add_overflows(a.integer, b.integer, &result.integer)
    elif operation == SUBTRACT_INTEGERS:
        has_overflow = subtract_overflows(a.integer, b.integer, &result.integer)
    elif operation == MULTIPLY_INTEGERS:
        has_overflow = multiply_overflows(a.integer, b.integer, &result.integer)
    elif operation == REMAINDER_INTEGERS:
        target.is_valid = b.integer != 0
        # C cannot divide the least integer by -1
        result.integer = 0 if b.integer == 0 or b.integer == -1 else a.integer % b.integer
    elif operation == NEGATE_INTEGER:
        has_overflow = subtract_overflows(0, a.integer, &result.integer)
    elif operation == ABS_INTEGER:
        result.integer = a.integer
        if a.integer < 0:
            has_overflow = subtract_overflows(0, a.integer, &result.integer)
    elif operation == LEAST_INTEGER:
        result.integer = min(a.integer, b.integer)
    elif operation == GREATEST_INTEGER:
        result.integer = max(a.integer, b.integer)
    elif operation == ADD_FLOATS:
        result.number = a.number + b.number
    elif operation == SUBTRACT_FLOATS:
        result.number = a.number - b.number
    elif operation == MULTIPLY_FLOATS:
        result.number = a.number * b.number
    elif operation == DIVIDE_FLOATS:
        target.is_valid = b.number != 0
        result.number = a.number / b.number if b.number != 0 else 0
    elif operation == REMAINDER_FLOATS:
        target.is_valid = b.number != 0
        result.number = fmod(a.number, b.number) if b.number != 0 else 0
    elif operation == NEGATE_FLOAT:
        result.number = -a.number
    elif operation == ABS_FLOAT:
        result.number = fabs(a.number)
    elif operation == SQRT_FLOAT:
        result.number = sqrt(a.number)
    elif operation == FLOOR_FLOAT:
        result.number = floor(a.number)
    elif operation == ROUND_FLOAT:
        result.number = rint(a.number)
    elif operation == LEAST_FLOAT:
        result.number = a.number if a.number < b.number or isnan(a.number) else b.number
    elif operation == GREATEST_FLOAT:
        result.number = a.number if a.number > b.number or isnan(a.number) else b.number
    elif operation == COMPARE_INTEGERS:
        result.integer = (compare_integers(a.integer, b.integer) & wanted) != 0
    elif operation == COMPARE_FLOATS:
        result.integer = (compare_floats(a.number, b.number) & wanted) != 0
    else:
        result.integer = (compare_mixed(a.integer, b.number) & wanted) != 0
    return OVERFLOWS if has_overflow else 0
