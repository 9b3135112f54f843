"""First-order formulas: atoms with arguments, comparisons of variables, quantifiers, aggregates."""
