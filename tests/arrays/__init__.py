"""Events in arrays, verdicts in arrays."""
