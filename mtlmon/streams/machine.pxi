# cython: language_level=3
"""A machine that computes streams row by row, for those that read their own earlier values.

An instruction takes registers and writes one. A register has a cell and says whether it is null.
"""

from cpython.ref cimport PyObject
from mtlmon.policy.predicates.operations cimport (
    CONSTANT, FIRST_STRICT, GET, IF_ELSE, LOAD, OPERATION_COUNT, PUT, PUT_FALSE, PUT_TRUE,
    Instruction, Operation, Register, lenient, strict,
)


cdef struct Section:
    # Instructions for rows of some kinds.
    size_t begin, end
    uint64_t kinds


@final
cdef class Machine:
    """Computes some registers at each row of a batch.

    code: for each instruction its operation, its target, and its arguments a, b and c.
    registers: the number of registers.
    inputs: the number of input columns.
    constants: the cells of the constants; None for null.
    kernels: the kernels; they are begun and undone by the caller.
    outputs: the registers to return.
    sections: if rows are of several kinds, pairs of a number of instructions and the number of a
        kind, below 64: these instructions are for rows of that kind. None if all are for all rows.
    """

    cdef Instruction *code
    cdef size_t size
    cdef Register *registers
    cdef size_t register_count, input_count, constant_count, kernel_count
    cdef Register *constants
    cdef tuple kept_kernels
    cdef PyObject **kernels
    cdef list outputs
    cdef size_t output_count
    cdef size_t *output_registers
    cdef Section *sections
    cdef size_t section_count
    cdef bint is_by_trace           # whether the kernels have states by trace
    cdef readonly size_t failed     # the instruction that overflowed last

    def __cinit__(
        self, code, size_t registers, size_t inputs, constants, kernels, outputs, sections=None
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
        self.output_count = <size_t> len(self.outputs)
        resized(<void **> &self.output_registers, self.output_count, sizeof(size_t))
        for k in range(self.output_count):
            self.output_registers[k] = self.outputs[k]
        self.set_sections([(self.size, 0)] if sections is None else sections)

    cdef int set_sections(self, sections) except -1:
        cdef size_t k
        cdef size_t end = 0
        self.section_count = <size_t> len(sections)
        resized(<void **> &self.sections, self.section_count, sizeof(Section))
        for k in range(self.section_count):
            size, kind = sections[k]
            if not (0 <= size <= self.size - end and 0 <= kind < 64):
                raise ValueError("a section has too many instructions, or no such kind")
            self.sections[k].begin = end
            end += <size_t> size
            self.sections[k].end = end
            self.sections[k].kinds = <uint64_t> 1 << <uint64_t> kind
        if end != self.size:
            raise ValueError("not all instructions are in a section")
        return 0

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
        free(self.sections)
        free(self.registers)
        free(self.constants)
        free(self.kernels)
        free(self.output_registers)

    def run(self, Batch batch not None, cells, masks, results, validities, kinds=None):
        """Compute the outputs at the rows of a batch.

        cells, masks: for each input its cells, and its mask or None, as for `Kernel.feed`.
        results, validities: for each output an array of cells and one of bytes, as there.
        kinds: for each row the kinds that it is of, a bit for each, an array of type uint64; None
            if there is only one kind. Outputs of other kinds are undefined.

        Returns the number of rows with results: if it is below the number of rows, an operation
        overflows in the next row.
        """
        cdef size_t count = batch.count
        cdef list held = []
        cdef void **columns
        cdef const uint64_t *kind_bits = NULL
        cdef size_t k
        if kinds is not None:
            kind_bits = <const uint64_t *> held_array(held, kinds, sizeof(uint64_t), count, False)
        self.is_by_trace = batch.is_by_trace
        for k in range(self.kernel_count):
            if (<Kernel> self.kernels[k]).is_by_trace or batch.is_by_trace:
                (<Kernel> self.kernels[k]).check_marks(batch)
            (<Kernel> self.kernels[k]).make_room(batch.traces, 0 if batch.is_by_trace else count)
        columns = self.held_columns(held, cells, masks, results, validities, count)
        try:
            return self.run_rows(batch, columns, columns + 2 * self.input_count, kind_bits)
        finally:
            free(columns)

    cdef void **held_columns(
        self, list held, cells, masks, results, validities, size_t count
    ) except NULL:
        """The arrays of inputs and then of outputs, each with its mask; the caller frees them.

        held: gets what must live as long as they do.
        """
        cdef size_t inputs = self.input_count
        cdef size_t outputs = <size_t> len(self.outputs)
        cdef void **columns = NULL
        cdef size_t k
        if (
            <size_t> len(cells) != inputs or <size_t> len(masks) != inputs
            or <size_t> len(results) != outputs or <size_t> len(validities) != outputs
        ):
            raise ValueError("a wrong number of columns")
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
        except BaseException:
            free(columns)
            raise
        return columns

    cdef size_t run_rows(
        self, Batch batch, void **inputs, void **outputs, const uint64_t *kinds
    ) except? 0:
        cdef size_t row
        cdef size_t mark = 0
        cdef uint64_t own = 1
        cdef int found
        with nogil:
            for row in range(batch.count):
                if kinds != NULL:
                    own = kinds[row]
                if batch.marks.moments != NULL and batch.marks.moments[row] != NO_MARK:
                    self.save(batch, row, mark)
                    mark += 1
                found = self.compute_kinds(
                    batch.time_stamps[row], batch.trace(row), row, inputs, own
                )
                if found == OVERFLOWS:
                    return row
                self.put_outputs(row, outputs)
        return batch.count

    cdef int compute_kinds(
        self, int64_t time_stamp, uint32_t trace, size_t row, void **inputs, uint64_t kinds
    ) except -1 nogil:
        """Run the code for some kinds of rows; returns as `compute` does."""
        cdef Section *section
        cdef size_t place
        for place in range(self.section_count):
            section = &self.sections[place]
            if section.kinds & kinds:
                if self.compute(time_stamp, trace, row, inputs, section) == OVERFLOWS:
                    return OVERFLOWS
        return FOUND

    cdef inline void put_outputs(self, size_t row, void **outputs) noexcept nogil:
        cdef size_t k
        cdef Register *register
        for k in range(self.output_count):
            register = &self.registers[self.output_registers[k]]
            (<int64_t *> outputs[2 * k])[row] = register.content.integer
            (<uint8_t *> outputs[2 * k + 1])[row] = register.is_valid

    cdef int compute_of_instance(
        self, int64_t time_stamp, uint32_t number, size_t row, void **inputs, void **outputs
    ) except -1 nogil:
        """Compute the outputs at a row of an instance; returns as `compute` does.

        The last output is the condition that is true where the instance ends.
        """
        cdef Section section
        section.begin = 0
        section.end = self.size
        section.kinds = 1
        if self.compute(time_stamp, number, row, inputs, &section) == OVERFLOWS:
            return OVERFLOWS
        self.put_outputs(row, outputs)
        return FOUND

    cdef int save(self, Batch batch, size_t row, size_t mark) except -1 nogil:
        """Save the states of all kernels before a row."""
        cdef size_t k
        for k in range(self.kernel_count):
            batch.marks.places[
                mark * batch.marks.width + (<Kernel> self.kernels[k]).number
            ] = (<Kernel> self.kernels[k]).save(batch.trace(row), batch.marks.moments[row])
        return 0

    cdef int compute(
        self, int64_t time_stamp, uint32_t trace, size_t row, void **inputs, const Section *section
    ) except -1 nogil:
        """Run a section of the code at a row; returns OVERFLOWS if an operation does."""
        cdef size_t place
        cdef Instruction *code
        cdef Register *target
        cdef Register *a
        cdef Register *b
        cdef const uint8_t *mask
        cdef Operation operation
        cdef int found
        for place in range(section.begin, section.end):
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
                if self.is_by_trace:
                    found = (<Kernel> self.kernels[code.a]).get_by_trace(
                        time_stamp, trace, &target.content.integer
                    )
                else:
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
                    if self.is_by_trace:
                        (<Kernel> self.kernels[code.a]).put_by_trace(
                            time_stamp, trace, b.content.integer
                        )
                    else:
                        (<Kernel> self.kernels[code.a]).put(time_stamp, trace, b.content.integer)
            else:
                a = &self.registers[code.a]
                if operation < FIRST_STRICT:
                    lenient(operation, target, a, b, &self.registers[code.c])
                elif not a.is_valid or not b.is_valid:
                    target.is_valid = False
                elif strict(operation, target, a.content, b.content, code.c):
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
