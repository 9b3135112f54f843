"""Mutation testing: small faults are put into the code one by one, and the tests must notice.

python -m tests.mutation --sample 30 scanner cutting

`native` makes mutants of Cython, `python` has cosmic-ray make those of Python, `building` compiles
a mutant into a copy of the installed package, `testing` runs the tests on it within limits,
`results` remembers and counts. Which tests are nearest to a module stands in `nearest.toml`,
mutants that behave like the original in `equivalent.toml`, each with its reason.
"""
