# cython: language_level=3
"""Boolean expressions over obligations: conjunction, substitution, reduction by chains.

Equivalent expressions have equal numbers. Cubes and clauses are processed as sorted literals; only
other functions use BDDs, and the result of a BDD operation that is a cube or a clause is converted
back to the native form.

The variables of one family whose windows are open form a chain: the sooner its window ends, the
more an obligation demands, so u(5) implies u(7). Where no window of a family has an end, those that
are ahead are part of the chain: the later a window begins, the more is demanded. Every expression
is reduced to a unique representative modulo these implications. Of a cube's literals in a chain,
the least positive and the greatest negative one stay (`_reduce_cube`). A BDD is projected to
permitted assignments, and freed of slots that make no difference there
(`bdd.Manager.modulo_chains`). Both must give the same representative, or equal pending expressions
could go unnoticed.

The order within chains depends on the state, so memo tables store what was true before the
reduction. The reduction of a BDD has a memo of its own, whose key contains the order.

Obligations are freed when an event settles them. Those that no stored expression mentions are swept
when they outnumber the ones that the last sweep left. The workspace is compacted when its tables
have outgrown the stored expressions several times over.
"""

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final, no_gc
from libc.stdint cimport UINT64_MAX
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy


from mtlmon.errors import LimitError

cdef extern from *:
    """
    /* Builds that check themselves compact often, so that tests come across it. */
    #if MTLMON_CHECKS
    enum { LEAST_COMPACTION = 1 << 5, LEAST_POOL_COMPACTION = 1 << 7, LEAST_MIXED_COMPACTION = 8 };
    #else
    enum {
        LEAST_COMPACTION = 1 << 13, LEAST_POOL_COMPACTION = 1 << 17,
        LEAST_MIXED_COMPACTION = 1 << 10
    };
    #endif
    """
    # The numbers of nodes, pool items and BDDs below which a compaction is not worthwhile.
    cdef enum:
        LEAST_COMPACTION
        LEAST_POOL_COMPACTION
        LEAST_MIXED_COMPACTION

cdef enum:
    FIRST_PAIRS = 1 << 6
    MOST_PAIRS = 1 << 12
    # The largest size of the usual memo tables, and how much smaller they can become.
    MEMO_BYTES = 7 << 15
    MOST_MEMO_SHIFT = 6
    # The size of a Function of dd, with its entries in the two dictionaries: measured.
    FUNCTION_BYTES = 260
    EXACT_LEVELS_FROM = 1 << 8      # below, a sum that counts slots several times is precise enough
    REDUCTION = 1 << 31     # marks a reduction, not a substitution, among memo subjects


cdef inline PairEntry *pair_entry(
    PairEntry *pairs, uint32_t size, Expression left, Expression right
) noexcept nogil:
    """The memo's entry for the conjunction of two expressions."""
    cdef uint64_t value = (<uint64_t> left << 32 | right) * 0x9E3779B97F4A7C15ULL
    return &pairs[(value >> 40) & (size - 1)]


@final
@no_gc
cdef class Workspace(NodeTable):
    """The expression tables and memo tables of one thread that works on one program.

    Ids are a cache of this workspace: they become invalid with it.

    The workspace does not refer to its owners, so it is not part of any cycle, and the garbage
    collector need not traverse it: the workspace always releases BDDs itself, and releases their
    manager after the last one.
    """

    def __cinit__(self, Program program not None, str bdd_choice):
        self.bdd_choice = bdd_choice
        self.functions = {}
        self.node_of_function = {}
        self.patience = PATIENCE
        self._allocate()
        self.set_compaction(1)

    cdef int _allocate(self) except -1:
        cdef size_t families = self.program.family_count + 1
        cdef size_t number
        cdef const Instruction *instruction
        self.chain_least = <uint32_t *> calloc(families, sizeof(uint32_t))
        self.chain_greatest = <uint32_t *> calloc(families, sizeof(uint32_t))
        self.is_endless = <bint *> calloc(families, sizeof(bint))
        if self.chain_least == NULL or self.chain_greatest == NULL or self.is_endless == NULL:
            raise MemoryError("mtlmon: out of memory")
        for number in range(families):
            self.is_endless[number] = True
        for number in range(self.program.instruction_count):
            instruction = &self.program.instructions[number]
            if instruction.operation == OP_UNTIL and instruction.upper != UNBOUNDED():
                self.is_endless[instruction.index] = False
        return 0

    def __dealloc__(self):
        free_memo(&self.memo)
        free(self.merged)
        free(self.images)
        free(self.chain_least)
        free(self.chain_greatest)
        free(self.is_endless)
        free(self.pairs)

    cdef int look_at_signals(self) except -1 nogil:
        """Let Python's signal handlers run, which may raise, as an event can take long.

        They run only in the main thread. Other threads stop when the process is about to end.
        """
        self.patience = PATIENCE
        with gil:
            PyErr_CheckSignals()
            if is_signalled() and not is_main_thread():
                raise KeyboardInterrupt
        return 0

    # ---- conjunction -----------------------------------------------------------------------

    cdef Expression conjoin(self, Expression left, Expression right) except? NO_EXPRESSION nogil:
        """left AND right for two different expressions that are not constant."""
        cdef PairEntry *entry
        cdef Expression result
        if left > right:
            left, right = right, left
        if (
            2 * self.pair_count >= self.pairs_size
            and self.pairs_size < <uint32_t> MOST_PAIRS >> self.memo_shift
        ):
            self._grow_pairs()
        entry = pair_entry(self.pairs, self.pairs_size, left, right)
        if entry.left == left and entry.right == right:
            result = entry.result
        else:
            spend(self, self.nodes[left >> 1].length + self.nodes[right >> 1].length)
            result = self._conjoin_raw(left, right)
            # Computing the result may have moved the table. Empty entries have 0, the number of a
            # constant.
            entry = pair_entry(self.pairs, self.pairs_size, left, right)
            self.pair_count += entry.left == 0
            entry.left = left
            entry.right = right
            entry.result = result
        return self._reduce(result)

    cdef int _grow_pairs(self) except -1 nogil:
        """Enlarge the memo of conjunctions, which starts small as there may be many workspaces."""
        cdef uint32_t size = min(
            4 * self.pairs_size if self.pairs_size else <uint32_t> FIRST_PAIRS,
            <uint32_t> MOST_PAIRS >> self.memo_shift,
        )
        cdef uint32_t i
        cdef PairEntry *entry
        cdef PairEntry *pairs = <PairEntry *> calloc(size, sizeof(PairEntry))
        if pairs == NULL:
            with gil:
                raise MemoryError("mtlmon: out of memory")
        self.pair_count = 0
        for i in range(self.pairs_size):
            if self.pairs[i].left:
                entry = pair_entry(pairs, size, self.pairs[i].left, self.pairs[i].right)
                self.pair_count += entry.left == 0
                entry[0] = self.pairs[i]
        free(self.pairs)
        self.pairs = pairs
        self.pairs_size = size
        return 0

    cdef uint32_t _view(
        self, Expression expression, const uint32_t **literals, uint32_t *single
    ) noexcept nogil:
        """The literals of a conjunction; 0 for other expressions.

        `single` receives the literal of a negated variable.
        """
        cdef Node *node = &self.nodes[expression >> 1]
        if node.kind != NODE_CUBE:
            return 0
        if expression & 1:
            if node.length != 1:
                return 0
            single[0] = self.pool[node.start] ^ 1
            literals[0] = single
        else:
            literals[0] = self.pool + node.start
        return node.length

    cdef Expression _conjoin_raw(
        self, Expression left, Expression right
    ) except? NO_EXPRESSION nogil:
        cdef const uint32_t *left_literals
        cdef const uint32_t *right_literals
        cdef uint32_t left_single, right_single
        cdef uint32_t left_length = self._view(left, &left_literals, &left_single)
        cdef uint32_t right_length = self._view(right, &right_literals, &right_single)
        if left_length and right_length:
            return self._conjoin_cubes(left_literals, left_length, right_literals, right_length)
        if left_length and self.nodes[right >> 1].kind == NODE_CUBE:
            return self._conjoin_clause(left, left_literals, left_length, right)
        if right_length and self.nodes[left >> 1].kind == NODE_CUBE:
            return self._conjoin_clause(right, right_literals, right_length, left)
        return self._conjoin_mixed(left, right)

    cdef Expression _conjoin_cubes(
        self, const uint32_t *left, uint32_t left_length, const uint32_t *right,
        uint32_t right_length
    ) except? NO_EXPRESSION nogil:
        cdef uint32_t i = 0
        cdef uint32_t j = 0
        cdef uint32_t count = 0
        reserve(
            <void **> &self.merged, &self.merged_capacity, <size_t> left_length + right_length,
            sizeof(uint32_t)
        )
        while i < left_length and j < right_length:
            if left[i] == right[j] ^ 1:
                return FALSE_EXPRESSION
            if left[i] < right[j]:
                self.merged[count] = left[i]
                i += 1
            else:
                self.merged[count] = right[j]
                i += left[i] == right[j]
                j += 1
            count += 1
        while i < left_length:
            self.merged[count] = left[i]
            i += 1
            count += 1
        while j < right_length:
            self.merged[count] = right[j]
            j += 1
            count += 1
        return self.intern_cube(self.merged, count)

    cdef Expression _conjoin_clause(
        self, Expression cube, const uint32_t *literals, uint32_t length, Expression clause
    ) except? NO_EXPRESSION nogil:
        """Conjoin a cube and a clause, which is the negation of a cube of at least two literals."""
        cdef Node *node = &self.nodes[clause >> 1]
        cdef const uint32_t *negated = self.pool + node.start
        cdef uint32_t i = 0
        cdef uint32_t j
        cdef uint32_t left_over = 0
        cdef uint32_t kept = 0
        for j in range(node.length):
            while i < length and literals[i] >> 1 < negated[j] >> 1:
                i += 1
            if i < length and literals[i] == negated[j] ^ 1:
                return cube
            if i == length or literals[i] != negated[j]:
                left_over = negated[j] ^ 1
                kept += 1
        if kept == 0:
            return FALSE_EXPRESSION
        if kept == 1:
            return self._conjoin_cubes(literals, length, &left_over, 1)
        return self._conjoin_mixed(cube, clause)

    cdef Expression _conjoin_mixed(
        self, Expression left, Expression right
    ) except? NO_EXPRESSION nogil:
        cdef Expression[2] both
        both[0] = left
        both[1] = right
        self.bdd_operations += 1
        with gil:
            left_function = self._function(left)
            right_function = self._function(right)
            return self._intern_function(
                self.ask("conjunction", (left_function, right_function, self._levels(both, 2)))
            )

    # ---- substitution ----------------------------------------------------------------------

    cdef Expression substitute(
        self, Expression expression, ImageOf image_of, void *context
    ) except? NO_EXPRESSION nogil:
        """Replace every slot of the expression by its image, simultaneously."""
        cdef uint32_t node = expression >> 1
        cdef Expression result
        if self.nodes[node].kind == NODE_CONSTANT:
            return expression
        spend(self, self.nodes[node].length)
        if self.nodes[node].kind == NODE_MIXED:
            result = self._substitute_mixed(node, image_of, context)
        elif self.nodes[node].length == 1:
            result = image_of(self, context, self.pool[self.nodes[node].start] >> 1)
        else:
            result = self._substitute_cube(node, image_of, context)
        return result ^ (expression & 1)

    cdef Expression _substitute_cube(
        self, uint32_t node, ImageOf image_of, void *context
    ) except? NO_EXPRESSION nogil:
        cdef uint32_t base = self.image_count
        cdef uint32_t i, item
        cdef Expression image
        for i in range(self.nodes[node].length):
            item = self.pool[self.nodes[node].start + i]
            image = image_of(self, context, item >> 1) ^ (item & 1)
            if image == FALSE_EXPRESSION:
                self.image_count = base
                return FALSE_EXPRESSION
            self.push(image)
        return self.conjoin_pushed(base, node)

    cdef int push(self, Expression expression) except -1 nogil:
        """Put an operand of `conjoin_pushed` on the stack."""
        reserve(
            <void **> &self.images, &self.image_capacity, <size_t> self.image_count + 1,
            sizeof(uint32_t)
        )
        self.images[self.image_count] = expression
        self.image_count += 1
        return 0

    cdef Expression conjoin_pushed(
        self, uint32_t base, uint32_t likely
    ) except? NO_EXPRESSION nogil:
        """The conjunction of all expressions on the stack from `base` on, which are removed.

        Literals among them are gathered and interned once; the rest is conjoined one by one.
        `likely` is the node that the gathered literals probably form, or 0.
        """
        cdef uint32_t length = self.image_count - base
        cdef uint32_t gathered = 0
        cdef uint32_t i, j, count
        cdef uint32_t single = 0
        cdef const uint32_t *literals = NULL
        cdef Expression result
        for i in range(length):
            if self.images[base + i] == FALSE_EXPRESSION:
                self.image_count = base
                return FALSE_EXPRESSION
            count = self._view(self.images[base + i], &literals, &single)
            if count == 0:
                continue
            reserve(
                <void **> &self.merged, &self.merged_capacity, <size_t> gathered + count,
                sizeof(uint32_t)
            )
            for j in range(count):
                self.merged[gathered + j] = literals[j]
            gathered += count
            self.images[base + i] = TRUE_EXPRESSION
        spend(self, gathered)
        sort_items(self.merged, gathered)
        count = 0
        for i in range(gathered):
            if count and self.merged[count - 1] == self.merged[i]:
                continue
            if count and self.merged[count - 1] == self.merged[i] ^ 1:
                self.image_count = base
                return FALSE_EXPRESSION
            self.merged[count] = self.merged[i]
            count += 1
        if count:
            count = self._reduce_literals(count)
            if count == self.nodes[likely].length and memcmp(
                self.merged, self.pool + self.nodes[likely].start, count * sizeof(uint32_t)
            ) == 0:
                result = 2 * likely
            else:
                result = self.intern_cube(self.merged, count) if count else FALSE_EXPRESSION
        else:
            result = TRUE_EXPRESSION
        for i in range(length):
            result = conjunction(self, result, self.images[base + i])
        self.image_count = base
        return result

    cdef Expression _substitute_mixed(
        self, uint32_t node, ImageOf image_of, void *context
    ) except? NO_EXPRESSION nogil:
        cdef uint32_t base = self.image_count
        cdef uint32_t length = self.nodes[node].length
        cdef uint32_t i
        cdef Expression image
        cdef Expression result = NO_EXPRESSION
        reserve(
            <void **> &self.images, &self.image_capacity, <size_t> base + length, sizeof(uint32_t)
        )
        self.image_count = base + length
        for i in range(length):
            image = image_of(self, context, self.pool[self.nodes[node].start + i])
            self.images[base + i] = image
        if not recall(&self.memo, node, self.images + base, length, &result):
            self.bdd_operations += 1
            with gil:
                result = self._compose(node, base)
            remember(&self.memo, node, self.images + base, length, result)
        self.image_count = base
        return self._reduce(result)

    cdef Expression _compose(self, uint32_t node, uint32_t base) except? NO_EXPRESSION:
        """Replace the slots of a mixed node by the expressions from `images[base]` on."""
        cdef uint32_t i
        slots = []
        functions = []
        for i in range(self.nodes[node].length):
            slots.append(self.pool[self.nodes[node].start + i])
            functions.append(self._function(self.images[base + i]))
        return self._intern_function(
            self.ask(
                "compose",
                (
                    self.functions[node], slots, functions,
                    self._levels(self.images + base, self.nodes[node].length),
                ),
            )
        )

    cdef uint32_t _levels(self, const Expression *expressions, uint32_t count) except? 0:
        """The number of slots that the expressions mention together."""
        cdef size_t total = 0
        cdef uint32_t i, j, shift
        cdef Node *node
        for i in range(count):
            total += self.nodes[expressions[i] >> 1].length
        if total <= EXACT_LEVELS_FROM:
            return <uint32_t> total
        slots = set()
        for i in range(count):
            node = &self.nodes[expressions[i] >> 1]
            shift = node.kind == NODE_CUBE
            slots.update([self.pool[node.start + j] >> shift for j in range(node.length)])
        return <uint32_t> len(slots)

    # ---- chains ----------------------------------------------------------------------------

    cdef bint _is_in_chain(self, uint32_t slot) noexcept nogil:
        """Whether the slot is part of the chain of its family."""
        cdef const Window *window
        cdef uint32_t family = family_of(&self.slots, slot)
        if family == NO_FAMILY:
            return False
        window = &self.families[family].windows[member_of(&self.slots, slot)]
        return window.phase == PHASE_OPEN or (
            self.is_endless[family] and window.phase == PHASE_CLOSED
        )

    cdef uint64_t _place_in_chain(self, uint32_t slot) noexcept nogil:
        """A slot implies those of its chain that have a greater place."""
        cdef const Window *window = &self.families[
            family_of(&self.slots, slot)
        ].windows[member_of(&self.slots, slot)]
        return window.upper if window.phase == PHASE_OPEN else UINT64_MAX - window.lower

    cdef Expression _reduce(self, Expression expression) except? NO_EXPRESSION nogil:
        """The representative of an expression modulo the implications between windows."""
        cdef uint32_t node = expression >> 1
        cdef Expression result
        if not self.nodes[node].may_chain:
            return expression
        if self.nodes[node].kind == NODE_CUBE:
            result = self._reduce_cube(node)
        else:
            result = self._reduce_mixed(node)
        return result ^ (expression & 1)

    cdef Expression _reduce_cube(self, uint32_t node) except? NO_EXPRESSION nogil:
        cdef uint32_t length = self.nodes[node].length
        cdef uint32_t count
        reserve(<void **> &self.merged, &self.merged_capacity, length, sizeof(uint32_t))
        memcpy(
            self.merged, self.pool + self.nodes[node].start, length * sizeof(uint32_t)
        )
        count = self._reduce_literals(length)
        if count == 0:
            return FALSE_EXPRESSION
        return 2 * node if count == length else self.intern_cube(self.merged, count)

    cdef uint32_t _reduce_literals(self, uint32_t length) noexcept nogil:
        """Reduce the conjunction of the first `length` literals of the scratch memory, in place.

        Of each chain, keep the least positive and the greatest negative literal: u(5) AND u(7) is
        u(5); NOT u(5) AND NOT u(7) is NOT u(7); u(5) AND NOT u(7) is false. Returns how many
        literals are left, or 0 if the conjunction is false.
        """
        cdef uint32_t *literals = self.merged
        cdef uint32_t i, family, item
        cdef uint32_t count = 0
        cdef uint32_t *best
        cdef bint is_false = False
        for i in range(length):
            if not self._is_in_chain(literals[i] >> 1):
                continue
            family = family_of(&self.slots, literals[i] >> 1)
            best = &self.chain_greatest[family] if literals[i] & 1 else &self.chain_least[family]
            if best[0] == 0 or (
                self._place_in_chain(literals[i] >> 1) > self._place_in_chain(best[0] - 1 >> 1)
            ) == (literals[i] & 1):
                best[0] = literals[i] + 1
        for i in range(length):
            item = literals[i]
            if self._is_in_chain(item >> 1):
                family = family_of(&self.slots, item >> 1)
                if self.chain_least[family] and self.chain_greatest[family]:
                    is_false |= (
                        self._place_in_chain(self.chain_least[family] - 1 >> 1)
                        <= self._place_in_chain(self.chain_greatest[family] - 1 >> 1)
                    )
                best = (
                    &self.chain_greatest[family] if item & 1 else &self.chain_least[family]
                )
                if best[0] != item + 1:
                    # Moved behind the others, where the loop over families below finds them.
                    continue
            literals[count], literals[i] = item, literals[count]
            count += 1
        for i in range(length):
            family = family_of(&self.slots, literals[i] >> 1)
            if family != NO_FAMILY:
                self.chain_least[family] = self.chain_greatest[family] = 0
        return 0 if is_false else count

    cdef Expression _reduce_mixed(self, uint32_t node) except? NO_EXPRESSION nogil:
        cdef uint32_t length = self.nodes[node].length
        cdef uint32_t base = self.image_count
        cdef uint32_t count = 0
        cdef uint32_t i, j, slot, family
        cdef bint in_chain = False
        cdef Expression result
        # The slots in chains, by family and place: the reduction depends on nothing else.
        reserve(
            <void **> &self.images, &self.image_capacity, <size_t> base + length, sizeof(uint32_t)
        )
        self.image_count = base + length
        for i in range(length):
            slot = self.pool[self.nodes[node].start + i]
            if not self._is_in_chain(slot):
                continue
            family = family_of(&self.slots, slot)
            j = base + count
            while j > base and (
                family_of(&self.slots, self.images[j - 1]) > family
                or (
                    family_of(&self.slots, self.images[j - 1]) == family
                    and self._place_in_chain(self.images[j - 1]) > self._place_in_chain(slot)
                )
            ):
                self.images[j] = self.images[j - 1]
                j -= 1
            self.images[j] = slot
            in_chain |= j > base and family_of(&self.slots, self.images[j - 1]) == family
            in_chain |= j < base + count and family_of(&self.slots, self.images[j + 1]) == family
            count += 1
        result = 2 * node
        if in_chain:
            if not recall(&self.memo, node | REDUCTION, self.images + base, count, &result):
                self.bdd_operations += 1
                with gil:
                    result = self._modulo_chains(node, base, count)
                remember(&self.memo, node | REDUCTION, self.images + base, count, result)
        self.image_count = base
        return result

    cdef Expression _modulo_chains(
        self, uint32_t node, uint32_t base, uint32_t count
    ) except? NO_EXPRESSION:
        """Reduce a mixed node by the chains among the `count` slots from `images[base]` on."""
        cdef uint32_t i, slot
        chains = {}
        for i in range(count):
            slot = self.images[base + i]
            chains.setdefault(family_of(&self.slots, slot), []).append(slot)
        return self._intern_function(
            self.ask(
                "modulo_chains",
                (self.functions[node], [chain for chain in chains.values() if len(chain) > 1]),
            )
        )

    # ---- mixed functions -------------------------------------------------------------------

    cdef object ask(self, str method, tuple arguments):
        """Call a method of the BDD manager.

        The manager's functions must be released before the manager. The traceback of an error, for
        example an interrupt, keeps the manager's frames and their functions alive indefinitely, and
        the garbage collector clears the members of a cycle in any order. So the frames are cleared.
        """
        try:
            return getattr(self.manager, method)(*arguments)
        except BaseException as error:
            from traceback import clear_frames

            # A limit is noticed before any work begins.
            if not isinstance(error, LimitError):
                self.manager.give_up_counting()
            clear_frames(error.__traceback__)
            raise

    cdef object _negated(self, object function):
        try:
            return ~function
        except BaseException:
            self.manager.give_up_counting()
            raise

    cdef object _function(self, Expression expression):
        """The BDD of an expression; BDDs of cubes are created on demand and kept."""
        cdef uint32_t number = expression >> 1
        cdef Node *node = &self.nodes[number]
        self._require_manager()
        function = self.functions.get(number)
        if function is None:
            # The empty conjunction is true, and the constant node represents false.
            literals = [self.pool[node.start + i] for i in range(node.length)]
            function = self.ask("cube", (literals,))
            if node.kind == NODE_CONSTANT:
                function = self._negated(function)
            self.functions[number] = function
        return self._negated(function) if expression & 1 else function

    cdef int _require_manager(self) except -1:
        if self.manager is None:
            from mtlmon.engine.expressions.bdd import Manager

            self.manager = Manager(self.bdd_choice)
        return 0

    cdef Expression intern_nodes(self, list nodes, uint64_t root) except? NO_EXPRESSION:
        """The expression of nodes that the BDD manager of another workspace has exported."""
        self._require_manager()
        return self._intern_function(self.ask("build", (nodes, root)))

    cdef Expression _intern_function(self, object function) except? NO_EXPRESSION:
        """The expression of a BDD: native if it is a constant, a cube or a clause."""
        cdef uint32_t complement, number
        if self.room != NO_LIMIT():
            self._count_bdds()
            self.require_room(self._native_bytes() + self.bdd_bytes)
        constant = self.ask("constant", (function,))
        if constant is not None:
            return TRUE_EXPRESSION if constant else FALSE_EXPRESSION
        number = self.node_of_function.get(int(function), 0)
        if number:
            return 2 * number
        number = self.node_of_function.get(int(self._negated(function)), 0)
        if number:
            return 2 * number + 1
        for complement in range(2):
            candidate = self._negated(function) if complement else function
            literals = self.ask("literals_of_cube", (candidate,))
            if literals is not None:
                self._take(literals)
                return self.intern_cube(self.merged, <uint32_t> len(literals)) ^ complement
        support = self.ask("support", (function,))
        self._take(support)
        number = self.new_node(NODE_MIXED, self.merged, <uint32_t> len(support))
        self.functions[number] = function
        self.node_of_function[int(function)] = number
        return 2 * number

    cdef int _take(self, list items) except -1:
        """Copy the items into the scratch memory."""
        cdef Py_ssize_t i
        reserve(<void **> &self.merged, &self.merged_capacity, len(items), sizeof(uint32_t))
        for i in range(len(items)):
            self.merged[i] = items[i]
        return 0

    # ---- memory ----------------------------------------------------------------------------

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that expressions take, including the current size of the BDDs."""
        if self.manager is not None:
            with gil:
                try:
                    self._count_bdds()
                except Exception:
                    # The last known size is good enough if even that fails.
                    pass
        return self._native_bytes() + self.bdd_bytes

    cdef size_t _native_bytes(self) noexcept nogil:
        """The bytes of everything except the BDDs."""
        return (
            self.node_bytes()
            + (
                <size_t> self.merged_capacity + self.image_capacity
                + 2 * (<size_t> self.program.family_count + 1)
            ) * sizeof(uint32_t)
            + self.pairs_size * sizeof(PairEntry)
            + held_by_memo(&self.memo)
        )

    cdef int set_memo_share(self, size_t share) except -1:
        """Limit the memo tables to a share of the available memory."""
        cdef uint32_t shift = 0
        while shift < MOST_MEMO_SHIFT and MEMO_BYTES >> shift > share:
            shift += 1
        return self.shrink_memos(shift)

    cdef int shrink_memos(self, uint32_t shift) except -1:
        """Clear the memo tables, and let them grow up to this size from now on."""
        cdef uint64_t flushes = self.memo.flushes
        if shift == self.memo_shift:
            return 0
        free(self.pairs)
        self.pairs = NULL
        self.pairs_size = self.pair_count = 0
        self.memo_shift = shift
        free_memo(&self.memo)
        self.memo.shift = shift
        self.memo.flushes = flushes
        self.set_compaction(1)
        return 0

    cdef int _count_bdds(self) except -1:
        self.bdd_bytes = <size_t> (
            self.manager.held_bytes + FUNCTION_BYTES * len(self.functions)
        )
        return 0

    # ---- compaction ------------------------------------------------------------------------

    cdef Workspace compacted(self, Expression **roots, size_t root_count):
        """A new workspace that has only the roots, which are renumbered in place.

        Slots keep their numbers. The BDD manager is new too, so that it has few variables.
        """
        cdef Workspace fresh = Workspace(self.program, self.bdd_choice)
        cdef Expression *copies
        cdef size_t i
        cdef uint32_t block, node
        fresh.families = self.families
        for block in range(self.slots.block_count):
            add_blocks(
                &fresh.slots, self.slots.blocks[block].family, self.slots.blocks[block].first_member
            )
        copies = <Expression *> calloc(self.node_count, sizeof(Expression))
        if copies == NULL:
            raise MemoryError("mtlmon: out of memory")
        try:
            for i in range(root_count):
                node = roots[i][0] >> 1
                if node and copies[node] == 0:
                    copies[node] = self._copy_node(node, fresh)
            for i in range(root_count):
                roots[i][0] = copies[roots[i][0] >> 1] ^ (roots[i][0] & 1)
        finally:
            free(copies)
        fresh.shrink_memos(self.memo_shift)
        fresh.room = self.room
        fresh.memory = self.memory
        fresh.memo.flushes = self.memo.flushes
        fresh.bdd_operations = self.bdd_operations
        fresh.compactions = self.compactions + 1
        fresh.set_compaction(2 if self.memo_shift else 4)
        return fresh

    cdef void set_compaction(self, uint32_t growth) noexcept nogil:
        """Compact once the tables have grown by this factor; sooner if memory is scarce."""
        self.compact_at = max(
            <uint32_t> LEAST_COMPACTION >> self.memo_shift, growth * self.node_count
        )
        self.compact_pool_at = max(
            <uint32_t> LEAST_POOL_COMPACTION >> self.memo_shift, growth * self.pool_count
        )
        self.compact_mixed_at = max(
            <uint32_t> LEAST_MIXED_COMPACTION >> self.memo_shift, growth * self.mixed_count
        )

    cdef Expression _copy_node(self, uint32_t number, Workspace target) except? NO_EXPRESSION:
        cdef Node *node = &self.nodes[number]
        cdef Expression copy
        if node.kind == NODE_CUBE:
            return target.intern_cube(self.pool + node.start, node.length)
        if target.manager is None:
            target.manager = type(self.manager)(self.bdd_choice)
        slots = [self.pool[node.start + i] for i in range(node.length)]
        function = self.ask("copy", (self.functions[number], target.manager, slots))
        copy = 2 * target.new_node(NODE_MIXED, self.pool + node.start, node.length)
        target.functions[copy >> 1] = function
        target.node_of_function[int(function)] = copy >> 1
        return copy


cdef bint is_main_thread():
    from threading import current_thread, main_thread

    return current_thread() is main_thread()
