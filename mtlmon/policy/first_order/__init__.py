"""First-order formulas: atoms with arguments, comparisons of variables, quantifiers, aggregates.

They are `Formula` as well. Quantifiers, predicates and comparisons have a `value`: variables, or
terms, of which `mtlmon.syntax` knows only that they can be compared, hashed and printed. The
formulas of the aggregates in terms are operands of the predicate or comparison, and the terms hold
their numbers. So every pass over formulas reaches them without recursion. Whether a formula has
variables is decided before it is parsed (`recognition`), by its first quantifier or arguments.
"""
