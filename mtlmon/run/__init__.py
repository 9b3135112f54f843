"""A run over a log: from what is asked for to the verdicts, findings and checkpoints.

What is asked for is a `RunSpec` (`spec`): the command makes it of its arguments, `mtlmon.check` of
its keywords (`keywords`). `preparing` reads the policies and settles what they say about the log,
and `steps` chooses the work by the kinds of policies and options. A run is a generator: each step
reads and checks a piece of the log, so a program gets answers as they become known, and the command
takes all steps (`running`). What is told goes to the run's `Host` (`host`), and signals, progress
and the terminal come from it: the command's is `cli/terminal`, and a program's collects.

Answers are written as bytes, or kept as record batches (`BatchOutput`) until the program takes
them. Both ways give the same answers, remarks and exit status: `tests/run` compares them.
"""
