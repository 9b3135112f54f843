# cython: language_level=3
"""Which slices get a row, and which one owns an answer, as a `Slicing` says."""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from mtlmon.arrays.native cimport KeyTable


cdef inline bint is_among(const int64_t *cells, size_t count, int64_t cell) noexcept nogil:
    """Whether a cell is among others, which are sorted."""
    cdef size_t first = 0
    cdef size_t end = count
    cdef size_t middle
    while first < end:
        middle = (first + end) // 2
        if cells[middle] < cell:
            first = middle + 1
        else:
            end = middle
    return first < count and cells[first] == cell


cdef int64_t *read_cells(Allocations allocations, cells) except NULL:
    cdef size_t k
    cdef int64_t *found = <int64_t *> allocated(allocations, len(cells), sizeof(int64_t))
    for k in range(<size_t> len(cells)):
        found[k] = cells[k]
    return found


@final
cdef class Router:
    """Finds the slices of rows, and the owners of answers.

    routing: a `mtlmon.relational.slicing.routing.Routing`.
    texts: the table of texts whose numbers are cells.
    """

    def __cinit__(self, routing, KeyTable texts not None):
        cdef size_t k, number = 0
        self.texts = texts
        self.slices = routing.slices
        if not 1 <= self.slices <= MOST_SLICES:
            raise ValueError("too many slices")
        self.allocations = Allocations()
        self.policy_count = <uint32_t> len(routing.policies)
        self.policies = <SlicedPolicy *> allocated(
            self.allocations, self.policy_count, sizeof(SlicedPolicy)
        )
        for k in range(self.policy_count):
            read_sliced_policy(self, &self.policies[k], routing.policies[k])
        self.atom_count = <uint32_t> len(routing.atoms)
        self.first_match = <uint32_t *> allocated(
            self.allocations, self.atom_count + 1, sizeof(uint32_t)
        )
        self.matches = <Match *> allocated(
            self.allocations, sum(map(len, routing.atoms)), sizeof(Match)
        )
        for k in range(self.atom_count):
            for plan in routing.atoms[k]:
                read_match(self, &self.matches[number], plan)
                number += 1
            self.first_match[k + 1] = <uint32_t> number

    def owner_of(self, uint32_t policy, cells):
        """The slice that owns a row of cells: reported and exposed variables of a policy."""
        cdef Allocations room = Allocations()
        cdef size_t k
        if policy >= self.policy_count:
            raise ValueError(f"no policy has the number {policy}")
        for k in range(self.policies[policy].variables):
            if self.policies[policy].places[k] >= <size_t> len(cells):
                raise ValueError("too few cells")
        return self.owner(policy, read_cells(room, cells))

    cdef uint32_t owner(self, uint32_t policy, const int64_t *cells) noexcept nogil:
        """The slice that owns a row of a policy's reported and exposed variables."""
        cdef SlicedPolicy *sliced = &self.policies[policy]
        cdef SlicedGrid *grid
        cdef uint32_t bits = 0
        cdef uint32_t found = sliced.home
        cdef size_t k
        for k in range(sliced.variables):
            if is_among(sliced.heavy[k], sliced.heavy_count[k], cells[sliced.places[k]]):
                bits |= <uint32_t> 1 << k
        grid = &sliced.grids[sliced.grid_of.of[bits]]
        for k in range(sliced.variables):
            if grid.shares[k] > 1:
                found += grid.strides[k] * part_of(
                    hash_cell(
                        self.texts, cells[sliced.places[k]], sliced.is_text[k], grid.seeds[k]
                    ),
                    grid.shares[k]
                )
        return found

    cdef void route(self, uint32_t atom, const int64_t *cells, uint64_t *targets) noexcept nogil:
        """Set the bits of the slices that get a row."""
        cdef size_t m, k, j
        cdef uint32_t base, bits, target
        cdef Match *match
        cdef SlicedPolicy *policy
        cdef SlicedGrid *grid
        for m in range(self.first_match[atom], self.first_match[atom + 1]):
            match = &self.matches[m]
            policy = match.policy
            if not is_matched(match, cells):
                continue
            bits = 0
            for k in range(policy.variables):
                if match.arguments[k] != NONE and is_among(
                    policy.heavy[k], policy.heavy_count[k], cells[match.arguments[k]]
                ):
                    bits |= <uint32_t> 1 << k
            for j in range(match.first_route[bits], match.first_route[bits + 1]):
                grid = match.routes[j].grid
                base = 0
                for k in range(policy.variables):
                    if grid.shares[k] > 1 and match.arguments[k] != NONE:
                        base += grid.strides[k] * part_of(
                            hash_cell(
                                self.texts, cells[match.arguments[k]], policy.is_text[k],
                                grid.seeds[k]
                            ),
                            grid.shares[k]
                        )
                for k in range(match.routes[j].parts.count):
                    target = base + match.routes[j].parts.of[k]
                    targets[target >> 6] |= <uint64_t> 1 << (target & 63)


cdef inline bint is_matched(const Match *match, const int64_t *cells) noexcept nogil:
    """Whether a row has the constants and equal arguments of an occurrence."""
    cdef size_t k
    for k in range(match.fixed.count):
        if cells[match.fixed.of[k]] != match.constants[k]:
            return False
    for k in range(match.equal.count // 2):
        if cells[match.equal.of[2 * k]] != cells[match.equal.of[2 * k + 1]]:
            return False
    return True


cdef int read_sliced_policy(Router router, SlicedPolicy *policy, plan) except -1:
    cdef size_t k, j
    cdef SlicedGrid *grid
    policy.variables = len(plan.variables)
    if policy.variables > MOST_SLICED:
        raise ValueError("too many variables are sliced")
    policy.home = plan.home
    policy.reported = plan.reported
    policy.rank = plan.rank
    for k in range(policy.variables):
        place, is_text, heavy = plan.variables[k]
        policy.places[k] = place
        policy.is_text[k] = is_text
        policy.heavy_count[k] = len(heavy)
        policy.heavy[k] = read_cells(router.allocations, sorted(heavy))
    policy.grid_count = <uint32_t> len(plan.grids)
    policy.grids = <SlicedGrid *> allocated(
        router.allocations, len(plan.grids), sizeof(SlicedGrid)
    )
    for j in range(<size_t> len(plan.grids)):
        grid = &policy.grids[j]
        least = policy.home
        for k in range(policy.variables):
            grid.shares[k] = plan.grids[j].shares[k]
            grid.strides[k] = plan.grids[j].strides[k]
            grid.seeds[k] = chained_seed(plan.grids[j].seeds[k])
            if grid.shares[k] == 0:
                raise ValueError("a variable has no share")
            least += grid.strides[k] * (grid.shares[k] - 1)
        if least >= router.slices:
            raise ValueError("a plan names a slice that does not exist")
    policy.grid_of = read_numbers(router.allocations, plan.grid_of, len(plan.grids))
    if policy.grid_of.count != <uint32_t> 1 << policy.variables:
        raise ValueError("expected a grid for each set of variables")
    return 0


cdef int read_match(Router router, Match *match, plan) except -1:
    cdef size_t k, number = 0
    cdef SlicedPolicy *policy
    cdef Route *route
    if plan.policy >= router.policy_count:
        raise ValueError("a plan names a policy that does not exist")
    match.policy = policy = &router.policies[plan.policy]
    if len(plan.arguments) != <Py_ssize_t> policy.variables or any(
        one is not None and not 0 <= one < plan.width for one in plan.arguments
    ):
        raise ValueError("a plan names an argument that does not exist")
    for k in range(policy.variables):
        match.arguments[k] = NONE if plan.arguments[k] is None else plan.arguments[k]
    match.fixed = read_numbers(
        router.allocations, [place for place, _ in plan.constants], plan.width
    )
    match.constants = read_cells(router.allocations, [cell for _, cell in plan.constants])
    match.equal = read_numbers(
        router.allocations, [place for pair in plan.equal for place in pair], plan.width
    )
    match.first_route = <uint32_t *> allocated(
        router.allocations, len(plan.routes) + 1, sizeof(uint32_t)
    )
    match.routes = <Route *> allocated(
        router.allocations, sum(map(len, plan.routes)), sizeof(Route)
    )
    if len(plan.routes) != <Py_ssize_t> 1 << policy.variables:
        raise ValueError("expected routes for each set of variables")
    for k in range(<size_t> len(plan.routes)):
        for grid, parts in plan.routes[k]:
            if not 0 <= grid < policy.grid_count:
                raise ValueError("a plan names a grid that does not exist")
            route = &match.routes[number]
            route.grid = &policy.grids[<size_t> grid]
            route.parts = read_numbers(router.allocations, parts, router.slices)
            number += 1
        match.first_route[k + 1] = <uint32_t> number
    return 0
