# cython: language_level=3
"""Aggregates: the groups of rows, counted and summed when they are asked for, or all the time."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from mtlmon.policy.predicates.operations cimport Register

from math import fsum as _fsum, isfinite as _isfinite

from mtlmon.errors import RowError


cdef double folded(AggregateKind kind, list bag) except? -1:
    """A sum, mean or median of numbers. Sums and means of floats do not depend on their order."""
    cdef bint is_finite = all(map(_isfinite, bag))
    if kind == MEDIAN_OF:
        # imported on use, as it takes 1 ms
        from statistics import median
        return float(median(map(_fraction, bag)) if is_finite else median(bag))
    if kind == SUM_OF:
        return _total(bag)
    if bag and isinstance(bag[0], int):
        return sum(bag) / len(bag)
    return _total(bag) / len(bag)


cdef double _total(list bag) except? -1:
    """The exact sum, rounded; with infinities what IEEE says."""
    try:
        return _fsum(bag)
    except ValueError:
        return float("nan")
    except OverflowError:
        return float("inf") if sum(map(_fraction, bag)) > 0 else float("-inf")


def _fraction(value):
    from fractions import Fraction
    return Fraction(value)


cdef int note_wide_sum(RelationalEngine engine) except -1 nogil:
    """A sum does not fit 64 bits: an error, or no value."""
    if engine.queries[engine.current].counted != NONE:
        return 0
    if not engine.skips_overflows:
        with gil:
            raise RowError("a SUM overflows 64 bits")
    engine.overflows += 1
    return 0


cdef int probe_groups(RelationalEngine engine, Step *step, Rows *given) except -1 nogil:
    """Join rows with the groups of rows that a temporal operator holds for."""
    cdef State *state = &engine.states[step.source]
    cdef Index *index = &state.indexes[step.index]
    cdef size_t i
    cdef uint32_t slot
    cdef const int64_t *row
    cdef int64_t value
    advance_state(state, engine.here, engine.now)
    for i in range(given.count):
        row = row_of(given, i)
        slot = first_slot(index, &state.rows, row, step.keys.of)
        if slot == NONE and step.mode == OUTER:
            # nothing has a count and a sum, 0
            new_row(&step.rows)
            row = row_of(given, i)
            copy_cells(row_of(&step.rows, step.rows.count - 1), row, given.width)
            row_of(&step.rows, step.rows.count - 1)[given.width] = 0
        while slot != NONE:
            if value_of_group(engine, step, state, slot, &value):
                put_joined(
                    &step.rows, row, given.width, cells_of(state, slot), &step.takes,
                    engine.most_rows
                )
                row_of(&step.rows, step.rows.count - 1)[step.width - 1] = value
            if step.index == 0:
                break
            slot = index.next[slot]
    return 0


cdef bint value_of_group(
    RelationalEngine engine, Step *step, State *state, uint32_t slot, int64_t *value
) except -1 nogil:
    """Find the aggregate of a group; return whether it has one."""
    cdef const uint64_t *words = state.sums + 2 * slot
    cdef uint64_t count = state.slots[slot].references
    if step.aggregate == COUNT_OF:
        value[0] = <int64_t> count
        return True
    if state.ordering != UNORDERED:
        value[0] = value_in(state, <uint32_t> words[0])
        return True
    if step.aggregate == SUM_OF:
        value[0] = <int64_t> words[0]
        if is_wide(words):
            note_wide_sum(engine)
            return False
        return True
    if not is_wide(words) and -MOST_EXACT <= <int64_t> words[0] <= MOST_EXACT:
        value[0] = as_cell(<double> <int64_t> words[0] / <double> count)
        return True
    with gil:
        value[0] = as_cell(((<object> <int64_t> words[1] << 64) + words[0]) / count)
    return True


cdef int64_t number_of_group(
    RelationalEngine engine, Rows *groups, const int64_t *row, const Numbers *columns, size_t mask
) except -1 nogil:
    """The number of the group that a row belongs to, by some columns; it is added if it is new."""
    cdef size_t place = hash_columns(row, columns.of, columns.count) & mask
    cdef size_t k
    cdef uint32_t group
    cdef int64_t *target
    while True:
        group = engine.seen.places[place]
        if group == NONE:
            break
        target = row_of(groups, group)
        for k in range(columns.count):
            if target[k] != row[columns.of[k]]:
                break
        else:
            return group
        place = (place + 1) & mask
    target = new_row(groups)
    group = <uint32_t> (groups.count - 1)
    engine.seen.places[place] = group
    for k in range(columns.count):
        target[k] = row[columns.of[k]]
    target[columns.count] = 0
    return group


cdef int aggregate(RelationalEngine engine, Step *step, Rows *given) except -1 nogil:
    """Make the groups of the rows of a block: their columns, and the value of each."""
    cdef Rows *groups = &engine.groups[step.group]
    cdef Rows *found
    cdef Register value
    cdef size_t i, k, count = 0, mask, asked
    cdef const int64_t *row
    cdef int64_t *target
    cdef uint32_t *group_of = NULL
    cdef int64_t *values = NULL
    cdef size_t group_room = 0, value_room = 0
    step.given.count = 0
    step.given.width = step.keys.count
    for i in range(given.count):
        target = new_row(&step.given)
        for k in range(step.keys.count):
            target[k] = row_of(given, i)[step.keys.of[k]]
    distinct(&step.given, &engine.seen)
    found = run_block(engine, step.blocks.of[0], &step.given)
    groups.count = 0
    try:
        make_room(<void **> &group_of, &group_room, found.count, sizeof(uint32_t))
        make_room(<void **> &values, &value_room, found.count, sizeof(int64_t))
        asked = step.given.count if step.mode == OUTER else 0
        prepare_set(&engine.seen, found.count + asked)
        mask = set_mask(found.count + asked)
        for i in range(asked):
            # a group without rows has a count and a sum, 0, which has the same cell as 0.0
            number_of_group(engine, groups, row_of(&step.given, i), &step.matched, mask)
        for i in range(found.count):
            row = row_of(found, i)
            value.content.integer = 0
            if step.has_value:
                evaluate(engine, &engine.programs[step.source], row, &value)
                if not value.is_valid:
                    continue
            group_of[count] = <uint32_t> number_of_group(engine, groups, row, &step.columns, mask)
            values[count] = value.content.integer
            count += 1
        fold(engine, step, groups, group_of, values, count)
    finally:
        free(group_of)
        free(values)
    return 0


cdef int fold(
    RelationalEngine engine, Step *step, Rows *groups, const uint32_t *group_of,
    const int64_t *values, size_t count
) except -1 nogil:
    """Compute the aggregate of each group, the last cell of its row."""
    cdef size_t last = step.columns.count
    cdef size_t i, kept = 0
    cdef int64_t *target
    cdef uint64_t *wide = NULL
    cdef size_t room = 0
    cdef int order
    if step.aggregate == COUNT_OF:
        for i in range(count):
            row_of(groups, group_of[i])[last] += 1
        return 0
    if step.aggregate == MIN_OF or step.aggregate == MAX_OF:
        make_room(<void **> &engine.chain, &engine.chain_room, groups.count, sizeof(uint32_t))
        memset(engine.chain, 0, groups.count * sizeof(uint32_t))
        for i in range(count):
            target = row_of(groups, group_of[i]) + last
            order = compare_cells(engine.texts, step.cell, values[i], target[0])
            if not engine.chain[group_of[i]] or (
                order < 0 if step.aggregate == MIN_OF else order > 0
            ):
                target[0] = values[i]
            engine.chain[group_of[i]] = 1
        return 0
    if step.aggregate == SUM_OF and step.cell == INTEGER_CELL:
        try:
            make_room(<void **> &wide, &room, 2 * groups.count, sizeof(uint64_t))
            memset(wide, 0, 2 * groups.count * sizeof(uint64_t))
            for i in range(count):
                add_wide(wide + 2 * group_of[i], values[i], False)
            for i in range(groups.count):
                if is_wide(wide + 2 * i):
                    note_wide_sum(engine)
                    continue
                copy_cells(row_of(groups, kept), row_of(groups, i), groups.width)
                row_of(groups, kept)[last] = <int64_t> wide[2 * i]
                kept += 1
            groups.count = kept
        finally:
            free(wide)
        return 0
    with gil:
        fold_slowly(engine, step, groups, group_of, values, count)
    return 0


cdef int fold_slowly(
    RelationalEngine engine, Step *step, Rows *groups, const uint32_t *group_of,
    const int64_t *values, size_t count
) except -1:
    """Sums of floats, means and medians, with Python's exact arithmetic."""
    cdef size_t i, kept = 0
    cdef double found
    cdef list bags = [[] for i in range(groups.count)]
    for i in range(count):
        (<list> bags[group_of[i]]).append(
            as_number(values[i]) if step.cell == FLOAT_CELL else values[i]
        )
    for i in range(groups.count):
        found = folded(step.aggregate, bags[i])
        if found != found:
            # infinities of both signs have no sum, so the group has no row
            continue
        copy_cells(row_of(groups, kept), row_of(groups, i), groups.width)
        row_of(groups, kept)[step.columns.count] = as_cell(found)
        kept += 1
    groups.count = kept
    return 0
