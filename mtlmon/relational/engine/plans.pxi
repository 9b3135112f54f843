# cython: language_level=3
"""Reads plans, which are made in Python, into the engine's structures."""

from cython cimport final
from libc.stdint cimport UINT32_MAX, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from mtlmon.arrays.native cimport Memory
from mtlmon.policy.predicates.operations cimport (
    CONSTANT, LOAD, OPERATION_COUNT, Instruction, Operation, Register,
)


cdef enum:
    # compares texts, beside the operations of all machines
    COMPARE_TEXTS = OPERATION_COUNT

OPERATIONS["compare_texts"] = COMPARE_TEXTS

STATE_KINDS = {
    "window": WINDOW, "counts": COUNTS, "since": SINCE_STATE, "until": UNTIL_STATE,
    "neighbour": NEIGHBOUR, "present": PRESENT, "groups": GROUPS, "spans": SPANS,
}
ORDERINGS = {None: UNORDERED, "MIN": LEAST_FIRST, "MAX": LARGEST_FIRST}
LEFT_KINDS = {
    "breaks": BREAKS, "runs": RUNS, "marks": MARKS, "ends": ENDS, "filters": FILTERS
}
STEP_KINDS = {
    "scan": SCAN, "probe": PROBE, "compute": COMPUTE, "attempt": ATTEMPT, "call": CALL,
    "listed": LISTED, "branch": BRANCH, "project": PROJECT, "aggregate": AGGREGATE, "meet": MEET,
}
MODES = {"join": JOIN, "semi": SEMI, "anti": ANTI, "outer": OUTER}
SOURCE_KINDS = {"atom": ATOM_ROWS, "neighbour": NEIGHBOUR_ROWS, "group": GROUP_ROWS}
AGGREGATE_KINDS = {
    "COUNT": COUNT_OF, "SUM": SUM_OF, "AVG": AVG_OF, "MIN": MIN_OF, "MAX": MAX_OF,
    "MEDIAN": MEDIAN_OF,
}
CELL_KINDS = {"integer": INTEGER_CELL, "float": FLOAT_CELL, "text": TEXT_CELL}


@final
cdef class Allocations:
    """Memory that lives as long as the engine that it belongs to.

    The collector of garbage knows nothing of it, so it is not freed before the engine.
    """

    def __dealloc__(self):
        cdef size_t k
        for k in range(self.count):
            free(self.places[k])
        free(self.places)


cdef void *allocated(Allocations allocations, size_t count, size_t item_size) except NULL:
    """Memory full of zeros."""
    cdef void *place
    make_room(
        <void **> &allocations.places, &allocations.room, allocations.count + 1, sizeof(void *)
    )
    place = calloc(count + 1, item_size)
    if place == NULL:
        raise MemoryError
    allocations.places[allocations.count] = place
    allocations.count += 1
    return place


cdef Numbers read_numbers(Allocations allocations, items, size_t limit) except *:
    """Numbers below a limit."""
    cdef Numbers found
    cdef size_t k
    found.count = <uint32_t> len(items)
    found.of = <uint32_t *> allocated(allocations, found.count, sizeof(uint32_t))
    for k in range(found.count):
        if not 0 <= items[k] < limit:
            raise ValueError("a plan names something that does not exist")
        found.of[k] = items[k]
    return found


cdef int read_program(Program *program, Allocations allocations, plan) except -1:
    cdef size_t k
    cdef Instruction *instruction
    cdef size_t registers = plan.registers
    program.size = <size_t> len(plan.code)
    program.code = <Instruction *> allocated(allocations, program.size, sizeof(Instruction))
    program.registers = <Register *> allocated(allocations, registers, sizeof(Register))
    program.constants = <Register *> allocated(
        allocations, len(plan.constants), sizeof(Register)
    )
    for k in range(<size_t> len(plan.constants)):
        program.constants[k].is_valid = plan.constants[k] is not None
        if plan.constants[k] is not None:
            program.constants[k].content.integer = plan.constants[k]
    for k in range(program.size):
        operation, target, a, b, c = plan.code[k]
        limit = len(plan.constants) if operation == CONSTANT else registers
        if target >= registers or operation != LOAD and a >= limit or b >= registers:
            raise ValueError("a plan names a register that does not exist")
        instruction = &program.code[k]
        instruction.operation = <Operation> <int> operation
        instruction.target = target
        instruction.a = a
        instruction.b = b
        instruction.c = c
    if plan.result >= registers:
        raise ValueError("a plan names a register that does not exist")
    program.result = plan.result
    return 0


cdef int read_state(State *state, Allocations allocations, plan) except -1:
    cdef size_t k
    cdef Left *left
    state.kind = <StateKind> <int> STATE_KINDS[plan.kind]
    state.operand = plan.operand
    state.is_future = plan.is_future
    state.is_exact = plan.is_exact
    state.is_strict = plan.is_strict
    state.is_eager = any(one.kind == "filters" for one in plan.lefts)
    state.lower = plan.lower
    state.upper = -1 if plan.upper is None else plan.upper
    state.inbox.width = state.rows.width = state.current.width = plan.width
    state.texts = read_numbers(allocations, plan.texts, plan.width)
    state.patience = 256
    state.first_live = NONE
    state.position = NOWHERE
    state.index_count = <uint32_t> len(plan.indexes)
    state.indexes = <Index *> allocated(allocations, state.index_count, sizeof(Index))
    for k in range(state.index_count):
        if any(column >= plan.width for column in plan.indexes[k]):
            raise ValueError("a plan names a column that does not exist")
        begin_index(&state.indexes[k], plan.indexes[k])
    state.lefts = <Left *> allocated(allocations, len(plan.lefts), sizeof(Left))
    for one in plan.lefts:
        left = &state.lefts[state.left_count]
        left.kind = <LeftKind> <int> LEFT_KINDS[one.kind]
        left.operand = one.operand
        left.inbox.width = left.known.width = left.expiring.width = one.width
        left.index = one.key_index
        left.texts = read_numbers(allocations, one.texts, one.width)
        left.block = one.block
        numbers = read_numbers(allocations, one.columns, max(plan.width, one.width) + 1)
        left.columns = numbers.of
        left.column_count = numbers.count
        begin_index(&left.by_row, list(range(one.width)))
        state.left_count += 1
    return 0


cdef void free_state(State *state) noexcept:
    cdef uint32_t k
    cdef Left *left
    for k in range(state.index_count):
        free_index(&state.indexes[k])
    for k in range(state.left_count):
        left = &state.lefts[k]
        free_queue(&left.inbox)
        free_queue(&left.expiring)
        free_index(&left.by_row)
        free(left.known.cells)
        free(left.latest)
        free(left.starts)
        free(left.free_slots)
    free_queue(&state.inbox)
    free(state.rows.cells)
    free(state.slots)
    free(state.free_slots)
    free(state.entries)
    free(state.jumps)
    free(state.times)
    free(state.groupings)
    free(state.sums)
    free(state.nodes)


cdef size_t held_by_state(const State *state) noexcept nogil:
    """The bytes that a state holds."""
    cdef uint32_t k
    cdef const Left *left
    cdef size_t held = held_by_queue(&state.inbox)
    held += state.rows.room * sizeof(int64_t) + state.slot_room * sizeof(Slot)
    held += state.free_room * sizeof(uint32_t) + state.entry_room * sizeof(Entry)
    held += state.time_room * sizeof(CountedPoint) + state.sum_room * sizeof(uint64_t)
    held += state.jump_room * sizeof(Jump) + state.node_room * sizeof(HeapNode)
    for k in range(state.index_count):
        held += held_by_index(&state.indexes[k])
    for k in range(state.left_count):
        left = &state.lefts[k]
        held += held_by_queue(&left.inbox) + held_by_queue(&left.expiring)
        held += held_by_index(&left.by_row) + left.known.room * sizeof(int64_t)
        held += (left.latest_room + left.start_room) * sizeof(uint64_t)
        held += left.free_room * sizeof(uint32_t)
    return held


cdef int read_step(Step *step, RelationalEngine engine, plan) except -1:
    cdef size_t k
    cdef Allocations allocations = engine.allocations
    cdef size_t every = UINT32_MAX
    step.kind = <StepKind> <int> STEP_KINDS[plan.kind]
    step.mode = <Mode> <int> MODES[plan.mode]
    step.source_kind = <SourceKind> <int> SOURCE_KINDS[plan.source_kind]
    step.source = plan.source
    step.index = plan.key_index
    step.is_binding = plan.is_binding
    step.is_distinct = plan.is_distinct
    step.keys = read_numbers(allocations, plan.keys, every)
    step.matched = read_numbers(allocations, plan.matched, every)
    step.takes = read_numbers(allocations, plan.takes, every)
    step.fixed = read_numbers(allocations, plan.fixed, every)
    step.equal = read_numbers(allocations, plan.equal, every)
    step.constant_count = <uint32_t> len(plan.constants)
    step.constants = <int64_t *> allocated(allocations, step.constant_count, sizeof(int64_t))
    for k in range(step.constant_count):
        step.constants[k] = plan.constants[k]
    step.blocks = read_numbers(allocations, plan.blocks, engine.block_count)
    step.columns = read_numbers(allocations, plan.columns, every)
    step.width = step.rows.width = plan.width
    step.aggregate = <AggregateKind> <int> AGGREGATE_KINDS[plan.aggregate]
    step.cell = <CellKind> <int> CELL_KINDS[plan.cell]
    step.has_value = plan.has_value
    step.group = plan.group
    if step.kind == PROBE and step.source >= engine.state_count:
        raise ValueError("a plan names a state that does not exist")
    step.sides = <Side *> allocated(allocations, len(plan.sides), sizeof(Side))
    for k in range(<size_t> len(plan.sides)):
        read_side(&step.sides[k], engine, plan.sides[k], step.source)
    if (step.kind == MEET) != (len(plan.sides) == 2):
        raise ValueError("two states meet")
    if (step.kind == COMPUTE or step.kind == ATTEMPT) and step.source >= engine.program_count:
        raise ValueError("a plan names a program that does not exist")
    return 0


cdef int read_side(Side *side, RelationalEngine engine, plan, uint32_t width) except -1:
    """Read one of two states that meet."""
    cdef State *state
    if not 0 <= plan.state < engine.state_count:
        raise ValueError("a plan names a state that does not exist")
    state = &engine.states[plan.state]
    side.state = plan.state
    side.first_index = NONE if plan.first_index is None else plan.first_index
    side.index = plan.key_index
    if side.index >= state.index_count or (
        side.first_index != NONE and side.first_index >= state.index_count
    ):
        raise ValueError("a plan names an index that does not exist")
    side.first_keys = read_numbers(engine.allocations, plan.first_keys, width)
    side.keys = read_numbers(engine.allocations, plan.keys, width)
    side.takes = read_numbers(engine.allocations, plan.takes, state.rows.width)
    side.places = read_numbers(engine.allocations, plan.places, width)
    if side.takes.count != side.places.count or (
        side.keys.count != state.indexes[side.index].column_count
    ) or side.first_index != NONE and (
        side.first_keys.count != state.indexes[side.first_index].column_count
    ):
        raise ValueError("a plan has too many columns")
    return 0


cdef void free_step(Step *step) noexcept:
    free(step.rows.cells)
    free(step.given.cells)
    free(step.flags)


cdef int read_query(RelationalEngine engine, Query *query, plan) except -1:
    cdef size_t k
    query.early = NONE if plan.early is None else plan.early
    query.late = NONE if plan.late is None else plan.late
    query.width = plan.width
    query.waiting.width = 0
    if query.late != NONE:
        query.waiting.width = engine.blocks[query.late].width
    query.waiting_texts = read_numbers(
        engine.allocations, plan.waiting_texts, query.waiting.width
    )
    query.policy = NONE if plan.policy is None else plan.policy
    query.is_find = plan.is_find
    query.part = NONE if plan.part is None else plan.part
    query.counted = NONE
    query.early_states = read_numbers(
        engine.allocations, plan.early_states, engine.state_count
    )
    query.late_states = read_numbers(engine.allocations, plan.late_states, engine.state_count)
    query.kept = read_numbers(engine.allocations, plan.kept, engine.atom_count)
    query.kept_rows = <RowQueue *> allocated(
        engine.allocations, query.kept.count, sizeof(RowQueue)
    )
    for k in range(query.kept.count):
        query.kept_rows[k].width = engine.points.widths[query.kept.of[k]]
    query.consumers = <Consumer *> allocated(
        engine.allocations, len(plan.consumers), sizeof(Consumer)
    )
    for state, left in plan.consumers:
        if not 0 <= state < engine.state_count:
            raise ValueError("a plan names a state that does not exist")
        query.consumers[query.consumer_count].state = state
        query.consumers[query.consumer_count].left = NONE if left is None else left
        query.consumer_count += 1
    return 0


cdef int read_counted(RelationalEngine engine, plan) except -1:
    """Let the rows of a query be counted for a policy.

    In slices, they are answers of another policy, as only their owners count them.
    """
    cdef Query *query
    if not 0 <= plan.query < engine.query_count or not 0 <= plan.policy < engine.policy_count:
        raise ValueError("a plan counts what does not exist")
    query = &engine.queries[plan.query]
    if query.policy == plan.policy or query.consumer_count:
        raise ValueError("a plan counts the rows of a query that has other uses")
    query.counted = plan.policy
    return 0


cdef int read_groups(RelationalEngine engine, State *state, plan) except -1:
    """Let a state of groups or spans hear of the rows of its parent, which comes before it."""
    cdef State *parent
    cdef size_t room
    if state.kind != GROUPS and state.kind != SPANS:
        return 0
    parent = &engine.states[plan.operand]
    if not engine.states <= parent < state:
        raise ValueError("a plan names a state that does not exist")
    state.operand = NONE
    state.parent = parent
    state.grouped_by = read_numbers(engine.allocations, plan.grouped_by, parent.rows.width)
    if plan.width != (parent.rows.width if state.kind == SPANS else state.grouped_by.count):
        raise ValueError("groups have the columns by which rows are grouped")
    state.valued = NONE if plan.valued is None else plan.valued
    state.ordering = <Ordering> <int> ORDERINGS[plan.ordering]
    state.cell = CELL_KINDS[plan.cell]
    if state.valued != NONE and state.valued >= parent.rows.width:
        raise ValueError("a plan names a column that does not exist")
    if state.ordering != UNORDERED and state.valued == NONE:
        raise ValueError("groups are ordered by a column")
    state.is_list = plan.is_pruning
    if state.is_list:
        if state.ordering == UNORDERED or parent.kind != WINDOW or parent.is_future or (
            parent.is_exact or parent.grouping_count
        ):
            raise ValueError("rows that other states look at are pruned")
        parent.pruning = state
    room = parent.grouping_count
    if parent.pruning not in (NULL, state):
        raise ValueError("rows that other states look at are pruned")
    make_room(
        <void **> &parent.groupings, &room, parent.grouping_count + 1, sizeof(State *)
    )
    parent.groupings[parent.grouping_count] = state
    parent.grouping_count += 1
    return 0
