# cython: language_level=3
"""The compiled formula: flat immutable tables, which any number of monitors can share."""

from cython cimport final
from libc.stdlib cimport calloc, free, malloc


cdef enum:
    # Measured sizes of Python objects: a row and its numbers; a name and its number in the
    # monitor's dictionary.
    ROW_BYTES = 150
    ATOM_BYTES = 130


cdef enum Known:
    # The value of an operand at an event, as far as its letter says it.
    IS_FALSE
    IS_TRUE
    IS_OPEN


cdef inline uint8_t known_value(const uint8_t *values, uint32_t operand) noexcept nogil:
    """The value of an operand, given those of instructions."""
    cdef uint8_t value = values[operand >> 1]
    return value if value == IS_OPEN else value ^ (operand & 1)


@final
cdef class Program:
    """A formula compiled to flat tables: hash-consed instructions, operands before operators.

    Immutable, shareable between threads and picklable. Created by `mtlmon.compile_formula`.

    Attributes:
        atoms: the names of the atoms, in the order of the bits of a letter.
        is_bounded: whether every future operator but NEXT has an upper bound.
        rows: the instructions, operands before operators, each as (operation, left operand, right
            operand, lower bound, upper bound or None, index); see `mtlmon.engine.compile`.
        root: the operand of the whole formula.
    """

    def __cinit__(
        self, tuple rows, uint32_t root, tuple atoms, bint is_bounded, bint has_network=False
    ):
        """Load a table of rows (operation, left, right, lower, upper or None, index)."""
        self.rows = rows
        self.root = root
        self.atoms = atoms
        self.is_bounded = is_bounded
        self.atom_count = <uint32_t> len(atoms)
        self.instruction_count = <uint32_t> len(rows)
        self.instructions = <Instruction *> calloc(len(rows) + 1, sizeof(Instruction))
        # No row owns more than two fixed slots.
        self.is_placeholder = <uint8_t *> calloc(2 * len(rows) + 1, sizeof(uint8_t))
        self.slot_outer = <uint32_t *> calloc(2 * len(rows) + 1, sizeof(uint32_t))
        self.outer_untils = <OuterUntil *> calloc(len(rows) + 1, sizeof(OuterUntil))
        if (
            self.instructions == NULL
            or self.is_placeholder == NULL
            or self.slot_outer == NULL
            or self.outer_untils == NULL
        ):
            raise MemoryError("mtlmon: out of memory")
        cdef uint32_t number
        for number, row in enumerate(rows):
            self._read_row(number, row)
        if root >> 1 >= self.instruction_count:
            raise ValueError("the root is no instruction")
        self._find_idle_letters()
        if has_network:
            self.plan = NetworkPlan(self)

    def __dealloc__(self):
        free(self.instructions)
        free(self.is_placeholder)
        free(self.slot_outer)
        free(self.outer_untils)

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the tables take, plus the measured size of the Python rows and names."""
        return (
            self.instruction_count * (
                sizeof(Instruction) + 2 * (sizeof(uint8_t) + sizeof(uint32_t)) + sizeof(OuterUntil)
                + ROW_BYTES
            )
            + self.atom_count * ATOM_BYTES
        )

    cdef int _find_idle_letters(self) except -1:
        """Find `empty_verdict`, `moving` and `stirring`."""
        cdef uint8_t *values = <uint8_t *> malloc(self.instruction_count + <size_t> 1)
        if values == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.empty_verdict = self._verdict_of(0, False, values)
        self._find_sets(False, values, &self.moving)
        self._find_sets(True, values, &self.stirring)
        free(values)
        return 0

    cdef uint8_t _verdict_of(self, uint64_t letter, bint is_new, uint8_t *values) noexcept nogil:
        """The verdict of an event if it makes no difference to others, else NO_FIXED_VERDICT.

        An event makes no difference to a SINCE or UNTIL whose left operand is true there and whose
        right one is false, whatever comes before and after. If that is so for all of them, and
        there is no PREVIOUS and NEXT, then the values of all operands at other events do not depend
        on whether it is there; only the time does that has passed by then. Where nothing is pending
        or remembered, it is enough that what comes behind does not depend on it: the right operand
        of each SINCE, which has no witness, is false.

        Args:
            letter: of the event.
            is_new: whether nothing is pending or remembered.
            values: room for a value of each instruction.
        """
        cdef const Instruction *instruction
        cdef uint8_t left, right, value
        cdef uint32_t number
        values[0] = IS_FALSE
        for number in range(1, self.instruction_count):
            instruction = &self.instructions[number]
            left = known_value(values, instruction.left)
            right = known_value(values, instruction.right)
            value = IS_OPEN
            if instruction.operation == OP_ATOM:
                value = letter != 0 and letter >> instruction.index & 1
            elif instruction.operation == OP_AND:
                if left == IS_FALSE or right == IS_FALSE:
                    value = IS_FALSE
                elif left == IS_TRUE and right == IS_TRUE:
                    value = IS_TRUE
            elif instruction.operation == OP_PREVIOUS or instruction.operation == OP_NEXT:
                return NO_FIXED_VERDICT
            elif is_new and instruction.operation == OP_SINCE and right == IS_FALSE:
                value = IS_FALSE
            elif not (
                is_new and instruction.operation != OP_SINCE
                or left == IS_TRUE and right == IS_FALSE
            ):
                return NO_FIXED_VERDICT
            values[number] = value
        value = known_value(values, self.root)
        if value == IS_OPEN:
            return NO_FIXED_VERDICT
        return VERDICT_TRUE if value == IS_TRUE else VERDICT_FALSE

    cdef void _find_sets(self, bint is_new, uint8_t *values, AtomSets *found) noexcept nogil:
        """Find the smallest sets without which events make no difference; see `_verdict_of`."""
        cdef uint64_t idle = 0      # a bit for each letter
        cdef uint32_t letter, atoms, k
        cdef uint32_t end = <uint32_t> 1 << min(self.atom_count, <uint32_t> MOST_SET_ATOMS)
        found.count = 0
        if self.empty_verdict == NO_FIXED_VERDICT or self.atom_count > MOST_SET_ATOMS:
            return
        for letter in range(end):
            if self._verdict_of(letter, is_new, values) == self.empty_verdict:
                idle |= <uint64_t> 1 << letter
        # a set comes after its parts
        for atoms in range(end):
            for k in range(found.count):
                if atoms & found.sets[k] == found.sets[k]:
                    break
            else:
                for letter in range(end):
                    if letter & atoms == 0 and not idle >> letter & 1:
                        break
                else:
                    found.sets[found.count] = <uint8_t> atoms
                    found.count += 1

    cdef int _read_row(self, uint32_t number, tuple row) except -1:
        cdef Instruction *instruction = &self.instructions[number]
        operation, left, right, lower, upper, index = row
        if not 0 <= operation < OPERATION_COUNT or (number == 0) != (operation == OP_FALSE):
            raise ValueError(f"instruction {number} has an unknown operation")
        instruction.operation = operation
        instruction.left = left
        instruction.right = right
        instruction.lower = lower
        instruction.upper = UNBOUNDED() if upper is None else upper
        instruction.index = index
        if number and (instruction.left >> 1 >= number or instruction.right >> 1 >= number):
            raise ValueError(f"instruction {number} comes before its operands")
        if instruction.operation == OP_ATOM and instruction.index >= self.atom_count:
            raise ValueError(f"instruction {number} names an unknown atom")
        if instruction.operation == OP_PREVIOUS:
            instruction.index = self.previous_count
            self.previous_count += 1
        elif instruction.operation == OP_SINCE:
            instruction.index = self.since_count
            self.since_count += 1
        elif instruction.operation == OP_NEXT:
            instruction.index = self._new_slot(False, NO_SLOT)
        elif instruction.operation == OP_UNTIL:
            if instruction.index >= self.instruction_count:
                raise ValueError(f"instruction {number} has an unknown family")
            self.family_count = max(self.family_count, instruction.index + 1)
        elif instruction.operation == OP_OUTER_UNTIL:
            self._new_outer_until(instruction)
        return 0

    cdef uint32_t _new_slot(self, bint is_placeholder, uint32_t outer) noexcept:
        cdef uint32_t slot = self.fixed_slot_count
        self.is_placeholder[slot] = is_placeholder
        self.slot_outer[slot] = outer
        self.fixed_slot_count += 1
        return slot

    cdef void _new_outer_until(self, Instruction *instruction) noexcept:
        cdef OuterUntil *outer = &self.outer_untils[self.outer_count]
        instruction.index = self.outer_count
        outer.lower = instruction.lower
        outer.upper = instruction.upper
        # If open and without upper bound, the obligations of all anchors are the same.
        outer.open_slot = self._new_slot(instruction.upper != UNBOUNDED(), self.outer_count)
        outer.closed_slot = NO_SLOT
        if instruction.lower > 0:
            outer.closed_slot = self._new_slot(True, self.outer_count)
        self.outer_count += 1

    def __reduce__(self):
        return Program, (
            self.rows, self.root, self.atoms, self.is_bounded, self.plan is not None
        )

    def __eq__(self, other):
        if not isinstance(other, Program):
            return NotImplemented
        return self.__reduce__() == other.__reduce__()

    def __hash__(self):
        return hash((self.rows, self.root, self.atoms))

    def __repr__(self):
        return f"<Program of {self.instruction_count} instructions over {len(self.atoms)} atoms>"
