# cython: language_level=3
"""The objects of a machine that a program defines, as a kernel: one for each trace."""


@final
cdef class MachineState(SavedState):
    """The states of objects, which are bytes for everything but `step_rows`.

    states: a `MachineStates`.
    """

    def step_rows(self, Batch batch not None, rows, list answers not None):
        """Let objects take the rows of a batch, and save states at its marks; see `Batch.mark`.

        rows: what the method `step` of objects takes, for each row.
        answers: gets what it returns; if it fails, those before.
        """
        cdef const int64_t *moments = batch.marks.moments
        cdef dict steps = self.states.steps
        cdef uint32_t trace
        cdef size_t mark = 0
        cdef size_t k = 0
        if self.is_by_trace or batch.is_by_trace:
            self.check_marks(batch)
        for row in rows:
            trace = batch.trace(k)
            if moments != NULL and moments[k] != NO_MARK:
                batch.marks.places[mark * batch.marks.width + self.number] = self.save(
                    trace, moments[k]
                )
                mark += 1
            step = steps.get(trace)
            if step is None:
                step = self.states.ready(trace)
            try:
                answer = step(row)
            except Exception as error:
                raise self.states.failure(error) from error
            answers.append(answer)
            k += 1

    cdef bint has_states_by_trace(self):
        return True

    cdef int begin_by_trace(self) except -1:
        self.states.be_by_trace()
        return 0

    def begin(self):
        self.states.begin()

    def undo(self):
        self.states.undo()

    def settled(self, flags):
        self.states.settled(flags)

    def keep(self, new_numbers):
        self.states.keep(new_numbers)

    def mark_texts(self, flags):
        """There are no numbers of texts."""

    def renumber_texts(self, new_numbers):
        """There are no numbers of texts."""

    def snapshot(self):
        return self.states.snapshot()

    def forget_all(self):
        self.states.forget_all()

    def restore(self, snapshot, bint from_integers=False):
        self.states.restore(snapshot)

    cdef size_t bytes_held(self):
        return <size_t> self.states.held_bytes
