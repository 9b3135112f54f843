# cython: language_level=3
"""Which texts states still need. Others are forgotten when there are twice as many as before."""

from libc.stdint cimport UINT32_MAX, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset


cdef inline void visit_cell(int64_t *cell, const TextUse *use) noexcept nogil:
    if <uint64_t> cell[0] >= use.count:
        # as in a forged snapshot
        if use.wrong != NULL:
            use.wrong[0] = True
    elif use.flags != NULL:
        use.flags[cell[0]] = 1
    elif use.numbers != NULL:
        cell[0] = use.numbers[cell[0]]


cdef void visit_cells(
    int64_t *cells, size_t rows, size_t width, const Numbers *texts, const TextUse *use
) noexcept nogil:
    """Visit the columns of rows that have texts."""
    cdef size_t row, k
    if texts.count == 0:
        return
    for row in range(rows):
        for k in range(texts.count):
            visit_cell(cells + row * width + texts.of[k], use)


cdef void visit_queue(RowQueue *queue, const Numbers *texts, const TextUse *use) noexcept nogil:
    if queue.width:
        visit_cells(
            queue.cells + queue.first_cell, (queue.cell_count - queue.first_cell) // queue.width,
            queue.width, texts, use
        )


cdef void visit_slots(
    Rows *rows, const uint32_t *unused, size_t unused_count, const Numbers *texts, uint8_t *is_free,
    const TextUse *use
) noexcept nogil:
    """Visit the rows of slots that are in use; `is_free` has room for a byte for each."""
    cdef size_t k
    if texts.count == 0:
        return
    memset(is_free, 0, rows.count)
    for k in range(unused_count):
        is_free[unused[k]] = 1
    for k in range(rows.count):
        if not is_free[k]:
            visit_cells(row_of(rows, k), 1, rows.width, texts, use)


cdef int build_again(Index *index, const Rows *rows) except -1 nogil:
    """Build an index whose slots have got other cells."""
    cdef uint32_t *slots = NULL
    cdef size_t room = 0, count = 0, k
    cdef uint32_t slot
    try:
        for k in range(index.mask + 1):
            slot = index.heads[k]
            while slot != NONE:
                make_room(<void **> &slots, &room, count + 1, sizeof(uint32_t))
                slots[count] = slot
                count += 1
                slot = index.next[slot]
        memset(index.heads, 0xFF, (index.mask + 1) * sizeof(uint32_t))
        index.keys = 0
        for k in range(count):
            add_slot(index, rows, slots[k])
    finally:
        free(slots)
    return 0


cdef size_t most_slots(RelationalEngine engine) noexcept nogil:
    """The largest number of slots of a state or of a conjunct of a left side."""
    cdef size_t most = 0
    cdef size_t k, j
    for k in range(engine.state_count):
        most = max(most, engine.states[k].rows.count)
        for j in range(engine.states[k].left_count):
            most = max(most, engine.states[k].lefts[j].known.count)
    return most


cdef void visit_texts(RelationalEngine engine, uint8_t *is_free, const TextUse *use) noexcept nogil:
    """Visit all cells that are texts; points and databases have been read."""
    cdef size_t k, j
    cdef State *state
    cdef Left *left
    cdef Query *query
    for k in range(engine.state_count):
        state = &engine.states[k]
        visit_queue(&state.inbox, &state.texts, use)
        visit_slots(
            &state.rows, state.free_slots, state.free_count, &state.texts, is_free, use
        )
        for j in range(state.left_count):
            left = &state.lefts[j]
            visit_queue(&left.inbox, &left.texts, use)
            visit_queue(&left.expiring, &left.texts, use)
            visit_slots(
                &left.known, left.free_slots, left.free_count, &left.texts, is_free, use
            )
    for k in range(engine.query_count):
        query = &engine.queries[k]
        visit_queue(&query.waiting, &query.waiting_texts, use)
        for j in range(query.kept.count):
            visit_queue(&query.kept_rows[j], &engine.atom_texts[query.kept.of[j]], use)
    visit_answers(engine.answers, engine.kinds, use)


cdef void visit_answers(
    AnswerBlock answers, const Numbers *kinds, const TextUse *use
) noexcept nogil:
    """Visit the texts of answers; `kinds` are those of the cells of each policy."""
    cdef size_t k, c
    cdef Answer *answer
    for k in range(answers.count):
        answer = &answers.answers[k]
        if answer.kind == HOLDS:
            continue
        for c in range(answers.widths[answer.policy]):
            if kinds[answer.policy].of[c] == TEXT_CELL:
                visit_cell(answers.values + answer.start + c, use)


cdef int build_indexes_again(RelationalEngine engine) except -1 nogil:
    """Build the indexes of rows whose texts have got other numbers."""
    cdef size_t k, j
    cdef State *state
    for k in range(engine.state_count):
        state = &engine.states[k]
        if state.texts.count:
            for j in range(state.index_count):
                build_again(&state.indexes[j], &state.rows)
        for j in range(state.left_count):
            if state.lefts[j].texts.count:
                build_again(&state.lefts[j].by_row, &state.lefts[j].known)
    return 0


cdef int use_texts(RelationalEngine engine, KeyTable texts) except -1:
    """Let an engine use the texts of another table, which begins with the same constants."""
    cdef TextUse use
    cdef Text text
    cdef uint8_t *is_free = NULL
    cdef uint32_t *numbers = NULL
    cdef size_t free_room = 0, number_room = 0, k
    cdef size_t count = len(engine.texts)
    if texts.columns != 1:
        raise ValueError("texts have one column")
    try:
        make_room(<void **> &numbers, &number_room, count, sizeof(uint32_t))
        for k in range(count):
            text = engine.texts.column_text(k, 0)
            numbers[k] = <uint32_t> texts.number_of(text, texts.hash_of(text))
            if k < engine.constants and numbers[k] != k:
                raise ValueError("the texts of another plan")
        make_room(<void **> &is_free, &free_room, most_slots(engine), 1)
        use.flags = NULL
        use.wrong = NULL
        use.numbers = numbers
        use.count = count
        with nogil:
            visit_texts(engine, is_free, &use)
            build_indexes_again(engine)
        engine.texts = texts
        use_texts_of_groups(engine)
        engine.kept_texts = max(engine.constants, engine.kept_texts)
    finally:
        free(numbers)
        free(is_free)
    return 0


def require_texts(RelationalEngine engine not None, list blocks not None):
    """Refuse cells without a text in the state of an engine and in blocks of time-points.

    engine: its time-points have been read.
    blocks: blocks of time-points that are kept for it.

    Raises:
        SnapshotError: there is one.
    """
    cdef PointBlock block
    cdef TextUse use
    cdef uint8_t *is_free = NULL
    cdef size_t room = 0
    cdef bint wrong = False
    memset(&use, 0, sizeof(TextUse))
    use.count = len(engine.texts)
    use.wrong = &wrong
    for block in blocks:
        if block.atom_count != engine.atom_count:
            raise ValueError("time-points with other atoms")
    try:
        make_room(<void **> &is_free, &room, most_slots(engine), 1)
        with nogil:
            visit_texts(engine, is_free, &use)
        for block in blocks:
            visit_points(block, engine.atom_texts, &use)
    finally:
        free(is_free)
    if wrong:
        raise damaged()


def forget_texts(list engines not None, AnswerBlock answers, list blocks=[]):
    """Forget the texts that nothing remembers, and give the others new numbers.

    engines: all engines that share a table of texts. Their time-points have been read.
    answers: more answers of the policies of the engines, perhaps with fewer variables, or None.
    blocks: blocks of time-points that are kept for the engines.
    """
    cdef PointBlock block
    cdef RelationalEngine engine
    cdef KeyTable texts = (<RelationalEngine?> engines[0]).texts
    cdef TextUse use
    cdef uint8_t *flags = NULL
    cdef uint8_t *is_free = NULL
    cdef uint32_t *numbers = NULL
    cdef size_t flag_room = 0, free_room = 0, number_room = 0
    cdef size_t count = len(texts)
    cdef size_t k
    cdef uint32_t kept = 0
    for engine in engines:
        if engine.texts is not texts or len(engine.points):
            raise ValueError("an engine has other texts, or time-points that have not been read")
    for block in blocks:
        if block.atom_count != engine.atom_count:
            raise ValueError("time-points with other atoms")
    try:
        make_room(<void **> &flags, &flag_room, count, 1)
        make_room(<void **> &numbers, &number_room, count, sizeof(uint32_t))
        memset(flags, 0, count)
        use.flags = flags
        use.wrong = NULL
        use.numbers = numbers
        use.count = count
        for engine in engines:
            make_room(<void **> &is_free, &free_room, most_slots(engine), 1)
            with nogil:
                memset(flags, 1, engine.constants)
                visit_texts(engine, is_free, &use)
        if answers is not None:
            visit_answers(answers, engine.kinds, &use)
        for block in blocks:
            visit_points(block, engine.atom_texts, &use)
        for k in range(count):
            numbers[k] = UINT32_MAX
            if flags[k]:
                numbers[k] = kept
                kept += 1
        texts.keep((<const char *> numbers)[:count * sizeof(uint32_t)])
        use.flags = NULL
        for engine in engines:
            with nogil:
                visit_texts(engine, is_free, &use)
                build_indexes_again(engine)
            engine.kept_texts = kept
        if answers is not None:
            visit_answers(answers, engine.kinds, &use)
        for block in blocks:
            visit_points(block, engine.atom_texts, &use)
    finally:
        free(flags)
        free(numbers)
        free(is_free)
