# cython: language_level=3
"""The steps of plans, which make rows of rows. These are methods of the engine.

Rows with equal cells do not occur twice, before a step and behind it.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset


class TooManyRows(Exception):
    """A step makes more rows than a time-point may have."""


cdef enum:
    # from how many pairs of rows on, those of a time-point are found by hashing
    HASHED_PAIRS = 64


cdef inline bint matches_fixed(const Step *step, const int64_t *row) noexcept nogil:
    """Whether a row of a source has the constants and the equal columns that a step asks for."""
    cdef size_t k
    for k in range(step.fixed.count):
        if row[step.fixed.of[k]] != step.constants[k]:
            return False
    for k in range(0, step.equal.count, 2):
        if row[step.equal.of[k]] != row[step.equal.of[k + 1]]:
            return False
    return True


cdef inline bint matches_keys(
    const Step *step, const int64_t *row, const int64_t *other
) noexcept nogil:
    cdef size_t k
    for k in range(step.keys.count):
        if row[step.keys.of[k]] != other[step.matched.of[k]]:
            return False
    return True


cdef inline int put_joined(
    Rows *target, const int64_t *row, size_t width, const int64_t *other, const Numbers *takes,
    size_t most
) except -1 nogil:
    """Add a row with some columns of another behind it, if there are fewer than `most`."""
    cdef int64_t *place
    cdef size_t k
    if target.count >= most:
        with gil:
            raise TooManyRows
    place = new_row(target)
    copy_cells(place, row, width)
    for k in range(takes.count):
        place[width + k] = other[takes.of[k]]
    return 0


cdef Rows *run_block(RelationalEngine engine, uint32_t number, Rows *given) except NULL nogil:
    """Run the steps of a block; the rows belong to the last step, or are those given."""
    cdef StepBlock *block = &engine.blocks[number]
    cdef Rows *rows = given
    cdef uint32_t k
    for k in range(block.count):
        rows = run_step(engine, &block.steps[k], rows)
        if rows.count == 0:
            # no step makes rows of none
            break
    return rows


cdef Rows *run_step(RelationalEngine engine, Step *step, Rows *given) except NULL nogil:
    if step.kind == AGGREGATE:
        aggregate(engine, step, given)
        return given
    step.rows.count = 0
    if step.kind == SCAN:
        scan(engine, step, given)
    elif step.kind == PROBE:
        if engine.states[step.source].kind == GROUPS:
            probe_groups(engine, step, given)
        else:
            probe(engine, step, given)
    elif step.kind == MEET:
        meet(engine, step, given)
    elif step.kind == COMPUTE:
        compute(engine, step, given)
    elif step.kind == ATTEMPT:
        attempt(engine, step, given)
    elif step.kind == PROJECT:
        project(engine, step, given)
    elif step.kind == BRANCH:
        if step.mode == JOIN:
            join_branches(engine, step, given)
        else:
            branch(engine, step, given)
    elif step.kind == LISTED:
        listed(engine, step, given)
    else:
        with gil:
            call(engine, step, given)
    if step.is_distinct:
        distinct(&step.rows, &engine.seen)
    return &step.rows


cdef Rows *source_of(RelationalEngine engine, Step *step) except NULL nogil:
    cdef State *state
    if step.source_kind == ATOM_ROWS:
        return engine.atoms[step.source]
    if step.source_kind == GROUP_ROWS:
        return &engine.groups[step.source]
    state = &engine.states[step.source]
    advance_state(state, engine.here, engine.now)
    return &state.current


cdef int scan(RelationalEngine engine, Step *step, Rows *given) except -1 nogil:
    """Join rows with rows of this time-point."""
    cdef Rows *source = source_of(engine, step)
    cdef size_t i, j
    cdef const int64_t *row
    cdef const int64_t *other
    cdef bint is_found
    if step.keys.count and given.count > 1 and source.count > HASHED_PAIRS // given.count:
        return scan_hashed(engine, step, given, source)
    for i in range(given.count):
        row = row_of(given, i)
        is_found = False
        for j in range(source.count):
            other = row_of(source, j)
            if not matches_fixed(step, other) or not matches_keys(step, row, other):
                continue
            is_found = True
            if step.mode != JOIN:
                break
            put_joined(&step.rows, row, given.width, other, &step.takes, engine.most_rows)
        if step.mode != JOIN and is_found == (step.mode == SEMI):
            copy_cells(new_row(&step.rows), row, given.width)
    return 0


cdef int scan_hashed(
    RelationalEngine engine, Step *step, Rows *given, Rows *source
) except -1 nogil:
    """The same by a table of the source's rows by their keys."""
    cdef size_t mask = set_mask(source.count)
    cdef size_t i, place
    cdef uint32_t j
    cdef const int64_t *row
    cdef const int64_t *other
    cdef bint is_found
    prepare_set(&engine.seen, source.count)
    make_room(<void **> &engine.chain, &engine.chain_room, source.count, sizeof(uint32_t))
    for i in range(source.count):
        other = row_of(source, source.count - 1 - i)
        if not matches_fixed(step, other):
            continue
        # rows of equal hash are a list
        place = hash_columns(other, step.matched.of, step.matched.count) & mask
        engine.chain[source.count - 1 - i] = engine.seen.places[place]
        engine.seen.places[place] = <uint32_t> (source.count - 1 - i)
    for i in range(given.count):
        row = row_of(given, i)
        is_found = False
        j = engine.seen.places[hash_columns(row, step.keys.of, step.keys.count) & mask]
        while j != NONE:
            other = row_of(source, j)
            j = engine.chain[j]
            if not matches_keys(step, row, other):
                continue
            is_found = True
            if step.mode != JOIN:
                break
            put_joined(&step.rows, row, given.width, other, &step.takes, engine.most_rows)
        if step.mode != JOIN and is_found == (step.mode == SEMI):
            copy_cells(new_row(&step.rows), row, given.width)
    return 0


cdef int probe(RelationalEngine engine, Step *step, Rows *given) except -1 nogil:
    """Join rows with those that a temporal operator holds for."""
    cdef State *state = &engine.states[step.source]
    cdef Index *index = &state.indexes[step.index]
    cdef size_t i
    cdef uint32_t slot
    cdef const int64_t *row
    cdef bint is_found
    advance_state(state, engine.here, engine.now)
    for i in range(given.count):
        row = row_of(given, i)
        slot = first_slot(index, &state.rows, row, step.keys.of)
        if state.kind == COUNTS and slot == NONE:
            is_found = state.total == 0
        else:
            is_found = False
        while slot != NONE:
            if holds_now(state, slot):
                is_found = True
                if step.mode != JOIN:
                    break
                put_joined(
                    &step.rows, row, given.width, cells_of(state, slot), &step.takes,
                    engine.most_rows
                )
            if step.index == 0:
                break
            slot = index.next[slot]
        if step.mode != JOIN and is_found == (step.mode == SEMI):
            copy_cells(new_row(&step.rows), row, given.width)
    return 0


cdef int listed(RelationalEngine engine, Step *step, Rows *given) except -1 nogil:
    """Add a column with each of some constants."""
    cdef size_t i, k
    cdef int64_t *place
    for i in range(given.count):
        for k in range(step.constant_count):
            if step.rows.count >= engine.most_rows:
                with gil:
                    raise TooManyRows
            place = new_row(&step.rows)
            copy_cells(place, row_of(given, i), given.width)
            place[given.width] = step.constants[k]
    return 0


cdef int branch(RelationalEngine engine, Step *step, Rows *given) except -1 nogil:
    """Keep the rows for which some block gives rows, or for which none does."""
    cdef Rows *found
    cdef size_t i, k
    cdef int64_t *place
    step.given.width = given.width + 1
    make_room(<void **> &step.flags, &step.flag_room, given.count, 1)
    memset(step.flags, 0, given.count)
    for k in range(step.blocks.count):
        # a block is not asked about the rows for which one before it has given rows
        step.given.count = 0
        for i in range(given.count):
            if step.flags[i]:
                continue
            place = new_row(&step.given)
            copy_cells(place, row_of(given, i), given.width)
            place[given.width] = <int64_t> i
        if step.given.count == 0:
            break
        found = run_block(engine, step.blocks.of[k], &step.given)
        for i in range(found.count):
            step.flags[row_of(found, i)[given.width]] = 1
    for i in range(given.count):
        if step.flags[i] == (step.mode == SEMI):
            copy_cells(new_row(&step.rows), row_of(given, i), given.width)
    return 0


cdef int join_branches(RelationalEngine engine, Step *step, Rows *given) except -1 nogil:
    """The rows of all blocks, each with its columns in one order."""
    cdef Rows *found
    cdef const uint32_t *columns
    cdef size_t i, k, c
    cdef int64_t *place
    for k in range(step.blocks.count):
        found = run_block(engine, step.blocks.of[k], given)
        columns = step.columns.of + k * step.width
        for i in range(found.count):
            place = new_row(&step.rows)
            for c in range(step.width):
                place[c] = row_of(found, i)[columns[c]]
    distinct(&step.rows, &engine.seen)
    if step.rows.count > engine.most_rows:
        with gil:
            raise TooManyRows
    return 0


cdef int project(RelationalEngine engine, Step *step, Rows *given) except -1 nogil:
    cdef size_t i, c
    cdef int64_t *place
    for i in range(given.count):
        place = new_row(&step.rows)
        for c in range(step.columns.count):
            place[c] = row_of(given, i)[step.columns.of[c]]
    return 0
